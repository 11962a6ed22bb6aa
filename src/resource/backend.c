/*
 * backend.c: DriverMemoryResource, the terminal backend of every stack.
 */
#include "resource/backend.h"

#include <stdatomic.h>
#include <stdlib.h>

#include "driver/open.h"
#include "resource/apart.h"
#include "resource/capture.h"
#include "resource/handles.h"
#include "resource/limits.h"
#include "resource/resource.h"
#include "resource/uses.h"

static struct gb_backend *backend_of(gpubudget_resource_t *resource)
{
    return (struct gb_backend *)resource;
}

static const struct gb_backend *const_backend_of(const gpubudget_resource_t *resource)
{
    return (const struct gb_backend *)resource;
}

const struct gb_driver_api *gb_backend_api(const struct gb_backend *backend,
                                           const gpubudget_request_t *request)
{
    return request->driver ? request->driver : backend->options.api;
}

uint64_t gb_backend_unattributed(const struct gb_backend *backend)
{
    return atomic_load(&backend->managed) + atomic_load(&backend->away);
}

uint64_t gb_backend_tracked(const struct gb_backend *backend)
{
    uint64_t contexts = atomic_load(&backend->contexts.charged);
    uint64_t unseen = gb_backend_unattributed(backend);
    uint64_t all = gb_add_saturated(gb_ledger_outstanding(&backend->ledger),
                                    atomic_load(&backend->imported));

    return all > contexts + unseen ? all - contexts - unseen : 0;
}

void gb_backend_settle(struct gb_backend *backend, struct gb_block *block)
{
    uint64_t bytes = block->charged;

    if (block->kind == GPUBUDGET_KIND_HANDLE) {
        gb_array_unbound(block);
        return;
    }
    if (block->in_region)
        bytes = GB_REGION_BYTES *
                gb_regions_remove(&backend->regions, block->pointer, block->requested);
    if (block->kind == GPUBUDGET_KIND_MANAGED)
        atomic_fetch_sub(&backend->managed, block->charged);
    gb_ledger_reclaim(&backend->ledger, bytes);
    gb_block_free(block);
}

static void settle_pending(void *owner, struct gb_block *block)
{
    gb_backend_settle(owner, block);
}

static gpubudget_status_t context_materialize(struct gb_backend *backend,
                                              gpubudget_request_t *request,
                                              gpubudget_block_t *block,
                                              gpubudget_error_t *error)
{
    const struct gb_driver_api *api = gb_backend_api(backend, request);
    uint64_t tracked_before, before = 0;
    CUdeviceptr pointer = 0;
    size_t bytes = 0;
    struct gb_card card;
    int64_t lost;
    CUresult code;
    bool known, added, calm;

    if (!request->acquire || !request->undo)
        return gb_fail(error, GPUBUDGET_INVALID_ARGUMENT);
    /* What the card's tools no longer show must not stand in the way of the measurement. */
    gpubudget_reap_pending(&backend->resource, NULL);
    tracked_before = gb_backend_tracked(backend);
    known = gb_contexts_measure(&backend->contexts, &before);
    card.known = false;
    if (backend->contexts.measure && (!known || atomic_load(&backend->other.blind)))
        gb_card_before(backend, api, request->in_flight, true, &card);
    atomic_fetch_add(&backend->contexts.making, 1);
    code = request->acquire(request->arg, &pointer, &bytes);
    request->driver_code = code;
    if (code != CUDA_SUCCESS) {
        atomic_fetch_sub(&backend->contexts.making, 1);
        return gb_fail_driver(error, code);
    }
    /* A created context that has the handle of a noted one: that one has ended, and the thread
     * that ended it has not come so far. A primary one may have been retained twice. */
    if (request->tag != GB_CONTEXT_PRIMARY)
        gb_contexts_remove(&backend->contexts, (CUcontext)(uintptr_t)pointer, 0);
    gb_contexts_came(&backend->contexts, (CUcontext)(uintptr_t)pointer);
    /* What was charged by its bound meanwhile, too. */
    gb_pools_refresh(&backend->pools);
    if (gb_card_after(backend, api, request->in_flight, &card, &lost, &calm) && calm)
        gb_contexts_sampled(&backend->contexts, lost);
    added = gb_contexts_add(&backend->contexts, api, (CUcontext)(uintptr_t)pointer,
                            request->tag == GB_CONTEXT_PRIMARY, known, before, tracked_before,
                            gb_backend_tracked(backend), &request->charged);
    atomic_fetch_sub(&backend->contexts.making, 1);
    if (!added) {
        request->undo(request->arg, pointer);
        return gb_fail(error, GPUBUDGET_OUT_OF_HOST_MEMORY);
    }
    gb_other_look(backend, request->in_flight);
    *block = (gpubudget_block_t){.id = {pointer, 0},
                                 .bytes = request->charged,
                                 .device = backend->options.device,
                                 .tag = request->tag,
                                 .kind = GPUBUDGET_KIND_CONTEXT,
                                 .state = GPUBUDGET_BLOCK_LIVE};
    return GPUBUDGET_OK;
}

/* Away from the limit nobody keeps count of what is pending, and what stands there would be
 * wrong soon. */
static void note_limit(struct gb_backend *backend, const gpubudget_request_t *request)
{
    if (backend->options.charge != GPUBUDGET_CHARGE_FOOTPRINT ||
        atomic_load_explicit(&backend->near_limit, memory_order_relaxed) == request->near_limit)
        return;
    atomic_store(&backend->near_limit, request->near_limit);
    if (!request->near_limit)
        gb_pending_forget_shares(&backend->pending);
}

static gpubudget_status_t backend_materialize(gpubudget_resource_t *self,
                                              gpubudget_request_t *request,
                                              gpubudget_block_t *block,
                                              gpubudget_error_t *error)
{
    struct gb_backend *backend = backend_of(self);

    note_limit(backend, request);
    gb_pending_note_left(&backend->pending, request->near_limit ? request->left : UINT64_MAX);
    switch (request->kind) {
    case GPUBUDGET_KIND_STREAM_ORDERED:
        return gb_ordered_materialize(backend, request, block, error);
    case GPUBUDGET_KIND_CONTEXT:
        return context_materialize(backend, request, block, error);
    case GPUBUDGET_KIND_MEASURED:
        return gb_measured_materialize(backend, request, block, error);
    case GPUBUDGET_KIND_GRAPH:
        return gb_graph_materialize(backend, request, block, error);
    case GPUBUDGET_KIND_DIRECT:
    case GPUBUDGET_KIND_PITCH:
    case GPUBUDGET_KIND_MANAGED:
    case GPUBUDGET_KIND_ARRAY:
        return gb_direct_materialize(backend, request, block, error);
    case GPUBUDGET_KIND_HANDLE:
        return gb_physical_materialize(backend, request, block, error);
    }
    return gb_fail(error, GPUBUDGET_INVALID_ARGUMENT);
}

static uint64_t backend_charge_bound(gpubudget_resource_t *self,
                                     const gpubudget_request_t *request, bool least)
{
    struct gb_backend *backend = backend_of(self);

    switch (request->kind) {
    case GPUBUDGET_KIND_STREAM_ORDERED:
        return gb_ordered_bound(backend, request, least);
    case GPUBUDGET_KIND_CONTEXT:
        return gb_contexts_expected(&backend->contexts);
    case GPUBUDGET_KIND_MEASURED:
        return gb_measured_bound(backend, request, least);
    case GPUBUDGET_KIND_GRAPH:
        return gb_graph_bound(backend, request, least);
    case GPUBUDGET_KIND_HANDLE:
        return request->bytes;
    default:
        return gb_direct_bound(backend, request, least);
    }
}

static CUresult call_release(struct gb_backend *backend, const gpubudget_block_t *block,
                             const gpubudget_release_t *release, bool ordered, CUstream stream)
{
    const struct gb_driver_api *api = backend->options.api;

    if (release && release->release)
        return release->release(release->arg, block->id.pointer);
    if (!ordered)
        return api->cuMemFree_v2(block->id.pointer);
    if (!api->cuMemFreeAsync)
        return CUDA_ERROR_NOT_SUPPORTED;
    return api->cuMemFreeAsync(block->id.pointer, stream);
}

/* After a successful ordered free: the bytes are pending until a mark proves it. */
static void retire(struct gb_backend *backend, struct gb_block *entry,
                   const struct gb_stream_key *key)
{
    gb_uses_end(entry->uses);
    entry->uses = NULL;
    if (entry->kind != GPUBUDGET_KIND_STREAM_ORDERED) {
        gb_pending_add(&backend->pending, key, NULL, entry->charged, entry);
        return;
    }
    if (entry->charged > 0) {
        gb_pending_add_freed(&backend->pending, key, entry);
        return;
    }
    gb_pending_note(&backend->pending, key,
                    &(struct gb_pending_freed){.pool = entry->pool,
                                               .bytes = entry->requested,
                                               .loose = !entry->pool,
                                               .from = entry->pointer});
    gb_block_free(entry);
}

static gpubudget_status_t deallocate_context(struct gb_backend *backend,
                                             const gpubudget_block_t *block,
                                             const gpubudget_release_t *release,
                                             gpubudget_error_t *error)
{
    CUcontext context = (CUcontext)(uintptr_t)block->id.pointer;
    uint64_t serial = gb_contexts_serial(&backend->contexts, context);
    CUresult code;

    /* Only its maker knows whether to destroy or to release it. */
    if (!release || !release->release)
        return gb_fail(error, GPUBUDGET_INVALID_ARGUMENT);
    if (serial == 0)
        return gb_fail(error, GPUBUDGET_USE_AFTER_FREE);
    code = release->release(release->arg, block->id.pointer);
    if (code != CUDA_SUCCESS)
        return gb_fail_driver(error, code);
    gb_contexts_remove(&backend->contexts, context, serial);
    return GPUBUDGET_OK;
}

/*
 * An undone grant in memory that is new: its entry, where it has one, is out of the table.
 * False: it has to be freed on its own stream.
 */
static bool free_apart(struct gb_backend *backend, const gpubudget_block_t *block,
                       struct gb_block *entry, const struct gb_stream_key *key)
{
    const struct gb_driver_api *api = key->api;
    enum gb_apart freed;

    gb_giving_begins();
    freed = gb_apart_free(api, key, block->id.pointer);
    gb_giving_ends();
    if (freed == GB_APART_NOT)
        return false;
    /* What cannot be proven now is as if it lay behind the work of the block's own stream. */
    if (freed == GB_APART_QUEUED)
        gb_pending_note(&backend->pending, key, &(struct gb_pending_freed){.loose = true});
    if (entry) {
        gb_uses_end(entry->uses);
        entry->uses = NULL;
        gb_block_free(entry);
    }
    return true;
}

/* A block without an entry: its pool's gauge tells when the memory is back. */
static gpubudget_status_t deallocate_untracked(struct gb_backend *backend,
                                               const gpubudget_block_t *block,
                                               const gpubudget_release_t *release, bool ordered,
                                               CUstream stream, gpubudget_error_t *error)
{
    struct gb_stream_key key = {0};
    struct gb_block tracked;
    CUresult code;

    if (gb_block_table_find(backend->table, block->id.pointer, &tracked))
        return gb_fail(error, GPUBUDGET_USE_AFTER_FREE);
    if (ordered) {
        key = gb_stream_key(backend->options.api, stream, release && release->stream_is_thread);
        if (release && release->apart && free_apart(backend, block, NULL, &key))
            return GPUBUDGET_OK;
    }
    code = call_release(backend, block, release, ordered, stream);
    if (code != CUDA_SUCCESS)
        return gb_fail_driver(error, code);
    if (ordered) {
        gb_pending_note(&backend->pending, &key, &(struct gb_pending_freed){.loose = true});
    }
    return GPUBUDGET_OK;
}

static gpubudget_status_t backend_deallocate(gpubudget_resource_t *self,
                                             const gpubudget_block_t *block,
                                             const gpubudget_release_t *release,
                                             gpubudget_error_t *error)
{
    struct gb_backend *backend = backend_of(self);
    bool ordered = release && (release->release || release->ordered)
                       ? release->ordered
                       : block->kind == GPUBUDGET_KIND_STREAM_ORDERED;
    CUstream stream = release && release->ordered ? release->stream : block->stream;
    struct gb_block *entry;
    struct gb_stream_key key = {0};
    CUresult code;

    if (block->kind == GPUBUDGET_KIND_CONTEXT)
        return deallocate_context(backend, block, release, error);
    if (block->kind == GPUBUDGET_KIND_MEASURED)
        return gb_measured_deallocate(backend, block, release, error);
    if (block->kind == GPUBUDGET_KIND_GRAPH)
        return gb_graph_deallocate(backend, block, release, error);
    if (block->kind == GPUBUDGET_KIND_HANDLE)
        return gb_physical_deallocate(backend, block, release, error);
    if (block->id.generation == 0)
        return deallocate_untracked(backend, block, release, ordered, stream, error);
    entry = release && release->taken
                ? release->taken
                : gb_block_table_take(backend->table, block->id.pointer, block->id.generation);
    if (!entry)
        return gb_fail(error, GPUBUDGET_USE_AFTER_FREE);
    if (ordered) {
        const struct gb_driver_api *api = entry->driver;

        key = gb_stream_key(api, stream, release && release->stream_is_thread);
        if (release && release->apart && free_apart(backend, block, entry, &key))
            return GPUBUDGET_OK;
        gb_pending_prepare(&backend->pending, &key);
    }
    gb_giving_begins();
    code = gb_backend_wait_for_uses(entry, ordered ? &key : NULL);
    if (code == CUDA_SUCCESS)
        code = call_release(backend, block, release, ordered, stream);
    /* Live as before. */
    if (code != CUDA_SUCCESS)
        gb_block_table_insert(backend->table, entry);
    if (code == CUDA_SUCCESS && ordered)
        retire(backend, entry, &key);
    else if (code == CUDA_SUCCESS)
        gb_backend_settle(backend, entry);
    gb_giving_ends();
    return code == CUDA_SUCCESS ? GPUBUDGET_OK : gb_fail_driver(error, code);
}

static const gpubudget_accounting_t *backend_accounting(const gpubudget_resource_t *self)
{
    return &const_backend_of(self)->ledger;
}

static uint64_t backend_outstanding(const gpubudget_resource_t *self)
{
    return gb_ledger_outstanding(&const_backend_of(self)->ledger);
}

static int backend_device(const gpubudget_resource_t *self)
{
    return const_backend_of(self)->options.device;
}

static bool backend_make_room(gpubudget_resource_t *self, uint64_t bytes)
{
    struct gb_backend *backend = backend_of(self);

    if (gb_pools_make_room(&backend->pools, bytes))
        return true;
    /* How much of it graphs still use the driver does not tell. */
    return backend->options.charge == GPUBUDGET_CHARGE_FOOTPRINT &&
           atomic_load(&backend->graphs.posted) >= bytes &&
           gb_graphs_make_room(&backend->graphs, backend->options.api, false);
}

static bool backend_follow_frees(gpubudget_resource_t *self, const gpubudget_request_t *request,
                                 uint64_t bytes, bool grew)
{
    return request->kind == GPUBUDGET_KIND_STREAM_ORDERED &&
           gb_ordered_follow(backend_of(self), request, bytes, grew);
}

static uint64_t backend_bytes_pending(gpubudget_resource_t *self)
{
    struct gb_backend *backend = backend_of(self);
    struct gb_followable found;
    uint64_t idle;

    gb_pending_waitable(&backend->pending, &found);
    if (!found.loose)
        return found.bytes;
    /* How much nobody knows, but no more than what pools have idle and could not be trimmed. */
    idle = gb_pools_idle(&backend->pools);
    return idle > found.bytes ? idle : found.bytes;
}

static gpubudget_status_t backend_reap(gpubudget_resource_t *self, gpubudget_error_t *error)
{
    (void)error;
    gb_pending_reap(&backend_of(self)->pending);
    gb_pools_refresh(&backend_of(self)->pools);
    if (backend_of(self)->options.charge == GPUBUDGET_CHARGE_FOOTPRINT)
        gb_graphs_refresh(&backend_of(self)->graphs, backend_of(self)->options.api);
    gb_other_check(backend_of(self), false);
    return GPUBUDGET_OK;
}

static void backend_destroy(gpubudget_resource_t *self)
{
    struct gb_backend *backend = backend_of(self);

    /* Before the slots, some of whose blocks may be in it. */
    if (backend->table == &backend->own_table)
        gb_block_table_clear(&backend->own_table);
    gb_pending_clear(&backend->pending);
    /* The table first: its blocks hold events. */
    if (backend->table == &backend->own_table)
        gb_block_table_clear(&backend->own_table);
    gb_events_clear(&backend->events);
    gb_handles_forget(&backend->ledger);
    gb_pools_clear(&backend->pools);
    gb_regions_clear(&backend->regions);
    gb_contexts_clear(&backend->contexts);
    gb_estimates_clear(&backend->estimates);
    if (backend->heap)
        free(backend);
}

static const gpubudget_resource_ops_t backend_ops = {
    .size = sizeof(backend_ops),
    .materialize = backend_materialize,
    .deallocate = backend_deallocate,
    .allocation_accounting = backend_accounting,
    .bytes_outstanding = backend_outstanding,
    .device_ordinal = backend_device,
    .destroy = backend_destroy,
    .charge_bound = backend_charge_bound,
    .make_room = backend_make_room,
    .follow_frees = backend_follow_frees,
    .bytes_pending = backend_bytes_pending,
    .reap_pending = backend_reap,
    .supports_block_use_tracking = gb_backend_tracks_uses,
    .record_block_use = gb_backend_record_use,
    .prepare_block_use = gb_backend_prepare_use,
    .finish_block_use = gb_backend_finish_use,
};

void gb_backend_init(struct gb_backend *backend, const struct gb_backend_options *options)
{
    *backend = (struct gb_backend){.resource.ops = &backend_ops, .options = *options};
    gb_ledger_init(&backend->ledger);
    backend->table = options->table;
    if (!backend->table) {
        gb_block_table_init(&backend->own_table);
        backend->table = &backend->own_table;
    }
    gb_regions_init(&backend->regions);
    gb_pools_init(&backend->pools, options->device,
                  options->charge == GPUBUDGET_CHARGE_FOOTPRINT, &backend->ledger);
    gb_pending_init(&backend->pending, options->charge == GPUBUDGET_CHARGE_FOOTPRINT,
                    &backend->ledger, settle_pending, backend);
    gb_events_init(&backend->events);
    gb_contexts_init(&backend->contexts, &backend->ledger);
    gb_other_init(&backend->other);
    gb_estimates_init(&backend->estimates, &backend->ledger);
    gb_graphs_init(&backend->graphs, options->device, &backend->ledger);
}

void gb_backend_forked(struct gb_backend *backend)
{
    gb_ledger_init(&backend->ledger);
    if (backend->table == &backend->own_table)
        gb_block_table_forked(&backend->own_table);
    gb_regions_init(&backend->regions);
    gb_pools_forked(&backend->pools);
    gb_pending_forked(&backend->pending);
    gb_events_init(&backend->events);
    gb_contexts_forked(&backend->contexts);
    gb_other_forked(&backend->other);
    gb_estimates_init(&backend->estimates, &backend->ledger);
    gb_graphs_init(&backend->graphs, backend->options.device, &backend->ledger);
    gb_handles_forked();
    gb_giving_forked();
    gb_limits_forked();
    atomic_store(&backend->managed, 0);
    atomic_store(&backend->away, 0);
    atomic_store(&backend->imported, 0);
    atomic_store(&backend->imported_unseen, 0);
    backend->inherited = (struct gb_inherited){0};
    atomic_store(&backend->managed_once, false);
    atomic_store(&backend->near_limit, false);
    gb_sole_forked(&backend->sole);
}

gpubudget_status_t gpubudget_driver_resource_new(int device_ordinal, gpubudget_charge_t charge,
                                                 gpubudget_resource_t **resource)
{
    struct gb_backend_options options = {.device = device_ordinal,
                                         .charge = charge,
                                         .charge_managed = true,
                                         .track_ordered = true,
                                         .track_uses = true,
                                         .seed_uses = true};
    struct gb_backend *backend;
    int count = 0;

    if (!resource || device_ordinal < 0 ||
        (charge != GPUBUDGET_CHARGE_FOOTPRINT && charge != GPUBUDGET_CHARGE_REQUESTED))
        return GPUBUDGET_INVALID_ARGUMENT;
    backend = malloc(sizeof(*backend));
    if (!backend)
        return GPUBUDGET_OUT_OF_HOST_MEMORY;
    gb_backend_init(backend, &options);
    if (!gb_driver_api_open(&backend->own_api) ||
        backend->own_api.cuDeviceGetCount(&count) != CUDA_SUCCESS) {
        free(backend);
        return GPUBUDGET_NO_DRIVER;
    }
    if (device_ordinal >= count) {
        free(backend);
        return GPUBUDGET_INVALID_ARGUMENT;
    }
    backend->options.api = &backend->own_api;
    backend->heap = true;
    *resource = &backend->resource;
    return GPUBUDGET_OK;
}
