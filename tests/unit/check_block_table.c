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
    block->charged = pointer % 1000;
    return block;
}

static void insert(struct gb_block *block)
{
    uint64_t generation = gb_block_table_insert(&table, block);

    ck_assert_uint_ne(generation, 0);
    ck_assert_uint_eq(generation, block->generation);
}

static int by_value(const void *a, const void *b)
{
    const uint64_t *first = a, *second = b;

    return (*first > *second) - (*first < *second);
}

START_TEST(test_generations)
{
    enum { EACH = 200 };
    static uint64_t given[4 * EACH];
    uint64_t mark;

    gb_block_table_init(&table);
    for (int i = 0; i < EACH; i++) {
        struct gb_block *block = make_block(base + (uint64_t)i * 512);

        insert(block);
        given[2 * i] = block->generation;
        given[2 * i + 1] = gb_block_table_generation(&table);
    }
    mark = gb_block_table_mark(&table);
    ck_assert_uint_gt(gb_block_table_mark(&table), mark);
    /* A child goes on where its parent was: no generation comes twice. */
    gb_block_table_clear(&table);
    gb_block_table_forked(&table);
    for (int i = 2 * EACH; i < 4 * EACH; i++) {
        struct gb_block *block = make_block(base + (uint64_t)i * 512);

        insert(block);
        given[i] = block->generation;
    }
    for (int i = 0; i < 4 * EACH; i++)
        ck_assert_int_eq(given[i] > mark, i >= 2 * EACH);
    qsort(given, COUNT_OF(given), sizeof(given[0]), by_value);
    for (int i = 1; i < 4 * EACH; i++)
        ck_assert_uint_lt(given[i - 1], given[i]);
    gb_block_table_clear(&table);
}
END_TEST

/* A free that the driver refused: the block that comes back is the one that it was. */
START_TEST(test_put_back)
{
    struct gb_block *block = make_block(base);
    uint64_t generation;

    gb_block_table_init(&table);
    insert(block);
    generation = block->generation;
    ck_assert_ptr_eq(gb_block_table_take(&table, base, 0), block);
    insert(block);
    ck_assert_uint_eq(block->generation, generation);
    gb_block_table_clear(&table);
}
END_TEST

START_TEST(test_take_by_generation)
{
    struct gb_block *block;
    struct gb_block copy = {0};

    gb_block_table_init(&table);
    block = make_block(base);
    insert(block);
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
    insert(block);
    ck_assert_ptr_eq(gb_block_table_take(&table, base, 0), block);
    free(block);
    gb_block_table_clear(&table);
}
END_TEST

/* Address 0 is nobody's block. */
START_TEST(test_null_is_no_block)
{
    struct gb_block copy;
    struct gb_block *block;

    gb_block_table_init(&table);
    for (uint64_t i = 1; i <= 64; i++) {
        block = make_block(base + i * 512);
        insert(block);
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
    insert(first);
    second = make_block(base);
    insert(second);
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

        insert(block);
        ck_assert_ptr_eq(gb_block_table_take(&table, base, block->generation), block);
        free(block);
    }
    gb_block_table_clear(&table);
}
END_TEST

START_TEST(test_hundred_thousand)
{
    enum { BLOCKS = 100000 };
    static uint64_t generations[BLOCKS];

    gb_block_table_init(&table);
    for (uint64_t i = 0; i < BLOCKS; i++)
        generations[i] = gb_block_table_insert(&table, make_block(base + i * 2 * MIB));
    /* All shards carry their part: an uneven choice would make one lock the lock of all. */
    for (int i = 0; i < GB_BLOCK_SHARDS; i++) {
        uint64_t count = atomic_load(&table.shards[i].count);

        ck_assert_uint_gt(count, BLOCKS / GB_BLOCK_SHARDS / 2);
        ck_assert_uint_lt(count, BLOCKS / GB_BLOCK_SHARDS * 2);
        /* And chains stay short. */
        ck_assert_ptr_nonnull(table.shards[i].table);
        ck_assert_uint_ge(table.shards[i].table->hh.tbl->num_buckets * 10, count);
    }
    for (uint64_t i = 0; i < BLOCKS; i++) {
        struct gb_block *block =
            gb_block_table_take(&table, base + i * 2 * MIB, generations[i]);

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
        insert(make_block(base + i * 512));
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

/* Without memory for more buckets chains are longer, and nothing else. */
START_TEST(test_growth_without_memory)
{
    enum { BLOCKS = 20000 };
    static struct gb_block *blocks[BLOCKS];

    gb_block_table_init(&table);
    for (uint64_t i = 0; i < BLOCKS; i++)
        blocks[i] = make_block(base + i * 512);
    for (int i = 0; i < BLOCKS; i++) {
        malloc_fail_after(i < 2000 || i > 15000 ? -1 : 0);
        gb_block_table_insert(&table, blocks[i]);
        malloc_recover();
    }
    for (int i = 0; i < BLOCKS; i++) {
        ck_assert_ptr_eq(gb_block_table_take(&table, blocks[i]->pointer, blocks[i]->generation),
                         blocks[i]);
        free(blocks[i]);
    }
    gb_block_table_clear(&table);
}
END_TEST

/* Two blocks of one address keep their order when buckets are made. */
START_TEST(test_order_after_growth)
{
    struct gb_block *first, *second;

    gb_block_table_init(&table);
    first = make_block(base);
    second = make_block(base);
    insert(first);
    insert(second);
    for (uint64_t i = 1; i < 20000; i++) {
        struct gb_block copy;

        insert(make_block(base + i * 512));
        ck_assert(gb_block_table_find(&table, base, &copy));
        ck_assert_uint_eq(copy.generation, second->generation);
    }
    ck_assert_ptr_eq(gb_block_table_take(&table, base, 0), second);
    ck_assert_ptr_eq(gb_block_table_take(&table, base, 0), first);
    free(first);
    free(second);
    gb_block_table_clear(&table);
}
END_TEST

/* What can be no block's address is known without a look. */
START_TEST(test_bounds)
{
    struct gb_block *block;

    gb_block_table_init(&table);
    ck_assert(gb_block_table_is_new(&table));
    ck_assert(!gb_block_table_may_hold(&table, 0));
    ck_assert(!gb_block_table_may_hold(&table, base));
    block = make_block(base + 4096);
    block->requested = 1000;
    insert(block);
    block = make_block(base);
    block->requested = 100;
    insert(block);
    ck_assert(!gb_block_table_is_new(&table));
    ck_assert(!gb_block_table_may_hold(&table, base - 1));
    ck_assert(gb_block_table_may_hold(&table, base));
    ck_assert(gb_block_table_may_hold(&table, base + 5095));
    ck_assert(!gb_block_table_may_hold(&table, base + 5096));
    ck_assert(!gb_block_table_may_hold(&table, UINT64_MAX));
    free(gb_block_table_take(&table, base + 4096, 0));
    ck_assert(gb_block_table_may_hold(&table, base + 5095));
    gb_block_table_clear(&table);
    gb_block_table_forked(&table);
    ck_assert(gb_block_table_is_new(&table));
}
END_TEST

static void insert_and_take(void *arg, int index)
{
    (void)arg;
    for (uint64_t i = 0; i < 5000; i++) {
        const uint64_t pointer = base + ((i % 100) * 64 + (uint64_t)index) * 512;
        struct gb_block *block = make_block(pointer);
        const uint64_t generation = gb_block_table_insert(&table, block);
        struct gb_block copy;

        ck_assert(gb_block_table_find(&table, pointer, &copy));
        ck_assert_ptr_eq(gb_block_table_take(&table, pointer, generation), block);
        free(block);
    }
}

START_TEST(test_threads)
{
    gb_block_table_init(&table);
    unit_threads(8, insert_and_take, NULL);
    for (int i = 0; i < GB_BLOCK_SHARDS; i++)
        ck_assert_uint_eq(atomic_load(&table.shards[i].count), 0);
    gb_block_table_clear(&table);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {test_generations,
                                  test_put_back,
                                  test_take_by_generation,
                                  test_any_generation,
                                  test_null_is_no_block,
                                  test_address_used_again,
                                  test_reuse_keeps_nothing,
                                  test_hundred_thousand,
                                  test_take_if,
                                  test_growth_without_memory,
                                  test_order_after_growth,
                                  test_bounds,
                                  test_threads};

    return unit_run("block_table", tests, COUNT_OF(tests));
}
