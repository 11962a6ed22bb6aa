/* Addresses: who has which range, and the live blocks by their first address. */
#include "sim.h"

#include <stdlib.h>
#include <string.h>

#define LOW_BASE ((uint64_t)0x10000000)
#define LOW_END  ((uint64_t)0xf0000000)

struct hole {      /* addresses that were given back, by size, newest first */
    uint64_t size; /* odd: of the low part */
    uint64_t *bases;
    unsigned count, room;
    UT_hash_handle hh;
};

static struct hole *holes;
static uint64_t high_next, low_next = LOW_BASE;
static struct sim_range **ranges;
static size_t range_count, range_room;
static struct sim_block *blocks;
static uint64_t buffer_ids;

static struct hole *hole_of(uint64_t size, bool low, bool make)
{
    uint64_t key = size | low;
    struct hole *hole;
    HASH_FIND(hh, holes, &key, sizeof(key), hole);
    if (!hole && make) {
        hole = sim_new(sizeof(*hole));
        hole->size = key;
        HASH_ADD(hh, holes, size, sizeof(hole->size), hole);
    }
    return hole;
}

/* Sizes are multiples of 2 MiB, so are the addresses. The last range given back of a size is
 * the first taken again: addresses recur at once, as they do with the real driver. */
uint64_t sim_address_take(uint64_t size, bool low)
{
    struct hole *hole = hole_of(size, low, false);
    uint64_t base;
    if (hole && hole->count)
        return hole->bases[--hole->count];
    if (low) {
        if (size > LOW_END - low_next)
            return 0;
        base = low_next;
        low_next += size;
        return base;
    }
    if (!high_next) {
        /* Each copy of the library in a process has its own part of the addresses. */
        uint64_t slot = ((uintptr_t)&high_next >> 12) & 0x3f;
        high_next = ((uint64_t)0x302 << 36) + (slot << 42);
    }
    base = high_next;
    high_next += size;
    return base;
}

void sim_address_give(uint64_t base, uint64_t size, bool low)
{
    struct hole *hole = hole_of(size, low, true);
    if (hole->count == hole->room) {
        unsigned room = hole->room ? hole->room * 2 : 8;
        uint64_t *bases = realloc(hole->bases, room * sizeof(*bases));
        if (!bases)
            return; /* only the addresses are lost */
        hole->bases = bases;
        hole->room = room;
    }
    hole->bases[hole->count++] = base;
}

/* The first range that starts above `address`. */
static size_t upper(uint64_t address)
{
    size_t from = 0, to = range_count;
    while (from < to) {
        size_t middle = (from + to) / 2;
        if (ranges[middle]->base <= address)
            from = middle + 1;
        else
            to = middle;
    }
    return from;
}

struct sim_range **sim_ranges(size_t *count)
{
    *count = range_count;
    return ranges;
}

struct sim_range *sim_range_find(uint64_t address)
{
    size_t i = upper(address);
    if (i == 0 || address - ranges[i - 1]->base >= ranges[i - 1]->size)
        return NULL;
    return ranges[i - 1];
}

static bool own_address(const struct sim_range *range)
{
    return range->kind != SIM_RANGE_HOST && range->kind != SIM_RANGE_MANAGED;
}

struct sim_range *sim_range_new(enum sim_range_kind kind, struct sim_card *card, uint64_t base,
                                uint64_t size, bool low)
{
    struct sim_range *range;
    size_t at;
    if (!base)
        base = sim_address_take(size, low);
    if (!base)
        return NULL;
    range = sim_new(sizeof(*range));
    range->base = base;
    range->size = range->span = size;
    range->kind = kind;
    range->card = card;
    if (range_count == range_room) {
        size_t room = range_room ? range_room * 2 : 64;
        struct sim_range **more = realloc(ranges, room * sizeof(*more));
        if (!more)
            abort();
        ranges = more;
        range_room = room;
    }
    at = upper(base);
    memmove(&ranges[at + 1], &ranges[at], (range_count - at) * sizeof(*ranges));
    ranges[at] = range;
    range_count++;
    return range;
}

void sim_range_drop(struct sim_range *range)
{
    size_t at = upper(range->base) - 1;
    memmove(&ranges[at], &ranges[at + 1], (range_count - at - 1) * sizeof(*ranges));
    range_count--;
    while (range->first) {
        struct sim_block *block = range->first;
        range->first = block->after;
        if (block->state == SIM_BLOCK_LIVE)
            sim_block_gone(block);
        free(block);
    }
    if (own_address(range))
        sim_address_give(range->base, range->span, range->base < LOW_END);
    free(range);
}

struct sim_block *sim_range_single(enum sim_range_kind kind, struct sim_card *card,
                                   uint64_t base, uint64_t size, uint64_t asked, bool low)
{
    struct sim_range *range = sim_range_new(kind, card, base, size, low);
    struct sim_block *block;
    if (!range)
        return NULL;
    block = sim_new(sizeof(*block));
    block->base = range->base;
    block->size = size;
    block->asked = asked;
    block->range = range;
    range->first = range->last = block;
    range->unfree = range->backed = size;
    sim_block_live(block);
    return block;
}

void sim_block_live(struct sim_block *block)
{
    block->state = SIM_BLOCK_LIVE;
    block->freeing = false;
    block->buffer_id = ++buffer_ids;
    HASH_ADD(hh, blocks, base, sizeof(block->base), block);
    if (block->range->card && block->range->kind != SIM_RANGE_RESERVED)
        block->range->card->blocks++;
}

void sim_block_gone(struct sim_block *block)
{
    HASH_DEL(blocks, block);
    if (block->range->card && block->range->kind != SIM_RANGE_RESERVED)
        block->range->card->blocks--;
}

struct sim_block *sim_block_find(uint64_t base)
{
    struct sim_block *block;
    HASH_FIND(hh, blocks, &base, sizeof(base), block);
    return block;
}

struct sim_block *sim_block_around(uint64_t address)
{
    struct sim_block *block = sim_block_find(address);
    struct sim_range *range;
    if (block)
        return block;
    range = sim_range_find(address);
    for (block = range ? range->first : NULL; block; block = block->after)
        if (address - block->base < block->size)
            return block->state == SIM_BLOCK_LIVE ? block : NULL;
    return NULL;
}
