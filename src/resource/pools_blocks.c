/*
 * pools_blocks.c: single blocks of pools: those of destroyed ones, and those that cuMemFree
 * frees.
 */
#include "resource/pools.h"

#include <stdatomic.h>

#include "resource/capture.h"

enum { ORPHAN_TRIES = 3 };

/* The pool of a block, dead with something charged or living, by what the driver tells. */
static struct gb_pool *pool_of_block(struct gb_pools *pools, const struct gb_driver_api *api,
                                     CUdeviceptr pointer, bool dead, uint64_t *bytes)
{
    struct gb_capture_mode saved;
    CUmemoryPool handle = NULL;
    CUdeviceptr base = 0;
    size_t size = 0;
    CUresult code;

    if (!api->cuPointerGetAttribute || !api->cuMemGetAddressRange_v2)
        return NULL;
    saved = gb_capture_relax(api);
    /* There is no second chance to learn what goes with the block, so a failure is asked
     * about again. */
    code = CUDA_ERROR_UNKNOWN;
    for (int i = 0; i < ORPHAN_TRIES && code != CUDA_SUCCESS; i++) {
        code =
            api->cuPointerGetAttribute(&handle, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, pointer);
        if (code == CUDA_SUCCESS)
            code = api->cuMemGetAddressRange_v2(&base, &size, pointer);
    }
    gb_capture_restore(api, &saved);
    if (code != CUDA_SUCCESS || base != pointer)
        return NULL;
    /* A handle that has come back is the new pool's. */
    if (dead && gb_pools_find(pools, api, handle))
        return NULL;
    for (struct gb_pool *pool = atomic_load(&pools->all); pool; pool = pool->next) {
        if (atomic_load(&pool->dead) == dead && atomic_load(&pool->api) == api &&
            atomic_load(&pool->handle) == handle && (!dead || atomic_load(&pool->posted) > 0)) {
            *bytes = size; /* as asked for, as USED_MEM_CURRENT counts it (measured) */
            return pool;
        }
    }
    return NULL;
}

struct gb_pool *gb_pools_orphan_of(struct gb_pools *pools, const struct gb_driver_api *api,
                                   CUdeviceptr pointer, uint64_t *bytes)
{
    return pool_of_block(pools, api, pointer, true, bytes);
}

struct gb_pool *gb_pools_block_of(struct gb_pools *pools, const struct gb_driver_api *api,
                                  CUdeviceptr pointer, uint64_t *bytes)
{
    return pool_of_block(pools, api, pointer, false, bytes);
}

void gb_pool_freed_at_once(struct gb_pool *pool, uint64_t bytes)
{
    atomic_fetch_add(&pool->uncounted, bytes);
}

uint64_t gb_pools_orphan_freed(struct gb_pools *pools, struct gb_pool *pool, uint64_t bytes)
{
    uint64_t gone = 0;

    gb_lock_take(&pool->gauge);
    if (pool->left > 0) {
        pool->left -= bytes < pool->left ? bytes : pool->left;
        if (pool->left == 0) {
            atomic_fetch_sub(&pools->orphaned, 1);
            gone = atomic_load(&pool->posted);
            atomic_store(&pool->posted, 0);
        }
    }
    gb_lock_drop(&pool->gauge);
    return gone;
}
