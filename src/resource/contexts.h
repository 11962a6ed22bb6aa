/*
 * contexts.h: the contexts of one device and what each was measured to take.
 */
#ifndef GB_RESOURCE_CONTEXTS_H
#define GB_RESOURCE_CONTEXTS_H

#include "driver/api.h"

#include <stdbool.h>
#include <stdint.h>

#include "resource/hash.h"
#include "resource/ledger.h"
#include "resource/lock.h"

/* Taken for a context's size where nothing can measure it; more than any seen so far. */
#define GB_CONTEXT_ESTIMATE (UINT64_C(640) << 20)

/* Less is no context: a neighbour has given memory back at the same moment. */
#define GB_CONTEXT_LEAST (UINT64_C(32) << 20)

/* What the card's own tools show for this process on the device; false: they cannot tell. */
typedef bool (*gb_measure_fn)(void *arg, uint64_t *bytes);

struct gb_context {
    CUcontext handle; /* the key: heap objects of the drivers, so no two copies share one */
    const struct gb_driver_api *api;
    uint64_t serial;  /* tells it from a later context with the same handle; never 0 */
    uint64_t charged; /* bytes, in the ledger while the entry exists */
    uint64_t local;   /* local memory it has room for, bytes a thread; 0: not known */
    bool primary;
    bool heap;      /* its device heap has come */
    uint64_t nodes; /* kernels of executables that are beside one another */
    uint64_t
        node_bytes; /* that have come for such kernels, also of executables that are gone */
    uint64_t
        frames; /* local memory for functions of the driver that has come, bytes a thread */
    UT_hash_handle hh;
};

/*
 * Invariant: the charges of all entries are in the ledger, so that measured size of the process
 * = contexts + everything else tracked that the card's tools attribute to it.
 */
struct gb_contexts {
    struct gb_lock lock;
    struct gb_context *table;
    struct gpubudget_accounting *ledger;
    uint64_t unplaced; /* kernels as above, of which it is not known in which context */
    _Atomic int count;
    _Atomic uint64_t charged; /* all entries */
    _Atomic uint64_t learned; /* what the last context measured alone took; 0: none yet */
    _Atomic uint64_t sampled; /* the same, by the card's free memory; for want of better */
    _Atomic int making;       /* contexts that are being created now */
    gb_measure_fn measure;    /* NULL: contexts are not charged */
    void *measure_arg;
    _Atomic bool estimated; /* the last size is an estimate */
    _Atomic(CUcontext)
        gone; /* the last one that ended: it may still be a thread's current one */
};

void gb_contexts_init(struct gb_contexts *contexts, struct gpubudget_accounting *ledger);
void gb_contexts_clear(struct gb_contexts *contexts);
void gb_contexts_forked(struct gb_contexts *contexts);

/* The serial under which this context has been noted; 0: it has not. */
uint64_t gb_contexts_serial(struct gb_contexts *contexts, CUcontext handle);

/* A context with this handle has been made, and has not ended since. */
void gb_contexts_came(struct gb_contexts *contexts, CUcontext handle);

/* Bytes the process has on the device by the card's own tools; false: cannot tell. */
bool gb_contexts_measure(struct gb_contexts *contexts, uint64_t *bytes);

/* What the next context will be charged with, as far as is known; 0: it is not. */
uint64_t gb_contexts_expected(struct gb_contexts *contexts);

/*
 * Where the tools do not tell: while a context was made the card lost so much, and rested
 * before and after. Believed where it can be a context, since a neighbour may have moved too.
 */
void gb_contexts_sampled(struct gb_contexts *contexts, int64_t lost);

/*
 * A context has come into being: charges what it was measured to take. known_before and before:
 * the measured figure before the call; tracked_before: what else was tracked then; tracked: now
 * (bytes that the card's tools attribute to the process, contexts left out). Writes the bytes
 * charged, 0 for a context that is known already; false when there is no memory for the entry.
 */
bool gb_contexts_add(struct gb_contexts *contexts, const struct gb_driver_api *api,
                     CUcontext handle, bool primary, bool known_before, uint64_t before,
                     uint64_t tracked_before, uint64_t tracked, uint64_t *charged);

/*
 * The context of that handle and serial has ended: takes its charge back. Serial 0: whichever
 * is noted. False when it was not known: the handle may be another context's by now.
 */
bool gb_contexts_remove(struct gb_contexts *contexts, CUcontext handle, uint64_t serial);

/* Local memory that a context has room for, bytes a thread; otherwise: not known. */
uint64_t gb_contexts_local(struct gb_contexts *contexts, CUcontext handle, uint64_t otherwise);

/* It has room for so much now; only_up: or for more already. */
void gb_contexts_set_local(struct gb_contexts *contexts, CUcontext handle, uint64_t bytes,
                           bool only_up);

/* Has the device heap of a context come to the card? Yes also of one that is not noted. */
bool gb_contexts_has_heap(struct gb_contexts *contexts, CUcontext handle);
void gb_contexts_set_heap(struct gb_contexts *contexts, CUcontext handle);

/* The local memory for functions of the driver that a context has; only up. A context that is
 * not noted has all. */
uint64_t gb_contexts_frames(struct gb_contexts *contexts, CUcontext handle);
void gb_contexts_set_frames(struct gb_contexts *contexts, CUcontext handle, uint64_t bytes);

/*
 * What a context takes for kernels of executables that are beside one another: so much for each
 * but the first few, in steps (measured, docs/measurements.md). It stays when an executable is
 * gone, and serves later ones.
 *
 * An executable with so many of them is to be made. Answers how many bytes may come for it, 0
 * where what has come is enough. Writes the context's serial. NULL, or a context that is not
 * noted: they count in all contexts of the device until gb_contexts_nodes_end with a NULL
 * context, the serial is 0, and nothing is taken to be there.
 */
uint64_t gb_contexts_nodes_begin(struct gb_contexts *contexts, CUcontext handle, uint64_t nodes,
                                 uint64_t *serial);

/* So many bytes have come to the context, for kernels that count now or for something else. */
void gb_contexts_nodes_came(struct gb_contexts *contexts, CUcontext handle, uint64_t serial,
                            uint64_t bytes);

/* It is gone, or was not made. */
void gb_contexts_nodes_end(struct gb_contexts *contexts, CUcontext handle, uint64_t serial,
                           uint64_t nodes);

/* The primary context, NULL when none is noted. */
CUcontext gb_contexts_primary(struct gb_contexts *contexts, const struct gb_driver_api *api);

#endif
