/* The 2 MiB regions of small direct blocks. */
#include "resource/regions.h"

#include "failing_malloc.h"
#include "unit.h"

#include <stdlib.h>

static struct gb_regions regions;
static const uint64_t base = UINT64_C(0x7f0000000000);

/* Adds as the backend does; answers the regions that became live. */
static unsigned add(uint64_t address, uint64_t bytes)
{
    unsigned became_live = 99;

    ck_assert(gb_regions_prepare(&regions));
    ck_assert(gb_regions_add(&regions, address, bytes, &became_live));
    return became_live;
}

START_TEST(test_first_and_last_block)
{
    gb_regions_init(&regions);
    ck_assert_uint_eq(add(base, 512), 1);
    ck_assert_uint_eq(add(base + 512, 512), 0);
    ck_assert_uint_eq(add(base + GB_REGION_BYTES - 512, 512), 0);
    ck_assert_uint_eq(add(base + GB_REGION_BYTES, 1), 1);
    ck_assert_uint_eq(regions.count, 2);
    /* Whatever the order: the last block of a region takes it along. */
    ck_assert_uint_eq(gb_regions_remove(&regions, base, 512), 0);
    ck_assert_uint_eq(gb_regions_remove(&regions, base + GB_REGION_BYTES - 512, 512), 0);
    ck_assert_uint_eq(gb_regions_remove(&regions, base + 512, 512), 1);
    ck_assert_uint_eq(gb_regions_remove(&regions, base + GB_REGION_BYTES, 1), 1);
    ck_assert_uint_eq(regions.count, 0);
    ck_assert_uint_eq(regions.live_bytes, 0);
    gb_regions_clear(&regions);
}
END_TEST

START_TEST(test_straddling_block)
{
    const uint64_t address = base + GB_REGION_BYTES - 512;

    gb_regions_init(&regions);
    ck_assert_uint_eq(add(address, 1024), 2);
    ck_assert_uint_eq(add(base, 512), 0);
    ck_assert_uint_eq(add(base + GB_REGION_BYTES + 4096, 512), 0);
    ck_assert_uint_eq(gb_regions_remove(&regions, base, 512), 0);
    ck_assert_uint_eq(gb_regions_remove(&regions, address, 1024), 1);
    ck_assert_uint_eq(gb_regions_remove(&regions, base + GB_REGION_BYTES + 4096, 512), 1);
    ck_assert_uint_eq(regions.count, 0);
    /* A block that ends exactly where the next region begins touches only its own. */
    ck_assert_uint_eq(add(address, 512), 1);
    gb_regions_clear(&regions);
}
END_TEST

START_TEST(test_may_hold)
{
    gb_regions_init(&regions);
    ck_assert(!gb_regions_may_hold(&regions, 1));
    add(base, MIB);
    ck_assert(gb_regions_may_hold(&regions, MIB));
    ck_assert(!gb_regions_may_hold(&regions, MIB + 1));
    gb_regions_remove(&regions, base, MIB);
    ck_assert(!gb_regions_may_hold(&regions, 1));
    gb_regions_clear(&regions);
}
END_TEST

/* More requests in flight than spare entries are kept: each of them must find one. */
START_TEST(test_many_in_flight)
{
    enum { REQUESTS = 200 };
    unsigned became_live;

    gb_regions_init(&regions);
    for (int i = 0; i < REQUESTS; i++)
        ck_assert(gb_regions_prepare(&regions));
    for (int i = 0; i < REQUESTS; i++) {
        ck_assert(
            gb_regions_add(&regions, base + (uint64_t)i * GB_REGION_BYTES, 512, &became_live));
        ck_assert_uint_eq(became_live, 1);
    }
    for (int i = 0; i < REQUESTS; i++)
        ck_assert_uint_eq(
            gb_regions_remove(&regions, base + (uint64_t)i * GB_REGION_BYTES, 512), 1);
    ck_assert_uint_eq(regions.count, 0);
    /* A past peak does not keep its entries for ever. */
    ck_assert_uint_le(regions.spares, 64);
    gb_regions_clear(&regions);
}
END_TEST

START_TEST(test_prepare_without_memory)
{
    for (long allowed = 0; allowed < 3; allowed++) {
        unsigned became_live = 99;
        bool prepared;

        gb_regions_init(&regions);
        malloc_fail_after(allowed);
        prepared = gb_regions_prepare(&regions);
        malloc_recover();
        ck_assert_int_eq(prepared, allowed >= 2);
        ck_assert_uint_eq(regions.count, 0);
        ck_assert(gb_regions_prepare(&regions));
        ck_assert(gb_regions_add(&regions, base, 512, &became_live));
        gb_regions_clear(&regions);
    }
}
END_TEST

/* uthash's own tables fail, at each position: the add is refused and nothing has changed. */
START_TEST(test_add_without_memory)
{
    bool done = false;

    for (long allowed = 0; !done; allowed++) {
        unsigned became_live = 99;

        ck_assert_int_lt(allowed, 20);
        gb_regions_init(&regions);
        ck_assert(gb_regions_prepare(&regions));
        malloc_fail_after(allowed);
        done = gb_regions_add(&regions, base + GB_REGION_BYTES - 1, 2, &became_live);
        ck_assert_int_eq(malloc_recover() == 0, done);
        ck_assert_uint_eq(became_live, done ? 2 : 99);
        ck_assert_uint_eq(regions.count, done ? 2 : 0);
        ck_assert_uint_eq(regions.live_bytes, done ? 2 : 0);
        ck_assert_uint_eq(HASH_COUNT(regions.regions), done ? 2 : 0);
        gb_regions_clear(&regions);
    }
}
END_TEST

/* The second region of a straddling block fails when the table wants to grow. */
START_TEST(test_half_added_is_taken_back)
{
    uint64_t refused = 0;

    gb_regions_init(&regions);
    for (uint64_t i = 0; i < 4000; i += 2) {
        const uint64_t address = base + (i + 1) * GB_REGION_BYTES - 1;
        const uint64_t count = regions.count;
        unsigned became_live = 99;
        bool added;

        ck_assert(gb_regions_prepare(&regions));
        malloc_fail_after(i == 0 ? -1 : 0);
        added = gb_regions_add(&regions, address, 2, &became_live);
        malloc_recover();
        refused += !added;
        ck_assert_uint_eq(became_live, added ? 2 : 99);
        ck_assert_uint_eq(regions.count, added ? count + 2 : count);
        ck_assert_uint_eq(HASH_COUNT(regions.regions), regions.count);
        ck_assert_uint_eq(regions.live_bytes, regions.count);
    }
    ck_assert_uint_gt(refused, 0);
    gb_regions_clear(&regions);
}
END_TEST

static void add_and_remove(void *arg, int index)
{
    (void)arg;
    for (uint64_t i = 0; i < 2000; i++) {
        /* All threads share the regions, so one makes them live and another ends them. */
        const uint64_t address = base + (i % 7) * GB_REGION_BYTES + (uint64_t)index * 512;

        add(address, 512);
        gb_regions_remove(&regions, address, 512);
    }
}

START_TEST(test_threads)
{
    gb_regions_init(&regions);
    unit_threads(8, add_and_remove, NULL);
    ck_assert_uint_eq(regions.count, 0);
    ck_assert_uint_eq(regions.live_bytes, 0);
    ck_assert_ptr_null(regions.regions);
    gb_regions_clear(&regions);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {test_first_and_last_block,
                                  test_straddling_block,
                                  test_may_hold,
                                  test_many_in_flight,
                                  test_prepare_without_memory,
                                  test_add_without_memory,
                                  test_half_added_is_taken_back,
                                  test_threads};

    return unit_run("regions", tests, COUNT_OF(tests));
}
