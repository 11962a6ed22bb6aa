/*
 * entry_info.c: what a program is told about the size of its card: a card of the size of its
 * limit, the same in every answer.
 */
#include "interpose/handlers.h"
#include "interpose/process.h"

#include <limits.h>

static uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static bool answers_limit(enum gb_ruling ruling)
{
    return ruling == GB_RULING_BUDGET && gb_settings()->capacity == GB_CAPACITY_LIMIT;
}

/* The device's size as the program is to see it. */
static uint64_t total_of(const struct gb_device *device)
{
    return device->identity.total_bytes > 0 ? least(device->limit, device->identity.total_bytes)
                                            : device->limit;
}

/* What the budget has left, and not more than the card has; frees that are done count as free.
 */
static uint64_t free_of(struct gb_device *device, uint64_t physically_free)
{
    uint64_t total = total_of(device);
    uint64_t used;

    used = gb_budget_reserved_exactly(&device->budget) + device->reserve;
    return least(used < total ? total - used : 0, physically_free);
}

CUresult gb_enter_cuMemGetInfo_v2(struct gb_driver *drv, size_t *free, size_t *total)
{
    struct gb_device *device;
    CUcontext context;
    CUresult code = CUDA_SUCCESS;
    enum gb_ruling ruling = gb_process_current(drv, &device, &context, &code);

    /* Where the device cannot be learned the answer is that failure, not the whole card. */
    if (ruling == GB_RULING_FAILED && gb_settings()->capacity == GB_CAPACITY_LIMIT)
        return code;
    code = GB_REAL(drv, cuMemGetInfo_v2)(free, total);
    if (code != CUDA_SUCCESS || !answers_limit(ruling))
        return code;
    if (total)
        *total = total_of(device);
    if (free)
        *free = free_of(device, *free);
    return code;
}

/* The 32-bit forms of CUDA 2.0 cannot say more than 4 GiB - 1; the driver answers that. */
static unsigned int clamped(uint64_t bytes)
{
    return (unsigned int)least(bytes, UINT_MAX);
}

CUresult gb_enter_cuMemGetInfo(struct gb_driver *drv, unsigned int *free, unsigned int *total)
{
    struct gb_device *device;
    CUcontext context;
    CUresult code = CUDA_SUCCESS;
    enum gb_ruling ruling = gb_process_current(drv, &device, &context, &code);
    size_t physically_free = 0, physical_total;

    if (ruling == GB_RULING_FAILED && gb_settings()->capacity == GB_CAPACITY_LIMIT)
        return code;
    code = GB_REAL(drv, cuMemGetInfo)(free, total);
    if (code != CUDA_SUCCESS || !answers_limit(ruling))
        return code;
    if (total)
        *total = clamped(total_of(device));
    if (free && drv->api.cuMemGetInfo_v2(&physically_free, &physical_total) == CUDA_SUCCESS)
        *free = clamped(free_of(device, physically_free));
    return code;
}

CUresult gb_enter_cuDeviceTotalMem_v2(struct gb_driver *drv, size_t *bytes, CUdevice dev)
{
    struct gb_device *device;
    CUresult code = GB_REAL(drv, cuDeviceTotalMem_v2)(bytes, dev);

    if (code == CUDA_SUCCESS && bytes && answers_limit(gb_process_device(drv, dev, &device)))
        *bytes = least(*bytes, device->limit);
    return code;
}

CUresult gb_enter_cuDeviceTotalMem(struct gb_driver *drv, unsigned int *bytes, CUdevice dev)
{
    struct gb_device *device;
    CUresult code = GB_REAL(drv, cuDeviceTotalMem)(bytes, dev);

    if (code == CUDA_SUCCESS && bytes && answers_limit(gb_process_device(drv, dev, &device)))
        *bytes = (unsigned int)least(*bytes, device->limit);
    return code;
}
