/* cuCtxSetLimit, and the memory behind the limits: the stack's is in local.c; the device heap
 * is there from the first launch on that uses it. All of it ends with the context. */
#include "sim.h"

#define PENDING_DEFAULT 2048

void sim_limits_start(struct sim_context *context)
{
    memset(context->limits, 0, sizeof(context->limits));
    context->limits[CU_LIMIT_STACK_SIZE] = sim_settings.profile->stack_bytes;
    context->limits[CU_LIMIT_PRINTF_FIFO_SIZE] = sim_settings.profile->printf_bytes;
    context->limits[CU_LIMIT_MALLOC_HEAP_SIZE] = 8 * SIM_MIB;
    context->limits[CU_LIMIT_DEV_RUNTIME_PENDING_LAUNCH_COUNT] = PENDING_DEFAULT;
    context->limits[CU_LIMIT_DEV_RUNTIME_SYNC_DEPTH] = 2;
    context->limits[CU_LIMIT_MAX_L2_FETCH_GRANULARITY] = 64;
    context->limits[CU_LIMIT_PERSISTING_L2_CACHE_SIZE] = sim_settings.profile->l2_persisting;
    context->local_bytes = context->heap_bytes = context->calls_bytes = 0;
    context->node_bytes = context->limit_bytes = context->stack_given = 0;
    context->node_count = 0;
    context->thread_bytes = sim_settings.profile->stack_bytes;
    context->prints = false;
}

void sim_limits_end(struct sim_context *context)
{
    sim_card_give(context->card, SIM_USE_LOCAL, context->local_bytes);
    sim_card_give(context->card, SIM_USE_LIMIT, context->limit_bytes);
    sim_card_give(context->card, SIM_USE_NODES, context->node_bytes);
    context->local_bytes = context->limit_bytes = context->node_bytes = 0;
}

static bool take(struct sim_context *context, uint64_t bytes)
{
    if (!sim_card_take_pressing(context->card, SIM_USE_LIMIT, bytes))
        return false;
    context->limit_bytes += bytes;
    return true;
}

/* Measured: with the load of code that calls functions of the driver comes what these need for
 * every thread, whatever the limits of heap and printf buffer say; it stays when the module is
 * unloaded. The code of a failure is not measured. */
CUresult sim_limit_calls(struct sim_context *context, uint64_t frames)
{
    uint64_t bytes = sim_local_of(frames);
    if (bytes <= context->calls_bytes)
        return CUDA_SUCCESS;
    if (!take(context, bytes - context->calls_bytes))
        return CUDA_ERROR_SHARED_OBJECT_INIT_FAILED;
    context->calls_bytes = bytes;
    return CUDA_SUCCESS;
}

/* Measured: the heap comes with the first launch of a kernel that calls malloc, of the size
 * that the limit then has, and stays as long as the context. 303 where there is no room, the
 * manual says. The printf buffer takes nothing when a kernel that prints is launched. */
CUresult sim_limit_launch(struct sim_context *context, bool allocates, bool prints)
{
    uint64_t bytes = context->limits[CU_LIMIT_MALLOC_HEAP_SIZE];
    context->prints = context->prints || prints;
    if (!allocates || context->heap_bytes || !bytes)
        return CUDA_SUCCESS;
    bytes = sim_round_up(bytes, sim_settings.profile->big_round) +
            sim_settings.profile->heap_besides;
    if (!take(context, bytes))
        return CUDA_ERROR_SHARED_OBJECT_INIT_FAILED;
    context->heap_bytes = bytes;
    return CUDA_SUCCESS;
}

/* Checks a limit and makes its memory what it has to be. */
static CUresult apply(struct sim_context *context, CUlimit limit, size_t *value)
{
    switch (limit) {
    case CU_LIMIT_STACK_SIZE:
        /* Not measured: what is too much. */
        if (*value > 512 * SIM_KIB)
            return CUDA_ERROR_INVALID_VALUE;
        *value = sim_round_up(*value, 16);
        return sim_local_limit(context, *value);
    case CU_LIMIT_PRINTF_FIFO_SIZE:
        /* Measured: a kernel that is only loaded does not count, one that was launched does. */
        return context->prints ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
    case CU_LIMIT_MALLOC_HEAP_SIZE:
        return context->heap_bytes ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
    case CU_LIMIT_DEV_RUNTIME_SYNC_DEPTH:
        /* Only below 9.0. What a level takes there nobody measured. */
        if (sim_settings.profile->compute_major >= 9)
            return CUDA_ERROR_UNSUPPORTED_LIMIT;
        return *value > 24 ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
    case CU_LIMIT_DEV_RUNTIME_PENDING_LAUNCH_COUNT:
        return *value > UINT32_MAX ? CUDA_ERROR_INVALID_VALUE
                                   : CUDA_SUCCESS; /* takes nothing */
    case CU_LIMIT_MAX_L2_FETCH_GRANULARITY:
        *value = *value > 128 ? 128 : *value;
        return CUDA_SUCCESS;
    case CU_LIMIT_PERSISTING_L2_CACHE_SIZE: /* a part of the cache, no memory */
    case CU_LIMIT_CIG_SHMEM_FALLBACK_ENABLED:
        return CUDA_SUCCESS;
    case CU_LIMIT_SHMEM_SIZE:
    case CU_LIMIT_CIG_ENABLED:
        return CUDA_ERROR_NOT_PERMITTED; /* can only be asked for */
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
}

CUresult cuCtxSetLimit(CUlimit limit, size_t value)
{
    SIM_ENTER(cuCtxSetLimit, W(limit), W(value));
    SIM_CURRENT(context);
    CUresult code = apply(context, limit, &value);
    if (!code)
        context->limits[limit] = value;
    return code;
}

/* The stack limit is what was set, or what a kernel has made local memory grow to since. */
CUresult cuCtxGetLimit(size_t *pvalue, CUlimit limit)
{
    SIM_ENTER(cuCtxGetLimit, W(pvalue), W(limit));
    SIM_CURRENT(context);
    if (!pvalue)
        return CUDA_ERROR_INVALID_VALUE;
    if (limit >= CU_LIMIT_MAX)
        return CUDA_ERROR_INVALID_VALUE;
    if (limit == CU_LIMIT_DEV_RUNTIME_SYNC_DEPTH && sim_settings.profile->compute_major >= 9)
        return CUDA_ERROR_UNSUPPORTED_LIMIT;
    *pvalue = context->limits[limit];
    return CUDA_SUCCESS;
}

CUresult cuCtxResetPersistingL2Cache(void)
{
    SIM_ENTER(cuCtxResetPersistingL2Cache);
    SIM_CURRENT(context);
    (void)context;
    return CUDA_SUCCESS;
}

CUresult cuCtxSetCacheConfig(CUfunc_cache config)
{
    SIM_ENTER(cuCtxSetCacheConfig, W(config));
    SIM_CURRENT(context);
    (void)context;
    return CUDA_SUCCESS;
}
