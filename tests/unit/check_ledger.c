/* The two counters of a device. */
#include "resource/ledger.h"

#include "unit.h"

enum { ROUNDS = 1000000, BITE = 8 };

static struct gpubudget_accounting ledger;
static _Atomic int writers;

START_TEST(test_begins_empty)
{
    gb_ledger_init(&ledger);
    gb_ledger_acquire(&ledger, 5);
    gb_ledger_init(&ledger);
    ck_assert_uint_eq(gpubudget_accounting_acquired(&ledger), 0);
    ck_assert_uint_eq(gpubudget_accounting_reclaimed(&ledger), 0);
    ck_assert_uint_eq(gpubudget_accounting_outstanding(&ledger), 0);
}
END_TEST

START_TEST(test_both_totals_grow)
{
    gb_ledger_init(&ledger);
    gb_ledger_acquire(&ledger, 100);
    gb_ledger_reclaim(&ledger, 60);
    gb_ledger_acquire(&ledger, 1);
    ck_assert_uint_eq(gpubudget_accounting_acquired(&ledger), 101);
    ck_assert_uint_eq(gpubudget_accounting_reclaimed(&ledger), 60);
    ck_assert_uint_eq(gpubudget_accounting_outstanding(&ledger), 41);
}
END_TEST

/* Where a process before this one has counted. */
START_TEST(test_shared_totals)
{
    struct gb_ledger_totals totals = {.acquired = 700, .reclaimed = 700};
    uint64_t acquired, reclaimed;

    gb_ledger_init(&ledger);
    gb_ledger_acquire(&ledger, 30);
    gb_ledger_reclaim(&ledger, 10);
    gb_ledger_share(&ledger, &totals);
    ck_assert_uint_eq(totals.acquired, 730);
    ck_assert_uint_eq(totals.reclaimed, 710);
    gb_ledger_acquire(&ledger, 5);
    gb_ledger_reclaim(&ledger, 20);
    ck_assert_uint_eq(gb_ledger_difference(&totals), 5);
    ck_assert_uint_eq(gpubudget_accounting_acquired(&ledger), 35);
    ck_assert_uint_eq(gpubudget_accounting_reclaimed(&ledger), 30);
    ck_assert_uint_eq(gpubudget_accounting_outstanding(&ledger), 5);
    gb_ledger_sample(&ledger, &acquired, &reclaimed);
    ck_assert_uint_eq(acquired, 35);
    ck_assert_uint_eq(reclaimed, 30);
    /* A child of a fork: what its parent holds stays where it is. */
    gb_ledger_init(&ledger);
    gb_ledger_acquire(&ledger, 1);
    ck_assert_uint_eq(gb_ledger_difference(&totals), 5);
    ck_assert_uint_eq(gb_ledger_outstanding(&ledger), 1);
}
END_TEST

START_TEST(test_sample_is_both_totals)
{
    uint64_t acquired, reclaimed;

    gb_ledger_init(&ledger);
    gb_ledger_acquire(&ledger, UINT64_C(1) << 40);
    gb_ledger_reclaim(&ledger, 7);
    gb_ledger_sample(&ledger, &acquired, &reclaimed);
    ck_assert_uint_eq(acquired, UINT64_C(1) << 40);
    ck_assert_uint_eq(reclaimed, 7);
}
END_TEST

static void take_and_give_back(void)
{
    for (int i = 0; i < ROUNDS; i++) {
        gb_ledger_acquire(&ledger, BITE);
        gb_ledger_reclaim(&ledger, BITE);
    }
    atomic_fetch_sub(&writers, 1);
}

static void write_or_watch(void *arg, int index)
{
    uint64_t last_acquired = 0, last_reclaimed = 0;

    (void)arg;
    if (index < 2) {
        take_and_give_back();
        return;
    }
    while (atomic_load(&writers) > 0) {
        uint64_t reclaimed = gpubudget_accounting_reclaimed(&ledger);
        uint64_t acquired = gpubudget_accounting_acquired(&ledger);
        uint64_t outstanding = gpubudget_accounting_outstanding(&ledger);

        ck_assert_uint_ge(acquired, last_acquired);
        ck_assert_uint_ge(reclaimed, last_reclaimed);
        /* Never below the truth, so never wrapped below zero. */
        ck_assert_uint_le(outstanding, 2 * (uint64_t)ROUNDS * BITE);
        last_acquired = acquired;
        last_reclaimed = reclaimed;
    }
}

START_TEST(test_monotonic_under_threads)
{
    gb_ledger_init(&ledger);
    atomic_store(&writers, 2);
    unit_threads(4, write_or_watch, NULL);
    ck_assert_uint_eq(gpubudget_accounting_acquired(&ledger), 2 * (uint64_t)ROUNDS * BITE);
    ck_assert_uint_eq(gpubudget_accounting_outstanding(&ledger), 0);
}
END_TEST

static void write_or_sample(void *arg, int index)
{
    uint64_t acquired, reclaimed;

    (void)arg;
    if (index == 0) {
        take_and_give_back();
        return;
    }
    while (atomic_load(&writers) > 0) {
        gb_ledger_sample(&ledger, &acquired, &reclaimed);
        /* With one writer, one bite or none is out at every single moment. */
        ck_assert(acquired == reclaimed || acquired == reclaimed + BITE);
    }
}

START_TEST(test_sample_is_of_one_moment)
{
    gb_ledger_init(&ledger);
    atomic_store(&writers, 1);
    unit_threads(2, write_or_sample, NULL);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {
        test_begins_empty,          test_both_totals_grow,        test_shared_totals,
        test_sample_is_both_totals, test_monotonic_under_threads, test_sample_is_of_one_moment};

    return unit_run("ledger", tests, COUNT_OF(tests));
}
