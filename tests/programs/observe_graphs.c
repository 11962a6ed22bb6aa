/* Graphs with memory: what is allowed, and what each way of making an executable takes. */
#include "observe_code.h"

#include <string.h>

#define CHANGE(name) observe_size((uint64_t)observe_change(before), name)

static CUdeviceptr memory_nodes(CUgraph graph, size_t bytes)
{
    CUDA_MEM_ALLOC_NODE_PARAMS params;
    CUgraphNode alloc = NULL, end = NULL;
    memset(&params, 0, sizeof(params));
    params.poolProps.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    params.poolProps.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    params.bytesize = bytes;
    cuGraphAddMemAllocNode(&alloc, graph, NULL, 0, &params);
    cuGraphAddMemFreeNode(&end, graph, &alloc, 1, params.dptr);
    return params.dptr;
}

void observe_graph_forms(void)
{
    CUgraph graph = NULL, parent = NULL, copy = NULL, inside = NULL;
    CUgraphExec exec = NULL, second = NULL;
    CUgraphNode node = NULL, nodes[2] = {NULL, NULL};
    CUgraphNodeParams params;
    CUDA_MEM_ALLOC_NODE_PARAMS alloc;
    CUDA_GRAPH_INSTANTIATE_PARAMS with;
    CUgraphExecUpdateResultInfo info;
    CUstream stream;
    size_t count = 2;
    uint64_t before;
    observe_begin();
    stream = observe_stream();
    before = observe_process_bytes();
    cuGraphCreate(&graph, 0);
    memory_nodes(graph, 64 * MIB);
    cuGraphGetNodes(graph, nodes, &count);
    observe_code(cuGraphInstantiate(&exec, graph, 0), "graph_form.first");
    observe_code(cuGraphInstantiate(&second, graph, 0), "graph_form.second");
    observe_code(cuGraphClone(&copy, graph), "graph_form.clone");
    observe_code(cuGraphDestroyNode(nodes[1]), "graph_form.destroy_node");
    memset(&info, 0, sizeof(info));
    observe_code(CALL(cuGraphExecUpdate_v2, exec, graph, &info), "graph_form.update");
    observe_fact(info.result, "graph_form.update_result");
    memset(&alloc, 0, sizeof(alloc));
    cuGraphMemAllocNodeGetParams(nodes[0], &alloc);
    memset(&params, 0, sizeof(params));
    params.type = CU_GRAPH_NODE_TYPE_MEM_ALLOC;
    memcpy(&params.alloc, &alloc, sizeof(alloc));
    observe_code(CALL(cuGraphNodeSetParams, nodes[0], &params), "graph_form.set_params");
    observe_code(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL),
                 "graph_form.begin_capture");
    observe_code(cuGraphLaunch(exec, stream), "graph_form.capture_launch");
    observe_code(cuStreamEndCapture(stream, &copy), "graph_form.end_capture");
    cuGraphExecDestroy(exec);
    CHANGE("graph_form.nothing_launched");
    /* Upload at the instantiation. */
    exec = NULL;
    observe_code(
        CALL(cuGraphInstantiateWithFlags, &exec, graph, CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD),
        "graph_form.flags_upload");
    CHANGE("graph_form.flags_upload");
    if (exec)
        cuGraphExecDestroy(exec);
    memset(&with, 0, sizeof(with));
    with.flags = CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD;
    with.hUploadStream = stream;
    observe_code(CALL(cuGraphInstantiateWithParams, &exec, graph, &with),
                 "graph_form.params_upload");
    cuStreamSynchronize(stream);
    CHANGE("graph_form.params_upload");
    cuGraphExecDestroy(exec);
    cuDeviceGraphMemTrim(0);
    CHANGE("graph_form.trimmed");
    observe_code(CALL(cuGraphInstantiateWithFlags, &exec, graph,
                      CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH),
                 "graph_form.device_launch");
    /* A graph with memory in another one. */
    cuGraphCreate(&parent, 0);
    observe_code(cuGraphAddChildGraphNode(&node, parent, NULL, 0, graph), "graph_form.child");
    memset(&params, 0, sizeof(params));
    params.type = CU_GRAPH_NODE_TYPE_GRAPH;
    params.graph.graph = graph;
    params.graph.ownership = CU_GRAPH_CHILD_GRAPH_OWNERSHIP_MOVE;
    observe_code(CALL(cuGraphAddNode_v2, &node, parent, NULL, NULL, 0, &params),
                 "graph_form.child_moved");
    observe_code(cuGraphInstantiate(&exec, parent, 0), "graph_form.child_instantiate");
    observe_code(cuGraphLaunch(exec, stream), "graph_form.child_launch");
    cuStreamSynchronize(stream);
    CHANGE("graph_form.child_launch");
    cuGraphExecDestroy(exec);
    cuDeviceGraphMemTrim(0);
    /* An allocation in a child that was copied. */
    cuGraphCreate(&parent, 0);
    cuGraphCreate(&copy, 0);
    cuGraphAddChildGraphNode(&node, parent, NULL, 0, copy);
    cuGraphChildGraphNodeGetGraph(node, &inside);
    alloc.bytesize = MIB;
    observe_code(cuGraphAddMemAllocNode(&node, inside, NULL, 0, &alloc),
                 "graph_form.alloc_in_child");
}

/* What a graph with memory takes alone, and as a child: of each size in turn. */
void observe_graph_child(void)
{
    static const size_t sizes[] = {1, 20, 32, 64, 200};
    CUDA_GRAPH_INSTANTIATE_PARAMS with;
    CUgraphNodeParams params;
    CUstream stream;
    uint64_t before;
    observe_begin();
    stream = observe_stream();
    memset(&with, 0, sizeof(with));
    before = observe_process_bytes();
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
        for (int inside = 0; inside < 2; inside++) {
            const char *where = inside ? "child" : "alone";
            CUgraph graph = NULL, parent = NULL;
            CUgraphExec exec = NULL;
            CUgraphNode node = NULL;
            cuGraphCreate(&graph, 0);
            memory_nodes(graph, sizes[i] * MIB);
            if (inside) {
                cuGraphCreate(&parent, 0);
                memset(&params, 0, sizeof(params));
                params.type = CU_GRAPH_NODE_TYPE_GRAPH;
                params.graph.graph = graph;
                params.graph.ownership = CU_GRAPH_CHILD_GRAPH_OWNERSHIP_MOVE;
                CALL(cuGraphAddNode_v2, &node, parent, NULL, NULL, 0, &params);
                graph = parent;
            }
            observe_code(CALL(cuGraphInstantiateWithParams, &exec, graph, &with),
                         "graph_child.%s_%dm", where, (int)sizes[i]);
            cuGraphLaunch(exec, stream);
            cuStreamSynchronize(stream);
            observe_size((uint64_t)observe_change(before), "graph_child.%s_%dm.launched", where,
                         (int)sizes[i]);
            cuGraphExecDestroy(exec);
            cuGraphDestroy(graph);
            cuDeviceGraphMemTrim(0);
            observe_size((uint64_t)observe_change(before), "graph_child.%s_%dm.trimmed", where,
                         (int)sizes[i]);
        }
}

void observe_graph_conditional(void)
{
    CUgraph graph = NULL;
    CUgraphExec exec = NULL;
    CUgraphNode node = NULL;
    CUgraphConditionalHandle handle = 0;
    CUgraphNodeParams params;
    CUDA_MEM_ALLOC_NODE_PARAMS alloc;
    CUDA_KERNEL_NODE_PARAMS kernel;
    CUdeviceptr out = 0;
    CUmodule module = NULL;
    CUstream stream;
    unsigned at = 64;
    void *arguments[] = {&out, &at};
    uint64_t before;
    CUcontext context = observe_primary();
    stream = observe_stream();
    cuMemAlloc(&out, 4096);
    cuModuleLoadData(&module, observe_frames);
    cuLaunchKernel(observe_function(module, "nothing"), 1, 1, 1, 32, 1, 1, 0, stream, NULL,
                   NULL);
    cuStreamSynchronize(stream);
    cuGraphCreate(&graph, 0);
    observe_code(CALL(cuGraphConditionalHandleCreate, &handle, graph, NULL, 0,
                      CU_GRAPH_COND_ASSIGN_DEFAULT),
                 "graph_conditional.handle_no_context");
    observe_code(CALL(cuGraphConditionalHandleCreate, &handle, graph, context, 0,
                      CU_GRAPH_COND_ASSIGN_DEFAULT),
                 "graph_conditional.handle");
    memset(&params, 0, sizeof(params));
    params.type = CU_GRAPH_NODE_TYPE_CONDITIONAL;
    params.conditional.handle = handle;
    params.conditional.ctx = context;
    params.conditional.type = CU_GRAPH_COND_TYPE_IF;
    params.conditional.size = 1;
    observe_code(CALL(cuGraphAddNode_v2, &node, graph, NULL, NULL, 0, &params),
                 "graph_conditional.add");
    if (!params.conditional.phGraph_out)
        return;
    memset(&alloc, 0, sizeof(alloc));
    alloc.poolProps.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    alloc.poolProps.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    alloc.bytesize = MIB;
    observe_code(
        cuGraphAddMemAllocNode(&node, params.conditional.phGraph_out[0], NULL, 0, &alloc),
        "graph_conditional.alloc_in_body");
    memset(&kernel, 0, sizeof(kernel));
    kernel.func = observe_function(module, "frame_8k");
    kernel.gridDimX = kernel.gridDimY = kernel.gridDimZ = 1;
    kernel.blockDimX = kernel.blockDimY = kernel.blockDimZ = 1;
    kernel.kernelParams = arguments;
    observe_code(CALL(cuGraphAddKernelNode_v2, &node, params.conditional.phGraph_out[0], NULL,
                      0, &kernel),
                 "graph_conditional.kernel");
    before = observe_process_bytes();
    observe_code(cuGraphInstantiate(&exec, graph, 0), "graph_conditional.instantiate");
    /* The condition is false: the body does not run. */
    observe_code(cuGraphLaunch(exec, stream), "graph_conditional.launch");
    cuStreamSynchronize(stream);
    CHANGE("graph_conditional.launch");
}
