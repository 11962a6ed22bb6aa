/* Suballocation: ranges cut into blocks, as the driver does for small direct blocks and for pools.
 * Free blocks lie in bins by size (four to a power of two); neighbours are merged at once, so a
 * take or a return costs the same with ten blocks as with ten thousand. */
#include "sim.h"

#include <stdlib.h>

/* How many free blocks of the fitting bin are tried before the next bin's first one is. */
#define TRIES 256

static unsigned bin_of(uint64_t size)
{
    unsigned log = 63 - (unsigned)__builtin_clzll(size | 4);
    return log * 4 + (unsigned)((size >> (log - 2)) & 3);
}

void sim_bin_add(struct sim_heap *heap, struct sim_block *block)
{
    unsigned bin = bin_of(block->size);
    block->bin_prev = NULL;
    block->bin_next = heap->bins[bin];
    if (block->bin_next)
        block->bin_next->bin_prev = block;
    heap->bins[bin] = block;
    heap->bin_bits[bin / 64] |= (uint64_t)1 << (bin % 64);
}

static void bin_remove(struct sim_heap *heap, struct sim_block *block)
{
    unsigned bin = bin_of(block->size);
    if (block->bin_prev)
        block->bin_prev->bin_next = block->bin_next;
    else
        heap->bins[bin] = block->bin_next;
    if (block->bin_next)
        block->bin_next->bin_prev = block->bin_prev;
    if (!heap->bins[bin])
        heap->bin_bits[bin / 64] &= ~((uint64_t)1 << (bin % 64));
}

static struct sim_block *bin_search(struct sim_heap *heap, uint64_t size)
{
    unsigned bin = bin_of(size);
    struct sim_block *block = heap->bins[bin];
    for (unsigned tries = 0; block && tries < TRIES; tries++, block = block->bin_next)
        if (block->size >= size)
            return block;
    for (bin++; bin < SIM_BINS; bin = (bin / 64 + 1) * 64) {
        uint64_t bits = heap->bin_bits[bin / 64] >> (bin % 64);
        if (bits)
            return heap->bins[bin + (unsigned)__builtin_ctzll(bits)];
    }
    return NULL;
}

/* Cuts `block` down to size; the rest follows it, in the same state, in no list. */
struct sim_block *sim_block_split(struct sim_block *block, uint64_t size)
{
    struct sim_block *rest = sim_new(sizeof(*rest));
    rest->base = block->base + size;
    rest->size = block->size - size;
    rest->state = block->state;
    rest->range = block->range;
    rest->stream = block->stream;
    rest->ticket = block->ticket;
    rest->before = block;
    rest->after = block->after;
    if (rest->after)
        rest->after->before = rest;
    block->after = rest;
    block->size = size;
    return rest;
}

static void idle_add(struct sim_heap *heap, struct sim_range *range)
{
    range->idle_prev = NULL;
    range->idle_next = heap->idle;
    if (heap->idle)
        heap->idle->idle_prev = range;
    heap->idle = range;
}

static void idle_remove(struct sim_heap *heap, struct sim_range *range)
{
    if (range->idle_prev)
        range->idle_prev->idle_next = range->idle_next;
    else
        heap->idle = range->idle_next;
    if (range->idle_next)
        range->idle_next->idle_prev = range->idle_prev;
}

struct sim_block *sim_heap_take(struct sim_heap *heap, uint64_t size)
{
    struct sim_block *block = bin_search(heap, size);
    if (!block)
        return NULL;
    bin_remove(heap, block);
    if (block->range->unfree == 0)
        idle_remove(heap, block->range);
    if (block->size > size)
        sim_bin_add(heap, sim_block_split(block, size));
    block->range->unfree += size;
    block->stream = NULL;
    return block;
}

static void range_release(struct sim_heap *heap, struct sim_range *range)
{
    bin_remove(heap, range->first);
    idle_remove(heap, range);
    if (range->prev)
        range->prev->next = range->next;
    else
        heap->ranges = range->next;
    if (range->next)
        range->next->prev = range->prev;
    heap->reserved -= range->size;
    if (range->card)
        sim_card_give(range->card, heap->use, range->size);
    sim_range_drop(range);
}

CUresult sim_heap_grow(struct sim_heap *heap, uint64_t size)
{
    uint64_t bytes = sim_round_up(size, heap->step);
    struct sim_range *range;
    struct sim_block *block;
    if (heap->limit && (bytes > heap->limit || heap->reserved > heap->limit - bytes))
        return CUDA_ERROR_OUT_OF_MEMORY;
    if (heap->card && !sim_card_take(heap->card, heap->use, bytes))
        return CUDA_ERROR_OUT_OF_MEMORY;
    range = sim_range_new(heap->kind, heap->card, 0, bytes, heap->low);
    if (!range) {
        if (heap->card)
            sim_card_give(heap->card, heap->use, bytes);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    range->heap = heap;
    range->next = heap->ranges;
    if (range->next)
        range->next->prev = range;
    heap->ranges = range;
    block = sim_new(sizeof(*block));
    block->base = range->base;
    block->size = bytes;
    block->range = range;
    range->first = block;
    sim_bin_add(heap, block);
    idle_add(heap, range);
    heap->reserved += bytes;
    if (heap->reserved > heap->reserved_high)
        heap->reserved_high = heap->reserved;
    return CUDA_SUCCESS;
}

void sim_heap_return(struct sim_heap *heap, struct sim_block *block)
{
    struct sim_range *range = block->range;
    struct sim_block *other;
    range->unfree -= block->size;
    block->state = SIM_BLOCK_FREE;
    block->context = NULL;
    other = block->after;
    if (other && other->state == SIM_BLOCK_FREE) {
        bin_remove(heap, other);
        block->size += other->size;
        block->after = other->after;
        if (block->after)
            block->after->before = block;
        free(other);
    }
    other = block->before;
    if (other && other->state == SIM_BLOCK_FREE) {
        bin_remove(heap, other);
        other->size += block->size;
        other->after = block->after;
        if (other->after)
            other->after->before = other;
        free(block);
        block = other;
    }
    sim_bin_add(heap, block);
    if (range->unfree == 0) {
        idle_add(heap, range);
        if (!heap->keep)
            range_release(heap, range);
    }
}

void sim_heap_trim(struct sim_heap *heap, uint64_t keep)
{
    struct sim_range *range = heap->idle;
    while (range && heap->reserved > keep) {
        struct sim_range *next = range->idle_next;
        if (heap->reserved - range->size >= keep)
            range_release(heap, range);
        range = next;
    }
}

/* Everything goes, live blocks too. */
void sim_heap_end(struct sim_heap *heap)
{
    while (heap->ranges) {
        struct sim_range *range = heap->ranges;
        heap->ranges = range->next;
        heap->reserved -= range->size;
        if (range->card)
            sim_card_give(range->card, heap->use, range->size);
        sim_range_drop(range);
    }
    heap->idle = NULL;
    for (unsigned i = 0; i < SIM_BINS; i++)
        heap->bins[i] = NULL;
    for (unsigned i = 0; i < SIM_BINS / 64; i++)
        heap->bin_bits[i] = 0;
}
