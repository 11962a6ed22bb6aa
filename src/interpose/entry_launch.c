/*
 * entry_launch.c: kernels are launched, in every form.
 *
 * A launch of a function that is known to need no more local memory than its context has does
 * not come here (GB_ENTRY_QUICK); the others are looked at (local_memory.c).
 */
#include "interpose/handlers.h"
#include "interpose/kernel_params.h"
#include "interpose/functions_known.h"
#include "interpose/local_memory.h"

/* A launch whose parameters are looked at, once there is room for what it takes. */
struct ordered {
    struct gb_driver *drv;
    CUfunction f;
    CUstream stream;
    bool is_thread;
    void **params, **extra;
    gb_launch_fn launch;
    void *arg;
};

static CUresult run_ordered(void *arg)
{
    const struct ordered *l = arg;
    struct gb_order order;

    if (gb_order_begin(&order, l->drv, l->stream, l->is_thread))
        gb_kernel_params_touch(&order, l->f, l->params, l->extra);
    return gb_order_end(&order, l->launch(l->arg));
}

/* With GPUBUDGET_STREAM_ORDER=all no function is known to be small, and all launches come here.
 */
static CUresult launch_slowly(struct gb_driver *drv, CUfunction f, CUstream stream,
                              bool is_thread, void **params, void **extra, gb_launch_fn launch,
                              void *arg, const char *call)
{
    struct ordered ordered = {drv, f, stream, is_thread, params, extra, launch, arg};

    if (!gb_order_launches(drv))
        return gb_local_launch(drv, f, stream, is_thread, launch, arg, call);
    return gb_local_launch(drv, f, stream, is_thread, run_ordered, &ordered, call);
}

struct launchkernel {
    struct gb_driver *drv;
    CUfunction f;
    unsigned int gridDimX;
    unsigned int gridDimY;
    unsigned int gridDimZ;
    unsigned int blockDimX;
    unsigned int blockDimY;
    unsigned int blockDimZ;
    unsigned int sharedMemBytes;
    CUstream hStream;
    void **kernelParams;
    void **extra;
};

static CUresult run_launchkernel(void *arg)
{
    const struct launchkernel *l = arg;

    return GB_REAL(l->drv, cuLaunchKernel)(
        l->f, l->gridDimX, l->gridDimY, l->gridDimZ, l->blockDimX, l->blockDimY, l->blockDimZ,
        l->sharedMemBytes, l->hStream, l->kernelParams, l->extra);
}

CUresult gb_enter_cuLaunchKernel(struct gb_driver *drv, CUfunction f, unsigned int gridDimX,
                                 unsigned int gridDimY, unsigned int gridDimZ,
                                 unsigned int blockDimX, unsigned int blockDimY,
                                 unsigned int blockDimZ, unsigned int sharedMemBytes,
                                 CUstream hStream, void **kernelParams, void **extra)
{
    struct launchkernel launch = {drv,          f,         gridDimX,  gridDimY,       gridDimZ,
                                  blockDimX,    blockDimY, blockDimZ, sharedMemBytes, hStream,
                                  kernelParams, extra};

    return launch_slowly(drv, f, hStream, false, kernelParams, extra, run_launchkernel, &launch,
                         "cuLaunchKernel");
}

struct launchkernel_ptsz {
    struct gb_driver *drv;
    CUfunction f;
    unsigned int gridDimX;
    unsigned int gridDimY;
    unsigned int gridDimZ;
    unsigned int blockDimX;
    unsigned int blockDimY;
    unsigned int blockDimZ;
    unsigned int sharedMemBytes;
    CUstream hStream;
    void **kernelParams;
    void **extra;
};

static CUresult run_launchkernel_ptsz(void *arg)
{
    const struct launchkernel_ptsz *l = arg;

    return GB_REAL(l->drv, cuLaunchKernel_ptsz)(
        l->f, l->gridDimX, l->gridDimY, l->gridDimZ, l->blockDimX, l->blockDimY, l->blockDimZ,
        l->sharedMemBytes, l->hStream, l->kernelParams, l->extra);
}

CUresult gb_enter_cuLaunchKernel_ptsz(struct gb_driver *drv, CUfunction f,
                                      unsigned int gridDimX, unsigned int gridDimY,
                                      unsigned int gridDimZ, unsigned int blockDimX,
                                      unsigned int blockDimY, unsigned int blockDimZ,
                                      unsigned int sharedMemBytes, CUstream hStream,
                                      void **kernelParams, void **extra)
{
    struct launchkernel_ptsz launch = {
        drv,       f,         gridDimX,       gridDimY, gridDimZ,     blockDimX,
        blockDimY, blockDimZ, sharedMemBytes, hStream,  kernelParams, extra};

    return launch_slowly(drv, f, hStream, true, kernelParams, extra, run_launchkernel_ptsz,
                         &launch, "cuLaunchKernel");
}

struct launchkernelex {
    struct gb_driver *drv;
    const CUlaunchConfig *config;
    CUfunction f;
    void **kernelParams;
    void **extra;
};

static CUresult run_launchkernelex(void *arg)
{
    const struct launchkernelex *l = arg;

    return GB_REAL(l->drv, cuLaunchKernelEx)(l->config, l->f, l->kernelParams, l->extra);
}

CUresult gb_enter_cuLaunchKernelEx(struct gb_driver *drv, const CUlaunchConfig *config,
                                   CUfunction f, void **kernelParams, void **extra)
{
    struct launchkernelex launch = {drv, config, f, kernelParams, extra};

    return launch_slowly(drv, f, config ? config->hStream : NULL, false, kernelParams, extra,
                         run_launchkernelex, &launch, "cuLaunchKernelEx");
}

struct launchkernelex_ptsz {
    struct gb_driver *drv;
    const CUlaunchConfig *config;
    CUfunction f;
    void **kernelParams;
    void **extra;
};

static CUresult run_launchkernelex_ptsz(void *arg)
{
    const struct launchkernelex_ptsz *l = arg;

    return GB_REAL(l->drv, cuLaunchKernelEx_ptsz)(l->config, l->f, l->kernelParams, l->extra);
}

CUresult gb_enter_cuLaunchKernelEx_ptsz(struct gb_driver *drv, const CUlaunchConfig *config,
                                        CUfunction f, void **kernelParams, void **extra)
{
    struct launchkernelex_ptsz launch = {drv, config, f, kernelParams, extra};

    return launch_slowly(drv, f, config ? config->hStream : NULL, true, kernelParams, extra,
                         run_launchkernelex_ptsz, &launch, "cuLaunchKernelEx");
}

struct launchcooperativekernel {
    struct gb_driver *drv;
    CUfunction f;
    unsigned int gridDimX;
    unsigned int gridDimY;
    unsigned int gridDimZ;
    unsigned int blockDimX;
    unsigned int blockDimY;
    unsigned int blockDimZ;
    unsigned int sharedMemBytes;
    CUstream hStream;
    void **kernelParams;
};

static CUresult run_launchcooperativekernel(void *arg)
{
    const struct launchcooperativekernel *l = arg;

    return GB_REAL(l->drv, cuLaunchCooperativeKernel)(
        l->f, l->gridDimX, l->gridDimY, l->gridDimZ, l->blockDimX, l->blockDimY, l->blockDimZ,
        l->sharedMemBytes, l->hStream, l->kernelParams);
}

CUresult gb_enter_cuLaunchCooperativeKernel(struct gb_driver *drv, CUfunction f,
                                            unsigned int gridDimX, unsigned int gridDimY,
                                            unsigned int gridDimZ, unsigned int blockDimX,
                                            unsigned int blockDimY, unsigned int blockDimZ,
                                            unsigned int sharedMemBytes, CUstream hStream,
                                            void **kernelParams)
{
    struct launchcooperativekernel launch = {
        drv,       f,         gridDimX,       gridDimY, gridDimZ,    blockDimX,
        blockDimY, blockDimZ, sharedMemBytes, hStream,  kernelParams};

    return launch_slowly(drv, f, hStream, false, kernelParams, NULL,
                         run_launchcooperativekernel, &launch, "cuLaunchCooperativeKernel");
}

struct launchcooperativekernel_ptsz {
    struct gb_driver *drv;
    CUfunction f;
    unsigned int gridDimX;
    unsigned int gridDimY;
    unsigned int gridDimZ;
    unsigned int blockDimX;
    unsigned int blockDimY;
    unsigned int blockDimZ;
    unsigned int sharedMemBytes;
    CUstream hStream;
    void **kernelParams;
};

static CUresult run_launchcooperativekernel_ptsz(void *arg)
{
    const struct launchcooperativekernel_ptsz *l = arg;

    return GB_REAL(l->drv, cuLaunchCooperativeKernel_ptsz)(
        l->f, l->gridDimX, l->gridDimY, l->gridDimZ, l->blockDimX, l->blockDimY, l->blockDimZ,
        l->sharedMemBytes, l->hStream, l->kernelParams);
}

CUresult gb_enter_cuLaunchCooperativeKernel_ptsz(struct gb_driver *drv, CUfunction f,
                                                 unsigned int gridDimX, unsigned int gridDimY,
                                                 unsigned int gridDimZ, unsigned int blockDimX,
                                                 unsigned int blockDimY, unsigned int blockDimZ,
                                                 unsigned int sharedMemBytes, CUstream hStream,
                                                 void **kernelParams)
{
    struct launchcooperativekernel_ptsz launch = {
        drv,       f,         gridDimX,       gridDimY, gridDimZ,    blockDimX,
        blockDimY, blockDimZ, sharedMemBytes, hStream,  kernelParams};

    return launch_slowly(drv, f, hStream, true, kernelParams, NULL,
                         run_launchcooperativekernel_ptsz, &launch,
                         "cuLaunchCooperativeKernel");
}

struct launch {
    struct gb_driver *drv;
    CUfunction f;
};

static CUresult run_launch(void *arg)
{
    const struct launch *l = arg;

    return GB_REAL(l->drv, cuLaunch)(l->f);
}

CUresult gb_enter_cuLaunch(struct gb_driver *drv, CUfunction f)
{
    struct launch launch = {drv, f};

    return gb_local_launch(drv, f, NULL, false, run_launch, &launch, "cuLaunch");
}

struct launchgrid {
    struct gb_driver *drv;
    CUfunction f;
    int grid_width;
    int grid_height;
};

static CUresult run_launchgrid(void *arg)
{
    const struct launchgrid *l = arg;

    return GB_REAL(l->drv, cuLaunchGrid)(l->f, l->grid_width, l->grid_height);
}

CUresult gb_enter_cuLaunchGrid(struct gb_driver *drv, CUfunction f, int grid_width,
                               int grid_height)
{
    struct launchgrid launch = {drv, f, grid_width, grid_height};

    return gb_local_launch(drv, f, NULL, false, run_launchgrid, &launch, "cuLaunchGrid");
}

struct launchgridasync {
    struct gb_driver *drv;
    CUfunction f;
    int grid_width;
    int grid_height;
    CUstream hStream;
};

static CUresult run_launchgridasync(void *arg)
{
    const struct launchgridasync *l = arg;

    return GB_REAL(l->drv, cuLaunchGridAsync)(l->f, l->grid_width, l->grid_height, l->hStream);
}

CUresult gb_enter_cuLaunchGridAsync(struct gb_driver *drv, CUfunction f, int grid_width,
                                    int grid_height, CUstream hStream)
{
    struct launchgridasync launch = {drv, f, grid_width, grid_height, hStream};

    return gb_local_launch(drv, f, hStream, false, run_launchgridasync, &launch,
                           "cuLaunchGridAsync");
}

/*
 * One launch on several devices at once: each that a function is not known to be small on is
 * asked for what comes to it, one after the other, and then all are launched.
 */
struct multi {
    struct gb_driver *drv;
    CUDA_LAUNCH_PARAMS *list;
    unsigned int count, flags;
    unsigned int from; /* those before it have been asked */
};

/* May be called again by who asked for the one before, so nothing is kept from call to call. */
static CUresult run_multi(void *arg)
{
    const unsigned int devices = (unsigned int)gb_process_device_count();
    struct multi l = *(const struct multi *)arg;

    /* More than one for each device are an error, which the driver may see unread. */
    while (l.list && l.from < l.count && l.from < devices) {
        const CUDA_LAUNCH_PARAMS *one = &l.list[l.from++];

        if (!gb_known_needs_nothing(one->function))
            return gb_local_launch(l.drv, one->function, one->hStream, false, run_multi, &l,
                                   "cuLaunchCooperativeKernelMultiDevice");
    }
    return GB_REAL(l.drv, cuLaunchCooperativeKernelMultiDevice)(l.list, l.count, l.flags);
}

CUresult gb_enter_cuLaunchCooperativeKernelMultiDevice(struct gb_driver *drv,
                                                       CUDA_LAUNCH_PARAMS *launchParamsList,
                                                       unsigned int numDevices,
                                                       unsigned int flags)
{
    return run_multi(&(struct multi){drv, launchParamsList, numDevices, flags, 0});
}
