/*
 * own_imports.h: blocks of a pool that this process has exported, and imported again itself.
 *
 * An imported block keeps its memory on the card when the exporter has freed it, its pool is
 * destroyed and the card's own tools show it for nobody (measured): until the pool that it was
 * imported to is destroyed. Of another process it is that one's. Of our own it is charged, from
 * the import on and a second time while the first block lives, and is never refused.
 */
#ifndef GB_INTERPOSE_OWN_IMPORTS_H
#define GB_INTERPOSE_OWN_IMPORTS_H

#include "interpose/process.h"

#include <stdatomic.h>
#include <stdbool.h>

/* Imports that are charged: with none, a free costs a load. */
extern _Atomic unsigned gb_own_imports;

static inline bool gb_own_imports_any(void)
{
    return atomic_load_explicit(&gb_own_imports, memory_order_relaxed) != 0;
}

/*
 * The driver has exported the block with this data. Remembered also when the block is freed,
 * because what is to be freed in stream order is still there. False: there is no memory to
 * remember it, so the program must not have it.
 */
bool gb_own_exported(struct gb_driver *drv, const CUmemPoolPtrExportData *data,
                     CUdeviceptr pointer);

/*
 * Before the driver imports a block: charges it where it is ours. Writes NULL where it is not.
 * False: there is no memory to remember it, and it must not be imported. gb_own_import_ends
 * follows with the driver's answer.
 */
struct gb_own_import;
bool gb_own_import_begins(struct gb_driver *drv, CUmemoryPool pool,
                          const CUmemPoolPtrExportData *data, struct gb_own_import **import);
void gb_own_import_ends(struct gb_own_import *import, bool imported, CUdeviceptr pointer);

/*
 * Around the free of an imported block, where gb_own_imports_any; NULL: it is none. freed: the
 * driver did it.
 */
struct gb_own_import *gb_own_free_begins(CUdeviceptr pointer);
void gb_own_free_ends(struct gb_own_import *import, bool freed);

/*
 * A pool has been destroyed: what was imported to it before `moment` leaves the ledger, blocks
 * that are not freed when they are. By now another pool may have the same handle.
 */
uint64_t gb_own_moment(void);
void gb_own_pool_ended(struct gb_driver *drv, CUmemoryPool pool, uint64_t moment);

#endif
