/* cuMemAlloc and its relatives: small blocks share 2 MiB regions, large ones have their own. */
#include "sim.h"

CUresult sim_direct_alloc(struct sim_context *context, uint64_t bytes, bool low,
                          uint64_t *address)
{
    const struct sim_profile *profile = sim_settings.profile;
    struct sim_block *block;
    uint64_t size;
    if (bytes == 0)
        return CUDA_ERROR_INVALID_VALUE;
    if (bytes <= profile->small_limit) {
        struct sim_heap *heap = low ? &context->direct_low : &context->direct;
        size = sim_round_up(bytes, heap->align);
        block = sim_heap_take(heap, size);
        if (!block) {
            CUresult code = sim_heap_grow(heap, size);
            if (code && sim_pools_reclaim(context->card))
                code = sim_heap_grow(heap, size);
            if (code)
                return code;
            block = sim_heap_take(heap, size);
        }
        sim_block_live(block);
    } else {
        if (bytes > context->card->total)
            return CUDA_ERROR_OUT_OF_MEMORY;
        size = sim_round_up(bytes, profile->big_round);
        if (!sim_card_take(context->card, SIM_USE_DIRECT, size) &&
            !(sim_pools_reclaim(context->card) &&
              sim_card_take(context->card, SIM_USE_DIRECT, size)))
            return CUDA_ERROR_OUT_OF_MEMORY;
        block = sim_range_single(SIM_RANGE_DIRECT, context->card, 0, size, bytes, low);
        if (!block) {
            sim_card_give(context->card, SIM_USE_DIRECT, size);
            return CUDA_ERROR_OUT_OF_MEMORY;
        }
    }
    block->asked = bytes;
    block->context = context;
    *address = block->base;
    return CUDA_SUCCESS;
}

void sim_direct_end(struct sim_context *context)
{
    size_t count;
    struct sim_range **ranges = sim_ranges(&count);
    sim_arrays_end(context);
    sim_heap_end(&context->direct);
    sim_heap_end(&context->direct_low);
    ranges = sim_ranges(&count);
    for (size_t i = count; i-- > 0;) {
        struct sim_range *range = ranges[i];
        if (range->heap || !range->first || range->first->context != context)
            continue;
        if (range->kind == SIM_RANGE_DIRECT)
            sim_card_give(range->card, SIM_USE_DIRECT, range->size);
        else if (range->kind != SIM_RANGE_IMPORTED)
            continue;
        sim_range_drop(range);
    }
}

static CUresult allocate(CUdeviceptr *dptr, size_t bytesize)
{
    struct sim_context *context;
    uint64_t address;
    CUresult code = sim_current(&context);
    if (code)
        return code;
    if (!dptr)
        return CUDA_ERROR_INVALID_VALUE;
    SIM_UNSAFE();
    *dptr = 0; /* a failure leaves it so */
    code = sim_direct_alloc(context, bytesize, false, &address);
    if (!code)
        *dptr = address;
    return code;
}

CUresult cuMemAlloc_v2(CUdeviceptr *dptr, size_t bytesize)
{
    SIM_ENTER(cuMemAlloc_v2, W(dptr), W(bytesize));
    return allocate(dptr, bytesize);
}

/* What a later driver might add; only the "future" build exports these two. */
CUresult cuMemAlloc_v3(CUdeviceptr *dptr, size_t bytesize, unsigned long long flags);
CUresult cuMemAlloc_v3(CUdeviceptr *dptr, size_t bytesize, unsigned long long flags)
{
    SIM_ENTER(cuMemAlloc_v3, W(dptr), W(bytesize), W(flags));
    return allocate(dptr, bytesize);
}

CUresult cuMemBrandNew(int *answer);
CUresult cuMemBrandNew(int *answer)
{
    SIM_ENTER(cuMemBrandNew, W(answer));
    if (!answer)
        return CUDA_ERROR_INVALID_VALUE;
    *answer = 42;
    return CUDA_SUCCESS;
}

/* The 32-bit forms work in contexts of their own time only, with addresses below 4 GiB;
 * elsewhere they clear what they should have filled and refuse. */
static bool of_first_form(const struct sim_context *context)
{
    return context->version < 3020;
}

CUresult cuMemAlloc(CUdeviceptr_v1 *dptr, unsigned int bytesize)
{
    SIM_ENTER(cuMemAlloc, W(dptr), W(bytesize));
    SIM_CURRENT(context);
    uint64_t address;
    CUresult code;
    if (!dptr)
        return CUDA_ERROR_INVALID_VALUE;
    SIM_UNSAFE();
    *dptr = 0;
    if (!of_first_form(context))
        return CUDA_ERROR_INVALID_CONTEXT;
    code = sim_direct_alloc(context, bytesize, true, &address);
    if (!code)
        *dptr = (CUdeviceptr_v1)address;
    return code;
}

static CUresult allocate_pitch(uint64_t *address, uint64_t *pitch, uint64_t width,
                               uint64_t height, unsigned element, bool low)
{
    struct sim_context *context;
    CUresult code = sim_current(&context);
    uint64_t row;
    if (code)
        return code;
    SIM_UNSAFE();
    *address = *pitch = 0;
    if (low && !of_first_form(context))
        return CUDA_ERROR_INVALID_CONTEXT;
    if (!width || !height || (element != 4 && element != 8 && element != 16))
        return CUDA_ERROR_INVALID_VALUE;
    row = sim_round_up(width, sim_settings.profile->pitch_align);
    if (width > context->card->total || height > context->card->total / row)
        return CUDA_ERROR_OUT_OF_MEMORY;
    code = sim_direct_alloc(context, row * height, low, address);
    if (!code)
        *pitch = row;
    return code;
}

CUresult cuMemAllocPitch_v2(CUdeviceptr *dptr, size_t *pPitch, size_t WidthInBytes,
                            size_t Height, unsigned int ElementSizeBytes)
{
    SIM_ENTER(cuMemAllocPitch_v2, W(dptr), W(pPitch), W(WidthInBytes), W(Height),
              W(ElementSizeBytes));
    uint64_t address, pitch;
    CUresult code;
    if (!dptr || !pPitch)
        return CUDA_ERROR_INVALID_VALUE;
    address = *dptr;
    pitch = *pPitch;
    code = allocate_pitch(&address, &pitch, WidthInBytes, Height, ElementSizeBytes, false);
    *dptr = address;
    *pPitch = pitch;
    return code;
}

CUresult cuMemAllocPitch(CUdeviceptr_v1 *dptr, unsigned int *pPitch, unsigned int WidthInBytes,
                         unsigned int Height, unsigned int ElementSizeBytes)
{
    SIM_ENTER(cuMemAllocPitch, W(dptr), W(pPitch), W(WidthInBytes), W(Height),
              W(ElementSizeBytes));
    uint64_t address, pitch;
    CUresult code;
    if (!dptr || !pPitch)
        return CUDA_ERROR_INVALID_VALUE;
    address = *dptr;
    pitch = *pPitch;
    code = allocate_pitch(&address, &pitch, WidthInBytes, Height, ElementSizeBytes, true);
    *dptr = (CUdeviceptr_v1)address;
    *pPitch = (unsigned)pitch;
    return code;
}

CUresult sim_block_free(struct sim_block *block)
{
    struct sim_range *range = block->range;
    switch (range->kind) {
    case SIM_RANGE_DIRECT:
        if (range->heap) {
            sim_block_gone(block);
            sim_heap_return(range->heap, block, NULL);
            return CUDA_SUCCESS;
        }
        sim_card_give(range->card, SIM_USE_DIRECT, range->size);
        sim_range_drop(range);
        return CUDA_SUCCESS;
    case SIM_RANGE_POOL: {
        struct sim_pool *pool = range->heap->owner;
        sim_pool_free(block, NULL);
        /* Idle memory above the threshold goes at once. */
        if (pool->heap.reserved > pool->threshold)
            sim_heap_trim(&pool->heap, pool->threshold);
        sim_pool_check_end(pool);
        return CUDA_SUCCESS;
    }
    case SIM_RANGE_MANAGED:
        sim_managed_free(range);
        return CUDA_SUCCESS;
    case SIM_RANGE_IMPORTED:
        sim_range_drop(range);
        return CUDA_SUCCESS;
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
}

/* The address says whose it is: no context need be current, only no ended one. The free of a
 * direct or managed block waits for the work of its context; what pools wait for is not let go
 * by that. */
static CUresult release(uint64_t address)
{
    struct sim_context *context;
    struct sim_block *block;
    if (!address)
        return CUDA_SUCCESS;
    if (sim_current(&context) == CUDA_ERROR_CONTEXT_IS_DESTROYED)
        return CUDA_ERROR_CONTEXT_IS_DESTROYED;
    SIM_UNSAFE();
    block = sim_block_find(address);
    if (block &&
        (block->range->kind == SIM_RANGE_DIRECT || block->range->kind == SIM_RANGE_MANAGED) &&
        !block->freeing && block->context) {
        uint64_t id = block->buffer_id;
        sim_wait_context(block->context);
        block = sim_block_find(address);
        if (block && block->buffer_id != id)
            block = NULL; /* freed by another thread meanwhile, and the address taken again */
    }
    if (!block) {
        struct sim_graph_memory *memory = sim_graph_memory_find(address);
        if (!memory || !memory->live)
            return CUDA_ERROR_INVALID_VALUE;
        sim_graph_memory_free(memory);
        return CUDA_SUCCESS;
    }
    if (block->freeing)
        return CUDA_ERROR_INVALID_VALUE;
    return sim_block_free(block);
}

CUresult cuMemFree_v2(CUdeviceptr dptr)
{
    SIM_ENTER(cuMemFree_v2, W(dptr));
    return release(dptr);
}

CUresult cuMemFree(CUdeviceptr_v1 dptr)
{
    SIM_ENTER(cuMemFree, W(dptr));
    SIM_CURRENT(context);
    if (!of_first_form(context))
        return CUDA_ERROR_INVALID_CONTEXT;
    return release(dptr);
}

CUresult cuMemGetInfo_v2(size_t *free, size_t *total)
{
    SIM_ENTER(cuMemGetInfo_v2, W(free), W(total));
    SIM_CURRENT(context);
    if (free)
        *free = sim_card_free(context->card);
    if (total)
        *total = context->card->total;
    return CUDA_SUCCESS;
}

CUresult cuMemGetInfo(unsigned int *free, unsigned int *total)
{
    SIM_ENTER(cuMemGetInfo, W(free), W(total));
    SIM_CURRENT(context);
    uint64_t left = sim_card_free(context->card);
    uint64_t all = context->card->total;
    bool able = of_first_form(context);
    if (free)
        *free = !able ? 0 : left > 0xffffffffu ? 0xffffffffu : (unsigned)left;
    if (total)
        *total = !able ? 0 : all > 0xffffffffu ? 0xffffffffu : (unsigned)all;
    return able ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
}
