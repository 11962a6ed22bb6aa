/* Launches: local memory, when it grows and shrinks; the answers to odd ones. Not asked,
 * because it would take a whole card: the code of a launch whose local memory has no room. */
#include "observe_code.h"

#include <string.h>

/* Written at a place that only the launch knows, and read at another: no assembler can do
 * without the memory. */
#define FRAME(name, bytes)                                                                     \
    ".visible .entry " name "(.param .u64 out, .param .u32 at)\n{\n"                           \
    "\t.local .align 16 .b8 depot[" bytes "];\n"                                               \
    "\t.reg .b64 %rd<5>;\n\t.reg .b32 %r<3>;\n"                                                \
    "\tld.param.u64 %rd1, [out];\n\tld.param.u32 %r1, [at];\n"                                 \
    "\tcvt.u64.u32 %rd2, %r1;\n\tmov.u64 %rd3, depot;\n\tadd.s64 %rd4, %rd3, %rd2;\n"          \
    "\tst.local.u32 [%rd4], %r1;\n\tld.local.u32 %r2, [%rd3];\n"                               \
    "\tst.global.u32 [%rd1], %r2;\n\tret;\n}\n"

const char observe_frames[] =
    ".version 6.0\n.target sm_50\n.address_size 64\n" FRAME("frame_4k", "4096")
        FRAME("frame_8k", "8192")
            FRAME("frame_16k", "16384") ".visible .entry nothing()\n{\n\tret;\n}\n";

CUfunction observe_function(CUmodule module, const char *name)
{
    CUfunction function = NULL;
    cuModuleGetFunction(&function, module, name);
    return function;
}

long long observe_change(uint64_t before)
{
    return (long long)(observe_process_bytes() - before);
}

CUresult observe_launch_frame(CUfunction function, CUstream stream)
{
    static CUdeviceptr out;
    unsigned at = 64;
    void *params[] = {&out, &at};
    if (!out && cuMemAlloc(&out, 4096))
        return CUDA_ERROR_UNKNOWN;
    return cuLaunchKernel(function, 1, 1, 1, 32, 1, 1, 0, stream, params, NULL);
}

#define CHANGE(name) observe_size((uint64_t)observe_change(before), name)

void observe_local(void)
{
    CUmodule module = NULL;
    CUfunction small, middle, big, nothing;
    CUstream stream, held;
    uint64_t before;
    size_t limit = 0;
    int bytes = -1;
    observe_begin();
    stream = observe_stream();
    held = observe_stream();
    observe_code(cuModuleLoadData(&module, observe_frames), "local.load");
    small = observe_function(module, "frame_4k");
    middle = observe_function(module, "frame_8k");
    big = observe_function(module, "frame_16k");
    nothing = observe_function(module, "nothing");
    observe_code(cuFuncGetAttribute(&bytes, CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES, big),
                 "local.attribute");
    observe_size((uint64_t)bytes, "local.attribute");
    /* What else a first launch takes shall not be in the figures. */
    observe_code(observe_launch_frame(nothing, stream), "local.nothing");
    cuStreamSynchronize(stream);
    cuCtxGetLimit(&limit, CU_LIMIT_STACK_SIZE);
    observe_size(limit, "local.stack_default");
    before = observe_process_bytes();
    observe_code(observe_launch_frame(small, stream), "local.launch_4k");
    cuStreamSynchronize(stream);
    CHANGE("local.launch_4k");
    before = observe_process_bytes();
    observe_launch_frame(small, stream);
    cuStreamSynchronize(stream);
    CHANGE("local.launch_again");
    observe_code(observe_launch_frame(big, stream), "local.launch_16k");
    cuStreamSynchronize(stream);
    CHANGE("local.launch_16k");
    observe_launch_frame(small, stream);
    cuStreamSynchronize(stream);
    CHANGE("local.launch_4k_after");
    cuCtxGetLimit(&limit, CU_LIMIT_STACK_SIZE);
    observe_size(limit, "local.stack_after_launch");
    observe_code(cuCtxSetLimit(CU_LIMIT_STACK_SIZE, 8192), "local.set_8k");
    CHANGE("local.set_8k");
    observe_launch_frame(small, stream);
    cuStreamSynchronize(stream);
    CHANGE("local.set_8k.launch_4k");
    observe_code(cuCtxSetLimit(CU_LIMIT_STACK_SIZE, 1024), "local.set_default");
    CHANGE("local.set_default");
    observe_code(cuCtxSetLimit(CU_LIMIT_STACK_SIZE, 256), "local.set_256");
    cuCtxGetLimit(&limit, CU_LIMIT_STACK_SIZE);
    observe_size(limit, "local.stack_after_256");
    CHANGE("local.set_256");
    cuCtxSetLimit(CU_LIMIT_STACK_SIZE, 1024);
    CHANGE("local.set_default_again");
    /* Does growing wait for other work of the context? Does setting? */
    observe_hold(held);
    observe_code(observe_launch_frame(middle, stream), "local.held.launch");
    observe_fact(observe_was_blocked(), "local.held.launch_waits");
    observe_let_go();
    cuCtxSynchronize();
    observe_hold(held);
    observe_code(cuCtxSetLimit(CU_LIMIT_STACK_SIZE, 1024), "local.held.set");
    observe_fact(observe_was_blocked(), "local.held.set_waits");
    observe_let_go();
    cuCtxSynchronize();
    observe_code(cuModuleUnload(module), "local.unload");
}

/* The stack limit, with no launch before. */
void observe_stack(void)
{
    CUstream held;
    uint64_t before;
    size_t limit = 0;
    observe_begin();
    held = observe_stream();
    before = observe_process_bytes();
    observe_code(cuCtxSetLimit(CU_LIMIT_STACK_SIZE, 8192), "stack.set_8k");
    CHANGE("stack.set_8k");
    observe_code(cuCtxSetLimit(CU_LIMIT_STACK_SIZE, 1024), "stack.set_default");
    CHANGE("stack.set_default");
    observe_code(cuCtxSetLimit(CU_LIMIT_STACK_SIZE, 256), "stack.set_256");
    CHANGE("stack.set_256");
    cuCtxSetLimit(CU_LIMIT_STACK_SIZE, 1024);
    CHANGE("stack.set_default_again");
    cuCtxSetLimit(CU_LIMIT_STACK_SIZE, 1000);
    cuCtxGetLimit(&limit, CU_LIMIT_STACK_SIZE);
    observe_size(limit, "stack.after_1000");
    /* Not asked: a limit beyond reason. The driver may cut it down to one that takes the whole
     * card. */
    observe_hold(held);
    observe_code(cuCtxSetLimit(CU_LIMIT_STACK_SIZE, 1024), "stack.held.set");
    observe_fact(observe_was_blocked(), "stack.held.set_waits");
    observe_let_go();
    cuCtxSynchronize();
    observe_hold(held);
    observe_code(cuCtxSetLimit(CU_LIMIT_STACK_SIZE, 1024), "stack.held.set_same");
    observe_fact(observe_was_blocked(), "stack.held.set_same_waits");
    observe_let_go();
    cuCtxSynchronize();
}

/* When does a graph's kernel make local memory grow? */
void observe_local_graph(void)
{
    CUDA_KERNEL_NODE_PARAMS params;
    CUmodule module = NULL;
    CUdeviceptr out = 0;
    CUgraph graph = NULL, outer = NULL;
    CUgraphExec exec = NULL;
    CUgraphNode node = NULL, child = NULL;
    CUstream stream;
    uint64_t before;
    unsigned at = 64;
    void *arguments[] = {&out, &at};
    observe_begin();
    stream = observe_stream();
    cuModuleLoadData(&module, observe_frames);
    cuMemAlloc(&out, 4096);
    /* Takes what a first launch takes, and the block of later ones, which a capture forbids. */
    observe_launch_frame(observe_function(module, "nothing"), stream);
    cuStreamSynchronize(stream);
    memset(&params, 0, sizeof(params));
    params.func = observe_function(module, "frame_8k");
    params.gridDimX = params.gridDimY = params.gridDimZ = 1;
    params.blockDimX = 32;
    params.blockDimY = params.blockDimZ = 1;
    params.kernelParams = arguments;
    before = observe_process_bytes();
    cuGraphCreate(&graph, 0);
    observe_code(CALL(cuGraphAddKernelNode_v2, &node, graph, NULL, 0, &params),
                 "local_graph.add");
    CHANGE("local_graph.add");
    cuGraphCreate(&outer, 0);
    observe_code(cuGraphAddChildGraphNode(&child, outer, NULL, 0, graph), "local_graph.child");
    observe_code(cuGraphInstantiate(&exec, outer, 0), "local_graph.instantiate");
    CHANGE("local_graph.instantiate");
    observe_code(cuGraphUpload(exec, stream), "local_graph.upload");
    cuStreamSynchronize(stream);
    CHANGE("local_graph.upload");
    observe_code(cuGraphLaunch(exec, stream), "local_graph.launch");
    cuStreamSynchronize(stream);
    CHANGE("local_graph.launch");
    observe_code(cuGraphExecDestroy(exec), "local_graph.exec_destroy");
    CHANGE("local_graph.exec_destroy");
    /* Captured. */
    cuCtxSetLimit(CU_LIMIT_STACK_SIZE, 1024);
    before = observe_process_bytes();
    cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
    observe_code(observe_launch_frame(params.func, stream), "local_graph.captured");
    cuStreamEndCapture(stream, &graph);
    CHANGE("local_graph.captured");
    cuGraphInstantiate(&exec, graph, 0);
    CHANGE("local_graph.captured_instantiated");
    cuGraphLaunch(exec, stream);
    cuStreamSynchronize(stream);
    CHANGE("local_graph.captured_launched");
    /* A kernel that is switched off. */
    cuGraphExecDestroy(exec);
    cuGraphInstantiate(&exec, outer, 0);
    cuCtxSetLimit(CU_LIMIT_STACK_SIZE, 1024);
    before = observe_process_bytes();
    {
        CUgraph inside = NULL;
        CUgraphNode inner = NULL;
        size_t count = 1;
        cuGraphChildGraphNodeGetGraph(child, &inside);
        cuGraphGetNodes(inside, &inner, &count);
        observe_code(CALL(cuGraphNodeSetEnabled, exec, inner, 0), "local_graph.disable");
    }
    cuGraphLaunch(exec, stream);
    cuStreamSynchronize(stream);
    CHANGE("local_graph.disabled_launched");
}

void observe_launch(void)
{
    CUlaunchConfig config = {.gridDimX = 1,
                             .gridDimY = 1,
                             .gridDimZ = 1,
                             .blockDimX = 32,
                             .blockDimY = 1,
                             .blockDimZ = 1};
    CUcontext primary = observe_primary(), context = NULL;
    CUmodule module = NULL;
    CUfunction nothing;
    CUstream stream, elsewhere = NULL;
    stream = observe_stream();
    cuModuleLoadData(&module, observe_frames);
    nothing = observe_function(module, "nothing");
    observe_context_create(&context, 0, 0);
    cuStreamCreate(&elsewhere, CU_STREAM_NON_BLOCKING);
    cuCtxSetCurrent(primary);
    observe_code(cuLaunchKernel(NULL, 1, 1, 1, 1, 1, 1, 0, stream, NULL, NULL),
                 "launch.null_function");
    observe_code(cuLaunchKernel(nothing, 0, 1, 1, 1, 1, 1, 0, stream, NULL, NULL),
                 "launch.no_grid");
    observe_code(cuLaunchKernel(nothing, 1, 1, 1, 1, 0, 1, 0, stream, NULL, NULL),
                 "launch.no_block");
    observe_code(cuLaunchKernel(nothing, 1, 1, 1, 2048, 1, 1, 0, stream, NULL, NULL),
                 "launch.big_block");
    observe_code(cuLaunchKernel(nothing, 1, 1, 1, 1, 1, 1, 0, elsewhere, NULL, NULL),
                 "launch.stream_of_another_context");
    cuCtxSetCurrent(context);
    observe_code(cuLaunchKernel(nothing, 1, 1, 1, 1, 1, 1, 0, stream, NULL, NULL),
                 "launch.other_context_current");
    cuCtxSetCurrent(primary);
    observe_code(CALL(cuLaunchKernelEx, NULL, nothing, NULL, NULL), "launch.null_config");
    observe_code(CALL(cuLaunchKernelEx, &config, nothing, NULL, NULL), "launch.config");
    observe_code(cuLaunchCooperativeKernel(nothing, 1, 1, 1, 32, 1, 1, 0, stream, NULL),
                 "launch.cooperative");
    {
        CUDA_LAUNCH_PARAMS one;
        memset(&one, 0, sizeof(one));
        one.function = nothing;
        one.gridDimX = one.gridDimY = one.gridDimZ = 1;
        one.blockDimX = one.blockDimY = one.blockDimZ = 1;
        one.hStream = stream;
        observe_code(CALL(cuLaunchCooperativeKernelMultiDevice, &one, 1, 0),
                     "launch.multi_device");
    }
    observe_code(CALL(cuFuncSetBlockShape, nothing, 32, 1, 1), "launch.block_shape");
    observe_code(CALL(cuLaunch, nothing), "launch.first_form");
    observe_code(CALL(cuLaunchGrid, nothing, 1, 1), "launch.grid");
    observe_code(CALL(cuLaunchGridAsync, nothing, 1, 1, stream), "launch.grid_async");
    observe_code(cuCtxSynchronize(), "launch.synchronize");
}
