/* What the kernels of a graph take beyond local memory at the instantiation, and when they take
 * it in ways that observe_local_graph does not try. */
#include "observe_code.h"

#include <string.h>

#define CHANGE(name) observe_size((uint64_t)observe_change(before), name)

static CUdeviceptr out;
static unsigned at = 64;
static void *arguments[] = {&out, &at};

static CUDA_KERNEL_NODE_PARAMS params_of(CUfunction function)
{
    CUDA_KERNEL_NODE_PARAMS params;
    memset(&params, 0, sizeof(params));
    params.func = function;
    params.gridDimX = params.gridDimY = params.gridDimZ = 1;
    params.blockDimX = 32;
    params.blockDimY = params.blockDimZ = 1;
    params.kernelParams = arguments;
    return params;
}

static CUgraph graph_of(CUfunction function, int count, CUgraphNode *node)
{
    CUDA_KERNEL_NODE_PARAMS params = params_of(function);
    CUgraph graph = NULL;
    cuGraphCreate(&graph, 0);
    for (int i = 0; i < count; i++)
        CALL(cuGraphAddKernelNode_v2, node, graph, NULL, 0, &params);
    return graph;
}

static CUgraphExec exec_of(CUgraph graph)
{
    CUgraphExec exec = NULL;
    CALL(cuGraphInstantiateWithFlags, &exec, graph, 0);
    return exec;
}

static void shrink(void)
{
    cuCtxSetLimit(CU_LIMIT_STACK_SIZE, 1024);
}

/* Kernels that need no local memory. */
static void plain(CUfunction nothing, CUstream stream)
{
    CUgraphNode node = NULL;
    CUgraphExec exec;
    CUgraph empty = NULL;
    uint64_t before = observe_process_bytes();
    cuGraphCreate(&empty, 0);
    cuGraphAddEmptyNode(&node, empty, NULL, 0);
    exec_of(empty);
    CHANGE("graph_nodes.empty");
    exec = exec_of(graph_of(nothing, 1, &node));
    CHANGE("graph_nodes.first");
    exec_of(graph_of(nothing, 1, &node));
    CHANGE("graph_nodes.second");
    cuGraphLaunch(exec, stream);
    cuStreamSynchronize(stream);
    CHANGE("graph_nodes.launched");
    exec_of(graph_of(nothing, 1000, &node));
    CHANGE("graph_nodes.thousand");
}

/* An executable whose kernel becomes one that needs more. */
static void changed(CUfunction nothing, CUfunction big, CUstream stream)
{
    CUDA_KERNEL_NODE_PARAMS params = params_of(big);
    CUgraphExecUpdateResultInfo info;
    CUgraphNode node = NULL, other = NULL;
    CUgraph graph = graph_of(nothing, 1, &node);
    CUgraphExec exec = exec_of(graph);
    uint64_t before = observe_process_bytes();
    observe_code(CALL(cuGraphExecKernelNodeSetParams_v2, exec, node, &params),
                 "graph_nodes.set_params");
    CHANGE("graph_nodes.set_params");
    cuGraphLaunch(exec, stream);
    cuStreamSynchronize(stream);
    CHANGE("graph_nodes.set_params_launched");
    shrink();
    exec = exec_of(graph);
    memset(&info, 0, sizeof(info));
    observe_code(CALL(cuGraphExecUpdate_v2, exec, graph_of(big, 1, &other), &info),
                 "graph_nodes.update");
    CHANGE("graph_nodes.update");
    cuGraphLaunch(exec, stream);
    cuStreamSynchronize(stream);
    CHANGE("graph_nodes.update_launched");
    shrink();
    observe_code(cuGraphUpload(exec, stream), "graph_nodes.upload_after_shrink");
    cuStreamSynchronize(stream);
    CHANGE("graph_nodes.upload_after_shrink");
    shrink();
}

static void held(CUfunction big)
{
    CUgraphNode node = NULL;
    CUgraph graph = graph_of(big, 1, &node);
    CUgraphExec exec = NULL;
    observe_hold(observe_stream());
    observe_code(CALL(cuGraphInstantiateWithFlags, &exec, graph, 0),
                 "graph_nodes.held.instantiate");
    observe_fact(observe_was_blocked(), "graph_nodes.held.instantiate_waits");
    observe_let_go();
    cuCtxSynchronize();
    shrink();
}

/* In the body of a conditional node, which does not run. */
static void in_body(CUcontext context, CUfunction big, CUstream stream)
{
    CUDA_KERNEL_NODE_PARAMS kernel = params_of(big);
    CUgraphConditionalHandle handle = 0;
    CUgraphNodeParams params;
    CUgraphNode node = NULL;
    CUgraphExec exec = NULL;
    CUgraph graph = NULL;
    uint64_t before = observe_process_bytes();
    cuGraphCreate(&graph, 0);
    CALL(cuGraphConditionalHandleCreate, &handle, graph, context, 0,
         CU_GRAPH_COND_ASSIGN_DEFAULT);
    memset(&params, 0, sizeof(params));
    params.type = CU_GRAPH_NODE_TYPE_CONDITIONAL;
    params.conditional.handle = handle;
    params.conditional.ctx = context;
    params.conditional.type = CU_GRAPH_COND_TYPE_IF;
    params.conditional.size = 1;
    CALL(cuGraphAddNode_v2, &node, graph, NULL, NULL, 0, &params);
    if (!params.conditional.phGraph_out)
        return;
    CALL(cuGraphAddKernelNode_v2, &node, params.conditional.phGraph_out[0], NULL, 0, &kernel);
    observe_code(CALL(cuGraphInstantiateWithFlags, &exec, graph, 0),
                 "graph_nodes.body.instantiate");
    CHANGE("graph_nodes.body.instantiate");
    observe_code(cuGraphLaunch(exec, stream), "graph_nodes.body.launch");
    cuStreamSynchronize(stream);
    CHANGE("graph_nodes.body.launch");
    shrink();
}

/* The device heap. */
static void heap(CUfunction takes, CUstream stream)
{
    CUgraphNode node = NULL;
    CUgraphExec exec;
    uint64_t before = observe_process_bytes();
    exec = exec_of(graph_of(takes, 1, &node));
    CHANGE("graph_nodes.heap.instantiate");
    cuGraphLaunch(exec, stream);
    cuStreamSynchronize(stream);
    CHANGE("graph_nodes.heap.launch");
}

void observe_graph_nodes(void)
{
    CUcontext context = observe_primary();
    CUmodule module = NULL, heaps = NULL;
    CUfunction nothing, big;
    CUstream stream = observe_stream();
    cuMemAlloc(&out, 4096);
    cuModuleLoadData(&module, observe_frames);
    cuModuleLoadData(&heaps, observe_heap);
    nothing = observe_function(module, "nothing");
    big = observe_function(module, "frame_8k");
    /* What else a first launch takes shall not be in the figures. */
    observe_launch_frame(nothing, stream);
    cuStreamSynchronize(stream);
    plain(nothing, stream);
    changed(nothing, big, stream);
    held(big);
    in_body(context, big, stream);
    heap(observe_function(heaps, "takes"), stream);
}
