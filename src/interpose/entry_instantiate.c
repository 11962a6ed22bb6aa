/*
 * entry_instantiate.c: graphs become executables.
 *
 * What their allocation nodes and kernels need is read and kept. Requested mode charges the
 * nodes from here on; footprint mode the local memory and heap of the kernels and what the
 * driver takes for their nodes, and nothing else but with the flag that uploads at once.
 */
#include "interpose/graph_call.h"
#include "interpose/local_memory.h"

#include <stddef.h>

#include "resource/capture.h"
#include "resource/resource.h"

static CUresult instantiate_plain(struct gb_graph_call *graph)
{
    return graph->instantiate(&graph->handle, graph->graph, graph->error_node, graph->log,
                              graph->log_size);
}

static CUresult instantiate_flags(struct gb_graph_call *graph)
{
    return GB_REAL(graph->call.drv, cuGraphInstantiateWithFlags)(&graph->handle, graph->graph,
                                                                 graph->flags);
}

static CUresult instantiate_params(struct gb_graph_call *graph)
{
    return graph->instantiate_with_params(&graph->handle, graph->graph, graph->params);
}

static CUresult destroy_again(struct gb_graph_call *graph)
{
    CUresult code = graph->call.drv->api.cuGraphExecDestroy(graph->handle);

    if (code != CUDA_SUCCESS)
        return code;
    graph->handle = graph->before;
    if (!gb_graph_is_requested())
        gb_graphs_make_room(&graph->call.device->backend.graphs, &graph->call.drv->api, true);
    return CUDA_SUCCESS;
}

/* Charges the instantiation to the first device that has a budget; the rest goes with it. */
static CUresult instantiate_charged(struct gb_graph_call *graph,
                                    struct gb_executable *executable, bool uploads)
{
    for (int i = 0; i < executable->needs.count; i++) {
        const struct gb_graph_need *need = &executable->needs.need[i];
        struct gb_device *device;
        CUresult code;
        uint64_t era;

        if (gb_process_device(graph->call.drv, need->device, &device) != GB_RULING_BUDGET)
            continue;
        era = atomic_load(&device->backend.graphs.trims) + 1;
        code = gb_graph_ask(graph, device, need);
        if (code == CUDA_SUCCESS && gb_graph_is_requested())
            executable->charged[i] = need->bytes;
        if (code == CUDA_SUCCESS && uploads)
            atomic_store(&executable->prepared[i], era);
        return code;
    }
    graph->call.answered = true;
    return graph->take(graph);
}

struct making {
    struct gb_graph_call *graph;
    struct gb_executable *executable;
    bool uploads;
    struct gb_device *device; /* NULL: nothing is measured */
    CUcontext context;
    uint64_t nodes; /* bytes that may come for its kernels */
    uint64_t came;  /* of them, for sure */
};

static CUresult make(void *arg)
{
    const struct making *making = arg;

    if (making->executable->needs.count > 0 && (making->uploads || gb_graph_is_requested()))
        return instantiate_charged(making->graph, making->executable, making->uploads);
    making->graph->call.answered = true;
    return making->graph->take(making->graph);
}

static CUresult acquire(void *arg, CUdeviceptr *pointer, size_t *bytes)
{
    const struct making *making = arg;
    CUresult code = make(arg);

    if (code == CUDA_SUCCESS) {
        *pointer = (CUdeviceptr)(uintptr_t)making->graph->handle;
        *bytes = 0;
    }
    return code;
}

static CUresult undo(void *arg, CUdeviceptr pointer)
{
    struct gb_graph_call *graph = ((const struct making *)arg)->graph;
    const struct gb_driver_api *api = &graph->call.drv->api;
    struct gb_capture_mode saved = gb_capture_relax(api);
    CUresult code = api->cuGraphExecDestroy((CUgraphExec)(uintptr_t)pointer);

    gb_capture_restore(api, &saved);
    if (code == CUDA_SUCCESS)
        graph->handle = graph->before;
    return code;
}

/* Where that context is; the device given for one that is not known. */
static struct gb_contexts *contexts_of(CUcontext context, struct gb_device *otherwise)
{
    const int devices = context ? gb_process_device_count() : 0;

    for (int i = 0; i < devices; i++) {
        struct gb_device *device = gb_process_device_at(i);

        if (device && gb_contexts_serial(&device->backend.contexts, context) != 0)
            return &device->backend.contexts;
    }
    return &otherwise->backend.contexts;
}

/*
 * The kernels of a graph count in their contexts from before it is made until it is gone: what
 * is taken for them stays, so it is no use to undo it. Answers the bytes that may come to the
 * device.
 */
static uint64_t nodes_begin(struct gb_executable *executable, struct gb_device *device)
{
    const struct gb_graph_widths *widths = &executable->needs.widths;
    uint64_t bytes = 0;

    for (int i = 0; i < GB_GRAPH_CONTEXTS; i++) {
        struct gb_counted *counted = &executable->counted[i];

        if (widths->width[i] == 0)
            continue;
        counted->in = contexts_of(widths->context[i], device);
        counted->context = widths->context[i];
        counted->nodes = widths->width[i];
        counted->bytes = gb_contexts_nodes_begin(counted->in, counted->context, counted->nodes,
                                                 &counted->serial);
        if (counted->serial == 0)
            counted->context = NULL;
        /* What comes to another device is looked at there, afterwards. */
        if (counted->in == &device->backend.contexts)
            bytes += counted->bytes;
    }
    return bytes;
}

/* Of what may come to the device so much has. Where only one context may have got it, or all
 * have got all, it is known which. */
static void nodes_came(const struct making *making)
{
    struct gb_executable *executable = making->executable;
    int contexts = 0;

    for (int i = 0; i < GB_GRAPH_CONTEXTS; i++)
        contexts += executable->counted[i].in == &making->device->backend.contexts &&
                    executable->counted[i].bytes > 0;
    if (making->came == 0 || (contexts > 1 && making->came < making->nodes))
        return;
    for (int i = 0; i < GB_GRAPH_CONTEXTS; i++) {
        const struct gb_counted *counted = &executable->counted[i];
        uint64_t came = counted->bytes < making->came ? counted->bytes : making->came;

        if (counted->in == &making->device->backend.contexts && counted->context && came > 0)
            gb_contexts_nodes_came(counted->in, counted->context, counted->serial, came);
    }
}

/*
 * The driver takes memory for the nodes. Of many beside one another it is known how much at
 * most; else it is a measured call, undone where it does not fit. That may take turns, and so
 * does not go around a request of its own.
 */
static CUresult make_measured(void *arg)
{
    struct making *making = arg;
    struct gb_graph_call *graph = making->graph;
    struct gb_call call = {
        .drv = graph->call.drv, .device = making->device, .name = graph->call.name};
    gpubudget_request_t request = {.bytes = making->nodes,
                                   .most_bytes = making->nodes,
                                   .kind = GPUBUDGET_KIND_MEASURED,
                                   .tag = GB_MEASURED_GRAPH,
                                   .context = making->context,
                                   .acquire = acquire,
                                   .undo = undo,
                                   .arg = making};
    CUresult code;

    if (!making->device ||
        (making->nodes == 0 && making->uploads && making->executable->needs.count > 0))
        return make(making);
    code = gb_call_allocate(&call, &request);
    /* Also where it was undone: it stays. */
    if (!request.guessed)
        making->came = request.charged;
    return code;
}

static CUresult make_with_all(struct gb_graph_call *graph, struct gb_executable *executable,
                              bool uploads)
{
    struct making making = {.graph = graph, .executable = executable, .uploads = uploads};
    struct gb_driver *drv = graph->call.drv;
    struct gb_device *device;
    CUresult code = gb_graph_is_requested()
                        ? CUDA_SUCCESS
                        : gb_local_bring(drv, &executable->needs, graph->call.name);

    if (code != CUDA_SUCCESS)
        return code;
    if (!gb_graph_is_requested() &&
        gb_process_current(drv, &device, &making.context, &code) == GB_RULING_BUDGET &&
        device->backend.contexts.measure) {
        making.device = device;
        gb_backend_note_context(&device->backend, &drv->api, making.context, false);
        making.nodes = nodes_begin(executable, device);
    }
    code = gb_local_prepare_besides(drv, &executable->needs.kernels, making.nodes, &making.came,
                                    make, make_measured, &making, graph->call.name);
    if (making.device)
        nodes_came(&making);
    if (code != CUDA_SUCCESS)
        gb_executable_uncount(executable);
    return code;
}

/* Through the stack, or as the driver answers; then into the table. */
static CUresult instantiate_known(struct gb_graph_call *graph, struct gb_executable *executable,
                                  bool uploads)
{
    CUresult code = make_with_all(graph, executable, uploads);

    /* On further devices, too. */
    if (code == CUDA_SUCCESS && uploads)
        gb_graph_look(graph->call.drv, executable);
    if (code != CUDA_SUCCESS ||
        !(gb_graph_needs_any(&executable->needs) || gb_executable_counts(executable))) {
        gb_executable_end(executable);
        return code;
    }
    if (gb_executable_add(executable, graph->call.drv, graph->handle))
        return code;
    /* What is not recorded is not given out: its launches could not be charged. */
    graph->call.drv->api.cuGraphExecDestroy(graph->handle);
    gb_graph_give_back(executable);
    gb_executable_uncount(executable);
    gb_executable_end(executable);
    graph->call.answered = false;
    return CUDA_ERROR_OUT_OF_MEMORY;
}

static CUresult instantiate(struct gb_graph_call *graph, CUgraphExec *output, bool uploads)
{
    struct gb_executable *executable = gb_executable_new();
    CUresult code = CUDA_ERROR_OUT_OF_MEMORY;

    graph->undo = destroy_again;
    graph->handle = graph->before = *output;
    if (executable && gb_graph_read_needs(graph->call.drv, graph->graph, &executable->needs)) {
        code = instantiate_known(graph, executable, uploads);
    } else if (!executable || executable->needs.unread) {
        /* Not even tried: what comes with it would stay. */
        if (executable)
            gb_executable_end(executable);
    } else {
        /* Either the driver has the same answer, or what it needs stays unknown. */
        code = graph->take(graph);
        graph->call.answered = code != CUDA_SUCCESS;
        if (code == CUDA_SUCCESS) {
            graph->call.drv->api.cuGraphExecDestroy(graph->handle);
            code = CUDA_ERROR_OUT_OF_MEMORY;
        }
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
    struct gb_graph_call graph = {.call = {.drv = drv, .name = "cuGraphInstantiate"},
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
    struct gb_graph_call graph = {.call = {.drv = drv, .name = "cuGraphInstantiate"},
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
    struct gb_graph_call graph = {.call = {.drv = drv, .name = "cuGraphInstantiate"},
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
    struct gb_graph_call graph = {.call = {.drv = drv, .name = "cuGraphInstantiate"},
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
