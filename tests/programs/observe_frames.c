/* Whose local memory it is, and when it comes: of kernels in the bodies of conditional nodes,
 * of launches on a stream of a context that is not the current one, and of a graph in a context
 * whose stack limit has made room before. */
#include "observe_code.h"

#include <string.h>

#define STACK 8192

static CUdeviceptr out;

#define CHANGE(...) observe_size((uint64_t)observe_change(before), __VA_ARGS__)

static CUresult frame_node(CUgraph graph, CUfunction function)
{
    static unsigned at = 64;
    void *arguments[] = {&out, &at};
    CUDA_KERNEL_NODE_PARAMS params;
    CUgraphNode node = NULL;
    memset(&params, 0, sizeof(params));
    params.func = function;
    params.gridDimX = params.gridDimY = params.gridDimZ = 1;
    params.blockDimX = 32;
    params.blockDimY = params.blockDimZ = 1;
    params.kernelParams = arguments;
    return CALL(cuGraphAddKernelNode_v2, &node, graph, NULL, 0, &params);
}

/* The module with the frames, and everything taken that a first launch takes. */
static CUmodule start(CUstream stream)
{
    CUmodule module = NULL;
    void *memory = NULL;
    /* Of the host: kernels of any context can write there. */
    if (!cuMemHostAlloc(&memory, 4096, CU_MEMHOSTALLOC_DEVICEMAP | CU_MEMHOSTALLOC_PORTABLE))
        cuMemHostGetDevicePointer(&out, memory, 0);
    cuModuleLoadData(&module, observe_frames);
    observe_launch_frame(observe_function(module, "nothing"), stream);
    cuStreamSynchronize(stream);
    return module;
}

static uint64_t stack_of(CUcontext context)
{
    size_t limit = 0;
    cuCtxPushCurrent(context);
    cuCtxGetLimit(&limit, CU_LIMIT_STACK_SIZE);
    cuCtxPopCurrent(&context);
    return limit;
}

/* A graph with one conditional node; its body, NULL: it cannot be made. */
static CUgraph body_of(CUgraph graph, CUcontext context, unsigned condition)
{
    CUgraphConditionalHandle handle = 0;
    CUgraphNodeParams params;
    CUgraphNode node = NULL;
    if (CALL(cuGraphConditionalHandleCreate, &handle, graph, context, condition,
             CU_GRAPH_COND_ASSIGN_DEFAULT))
        return NULL;
    memset(&params, 0, sizeof(params));
    params.type = CU_GRAPH_NODE_TYPE_CONDITIONAL;
    params.conditional.handle = handle;
    params.conditional.ctx = context;
    params.conditional.type = CU_GRAPH_COND_TYPE_IF;
    params.conditional.size = 1;
    if (CALL(cuGraphAddNode_v2, &node, graph, NULL, NULL, 0, &params))
        return NULL;
    return params.conditional.phGraph_out ? params.conditional.phGraph_out[0] : NULL;
}

/* First with a condition that is false, so that the body does not run, then with a true one. */
static void kernel_in_body(const char *where, bool as_child)
{
    static const char *const names[] = {"skipped", "run"};
    CUcontext context = observe_primary();
    CUstream stream = observe_stream();
    CUmodule module = start(stream);
    for (unsigned condition = 0; condition < 2; condition++) {
        const char *name = names[condition];
        CUgraph graph = NULL, body = NULL, child = NULL;
        CUgraphExec exec = NULL;
        CUgraphNode node = NULL;
        uint64_t before = observe_process_bytes();
        cuGraphCreate(&graph, 0);
        cuGraphCreate(&child, 0);
        body = body_of(graph, context, condition);
        observe_fact(body != NULL, "graph_conditional.%s.%s.body", where, name);
        if (!body)
            return;
        observe_code(frame_node(as_child ? child : body, observe_function(module, "frame_8k")),
                     "graph_conditional.%s.%s.add", where, name);
        if (as_child)
            observe_code(cuGraphAddChildGraphNode(&node, body, NULL, 0, child),
                         "graph_conditional.%s.%s.child", where, name);
        CHANGE("graph_conditional.%s.%s.added", where, name);
        observe_code(cuGraphInstantiate(&exec, graph, 0), "graph_conditional.%s.%s.instantiate",
                     where, name);
        CHANGE("graph_conditional.%s.%s.instantiated", where, name);
        observe_code(cuGraphLaunch(exec, stream), "graph_conditional.%s.%s.launch", where,
                     name);
        observe_code(cuStreamSynchronize(stream), "graph_conditional.%s.%s.synchronize", where,
                     name);
        CHANGE("graph_conditional.%s.%s.launched", where, name);
        observe_size(stack_of(context), "graph_conditional.%s.%s.stack", where, name);
        cuGraphExecDestroy(exec);
        CHANGE("graph_conditional.%s.%s.destroyed", where, name);
        cuGraphDestroy(graph);
        cuCtxSetLimit(CU_LIMIT_STACK_SIZE, 1024);
        CHANGE("graph_conditional.%s.%s.set_default", where, name);
    }
}

void observe_conditional_kernel(void)
{
    kernel_in_body("kernel", false);
}

void observe_conditional_child(void)
{
    kernel_in_body("child_kernel", true);
}

/* What a launch took, in which of the two contexts: the one of the stream or the current one.
 */
static void launched(CUresult code, const char *name, CUcontext primary, CUcontext other,
                     uint64_t before)
{
    observe_code(code, "stream_context.%s", name);
    cuCtxSynchronize();
    CHANGE("stream_context.%s", name);
    observe_size(stack_of(primary), "stream_context.%s.stack_primary", name);
    observe_size(stack_of(other), "stream_context.%s.stack_other", name);
}

static CUresult launch(CUfunction function, CUstream stream)
{
    unsigned at = 64;
    void *params[] = {&out, &at};
    return cuLaunchKernel(function, 1, 1, 1, 32, 1, 1, 0, stream, params, NULL);
}

/* A function is its module's context's, a kernel of a library is nobody's. What both contexts
 * have taken is told apart by ending one of them. */
void observe_stream_context(void)
{
    CUcontext primary = observe_primary(), other = NULL;
    CUstream stream = observe_stream(), elsewhere = NULL;
    CUmodule module = start(stream);
    CUfunction function = observe_function(module, "frame_8k");
    CUlibrary library = NULL;
    CUkernel kernel = NULL;
    uint64_t alone = observe_process_bytes(), before;
    CALL(cuLibraryLoadData, &library, observe_frames, NULL, NULL, 0, NULL, NULL, 0);
    observe_code(CALL(cuLibraryGetKernel, &kernel, library, "frame_4k"),
                 "stream_context.get_kernel");
    observe_context_create(&other, 0, 0);
    cuStreamCreate(&elsewhere, CU_STREAM_NON_BLOCKING);
    cuCtxSetCurrent(other);
    before = observe_process_bytes();
    launched(launch(function, stream), "function", primary, other, before);
    /* The null stream is the current context's: the function is not. */
    launched(launch(function, NULL), "function_null_stream", primary, other, before);
    cuCtxSetCurrent(primary);
    cuCtxSetLimit(CU_LIMIT_STACK_SIZE, 1024);
    launched(launch((CUfunction)(void *)kernel, elsewhere), "kernel", primary, other, before);
    cuCtxSetCurrent(other);
    cuCtxSetLimit(CU_LIMIT_STACK_SIZE, 1024);
    launched(launch((CUfunction)(void *)kernel, stream), "kernel_other_current", primary, other,
             before);
    cuCtxSetCurrent(other);
    cuCtxSetLimit(CU_LIMIT_STACK_SIZE, 4096);
    cuCtxSetCurrent(primary);
    before = alone;
    CHANGE("stream_context.both");
    observe_code(cuCtxDestroy(other), "stream_context.destroy");
    CHANGE("stream_context.other_destroyed");
    cuCtxSetLimit(CU_LIMIT_STACK_SIZE, 1024);
    CHANGE("stream_context.set_default");
}

/* A stack limit and a frame of the same size: is it the same room? */
void observe_stack_graph(void)
{
    CUgraph graph = NULL;
    CUgraphExec exec = NULL;
    CUstream stream;
    CUmodule module;
    uint64_t before;
    observe_begin();
    stream = observe_stream();
    module = start(stream);
    before = observe_process_bytes();
    observe_code(cuCtxSetLimit(CU_LIMIT_STACK_SIZE, STACK), "stack_graph.set_8k");
    CHANGE("stack_graph.set_8k");
    cuGraphCreate(&graph, 0);
    observe_code(frame_node(graph, observe_function(module, "frame_8k")), "stack_graph.add");
    observe_code(cuGraphInstantiate(&exec, graph, 0), "stack_graph.instantiate");
    CHANGE("stack_graph.instantiated");
    observe_code(cuGraphLaunch(exec, stream), "stack_graph.launch");
    cuStreamSynchronize(stream);
    CHANGE("stack_graph.launched");
    observe_code(launch(observe_function(module, "frame_8k"), stream), "stack_graph.kernel");
    cuStreamSynchronize(stream);
    CHANGE("stack_graph.kernel_launched");
    cuGraphExecDestroy(exec);
    CHANGE("stack_graph.destroyed");
    cuCtxSetLimit(CU_LIMIT_STACK_SIZE, 1024);
    CHANGE("stack_graph.set_default");
}

/* What a node says of a kernel of a library, by each way that it can come there. */
static void told(CUgraphNode node, CUkernel kernel, CUfunction function, const char *how)
{
    CUDA_KERNEL_NODE_PARAMS_v2 params;
    int bytes = -1;
    memset(&params, 0, sizeof(params));
    observe_code(CALL(cuGraphKernelNodeGetParams_v2, node, &params), "kernel_node.%s", how);
    observe_fact(!params.func, "kernel_node.%s.func_is_null", how);
    observe_fact(params.func == function, "kernel_node.%s.func_is_the_function", how);
    observe_fact(params.func == (CUfunction)(void *)kernel, "kernel_node.%s.func_is_the_kernel",
                 how);
    observe_fact(params.kern == kernel, "kernel_node.%s.kern_is_the_kernel", how);
    observe_fact(!params.ctx, "kernel_node.%s.ctx_is_null", how);
    if (params.func)
        observe_code(
            cuFuncGetAttribute(&bytes, CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES, params.func),
            "kernel_node.%s.attribute", how);
    observe_size((uint64_t)bytes, "kernel_node.%s.local", how);
}

void observe_kernel_node(void)
{
    static unsigned at = 64;
    void *arguments[] = {&out, &at};
    CUDA_KERNEL_NODE_PARAMS_v2 params;
    CUcontext context = observe_primary();
    CUstream stream = observe_stream();
    CUlibrary library = NULL;
    CUkernel kernel = NULL;
    CUfunction function = NULL;
    CUgraph graph = NULL;
    CUgraphNode node = NULL;
    size_t count = 1;
    start(stream);
    CALL(cuLibraryLoadData, &library, observe_frames, NULL, NULL, 0, NULL, NULL, 0);
    observe_code(CALL(cuLibraryGetKernel, &kernel, library, "frame_4k"), "kernel_node.kernel");
    if (!kernel)
        return;
    observe_code(CALL(cuKernelGetFunction, &function, kernel), "kernel_node.function");
    memset(&params, 0, sizeof(params));
    params.gridDimX = params.gridDimY = params.gridDimZ = 1;
    params.blockDimX = params.blockDimY = params.blockDimZ = 1;
    params.kernelParams = arguments;
    params.kern = kernel;
    cuGraphCreate(&graph, 0);
    if (!CALL(cuGraphAddKernelNode_v2, &node, graph, NULL, 0, &params))
        told(node, kernel, function, "by_kern");
    params.ctx = context;
    if (!CALL(cuGraphAddKernelNode_v2, &node, graph, NULL, 0, &params))
        told(node, kernel, function, "by_kern_and_context");
    params.ctx = NULL;
    params.kern = NULL;
    params.func = (CUfunction)(void *)kernel;
    observe_code(CALL(cuGraphAddKernelNode_v2, &node, graph, NULL, 0, &params),
                 "kernel_node.by_func");
    cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
    launch((CUfunction)(void *)kernel, stream);
    cuStreamEndCapture(stream, &graph);
    if (graph && !cuGraphGetNodes(graph, &node, &count) && count == 1)
        told(node, kernel, function, "captured");
}
