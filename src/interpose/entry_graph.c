/*
 * entry_graph.c: executables with allocation nodes take their memory before they run.
 *
 * Footprint mode: before its first launch, and after a trim, an executable is uploaded as a
 * request of its device's stack: where that does not fit it is trimmed again, the program gets
 * out of memory, and nothing is launched. Requested mode: the nodes are charged from
 * instantiation to the executable's end. Graphs without allocation nodes pass through.
 */
#include "interpose/call.h"
#include "interpose/executables.h"
#include "interpose/handlers.h"
#include "interpose/local_memory.h"

#include <stddef.h>

#include "resource/capture.h"
#include "resource/nap.h"
#include "resource/resource.h"

/* While others trim: so often an executable is given its memory anew, and so long in between.
 */
enum { LAUNCH_TRIES = 500, LAUNCH_NAP_NS = 20000 };

/* One need of an executable as a request: the same steps, whichever call brings it about. */
struct graph_call {
    struct gb_call call;
    CUresult (*take)(struct graph_call *graph);
    CUresult (*undo)(struct graph_call *graph);
    CUgraphExec handle; /* the program's output, or argument */
    CUgraphExec before;
    CUgraph graph;
    CUstream stream;
    gb_fn_cuGraphUpload *upload;
    CUgraphNode *error_node;
    char *log;
    size_t log_size;
    unsigned long long flags;
    CUDA_GRAPH_INSTANTIATE_PARAMS *params;
    gb_fn_cuGraphInstantiate *instantiate;
    gb_fn_cuGraphInstantiateWithParams *instantiate_with_params;
};

static CUresult acquire(void *arg, CUdeviceptr *pointer, size_t *bytes)
{
    struct graph_call *graph = arg;
    CUresult code = graph->take(graph);

    if (code == CUDA_SUCCESS) {
        *pointer = (CUdeviceptr)(uintptr_t)graph->handle;
        *bytes = 0;
    }
    return code;
}

static CUresult undo(void *arg, CUdeviceptr pointer)
{
    struct graph_call *graph = arg;
    const struct gb_driver_api *api = &graph->call.drv->api;
    struct gb_capture_mode saved = gb_capture_relax(api);
    CUresult code = graph->undo(graph);

    (void)pointer;
    gb_capture_restore(api, &saved);
    return code;
}

static CUresult ask(struct graph_call *graph, struct gb_device *device,
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

static bool is_requested(void)
{
    return gb_settings()->charge == GB_CHARGE_REQUESTED;
}

/* Memory that was taken by an upload alone goes at a trim. */
static CUresult trim_again(struct graph_call *graph)
{
    const struct gb_driver_api *api = &graph->call.drv->api;

    gb_graphs_make_room(&graph->call.device->backend.graphs, api, true);
    return CUDA_SUCCESS;
}

static CUresult upload(struct graph_call *graph)
{
    return graph->upload(graph->handle, graph->stream);
}

/* The program has asked for a launch only: beside a capture this is a call of ours. */
static CUresult upload_before_launch(struct graph_call *graph)
{
    const struct gb_driver_api *api = &graph->call.drv->api;
    struct gb_capture_mode saved = gb_capture_relax(api);
    CUresult code = upload(graph);

    gb_capture_restore(api, &saved);
    return code;
}

/*
 * Gives the executable its memory on every device where a trim may have taken it. On success
 * `uploaded` tells whether the driver has done so now.
 */
static CUresult prepare(struct graph_call *graph, struct gb_executable *executable,
                        bool *uploaded)
{
    *uploaded = false;
    for (int i = 0; i < executable->needs.count; i++) {
        const struct gb_graph_need *need = &executable->needs.need[i];
        struct gb_device *device;
        uint64_t era;
        CUresult code;

        if (gb_process_device(graph->call.drv, need->device, &device) != GB_RULING_BUDGET)
            continue;
        era = atomic_load(&device->backend.graphs.trims) + 1;
        if (atomic_load(&executable->prepared[i]) == era)
            continue;
        code = ask(graph, device, need);
        if (code != CUDA_SUCCESS)
            return code;
        *uploaded = true;
        atomic_store(&executable->prepared[i], era);
    }
    return CUDA_SUCCESS;
}

/* What has run may have taken more: executables that run at the same time do not share. */
static void look(struct gb_driver *drv, const struct gb_executable *executable)
{
    for (int i = 0; i < executable->needs.count; i++) {
        struct gb_device *device = gb_process_device_at(executable->needs.need[i].device);

        if (device)
            gb_graphs_refresh(&device->backend.graphs, &drv->api);
    }
}

struct graph_launch {
    gb_fn_cuGraphLaunch *real;
    CUgraphExec handle;
    CUstream stream;
};

static CUresult run(void *arg)
{
    const struct graph_launch *launch = arg;

    return launch->real(launch->handle, launch->stream);
}

/* The device that the executable was given its memory on; NULL: none that has a budget. */
static struct gb_device *prepared_on(const struct gb_executable *executable, int i)
{
    return atomic_load(&executable->prepared[i]) > 0
               ? gb_process_device_at(executable->needs.need[i].device)
               : NULL;
}

static void launched(const struct gb_executable *executable, int count)
{
    for (int i = 0; i < count; i++) {
        struct gb_device *device = prepared_on(executable, i);

        if (device)
            gb_graphs_launch_ends(&device->backend.graphs);
    }
}

/* From now on no trim of ours, and none of the program's that we can hold up, takes back what
 * the executable was given. False: one has. */
static bool may_launch(const struct gb_executable *executable, bool anyway)
{
    for (int i = 0; i < executable->needs.count; i++) {
        struct gb_device *device = prepared_on(executable, i);

        if (device &&
            !gb_graphs_launch_begins(&device->backend.graphs,
                                     atomic_load(&executable->prepared[i]) - 1, anyway)) {
            launched(executable, i);
            return false;
        }
    }
    return true;
}

/* Graph memory first, on every device; then local memory with the launch itself. */
static CUresult launch_prepared(struct graph_call *graph, struct gb_executable *executable,
                                struct graph_launch *launch)
{
    CUresult code;
    bool uploaded;

    for (int i = 0;; i++) {
        code = prepare(graph, executable, &uploaded);
        if (code != CUDA_SUCCESS)
            return code;
        if (may_launch(executable, i == LAUNCH_TRIES))
            break;
        gb_nap(LAUNCH_NAP_NS);
    }
    code = gb_local_launch_needing(graph->call.drv, atomic_load(&executable->local), run,
                                   launch, "cuGraphLaunch");
    launched(executable, executable->needs.count);
    return code;
}

static CUresult launch(struct gb_driver *drv, CUgraphExec handle, CUstream stream,
                       bool is_thread, gb_fn_cuGraphLaunch *real,
                       gb_fn_cuGraphUpload *upload_fn)
{
    struct graph_call graph = {.call = {.drv = drv, .name = "cuGraphLaunch"},
                               .take = upload_before_launch,
                               .undo = trim_again,
                               .handle = handle,
                               .stream = stream,
                               .upload = upload_fn};
    struct graph_launch launch = {real, handle, stream};
    const struct gb_stream_call call = {.stream = stream, .is_thread = is_thread};
    struct gb_executable *executable;
    CUresult code;

    if (atomic_load_explicit(&gb_executables_count, memory_order_relaxed) == 0 ||
        is_requested() || !upload_fn)
        return real(handle, stream);
    executable = gb_executable_get(drv, handle);
    if (!executable)
        return real(handle, stream);
    /* A launch that is captured becomes a node: nothing is taken yet. */
    code = gb_process_capturing(drv, &call) ? real(handle, stream)
                                            : launch_prepared(&graph, executable, &launch);
    look(drv, executable);
    gb_executable_put(executable);
    return code;
}

CUresult gb_enter_cuGraphLaunch(struct gb_driver *drv, CUgraphExec hGraphExec, CUstream hStream)
{
    return launch(drv, hGraphExec, hStream, false, GB_REAL(drv, cuGraphLaunch),
                  GB_REAL(drv, cuGraphUpload));
}

CUresult gb_enter_cuGraphLaunch_ptsz(struct gb_driver *drv, CUgraphExec hGraphExec,
                                     CUstream hStream)
{
    return launch(drv, hGraphExec, hStream, true, GB_REAL(drv, cuGraphLaunch_ptsz),
                  GB_REAL(drv, cuGraphUpload_ptsz));
}

/* The program's own upload: the same, but that the driver's call is its own and made in any
 * case. */
static CUresult program_upload(struct gb_driver *drv, CUgraphExec handle, CUstream stream,
                               bool is_thread, gb_fn_cuGraphUpload *real)
{
    struct graph_call graph = {.call = {.drv = drv, .name = "cuGraphUpload"},
                               .take = upload,
                               .undo = trim_again,
                               .handle = handle,
                               .stream = stream,
                               .upload = real};
    const struct gb_stream_call call = {.stream = stream, .is_thread = is_thread};
    struct gb_executable *executable;
    CUresult code;
    bool uploaded = false;

    if (atomic_load_explicit(&gb_executables_count, memory_order_relaxed) == 0 ||
        is_requested())
        return real(handle, stream);
    executable = gb_executable_get(drv, handle);
    if (!executable)
        return real(handle, stream);
    code = gb_process_capturing(drv, &call) ? CUDA_SUCCESS
                                            : prepare(&graph, executable, &uploaded);
    if (code == CUDA_SUCCESS && !uploaded)
        code = real(handle, stream);
    look(drv, executable);
    gb_executable_put(executable);
    return code;
}

CUresult gb_enter_cuGraphUpload(struct gb_driver *drv, CUgraphExec hGraphExec, CUstream hStream)
{
    return program_upload(drv, hGraphExec, hStream, false, GB_REAL(drv, cuGraphUpload));
}

CUresult gb_enter_cuGraphUpload_ptsz(struct gb_driver *drv, CUgraphExec hGraphExec,
                                     CUstream hStream)
{
    return program_upload(drv, hGraphExec, hStream, true, GB_REAL(drv, cuGraphUpload_ptsz));
}

/* ---- instantiation ---- */

static CUresult instantiate_plain(struct graph_call *graph)
{
    return graph->instantiate(&graph->handle, graph->graph, graph->error_node, graph->log,
                              graph->log_size);
}

static CUresult instantiate_flags(struct graph_call *graph)
{
    return GB_REAL(graph->call.drv, cuGraphInstantiateWithFlags)(&graph->handle, graph->graph,
                                                                 graph->flags);
}

static CUresult instantiate_params(struct graph_call *graph)
{
    return graph->instantiate_with_params(&graph->handle, graph->graph, graph->params);
}

static CUresult destroy_again(struct graph_call *graph)
{
    CUresult code = graph->call.drv->api.cuGraphExecDestroy(graph->handle);

    if (code != CUDA_SUCCESS)
        return code;
    graph->handle = graph->before;
    if (!is_requested())
        gb_graphs_make_room(&graph->call.device->backend.graphs, &graph->call.drv->api, true);
    return CUDA_SUCCESS;
}

/* Charges the instantiation to the first device that has a budget; the rest goes with it. */
static CUresult instantiate_charged(struct graph_call *graph, struct gb_executable *executable,
                                    bool uploads)
{
    for (int i = 0; i < executable->needs.count; i++) {
        const struct gb_graph_need *need = &executable->needs.need[i];
        struct gb_device *device;
        CUresult code;
        uint64_t era;

        if (gb_process_device(graph->call.drv, need->device, &device) != GB_RULING_BUDGET)
            continue;
        era = atomic_load(&device->backend.graphs.trims) + 1;
        code = ask(graph, device, need);
        if (code == CUDA_SUCCESS && is_requested())
            executable->charged[i] = need->bytes;
        if (code == CUDA_SUCCESS && uploads)
            atomic_store(&executable->prepared[i], era);
        return code;
    }
    graph->call.answered = true;
    return graph->take(graph);
}

static void give_back(const struct gb_executable *executable)
{
    for (int i = 0; i < executable->needs.count; i++) {
        struct gb_device *device = gb_process_device_at(executable->needs.need[i].device);

        if (device && executable->charged[i] > 0)
            gb_ledger_reclaim(&device->backend.ledger, executable->charged[i]);
    }
}

/* Through the stack, or as the driver answers; then into the table. */
static CUresult instantiate_known(struct graph_call *graph, struct gb_executable *executable,
                                  bool uploads)
{
    CUresult code;

    if (executable->needs.count > 0 && (uploads || is_requested())) {
        code = instantiate_charged(graph, executable, uploads);
    } else {
        graph->call.answered = true;
        code = graph->take(graph);
    }
    /* On further devices, too. */
    if (code == CUDA_SUCCESS && uploads)
        look(graph->call.drv, executable);
    if (code != CUDA_SUCCESS || !gb_graph_needs_any(&executable->needs)) {
        gb_executable_end(executable);
        return code;
    }
    if (gb_executable_add(executable, graph->call.drv, graph->handle))
        return code;
    /* What is not recorded is not given out: its launches could not be charged. */
    graph->call.drv->api.cuGraphExecDestroy(graph->handle);
    give_back(executable);
    gb_executable_end(executable);
    graph->call.answered = false;
    return CUDA_ERROR_OUT_OF_MEMORY;
}

static CUresult instantiate(struct graph_call *graph, CUgraphExec *output, bool uploads)
{
    struct gb_executable *executable = gb_executable_new();
    CUresult code = CUDA_ERROR_OUT_OF_MEMORY;

    graph->undo = destroy_again;
    graph->handle = graph->before = *output;
    if (executable && gb_graph_read_needs(graph->call.drv, graph->graph, &executable->needs)) {
        code = instantiate_known(graph, executable, uploads);
    } else {
        /* Either the driver has the same answer, or what it needs stays unknown. */
        code = graph->take(graph);
        graph->call.answered = code != CUDA_SUCCESS;
        if (code == CUDA_SUCCESS) {
            graph->call.drv->api.cuGraphExecDestroy(graph->handle);
            code = CUDA_ERROR_OUT_OF_MEMORY;
        }
        if (executable)
            gb_executable_end(executable);
    }
    if (graph->call.answered)
        *output = graph->handle;
    return code;
}

CUresult gb_enter_cuGraphInstantiate(struct gb_driver *drv, CUgraphExec *phGraphExec,
                                     CUgraph hGraph, CUgraphNode *phErrorNode, char *logBuffer,
                                     size_t bufferSize)
{
    struct graph_call graph = {.call = {.drv = drv, .name = "cuGraphInstantiate"},
                               .take = instantiate_plain,
                               .graph = hGraph,
                               .error_node = phErrorNode,
                               .log = logBuffer,
                               .log_size = bufferSize,
                               .instantiate = GB_REAL(drv, cuGraphInstantiate)};

    if (!phGraphExec)
        return graph.instantiate(phGraphExec, hGraph, phErrorNode, logBuffer, bufferSize);
    return instantiate(&graph, phGraphExec, false);
}

CUresult gb_enter_cuGraphInstantiate_v2(struct gb_driver *drv, CUgraphExec *phGraphExec,
                                        CUgraph hGraph, CUgraphNode *phErrorNode,
                                        char *logBuffer, size_t bufferSize)
{
    struct graph_call graph = {.call = {.drv = drv, .name = "cuGraphInstantiate"},
                               .take = instantiate_plain,
                               .graph = hGraph,
                               .error_node = phErrorNode,
                               .log = logBuffer,
                               .log_size = bufferSize,
                               .instantiate = GB_REAL(drv, cuGraphInstantiate_v2)};

    if (!phGraphExec)
        return graph.instantiate(phGraphExec, hGraph, phErrorNode, logBuffer, bufferSize);
    return instantiate(&graph, phGraphExec, false);
}

CUresult gb_enter_cuGraphInstantiateWithFlags(struct gb_driver *drv, CUgraphExec *phGraphExec,
                                              CUgraph hGraph, unsigned long long flags)
{
    struct graph_call graph = {.call = {.drv = drv, .name = "cuGraphInstantiate"},
                               .take = instantiate_flags,
                               .graph = hGraph,
                               .flags = flags};

    if (!phGraphExec)
        return GB_REAL(drv, cuGraphInstantiateWithFlags)(phGraphExec, hGraph, flags);
    return instantiate(&graph, phGraphExec, false);
}

static CUresult with_params(struct gb_driver *drv, CUgraphExec *output, CUgraph hGraph,
                            CUDA_GRAPH_INSTANTIATE_PARAMS *params,
                            gb_fn_cuGraphInstantiateWithParams *real)
{
    struct graph_call graph = {.call = {.drv = drv, .name = "cuGraphInstantiate"},
                               .take = instantiate_params,
                               .graph = hGraph,
                               .params = params,
                               .instantiate_with_params = real};

    if (!output || !params)
        return real(output, hGraph, params);
    return instantiate(&graph, output, params->flags & CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD);
}

CUresult gb_enter_cuGraphInstantiateWithParams(struct gb_driver *drv, CUgraphExec *phGraphExec,
                                               CUgraph hGraph,
                                               CUDA_GRAPH_INSTANTIATE_PARAMS *instantiateParams)
{
    return with_params(drv, phGraphExec, hGraph, instantiateParams,
                       GB_REAL(drv, cuGraphInstantiateWithParams));
}

CUresult
gb_enter_cuGraphInstantiateWithParams_ptsz(struct gb_driver *drv, CUgraphExec *phGraphExec,
                                           CUgraph hGraph,
                                           CUDA_GRAPH_INSTANTIATE_PARAMS *instantiateParams)
{
    return with_params(drv, phGraphExec, hGraph, instantiateParams,
                       GB_REAL(drv, cuGraphInstantiateWithParams_ptsz));
}

CUresult gb_enter_cuGraphExecDestroy(struct gb_driver *drv, CUgraphExec hGraphExec)
{
    struct gb_executable *executable = NULL;
    CUresult code;

    if (atomic_load(&gb_executables_count) > 0)
        executable = gb_executable_take(drv, hGraphExec);
    code = GB_REAL(drv, cuGraphExecDestroy)(hGraphExec);
    if (!executable)
        return code;
    if (code != CUDA_SUCCESS) {
        if (!gb_executable_add(executable, drv, hGraphExec))
            gb_executable_end(executable);
        return code;
    }
    give_back(executable);
    look(drv, executable);
    gb_executable_end(executable);
    return code;
}

CUresult gb_enter_cuDeviceGraphMemTrim(struct gb_driver *drv, CUdevice device)
{
    struct gb_device *ours = gb_process_device_at(device);
    CUresult code;

    if (ours)
        gb_graphs_trim_begins(&ours->backend.graphs);
    code = GB_REAL(drv, cuDeviceGraphMemTrim)(device);
    if (ours)
        gb_graphs_trim_ends(&ours->backend.graphs, &drv->api, code == CUDA_SUCCESS);
    return code;
}

/* ---- kernels of an executable become others ---- */

/* What is not launched under a measuring budget need not be known. */
static bool is_watched(CUresult code)
{
    return code == CUDA_SUCCESS && !is_requested() && gb_process_device_count() > 0;
}

static void needs_function(struct gb_driver *drv, CUgraphExec handle, CUfunction function,
                           CUkernel kernel)
{
    gb_executable_needs_local(
        drv, handle, gb_local_need(drv, function ? function : (CUfunction)(void *)kernel));
}

CUresult gb_enter_cuGraphExecKernelNodeSetParams(struct gb_driver *drv, CUgraphExec hGraphExec,
                                                 CUgraphNode hNode,
                                                 const CUDA_KERNEL_NODE_PARAMS_v1 *nodeParams)
{
    CUresult code = GB_REAL(drv, cuGraphExecKernelNodeSetParams)(hGraphExec, hNode, nodeParams);

    if (is_watched(code) && nodeParams)
        needs_function(drv, hGraphExec, nodeParams->func, NULL);
    return code;
}

CUresult
gb_enter_cuGraphExecKernelNodeSetParams_v2(struct gb_driver *drv, CUgraphExec hGraphExec,
                                           CUgraphNode hNode,
                                           const CUDA_KERNEL_NODE_PARAMS_v2 *nodeParams)
{
    CUresult code =
        GB_REAL(drv, cuGraphExecKernelNodeSetParams_v2)(hGraphExec, hNode, nodeParams);

    if (is_watched(code) && nodeParams)
        needs_function(drv, hGraphExec, nodeParams->func, nodeParams->kern);
    return code;
}

CUresult gb_enter_cuGraphExecNodeSetParams(struct gb_driver *drv, CUgraphExec hGraphExec,
                                           CUgraphNode hNode, CUgraphNodeParams *nodeParams)
{
    CUresult code = GB_REAL(drv, cuGraphExecNodeSetParams)(hGraphExec, hNode, nodeParams);

    if (is_watched(code) && nodeParams && nodeParams->type == CU_GRAPH_NODE_TYPE_KERNEL)
        needs_function(drv, hGraphExec, nodeParams->kernel.func, nodeParams->kernel.kern);
    return code;
}

static CUresult updated(struct gb_driver *drv, CUgraphExec handle, CUgraph graph, CUresult code)
{
    struct gb_graph_needs needs;

    if (is_watched(code) && gb_graph_read_needs(drv, graph, &needs))
        gb_executable_needs_local(drv, handle, needs.local);
    return code;
}

CUresult gb_enter_cuGraphExecUpdate(struct gb_driver *drv, CUgraphExec hGraphExec,
                                    CUgraph hGraph, CUgraphNode *hErrorNode_out,
                                    CUgraphExecUpdateResult *updateResult_out)
{
    return updated(
        drv, hGraphExec, hGraph,
        GB_REAL(drv, cuGraphExecUpdate)(hGraphExec, hGraph, hErrorNode_out, updateResult_out));
}

CUresult gb_enter_cuGraphExecUpdate_v2(struct gb_driver *drv, CUgraphExec hGraphExec,
                                       CUgraph hGraph, CUgraphExecUpdateResultInfo *resultInfo)
{
    return updated(drv, hGraphExec, hGraph,
                   GB_REAL(drv, cuGraphExecUpdate_v2)(hGraphExec, hGraph, resultInfo));
}
