/*
 * block_table.c: every tracked block of a process by its address.
 */
#include "resource/block_table.h"

#include <stdatomic.h>
#include <stdlib.h>

/*
 * Addresses come in 512-byte steps and often in 2 MiB steps: one multiplication mixes both. Its
 * top bits choose the shard, those below are the hash within it.
 */
static uint64_t mix(CUdeviceptr pointer)
{
    return ((uint64_t)pointer >> 9) * UINT64_C(0x9e3779b97f4a7c15);
}

static struct gb_block_shard *shard_of(struct gb_block_table *table, CUdeviceptr pointer)
{
    return &table->shards[mix(pointer) >> 60];
}

static unsigned hash_of(CUdeviceptr pointer)
{
    return (unsigned)(mix(pointer) >> 28);
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
        gb_lock_init(&table->shards[i].lock);
        table->shards[i].blocks = NULL;
        table->shards[i].anchor = (struct gb_block){0};
    }
    atomic_store(&table->generation, 0);
    atomic_store(&table->count, 0);
}

void gb_block_table_clear(struct gb_block_table *table)
{
    atomic_store(&table->count, 0);
    for (int i = 0; i < GB_BLOCK_SHARDS; i++) {
        struct gb_block *block, *next;

        HASH_ITER(hh, table->shards[i].blocks, block, next)
        {
            HASH_DELETE(hh, table->shards[i].blocks, block);
            if (block->pointer != 0)
                free(block);
        }
    }
}

void gb_block_table_forked(struct gb_block_table *table)
{
    uint64_t generation = atomic_load(&table->generation);

    gb_block_table_init(table);
    atomic_store(&table->generation, generation);
}

uint64_t gb_block_table_generation(struct gb_block_table *table)
{
    return atomic_fetch_add(&table->generation, 1) + 1;
}

bool gb_block_table_insert(struct gb_block_table *table, struct gb_block *block)
{
    struct gb_block_shard *shard = shard_of(table, block->pointer);
    bool inserted;

    gb_lock_take(&shard->lock);
    if (!shard->blocks)
        HASH_ADD_BYHASHVALUE(hh, shard->blocks, pointer, sizeof(CUdeviceptr), hash_of(0),
                             (&shard->anchor));
    block->hh.tbl = NULL;
    HASH_ADD_BYHASHVALUE(hh, shard->blocks, pointer, sizeof(block->pointer),
                         hash_of(block->pointer), block);
    inserted = block->hh.tbl != NULL;
    if (inserted)
        atomic_fetch_add(&table->count, 1);
    gb_lock_drop(&shard->lock);
    return inserted;
}

struct gb_block *gb_block_table_take(struct gb_block_table *table, CUdeviceptr pointer,
                                     uint64_t generation)
{
    struct gb_block_shard *shard = shard_of(table, pointer);
    struct gb_block *block;

    if (pointer == 0 || atomic_load(&table->count) == 0)
        return NULL;
    gb_lock_take(&shard->lock);
    HASH_FIND_BYHASHVALUE(hh, shard->blocks, &pointer, sizeof(pointer), hash_of(pointer),
                          block);
    if (block && generation != 0 && block->generation != generation)
        block = NULL;
    if (block) {
        HASH_DELETE(hh, shard->blocks, block);
        atomic_fetch_sub(&table->count, 1);
    }
    gb_lock_drop(&shard->lock);
    return block;
}

bool gb_block_table_find(struct gb_block_table *table, CUdeviceptr pointer,
                         struct gb_block *copy)
{
    struct gb_block_shard *shard = shard_of(table, pointer);
    struct gb_block *block;

    if (pointer == 0 || atomic_load(&table->count) == 0)
        return false;
    gb_lock_take(&shard->lock);
    HASH_FIND_BYHASHVALUE(hh, shard->blocks, &pointer, sizeof(pointer), hash_of(pointer),
                          block);
    if (block)
        *copy = *block;
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
        HASH_ITER(hh, shard->blocks, block, next)
        {
            if (block->pointer == 0 || !match(block, arg))
                continue;
            HASH_DELETE(hh, shard->blocks, block);
            atomic_fetch_sub(&table->count, 1);
            block->next = taken;
            taken = block;
        }
        gb_lock_drop(&shard->lock);
    }
    return taken;
}
