/*
 * ordered.c: stream-ordered memory. Footprint mode goes by the gauge of the pool, requested
 * mode by live and pending bytes.
 */
#include "resource/backend.h"

#include <stdatomic.h>

#include "resource/apart.h"
#include "resource/capture.h"
#include "resource/resource.h"

static bool by_gauge(const struct gb_backend *backend)
{
    return backend->options.charge == GPUBUDGET_CHARGE_FOOTPRINT;
}

/*
 * Before the driver has answered a request that names a pool, one that is not known may be
 * none: a handle that has ended, which the driver must not be asked about (it crashes). So it
 * gets no entry yet.
 */
static struct gb_pool *pool_of(struct gb_backend *backend, const gpubudget_request_t *request)
{
    const struct gb_driver_api *api = gb_backend_api(backend, request);

    if (request->pool)
        return gb_pools_find(&backend->pools, api, request->pool);
    return gb_pools_current(&backend->pools, api);
}

static struct gb_stream_key key_of(struct gb_backend *backend,
                                   const gpubudget_request_t *request)
{
    return gb_stream_key(gb_backend_api(backend, request), request->stream,
                         request->stream_is_thread);
}

uint64_t gb_ordered_bound(struct gb_backend *backend, const gpubudget_request_t *request,
                          bool least)
{
    struct gb_stream_key key;
    struct gb_pool *pool;
    uint64_t reusable;

    if (by_gauge(backend)) {
        if (!least)
            return gb_round_up(request->bytes, GB_POOL_STEP_BYTES);
        pool = pool_of(backend, request);
        if (pool)
            return gb_pool_least_growth(pool, request->bytes);
        return request->pool ? 0 : request->bytes; /* what is idle in it is not known */
    }
    /* The stream's own earlier frees lie before this request: it takes their bytes over. Looked
     * at only where the request would not fit without them. */
    if (!least)
        return request->bytes;
    key = key_of(backend, request);
    reusable = gb_pending_on_stream(&backend->pending, &key);
    return reusable >= request->bytes ? 0 : request->bytes - reusable;
}

/* Bytes that other streams have to let the stream have of the pool. Requested mode: what is
 * lacking and not its own already. */
static uint64_t lacking_of(struct gb_backend *backend, const struct gb_stream_key *key,
                           uint64_t bytes)
{
    uint64_t own = gb_pending_on_stream(&backend->pending, key);

    return bytes > own ? bytes - own : 0;
}

bool gb_ordered_follow(struct gb_backend *backend, const gpubudget_request_t *request,
                       uint64_t bytes, bool grew)
{
    struct gb_pending *pending = &backend->pending;
    struct gb_followable others;
    struct gb_stream_key key;
    struct gb_pool *pool;
    uint64_t idle;

    if (atomic_load(&pending->entries) == 0 || !(pool = pool_of(backend, request)))
        return false;
    key = key_of(backend, request);
    gb_pending_followable(pending, &key, pool, &others);
    if (others.bytes == 0 && !(others.loose && grew))
        return false;
    if (!by_gauge(backend)) {
        bytes = lacking_of(backend, &key, bytes);
        return bytes > 0 && gb_pool_follows_events(pool) &&
               gb_pending_follow(pending, &key, pool, bytes);
    }
    idle = gb_pool_idle(pool);
    if (idle < request->bytes)
        return false;
    /* What is idle and nobody's is not waited for, unless it lies in pieces that do not do. */
    if (!grew && idle - request->bytes >= others.bytes)
        return false;
    if (bytes == 0)
        return true;
    if (!gb_pool_follows_events(pool))
        return false;
    return gb_pending_follow(pending, &key, pool, request->bytes) ||
           (grew && others.loose && gb_pending_follow_loose(pending, &key));
}

/* Before an entry is inserted that only tells of a block. */
static void note_shadow(struct gb_backend *backend)
{
    if (by_gauge(backend) &&
        !atomic_load_explicit(&backend->table->shadows, memory_order_relaxed))
        atomic_store(&backend->table->shadows, true);
}

static CUresult own_acquire(struct gb_backend *backend, gpubudget_request_t *request,
                            CUdeviceptr *pointer)
{
    const struct gb_driver_api *api = gb_backend_api(backend, request);

    if (request->pool) {
        if (!api->cuMemAllocFromPoolAsync)
            return CUDA_ERROR_NOT_SUPPORTED;
        return api->cuMemAllocFromPoolAsync(pointer, request->bytes, request->pool,
                                            request->stream);
    }
    if (!api->cuMemAllocAsync)
        return CUDA_ERROR_NOT_SUPPORTED;
    return api->cuMemAllocAsync(pointer, request->bytes, request->stream);
}

static CUresult undo(struct gb_backend *backend, gpubudget_request_t *request,
                     CUdeviceptr pointer)
{
    if (request->undo)
        return request->undo(request->arg, pointer);
    return gb_backend_api(backend, request)->cuMemFreeAsync(pointer, request->stream);
}

/* Of the current pool. What cannot be charged is not given out. Says why: the driver's code, or
 * no host memory. */
static gpubudget_status_t unknown_pool(struct gb_backend *backend, gpubudget_request_t *request,
                                       gpubudget_error_t *error)
{
    const struct gb_driver_api *api = gb_backend_api(backend, request);
    struct gb_capture_mode saved = gb_capture_relax(api);
    CUmemoryPool handle;
    CUresult code = CUDA_SUCCESS;

    if (api->cuDeviceGetMemPool)
        code = api->cuDeviceGetMemPool(&handle, backend->options.device);
    gb_capture_restore(api, &saved);
    return code == CUDA_SUCCESS ? gb_fail(error, GPUBUDGET_OUT_OF_HOST_MEMORY)
                                : gb_fail_driver(error, code);
}

/* Undone: the bytes that were charged stay so until the free is proven. Where it cannot be,
 * they stay granted. */
static bool undo_grant(struct gb_backend *backend, gpubudget_request_t *request,
                       CUdeviceptr pointer, uint64_t charged)
{
    struct gb_stream_key key;

    if (undo(backend, request, pointer) != CUDA_SUCCESS)
        return false;
    key = key_of(backend, request);
    if (charged > 0) {
        gb_pending_prepare(&backend->pending, &key);
        gb_pending_add(&backend->pending, &key, NULL, charged, NULL);
    }
    return true;
}

static uint64_t look_at_all(struct gb_backend *backend, const struct gb_driver_api *api)
{
    gb_pools_current(&backend->pools, api);
    return gb_pools_refresh(&backend->pools);
}

/* The ledger's side of a grant that began in that era of the current pools. */
static void charge(struct gb_backend *backend, gpubudget_request_t *request,
                   struct gb_pool *pool, uint64_t era, CUdeviceptr pointer, size_t bytes)
{
    struct gb_stream_key key;
    uint64_t taken_over;

    if (by_gauge(backend)) {
        uint64_t most = gb_round_up(bytes, GB_POOL_STEP_BYTES);

        if (!pool) {
            /* Nobody looks at what has no entry: charged for good. */
            gb_ledger_acquire(&backend->ledger, most);
            request->charged = most;
            return;
        }
        request->charged =
            gb_pool_granted(&backend->pools, pool, most, request->slack, request->credit);
        /* A switch of the current pool during the call: the memory may be another's. */
        if (!request->pool && (era == 0 || gb_pools_era() != era))
            request->charged += look_at_all(backend, gb_backend_api(backend, request));
        if (request->near_limit) {
            key = key_of(backend, request);
            gb_pending_reuse(&backend->pending, &key, pool, pointer, bytes);
        }
        return;
    }
    /* Acquired before the taken-over bytes are reclaimed: the sum may be high for a moment,
     * never low. */
    gb_ledger_acquire(&backend->ledger, bytes);
    key = key_of(backend, request);
    taken_over = gb_pending_take_over(&backend->pending, &key, pool, bytes);
    gb_ledger_reclaim(&backend->ledger, taken_over);
    request->charged = bytes - taken_over;
}

gpubudget_status_t gb_ordered_materialize(struct gb_backend *backend,
                                          gpubudget_request_t *request,
                                          gpubudget_block_t *block, gpubudget_error_t *error)
{
    bool tracked = !by_gauge(backend) || backend->options.track_ordered || request->near_limit;
    uint64_t era = gb_pools_era();
    struct gb_pool *pool = pool_of(backend, request);
    struct gb_block *entry = NULL;
    struct gb_asking asking;
    CUdeviceptr pointer = 0;
    size_t bytes = request->bytes;
    CUresult code;

    if (by_gauge(backend) && !pool && !request->pool)
        return unknown_pool(backend, request, error);
    if (tracked) {
        entry = gb_block_new();
        if (!entry)
            return gb_fail(error, GPUBUDGET_OUT_OF_HOST_MEMORY);
    }
    /* Others' frees get marks for it. */
    if (request->near_limit) {
        const struct gb_stream_key key = key_of(backend, request);

        gb_pending_prepare(&backend->pending, &key);
    }
    gb_asking_begins(backend, request, &asking);
    code = request->acquire ? request->acquire(request->arg, &pointer, &bytes)
                            : own_acquire(backend, request, &pointer);
    request->driver_code = code;
    if (by_gauge(backend) && !pool && request->pool && code == CUDA_SUCCESS)
        pool = gb_pools_get(&backend->pools, gb_backend_api(backend, request), request->pool,
                            false);
    gb_asking_ends(backend, request, &asking, code == CUDA_SUCCESS);
    if (code != CUDA_SUCCESS) {
        gb_block_free(entry);
        return gb_fail_driver(error, code);
    }
    if (by_gauge(backend) && !pool) {
        pool = gb_pools_get(&backend->pools, gb_backend_api(backend, request), request->pool,
                            false);
        /* What cannot be charged is not given out. What its pool keeps of it is `other`. */
        if (!pool && undo_grant(backend, request, pointer, 0)) {
            gb_block_free(entry);
            return gb_fail(error, GPUBUDGET_OUT_OF_HOST_MEMORY);
        }
    }
    if (!pool && request->pool)
        pool = gb_pools_get(&backend->pools, gb_backend_api(backend, request), request->pool,
                            false);
    charge(backend, request, pool, era, pointer, bytes);
    if (entry && backend->options.seed_uses) {
        const struct gb_stream_key key = key_of(backend, request);
        gpubudget_status_t status = gb_backend_seed_use(backend, entry, &key, &code);

        if (status != GPUBUDGET_OK &&
            undo_grant(backend, request, pointer, by_gauge(backend) ? 0 : bytes)) {
            free(entry);
            return status == GPUBUDGET_DRIVER ? gb_fail_driver(error, code)
                                              : gb_fail(error, status);
        }
    }
    *block = (gpubudget_block_t){.id = {pointer, 0},
                                 .bytes = by_gauge(backend) ? 0 : bytes,
                                 .requested = bytes,
                                 .device = backend->options.device,
                                 .stream = request->stream,
                                 .tag = request->tag,
                                 .kind = GPUBUDGET_KIND_STREAM_ORDERED,
                                 .state = GPUBUDGET_BLOCK_LIVE};
    if (!entry)
        return GPUBUDGET_OK;
    entry->pointer = pointer;
    entry->charged = block->bytes;
    entry->requested = bytes;
    entry->tag = request->tag;
    entry->stream = request->stream;
    entry->context = request->context;
    entry->driver = gb_backend_api(backend, request);
    entry->pool = pool;
    entry->kind = GPUBUDGET_KIND_STREAM_ORDERED;
    entry->device = backend->options.device;
    note_shadow(backend);
    block->id.generation = gb_block_table_insert(backend->table, entry);
    return GPUBUDGET_OK;
}

static bool claim_taken_over(struct gb_backend *backend, const struct gb_driver_api *api,
                             size_t bytes, CUstream stream, bool is_thread,
                             struct gb_ordered_claim *claim)
{
    struct gb_pending_slot *slot;

    gb_stream_key_set(&claim->key, api, stream, is_thread);
    slot = gb_pending_slot_of(&backend->pending, gb_pending_note_of(&claim->key));
    if (!slot || !gb_pending_unkeep_all(slot, bytes, &claim->entry))
        return false;
    if (!claim->entry)
        claim->entry = gb_block_new();
    if (!claim->entry) {
        gb_pending_add(&backend->pending, &claim->key, NULL, bytes, NULL);
        return false;
    }
    claim->entry->charged = claim->entry->requested = bytes;
    claim->entry->pool = claim->pool = gb_pools_current(&backend->pools, api);
    return true;
}

/* The entry of a block that was granted at once. */
static void enter_claimed(struct gb_backend *backend, const struct gb_driver_api *api,
                          const struct gb_ordered_claim *claim, CUstream stream,
                          CUdeviceptr pointer)
{
    struct gb_block *entry = claim->entry;

    /* All of it one by one: to have it zeroed first costs more than all of this. */
    entry->pointer = pointer;
    entry->generation = 0;
    entry->tag = 0;
    entry->stream = stream;
    entry->context = NULL;
    entry->driver = api;
    entry->pool = claim->pool;
    entry->kind = GPUBUDGET_KIND_STREAM_ORDERED;
    entry->device = backend->options.device;
    entry->in_region = false;
    note_shadow(backend);
    gb_block_table_insert(backend->table, entry);
}

/*
 * Near the limit it is of interest what is pending on a stream: this request may take of it. In
 * the usual case it lies in the stream's slot, which has an entry to lend, too.
 */
static void claim_near(struct gb_backend *backend, const struct gb_driver_api *api,
                       CUstream stream, bool is_thread, struct gb_ordered_claim *claim)
{
    struct gb_pending_slot *slot;

    gb_stream_key_set(&claim->key, api, stream, is_thread);
    slot = gb_pending_slot_of(&backend->pending, gb_pending_note_of(&claim->key));
    claim->reused = slot && atomic_load(&slot->pool) == claim->pool &&
                    gb_pending_unkeep_all(slot, claim->bytes, &claim->entry);
    if (!claim->entry)
        claim->entry = gb_block_new();
}

/* What was reused after all: what lies at the address, where that is known. */
static void settle_near(struct gb_backend *backend, const struct gb_ordered_claim *claim,
                        CUdeviceptr pointer, bool granted)
{
    const struct gb_pending_freed back = {.pool = claim->pool, .bytes = claim->bytes};

    if (granted && !claim->reused)
        gb_pending_reuse(&backend->pending, &claim->key, claim->pool, pointer, claim->bytes);
    else if (claim->reused &&
             (!granted ||
              gb_pending_reuse_placed(&backend->pending, claim->pool, pointer, claim->bytes)))
        gb_pending_note(&backend->pending, &claim->key, &back);
}

bool gb_ordered_claim(struct gb_backend *backend, const struct gb_driver_api *api, size_t bytes,
                      CUstream stream, bool is_thread, struct gb_ordered_claim *claim)
{
    struct gb_pool *pool;

    if (!by_gauge(backend))
        return claim_taken_over(backend, api, bytes, stream, is_thread, claim);
    /* The first write of a block may fail, and then the grant is undone. */
    if (backend->options.seed_uses)
        return false;
    claim->era = gb_pools_era();
    if (claim->era == 0)
        return false;
    pool = gb_pools_current(&backend->pools, api);
    if (!pool)
        return false;
    claim->pool = pool;
    if (!gb_pool_claim(&backend->pools, pool, bytes, &claim->of))
        return false;
    /* It flies: either this one sees the wish to be alone, or is seen. */
    if (atomic_load(&backend->sole.wanted) > 0) {
        gb_pool_claimed(&backend->pools, &claim->of, false);
        return false;
    }
    claim->bytes = bytes;
    claim->entry = NULL;
    claim->near_limit = atomic_load_explicit(&backend->near_limit, memory_order_relaxed);
    if (claim->near_limit)
        claim_near(backend, api, stream, is_thread, claim);
    else if (backend->options.track_ordered)
        claim->entry = gb_block_new();
    if (claim->entry) {
        claim->entry->requested = bytes;
    } else if (claim->near_limit || backend->options.track_ordered) {
        gb_ordered_claimed(backend, api, claim, stream, 0, false);
        return false;
    }
    return true;
}

void gb_ordered_claimed(struct gb_backend *backend, const struct gb_driver_api *api,
                        const struct gb_ordered_claim *claim, CUstream stream,
                        CUdeviceptr pointer, bool granted)
{
    if (by_gauge(backend)) {
        gb_pool_claimed(&backend->pools, &claim->of, granted);
        if (gb_pools_era() != claim->era)
            look_at_all(backend, api);
        if (claim->entry && granted)
            enter_claimed(backend, api, claim, stream, pointer);
        else
            gb_block_free(claim->entry);
        if (claim->near_limit)
            settle_near(backend, claim, pointer, granted);
    } else if (granted) {
        enter_claimed(backend, api, claim, stream, pointer);
    } else {
        /* Pending as before. */
        gb_pending_add_freed(&backend->pending, &claim->key, claim->entry);
    }
}
