/* Memory pools: reuse in stream order, growth in steps, what goes back when. */
#include "sim.h"

static struct sim_pool *pools;

struct sim_pool *sim_pools(void)
{
    return pools;
}

struct sim_pool *sim_pool_new(struct sim_card *card, const CUmemPoolProps *props)
{
    const struct sim_profile *profile = sim_settings.profile;
    struct sim_pool *pool = sim_new(sizeof(*pool));
    pool->props = *props;
    pool->heap.kind = SIM_RANGE_POOL;
    pool->heap.use = SIM_USE_POOL;
    pool->heap.card = card;
    pool->heap.step = profile->pool_step;
    pool->heap.align = profile->block_align;
    pool->heap.limit = sim_round_up(props->maxSize, profile->pool_step);
    pool->heap.window = true;
    pool->heap.owner = pool;
    pool->reuse_event = pool->reuse_opportunistic = pool->reuse_internal = 1;
    pool->next = pools;
    pools = pool;
    sim_object_add(pool, SIM_POOL);
    return pool;
}

void sim_pools_begin(void)
{
    for (int i = 0; i < sim_visible_count; i++) {
        struct sim_card *card = sim_card_of(i);
        CUmemPoolProps props = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                                .location = {CU_MEM_LOCATION_TYPE_DEVICE, i}};
        card->default_pool = sim_pool_new(card, &props);
        card->default_pool->is_default = true;
        card->current_pool = card->default_pool;
    }
}

void sim_pools_synced(void)
{
    sim_late_settle();
    for (struct sim_pool *pool = pools, *next; pool; pool = next) {
        next = pool->next;
        if (pool->heap.reserved > pool->threshold)
            sim_heap_trim(&pool->heap, pool->threshold);
        sim_pool_check_end(pool);
    }
}

bool sim_pools_reclaim(struct sim_card *card)
{
    uint64_t before = card->live;
    for (struct sim_pool *pool = pools; pool; pool = pool->next)
        if (pool->heap.card == card)
            sim_heap_trim(&pool->heap, 0);
    return card->live < before;
}

/* A destroyed pool lives on until its last block is free and let go. */
void sim_pool_check_end(struct sim_pool *pool)
{
    struct sim_pool **at = &pools;
    if (!pool->ended)
        return;
    if (pool->heap.ranges)
        return;
    while (*at != pool)
        at = &(*at)->next;
    *at = pool->next;
    sim_shares_no_exporter(&pool->heap);
    free(pool);
}

void sim_pool_end(struct sim_pool *pool)
{
    if (pool->heap.card && pool->heap.card->current_pool == pool)
        pool->heap.card->current_pool = pool->heap.card->default_pool;
    sim_object_remove(pool);
    pool->ended = true;
    pool->threshold = 0;
    sim_shares_end(pool);
    sim_heap_trim(&pool->heap, 0);
    sim_pool_check_end(pool);
}

static void pending_add(struct sim_stream *stream, struct sim_block *block)
{
    block->bin_next = NULL;
    block->bin_prev = stream->pending_last;
    if (stream->pending_last)
        stream->pending_last->bin_next = block;
    else
        stream->pending_first = block;
    stream->pending_last = block;
}

void sim_pending_take(struct sim_block *block)
{
    struct sim_stream *stream = block->stream;
    if (block->bin_prev)
        block->bin_prev->bin_next = block->bin_next;
    else
        stream->pending_first = block->bin_next;
    if (block->bin_next)
        block->bin_next->bin_prev = block->bin_prev;
    else
        stream->pending_last = block->bin_prev;
    block->stream = NULL;
    if (block->range->card)
        block->range->card->pending -= block->size;
}

/* A pending block whose free has run. */
void sim_pending_settle(struct sim_block *block)
{
    struct sim_mark mark = {.clock = block->stream->clock, .ticket = block->ticket};
    sim_pending_take(block);
    sim_heap_return(block->range->heap, block, &mark);
}

static bool pending_beside(struct sim_block *block, struct sim_stream *stream, bool from_end)
{
    if (!block)
        return false;
    if (block->state == SIM_BLOCK_PENDING && block->stream == stream) {
        sim_pending_take(block);
        return true;
    }
    return sim_heap_regain(block->range->heap, block, stream->clock, from_end);
}

/* Neighbours that one stream has freed, and the host has not synchronised with, are one piece,
 * which comes with the last of their frees. */
static struct sim_block *pending_join(struct sim_block *block, struct sim_stream *stream)
{
    if (pending_beside(block->after, stream, false))
        sim_block_join(block);
    if (pending_beside(block->before, stream, true)) {
        block = block->before;
        sim_block_join(block);
    }
    return block;
}

/* Without a stream (cuMemFree) the memory goes back, but the pool still counts it as used: its
 * USED was seen above its RESERVED then. That it never comes down again is a guess. */
void sim_pool_free(struct sim_block *block, struct sim_stream *stream)
{
    struct sim_heap *heap = block->range->heap;
    sim_block_gone(block);
    if (stream)
        heap->used -= block->asked;
    if (heap->card)
        heap->card->used_by_pools -= block->asked;
    if (stream)
        sim_queue_mark(stream);
    if (!stream || sim_stream_idle(stream)) {
        struct sim_mark mark = {.clock = stream ? stream->clock : NULL,
                                .ticket = stream ? stream->asked : 0};
        sim_heap_return(heap, block, stream ? &mark : NULL);
        return;
    }
    block = pending_join(block, stream);
    block->state = SIM_BLOCK_PENDING;
    block->context = NULL;
    block->stream = stream;
    block->ticket = stream->asked;
    if (heap->card)
        heap->card->pending += block->size;
    pending_add(stream, block);
}

/* Uses `size` bytes of a block that is pending on `from`; the rest stays pending there. */
static struct sim_block *pending_use(struct sim_block *block, uint64_t size)
{
    if (block->size > size) {
        struct sim_block *rest = sim_block_split(block, size);
        rest->bin_prev = block;
        rest->bin_next = block->bin_next;
        if (rest->bin_next)
            rest->bin_next->bin_prev = rest;
        else
            block->stream->pending_last = rest;
        block->bin_next = rest;
    }
    sim_pending_take(block);
    return block;
}

/* Of two that are large enough the smaller one. */
static struct sim_block *better(struct sim_block *best, struct sim_block *block)
{
    return best && best->size <= block->size ? best : block;
}

#define FIT_TRIES 4096

static struct sim_block *pending_of_stream(struct sim_heap *heap, struct sim_stream *stream,
                                           uint64_t size)
{
    struct sim_block *best = NULL;
    unsigned tries = 0;
    for (struct sim_block *block = stream->pending_last;
         block && (!best || ++tries < FIT_TRIES); block = block->bin_prev) {
        if (block->range->heap == heap && block->size >= size)
            best = better(best, block);
        if (best && best->size == size)
            break;
    }
    return best ? pending_use(best, size) : NULL;
}

/* Blocks pending on a stream whose events `stream` has waited for. */
static struct sim_block *pending_seen(struct sim_heap *heap, struct sim_stream *stream,
                                      uint64_t size)
{
    struct sim_block *best = NULL;
    for (struct sim_context *context = sim_contexts(); context; context = context->next)
        for (struct sim_stream *from = context->streams; from; from = from->next)
            for (struct sim_block *block = from->pending_first; block; block = block->bin_next)
                if (block->range->heap == heap && block->size >= size &&
                    sim_stream_has_seen(stream, from, block->ticket))
                    best = better(best, block);
    return best ? pending_use(best, size) : NULL;
}

/* A run of neighbours none of which is live: the stream waits for those that are pending, and
 * they become one free block. */
static bool pending_with_wait(struct sim_heap *heap, struct sim_stream *stream, uint64_t size)
{
    for (struct sim_range *range = heap->ranges; range; range = range->next) {
        struct sim_block *start = NULL;
        uint64_t run = 0;
        for (struct sim_block *block = range->first; block; block = block->after) {
            if (block->state == SIM_BLOCK_LIVE || block->state == SIM_BLOCK_HOLE) {
                start = NULL;
                run = 0;
                continue;
            }
            if (!start)
                start = block;
            run += block->size;
            if (run < size)
                continue;
            for (struct sim_block *one = start; one && run;) {
                struct sim_block *next = one->after;
                uint64_t bytes = one->size;
                if (one->state == SIM_BLOCK_PENDING) {
                    struct sim_mark mark = {.clock = one->stream->clock, .ticket = one->ticket};
                    sim_queue_wait(stream, one->stream, one->ticket);
                    sim_pending_take(one);
                    /* The neighbour may be merged into this one: go on behind it. */
                    if (next && next->state == SIM_BLOCK_FREE) {
                        bytes += next->size;
                        next = next->after;
                    }
                    sim_heap_return(heap, one, &mark);
                }
                run -= bytes < run ? bytes : run;
                one = next;
            }
            return true;
        }
    }
    return false;
}

CUresult sim_pool_alloc(struct sim_pool *pool, uint64_t bytes, struct sim_stream *stream,
                        CUdeviceptr *address)
{
    struct sim_heap *heap = &pool->heap;
    uint64_t size;
    struct sim_block *block;
    if (bytes > (uint64_t)1 << 60)
        return CUDA_ERROR_OUT_OF_MEMORY;
    size = sim_round_up(bytes, heap->align);
    /* What the stream itself has freed comes first, even in pieces, before idle memory. */
    block = pending_of_stream(heap, stream, size);
    if (!block)
        block = sim_heap_take(heap, size);
    if (!block && pool->reuse_event)
        block = pending_seen(heap, stream, size);
    if (!block) {
        CUresult code = sim_heap_grow(heap, size);
        if (code && heap->card && sim_pools_reclaim(heap->card))
            code = sim_heap_grow(heap, size);
        if (code && !(pool->reuse_internal && pending_with_wait(heap, stream, size)))
            return code;
        block = sim_heap_take(heap, size);
        if (!block)
            return CUDA_ERROR_OUT_OF_MEMORY;
    }
    block->asked = bytes;
    sim_block_live(block);
    heap->used += bytes; /* not as rounded */
    if (heap->used > heap->used_high)
        heap->used_high = heap->used;
    if (heap->card)
        heap->card->used_by_pools += bytes;
    *address = block->base;
    sim_queue_mark(stream);
    return CUDA_SUCCESS;
}
