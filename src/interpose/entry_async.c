/*
 * entry_async.c: stream-ordered memory.
 *
 * An allocation on a stream that is being captured becomes graph memory, not a block: it is
 * forwarded uncharged. A captured free changes no live block until its graph runs.
 */
#include "interpose/call.h"
#include "interpose/captures.h"
#include "interpose/handlers.h"
#include "interpose/imports.h"
#include "interpose/orphans.h"
#include "interpose/own_imports.h"
#include "interpose/pool_owner.h"
#include "interpose/stream_order.h"

struct ordered {
    struct gb_call call;
    CUdeviceptr pointer;
    CUdeviceptr before; /* in the program's variable */
    size_t bytes;
    CUmemoryPool pool; /* from-pool calls only */
    CUstream stream;
    /* The entry that was called, so that the same variant of the driver's is. */
    gb_fn_cuMemAllocAsync *allocate;
    gb_fn_cuMemAllocFromPoolAsync *allocate_from_pool;
    gb_fn_cuMemFreeAsync *free;
};

static CUresult acquire(void *arg, CUdeviceptr *pointer, size_t *bytes)
{
    struct ordered *ordered = arg;
    CUresult code;

    /* A grant before this one may have been undone: what the driver leaves in the output is the
     * program's. */
    ordered->pointer = ordered->before;
    code = ordered->allocate_from_pool
               ? ordered->allocate_from_pool(&ordered->pointer, ordered->bytes, ordered->pool,
                                             ordered->stream)
               : ordered->allocate(&ordered->pointer, ordered->bytes, ordered->stream);

    if (code == CUDA_SUCCESS) {
        *pointer = ordered->pointer;
        *bytes = ordered->bytes;
    }
    return code;
}

static CUresult release(void *arg, CUdeviceptr pointer)
{
    struct ordered *ordered = arg;

    return ordered->free(pointer, ordered->stream);
}

static CUresult allocate(struct ordered *ordered, struct gb_device *device,
                         const struct gb_stream_call *stream, gpubudget_kind_t kind,
                         CUdeviceptr *dptr)
{
    gpubudget_request_t request = {.bytes = ordered->bytes,
                                   .stream = ordered->stream,
                                   .kind = kind,
                                   .pool = ordered->pool,
                                   .acquire = acquire,
                                   .undo = release,
                                   .arg = ordered,
                                   .stream_is_thread = stream->is_thread};
    CUresult code;

    if (kind == GPUBUDGET_KIND_STREAM_ORDERED && !ordered->pool &&
        device->backend.options.charge == GPUBUDGET_CHARGE_FOOTPRINT)
        request.credit = GB_CREDIT_MOST * GB_POOL_STEP_BYTES;
    ordered->call.device = device;
    ordered->pointer = ordered->before = *dptr;
    if (atomic_load_explicit(&device->backend.contexts.count, memory_order_relaxed) == 0) {
        CUcontext context = NULL;

        /* The context began where we could not see it: measured at the first charged call. */
        ordered->call.drv->api.cuCtxGetCurrent(&context);
        gb_backend_note_context(&device->backend, &ordered->call.drv->api, context, false);
    }
    code = gb_call_allocate(&ordered->call, &request);
    if (ordered->call.answered)
        *dptr = ordered->pointer;
    return code;
}

/* The budget had room. */
__attribute__((noinline, cold)) static void card_full(struct gb_driver *drv,
                                                      struct gb_device *device, size_t bytes)
{
    const struct gb_call call = {.drv = drv, .device = device, .name = "cuMemAllocAsync"};
    const gpubudget_request_t request = {.bytes = bytes, .kind = GPUBUDGET_KIND_STREAM_ORDERED};

    gb_call_card_full(&call, &request);
}

/* The driver's function behind the entry that was called. */
static gb_fn_cuMemAllocAsync *real_allocate(const struct gb_driver *drv, bool is_thread)
{
    return is_thread ? GB_REAL(drv, cuMemAllocAsync_ptsz) : GB_REAL(drv, cuMemAllocAsync);
}

static gb_fn_cuMemFreeAsync *real_free(const struct gb_driver *drv, bool is_thread)
{
    return is_thread ? GB_REAL(drv, cuMemFreeAsync_ptsz) : GB_REAL(drv, cuMemFreeAsync);
}

/*
 * The usual case: what the call may take was lent to this thread or is taken over from the
 * stream's own frees, so the driver's answer is the program's. False: the budget is to be
 * asked.
 */
__attribute__((always_inline)) static inline bool
allocate_at_once(struct gb_driver *drv, struct gb_device *device, CUdeviceptr *dptr,
                 size_t bytes, CUstream stream, bool is_thread, CUresult *code)
{
    struct gb_ordered_claim claim;

    if (!dptr || bytes == 0 || gb_captures_possible(drv) ||
        atomic_load_explicit(&device->backend.contexts.count, memory_order_relaxed) == 0 ||
        !gb_device_may_spend(device) ||
        !gb_ordered_claim(&device->backend, &drv->api, bytes, stream, is_thread, &claim))
        return false;
    *code = real_allocate(drv, is_thread)(dptr, bytes, stream);
    gb_ordered_claimed(&device->backend, &drv->api, &claim, stream,
                       *code == CUDA_SUCCESS ? *dptr : 0, *code == CUDA_SUCCESS);
    if (*code == CUDA_ERROR_OUT_OF_MEMORY)
        card_full(drv, device, bytes);
    return true;
}

__attribute__((noinline)) static CUresult allocate_slowly(struct gb_driver *drv,
                                                          CUdeviceptr *dptr, size_t bytes,
                                                          CUstream stream, bool is_thread)
{
    struct gb_stream_call call = {.stream = stream, .is_thread = is_thread};
    struct ordered ordered = {.call = {.drv = drv, .name = "cuMemAllocAsync"},
                              .bytes = bytes,
                              .stream = stream,
                              .allocate = real_allocate(drv, is_thread),
                              .free = real_free(drv, is_thread)};
    struct gb_device *device;
    CUresult code;

    switch (gb_process_stream(drv, &call, bytes, &device)) {
    case GB_RULING_DENY:
        return CUDA_ERROR_NOT_PERMITTED;
    case GB_RULING_FAILED:
        return call.failure;
    case GB_RULING_BUDGET:
        if (dptr && bytes > 0)
            break;
        /* fall through */
    case GB_RULING_FORWARD:
        return ordered.allocate(dptr, bytes, stream);
    }
    /* With one device that has been tried. */
    if (!gb_process_only(drv) &&
        allocate_at_once(drv, device, dptr, bytes, stream, is_thread, &code))
        return code;
    return allocate(&ordered, device, &call, GPUBUDGET_KIND_STREAM_ORDERED, dptr);
}

static CUresult allocate_async(struct gb_driver *drv, CUdeviceptr *dptr, size_t bytes,
                               CUstream stream, bool is_thread)
{
    struct gb_device *only = gb_process_only(drv);
    CUresult code;

    if (only && allocate_at_once(drv, only, dptr, bytes, stream, is_thread, &code))
        return code;
    return allocate_slowly(drv, dptr, bytes, stream, is_thread);
}

CUresult gb_enter_cuMemAllocAsync(struct gb_driver *drv, CUdeviceptr *dptr, size_t bytesize,
                                  CUstream hStream)
{
    return allocate_async(drv, dptr, bytesize, hStream, false);
}

CUresult gb_enter_cuMemAllocAsync_ptsz(struct gb_driver *drv, CUdeviceptr *dptr,
                                       size_t bytesize, CUstream hStream)
{
    return allocate_async(drv, dptr, bytesize, hStream, true);
}

static CUresult allocate_from_pool(struct gb_driver *drv, CUdeviceptr *dptr, size_t bytes,
                                   CUmemoryPool pool, CUstream stream, bool is_thread,
                                   gb_fn_cuMemAllocFromPoolAsync *allocate_there)
{
    struct gb_stream_call call = {.stream = stream, .is_thread = is_thread};
    struct ordered ordered = {.call = {.drv = drv, .name = "cuMemAllocFromPoolAsync"},
                              .bytes = bytes,
                              .pool = pool,
                              .stream = stream,
                              .allocate_from_pool = allocate_there,
                              .free = real_free(drv, is_thread)};
    struct gb_device *device;
    enum gb_ruling ruling = gb_process_stream(drv, &call, bytes, &device);

    if (ruling == GB_RULING_DENY)
        return CUDA_ERROR_NOT_PERMITTED;
    if (ruling == GB_RULING_FAILED)
        return call.failure;
    if (dptr && bytes > 0 && pool && !call.capturing &&
        gb_settings()->managed == GB_MANAGED_CHARGE && gb_pool_managed(drv, pool, &device))
        return allocate(&ordered, device, &call, GPUBUDGET_KIND_MANAGED, dptr);
    /* The memory is on the pool's device, which need not be the stream's. */
    if (!dptr || bytes == 0 || !pool || call.capturing ||
        !gb_pool_owner(drv, pool, ruling == GB_RULING_BUDGET ? device : NULL, &device))
        return allocate_there(dptr, bytes, pool, stream);
    return allocate(&ordered, device, &call, GPUBUDGET_KIND_STREAM_ORDERED, dptr);
}

CUresult gb_enter_cuMemAllocFromPoolAsync(struct gb_driver *drv, CUdeviceptr *dptr,
                                          size_t bytesize, CUmemoryPool pool, CUstream hStream)
{
    return allocate_from_pool(drv, dptr, bytesize, pool, hStream, false,
                              GB_REAL(drv, cuMemAllocFromPoolAsync));
}

CUresult gb_enter_cuMemAllocFromPoolAsync_ptsz(struct gb_driver *drv, CUdeviceptr *dptr,
                                               size_t bytesize, CUmemoryPool pool,
                                               CUstream hStream)
{
    return allocate_from_pool(drv, dptr, bytesize, pool, hStream, true,
                              GB_REAL(drv, cuMemAllocFromPoolAsync_ptsz));
}

/* Of a block without an entry, or with one that is a shadow. */
__attribute__((noinline)) static CUresult free_untracked(struct gb_driver *drv,
                                                         CUdeviceptr pointer,
                                                         struct gb_block *shadow,
                                                         CUstream stream, bool is_thread)
{
    const struct gb_stream_call call = {.stream = stream, .is_thread = is_thread};
    struct gb_uses *uses = NULL;
    struct gb_own_import *own = NULL;
    struct gb_import_entry *import;
    struct gb_pending_freed freed;
    struct gb_device *of;
    struct gb_orphan orphan;
    CUresult code;

    if (shadow && shadow->uses) {
        const gpubudget_release_t how = {
            .stream = stream, .ordered = true, .stream_is_thread = is_thread};

        uses = gb_order_wait(shadow, &how);
    }
    gb_orphan_look(drv, pointer, &orphan);
    import = gb_import_take(GB_IMPORT_POOL, pointer);
    if (gb_own_imports_any())
        own = gb_own_free_begins(pointer);
    if (shadow) {
        freed = (struct gb_pending_freed){.pool = shadow->pool,
                                          .bytes = shadow->requested,
                                          .loose = !shadow->pool,
                                          .from = shadow->pointer};
        of = gb_process_device_at(shadow->device);
    } else {
        of = gb_process_freeing(drv, pointer, &freed);
    }
    code = real_free(drv, is_thread)(pointer, stream);
    gb_own_free_ends(own, code == CUDA_SUCCESS);
    gb_import_taken(import, code == CUDA_SUCCESS);
    if (shadow)
        gb_order_shadow_freed(shadow, uses, code == CUDA_SUCCESS);
    if (code != CUDA_SUCCESS)
        return code;
    gb_orphan_freed_on(&orphan, drv, &call);
    gb_process_note_free(drv, &call, of, &freed);
    return code;
}

/*
 * Of stream-ordered memory, which has an entry in requested mode only. As the stack frees it,
 * but that nobody looks at what the card's tools show in that mode: no need to count it among
 * the frees in progress (other.h), which all threads write.
 */
static CUresult free_ordered(struct gb_driver *drv, struct gb_block *entry, CUstream stream,
                             bool is_thread)
{
    /* A block stands in the table only while its device has a stack, which is never freed. */
    struct gb_backend *backend = &gb_process_device_at(entry->device)->backend;
    struct gb_stream_key key;
    CUresult code;

    gb_stream_key_set(&key, entry->driver, stream, is_thread);
    gb_pending_prepare(&backend->pending, &key);
    code = real_free(drv, is_thread)(entry->pointer, stream);
    if (code == CUDA_SUCCESS)
        gb_pending_add_freed(&backend->pending, &key, entry);
    else /* live as before */
        gb_block_table_insert(backend->table, entry);
    return code;
}

/* Of another kind. */
__attribute__((noinline)) static CUresult
free_other(struct gb_driver *drv, struct gb_block *entry, CUstream stream, bool is_thread)
{
    struct ordered ordered = {.stream = stream, .free = real_free(drv, is_thread)};
    gpubudget_release_t how = {.release = release,
                               .arg = &ordered,
                               .stream = stream,
                               .ordered = true,
                               .stream_is_thread = is_thread};

    return gb_call_free_taken(entry, &how);
}

/* A captured free frees nothing yet. */
__attribute__((noinline)) static bool is_captured(struct gb_driver *drv, CUdeviceptr pointer,
                                                  CUstream stream, bool is_thread)
{
    const struct gb_stream_call call = {.stream = stream, .is_thread = is_thread};
    struct gb_block tracked;

    return gb_block_table_find(gb_process_blocks(), pointer, &tracked) &&
           gb_process_capturing(drv, &call);
}

static CUresult free_async(struct gb_driver *drv, CUdeviceptr pointer, CUstream stream,
                           bool is_thread)
{
    struct gb_block *entry;

    if (gb_captures_possible(drv) && is_captured(drv, pointer, stream, is_thread))
        return real_free(drv, is_thread)(pointer, stream);
    entry = gb_block_table_take(gb_process_blocks(), pointer, 0);
    if (!entry || gb_order_is_shadow(entry))
        return free_untracked(drv, pointer, entry, stream, is_thread);
    if (entry->kind == GPUBUDGET_KIND_STREAM_ORDERED && !entry->uses)
        return free_ordered(drv, entry, stream, is_thread);
    return free_other(drv, entry, stream, is_thread);
}

CUresult gb_enter_cuMemFreeAsync(struct gb_driver *drv, CUdeviceptr dptr, CUstream hStream)
{
    return free_async(drv, dptr, hStream, false);
}

CUresult gb_enter_cuMemFreeAsync_ptsz(struct gb_driver *drv, CUdeviceptr dptr, CUstream hStream)
{
    return free_async(drv, dptr, hStream, true);
}
