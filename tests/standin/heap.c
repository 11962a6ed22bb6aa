/* Suballocation: ranges cut into blocks, as the driver does for small direct blocks and for
 * pools. Free blocks lie in bins by size (four to a power of two); neighbours are merged at
 * once, so a take or a return costs the same with ten blocks as with ten thousand. */
#include "sim.h"

/* How many free blocks of the fitting bin are tried before the next bin's first one is. */
#define TRIES 256
/* Addresses for the one range of a pool; a pool that outgrows them gets another range. */
#define WINDOW (64 * SIM_GIB)

static unsigned bin_of(uint64_t size)
{
    unsigned log = 63 - (unsigned)__builtin_clzll(size | 4);
    return log * 4 + (unsigned)((size >> (log - 2)) & 3);
}

static void bin_add(struct sim_heap *heap, struct sim_block *block)
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

void sim_clock_drop(struct sim_clock *clock)
{
    if (--clock->references == 0)
        free(clock);
}

bool sim_mark_met(const struct sim_mark *mark)
{
    return mark->clock->synced >= mark->ticket;
}

/* Marks of one stream that touch become one, so a block freed piece by piece has few. */
static void mark_add(struct sim_block *block, const struct sim_mark *mark)
{
    for (unsigned i = 0; i < block->mark_count; i++) {
        struct sim_mark *old = &block->marks[i];
        if (old->clock != mark->clock || old->to < mark->from || mark->to < old->from)
            continue;
        if (old->ticket < mark->ticket)
            old->ticket = mark->ticket;
        if (old->from > mark->from)
            old->from = mark->from;
        if (old->to < mark->to)
            old->to = mark->to;
        return;
    }
    mark->clock->references++;
    block->marks[block->mark_count++] = *mark;
}

static void marks_clear(struct sim_block *block, bool only_met)
{
    for (unsigned i = 0; i < block->mark_count;) {
        if (only_met && !sim_mark_met(&block->marks[i])) {
            i++;
            continue;
        }
        sim_clock_drop(block->marks[i].clock);
        block->marks[i] = block->marks[--block->mark_count];
    }
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
    for (unsigned i = 0; i < block->mark_count;) {
        struct sim_mark *mark = &block->marks[i];
        struct sim_mark part = *mark;
        if (part.to > rest->base) {
            part.from = part.from > rest->base ? part.from : rest->base;
            mark_add(rest, &part);
            mark->to = rest->base;
        }
        if (mark->from < rest->base) {
            i++;
            continue;
        }
        sim_clock_drop(mark->clock);
        *mark = block->marks[--block->mark_count];
    }
    rest->before = block;
    rest->after = block->after;
    if (rest->after)
        rest->after->before = rest;
    else
        block->range->last = rest;
    block->after = rest;
    block->size = size;
    return rest;
}

void sim_block_join(struct sim_block *block)
{
    struct sim_block *gone = block->after;
    for (unsigned i = 0; i < gone->mark_count; i++)
        mark_add(block, &gone->marks[i]);
    marks_clear(gone, false);
    block->size += gone->size;
    block->after = gone->after;
    if (block->after)
        block->after->before = block;
    else
        block->range->last = block;
    free(gone);
}

/* Two free neighbours stay apart if they wait for too many streams together. */
static bool can_join(struct sim_block *block, struct sim_block *other)
{
    if (!other || other->state != SIM_BLOCK_FREE)
        return false;
    marks_clear(block, true);
    marks_clear(other, true);
    if (block->mark_count + other->mark_count <= SIM_MARKS)
        return true;
    block->range->heap->apart = true;
    return false;
}

struct sim_block *sim_heap_take(struct sim_heap *heap, uint64_t size)
{
    struct sim_block *block = bin_search(heap, size);
    if (!block)
        return NULL;
    bin_remove(heap, block);
    if (block->size > size)
        bin_add(heap, sim_block_split(block, size));
    marks_clear(block, false);
    block->range->unfree += size;
    block->stream = NULL;
    return block;
}

static void range_release(struct sim_heap *heap, struct sim_range *range)
{
    if (range->prev)
        range->prev->next = range->next;
    else
        heap->ranges = range->next;
    if (range->next)
        range->next->prev = range->prev;
    sim_range_drop(range);
}

static bool backing_take(struct sim_heap *heap, uint64_t bytes)
{
    if (heap->limit && (bytes > heap->limit || heap->reserved > heap->limit - bytes))
        return false;
    if (heap->card && !sim_card_take(heap->card, heap->use, bytes))
        return false;
    heap->reserved += bytes;
    if (heap->reserved > heap->reserved_high)
        heap->reserved_high = heap->reserved;
    return true;
}

static void backing_give(struct sim_heap *heap, uint64_t bytes)
{
    heap->reserved -= bytes;
    if (heap->card)
        sim_card_give(heap->card, heap->use, bytes);
}

/* A free block of `bytes` at the end of the range. */
static void append(struct sim_heap *heap, struct sim_range *range, uint64_t bytes)
{
    struct sim_block *block = sim_new(sizeof(*block));
    block->range = range;
    block->base = range->base;
    block->size = bytes;
    if (range->last) {
        block->base = range->last->base + range->last->size;
        block->before = range->last;
        range->last->after = block;
    } else {
        range->first = block;
    }
    range->last = block;
    range->backed += bytes;
    bin_add(heap, block);
}

/* A pool grows by what its last free block lacks. */
static uint64_t lacking(const struct sim_heap *heap, const struct sim_range *range,
                        uint64_t size)
{
    const struct sim_block *tail = range->last;
    uint64_t idle = tail->state == SIM_BLOCK_FREE ? tail->size : 0;

    return sim_round_up(size - (idle < size ? idle : 0), heap->step);
}

static bool grow_window(struct sim_heap *heap, struct sim_range *range, uint64_t size)
{
    struct sim_block *tail = range->last;
    uint64_t idle = tail->state == SIM_BLOCK_FREE ? tail->size : 0;
    uint64_t bytes = lacking(heap, range, size);
    uint64_t room = WINDOW - range->size;
    if (bytes > room)
        return false;
    if (!backing_take(heap, bytes))
        return false;
    range->size += bytes;
    if (idle) {
        bin_remove(heap, tail);
        tail->size += bytes;
        range->backed += bytes;
        bin_add(heap, tail);
    } else {
        append(heap, range, bytes);
    }
    return true;
}

CUresult sim_heap_grow(struct sim_heap *heap, uint64_t size)
{
    uint64_t bytes = sim_round_up(size, heap->step), moves;
    struct sim_range *range = heap->ranges;
    /* The memory of idle whole steps moves to where the new block will lie. */
    if (heap->window && range) {
        moves = lacking(heap, range, size);
        sim_heap_trim(heap, heap->reserved > moves ? heap->reserved - moves : 0);
        range = heap->ranges;
    }
    if (heap->window && range && WINDOW - range->size >= bytes)
        return grow_window(heap, range, size) ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
    if (!backing_take(heap, bytes))
        return CUDA_ERROR_OUT_OF_MEMORY;
    range = sim_range_new(heap->kind, heap->card, 0,
                          heap->window && bytes < WINDOW ? WINDOW : bytes, heap->low);
    if (!range) {
        backing_give(heap, bytes);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    range->size = bytes;
    range->heap = heap;
    range->next = heap->ranges;
    if (range->next)
        range->next->prev = range;
    heap->ranges = range;
    append(heap, range, bytes);
    return CUDA_SUCCESS;
}

bool sim_heap_regain(struct sim_heap *heap, struct sim_block *block,
                     const struct sim_clock *clock, bool from_end)
{
    uint64_t edge = from_end ? block->base + block->size : block->base, size = 0;

    if (block->state != SIM_BLOCK_FREE)
        return false;
    for (unsigned i = 0; i < block->mark_count; i++) {
        const struct sim_mark *mark = &block->marks[i];

        if (mark->clock == clock && !sim_mark_met(mark) &&
            (from_end ? mark->to : mark->from) == edge)
            size = mark->to - mark->from;
    }
    if (size == 0)
        return false;
    bin_remove(heap, block);
    if (from_end && block->size > size) {
        struct sim_block *part = sim_block_split(block, block->size - size);

        bin_add(heap, block);
        block = part;
    } else if (block->size > size) {
        bin_add(heap, sim_block_split(block, size));
    }
    marks_clear(block, false);
    block->range->unfree += size;
    return true;
}

void sim_heap_return(struct sim_heap *heap, struct sim_block *block,
                     const struct sim_mark *mark)
{
    struct sim_range *range = block->range;
    range->unfree -= block->size;
    block->state = SIM_BLOCK_FREE;
    block->context = NULL;
    if (mark && !sim_mark_met(mark)) {
        struct sim_mark own = *mark;
        own.from = block->base;
        own.to = block->base + block->size;
        mark_add(block, &own);
    }
    if (can_join(block, block->after)) {
        bin_remove(heap, block->after);
        sim_block_join(block);
    }
    if (can_join(block, block->before)) {
        block = block->before;
        bin_remove(heap, block);
        sim_block_join(block);
    }
    bin_add(heap, block);
    if (!heap->window && range->unfree == 0) {
        bin_remove(heap, block);
        backing_give(heap, range->size);
        range_release(heap, range);
    }
}

/* The last run of whole steps of a free block that no mark touches; addresses in the range. */
static bool run_of_steps(const struct sim_heap *heap, const struct sim_block *block,
                         uint64_t *from, uint64_t *to)
{
    uint64_t start = block->base - block->range->base;
    uint64_t end = start + block->size;
    while (end > start) {
        uint64_t floor = start, limit = end;
        for (unsigned i = 0; i < block->mark_count; i++) {
            uint64_t mark_from = block->marks[i].from - block->range->base;
            uint64_t mark_to = block->marks[i].to - block->range->base;
            if (mark_from >= limit)
                continue;
            if (mark_to >= limit)
                limit = mark_from;
            else if (mark_to > floor)
                floor = mark_to;
        }
        *from = sim_round_up(floor, heap->step);
        *to = limit / heap->step * heap->step;
        if (limit == end && *to > *from)
            return true;
        end = limit == end ? floor : limit;
    }
    return false;
}

/* Whole steps of a free block become a hole; at most `most` of them. False: there are none. */
static bool block_trim(struct sim_heap *heap, struct sim_block *block, uint64_t most)
{
    struct sim_range *range = block->range;
    uint64_t from, to;
    if (most == 0 || !run_of_steps(heap, block, &from, &to))
        return false;
    if ((to - from) / heap->step > most)
        from = to - most * heap->step;
    bin_remove(heap, block);
    if (range->base + from > block->base) {
        struct sim_block *rest = sim_block_split(block, range->base + from - block->base);
        bin_add(heap, block);
        block = rest;
    }
    if (block->size > to - from)
        bin_add(heap, sim_block_split(block, to - from));
    block->state = SIM_BLOCK_HOLE;
    backing_give(heap, to - from);
    if (heap->kind == SIM_RANGE_POOL)
        sim_shares_keep(heap, range->base + from, range->base + to);
    range->backed -= to - from;
    if (block->after && block->after->state == SIM_BLOCK_HOLE)
        sim_block_join(block);
    if (block->before && block->before->state == SIM_BLOCK_HOLE) {
        block = block->before;
        sim_block_join(block);
    }
    if (range->backed == 0) {
        range_release(heap, range);
    } else if (!block->after) {
        /* The end of the range: the addresses are free again as well. */
        range->last = block->before;
        range->last->after = NULL;
        range->size -= block->size;
        free(block);
    }
    return true;
}

/* Neighbours that had to stay apart when they were freed. */
static void join_all(struct sim_heap *heap)
{
    heap->apart = false;
    for (struct sim_range *range = heap->ranges; range; range = range->next)
        for (struct sim_block *block = range->first; block; block = block->after)
            while (block->state == SIM_BLOCK_FREE && can_join(block, block->after)) {
                bin_remove(heap, block->after);
                bin_remove(heap, block);
                sim_block_join(block);
                bin_add(heap, block);
            }
}

static bool trim_once(struct sim_heap *heap, uint64_t keep)
{
    bool some = false;
    for (unsigned bin = bin_of(heap->step); bin < SIM_BINS; bin++)
        for (struct sim_block *block = heap->bins[bin], *next; block; block = next) {
            next = block->bin_next;
            if (heap->reserved <= keep)
                return false;
            marks_clear(block, true);
            if (block_trim(heap, block, (heap->reserved - keep) / heap->step))
                some = true;
        }
    return some;
}

void sim_heap_trim(struct sim_heap *heap, uint64_t keep)
{
    if (heap->apart && heap->reserved > keep)
        join_all(heap);
    while (trim_once(heap, keep))
        ;
}

/* Everything goes, live blocks too. */
void sim_heap_end(struct sim_heap *heap)
{
    while (heap->ranges) {
        struct sim_range *range = heap->ranges;
        heap->ranges = range->next;
        for (struct sim_block *block = range->first; block; block = block->after)
            marks_clear(block, false);
        backing_give(heap, range->backed);
        sim_range_drop(range);
    }
    memset(heap->bins, 0, sizeof(heap->bins));
    memset(heap->bin_bits, 0, sizeof(heap->bin_bits));
}
