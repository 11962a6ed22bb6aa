/*
 * backend.h: DriverMemoryResource. Calls the driver, keeps the block table, posts to the
 * ledger.
 *
 * The rooms of the backend: direct.c (direct, pitched, managed), ordered.c (stream-ordered),
 * contexts.c, physical.c (handles); regions.c, pools.c, pending.c and handles.c hold what each
 * is charged by.
 */
#ifndef GB_RESOURCE_BACKEND_H
#define GB_RESOURCE_BACKEND_H

#include "driver/api.h"

#include <gpubudget/driver_resource.h>

#include "resource/block_table.h"
#include "resource/card.h"
#include "resource/contexts.h"
#include "resource/estimates.h"
#include "resource/events.h"
#include "resource/graphs.h"
#include "resource/inherited.h"
#include "resource/ledger.h"
#include "resource/other.h"
#include "resource/pending.h"
#include "resource/pending_follow.h"
#include "resource/pools.h"
#include "resource/regions.h"
#include "resource/sole.h"

/* Over 1 MiB the driver rounds direct blocks up to this (measured). */
#define GB_DIRECT_STEP_BYTES (UINT64_C(2) << 20)

/* What managed memory takes on a device besides its size, in all, at most: it comes in pieces
 * of 64 MiB, two by two (measured). Charged with the first allocation. */
#define GB_MANAGED_ONCE_BYTES (UINT64_C(128) << 20)

/* request->tag of a context request that is about the primary context. */
#define GB_CONTEXT_PRIMARY 1

/* request->tag of a measured request; what each takes is learned apart. */
enum gb_measured {
    GB_MEASURED_STREAM,
    GB_MEASURED_MODULE,
    GB_MEASURED_LIMIT,
    GB_MEASURED_GREEN,
    GB_MEASURED_ARRAY,
    GB_MEASURED_LOCAL,   /* local memory and device heap, with a launch */
    GB_MEASURED_LIBRARY, /* variables, with the first use of a library in a context */
    GB_MEASURED_PEER,    /* page tables for a peer's memory */
    GB_MEASURED_MULTICAST,
    GB_MEASURED_GRAPH, /* what an executable graph takes for its nodes */
    GB_MEASURED_KINDS
};

struct gb_backend_options {
    int device;
    gpubudget_charge_t charge;
    bool charge_managed;
    bool track_ordered; /* keep stream-ordered blocks in the table also in footprint mode */
    bool track_uses;    /* by streams: uses.h; with track_ordered */
    bool seed_uses;     /* the allocation of stream-ordered memory is its first write */
    const struct gb_driver_api *api;
    struct gb_block_table *table; /* shared by all backends of the process, or NULL: own */
};

struct gb_backend {
    gpubudget_resource_t resource;
    struct gb_backend_options options;
    struct gpubudget_accounting ledger;
    struct gb_block_table *table;
    struct gb_block_table own_table;
    struct gb_regions regions;
    struct gb_pools pools;
    struct gb_pending pending;
    struct gb_events events; /* of the uses of blocks */
    struct gb_contexts contexts;
    struct gb_other other;
    struct gb_inherited inherited;
    struct gb_estimates estimates; /* in place of `other`, while the tools do not tell */
    struct gb_graphs graphs;
    _Atomic uint64_t learned[GB_MEASURED_KINDS]; /* what the last one of each took */
    _Atomic uint64_t managed;  /* bytes of the ledger that the card's tools do not attribute */
    _Atomic uint64_t away;     /* the same, of handles: exported, and but for imports nothing
                                  here has hold of them; or only arrays have */
    _Atomic uint64_t imported; /* bytes of others, or back from them, that the card's tools
                                  attribute to us */
    _Atomic uint64_t imported_unseen; /* the same that they do not, or not yet */
    _Atomic bool managed_once;        /* GB_MANAGED_ONCE_BYTES are charged */
    struct gb_sole sole;     /* footprint mode, near the limit: who asks pools for memory */
    _Atomic bool near_limit; /* footprint mode: blocks of pools have an entry, too, since
                                somebody may have to wait for their frees */
    bool heap;               /* made by gpubudget_driver_resource_new */
    struct gb_driver_api own_api;
};

void gb_backend_init(struct gb_backend *backend, const struct gb_backend_options *options);

/* In the child of a fork: an empty ledger, nothing held. A shared table is the caller's. */
void gb_backend_forked(struct gb_backend *backend);

/* The driver's functions for a request: those of the copy that was called. */
const struct gb_driver_api *gb_backend_api(const struct gb_backend *backend,
                                           const gpubudget_request_t *request);

/*
 * What stands in the ledger and not in the tools' figure for the process. Where exported memory
 * is shown again, since nothing but an import has hold of it, that is in `imported`.
 */
uint64_t gb_backend_unattributed(const struct gb_backend *backend);

/* What is known that the card's tools attribute to the process, contexts left out. */
uint64_t gb_backend_tracked(const struct gb_backend *backend);

/* Takes a block's charge and regions back and frees its entry. */
void gb_backend_settle(struct gb_backend *backend, struct gb_block *block);

/* direct.c, ordered.c, physical.c and backend.c: the kinds of materialize and charge_bound. */
gpubudget_status_t gb_direct_materialize(struct gb_backend *backend,
                                         gpubudget_request_t *request, gpubudget_block_t *block,
                                         gpubudget_error_t *error);
uint64_t gb_direct_bound(struct gb_backend *backend, const gpubudget_request_t *request,
                         bool least);
gpubudget_status_t gb_ordered_materialize(struct gb_backend *backend,
                                          gpubudget_request_t *request,
                                          gpubudget_block_t *block, gpubudget_error_t *error);
uint64_t gb_ordered_bound(struct gb_backend *backend, const gpubudget_request_t *request,
                          bool least);

/* The operation follow_frees. */
bool gb_ordered_follow(struct gb_backend *backend, const gpubudget_request_t *request,
                       uint64_t bytes, bool grew);

/*
 * Before the driver is called for memory of the current pool: true when there is nothing to ask
 * the budget, because what the call may take stands in the ledger and was let in before. In
 * footprint mode it was lent; in requested mode it is taken over from frees on the stream.
 * gb_ordered_claimed follows the call, whatever its answer.
 */
struct gb_ordered_claim {
    struct gb_claim of;
    uint64_t era;
    struct gb_stream_key key; /* of the stream; not in footprint mode far from the limit */
    struct gb_block *entry;
    struct gb_pool *pool;
    uint64_t bytes;          /* footprint mode */
    bool near_limit, reused; /* near it: they are taken off what is pending on the stream */
};
bool gb_ordered_claim(struct gb_backend *backend, const struct gb_driver_api *api, size_t bytes,
                      CUstream stream, bool is_thread, struct gb_ordered_claim *claim);
void gb_ordered_claimed(struct gb_backend *backend, const struct gb_driver_api *api,
                        const struct gb_ordered_claim *claim, CUstream stream,
                        CUdeviceptr pointer, bool granted);

gpubudget_status_t gb_physical_materialize(struct gb_backend *backend,
                                           gpubudget_request_t *request,
                                           gpubudget_block_t *block, gpubudget_error_t *error);
gpubudget_status_t gb_physical_deallocate(struct gb_backend *backend,
                                          const gpubudget_block_t *block,
                                          const gpubudget_release_t *release,
                                          gpubudget_error_t *error);

/* graph_memory.c */
gpubudget_status_t gb_graph_materialize(struct gb_backend *backend,
                                        gpubudget_request_t *request, gpubudget_block_t *block,
                                        gpubudget_error_t *error);
uint64_t gb_graph_bound(struct gb_backend *backend, const gpubudget_request_t *request,
                        bool least);
gpubudget_status_t gb_graph_deallocate(struct gb_backend *backend,
                                       const gpubudget_block_t *block,
                                       const gpubudget_release_t *release,
                                       gpubudget_error_t *error);

/* measured.c */
gpubudget_status_t gb_measured_materialize(struct gb_backend *backend,
                                           gpubudget_request_t *request,
                                           gpubudget_block_t *block, gpubudget_error_t *error);
uint64_t gb_measured_bound(struct gb_backend *backend, const gpubudget_request_t *request,
                           bool least);
gpubudget_status_t gb_measured_deallocate(struct gb_backend *backend,
                                          const gpubudget_block_t *block,
                                          const gpubudget_release_t *release,
                                          gpubudget_error_t *error);

/* block_uses.c: the operations about uses, for those who know the stream's key. */
bool gb_backend_tracks_uses(const gpubudget_resource_t *self);
gpubudget_status_t gb_backend_record_use(gpubudget_resource_t *self,
                                         const gpubudget_block_t *block, CUstream stream,
                                         gpubudget_error_t *error);
gpubudget_status_t gb_backend_prepare_use(gpubudget_resource_t *self, gpubudget_block_id_t id,
                                          CUstream stream, gpubudget_access_t access,
                                          gpubudget_error_t *error);
gpubudget_status_t gb_backend_finish_use(gpubudget_resource_t *self, gpubudget_block_id_t id,
                                         CUstream stream, gpubudget_access_t access,
                                         gpubudget_error_t *error);

/* A granted block that nobody knows yet; a stream that captures gives it no event. */
gpubudget_status_t gb_backend_seed_use(struct gb_backend *backend, struct gb_block *block,
                                       const struct gb_stream_key *key, CUresult *code);

/* Before a block that is out of the table is freed on the stream, or (NULL) at once. */
CUresult gb_backend_wait_for_uses(const struct gb_block *block,
                                  const struct gb_stream_key *key);

/*
 * Where the tools do not tell: what a call that cannot be undone has taken since `before` is
 * charged to the object, as an estimate.
 */
void gb_measured_note(struct gb_backend *backend, const struct gb_driver_api *api,
                      const struct gb_card *before, enum gb_measured which, uint64_t handle);

/* ends.c: what the program ends without freeing. Each after the driver's success. */

/*
 * Around the driver call that may end a context: afterwards its streams and events may be dead,
 * so close waits for threads that are asking the driver about them, and keeps others from it.
 * stays when the context has not ended.
 */
void gb_backend_context_closes(struct gb_backend *backend, const struct gb_driver_api *api,
                               CUcontext context);
void gb_backend_context_stays(struct gb_backend *backend, const struct gb_driver_api *api,
                              CUcontext context);

/*
 * A context has ended: its direct blocks, pending frees and own size leave the ledger. serial:
 * of gb_contexts_serial before the driver was called, and generation: of the block table then,
 * since by now another thread may have made a context with the same handle, and blocks in it.
 */
void gb_backend_context_ended(struct gb_backend *backend, const struct gb_driver_api *api,
                              CUcontext context, uint64_t serial, uint64_t generation);

/*
 * A context that this library did not see begin is in use: charges what the card's tools show
 * for the process and nothing tracked accounts for. Cheap when the context is known.
 */
void gb_backend_note_context(struct gb_backend *backend, const struct gb_driver_api *api,
                             CUcontext context, bool primary);

#endif
