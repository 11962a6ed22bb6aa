/*
 * graph_call.c: what the calls about executables share: their memory as a request.
 */
#include "interpose/graph_call.h"

#include "resource/capture.h"

static CUresult acquire(void *arg, CUdeviceptr *pointer, size_t *bytes)
{
    struct gb_graph_call *graph = arg;
    CUresult code = graph->take(graph);

    if (code == CUDA_SUCCESS) {
        *pointer = (CUdeviceptr)(uintptr_t)graph->handle;
        *bytes = 0;
    }
    return code;
}

static CUresult undo(void *arg, CUdeviceptr pointer)
{
    struct gb_graph_call *graph = arg;
    const struct gb_driver_api *api = &graph->call.drv->api;
    struct gb_capture_mode saved = gb_capture_relax(api);
    CUresult code = graph->undo(graph);

    (void)pointer;
    gb_capture_restore(api, &saved);
    return code;
}

CUresult gb_graph_ask(struct gb_graph_call *graph, struct gb_device *device,
                      const struct gb_graph_need *need)
{
    gpubudget_request_t request = {.bytes = need->largest,
                                   .most_bytes = need->bytes,
                                   .kind = GPUBUDGET_KIND_GRAPH,
                                   .acquire = acquire,
                                   .undo = undo,
                                   .arg = graph};

    graph->call.device = device;
    graph->call.answered = false;
    return gb_call_allocate(&graph->call, &request);
}

bool gb_graph_is_requested(void)
{
    return gb_settings()->charge == GB_CHARGE_REQUESTED;
}

void gb_graph_look(struct gb_driver *drv, const struct gb_executable *executable)
{
    for (int i = 0; i < executable->needs.count; i++) {
        struct gb_device *device = gb_process_device_at(executable->needs.need[i].device);

        if (device)
            gb_graphs_refresh(&device->backend.graphs, &drv->api);
    }
}

void gb_graph_give_back(const struct gb_executable *executable)
{
    for (int i = 0; i < executable->needs.count; i++) {
        struct gb_device *device = gb_process_device_at(executable->needs.need[i].device);

        if (device && executable->charged[i] > 0)
            gb_ledger_reclaim(&device->backend.ledger, executable->charged[i]);
    }
}
