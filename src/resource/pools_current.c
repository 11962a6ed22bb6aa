/*
 * pools_current.c: the pool that a device's stream-ordered requests come from.
 */
#include "resource/pools.h"

#include <stdatomic.h>

#include "resource/capture.h"

/* Of the process: current pools are switched in it, whatever stacks there are. */
static _Atomic unsigned switching;
static _Atomic uint64_t switches;

void gb_pools_switch_begins(void)
{
    atomic_fetch_add(&switching, 1);
}

void gb_pools_switch_ends(void)
{
    atomic_fetch_add(&switches, 1);
    atomic_fetch_sub(&switching, 1);
}

void gb_pools_switch_forked(void)
{
    /* A thread that was switching does not exist here. */
    atomic_store(&switching, 0);
}

uint64_t gb_pools_era(void)
{
    /* In this order: one that has ended meanwhile is counted. */
    if (atomic_load(&switching) > 0)
        return 0;
    return atomic_load(&switches) + 1;
}

static struct gb_pool *find_current(struct gb_pools *pools, const struct gb_driver_api *api,
                                    uint64_t era)
{
    for (int i = 0; i < GB_POOL_COPIES; i++) {
        struct gb_pool_current *current = &pools->current[i];
        struct gb_pool *pool;

        if (atomic_load(&current->era) != era || atomic_load(&current->api) != api)
            continue;
        pool = atomic_load(&current->pool);
        if (atomic_load(&current->era) == era)
            return pool;
    }
    return NULL;
}

static void remember_current(struct gb_pools *pools, const struct gb_driver_api *api,
                             struct gb_pool *pool, uint64_t era)
{
    gb_lock_take(&pools->lock);
    for (int i = 0; i < GB_POOL_COPIES; i++) {
        struct gb_pool_current *current = &pools->current[i];
        const struct gb_driver_api *owner = atomic_load(&current->api);

        if (owner && owner != api)
            continue;
        atomic_store(&current->era, 0);
        atomic_store(&current->api, api);
        atomic_store(&current->pool, pool);
        atomic_store(&current->era, era);
        break;
    }
    gb_lock_drop(&pools->lock);
}

__attribute__((noinline)) static struct gb_pool *
ask_current(struct gb_pools *pools, const struct gb_driver_api *api, uint64_t era)
{
    struct gb_capture_mode saved;
    CUmemoryPool handle = NULL;
    struct gb_pool *pool;
    CUresult code;

    if (!api->cuDeviceGetMemPool)
        return NULL;
    saved = gb_capture_relax(api);
    code = api->cuDeviceGetMemPool(&handle, pools->device);
    gb_capture_restore(api, &saved);
    if (code != CUDA_SUCCESS || !handle)
        return NULL;
    pool = gb_pools_get(pools, api, handle, false);
    if (pool && era)
        remember_current(pools, api, pool, era);
    return pool;
}

struct gb_pool *gb_pools_current(struct gb_pools *pools, const struct gb_driver_api *api)
{
    uint64_t era = gb_pools_era();
    struct gb_pool *pool = era ? find_current(pools, api, era) : NULL;

    return pool ? pool : ask_current(pools, api, era);
}
