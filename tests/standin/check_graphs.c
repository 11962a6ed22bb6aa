/* Graphs: memory and local memory by every way into an executable. */
#include "check_code.h"

#include <stdatomic.h>
#include <string.h>

static CUfunction none, some;
static CUstream stream;

static uint64_t begin(void)
{
    CUmodule module;
    check_begin();
    stream = check_stream();
    module = check_module(PTX_LOCAL);
    none = check_function(module, "none");
    some = check_function(module, "some");
    return standin_live_bytes(0);
}

static CUgraph graph_new(void)
{
    CUgraph graph = NULL;
    OK(cuGraphCreate(&graph, 0));
    return graph;
}

static CUDA_KERNEL_NODE_PARAMS kernel_params(CUfunction function)
{
    CUDA_KERNEL_NODE_PARAMS params;
    memset(&params, 0, sizeof(params));
    params.func = function;
    params.gridDimX = params.gridDimY = params.gridDimZ = 1;
    params.blockDimX = params.blockDimY = params.blockDimZ = 1;
    return params;
}

static CUgraphNode kernel_node(CUgraph graph, CUfunction function)
{
    CUDA_KERNEL_NODE_PARAMS params = kernel_params(function);
    CUgraphNode node = NULL;
    OK(cuGraphAddKernelNode(&node, graph, NULL, 0, &params));
    return node;
}

static CUDA_MEM_ALLOC_NODE_PARAMS alloc_params(size_t bytes)
{
    CUDA_MEM_ALLOC_NODE_PARAMS params;
    memset(&params, 0, sizeof(params));
    params.poolProps.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    params.poolProps.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    params.bytesize = bytes;
    return params;
}

/* An allocation and its free. */
static CUdeviceptr memory_nodes(CUgraph graph, size_t bytes)
{
    CUDA_MEM_ALLOC_NODE_PARAMS params = alloc_params(bytes);
    CUgraphNode alloc = NULL, end = NULL;
    OK(cuGraphAddMemAllocNode(&alloc, graph, NULL, 0, &params));
    OK(cuGraphAddMemFreeNode(&end, graph, &alloc, 1, params.dptr));
    return params.dptr;
}

static CUgraphExec exec_of(CUgraph graph)
{
    CUgraphExec exec = NULL;
    OK(cuGraphInstantiate(&exec, graph, 0));
    return exec;
}

/* So much local memory has come, and goes. */
static void came(uint64_t local)
{
    EQUAL(standin_local_bytes(0), local);
    OK(cuCtxSetLimit(CU_LIMIT_STACK_SIZE, 1024));
}

/* Local memory comes with the instantiation. */
static CUgraphExec made(CUgraph graph, uint64_t local)
{
    CUgraphExec exec;
    EQUAL(standin_local_bytes(0), 0);
    exec = exec_of(graph);
    came(local);
    return exec;
}

/* Where it is gone since, with the launch. */
static void launched(CUgraphExec exec, uint64_t local)
{
    EQUAL(standin_local_bytes(0), 0);
    OK(cuGraphLaunch(exec, stream));
    came(local);
}

#define GROWN LOCAL_BYTES(16384)

void check_graph_kernels(void)
{
    CUgraph graph, child, other, clone, captured;
    CUgraphExec exec, again;
    CUgraphNode node, in_child, found, listed[4];
    CUgraphNodeParams params;
    CUDA_KERNEL_NODE_PARAMS kernel;
    CUgraphExecUpdateResultInfo info;
    CUgraphConditionalHandle handle;
    CUcontext current = NULL;
    CUlibrary library;
    CUkernel of_library;
    size_t count = 4;
    unsigned enabled;
    uint64_t before = begin();
    size_t limit = 0;
    /* A node of its own; the first instantiation takes a little more than local memory. */
    graph = graph_new();
    node = kernel_node(graph, some);
    OK(cuGraphKernelNodeGetParams(node, &kernel));
    CHECK(kernel.func == some);
    EQUAL(standin_live_bytes(0), before);
    exec = exec_of(graph);
    EQUAL(standin_local_bytes(0), GROWN);
    EQUAL(standin_live_bytes(0), before + GROWN + 2 * MIB);
    OK(cuCtxGetLimit(&limit, CU_LIMIT_STACK_SIZE));
    EQUAL(limit, 16384);
    OK(cuGraphUpload(exec, stream));
    OK(cuGraphLaunch(exec, stream));
    EQUAL(standin_live_bytes(0), before + GROWN + 2 * MIB);
    OK(cuCtxSetLimit(CU_LIMIT_STACK_SIZE, 1024));
    launched(exec, GROWN);
    /* Or with an upload. */
    OK(cuGraphUpload(exec, stream));
    came(GROWN);
    made(graph, GROWN);
    EQUAL(standin_live_bytes(0), before + 2 * MIB);
    /* Another function in the executable, and back by an update. */
    kernel = kernel_params(none);
    OK(cuGraphExecKernelNodeSetParams(exec, node, &kernel));
    launched(exec, 0);
    memset(&info, 0x55, sizeof(info));
    OK(cuGraphExecUpdate(exec, graph, &info));
    EQUAL(info.result, CU_GRAPH_EXEC_UPDATE_SUCCESS);
    came(GROWN);
    launched(exec, GROWN);
    memset(&params, 0, sizeof(params));
    params.type = CU_GRAPH_NODE_TYPE_KERNEL;
    memcpy(&params.kernel, &kernel, sizeof(kernel));
    OK(cuGraphExecNodeSetParams(exec, node, &params));
    launched(exec, 0);
    OK(cuGraphNodeSetParams(node, &params));
    OK(cuGraphInstantiate(&again, graph, 0));
    launched(again, 0);
    kernel = kernel_params(some);
    OK(cuGraphKernelNodeSetParams(node, &kernel));
    OK(cuGraphNodeSetEnabled(exec, node, 0));
    OK(cuGraphNodeGetEnabled(exec, node, &enabled));
    EQUAL(enabled, 0);
    /* A graph of another shape, of other kinds of nodes. */
    other = graph_new();
    EQUAL(cuGraphExecUpdate(exec, other, &info), CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE);
    EQUAL(info.result, CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED);
    OK(cuGraphAddEmptyNode(&found, other, NULL, 0));
    EQUAL(cuGraphExecUpdate(exec, other, &info), CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE);
    EQUAL(info.result, CU_GRAPH_EXEC_UPDATE_ERROR_NODE_TYPE_CHANGED);
    CHECK(info.errorNode == found);
    /* A child graph is a copy: what is added to the original later is not in it. */
    child = graph_new();
    kernel_node(child, none);
    OK(cuGraphAddChildGraphNode(&in_child, other, &found, 1, child));
    kernel_node(child, some);
    exec = exec_of(other);
    launched(exec, 0);
    EQUAL(cuGraphExecChildGraphNodeSetParams(exec, in_child, child), CUDA_ERROR_INVALID_VALUE);
    OK(cuGraphChildGraphNodeGetGraph(in_child, &captured));
    EQUAL(cuGraphDestroy(captured), CUDA_ERROR_INVALID_VALUE);
    OK(cuGraphGetNodes(captured, listed, &count));
    EQUAL(count, 1);
    OK(cuGraphKernelNodeSetParams(listed[0], &kernel));
    launched(made(other, GROWN), GROWN);
    OK(cuGraphExecChildGraphNodeSetParams(exec, in_child, captured));
    came(GROWN);
    launched(exec, GROWN);
    OK(cuGraphClone(&clone, other));
    OK(cuGraphNodeFindInClone(&node, in_child, clone));
    count = 4;
    OK(cuGraphNodeGetDependencies(node, listed, NULL, &count));
    EQUAL(count, 1);
    launched(made(clone, GROWN), GROWN);
    /* The body of a conditional node, whatever the condition says. */
    graph = graph_new();
    EQUAL(cuGraphConditionalHandleCreate(&handle, graph, NULL, 0, 0),
          CUDA_ERROR_INVALID_CONTEXT);
    OK(cuCtxGetCurrent(&current));
    OK(cuGraphConditionalHandleCreate(&handle, graph, current, 0, 0));
    memset(&params, 0, sizeof(params));
    params.type = CU_GRAPH_NODE_TYPE_CONDITIONAL;
    params.conditional.handle = handle;
    params.conditional.type = CU_GRAPH_COND_TYPE_IF;
    params.conditional.size = 2;
    OK(cuGraphAddNode(&node, graph, NULL, NULL, 0, &params));
    kernel_node(params.conditional.phGraph_out[1], some);
    launched(made(graph, GROWN), GROWN);
    EQUAL(cuGraphClone(&clone, graph), CUDA_ERROR_NOT_SUPPORTED);
    /* One that is filled by capture. */
    OK(cuStreamBeginCaptureToGraph(stream, params.conditional.phGraph_out[0], NULL, NULL, 0,
                                   CU_STREAM_CAPTURE_MODE_RELAXED));
    OK(cuLaunchKernel(none, 1, 1, 1, 1, 1, 1, 0, stream, NULL, NULL));
    OK(cuStreamEndCapture(stream, &captured));
    CHECK(captured == params.conditional.phGraph_out[0]);
    /* Captured launches, of kernels and of executables. */
    OK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    OK(cuLaunchKernel(some, 1, 1, 1, 1, 1, 1, 0, stream, NULL, NULL));
    OK(cuStreamEndCapture(stream, &captured));
    exec = made(captured, GROWN);
    launched(exec, GROWN);
    OK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    OK(cuGraphLaunch(exec, stream));
    EQUAL(standin_local_bytes(0), 0);
    OK(cuStreamEndCapture(stream, &captured));
    OK(cuGraphExecDestroy(exec));
    launched(made(captured, GROWN), GROWN);
    /* A kernel of a library. */
    OK(cuLibraryLoadData(&library, PTX_LOCAL, NULL, NULL, 0, NULL, NULL, 0));
    OK(cuLibraryGetKernel(&of_library, library, "some"));
    graph = graph_new();
    kernel = kernel_params(NULL);
    kernel.kern = of_library;
    OK(cuGraphAddKernelNode(&node, graph, NULL, 0, &kernel));
    exec = made(graph, GROWN);
    launched(exec, GROWN);
    /* No room: neither a launch, an upload, a change nor an instantiation does anything. */
    again = made(graph, GROWN);
    kernel = kernel_params(none);
    OK(cuGraphExecKernelNodeSetParams(again, node, &kernel));
    kernel = kernel_params(some);
    standin_set_other(0, standin_free_bytes(0) - MIB);
    EQUAL(cuGraphExecKernelNodeSetParams(again, node, &kernel), CUDA_ERROR_OUT_OF_MEMORY);
    EQUAL(cuGraphExecUpdate(again, graph, &info), CUDA_ERROR_OUT_OF_MEMORY);
    launched(again, 0);
    EQUAL(cuGraphUpload(exec, stream), CUDA_ERROR_OUT_OF_MEMORY);
    again = NULL;
    EQUAL(cuGraphInstantiate(&again, graph, 0), CUDA_ERROR_OUT_OF_MEMORY);
    CHECK(again == NULL);
    EQUAL(cuGraphLaunch(exec, stream), CUDA_ERROR_OUT_OF_MEMORY);
    EQUAL(standin_local_bytes(0), 0);
}

static void ran(void *count)
{
    atomic_fetch_add((_Atomic int *)count, 1);
}

void check_graph_memory(void)
{
    CUgraph graph, child, parent;
    CUgraphExec exec, second = NULL;
    CUgraphNode node;
    CUgraphNodeParams params;
    CUDA_MEM_ALLOC_NODE_PARAMS alloc;
    CUDA_HOST_NODE_PARAMS host;
    CUDA_GRAPH_INSTANTIATE_PARAMS with;
    CUgraphExecUpdateResultInfo info;
    CUgraphConditionalHandle handle;
    CUcontext current = NULL;
    CUdeviceptr block;
    cuuint64_t value = 0, flags;
    _Atomic int count = 0;
    uint64_t before = begin();
    /* One executable at a time; no clone; nothing of it can be taken away. */
    graph = graph_new();
    memory_nodes(graph, 100 * MIB);
    exec = exec_of(graph);
    EQUAL(cuGraphInstantiate(&second, graph, 0), CUDA_ERROR_NOT_SUPPORTED);
    CHECK(second == NULL);
    EQUAL(cuGraphClone(&child, graph), CUDA_ERROR_NOT_SUPPORTED);
    OK(cuGraphExecUpdate(exec, graph, &info));
    child = graph_new();
    memory_nodes(child, 100 * MIB);
    EQUAL(cuGraphExecUpdate(exec, child, &info), CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE);
    EQUAL(info.result, CU_GRAPH_EXEC_UPDATE_ERROR_NOT_SUPPORTED);
    OK(cuGraphDestroy(child));
    OK(cuGraphExecDestroy(exec));
    /* The upload flag: with parameters only, on their stream; and when there is no room. */
    EQUAL(cuGraphInstantiate(&exec, graph, CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD),
          CUDA_ERROR_INVALID_VALUE);
    memset(&with, 0, sizeof(with));
    with.flags = CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD;
    with.hUploadStream = stream;
    standin_set_other(0, standin_free_bytes(0) - 10 * MIB);
    EQUAL(cuGraphInstantiateWithParams(&exec, graph, &with), CUDA_ERROR_OUT_OF_MEMORY);
    EQUAL(with.result_out, CUDA_GRAPH_INSTANTIATE_ERROR);
    standin_set_other(0, 0);
    OK(cuGraphInstantiateWithParams(&exec, graph, &with));
    EQUAL(with.result_out, CUDA_GRAPH_INSTANTIATE_SUCCESS);
    EQUAL(standin_graph_bytes(0), 128 * MIB); /* whole steps */
    OK(cuGraphExecGetFlags(exec, &flags));
    EQUAL(flags, CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD);
    OK(cuDeviceGraphMemTrim(0));
    EQUAL(standin_graph_bytes(0), 0);
    OK(cuGraphLaunch(exec, stream));
    EQUAL(standin_graph_bytes(0), 128 * MIB);
    OK(cuDeviceGetGraphMemAttribute(0, CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH, &value));
    EQUAL(value, 128 * MIB);
    OK(cuGraphExecDestroy(exec));
    OK(cuDeviceGraphMemTrim(0));
    value = 0;
    OK(cuDeviceSetGraphMemAttribute(0, CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH, &value));
    OK(cuDeviceGetGraphMemAttribute(0, CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH, &value));
    EQUAL(value, 0);
    EQUAL(cuGraphInstantiate(&exec, graph, CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH),
          CUDA_ERROR_INVALID_VALUE);
    /* In a child: only if that is moved into its parent. */
    parent = graph_new();
    EQUAL(cuGraphAddChildGraphNode(&node, parent, NULL, 0, graph), CUDA_ERROR_NOT_SUPPORTED);
    memset(&params, 0, sizeof(params));
    params.type = CU_GRAPH_NODE_TYPE_GRAPH;
    params.graph.graph = graph;
    params.graph.ownership = CU_GRAPH_CHILD_GRAPH_OWNERSHIP_MOVE;
    OK(cuGraphAddNode(&node, parent, NULL, NULL, 0, &params));
    EQUAL(cuGraphDestroy(graph), CUDA_ERROR_INVALID_VALUE);
    EQUAL(cuGraphInstantiate(&exec, graph, 0), CUDA_ERROR_INVALID_VALUE);
    memory_nodes(graph, 50 * MIB); /* it may still grow */
    memory_nodes(parent, 130 * MIB);
    exec = exec_of(parent);
    EQUAL(standin_graph_bytes(0), 0);
    OK(cuGraphLaunch(exec, stream));
    EQUAL(standin_graph_bytes(0), (160 + 32) * MIB); /* one after the other */
    OK(cuGraphExecDestroy(exec));
    OK(cuGraphDestroy(parent));
    OK(cuDeviceGraphMemTrim(0));
    /* Not in a copied child; in a conditional body it is only refused later. */
    parent = graph_new();
    child = graph_new();
    OK(cuGraphAddChildGraphNode(&node, parent, NULL, 0, child));
    OK(cuGraphChildGraphNodeGetGraph(node, &graph));
    alloc = alloc_params(MIB);
    EQUAL(cuGraphAddMemAllocNode(&node, graph, NULL, 0, &alloc), CUDA_ERROR_NOT_SUPPORTED);
    OK(cuCtxGetCurrent(&current));
    OK(cuGraphConditionalHandleCreate(&handle, parent, current, 1, 0));
    memset(&params, 0, sizeof(params));
    params.type = CU_GRAPH_NODE_TYPE_CONDITIONAL;
    params.conditional.handle = handle;
    params.conditional.type = CU_GRAPH_COND_TYPE_WHILE;
    params.conditional.size = 1;
    OK(cuGraphAddNode(&node, parent, NULL, NULL, 0, &params));
    OK(cuGraphAddMemAllocNode(&node, params.conditional.phGraph_out[0], NULL, 0, &alloc));
    second = NULL;
    EQUAL(cuGraphInstantiate(&second, parent, 0), CUDA_ERROR_INVALID_VALUE);
    CHECK(second == NULL);
    OK(cuGraphDestroy(parent));
    /* By cuGraphAddNode, with a host function; freed by the next launch. */
    graph = graph_new();
    memset(&params, 0, sizeof(params));
    params.type = CU_GRAPH_NODE_TYPE_MEM_ALLOC;
    params.alloc.poolProps.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    params.alloc.poolProps.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    params.alloc.bytesize = 64 * MIB;
    OK(cuGraphAddNode(&node, graph, NULL, NULL, 0, &params));
    block = params.alloc.dptr;
    CHECK(block != 0);
    EQUAL(cuGraphNodeSetParams(node, &params), CUDA_ERROR_NOT_SUPPORTED);
    host.fn = ran;
    host.userData = (void *)&count;
    OK(cuGraphAddHostNode(&node, graph, &node, 1, &host));
    OK(cuGraphInstantiate(&exec, graph, CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH));
    OK(cuGraphLaunch(exec, stream));
    OK(cuGraphLaunch(exec, stream));
    OK(cuStreamSynchronize(stream));
    EQUAL(count, 2);
    EQUAL(standin_graph_bytes(0), 64 * MIB);
    OK(cuDeviceGraphMemTrim(0));
    EQUAL(standin_graph_bytes(0), 64 * MIB);
    OK(cuMemFreeAsync(block, stream));
    OK(cuStreamSynchronize(stream));
    OK(cuGraphExecDestroy(exec));
    OK(cuDeviceGraphMemTrim(0));
    /* Freed by a graph of its own, added in the other way. */
    OK(cuGraphDestroy(graph));
    graph = graph_new();
    params.alloc.bytesize = 32 * MIB;
    OK(cuGraphAddNode(&node, graph, NULL, NULL, 0, &params));
    exec = exec_of(graph);
    OK(cuGraphLaunch(exec, stream));
    child = graph_new();
    block = params.alloc.dptr;
    memset(&params, 0, sizeof(params));
    params.type = CU_GRAPH_NODE_TYPE_MEM_FREE;
    params.free.dptr = block;
    OK(cuGraphAddNode(&node, child, NULL, NULL, 0, &params));
    OK(cuGraphInstantiate(&second, child, 0));
    OK(cuGraphLaunch(second, stream));
    OK(cuDeviceGraphMemTrim(0));
    EQUAL(standin_live_bytes(0), before);
    EQUAL(standin_real_live_blocks(0), 0);
}
