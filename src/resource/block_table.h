/*
 * block_table.h: every tracked block of a process by its address.
 */
#ifndef GB_RESOURCE_BLOCK_TABLE_H
#define GB_RESOURCE_BLOCK_TABLE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "driver/cuda_api.h"

#include <gpubudget/resource.h>

#include "resource/hash.h"
#include "resource/lock.h"

struct gb_pool;
struct gb_uses;

enum { GB_BLOCK_SHARDS = 64 };

/*
 * A block of the table. Invariants: in the table exactly while it is live; taken out by whoever
 * frees it before the driver is called, because the address may be another block's the moment
 * the driver has freed it. Out of the table it belongs to that thread, and after an ordered
 * free to the pending list of its stream (pending.h).
 */
struct gb_block {
    CUdeviceptr pointer; /* the key */
    uint64_t generation; /* never 0, never used twice */
    uint64_t charged; /* bytes in the ledger for this block; 0 for small ones, see regions.h */
    uint64_t requested; /* bytes */
    uint64_t tag;
    CUstream stream;
    CUcontext context;
    const void *driver;   /* the driver's functions (struct gb_driver_api) */
    struct gb_pool *pool; /* of stream-ordered memory; NULL: not known */
    gpubudget_kind_t kind;
    int device;
    struct gb_uses *uses;  /* uses.h; NULL before the first one */
    bool in_region;        /* holds a share of 2 MiB regions */
    bool lent;             /* a slot's own, see pending_slots.h; else of malloc */
    struct gb_block *next; /* of a list outside the table, or in a shard's `beside` */
    UT_hash_handle hh;
};

/*
 * A uthash table for each shard. `keeper` is no block: it keeps the table alive when the last
 * block leaves, which would be freed and made anew with every pair. Without host memory for a
 * table or its growth a block goes to the list `beside`, so an insert never fails. A shard's
 * figures lie apart from those of the next one.
 */
struct gb_block_table {
    struct gb_block_shard {
        struct gb_lock lock;
        struct gb_block *table;  /* NULL, or with the keeper in it */
        struct gb_block *beside; /* linked by next; the newest first */
        _Atomic uint64_t count;  /* live blocks: with none, a look-up takes no lock */
        uint64_t generations;    /* given here so far */
        struct gb_block keeper;
        char apart[64];
    } shards[GB_BLOCK_SHARDS];
    _Atomic uint64_t era;
    _Atomic bool shadows;   /* there has been a block that no budget looks at */
    _Atomic uint64_t below; /* no block has been at or above this address, */
    _Atomic uint64_t above; /* nor below this one's complement */
};

/* Has there never been a block? */
static inline bool gb_block_table_is_new(const struct gb_block_table *table)
{
    return atomic_load_explicit(&table->below, memory_order_relaxed) == 0;
}

/*
 * Can there be a block around this address? False for nearly every number that is no address of
 * the card: a cheap question before an expensive one.
 */
static inline bool gb_block_table_may_hold(const struct gb_block_table *table,
                                           CUdeviceptr pointer)
{
    return pointer < atomic_load_explicit(&table->below, memory_order_relaxed) &&
           ~pointer <= atomic_load_explicit(&table->above, memory_order_relaxed);
}

/* A zeroed entry, NULL without memory. */
struct gb_block *gb_block_new(void);

/* Gives an entry (or NULL) back to where it came from; its uses are forgotten. */
void gb_block_free(struct gb_block *block);

void gb_block_table_init(struct gb_block_table *table);

/* Forgets all blocks and frees their entries. No other thread may use the table. */
void gb_block_table_clear(struct gb_block_table *table);

/* In the child of a fork: an empty table. The parent's entries are left behind, unfreed. */
void gb_block_table_forked(struct gb_block_table *table);

/*
 * A generation that no block has had. Of two blocks or calls of this function the later one
 * need not have the greater one; see the mark below.
 */
uint64_t gb_block_table_generation(struct gb_block_table *table);

/* Greater than any generation so far, and smaller than all that come after it. */
uint64_t gb_block_table_mark(struct gb_block_table *table);

/* Takes ownership of the entry; answers its generation, which it gets where it has none. */
uint64_t gb_block_table_insert(struct gb_block_table *table, struct gb_block *block);

/*
 * Takes the block at pointer out of the table and gives it to the caller; NULL when there is
 * none. generation 0 takes any, else only that one.
 */
struct gb_block *gb_block_table_take(struct gb_block_table *table, CUdeviceptr pointer,
                                     uint64_t generation);

/* Copies what the table knows of the block at pointer; false when there is none. */
bool gb_block_table_find(struct gb_block_table *table, CUdeviceptr pointer,
                         struct gb_block *copy);

/* Calls visit, with the shard locked, for the block of exactly that generation; false: none. */
bool gb_block_table_with(struct gb_block_table *table, CUdeviceptr pointer, uint64_t generation,
                         void (*visit)(struct gb_block *block, void *arg), void *arg);

/* Takes out all blocks that match; returns them linked by next. */
struct gb_block *gb_block_table_take_if(struct gb_block_table *table,
                                        bool (*match)(const struct gb_block *block,
                                                      const void *arg),
                                        const void *arg);

#endif
