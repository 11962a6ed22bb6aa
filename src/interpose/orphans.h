/*
 * orphans.h: blocks that outlive their memory pool.
 *
 * In footprint mode blocks of a pool have no entry of their own; once the program has destroyed
 * the pool there is no gauge either. Only then are frees of unknown pointers looked at.
 */
#ifndef GB_INTERPOSE_ORPHANS_H
#define GB_INTERPOSE_ORPHANS_H

#include "interpose/process.h"

struct gb_orphan {
    struct gb_device *device; /* NULL: not such a block */
    struct gb_pool *pool;
    uint64_t bytes;
    bool living; /* no orphan: a block of a pool that is still there */
};

/* Before the driver's free. One load where no destroyed pool has blocks left. */
void gb_orphan_look(struct gb_driver *drv, CUdeviceptr pointer, struct gb_orphan *orphan);

/* The same before cuMemFree, after which blocks of living pools have to be looked at as well.
 */
void gb_orphan_look_at_once(struct gb_driver *drv, CUdeviceptr pointer,
                            struct gb_orphan *orphan);

/* After its success: the bytes leave the ledger at once ... */
void gb_orphan_freed(const struct gb_orphan *orphan);

/* ... or when the stream has reached this point. */
void gb_orphan_freed_on(const struct gb_orphan *orphan, struct gb_driver *drv,
                        const struct gb_stream_call *call);

#endif
