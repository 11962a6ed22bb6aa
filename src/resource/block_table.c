/*
 * block_table.c: every tracked block of a process by its address.
 */
#include "resource/block_table.h"

#include <stdatomic.h>
#include <stdlib.h>

enum { SHARD_BITS = 6, FIRST_BITS = 4, MORE_BITS = 2 };

_Static_assert(1 << SHARD_BITS == GB_BLOCK_SHARDS && 1 << FIRST_BITS == GB_BLOCK_BUCKETS,
               "the bits of the hash that choose");

/*
 * A generation is the era it was given in, above how many its shard had given and which shard
 * that is: so shards share nothing that is written, and eras order what has to be.
 */
enum { ERA_SHIFT = 40 };

/*
 * Addresses come in 512-byte steps and often in 2 MiB steps: one multiplication mixes both. Its
 * top bits choose the shard, those below are the hash within it.
 */
static uint64_t mix(CUdeviceptr pointer)
{
    return ((uint64_t)pointer >> 9) * UINT64_C(0x9e3779b97f4a7c15);
}

static struct gb_block_shard *shard_of(struct gb_block_table *table, uint64_t mixed)
{
    return &table->shards[mixed >> (64 - SHARD_BITS)];
}

/* With the lock held, as all below. */
static struct gb_block **bucket_of(struct gb_block_shard *shard, uint64_t mixed)
{
    mixed <<= SHARD_BITS;
    if (shard->more)
        return &shard->more[mixed >> (64 - shard->bits)];
    return &shard->first[mixed >> (64 - FIRST_BITS)];
}

static void push(struct gb_block_shard *shard, struct gb_block *block)
{
    struct gb_block **bucket = bucket_of(shard, mix(block->pointer));

    block->chain = *bucket;
    *bucket = block;
}

static uint64_t next_generation(struct gb_block_table *table, struct gb_block_shard *shard)
{
    uint64_t index = (uint64_t)(shard - table->shards);

    return (atomic_load(&table->era) << ERA_SHIFT) +
           (++shard->generations * GB_BLOCK_SHARDS + index);
}

static void buckets_of(struct gb_block_shard *shard, struct gb_block ***buckets, size_t *count)
{
    *buckets = shard->more ? shard->more : shard->first;
    *count = (size_t)1 << (shard->more ? shard->bits : FIRST_BITS);
}

/* More buckets, where chains are getting long and there is memory. */
static void spread(struct gb_block_shard *shard)
{
    struct gb_block **old;
    struct gb_block *all = NULL, *next;
    unsigned bits;
    size_t count;
    void *more;

    buckets_of(shard, &old, &count);
    if (atomic_load_explicit(&shard->count, memory_order_relaxed) < count)
        return;
    bits = MORE_BITS + (shard->more ? shard->bits : FIRST_BITS);
    more = calloc((size_t)1 << bits, sizeof(*old));
    if (!more)
        return;
    /* Backwards twice: the newest of one address stays in front. */
    for (size_t i = 0; i < count; i++) {
        for (struct gb_block *block = old[i]; block; block = next) {
            next = block->chain;
            block->chain = all;
            all = block;
        }
        old[i] = NULL;
    }
    free(shard->more);
    shard->more = more;
    shard->bits = bits;
    for (struct gb_block *block = all; block; block = next) {
        next = block->chain;
        push(shard, block);
    }
}

/* Where the newest block at pointer is chained; NULL: nowhere. */
static struct gb_block **link_of(struct gb_block_shard *shard, CUdeviceptr pointer,
                                 uint64_t mixed)
{
    struct gb_block **link = bucket_of(shard, mixed);

    while (*link && (*link)->pointer != pointer)
        link = &(*link)->chain;
    return *link ? link : NULL;
}

struct gb_block *gb_block_new(void)
{
    /* Not calloc, which glibc serves the slow way: this is on the path of every allocation. */
    struct gb_block *block = malloc(sizeof(*block));

    if (block)
        *block = (struct gb_block){0};
    return block;
}

void gb_block_table_init(struct gb_block_table *table)
{
    for (int i = 0; i < GB_BLOCK_SHARDS; i++) {
        table->shards[i] = (struct gb_block_shard){0};
        gb_lock_init(&table->shards[i].lock);
    }
    atomic_store(&table->era, 0);
}

void gb_block_table_clear(struct gb_block_table *table)
{
    for (int i = 0; i < GB_BLOCK_SHARDS; i++) {
        struct gb_block_shard *shard = &table->shards[i];
        struct gb_block **buckets;
        size_t count;

        buckets_of(shard, &buckets, &count);
        for (size_t bucket = 0; bucket < count; bucket++) {
            struct gb_block *block;

            while ((block = buckets[bucket])) {
                buckets[bucket] = block->chain;
                free(block);
            }
        }
        free(shard->more);
        shard->more = NULL;
        atomic_store(&shard->count, 0);
    }
}

void gb_block_table_forked(struct gb_block_table *table)
{
    uint64_t era = atomic_load(&table->era);

    gb_block_table_init(table);
    /* No generation comes twice. */
    atomic_store(&table->era, era + 1);
}

uint64_t gb_block_table_generation(struct gb_block_table *table)
{
    struct gb_block_shard *shard = &table->shards[0];
    uint64_t generation;

    gb_lock_take(&shard->lock);
    generation = next_generation(table, shard);
    gb_lock_drop(&shard->lock);
    return generation;
}

uint64_t gb_block_table_mark(struct gb_block_table *table)
{
    return ((atomic_fetch_add(&table->era, 1) + 1) << ERA_SHIFT) - 1;
}

uint64_t gb_block_table_insert(struct gb_block_table *table, struct gb_block *block)
{
    struct gb_block_shard *shard = shard_of(table, mix(block->pointer));
    uint64_t generation;

    gb_lock_take(&shard->lock);
    if (block->generation == 0)
        block->generation = next_generation(table, shard);
    generation = block->generation;
    spread(shard);
    push(shard, block);
    atomic_store_explicit(&shard->count,
                          atomic_load_explicit(&shard->count, memory_order_relaxed) + 1,
                          memory_order_relaxed);
    gb_lock_drop(&shard->lock);
    return generation;
}

/* With the lock held: out of its chain. */
static struct gb_block *unchain(struct gb_block_shard *shard, struct gb_block **link)
{
    struct gb_block *block = *link;

    *link = block->chain;
    atomic_store_explicit(&shard->count,
                          atomic_load_explicit(&shard->count, memory_order_relaxed) - 1,
                          memory_order_relaxed);
    return block;
}

struct gb_block *gb_block_table_take(struct gb_block_table *table, CUdeviceptr pointer,
                                     uint64_t generation)
{
    uint64_t mixed = mix(pointer);
    struct gb_block_shard *shard = shard_of(table, mixed);
    struct gb_block *block = NULL;
    struct gb_block **link;

    if (atomic_load_explicit(&shard->count, memory_order_relaxed) == 0)
        return NULL;
    gb_lock_take(&shard->lock);
    link = link_of(shard, pointer, mixed);
    if (link && (generation == 0 || (*link)->generation == generation))
        block = unchain(shard, link);
    gb_lock_drop(&shard->lock);
    return block;
}

bool gb_block_table_find(struct gb_block_table *table, CUdeviceptr pointer,
                         struct gb_block *copy)
{
    uint64_t mixed = mix(pointer);
    struct gb_block_shard *shard = shard_of(table, mixed);
    struct gb_block **link;

    if (atomic_load_explicit(&shard->count, memory_order_relaxed) == 0)
        return false;
    gb_lock_take(&shard->lock);
    link = link_of(shard, pointer, mixed);
    if (link)
        *copy = **link;
    gb_lock_drop(&shard->lock);
    return link != NULL;
}

struct gb_block *gb_block_table_take_if(struct gb_block_table *table,
                                        bool (*match)(const struct gb_block *block,
                                                      const void *arg),
                                        const void *arg)
{
    struct gb_block *taken = NULL;

    for (int i = 0; i < GB_BLOCK_SHARDS; i++) {
        struct gb_block_shard *shard = &table->shards[i];
        struct gb_block **buckets;
        size_t count;

        gb_lock_take(&shard->lock);
        buckets_of(shard, &buckets, &count);
        for (size_t bucket = 0; bucket < count; bucket++) {
            struct gb_block **link = &buckets[bucket];

            while (*link) {
                struct gb_block *block = *link;

                if (!match(block, arg)) {
                    link = &block->chain;
                    continue;
                }
                unchain(shard, link);
                block->next = taken;
                taken = block;
            }
        }
        gb_lock_drop(&shard->lock);
    }
    return taken;
}
