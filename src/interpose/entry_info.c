/*
 * entry_info.c: what a program is told about the size of its card: a card of the size of its
 * limit, the same in every answer.
 */
#include "interpose/capacity.h"
#include "interpose/handlers.h"
#include "interpose/process.h"

#include <limits.h>

static uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static bool answers_limit(enum gb_ruling ruling, const struct gb_device *device)
{
    return ruling == GB_RULING_BUDGET && gb_capacity_is_limit() && gb_device_is_limited(device);
}

static bool is_answered(struct gb_driver *drv, CUdevice dev, struct gb_device **device)
{
    enum gb_ruling ruling = gb_process_device(drv, dev, device);

    return answers_limit(ruling, *device);
}

CUresult gb_enter_cuMemGetInfo_v2(struct gb_driver *drv, size_t *free, size_t *total)
{
    struct gb_device *device = NULL;
    CUcontext context;
    CUresult code = CUDA_SUCCESS;
    enum gb_ruling ruling = gb_process_current(drv, &device, &context, &code);

    /* Where the device cannot be learned the answer is that failure, not the whole card. */
    if (ruling == GB_RULING_FAILED && gb_capacity_is_limit())
        return code;
    code = GB_REAL(drv, cuMemGetInfo_v2)(free, total);
    if (code != CUDA_SUCCESS || !answers_limit(ruling, device))
        return code;
    if (total)
        *total = gb_capacity_total(device);
    if (free)
        *free = gb_capacity_free(device, *free);
    return code;
}

/* The 32-bit forms of CUDA 2.0 cannot say more than 4 GiB - 1; the driver answers that. */
static unsigned int clamped(uint64_t bytes)
{
    return (unsigned int)least(bytes, UINT_MAX);
}

CUresult gb_enter_cuMemGetInfo(struct gb_driver *drv, unsigned int *free, unsigned int *total)
{
    struct gb_device *device = NULL;
    CUcontext context;
    CUresult code = CUDA_SUCCESS;
    enum gb_ruling ruling = gb_process_current(drv, &device, &context, &code);
    size_t physically_free = 0, physical_total;

    if (ruling == GB_RULING_FAILED && gb_capacity_is_limit())
        return code;
    code = GB_REAL(drv, cuMemGetInfo)(free, total);
    if (code != CUDA_SUCCESS || !answers_limit(ruling, device))
        return code;
    if (total)
        *total = clamped(gb_capacity_total(device));
    if (free && drv->api.cuMemGetInfo_v2(&physically_free, &physical_total) != CUDA_SUCCESS)
        physically_free = *free;
    if (free)
        *free = clamped(gb_capacity_free(device, physically_free));
    return code;
}

CUresult gb_enter_cuDeviceTotalMem_v2(struct gb_driver *drv, size_t *bytes, CUdevice dev)
{
    struct gb_device *device = NULL;
    CUresult code = GB_REAL(drv, cuDeviceTotalMem_v2)(bytes, dev);

    if (code == CUDA_SUCCESS && bytes && is_answered(drv, dev, &device))
        *bytes = least(*bytes, gb_capacity_total(device));
    return code;
}

CUresult gb_enter_cuDeviceTotalMem(struct gb_driver *drv, unsigned int *bytes, CUdevice dev)
{
    struct gb_device *device = NULL;
    CUresult code = GB_REAL(drv, cuDeviceTotalMem)(bytes, dev);

    if (code == CUDA_SUCCESS && bytes && is_answered(drv, dev, &device))
        *bytes = (unsigned int)least(*bytes, gb_capacity_total(device));
    return code;
}
