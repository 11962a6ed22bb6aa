/* Credit: lanes by themselves, and those of a pool on the stand-in. */
#include "resource/credit.h"

#include "resource/pools.h"

#include "standin_unit.h"

#include <sched.h>
#include <stdlib.h>

static struct gb_credit credit;
static _Atomic uint64_t floating;

static void call_in(uint64_t free, uint64_t spent)
{
    uint64_t was_free, was_spent;

    gb_credit_call_in(&credit, &floating, 10, &was_free, &was_spent);
    ck_assert_uint_eq(was_free, free);
    ck_assert_uint_eq(was_spent, spent);
    /* Floating, too, until the caller has settled them. */
    ck_assert_uint_ge(atomic_load(&floating), 10 * (free + spent));
    atomic_fetch_sub(&floating, 10 * (free + spent));
}

START_TEST(test_lane)
{
    unsigned spent, all;

    ck_assert(gb_credit_is_empty(&credit));
    ck_assert(!gb_credit_claim(&credit, 3, 1));
    call_in(0, 0);
    ck_assert(gb_credit_add(&credit, 3, 1, 5));
    ck_assert(!gb_credit_is_empty(&credit));
    ck_assert(!gb_credit_claim(&credit, 3, 6));
    ck_assert(!gb_credit_claim(&credit, 2, 1));
    ck_assert(gb_credit_claim(&credit, 3, 2));
    ck_assert(gb_credit_claim(&credit, 3, 3));
    ck_assert(!gb_credit_claim(&credit, 3, 1));
    gb_credit_look(&credit, 3, &spent, &all);
    ck_assert_uint_eq(spent, 1);
    ck_assert_uint_eq(all, 6);
    ck_assert(!gb_credit_landed(&credit, 3, 3, true));
    /* Nothing was granted: it can be claimed again. */
    ck_assert(!gb_credit_landed(&credit, 3, 2, false));
    ck_assert(gb_credit_claim(&credit, 3, 2));
    ck_assert(!gb_credit_landed(&credit, 3, 2, true));
    gb_credit_look(&credit, 3, &spent, &all);
    ck_assert_uint_eq(spent, 6);
    call_in(0, 6);
    ck_assert(gb_credit_is_empty(&credit));
    ck_assert_uint_eq(atomic_load(&floating), 0);
}
END_TEST

START_TEST(test_called_in_while_flying)
{
    unsigned spent, all;
    uint64_t word;

    ck_assert(gb_credit_add(&credit, 0, 1, 4));
    ck_assert(gb_credit_add(&credit, 15, 2, 7));
    ck_assert(gb_credit_claim(&credit, 0, 1));
    ck_assert(gb_credit_claim(&credit, 0, 2));
    call_in(1 + 7, 1 + 2);
    ck_assert_uint_eq(atomic_load(&floating), 30);
    ck_assert(!gb_credit_is_empty(&credit));
    /* Closed until they have landed: nothing new is lent nor claimed there, nor renewed. */
    ck_assert(!gb_credit_add(&credit, 0, 1, 1));
    word = gb_credit_look(&credit, 0, &spent, &all);
    ck_assert_uint_eq(all, 3);
    ck_assert(!gb_credit_renew(&credit, 0, word));
    call_in(0, 0);
    ck_assert_uint_eq(atomic_load(&floating), 30);
    ck_assert(gb_credit_landed(&credit, 0, 2, true));
    ck_assert(!gb_credit_add(&credit, 0, 1, 1));
    ck_assert(gb_credit_landed(&credit, 0, 1, false));
    ck_assert(gb_credit_add(&credit, 0, 0, 0));
    call_in(1, 2);
    ck_assert(gb_credit_is_empty(&credit));
}
END_TEST

START_TEST(test_renewed_only_if_unchanged)
{
    unsigned spent, all;
    uint64_t word;

    ck_assert(gb_credit_add(&credit, 1, 1, 1));
    word = gb_credit_look(&credit, 1, &spent, &all);
    ck_assert(gb_credit_renew(&credit, 1, word));
    ck_assert(gb_credit_claim(&credit, 1, 2));
    ck_assert(!gb_credit_landed(&credit, 1, 2, true));
    word = gb_credit_look(&credit, 1, &spent, &all);
    call_in(0, 2);
    ck_assert(!gb_credit_renew(&credit, 1, word));
    /* Also where it counts the same by now: what was spent then has been called in. */
    ck_assert(gb_credit_add(&credit, 1, 2, 0));
    ck_assert(!gb_credit_renew(&credit, 1, word));
    call_in(0, 2);
}
END_TEST

static _Atomic uint64_t lent, back, settled;

/* Three threads of one lane and others, who lend, claim, renew; index 0 calls in. */
static void lend_and_claim(void *arg, int index)
{
    _Atomic int *left = arg;
    unsigned lane = index < 4 ? 1 : (unsigned)index;

    if (index == 0) {
        while (atomic_load(left) > 0) {
            uint64_t free, spent;

            gb_credit_call_in(&credit, &floating, 1, &free, &spent);
            atomic_fetch_add(&back, free + spent);
            atomic_fetch_sub(&floating, free + spent);
            sched_yield();
        }
        return;
    }
    for (int i = 0; i < 20000; i++) {
        unsigned units = 1 + (unsigned)i % 3, spent, all;
        uint64_t word = gb_credit_look(&credit, lane, &spent, &all);

        if (gb_credit_claim(&credit, lane, units)) {
            if (i % 16 == 0)
                sched_yield();
            if (gb_credit_landed(&credit, lane, units, i % 5 != 0)) {
                atomic_fetch_sub(&floating, units);
                atomic_fetch_add(&settled, 1);
            }
        } else if (i % 2 == 0) {
            gb_credit_renew(&credit, lane, word);
        } else if (gb_credit_add(&credit, lane, 1, 8)) {
            atomic_fetch_add(&lent, 9);
        }
    }
    atomic_fetch_sub(left, 1);
}

START_TEST(test_threads)
{
    _Atomic int left = 7;
    uint64_t free, spent;

    unit_threads(8, lend_and_claim, &left);
    gb_credit_call_in(&credit, &floating, 1, &free, &spent);
    ck_assert(gb_credit_is_empty(&credit));
    ck_assert_uint_eq(atomic_load(&floating), free + spent);
    ck_assert_uint_eq(atomic_load(&back) + free + spent, atomic_load(&lent));
}
END_TEST

static struct gpubudget_accounting ledger;
static struct gb_pools pools;
static struct gb_pool *pool;
static CUstream stream;

static void begin(void)
{
    standin_begin();
    stream = standin_stream();
    gb_ledger_init(&ledger);
    gb_pools_init(&pools, 0, true, &ledger);
    pool = gb_pools_get(&pools, &api, standin_pool(), false);
    ck_assert_ptr_nonnull(pool);
}

static CUdeviceptr take(size_t bytes)
{
    CUdeviceptr pointer = 0;

    ck_assert_int_eq(cuMemAllocFromPoolAsync(&pointer, bytes, pool->handle, stream),
                     CUDA_SUCCESS);
    return pointer;
}

static uint64_t outstanding(void)
{
    return gb_ledger_outstanding(&ledger);
}

/* A grant on credit, of a block that is freed again or not. */
static void claimed(size_t bytes, bool keep)
{
    struct gb_claim claim;
    CUdeviceptr pointer;

    ck_assert(gb_pool_claim(&pools, pool, bytes, &claim));
    pointer = take(bytes);
    gb_pool_claimed(&pools, &claim, true);
    if (!keep)
        ck_assert_int_eq(cuMemFreeAsync(pointer, stream), CUDA_SUCCESS);
}

/* A grant that the budget let in, with credit for later ones. */
static void lend(uint64_t bytes)
{
    CUdeviceptr pointer = take(MIB);

    ck_assert_uint_eq(gb_pool_granted(&pools, pool, 32 * MIB, UINT64_MAX, bytes), 32 * MIB);
    ck_assert_int_eq(cuMemFreeAsync(pointer, stream), CUDA_SUCCESS);
}

START_TEST(test_warm_pool)
{
    struct gb_claim claim;

    begin();
    ck_assert(!gb_pool_claim(&pools, pool, MIB, &claim));
    lend(100 * MIB); /* of which three units are 96 */
    ck_assert_uint_eq(outstanding(), 128 * MIB);
    standin_reset_counts();
    for (int i = 0; i < 3; i++)
        claimed(MIB, false);
    ck_assert_uint_eq(standin_calls("cuMemPoolGetAttribute"), 0);
    ck_assert_uint_eq(outstanding(), 128 * MIB);
    /* The look finds what the first grant has taken: the truth is posted. */
    ck_assert(!gb_pool_claim(&pools, pool, MIB, &claim));
    ck_assert_uint_eq(outstanding(), 32 * MIB);
    /* Warm: nothing moves, and there is one look in as many grants as there are units. The lane
     * is small, so now and then it asks for more. */
    lend(7 * 32 * MIB);
    ck_assert_uint_eq(outstanding(), 9 * 32 * MIB);
    standin_reset_counts();
    for (int i = 0; i < 7 + 3 * 8; i++)
        claimed(MIB, false);
    ck_assert_uint_eq(standin_calls("cuMemPoolGetAttribute"), 3);
    ck_assert_uint_eq(outstanding(), 9 * 32 * MIB);
    ck_assert_uint_eq(gpubudget_accounting_acquired(&ledger), (4 + 1 + 8) * 32 * MIB);
    gb_pools_refresh(&pools);
    ck_assert_uint_eq(outstanding(), standin_pool_reserved(0));
    ck_assert(!gb_pool_claim(&pools, pool, MIB, &claim));
    gb_pools_clear(&pools);
}
END_TEST

/* What grants on credit take is in the ledger before, and is the truth after a look. */
START_TEST(test_growth_on_credit)
{
    begin();
    lend(64 * 32 * MIB);
    for (int i = 0; i < 20; i++) {
        claimed(40 * MIB, true);
        ck_assert_uint_ge(outstanding(), standin_pool_reserved(0));
    }
    gb_pools_refresh(&pools);
    ck_assert_uint_eq(outstanding(), standin_pool_reserved(0));
    gb_pools_clear(&pools);
}
END_TEST

START_TEST(test_small_lanes_ask_for_more)
{
    struct gb_claim claim;
    int asked = 0;

    begin();
    lend(32 * MIB);
    gb_pools_refresh(&pools);
    lend(32 * MIB);
    for (int i = 0; i < 1000; i++) {
        if (!gb_pool_claim(&pools, pool, MIB, &claim)) {
            asked++;
            continue;
        }
        gb_pool_claimed(&pools, &claim, true);
    }
    ck_assert_int_gt(asked, 10);
    ck_assert_int_lt(asked, 100);
    gb_pools_clear(&pools);
}
END_TEST

/* The driver refused: the bound was for nothing and serves again. */
START_TEST(test_nothing_granted)
{
    struct gb_claim claim;

    begin();
    lend(32 * MIB);
    for (int i = 0; i < 5; i++) {
        ck_assert(gb_pool_claim(&pools, pool, MIB, &claim));
        gb_pool_claimed(&pools, &claim, false);
    }
    ck_assert_uint_eq(outstanding(), 64 * MIB);
    gb_pools_refresh(&pools);
    ck_assert_uint_eq(outstanding(), 32 * MIB);
    /* More than is ever lent, or than can be counted. */
    ck_assert(!gb_pool_claim(&pools, pool, 65 * 32 * MIB, &claim));
    ck_assert(!gb_pool_claim(&pools, pool, SIZE_MAX, &claim));
    gb_pools_clear(&pools);
}
END_TEST

START_TEST(test_looked_at_while_flying)
{
    struct gb_claim claim, another;

    begin();
    lend(3 * 32 * MIB);
    ck_assert(gb_pool_claim(&pools, pool, 33 * MIB, &claim));
    gb_pools_refresh(&pools);
    /* The bound stays, and is known to be one. */
    ck_assert_uint_eq(outstanding(), 32 * MIB + 64 * MIB);
    ck_assert_uint_eq(atomic_load(&ledger.floating), 64 * MIB);
    ck_assert(!gb_pool_claim(&pools, pool, MIB, &another));
    take(33 * MIB);
    gb_pool_claimed(&pools, &claim, true);
    ck_assert_uint_eq(atomic_load(&ledger.floating), 0);
    ck_assert_uint_eq(outstanding(), standin_pool_reserved(0));
    gb_pools_clear(&pools);
}
END_TEST

/* A pool cannot be looked at: bounds stay, free credit does not. */
START_TEST(test_look_fails)
{
    begin();
    lend(3 * 32 * MIB);
    claimed(MIB, true);
    standin_fail("cuMemPoolGetAttribute", 0, CUDA_ERROR_UNKNOWN);
    gb_pools_refresh(&pools);
    ck_assert_uint_eq(outstanding(), 64 * MIB);
    ck_assert_uint_eq(atomic_load(&ledger.floating), 0);
    standin_fail_clear();
    gb_pools_refresh(&pools);
    ck_assert_uint_eq(outstanding(), 32 * MIB);
    gb_pools_clear(&pools);
}
END_TEST

START_TEST(test_destroyed_with_credit)
{
    struct gb_claim claim;
    uint64_t used, held;
    CUmemoryPool handle;

    begin();
    lend(5 * 32 * MIB);
    ck_assert_int_eq(cuStreamSynchronize(stream), CUDA_SUCCESS);
    ck_assert(gb_pool_claim(&pools, pool, MIB, &claim));
    gb_pool_close(&pools, pool, &used, &held);
    handle = pool->handle;
    ck_assert_int_eq(cuMemPoolDestroy(handle), CUDA_SUCCESS);
    gb_ledger_reclaim(&ledger, gb_pools_destroyed(&pools, pool, used, held));
    /* The one in flight is still charged, and the entry is not yet another pool's. */
    ck_assert_uint_eq(outstanding(), 32 * MIB);
    ck_assert_ptr_ne(gb_pools_get(&pools, &api, standin_pool(), false), pool);
    gb_pool_claimed(&pools, &claim, true);
    ck_assert_uint_eq(outstanding(), 0);
    ck_assert_uint_eq(atomic_load(&ledger.floating), 0);
    ck_assert_ptr_eq(gb_pools_get(&pools, &api, standin_pool(), false), pool);
    gb_pools_clear(&pools);
}
END_TEST

/* Grants on credit, with new credit and without, while others look and trim. */
static void grant_and_look(void *arg, int index)
{
    CUstream own = NULL;

    (void)arg;
    cuCtxSetCurrent(context);
    cuStreamCreate(&own, CU_STREAM_NON_BLOCKING);
    for (int i = 0; i < 500; i++) {
        size_t bytes = (size_t)(i % 5 + 1) * 16 * MIB;
        CUdeviceptr pointer = 0;
        struct gb_claim claim;

        if (index % 4 == 3) {
            if (i % 8 == 0)
                gb_pools_make_room(&pools, 32 * MIB);
            else if (i % 2 == 0)
                gb_pools_refresh(&pools);
            continue;
        }
        if (gb_pool_claim(&pools, pool, bytes, &claim)) {
            cuMemAllocFromPoolAsync(&pointer, bytes, pool->handle, own);
            ck_assert_uint_ge(outstanding(), 32 * MIB);
            gb_pool_claimed(&pools, &claim, pointer != 0);
        } else {
            cuMemAllocFromPoolAsync(&pointer, bytes, pool->handle, own);
            gb_pool_granted(&pools, pool, 96 * MIB, UINT64_MAX, i % 3 * 128 * MIB);
        }
        cuMemFreeAsync(pointer, own);
        if (i % 8 == 0)
            cuStreamSynchronize(own);
    }
    cuStreamSynchronize(own);
}

START_TEST(test_racing_grants)
{
    begin();
    unit_threads(8, grant_and_look, NULL);
    gb_pools_refresh(&pools);
    ck_assert_uint_eq(outstanding(), standin_pool_reserved(0));
    ck_assert_uint_eq(atomic_load(&ledger.floating), 0);
    ck_assert(gb_credit_is_empty(&pool->credit));
    gb_pools_clear(&pools);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {test_lane,
                                  test_called_in_while_flying,
                                  test_renewed_only_if_unchanged,
                                  test_threads,
                                  test_warm_pool,
                                  test_growth_on_credit,
                                  test_small_lanes_ask_for_more,
                                  test_nothing_granted,
                                  test_looked_at_while_flying,
                                  test_look_fails,
                                  test_destroyed_with_credit,
                                  test_racing_grants};

    return unit_run("credit", tests, COUNT_OF(tests));
}
