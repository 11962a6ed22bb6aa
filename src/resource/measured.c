/*
 * measured.c: calls that take memory which the driver does not tell the size of: modules,
 * streams, limits, green contexts. What they took is what `other` rose by.
 */
#include "resource/backend.h"

#include <stdatomic.h>

#include "resource/resource.h"

static unsigned kind_of(uint64_t tag)
{
    return tag < GB_MEASURED_KINDS ? (unsigned)tag : GB_MEASURED_MODULE;
}

/*
 * Streams take memory in steps, every few of them; a module may take anything. Of an array its
 * size is known, less what a small one finds room for in a region that is there.
 */
uint64_t gb_measured_bound(struct gb_backend *backend, const gpubudget_request_t *request,
                           bool least)
{
    if (request->bytes > 0)
        return least ? request->bytes & ~(GB_DIRECT_STEP_BYTES - 1) : request->most_bytes;
    return least ? 0 : atomic_load(&backend->learned[kind_of(request->tag)]);
}

gpubudget_status_t gb_measured_materialize(struct gb_backend *backend,
                                           gpubudget_request_t *request,
                                           gpubudget_block_t *block, gpubudget_error_t *error)
{
    const struct gb_driver_api *api = gb_backend_api(backend, request);
    struct gb_hint before = {0, 0}, after = {0, 0};
    uint64_t held;
    CUdeviceptr handle = 0;
    size_t bytes = 0;
    CUresult code;
    bool known;

    if (!request->acquire || !request->undo)
        return gb_fail(error, GPUBUDGET_INVALID_ARGUMENT);
    held = gb_ledger_outstanding(&backend->ledger);
    known = gb_other_hint(backend, api, &before);
    code = request->acquire(request->arg, &handle, &bytes);
    request->driver_code = code;
    if (code != CUDA_SUCCESS)
        return gb_fail_driver(error, code);
    known = known && gb_other_hint(backend, api, &after);
    /* The card has lost nothing that others of this process do not account for: nothing taken.
     * A neighbour that gives memory back at this very moment can hide it; a later look finds
     * it. */
    request->charged = 0;
    if (!known || before.source != after.source ||
        gb_add_saturated(after.free, gb_ledger_outstanding(&backend->ledger)) <
            gb_add_saturated(before.free, held)) {
        request->charged = gb_other_look(backend, request->in_flight);
        if (request->charged > 0 && request->bytes == 0)
            atomic_store(&backend->learned[kind_of(request->tag)], request->charged);
    }
    *block = (gpubudget_block_t){.id = {handle, 0},
                                 .bytes = request->charged,
                                 .device = backend->options.device,
                                 .tag = request->tag,
                                 .kind = GPUBUDGET_KIND_MEASURED,
                                 .state = GPUBUDGET_BLOCK_LIVE};
    return GPUBUDGET_OK;
}

gpubudget_status_t gb_measured_deallocate(struct gb_backend *backend,
                                          const gpubudget_block_t *block,
                                          const gpubudget_release_t *release,
                                          gpubudget_error_t *error)
{
    CUresult code;

    /* Only its maker knows how. */
    if (!release || !release->release)
        return gb_fail(error, GPUBUDGET_INVALID_ARGUMENT);
    code = release->release(release->arg, block->id.pointer);
    if (code != CUDA_SUCCESS)
        return gb_fail_driver(error, code);
    gb_other_look(backend, 0);
    return GPUBUDGET_OK;
}
