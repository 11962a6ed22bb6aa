/* Launches of kernels and host functions: pieces of work in a stream. A kernel takes its code
 * where that is not there yet, and makes local memory grow; captured, it becomes a node. */
#include "sim.h"
#include "launch.h"

/* What a node keeps and a launch checks. */
CUresult sim_launch_check(const CUDA_KERNEL_NODE_PARAMS_v3 *what)
{
    if (!what->gridDimX || !what->gridDimY || !what->gridDimZ || !what->blockDimX ||
        !what->blockDimY || !what->blockDimZ ||
        (uint64_t)what->blockDimX * what->blockDimY * what->blockDimZ > 1024)
        return CUDA_ERROR_INVALID_VALUE;
    return CUDA_SUCCESS;
}

CUresult sim_launch(const CUDA_KERNEL_NODE_PARAMS_v3 *what, CUstream hStream, bool per_thread)
{
    struct sim_stream *stream;
    struct sim_function *function;
    struct sim_node *node = NULL;
    struct sim_context *context;
    bool allocates, prints;
    CUresult code = sim_stream_find(hStream, per_thread, &stream);
    if (code)
        return code;
    context = stream->context;
    if (!context)
        return CUDA_ERROR_CONTEXT_IS_DESTROYED;
    /* Its code is needed in either case: a node is made of it. */
    code = sim_function_find(what->func, context, &function);
    if (!code)
        code = sim_launch_check(what);
    if (!code)
        code = sim_capture_node(stream, CU_GRAPH_NODE_TYPE_KERNEL, &node);
    if (code)
        return code;
    if (node) {
        sim_node_keep_kernel(node, what, function);
        return CUDA_SUCCESS;
    }
    allocates = function->code->allocates;
    prints = function->code->prints;
    sim_stream_keep(stream);
    code = sim_local_need(context, function->code->local); /* may wait: the function may go */
    if (!code)
        code = sim_limit_launch(context, allocates, prints);
    if (!code && !stream->ended)
        sim_queue_mark(stream);
    sim_stream_drop(stream);
    return code;
}

#define LAUNCH(f)                                                                              \
    {                                                                                          \
        .func = f, .gridDimX = gridDimX, .gridDimY = gridDimY, .gridDimZ = gridDimZ,           \
        .blockDimX = blockDimX, .blockDimY = blockDimY, .blockDimZ = blockDimZ,                \
        .sharedMemBytes = sharedMemBytes, .kernelParams = kernelParams                         \
    }

CUresult cuLaunchKernel(CUfunction f, unsigned int gridDimX, unsigned int gridDimY,
                        unsigned int gridDimZ, unsigned int blockDimX, unsigned int blockDimY,
                        unsigned int blockDimZ, unsigned int sharedMemBytes, CUstream hStream,
                        void **kernelParams, void **extra)
{
    SIM_ENTER(cuLaunchKernel, W(f), W(gridDimX), W(gridDimY), W(gridDimZ), W(blockDimX),
              W(blockDimY), W(blockDimZ), W(sharedMemBytes), W(hStream), W(kernelParams),
              W(extra));
    CUDA_KERNEL_NODE_PARAMS_v3 what = LAUNCH(f);
    what.extra = extra;
    return sim_launch(&what, hStream, false);
}

CUresult cuLaunchKernel_ptsz(CUfunction f, unsigned int gridDimX, unsigned int gridDimY,
                             unsigned int gridDimZ, unsigned int blockDimX,
                             unsigned int blockDimY, unsigned int blockDimZ,
                             unsigned int sharedMemBytes, CUstream hStream, void **kernelParams,
                             void **extra)
{
    SIM_ENTER(cuLaunchKernel_ptsz, W(f), W(gridDimX), W(gridDimY), W(gridDimZ), W(blockDimX),
              W(blockDimY), W(blockDimZ), W(sharedMemBytes), W(hStream), W(kernelParams),
              W(extra));
    CUDA_KERNEL_NODE_PARAMS_v3 what = LAUNCH(f);
    what.extra = extra;
    return sim_launch(&what, hStream, true);
}

CUresult cuLaunchCooperativeKernel(CUfunction f, unsigned int gridDimX, unsigned int gridDimY,
                                   unsigned int gridDimZ, unsigned int blockDimX,
                                   unsigned int blockDimY, unsigned int blockDimZ,
                                   unsigned int sharedMemBytes, CUstream hStream,
                                   void **kernelParams)
{
    SIM_ENTER(cuLaunchCooperativeKernel, W(f), W(gridDimX), W(gridDimY), W(gridDimZ),
              W(blockDimX), W(blockDimY), W(blockDimZ), W(sharedMemBytes), W(hStream),
              W(kernelParams));
    CUDA_KERNEL_NODE_PARAMS_v3 what = LAUNCH(f);
    return sim_launch(&what, hStream, false);
}

CUresult cuLaunchCooperativeKernel_ptsz(CUfunction f, unsigned int gridDimX,
                                        unsigned int gridDimY, unsigned int gridDimZ,
                                        unsigned int blockDimX, unsigned int blockDimY,
                                        unsigned int blockDimZ, unsigned int sharedMemBytes,
                                        CUstream hStream, void **kernelParams)
{
    SIM_ENTER(cuLaunchCooperativeKernel_ptsz, W(f), W(gridDimX), W(gridDimY), W(gridDimZ),
              W(blockDimX), W(blockDimY), W(blockDimZ), W(sharedMemBytes), W(hStream),
              W(kernelParams));
    CUDA_KERNEL_NODE_PARAMS_v3 what = LAUNCH(f);
    return sim_launch(&what, hStream, true);
}

static CUresult launch_with(const CUlaunchConfig *config, CUfunction f, void **kernelParams,
                            void **extra, bool per_thread)
{
    if (!config || (config->numAttrs && !config->attrs))
        return CUDA_ERROR_INVALID_VALUE;
    return sim_launch(&(CUDA_KERNEL_NODE_PARAMS_v3){.func = f,
                                                    .gridDimX = config->gridDimX,
                                                    .gridDimY = config->gridDimY,
                                                    .gridDimZ = config->gridDimZ,
                                                    .blockDimX = config->blockDimX,
                                                    .blockDimY = config->blockDimY,
                                                    .blockDimZ = config->blockDimZ,
                                                    .sharedMemBytes = config->sharedMemBytes,
                                                    .kernelParams = kernelParams,
                                                    .extra = extra},
                      config->hStream, per_thread);
}

CUresult cuLaunchKernelEx(const CUlaunchConfig *config, CUfunction f, void **kernelParams,
                          void **extra)
{
    SIM_ENTER(cuLaunchKernelEx, W(config), W(f), W(kernelParams), W(extra));
    SIM_NOTE(config, sizeof(*config));
    return launch_with(config, f, kernelParams, extra, false);
}

CUresult cuLaunchKernelEx_ptsz(const CUlaunchConfig *config, CUfunction f, void **kernelParams,
                               void **extra)
{
    SIM_ENTER(cuLaunchKernelEx_ptsz, W(config), W(f), W(kernelParams), W(extra));
    SIM_NOTE(config, sizeof(*config));
    return launch_with(config, f, kernelParams, extra, true);
}

static CUresult host_function(CUstream hStream, bool per_thread, CUhostFn fn, void *userData)
{
    struct sim_stream *stream;
    struct sim_piece piece = {
        .work = SIM_WORK_HOST_FUNCTION, .function = fn, .argument = userData};
    CUresult code = sim_stream_find(hStream, per_thread, &stream);
    bool captured = false;
    if (code)
        return code;
    if (!fn)
        return CUDA_ERROR_INVALID_VALUE;
    code = sim_capture_work(stream, &captured);
    if (!code && !captured)
        sim_queue(stream, &piece);
    return code;
}

CUresult cuLaunchHostFunc(CUstream hStream, CUhostFn fn, void *userData)
{
    SIM_ENTER(cuLaunchHostFunc, W(hStream), W(fn), W(userData));
    return host_function(hStream, false, fn, userData);
}

CUresult cuLaunchHostFunc_ptsz(CUstream hStream, CUhostFn fn, void *userData)
{
    SIM_ENTER(cuLaunchHostFunc_ptsz, W(hStream), W(fn), W(userData));
    return host_function(hStream, true, fn, userData);
}
