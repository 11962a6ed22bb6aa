/* Pools as objects: made, destroyed, asked, trimmed, made current. */
#include "sim.h"

#include <stdio.h>

static CUresult pool_of_location(const CUmemLocation *location, struct sim_card **card)
{
    if (!location)
        return CUDA_ERROR_INVALID_VALUE;
    if (location->type != CU_MEM_LOCATION_TYPE_DEVICE)
        return CUDA_ERROR_NOT_SUPPORTED;
    *card = sim_card_of(location->id);
    return *card ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

CUresult cuMemPoolCreate(CUmemoryPool *pool, const CUmemPoolProps *poolProps)
{
    SIM_ENTER(cuMemPoolCreate, W(pool), W(poolProps));
    SIM_NOTE(poolProps, sizeof(*poolProps));
    struct sim_card *card = NULL;
    bool managed;
    if (!pool || !poolProps)
        return CUDA_ERROR_INVALID_VALUE;
    managed = poolProps->allocType == CU_MEM_ALLOCATION_TYPE_MANAGED;
    if (!managed && poolProps->allocType != CU_MEM_ALLOCATION_TYPE_PINNED)
        return CUDA_ERROR_INVALID_VALUE;
    if (poolProps->location.type == CU_MEM_LOCATION_TYPE_DEVICE) {
        card = sim_card_of(poolProps->location.id);
        if (!card)
            return CUDA_ERROR_INVALID_DEVICE;
    } else if (managed && poolProps->location.type == CU_MEM_LOCATION_TYPE_NONE) {
        card = NULL;
    } else if (poolProps->location.type != CU_MEM_LOCATION_TYPE_HOST &&
               poolProps->location.type != CU_MEM_LOCATION_TYPE_HOST_NUMA &&
               poolProps->location.type != CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    SIM_UNSAFE();
    /* Managed pages that nobody touches take nothing of the card (as with cuMemAllocManaged).
     */
    *pool = (CUmemoryPool)(void *)sim_pool_new(managed ? NULL : card, poolProps);
    return CUDA_SUCCESS;
}

CUresult cuMemPoolDestroy(CUmemoryPool pool)
{
    SIM_ENTER(cuMemPoolDestroy, W(pool));
    struct sim_pool *found = sim_object_find(pool, SIM_POOL);
    if (!found || found->is_default)
        return CUDA_ERROR_INVALID_VALUE;
    sim_pool_end(found);
    return CUDA_SUCCESS;
}

CUresult cuMemPoolTrimTo(CUmemoryPool pool, size_t minBytesToKeep)
{
    SIM_ENTER(cuMemPoolTrimTo, W(pool), W(minBytesToKeep));
    struct sim_pool *found = sim_object_find(pool, SIM_POOL);
    if (!found)
        return CUDA_ERROR_INVALID_VALUE;
    SIM_UNSAFE();
    sim_heap_trim(&found->heap, minBytesToKeep);
    return CUDA_SUCCESS;
}

CUresult cuMemPoolGetAttribute(CUmemoryPool pool, CUmemPool_attribute attr, void *value)
{
    SIM_ENTER(cuMemPoolGetAttribute, W(pool), W(attr), W(value));
    struct sim_pool *found = sim_object_find(pool, SIM_POOL);
    cuuint64_t *wide = value;
    int *narrow = value;
    if (pool && !found) {
        /* As the driver does, which follows the handle into memory that is no more (measured;
         * trim, destroy and allocate answer 1 to the same handle). */
        fputs("standin: cuMemPoolGetAttribute of a pool that has ended\n", stderr);
        abort();
    }
    if (!found || !value)
        return CUDA_ERROR_INVALID_VALUE;
    SIM_UNSAFE();
    switch (attr) {
    case CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES:
        *narrow = found->reuse_event;
        break;
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC:
        *narrow = found->reuse_opportunistic;
        break;
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES:
        *narrow = found->reuse_internal;
        break;
    case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD:
        *wide = found->threshold;
        break;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT:
        *wide = found->heap.reserved;
        break;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
        *wide = found->heap.reserved_high;
        break;
    case CU_MEMPOOL_ATTR_USED_MEM_CURRENT:
        *wide = found->heap.used;
        break;
    case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
        *wide = found->heap.used_high;
        break;
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
    return CUDA_SUCCESS;
}

CUresult cuMemPoolSetAttribute(CUmemoryPool pool, CUmemPool_attribute attr, void *value)
{
    SIM_ENTER(cuMemPoolSetAttribute, W(pool), W(attr), W(value));
    struct sim_pool *found = sim_object_find(pool, SIM_POOL);
    const cuuint64_t *wide = value;
    const int *narrow = value;
    if (!found || !value)
        return CUDA_ERROR_INVALID_VALUE;
    SIM_UNSAFE();
    switch (attr) {
    case CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES:
        found->reuse_event = *narrow != 0;
        break;
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC:
        found->reuse_opportunistic = *narrow != 0;
        break;
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES:
        found->reuse_internal = *narrow != 0;
        break;
    case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD:
        found->threshold = *wide;
        break;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
        if (*wide)
            return CUDA_ERROR_INVALID_VALUE;
        found->heap.reserved_high = found->heap.reserved;
        break;
    case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
        if (*wide)
            return CUDA_ERROR_INVALID_VALUE;
        found->heap.used_high = found->heap.used;
        break;
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
    return CUDA_SUCCESS;
}

CUresult cuMemPoolSetAccess(CUmemoryPool pool, const CUmemAccessDesc *map, size_t count)
{
    SIM_ENTER(cuMemPoolSetAccess, W(pool), W(map), W(count));
    struct sim_pool *found = sim_object_find(pool, SIM_POOL);
    if (!found || (count && !map))
        return CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < count; i++) {
        if (map[i].location.type != CU_MEM_LOCATION_TYPE_DEVICE)
            continue;
        if (!sim_card_of(map[i].location.id))
            return CUDA_ERROR_INVALID_DEVICE;
        found->access[map[i].location.id] = map[i].flags;
    }
    return CUDA_SUCCESS;
}

CUresult cuMemPoolGetAccess(CUmemAccess_flags *flags, CUmemoryPool memPool,
                            CUmemLocation *location)
{
    SIM_ENTER(cuMemPoolGetAccess, W(flags), W(memPool), W(location));
    struct sim_pool *found = sim_object_find(memPool, SIM_POOL);
    struct sim_card *card;
    CUresult code;
    if (!found || !flags)
        return CUDA_ERROR_INVALID_VALUE;
    code = pool_of_location(location, &card);
    if (code)
        return code;
    *flags = found->heap.card == card ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE
                                      : (CUmemAccess_flags)found->access[card->ordinal];
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetDefaultMemPool(CUmemoryPool *pool_out, CUdevice dev)
{
    SIM_ENTER(cuDeviceGetDefaultMemPool, W(pool_out), W(dev));
    struct sim_card *card = sim_card_of(dev);
    if (!pool_out || !card)
        return CUDA_ERROR_INVALID_VALUE; /* not INVALID_DEVICE */
    *pool_out = (CUmemoryPool)(void *)card->default_pool;
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetMemPool(CUmemoryPool *pool, CUdevice dev)
{
    SIM_ENTER(cuDeviceGetMemPool, W(pool), W(dev));
    struct sim_card *card = sim_card_of(dev);
    if (!pool || !card)
        return CUDA_ERROR_INVALID_VALUE;
    *pool = (CUmemoryPool)(void *)card->current_pool;
    return CUDA_SUCCESS;
}

static CUresult set_current(struct sim_card *card, CUmemoryPool pool)
{
    struct sim_pool *found = sim_object_find(pool, SIM_POOL);
    if (!found || found->heap.card != card || found->imported)
        return CUDA_ERROR_INVALID_VALUE;
    card->current_pool = found;
    return CUDA_SUCCESS;
}

CUresult cuDeviceSetMemPool(CUdevice dev, CUmemoryPool pool)
{
    SIM_ENTER(cuDeviceSetMemPool, W(dev), W(pool));
    struct sim_card *card = sim_card_of(dev);
    return card ? set_current(card, pool) : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMemGetDefaultMemPool(CUmemoryPool *pool_out, CUmemLocation *location,
                                CUmemAllocationType type)
{
    SIM_ENTER(cuMemGetDefaultMemPool, W(pool_out), W(location), W(type));
    SIM_NOTE(location, sizeof(*location));
    struct sim_card *card;
    CUresult code;
    if (!pool_out || type != CU_MEM_ALLOCATION_TYPE_PINNED)
        return CUDA_ERROR_INVALID_VALUE;
    code = pool_of_location(location, &card);
    if (!code)
        *pool_out = (CUmemoryPool)(void *)card->default_pool;
    return code;
}

CUresult cuMemGetMemPool(CUmemoryPool *pool, CUmemLocation *location, CUmemAllocationType type)
{
    SIM_ENTER(cuMemGetMemPool, W(pool), W(location), W(type));
    SIM_NOTE(location, sizeof(*location));
    struct sim_card *card;
    CUresult code;
    if (!pool || type != CU_MEM_ALLOCATION_TYPE_PINNED)
        return CUDA_ERROR_INVALID_VALUE;
    code = pool_of_location(location, &card);
    if (!code)
        *pool = (CUmemoryPool)(void *)card->current_pool;
    return code;
}

CUresult cuMemSetMemPool(CUmemLocation *location, CUmemAllocationType type, CUmemoryPool pool)
{
    SIM_ENTER(cuMemSetMemPool, W(location), W(type), W(pool));
    SIM_NOTE(location, sizeof(*location));
    struct sim_card *card;
    CUresult code;
    if (type != CU_MEM_ALLOCATION_TYPE_PINNED)
        return CUDA_ERROR_INVALID_VALUE;
    code = pool_of_location(location, &card);
    return code ? code : set_current(card, pool);
}
