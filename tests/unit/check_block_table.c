/* The table of blocks by address. */
#include "resource/block_table.h"

#include "failing_malloc.h"
#include "unit.h"

#include <stdlib.h>

static struct gb_block_table table;
static const uint64_t base = UINT64_C(0x7f0000000000);

static struct gb_block *make_block(uint64_t pointer)
{
    struct gb_block *block = calloc(1, sizeof(*block));

    ck_assert_ptr_nonnull(block);
    block->pointer = pointer;
    block->generation = gb_block_table_generation(&table);
    block->charged = pointer % 1000;
    return block;
}

START_TEST(test_generations)
{
    gb_block_table_init(&table);
    ck_assert_uint_eq(gb_block_table_generation(&table), 1);
    ck_assert_uint_eq(gb_block_table_generation(&table), 2);
    /* A child goes on where its parent was: no generation comes twice. */
    gb_block_table_forked(&table);
    ck_assert_uint_eq(gb_block_table_generation(&table), 3);
}
END_TEST

START_TEST(test_take_by_generation)
{
    struct gb_block *block;
    struct gb_block copy = {0};

    gb_block_table_init(&table);
    block = make_block(base);
    ck_assert(gb_block_table_insert(&table, block));
    ck_assert_ptr_null(gb_block_table_take(&table, base, block->generation + 1));
    ck_assert_ptr_null(gb_block_table_take(&table, base + 1, block->generation));
    ck_assert(gb_block_table_find(&table, base, &copy));
    ck_assert_uint_eq(copy.generation, block->generation);
    ck_assert(!gb_block_table_find(&table, base + 1, &copy));
    ck_assert_ptr_eq(gb_block_table_take(&table, base, block->generation), block);
    ck_assert_ptr_null(gb_block_table_take(&table, base, block->generation));
    ck_assert_ptr_null(gb_block_table_take(&table, base, 0));
    free(block);
    gb_block_table_clear(&table);
}
END_TEST

START_TEST(test_any_generation)
{
    struct gb_block *block;

    gb_block_table_init(&table);
    block = make_block(base);
    ck_assert(gb_block_table_insert(&table, block));
    ck_assert_ptr_eq(gb_block_table_take(&table, base, 0), block);
    free(block);
    gb_block_table_clear(&table);
}
END_TEST

/* Address 0 is the table's own anchor and nobody's block. */
START_TEST(test_null_is_no_block)
{
    struct gb_block copy;
    struct gb_block *block;

    gb_block_table_init(&table);
    for (uint64_t i = 1; i <= 64; i++) {
        block = make_block(base + i * 512);
        ck_assert(gb_block_table_insert(&table, block));
    }
    ck_assert_ptr_null(gb_block_table_take(&table, 0, 0));
    ck_assert(!gb_block_table_find(&table, 0, &copy));
    gb_block_table_clear(&table);
}
END_TEST

/* A block that ended unseen leaves an entry; its address then belongs to the newer block. */
START_TEST(test_address_used_again)
{
    struct gb_block *first, *second, copy;

    gb_block_table_init(&table);
    first = make_block(base);
    ck_assert(gb_block_table_insert(&table, first));
    second = make_block(base);
    ck_assert(gb_block_table_insert(&table, second));
    ck_assert_uint_ne(first->generation, second->generation);
    ck_assert(gb_block_table_find(&table, base, &copy));
    ck_assert_uint_eq(copy.generation, second->generation);
    ck_assert_ptr_null(gb_block_table_take(&table, base, first->generation));
    ck_assert_ptr_eq(gb_block_table_take(&table, base, second->generation), second);
    ck_assert_ptr_eq(gb_block_table_take(&table, base, first->generation), first);
    free(first);
    free(second);
    gb_block_table_clear(&table);
}
END_TEST

/* The last block of a shard goes and comes: no entry and no bucket is lost on the way. */
START_TEST(test_reuse_keeps_nothing)
{
    gb_block_table_init(&table);
    for (int i = 0; i < 1000; i++) {
        struct gb_block *block = make_block(base);

        ck_assert(gb_block_table_insert(&table, block));
        ck_assert_ptr_eq(gb_block_table_take(&table, base, block->generation), block);
        free(block);
    }
    gb_block_table_clear(&table);
}
END_TEST

START_TEST(test_hundred_thousand)
{
    enum { BLOCKS = 100000 };

    gb_block_table_init(&table);
    for (uint64_t i = 0; i < BLOCKS; i++)
        ck_assert(gb_block_table_insert(&table, make_block(base + i * 2 * MIB)));
    /* All shards carry their part: an uneven choice would make one lock the lock of all. */
    for (int i = 0; i < GB_BLOCK_SHARDS; i++) {
        unsigned count = HASH_COUNT(table.shards[i].blocks);

        ck_assert_uint_gt(count, BLOCKS / GB_BLOCK_SHARDS / 2);
        ck_assert_uint_lt(count, BLOCKS / GB_BLOCK_SHARDS * 2);
    }
    for (uint64_t i = 0; i < BLOCKS; i++) {
        struct gb_block *block = gb_block_table_take(&table, base + i * 2 * MIB, i + 1);

        ck_assert_ptr_nonnull(block);
        free(block);
    }
    for (uint64_t i = 0; i < BLOCKS; i += 997)
        ck_assert_ptr_null(gb_block_table_take(&table, base + i * 2 * MIB, 0));
    gb_block_table_clear(&table);
}
END_TEST

static bool is_odd(const struct gb_block *block, const void *arg)
{
    return (block->pointer / 512) % 2 == *(const uint64_t *)arg;
}

START_TEST(test_take_if)
{
    const uint64_t odd = 1;
    struct gb_block *block;
    int taken = 0;

    gb_block_table_init(&table);
    for (uint64_t i = 0; i < 1000; i++)
        ck_assert(gb_block_table_insert(&table, make_block(base + i * 512)));
    block = gb_block_table_take_if(&table, is_odd, &odd);
    while (block) {
        struct gb_block *next = block->next;

        ck_assert_uint_eq((block->pointer / 512) % 2, 1);
        free(block);
        block = next;
        taken++;
    }
    ck_assert_int_eq(taken, 500);
    ck_assert_ptr_null(gb_block_table_take_if(&table, is_odd, &odd));
    for (uint64_t i = 0; i < 1000; i++) {
        block = gb_block_table_take(&table, base + i * 512, 0);
        ck_assert_int_eq(block != NULL, i % 2 == 0);
        free(block);
    }
    gb_block_table_clear(&table);
}
END_TEST

/* Memory fails at each position of a first insert: refused, ownership stays, later one works.
 */
START_TEST(test_first_insert_without_memory)
{
    bool whole = false;

    for (long allowed = 0; !whole; allowed++) {
        struct gb_block *block;
        struct gb_block copy;
        bool inserted;

        ck_assert_int_lt(allowed, 20);
        gb_block_table_init(&table);
        block = make_block(base);
        malloc_fail_after(allowed);
        inserted = gb_block_table_insert(&table, block);
        whole = malloc_recover() == 0;
        ck_assert(inserted || !whole);
        ck_assert_int_eq(gb_block_table_find(&table, base, &copy), inserted);
        if (!inserted)
            ck_assert(gb_block_table_insert(&table, block));
        ck_assert_ptr_eq(gb_block_table_take(&table, base, block->generation), block);
        free(block);
        gb_block_table_clear(&table);
    }
}
END_TEST

/* uthash cannot double its buckets: inserts are refused one by one, nothing is lost. */
START_TEST(test_growth_without_memory)
{
    enum { BLOCKS = 20000 };
    static struct gb_block *blocks[BLOCKS];
    static bool inserted[BLOCKS];
    int refused = 0;

    gb_block_table_init(&table);
    for (uint64_t i = 0; i < BLOCKS; i++)
        blocks[i] = make_block(base + i * 512);
    for (int i = 0; i < BLOCKS; i++) {
        malloc_fail_after(i < 1000 ? -1 : 0);
        inserted[i] = gb_block_table_insert(&table, blocks[i]);
        malloc_recover();
        refused += !inserted[i];
    }
    ck_assert_int_gt(refused, 0);
    for (int i = 0; i < BLOCKS; i++) {
        struct gb_block *found =
            gb_block_table_take(&table, blocks[i]->pointer, blocks[i]->generation);

        ck_assert_ptr_eq(found, inserted[i] ? blocks[i] : NULL);
        free(blocks[i]);
    }
    gb_block_table_clear(&table);
}
END_TEST

static void insert_and_take(void *arg, int index)
{
    (void)arg;
    for (uint64_t i = 0; i < 5000; i++) {
        const uint64_t pointer = base + ((i % 100) * 64 + (uint64_t)index) * 512;
        struct gb_block *block = make_block(pointer);
        const uint64_t generation = block->generation;
        struct gb_block copy;

        ck_assert(gb_block_table_insert(&table, block));
        ck_assert(gb_block_table_find(&table, pointer, &copy));
        ck_assert_ptr_eq(gb_block_table_take(&table, pointer, generation), block);
        free(block);
    }
}

START_TEST(test_threads)
{
    gb_block_table_init(&table);
    unit_threads(8, insert_and_take, NULL);
    ck_assert_uint_eq(gb_block_table_generation(&table), 8 * 5000 + 1);
    gb_block_table_clear(&table);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {test_generations,
                                  test_take_by_generation,
                                  test_any_generation,
                                  test_null_is_no_block,
                                  test_address_used_again,
                                  test_reuse_keeps_nothing,
                                  test_hundred_thousand,
                                  test_take_if,
                                  test_first_insert_without_memory,
                                  test_growth_without_memory,
                                  test_threads};

    return unit_run("block_table", tests, COUNT_OF(tests));
}
