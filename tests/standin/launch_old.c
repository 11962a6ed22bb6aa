/* Launches as CUDA had them at first, with the shape set beforehand, and those on several
 * devices at once. The driver still exports them. */
#include "sim.h"
#include "launch.h"

static CUresult old_launch(CUfunction f, int width, int height, CUstream stream)
{
    struct sim_function *function = sim_object_find(f, SIM_FUNCTION);
    if (!function)
        return CUDA_ERROR_INVALID_HANDLE;
    if (width <= 0 || height <= 0)
        return CUDA_ERROR_INVALID_VALUE;
    return sim_launch(&(CUDA_KERNEL_NODE_PARAMS_v3){.func = f,
                                                    .gridDimX = (unsigned)width,
                                                    .gridDimY = (unsigned)height,
                                                    .gridDimZ = 1,
                                                    .blockDimX = function->shape[0],
                                                    .blockDimY = function->shape[1],
                                                    .blockDimZ = function->shape[2],
                                                    .sharedMemBytes = function->shared_bytes},
                      stream, false);
}

CUresult cuLaunch(CUfunction f)
{
    SIM_ENTER(cuLaunch, W(f));
    return old_launch(f, 1, 1, NULL);
}

CUresult cuLaunchGrid(CUfunction f, int grid_width, int grid_height)
{
    SIM_ENTER(cuLaunchGrid, W(f), W(grid_width), W(grid_height));
    return old_launch(f, grid_width, grid_height, NULL);
}

CUresult cuLaunchGridAsync(CUfunction f, int grid_width, int grid_height, CUstream hStream)
{
    SIM_ENTER(cuLaunchGridAsync, W(f), W(grid_width), W(grid_height), W(hStream));
    return old_launch(f, grid_width, grid_height, hStream);
}

CUresult cuFuncSetBlockShape(CUfunction hfunc, int x, int y, int z)
{
    SIM_ENTER(cuFuncSetBlockShape, W(hfunc), W(x), W(y), W(z));
    struct sim_function *function = sim_object_find(hfunc, SIM_FUNCTION);
    if (!function)
        return CUDA_ERROR_INVALID_HANDLE;
    if (x <= 0 || y <= 0 || z <= 0)
        return CUDA_ERROR_INVALID_VALUE;
    function->shape[0] = (unsigned)x;
    function->shape[1] = (unsigned)y;
    function->shape[2] = (unsigned)z;
    return CUDA_SUCCESS;
}

CUresult cuFuncSetSharedSize(CUfunction hfunc, unsigned int bytes)
{
    SIM_ENTER(cuFuncSetSharedSize, W(hfunc), W(bytes));
    struct sim_function *function = sim_object_find(hfunc, SIM_FUNCTION);
    if (!function)
        return CUDA_ERROR_INVALID_HANDLE;
    function->shared_bytes = bytes;
    return CUDA_SUCCESS;
}

static CUresult parameter(CUfunction hfunc)
{
    return sim_object_find(hfunc, SIM_FUNCTION) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

CUresult cuParamSetSize(CUfunction hfunc, unsigned int numbytes)
{
    SIM_ENTER(cuParamSetSize, W(hfunc), W(numbytes));
    return parameter(hfunc);
}

CUresult cuParamSeti(CUfunction hfunc, int offset, unsigned int value)
{
    SIM_ENTER(cuParamSeti, W(hfunc), W(offset), W(value));
    return parameter(hfunc);
}

CUresult cuParamSetv(CUfunction hfunc, int offset, void *ptr, unsigned int numbytes)
{
    SIM_ENTER(cuParamSetv, W(hfunc), W(offset), W(ptr), W(numbytes));
    return parameter(hfunc);
}

/* Each launch is in the context of its own stream; the first one that fails ends it. */
CUresult cuLaunchCooperativeKernelMultiDevice(CUDA_LAUNCH_PARAMS *launchParamsList,
                                              unsigned int numDevices, unsigned int flags)
{
    SIM_ENTER(cuLaunchCooperativeKernelMultiDevice, W(launchParamsList), W(numDevices),
              W(flags));
    CUresult code = CUDA_SUCCESS;
    if (!launchParamsList || !numDevices || flags > 3)
        return CUDA_ERROR_INVALID_VALUE;
    SIM_NOTE(launchParamsList, sizeof(*launchParamsList));
    for (unsigned i = 0; i < numDevices && !code; i++) {
        const CUDA_LAUNCH_PARAMS *one = &launchParamsList[i];
        /* The manual: no stream of the context's own, and none of the thread's. */
        if ((uintptr_t)one->hStream <= 2)
            return CUDA_ERROR_INVALID_VALUE;
        code = sim_launch(&(CUDA_KERNEL_NODE_PARAMS_v3){.func = one->function,
                                                        .gridDimX = one->gridDimX,
                                                        .gridDimY = one->gridDimY,
                                                        .gridDimZ = one->gridDimZ,
                                                        .blockDimX = one->blockDimX,
                                                        .blockDimY = one->blockDimY,
                                                        .blockDimZ = one->blockDimZ,
                                                        .sharedMemBytes = one->sharedMemBytes,
                                                        .kernelParams = one->kernelParams},
                          one->hStream, false);
    }
    return code;
}
