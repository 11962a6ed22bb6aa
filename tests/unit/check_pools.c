/* The memory pools of a device, each a gauge of the ledger. On the stand-in. */
#include "resource/pools.h"

#include "failing_malloc.h"
#include "standin_unit.h"

#include <stdlib.h>

static struct gpubudget_accounting ledger;
static struct gb_pools pools;
static CUstream stream;

static void begin(bool charged)
{
    standin_begin();
    stream = standin_stream();
    gb_ledger_init(&ledger);
    gb_pools_init(&pools, 0, charged, &ledger);
}

static struct gb_pool *make_pool(bool uncharged)
{
    struct gb_pool *pool = gb_pools_get(&pools, &api, standin_pool(), uncharged);

    ck_assert_ptr_nonnull(pool);
    return pool;
}

static CUdeviceptr take(struct gb_pool *pool, size_t bytes)
{
    CUdeviceptr pointer = 0;

    ck_assert_int_eq(cuMemAllocFromPoolAsync(&pointer, bytes, pool->handle, stream),
                     CUDA_SUCCESS);
    return pointer;
}

static void give_back(CUdeviceptr pointer)
{
    ck_assert_int_eq(cuMemFreeAsync(pointer, stream), CUDA_SUCCESS);
    ck_assert_int_eq(cuStreamSynchronize(stream), CUDA_SUCCESS);
}

/* The pool gets so many idle steps of 32 MiB, each of which can be trimmed alone. */
static void warm(struct gb_pool *pool, int steps)
{
    CUdeviceptr pointers[8];

    for (int i = 0; i < steps; i++)
        pointers[i] = take(pool, 32 * MIB);
    for (int i = 0; i < steps; i++)
        give_back(pointers[i]);
}

static uint64_t outstanding(void)
{
    return gb_ledger_outstanding(&ledger);
}

/* As the preload does it. */
static uint64_t destroy(struct gb_pool *pool)
{
    uint64_t used, held;

    gb_pool_close(&pools, pool, &used, &held);
    ck_assert_int_eq(cuMemPoolDestroy(pool->handle), CUDA_SUCCESS);
    return gb_pools_destroyed(&pools, pool, used, held);
}

START_TEST(test_gauge)
{
    struct gb_pool *pool;
    CUdeviceptr pointer;

    begin(true);
    pool = make_pool(false);
    ck_assert_uint_eq(gb_pool_refresh(&pools, pool), 0);
    pointer = take(pool, 40 * MIB);
    ck_assert_uint_eq(gb_pool_refresh(&pools, pool), 64 * MIB);
    ck_assert_uint_eq(outstanding(), standin_pool_reserved(0));
    /* Posted once: a second look finds nothing new. */
    ck_assert_uint_eq(gb_pool_refresh(&pools, pool), 0);
    ck_assert_uint_eq(outstanding(), 64 * MIB);
    give_back(pointer);
    gb_pool_refresh(&pools, pool);
    ck_assert_uint_eq(outstanding(), 64 * MIB);
    ck_assert_int_eq(cuMemPoolTrimTo(pool->handle, 0), CUDA_SUCCESS);
    ck_assert_uint_eq(gb_pool_refresh(&pools, pool), 0);
    ck_assert_uint_eq(outstanding(), 0);
    ck_assert_uint_eq(gpubudget_accounting_acquired(&ledger), 64 * MIB);
    gb_pools_clear(&pools);
}
END_TEST

/* A grant of up to `most`, with room for bounds up to `slack`. */
static CUdeviceptr granted(struct gb_pool *pool, uint64_t slack, uint64_t charged)
{
    CUdeviceptr pointer = take(pool, MIB);

    ck_assert_uint_eq(gb_pool_granted(&pools, pool, 32 * MIB, slack, 0), charged);
    return pointer;
}

START_TEST(test_bounds_until_the_next_look)
{
    struct gb_pool *pool;

    begin(true);
    pool = make_pool(false);
    standin_reset_counts();
    granted(pool, 100 * MIB, 32 * MIB);
    granted(pool, 100 * MIB, 32 * MIB);
    granted(pool, 100 * MIB, 32 * MIB);
    ck_assert_uint_eq(outstanding(), 96 * MIB);
    ck_assert_uint_eq(standin_calls("cuMemPoolGetAttribute"), 0);
    /* The fourth would be too much: it looks, and all have been seen. */
    granted(pool, 100 * MIB, 32 * MIB);
    ck_assert_uint_eq(outstanding(), 32 * MIB);
    /* No more than some in a row, whatever the slack. */
    standin_reset_counts();
    for (int i = 0; i < GB_POOL_BLIND_MOST; i++)
        cuMemFreeAsync(granted(pool, UINT64_MAX, 32 * MIB), stream);
    ck_assert_uint_eq(standin_calls("cuMemPoolGetAttribute"), 0);
    granted(pool, UINT64_MAX, 0);
    ck_assert_uint_eq(outstanding(), 32 * MIB);
    granted(pool, UINT64_MAX, 32 * MIB);
    gb_pools_refresh(&pools);
    ck_assert_uint_eq(outstanding(), standin_pool_reserved(0));
    gb_pools_clear(&pools);
}
END_TEST

/* What could not be looked at stays charged by its bounds, and once. */
START_TEST(test_bounds_when_a_look_fails)
{
    struct gb_pool *pool;
    uint64_t used, held;

    begin(true);
    pool = make_pool(false);
    granted(pool, UINT64_MAX, 32 * MIB);
    granted(pool, UINT64_MAX, 32 * MIB);
    standin_fail("cuMemPoolGetAttribute", 0, CUDA_ERROR_UNKNOWN);
    gb_pools_refresh(&pools);
    ck_assert_uint_eq(outstanding(), 64 * MIB);
    /* A grant that wants to look and cannot is posted by its bound as well. */
    granted(pool, 0, 32 * MIB);
    ck_assert_uint_eq(outstanding(), 96 * MIB);
    gb_pool_close(&pools, pool, &used, &held);
    ck_assert_uint_eq(held, 96 * MIB);
    gb_pool_reopen(pool);
    standin_fail_clear();
    gb_pools_refresh(&pools);
    ck_assert_uint_eq(outstanding(), 32 * MIB);
    gb_pools_clear(&pools);
}
END_TEST

START_TEST(test_failing_read_changes_nothing)
{
    struct gb_pool *pool;

    begin(true);
    pool = make_pool(false);
    take(pool, MIB);
    standin_fail("cuMemPoolGetAttribute", 0, CUDA_ERROR_UNKNOWN);
    ck_assert_uint_eq(gb_pool_refresh(&pools, pool), 0);
    gb_pools_refresh(&pools);
    ck_assert_uint_eq(outstanding(), 0);
    standin_fail_clear();
    gb_pools_refresh(&pools);
    ck_assert_uint_eq(outstanding(), 32 * MIB);
    gb_pools_clear(&pools);
}
END_TEST

START_TEST(test_uncharged)
{
    struct gb_pool *pool;

    begin(true);
    pool = make_pool(true);
    take(pool, MIB);
    gb_pool_refresh(&pools, pool);
    gb_pools_refresh(&pools);
    ck_assert_uint_eq(outstanding(), 0);
    ck_assert(!gb_pools_make_room(&pools, 1));
    gb_pools_clear(&pools);
}
END_TEST

/* In requested mode pools are known and never looked at. */
START_TEST(test_mode_without_gauges)
{
    struct gb_pool *pool;

    begin(false);
    pool = make_pool(false);
    give_back(take(pool, MIB));
    standin_reset_counts();
    gb_pool_refresh(&pools, pool);
    gb_pools_refresh(&pools);
    ck_assert(!gb_pools_make_room(&pools, MIB));
    ck_assert_uint_eq(standin_calls("cu*"), 0);
    ck_assert_uint_eq(outstanding(), 0);
    gb_pools_clear(&pools);
}
END_TEST

START_TEST(test_current_is_asked_once)
{
    CUmemoryPool other;
    struct gb_pool *pool;

    begin(true);
    standin_reset_counts();
    pool = gb_pools_current(&pools, &api);
    ck_assert_ptr_nonnull(pool);
    ck_assert_ptr_eq(gb_pools_current(&pools, &api), pool);
    ck_assert_uint_eq(standin_calls("cuDeviceGetMemPool"), 1);
    other = standin_pool();
    gb_pools_switch_begins();
    ck_assert_int_eq(cuDeviceSetMemPool(0, other), CUDA_SUCCESS);
    /* Not remembered while a switch is in progress: there may be another one. */
    ck_assert_uint_eq(gb_pools_era(), 0);
    gb_pools_current(&pools, &api);
    ck_assert_ptr_eq(gb_pools_current(&pools, &api)->handle, other);
    ck_assert_uint_eq(standin_calls("cuDeviceGetMemPool"), 3);
    gb_pools_switch_ends();
    ck_assert_ptr_eq(gb_pools_current(&pools, &api)->handle, other);
    ck_assert_ptr_eq(gb_pools_find(&pools, &api, other), gb_pools_current(&pools, &api));
    ck_assert_uint_eq(standin_calls("cuDeviceGetMemPool"), 4);
    gb_pools_switch_begins();
    gb_pools_switch_ends();
    standin_fail("cuDeviceGetMemPool", 1, CUDA_ERROR_UNKNOWN);
    ck_assert_ptr_null(gb_pools_current(&pools, &api));
    ck_assert_ptr_eq(gb_pools_current(&pools, &api)->handle, other);
    gb_pools_clear(&pools);
}
END_TEST

START_TEST(test_least_growth)
{
    struct gb_pool *pool;

    begin(true);
    pool = make_pool(false);
    ck_assert_uint_eq(gb_pool_least_growth(pool, 10 * MIB), 10 * MIB);
    give_back(take(pool, 20 * MIB));
    ck_assert_uint_eq(gb_pool_least_growth(pool, 10 * MIB), 0);
    ck_assert_uint_eq(gb_pool_least_growth(pool, 32 * MIB), 0);
    ck_assert_uint_eq(gb_pool_least_growth(pool, 40 * MIB), 8 * MIB);
    take(pool, 16 * MIB);
    ck_assert_uint_eq(gb_pool_least_growth(pool, 32 * MIB), 16 * MIB);
    gb_pools_clear(&pools);
}
END_TEST

START_TEST(test_room_only_when_it_helps)
{
    struct gb_pool *first, *second;

    begin(true);
    first = make_pool(false);
    second = make_pool(false);
    warm(first, 2);
    warm(second, 3);
    gb_pools_refresh(&pools);
    ck_assert_uint_eq(outstanding(), 160 * MIB);
    standin_reset_counts();
    /* More than all of them have: the program's warm memory is left alone. */
    ck_assert(!gb_pools_make_room(&pools, 161 * MIB));
    ck_assert_uint_eq(standin_calls("cuMemPoolTrimTo"), 0);
    ck_assert_uint_eq(outstanding(), 160 * MIB);
    /* One pool has enough: the other keeps what it has. */
    ck_assert(gb_pools_make_room(&pools, 32 * MIB));
    ck_assert_uint_eq(standin_calls("cuMemPoolTrimTo"), 1);
    ck_assert_uint_eq(outstanding(), 128 * MIB);
    ck_assert_uint_eq(outstanding(), standin_pool_reserved(0));
    /* More than one pool has: as many as it takes. */
    ck_assert(gb_pools_make_room(&pools, 128 * MIB));
    ck_assert_uint_eq(outstanding(), 0);
    ck_assert(!gb_pools_make_room(&pools, 1));
    gb_pools_clear(&pools);
}
END_TEST

START_TEST(test_room_leaves_used_memory)
{
    struct gb_pool *pool;

    begin(true);
    pool = make_pool(false);
    take(pool, 32 * MIB);
    give_back(take(pool, 32 * MIB));
    gb_pools_refresh(&pools);
    ck_assert(!gb_pools_make_room(&pools, 33 * MIB));
    ck_assert(gb_pools_make_room(&pools, 32 * MIB));
    ck_assert_uint_eq(outstanding(), 32 * MIB);
    gb_pools_clear(&pools);
}
END_TEST

START_TEST(test_failing_trim)
{
    struct gb_pool *pool;

    begin(true);
    pool = make_pool(false);
    give_back(take(pool, 32 * MIB));
    gb_pools_refresh(&pools);
    standin_fail("cuMemPoolTrimTo", 0, CUDA_ERROR_UNKNOWN);
    ck_assert(!gb_pools_make_room(&pools, 32 * MIB));
    standin_fail_clear();
    ck_assert_uint_eq(outstanding(), 32 * MIB);
    ck_assert_int_eq(pool->trims, 0);
    ck_assert(gb_pools_make_room(&pools, 32 * MIB));
    ck_assert_uint_eq(outstanding(), 0);
    gb_pools_clear(&pools);
}
END_TEST

/* Destroyed while empty but warm: all of its charge goes. */
START_TEST(test_destroyed_idle)
{
    struct gb_pool *pool;

    begin(true);
    pool = make_pool(false);
    give_back(take(pool, 32 * MIB));
    gb_pool_refresh(&pools, pool);
    gb_ledger_reclaim(&ledger, destroy(pool));
    ck_assert_uint_eq(outstanding(), 0);
    ck_assert_uint_eq(standin_pool_reserved(0), 0);
    ck_assert_ptr_null(gb_pools_find(&pools, &api, pool->handle));
    /* Nobody asks it any more. */
    standin_reset_counts();
    gb_pool_refresh(&pools, pool);
    gb_pools_refresh(&pools);
    ck_assert_uint_eq(standin_calls("cuMemPoolGetAttribute"), 0);
    gb_pools_clear(&pools);
}
END_TEST

START_TEST(test_destroyed_with_live_blocks)
{
    struct gb_pool *pool;
    CUdeviceptr first, second;
    uint64_t bytes = 0;

    begin(true);
    pool = make_pool(false);
    first = take(pool, 32 * MIB);
    second = take(pool, 32 * MIB);
    give_back(take(pool, 32 * MIB));
    gb_pool_refresh(&pools, pool);
    ck_assert_uint_eq(outstanding(), 96 * MIB);
    ck_assert_uint_eq(destroy(pool), 0);
    ck_assert_int_eq(atomic_load(&pools.orphaned), 1);
    ck_assert_uint_eq(outstanding(), 64 * MIB);
    ck_assert_ptr_eq(gb_pools_orphan_of(&pools, &api, first, &bytes), pool);
    ck_assert_uint_eq(bytes, 32 * MIB);
    ck_assert_ptr_null(gb_pools_orphan_of(&pools, &api, first + 4096, &bytes));
    ck_assert_uint_eq(gb_pools_orphan_freed(&pools, pool, bytes), 0);
    ck_assert_ptr_eq(gb_pools_orphan_of(&pools, &api, second, &bytes), pool);
    ck_assert_uint_eq(gb_pools_orphan_freed(&pools, pool, bytes), 64 * MIB);
    ck_assert_int_eq(atomic_load(&pools.orphaned), 0);
    /* More frees of it than there were blocks: nothing goes twice. */
    ck_assert_uint_eq(gb_pools_orphan_freed(&pools, pool, bytes), 0);
    gb_pools_clear(&pools);
}
END_TEST

START_TEST(test_destroy_fails)
{
    struct gb_pool *pool;
    uint64_t used, held;

    begin(true);
    pool = make_pool(false);
    take(pool, 32 * MIB);
    gb_pool_refresh(&pools, pool);
    gb_pool_close(&pools, pool, &used, &held);
    ck_assert_uint_eq(used, 32 * MIB);
    ck_assert_uint_eq(held, 32 * MIB);
    /* Its handle may die at any moment: nobody asks it, trims it or posts it meanwhile. */
    standin_reset_counts();
    gb_pools_refresh(&pools);
    gb_pools_make_room(&pools, MIB);
    ck_assert_uint_eq(gb_pool_least_growth(pool, MIB), MIB);
    ck_assert_uint_eq(standin_calls("cuMemPool*"), 0);
    gb_pool_reopen(pool);
    take(pool, 32 * MIB);
    ck_assert_uint_eq(gb_pool_refresh(&pools, pool), 32 * MIB);
    ck_assert_uint_eq(outstanding(), 64 * MIB);
    gb_pools_clear(&pools);
}
END_TEST

/* Entries serve later pools: a program that makes and destroys pools does not grow. */
START_TEST(test_entries_are_recycled)
{
    struct gb_pool *first;

    begin(true);
    first = make_pool(false);
    for (int i = 0; i < 100; i++) {
        struct gb_pool *pool = i == 0 ? first : make_pool(i % 2);
        CUdeviceptr pointer = take(pool, 32 * MIB);

        ck_assert_ptr_eq(pool, first);
        gb_pool_refresh(&pools, pool);
        ck_assert_uint_eq(outstanding(), i % 2 ? 0 : 32 * MIB);
        give_back(pointer);
        gb_ledger_reclaim(&ledger, destroy(pool));
        ck_assert_uint_eq(outstanding(), 0);
    }
    /* An entry that is still charged for live blocks is not free. */
    take(make_pool(false), 32 * MIB);
    gb_pools_refresh(&pools);
    destroy(first);
    ck_assert_ptr_ne(make_pool(false), first);
    ck_assert_uint_eq(outstanding(), 32 * MIB);
    gb_pools_clear(&pools);
}
END_TEST

START_TEST(test_without_memory)
{
    CUmemoryPool handle;
    struct gb_pool *pool = NULL;

    begin(true);
    handle = standin_pool();
    for (long allowed = 0; !pool; allowed++) {
        ck_assert_int_lt(allowed, 20);
        malloc_fail_after(allowed);
        pool = gb_pools_get(&pools, &api, handle, false);
        malloc_recover();
        ck_assert_ptr_eq(gb_pools_find(&pools, &api, handle), pool);
    }
    take(pool, MIB);
    gb_pool_refresh(&pools, pool);
    ck_assert_uint_eq(outstanding(), 32 * MIB);
    gb_pools_clear(&pools);
}
END_TEST

/* A recycled entry that could not be entered is free again, not lost. */
START_TEST(test_recycling_without_memory)
{
    struct gb_pool *first, *second;
    CUmemoryPool handle;

    begin(true);
    first = make_pool(false);
    destroy(first);
    handle = standin_pool();
    malloc_fail_after(0);
    second = gb_pools_get(&pools, &api, handle, false);
    malloc_recover();
    ck_assert_ptr_null(second);
    ck_assert_ptr_eq(gb_pools_get(&pools, &api, handle, false), first);
    gb_pools_clear(&pools);
}
END_TEST

/* Some allocate and free, the others only look: each growth is posted exactly once. */
static void use_and_look(void *arg, int index)
{
    struct gb_pool *pool = arg;
    CUstream own = NULL;

    cuCtxSetCurrent(context);
    cuStreamCreate(&own, CU_STREAM_NON_BLOCKING);
    for (int i = 0; i < 400; i++) {
        CUdeviceptr pointer = 0;

        if (index % 2 == 0) {
            cuMemAllocFromPoolAsync(&pointer, (size_t)(i % 5 + 1) * 16 * MIB, pool->handle,
                                    own);
            gb_pool_refresh(&pools, pool);
            cuMemFreeAsync(pointer, own);
        } else if (i % 16 == 0) {
            gb_pools_make_room(&pools, 32 * MIB);
        } else {
            gb_pools_refresh(&pools);
        }
        if (i % 8 == 0)
            cuStreamSynchronize(own);
    }
    cuStreamSynchronize(own);
}

START_TEST(test_posted_once_by_racing_readers)
{
    struct gb_pool *pool;

    begin(true);
    pool = make_pool(false);
    unit_threads(8, use_and_look, pool);
    gb_pools_refresh(&pools);
    ck_assert_uint_eq(outstanding(), standin_pool_reserved(0));
    ck_assert_uint_eq(outstanding(), atomic_load(&pool->posted));
    ck_assert_int_eq(cuMemPoolTrimTo(pool->handle, 0), CUDA_SUCCESS);
    gb_pools_refresh(&pools);
    ck_assert_uint_eq(outstanding(), 0);
    gb_pools_clear(&pools);
}
END_TEST

/* Pools come and go while others refresh and trim all of them. */
static void make_and_destroy(void *arg, int index)
{
    (void)arg;
    cuCtxSetCurrent(context);
    for (int i = 0; i < 150; i++) {
        if (index % 2 == 0) {
            struct gb_pool *pool = make_pool(false);
            CUdeviceptr pointer = 0;
            CUstream own = NULL;

            cuStreamCreate(&own, CU_STREAM_NON_BLOCKING);
            cuMemAllocFromPoolAsync(&pointer, MIB, pool->handle, own);
            gb_pool_refresh(&pools, pool);
            cuMemFreeAsync(pointer, own);
            cuStreamSynchronize(own);
            gb_ledger_reclaim(&ledger, destroy(pool));
            cuStreamDestroy_v2(own);
        } else if (i % 8 == 0) {
            gb_pools_make_room(&pools, 32 * MIB);
        } else {
            gb_pools_refresh(&pools);
        }
    }
}

START_TEST(test_destroyed_under_racing_readers)
{
    begin(true);
    unit_threads(6, make_and_destroy, NULL);
    gb_pools_refresh(&pools);
    ck_assert_uint_eq(outstanding(), 0);
    ck_assert_uint_eq(standin_pool_reserved(0), 0);
    ck_assert_int_eq(atomic_load(&pools.orphaned), 0);
    gb_pools_clear(&pools);
}
END_TEST

START_TEST(test_beside_a_capture)
{
    struct gb_pool *pool;
    CUgraph graph = NULL;

    begin(true);
    pool = make_pool(false);
    give_back(take(pool, 32 * MIB));
    ck_assert_int_eq(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL),
                     CUDA_SUCCESS);
    gb_pools_current(&pools, &api);
    gb_pools_refresh(&pools);
    ck_assert_uint_eq(outstanding(), 32 * MIB);
    ck_assert(gb_pools_make_room(&pools, 32 * MIB));
    ck_assert_uint_eq(gb_pool_least_growth(pool, 5), 5);
    ck_assert_int_eq(cuStreamEndCapture(stream, &graph), CUDA_SUCCESS);
    gb_pools_clear(&pools);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {test_gauge,
                                  test_bounds_until_the_next_look,
                                  test_bounds_when_a_look_fails,
                                  test_failing_read_changes_nothing,
                                  test_uncharged,
                                  test_mode_without_gauges,
                                  test_current_is_asked_once,
                                  test_least_growth,
                                  test_room_only_when_it_helps,
                                  test_room_leaves_used_memory,
                                  test_failing_trim,
                                  test_destroyed_idle,
                                  test_destroyed_with_live_blocks,
                                  test_destroy_fails,
                                  test_entries_are_recycled,
                                  test_without_memory,
                                  test_recycling_without_memory,
                                  test_posted_once_by_racing_readers,
                                  test_destroyed_under_racing_readers,
                                  test_beside_a_capture};

    return unit_run("pools", tests, COUNT_OF(tests));
}
