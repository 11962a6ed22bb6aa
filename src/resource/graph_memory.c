/*
 * graph_memory.c: what an executable with allocation nodes takes, as a request.
 *
 * Footprint mode: the driver is let take the memory (an upload, or what comes down to one), the
 * gauge tells how much that was, and where it does not fit it is trimmed again. Requested mode:
 * the bytes of the nodes while their executable lives.
 */
#include "resource/backend.h"

#include "resource/resource.h"

static bool by_gauge(const struct gb_backend *backend)
{
    return backend->options.charge == GPUBUDGET_CHARGE_FOOTPRINT;
}

/*
 * bytes is the largest node, most_bytes all of them. Executables share what they do not use at
 * the same time: the least is what the largest node needs beyond all that there is.
 */
uint64_t gb_graph_bound(struct gb_backend *backend, const gpubudget_request_t *request,
                        bool least)
{
    if (!by_gauge(backend))
        return request->most_bytes;
    if (least) {
        uint64_t held = atomic_load(&backend->graphs.posted);

        return request->bytes > held ? request->bytes - held : 0;
    }
    return gb_round_up(request->most_bytes, GB_POOL_STEP_BYTES);
}

gpubudget_status_t gb_graph_materialize(struct gb_backend *backend,
                                        gpubudget_request_t *request, gpubudget_block_t *block,
                                        gpubudget_error_t *error)
{
    CUdeviceptr handle = 0;
    size_t bytes = 0;
    CUresult code;

    if (!request->acquire || !request->undo)
        return gb_fail(error, GPUBUDGET_INVALID_ARGUMENT);
    if (by_gauge(backend))
        atomic_store(&backend->graphs.seen, true);
    code = request->acquire(request->arg, &handle, &bytes);
    request->driver_code = code;
    if (code != CUDA_SUCCESS) {
        /* It may have taken a part. */
        if (by_gauge(backend))
            gb_graphs_refresh(&backend->graphs, gb_backend_api(backend, request));
        return gb_fail_driver(error, code);
    }
    if (by_gauge(backend)) {
        request->charged =
            gb_graphs_refresh(&backend->graphs, gb_backend_api(backend, request));
    } else {
        request->charged = request->most_bytes;
        gb_ledger_acquire(&backend->ledger, request->charged);
    }
    *block = (gpubudget_block_t){.id = {handle, 0},
                                 .bytes = by_gauge(backend) ? 0 : request->charged,
                                 .device = backend->options.device,
                                 .tag = request->tag,
                                 .kind = GPUBUDGET_KIND_GRAPH,
                                 .state = GPUBUDGET_BLOCK_LIVE};
    return GPUBUDGET_OK;
}

gpubudget_status_t gb_graph_deallocate(struct gb_backend *backend,
                                       const gpubudget_block_t *block,
                                       const gpubudget_release_t *release,
                                       gpubudget_error_t *error)
{
    CUresult code;

    if (!release || !release->release)
        return gb_fail(error, GPUBUDGET_INVALID_ARGUMENT);
    code = release->release(release->arg, block->id.pointer);
    if (code != CUDA_SUCCESS)
        return gb_fail_driver(error, code);
    if (by_gauge(backend))
        gb_graphs_refresh(&backend->graphs, backend->options.api);
    else
        gb_ledger_reclaim(&backend->ledger, block->bytes);
    return GPUBUDGET_OK;
}
