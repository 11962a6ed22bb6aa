/*
 * block_table.c: every tracked block of a process by its address.
 */
#include "resource/block_table.h"

#include <stdatomic.h>
#include <stdlib.h>

#include "resource/pending_slots.h"
#include "resource/uses.h"

enum { SHARD_BITS = 6 };

_Static_assert(1 << SHARD_BITS == GB_BLOCK_SHARDS, "the bits of the hash that choose");

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

static unsigned hash_of(uint64_t mixed)
{
    return (unsigned)(mixed >> (32 - SHARD_BITS));
}

static unsigned shard_of(uint64_t mixed)
{
    return (unsigned)(mixed >> (64 - SHARD_BITS));
}

static uint64_t next_generation(struct gb_block_table *table, unsigned shard)
{
    return (atomic_load(&table->era) << ERA_SHIFT) +
           (++table->shards[shard].generations * GB_BLOCK_SHARDS + shard);
}

/* With the lock held, as all below. False: there is no memory. */
static bool add(struct gb_block_shard *shard, struct gb_block *block, unsigned hash)
{
    block->hh.tbl = NULL;
    HASH_ADD_KEYPTR_BYHASHVALUE(hh, shard->table, &block->pointer, sizeof(block->pointer), hash,
                                block);
    return block->hh.tbl != NULL;
}

static inline struct gb_block *in_table(struct gb_block_shard *shard, CUdeviceptr pointer,
                                        unsigned hash)
{
    struct gb_block *block = NULL;

    HASH_FIND_BYHASHVALUE(hh, shard->table, &pointer, sizeof(pointer), hash, block);
    return block == &shard->keeper ? NULL : block;
}

static void put_beside(struct gb_block_shard *shard, struct gb_block *block)
{
    block->next = shard->beside;
    shard->beside = block;
}

/* One whose end nobody saw: of two the newest counts, which a growing table would mix up. */
__attribute__((noinline)) static void displace(struct gb_block_shard *shard,
                                               struct gb_block *older)
{
    HASH_DELETE(hh, shard->table, older);
    put_beside(shard, older);
}

static void put(struct gb_block_shard *shard, struct gb_block *block, unsigned hash)
{
    bool kept = shard->table || add(shard, &shard->keeper, hash_of(0));
    struct gb_block *older = in_table(shard, block->pointer, hash);

    if (older)
        displace(shard, older);
    if (!kept || !add(shard, block, hash))
        put_beside(shard, block);
    atomic_store_explicit(&shard->count,
                          atomic_load_explicit(&shard->count, memory_order_relaxed) + 1,
                          memory_order_relaxed);
}

/* The newest. */
static struct gb_block *get(struct gb_block_shard *shard, CUdeviceptr pointer, uint64_t mixed)
{
    struct gb_block *block = in_table(shard, pointer, hash_of(mixed));

    if (block)
        return block;
    block = shard->beside;
    while (block && block->pointer != pointer)
        block = block->next;
    return block;
}

static void drop(struct gb_block_shard *shard, struct gb_block *block)
{
    struct gb_block **link = &shard->beside;

    while (*link && *link != block)
        link = &(*link)->next;
    if (*link)
        *link = block->next;
    else
        HASH_DELETE(hh, shard->table, block);
    atomic_store_explicit(&shard->count,
                          atomic_load_explicit(&shard->count, memory_order_relaxed) - 1,
                          memory_order_relaxed);
}

struct gb_block *gb_block_new(void)
{
    /* Not calloc, which glibc serves the slow way: this is on the path of every allocation. */
    struct gb_block *block = malloc(sizeof(*block));

    if (block)
        *block = (struct gb_block){0};
    return block;
}

void gb_block_free(struct gb_block *block)
{
    if (!block)
        return;
    if (block->uses)
        gb_uses_end(block->uses);
    block->uses = NULL;
    if (block->lent)
        gb_pending_return_block(block);
    else
        free(block);
}

void gb_block_table_init(struct gb_block_table *table)
{
    for (int i = 0; i < GB_BLOCK_SHARDS; i++) {
        table->shards[i] = (struct gb_block_shard){0};
        gb_lock_init(&table->shards[i].lock);
    }
    atomic_store(&table->era, 0);
    atomic_store(&table->below, 0);
    atomic_store(&table->above, 0);
}

static bool any(const struct gb_block *block, const void *arg)
{
    (void)block;
    (void)arg;
    return true;
}

void gb_block_table_clear(struct gb_block_table *table)
{
    struct gb_block *all = gb_block_table_take_if(table, any, NULL), *next;

    for (; all; all = next) {
        next = all->next;
        gb_block_free(all);
    }
    for (int i = 0; i < GB_BLOCK_SHARDS; i++)
        HASH_CLEAR(hh, table->shards[i].table);
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
    generation = next_generation(table, 0);
    gb_lock_drop(&shard->lock);
    return generation;
}

uint64_t gb_block_table_mark(struct gb_block_table *table)
{
    return ((atomic_fetch_add(&table->era, 1) + 1) << ERA_SHIFT) - 1;
}

static void raise_to(_Atomic uint64_t *mark, uint64_t value)
{
    uint64_t now = atomic_load_explicit(mark, memory_order_relaxed);

    while (now < value && !atomic_compare_exchange_weak_explicit(
                              mark, &now, value, memory_order_relaxed, memory_order_relaxed))
        ;
}

uint64_t gb_block_table_insert(struct gb_block_table *table, struct gb_block *block)
{
    uint64_t mixed = mix(block->pointer);
    struct gb_block_shard *shard = &table->shards[shard_of(mixed)];
    uint64_t generation;

    raise_to(&table->below, block->pointer + block->requested);
    raise_to(&table->above, ~block->pointer);
    gb_lock_take(&shard->lock);
    if (block->generation == 0)
        block->generation = next_generation(table, shard_of(mixed));
    generation = block->generation;
    put(shard, block, hash_of(mixed));
    gb_lock_drop(&shard->lock);
    return generation;
}

struct gb_block *gb_block_table_take(struct gb_block_table *table, CUdeviceptr pointer,
                                     uint64_t generation)
{
    uint64_t mixed = mix(pointer);
    struct gb_block_shard *shard = &table->shards[shard_of(mixed)];
    struct gb_block *block;

    if (atomic_load_explicit(&shard->count, memory_order_relaxed) == 0)
        return NULL;
    gb_lock_take(&shard->lock);
    block = get(shard, pointer, mixed);
    if (block && generation != 0 && block->generation != generation)
        block = NULL;
    if (block)
        drop(shard, block);
    gb_lock_drop(&shard->lock);
    return block;
}

bool gb_block_table_find(struct gb_block_table *table, CUdeviceptr pointer,
                         struct gb_block *copy)
{
    uint64_t mixed = mix(pointer);
    struct gb_block_shard *shard = &table->shards[shard_of(mixed)];
    const struct gb_block *block;

    if (atomic_load_explicit(&shard->count, memory_order_relaxed) == 0)
        return false;
    gb_lock_take(&shard->lock);
    block = get(shard, pointer, mixed);
    if (block)
        *copy = *block;
    gb_lock_drop(&shard->lock);
    return block != NULL;
}

bool gb_block_table_with(struct gb_block_table *table, CUdeviceptr pointer, uint64_t generation,
                         void (*visit)(struct gb_block *block, void *arg), void *arg)
{
    uint64_t mixed = mix(pointer);
    struct gb_block_shard *shard = &table->shards[shard_of(mixed)];
    struct gb_block *block;

    gb_lock_take(&shard->lock);
    block = get(shard, pointer, mixed);
    if (block && block->generation != generation)
        block = NULL;
    if (block)
        visit(block, arg);
    gb_lock_drop(&shard->lock);
    return block != NULL;
}

struct gb_block *gb_block_table_take_if(struct gb_block_table *table,
                                        bool (*match)(const struct gb_block *block,
                                                      const void *arg),
                                        const void *arg)
{
    struct gb_block *taken = NULL;

    for (int i = 0; i < GB_BLOCK_SHARDS; i++) {
        struct gb_block_shard *shard = &table->shards[i];
        struct gb_block *block, *next;

        gb_lock_take(&shard->lock);
        for (block = shard->table; block; block = next) {
            next = block->hh.next;
            if (block == &shard->keeper || !match(block, arg))
                continue;
            drop(shard, block);
            block->next = taken;
            taken = block;
        }
        for (block = shard->beside; block; block = next) {
            next = block->next;
            if (!match(block, arg))
                continue;
            drop(shard, block);
            block->next = taken;
            taken = block;
        }
        gb_lock_drop(&shard->lock);
    }
    return taken;
}
