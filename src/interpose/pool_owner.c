/*
 * pool_owner.c: which device a memory pool is on.
 */
#include "interpose/pool_owner.h"

#include <stdatomic.h>
#include <stddef.h>

#include "resource/capture.h"

struct gb_pool *gb_pool_known(struct gb_driver *drv, CUmemoryPool pool,
                              struct gb_device **owner)
{
    int count = gb_process_device_count();

    for (int i = 0; i < count; i++) {
        struct gb_device *device = gb_process_device_at(i);
        struct gb_pool *found =
            device ? gb_pools_find(&device->backend.pools, &drv->api, pool) : NULL;

        if (found) {
            *owner = device;
            return found;
        }
    }
    return NULL;
}

bool gb_pool_managed(struct gb_driver *drv, CUmemoryPool pool, struct gb_device **owner)
{
    struct gb_device *device;
    struct gb_pool *known = gb_pool_known(drv, pool, &device);

    if (!known || !atomic_load(&known->managed))
        return false;
    *owner = device;
    return true;
}

static bool is_default_pool(struct gb_driver *drv, int ordinal, CUmemoryPool pool)
{
    struct gb_capture_mode saved;
    CUmemoryPool handle = NULL;
    CUresult code;

    if (!drv->api.cuDeviceGetDefaultMemPool)
        return false;
    saved = gb_capture_relax(&drv->api);
    code = drv->api.cuDeviceGetDefaultMemPool(&handle, ordinal);
    gb_capture_restore(&drv->api, &saved);
    return code == CUDA_SUCCESS && handle == pool;
}

bool gb_pool_owner(struct gb_driver *drv, CUmemoryPool pool, struct gb_device *guess,
                   struct gb_device **owner)
{
    struct gb_device *device = NULL;
    struct gb_pool *known = gb_pool_known(drv, pool, &device);
    int count = gb_process_device_count();

    if (known) {
        *owner = device;
        return !atomic_load(&known->uncharged);
    }
    for (int i = 0; i < count; i++) {
        if (!is_default_pool(drv, i, pool))
            continue;
        *owner = gb_process_device_at(i);
        return *owner != NULL;
    }
    *owner = guess;
    return guess != NULL;
}
