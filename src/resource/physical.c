/*
 * physical.c: physical handles as blocks: block.id.pointer is the handle.
 *
 * Charged with their size as created, in both modes: the driver takes no size off its
 * granularity, and what it takes is what was asked for (measured).
 */
#include "resource/backend.h"

#include "resource/handles.h"
#include "resource/resource.h"

static CUresult own_acquire(struct gb_backend *backend, gpubudget_request_t *request,
                            CUdeviceptr *pointer, size_t *bytes)
{
    const struct gb_driver_api *api = gb_backend_api(backend, request);
    const CUmemAllocationProp prop = {
        .type = CU_MEM_ALLOCATION_TYPE_PINNED,
        .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = backend->options.device}};
    CUmemGenericAllocationHandle handle = 0;
    CUresult code;

    if (!api->cuMemCreate)
        return CUDA_ERROR_NOT_SUPPORTED;
    code = api->cuMemCreate(&handle, request->bytes, &prop, 0);
    if (code == CUDA_SUCCESS) {
        *pointer = handle;
        *bytes = request->bytes;
    }
    return code;
}

static CUresult release_handle(const struct gb_driver_api *api, CUdeviceptr handle)
{
    return api->cuMemRelease ? api->cuMemRelease(handle) : CUDA_ERROR_NOT_SUPPORTED;
}

static CUresult undo(struct gb_backend *backend, gpubudget_request_t *request,
                     CUdeviceptr handle)
{
    if (request->undo)
        return request->undo(request->arg, handle);
    return release_handle(gb_backend_api(backend, request), handle);
}

gpubudget_status_t gb_physical_materialize(struct gb_backend *backend,
                                           gpubudget_request_t *request,
                                           gpubudget_block_t *block, gpubudget_error_t *error)
{
    /* Before the driver is called, so that what it grants can be recorded. */
    struct gb_memory *memory = gb_memory_new();
    CUdeviceptr handle = 0;
    size_t bytes = request->bytes;
    CUresult code;

    if (!memory)
        return gb_fail(error, GPUBUDGET_OUT_OF_HOST_MEMORY);
    code = request->acquire ? request->acquire(request->arg, &handle, &bytes)
                            : own_acquire(backend, request, &handle, &bytes);
    request->driver_code = code;
    if (code != CUDA_SUCCESS) {
        gb_memory_free(memory);
        return gb_fail_driver(error, code);
    }
    memory->charged = bytes;
    memory->ledger = &backend->ledger;
    memory->away = &backend->away;
    memory->importer = backend;
    memory->generation = gb_block_table_generation(backend->table);
    memory->device = backend->options.device;
    *block = (gpubudget_block_t){.id = {handle, memory->generation},
                                 .bytes = bytes,
                                 .requested = bytes,
                                 .device = memory->device,
                                 .tag = request->tag,
                                 .kind = GPUBUDGET_KIND_HANDLE,
                                 .state = GPUBUDGET_BLOCK_LIVE};
    request->charged = bytes;
    gb_ledger_acquire(&backend->ledger, bytes);
    if (gb_handles_add(memory, gb_backend_api(backend, request), handle))
        return GPUBUDGET_OK;
    /* Undone; if even that fails the memory stays granted and charged, untracked. */
    gb_memory_free(memory);
    if (undo(backend, request, handle) == CUDA_SUCCESS) {
        gb_ledger_reclaim(&backend->ledger, bytes);
        return gb_fail(error, GPUBUDGET_OUT_OF_HOST_MEMORY);
    }
    block->id.generation = 0;
    return GPUBUDGET_OK;
}

/* Gives back the reference that the block stands for. */
gpubudget_status_t gb_physical_deallocate(struct gb_backend *backend,
                                          const gpubudget_block_t *block,
                                          const gpubudget_release_t *release,
                                          gpubudget_error_t *error)
{
    const struct gb_driver_api *api = backend->options.api;
    struct gb_memory *memory = NULL;
    CUresult code;

    if (block->id.generation != 0) {
        memory = gb_handle_hold_any(api, block->id.pointer, block->id.generation);
        if (!memory)
            return gb_fail(error, GPUBUDGET_USE_AFTER_FREE);
        api = memory->api;
    }
    gb_giving_begins();
    code = release && release->release ? release->release(release->arg, block->id.pointer)
                                       : release_handle(api, block->id.pointer);
    /* Untracked memory stays charged: what else holds it is not known. */
    if (memory)
        gb_handle_released(memory, block->id.pointer, code == CUDA_SUCCESS);
    gb_giving_ends();
    return code == CUDA_SUCCESS ? GPUBUDGET_OK : gb_fail_driver(error, code);
}
