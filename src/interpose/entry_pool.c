/*
 * entry_pool.c: memory pools begin, change and end.
 */
#include "interpose/handlers.h"
#include "interpose/own_imports.h"
#include "interpose/pool_owner.h"

#include <stdatomic.h>
#include <stddef.h>

/* Notes a pool on a device with a budget; on others it is nobody's business. */
static void note(struct gb_driver *drv, CUdevice dev, CUmemoryPool pool, bool uncharged)
{
    struct gb_device *device;

    if (gb_process_device(drv, dev, &device) == GB_RULING_BUDGET)
        gb_pools_get(&device->backend.pools, &drv->api, pool, uncharged);
}

/* Never charged, whatever stream it is used on; noted on each device, found out if need be. */
static void note_uncharged(struct gb_driver *drv, CUmemoryPool pool)
{
    struct gb_device *device;

    gb_process_device(drv, 0, &device);
    for (int i = 0; i < gb_process_device_count(); i++)
        note(drv, i, pool, true);
}

/*
 * A pool of managed memory: its blocks are charged one by one, to the device of its location,
 * of the current context where that is none, or else to the first.
 */
static void note_managed(struct gb_driver *drv, CUmemoryPool pool,
                         const CUmemLocation *location)
{
    struct gb_device *device;
    struct gb_pool *noted;
    CUdevice dev = 0;

    if (location->type == CU_MEM_LOCATION_TYPE_DEVICE)
        dev = location->id;
    else if (drv->api.cuCtxGetDevice(&dev) != CUDA_SUCCESS)
        dev = 0;
    if (gb_process_device(drv, dev, &device) != GB_RULING_BUDGET)
        return;
    noted = gb_pools_get(&device->backend.pools, &drv->api, pool, true);
    if (noted)
        atomic_store(&noted->managed, true);
}

/* By what it gives out, whoever made it. */
static void note_of(struct gb_driver *drv, CUmemoryPool pool, CUmemAllocationType type,
                    const CUmemLocation *location)
{
    if (type == CU_MEM_ALLOCATION_TYPE_MANAGED)
        note_managed(drv, pool, location);
    else if (location->type == CU_MEM_LOCATION_TYPE_DEVICE)
        note(drv, location->id, pool, false);
    else
        note_uncharged(drv, pool); /* host and NUMA pools take no device memory */
}

CUresult gb_enter_cuMemPoolCreate(struct gb_driver *drv, CUmemoryPool *pool,
                                  const CUmemPoolProps *poolProps)
{
    CUresult code = GB_REAL(drv, cuMemPoolCreate)(pool, poolProps);

    if (code == CUDA_SUCCESS && pool && poolProps)
        note_of(drv, *pool, poolProps->allocType, &poolProps->location);
    return code;
}

/* The driver's own pools, one for each location and type, show themselves here only. */
CUresult gb_enter_cuMemGetDefaultMemPool(struct gb_driver *drv, CUmemoryPool *pool_out,
                                         CUmemLocation *location, CUmemAllocationType type)
{
    CUresult code = GB_REAL(drv, cuMemGetDefaultMemPool)(pool_out, location, type);

    if (code == CUDA_SUCCESS && pool_out && location)
        note_of(drv, *pool_out, type, location);
    return code;
}

CUresult gb_enter_cuMemGetMemPool(struct gb_driver *drv, CUmemoryPool *pool,
                                  CUmemLocation *location, CUmemAllocationType type)
{
    CUresult code = GB_REAL(drv, cuMemGetMemPool)(pool, location, type);

    if (code == CUDA_SUCCESS && pool && location)
        note_of(drv, *pool, type, location);
    return code;
}

CUresult gb_enter_cuMemPoolDestroy(struct gb_driver *drv, CUmemoryPool pool)
{
    struct gb_device *device = NULL;
    struct gb_pool *known = pool ? gb_pool_known(drv, pool, &device) : NULL;
    const uint64_t moment = gb_own_moment();
    uint64_t used, held, pending;
    CUresult code;

    /* A device whose current pool ends has its default pool again. */
    if (!known) {
        gb_pools_switch_begins();
        code = GB_REAL(drv, cuMemPoolDestroy)(pool);
        gb_pools_switch_ends();
        if (code == CUDA_SUCCESS)
            gb_own_pool_ended(drv, pool, moment);
        return code;
    }
    gpubudget_reap_pending(device->top, NULL);
    gb_pool_close(&device->backend.pools, known, &used, &held);
    gb_pools_switch_begins();
    code = GB_REAL(drv, cuMemPoolDestroy)(pool);
    gb_pools_switch_ends();
    if (code != CUDA_SUCCESS) {
        gb_pool_reopen(known);
        return code;
    }
    gb_own_pool_ended(drv, pool, moment);
    do {
        pending = gb_pools_destroyed(&device->backend.pools, known, used, held);
        gb_pending_pool_ended(&device->backend.pending, known);
        gb_pending_add_unproven(&device->backend.pending, pending);
        /* A host pool is noted on every device. */
        known = gb_pool_known(drv, pool, &device);
        used = held = 0;
    } while (known);
    return code;
}

CUresult gb_enter_cuMemPoolTrimTo(struct gb_driver *drv, CUmemoryPool pool,
                                  size_t minBytesToKeep)
{
    CUresult code = GB_REAL(drv, cuMemPoolTrimTo)(pool, minBytesToKeep);
    struct gb_device *device;
    struct gb_pool *known = code == CUDA_SUCCESS ? gb_pool_known(drv, pool, &device) : NULL;

    if (known)
        gb_pool_refresh(&device->backend.pools, known);
    return code;
}

CUresult gb_enter_cuMemPoolSetAttribute(struct gb_driver *drv, CUmemoryPool pool,
                                        CUmemPool_attribute attr, void *value)
{
    CUresult code = GB_REAL(drv, cuMemPoolSetAttribute)(pool, attr, value);
    struct gb_device *device;
    struct gb_pool *known = code == CUDA_SUCCESS ? gb_pool_known(drv, pool, &device) : NULL;

    /* A lower release threshold may let memory go. */
    if (known)
        gb_pool_refresh(&device->backend.pools, known);
    return code;
}

CUresult gb_enter_cuMemPoolImportFromShareableHandle(struct gb_driver *drv,
                                                     CUmemoryPool *pool_out, void *handle,
                                                     CUmemAllocationHandleType handleType,
                                                     unsigned long long flags)
{
    CUresult code =
        GB_REAL(drv, cuMemPoolImportFromShareableHandle)(pool_out, handle, handleType, flags);

    /* Its memory is the exporter's: never charged here. */
    if (code == CUDA_SUCCESS && pool_out)
        note_uncharged(drv, *pool_out);
    return code;
}

CUresult gb_enter_cuDeviceSetMemPool(struct gb_driver *drv, CUdevice dev, CUmemoryPool pool)
{
    CUresult code;

    gb_pools_switch_begins();
    code = GB_REAL(drv, cuDeviceSetMemPool)(dev, pool);
    if (code == CUDA_SUCCESS)
        note(drv, dev, pool, false);
    gb_pools_switch_ends();
    return code;
}

CUresult gb_enter_cuMemSetMemPool(struct gb_driver *drv, CUmemLocation *location,
                                  CUmemAllocationType type, CUmemoryPool pool)
{
    CUresult code;

    gb_pools_switch_begins();
    code = GB_REAL(drv, cuMemSetMemPool)(location, type, pool);
    if (code == CUDA_SUCCESS && location)
        note_of(drv, pool, type, location);
    gb_pools_switch_ends();
    return code;
}
