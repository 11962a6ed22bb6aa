/* cuCtxSetLimit, and the memory behind the limits: the stack's is in local.c; the device heap
 * and the printf buffer are there from the first kernel on that uses them; pending launches are
 * reserved at the call. All of it ends with the context. */
#include "sim.h"

#define PENDING_DEFAULT 2048

void sim_limits_start(struct sim_context *context)
{
    memset(context->limits, 0, sizeof(context->limits));
    context->limits[CU_LIMIT_STACK_SIZE] = sim_settings.profile->stack_bytes;
    context->limits[CU_LIMIT_PRINTF_FIFO_SIZE] = SIM_MIB;
    context->limits[CU_LIMIT_MALLOC_HEAP_SIZE] = 8 * SIM_MIB;
    context->limits[CU_LIMIT_DEV_RUNTIME_PENDING_LAUNCH_COUNT] = PENDING_DEFAULT;
    context->limits[CU_LIMIT_DEV_RUNTIME_SYNC_DEPTH] = 2;
    context->limits[CU_LIMIT_MAX_L2_FETCH_GRANULARITY] = 64;
    context->local_bytes = context->heap_bytes = context->printf_bytes = 0;
    context->pending_launch_bytes = context->limit_bytes = 0;
}

void sim_limits_end(struct sim_context *context)
{
    sim_card_give(context->card, SIM_USE_LOCAL, context->local_bytes);
    sim_card_give(context->card, SIM_USE_LIMIT, context->limit_bytes);
    context->local_bytes = context->limit_bytes = 0;
}

static bool take(struct sim_context *context, uint64_t bytes)
{
    if (!sim_card_take_pressing(context->card, SIM_USE_LIMIT, bytes))
        return false;
    context->limit_bytes += bytes;
    return true;
}

/* The manual: the heap is made when a module that calls malloc is loaded, of the size that the
 * limit then has, and a failure shows as code 303; it stays as long as the context. That with
 * lazy loading it is made when the function is loaded is not measured. */
CUresult sim_limit_heap(struct sim_context *context)
{
    uint64_t bytes = context->limits[CU_LIMIT_MALLOC_HEAP_SIZE];
    if (context->heap_bytes || !bytes)
        return CUDA_SUCCESS;
    bytes = sim_round_up(bytes, sim_settings.profile->big_round);
    if (!take(context, bytes))
        return CUDA_ERROR_SHARED_OBJECT_INIT_FAILED;
    context->heap_bytes = bytes;
    return CUDA_SUCCESS;
}

/* Not measured: that the buffer is memory of the card, and when it is taken. */
CUresult sim_limit_printf(struct sim_context *context)
{
    uint64_t bytes = context->limits[CU_LIMIT_PRINTF_FIFO_SIZE];
    if (context->printf_bytes || !bytes)
        return CUDA_SUCCESS;
    bytes = sim_round_up(bytes, sim_settings.profile->big_round);
    if (!take(context, bytes))
        return CUDA_ERROR_SHARED_OBJECT_INIT_FAILED;
    context->printf_bytes = bytes;
    return CUDA_SUCCESS;
}

/* The manual: reserved at the call, which answers 2 where the card has no room. How much is not
 * measured. */
static CUresult set_pending(struct sim_context *context, uint64_t count)
{
    uint64_t wanted = 0;
    if (count > PENDING_DEFAULT)
        wanted =
            sim_round_up((count - PENDING_DEFAULT) * sim_settings.profile->pending_launch_bytes,
                         sim_settings.profile->big_round);
    if (wanted > context->pending_launch_bytes) {
        if (!take(context, wanted - context->pending_launch_bytes))
            return CUDA_ERROR_OUT_OF_MEMORY;
    } else {
        const uint64_t less = context->pending_launch_bytes - wanted;
        sim_card_give(context->card, SIM_USE_LIMIT, less);
        context->limit_bytes -= less;
    }
    context->pending_launch_bytes = wanted;
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
        return sim_local_limit(context, *value);
    case CU_LIMIT_PRINTF_FIFO_SIZE:
        return context->printf_bytes ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
    case CU_LIMIT_MALLOC_HEAP_SIZE:
        return context->heap_bytes ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
    case CU_LIMIT_DEV_RUNTIME_SYNC_DEPTH:
        /* The manual: only below 9.0. What a level takes there nobody measured. */
        if (sim_settings.profile->compute_major >= 9)
            return CUDA_ERROR_UNSUPPORTED_LIMIT;
        return *value > 24 ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
    case CU_LIMIT_DEV_RUNTIME_PENDING_LAUNCH_COUNT:
        return *value > UINT32_MAX ? CUDA_ERROR_INVALID_VALUE : set_pending(context, *value);
    case CU_LIMIT_MAX_L2_FETCH_GRANULARITY:
        *value = *value > 128 ? 128 : *value;
        return CUDA_SUCCESS;
    case CU_LIMIT_PERSISTING_L2_CACHE_SIZE: /* a part of the cache, no memory */
    case CU_LIMIT_CIG_SHMEM_FALLBACK_ENABLED:
        return CUDA_SUCCESS;
    default: /* those that can only be asked for, and those that there are not */
        return CUDA_ERROR_UNSUPPORTED_LIMIT;
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

/* The stack limit is what was set; the bytes that a launch has grown local memory to do not
 * show here (not measured). */
CUresult cuCtxGetLimit(size_t *pvalue, CUlimit limit)
{
    SIM_ENTER(cuCtxGetLimit, W(pvalue), W(limit));
    SIM_CURRENT(context);
    if (!pvalue)
        return CUDA_ERROR_INVALID_VALUE;
    if (limit >= CU_LIMIT_MAX)
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
