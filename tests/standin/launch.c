/* Kernel launches and host functions: pieces of work in a stream. */
#include "sim.h"

static CUresult launch(CUfunction f, CUstream hStream, bool per_thread)
{
    struct sim_stream *stream;
    CUresult code = sim_stream_find(hStream, per_thread, &stream);
    bool captured = false;
    if (code)
        return code;
    if (!sim_object_find(f, SIM_FUNCTION))
        return CUDA_ERROR_INVALID_HANDLE;
    code = sim_capture_work(stream, &captured);
    if (!code && !captured)
        sim_queue_mark(stream);
    return code;
}

CUresult cuLaunchKernel(CUfunction f, unsigned int gridDimX, unsigned int gridDimY,
                        unsigned int gridDimZ, unsigned int blockDimX, unsigned int blockDimY,
                        unsigned int blockDimZ, unsigned int sharedMemBytes, CUstream hStream,
                        void **kernelParams, void **extra)
{
    SIM_ENTER(cuLaunchKernel, W(f), W(gridDimX), W(gridDimY), W(gridDimZ), W(blockDimX),
              W(blockDimY), W(blockDimZ), W(sharedMemBytes), W(hStream), W(kernelParams),
              W(extra));
    return launch(f, hStream, false);
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
    return launch(f, hStream, true);
}

CUresult cuLaunchKernelEx(const CUlaunchConfig *config, CUfunction f, void **kernelParams,
                          void **extra)
{
    SIM_ENTER(cuLaunchKernelEx, W(config), W(f), W(kernelParams), W(extra));
    return config ? launch(f, config->hStream, false) : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuLaunchKernelEx_ptsz(const CUlaunchConfig *config, CUfunction f, void **kernelParams,
                               void **extra)
{
    SIM_ENTER(cuLaunchKernelEx_ptsz, W(config), W(f), W(kernelParams), W(extra));
    return config ? launch(f, config->hStream, true) : CUDA_ERROR_INVALID_VALUE;
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
