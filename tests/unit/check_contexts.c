/* The contexts of a device and what each was measured to take. */
#include "resource/contexts.h"

#include "failing_malloc.h"
#include "unit.h"

static struct gpubudget_accounting ledger;
static struct gb_contexts contexts;
static const struct gb_driver_api first_copy, second_copy;

/* The card's own tools, as the test wants them. */
static _Atomic uint64_t shown;
static bool tools_work = true;

static bool measure(void *arg, uint64_t *bytes)
{
    (void)arg;
    if (!tools_work)
        return false;
    *bytes = atomic_load(&shown);
    return true;
}

static CUcontext handle(uintptr_t number)
{
    return (CUcontext)(number * 64);
}

static void begin(void)
{
    gb_ledger_init(&ledger);
    gb_contexts_init(&contexts, &ledger);
    contexts.measure = measure;
    atomic_store(&shown, 0);
    tools_work = true;
}

/* A context that takes `size`, made alone; answers what was charged. */
static uint64_t create(uintptr_t number, uint64_t size)
{
    uint64_t before = 0, charged = 99;
    bool known = gb_contexts_measure(&contexts, &before);
    const uint64_t tracked = gb_ledger_outstanding(&ledger) - atomic_load(&contexts.charged);

    atomic_fetch_add(&shown, size);
    ck_assert(gb_contexts_add(&contexts, &first_copy, handle(number), false, known, before,
                              tracked, tracked, &charged));
    return charged;
}

START_TEST(test_charged_as_measured)
{
    begin();
    ck_assert_uint_eq(create(1, 524 * MIB), 524 * MIB);
    ck_assert_uint_eq(create(2, 600 * MIB), 600 * MIB);
    ck_assert_uint_eq(gb_ledger_outstanding(&ledger), 1124 * MIB);
    ck_assert_uint_eq(atomic_load(&contexts.learned), 600 * MIB);
    ck_assert_int_eq(atomic_load(&contexts.count), 2);
    ck_assert(gb_contexts_serial(&contexts, handle(1)) != 0);
    ck_assert(gb_contexts_serial(&contexts, handle(3)) == 0);
    ck_assert(gb_contexts_remove(&contexts, handle(1), 0));
    ck_assert(!gb_contexts_remove(&contexts, handle(1), 0));
    ck_assert_uint_eq(gb_ledger_outstanding(&ledger), 600 * MIB);
    ck_assert_uint_eq(atomic_load(&contexts.charged), 600 * MIB);
    ck_assert_int_eq(atomic_load(&contexts.count), 1);
    gb_contexts_clear(&contexts);
}
END_TEST

START_TEST(test_known_is_charged_once)
{
    uint64_t charged = 99;

    begin();
    create(1, 524 * MIB);
    ck_assert(
        gb_contexts_add(&contexts, &first_copy, handle(1), true, true, 0, 0, 0, &charged));
    ck_assert_uint_eq(charged, 0);
    ck_assert_uint_eq(gb_ledger_outstanding(&ledger), 524 * MIB);
    gb_contexts_clear(&contexts);
}
END_TEST

START_TEST(test_not_charged_where_nothing_measures)
{
    begin();
    contexts.measure = NULL;
    ck_assert_uint_eq(create(1, 524 * MIB), 0);
    ck_assert(gb_contexts_serial(&contexts, handle(1)) != 0);
    ck_assert_uint_eq(gb_ledger_outstanding(&ledger), 0);
    gb_contexts_clear(&contexts);
}
END_TEST

/* No tools: an estimate on the safe side, then what was learned while they worked. */
START_TEST(test_estimate)
{
    begin();
    tools_work = false;
    ck_assert_uint_eq(create(1, 524 * MIB), GB_CONTEXT_ESTIMATE);
    ck_assert(contexts.estimated);
    gb_contexts_clear(&contexts);

    begin();
    create(1, 524 * MIB);
    ck_assert(!contexts.estimated);
    tools_work = false;
    ck_assert_uint_eq(create(2, 524 * MIB), 524 * MIB);
    gb_contexts_clear(&contexts);
}
END_TEST

/* Or what the card lost meanwhile, where that can be a context. */
START_TEST(test_sampled)
{
    begin();
    tools_work = false;
    gb_contexts_sampled(&contexts, (int64_t)GIB);
    gb_contexts_sampled(&contexts, -(int64_t)GIB);
    gb_contexts_sampled(&contexts, (int64_t)MIB);
    ck_assert_uint_eq(gb_contexts_expected(&contexts), 0);
    ck_assert_uint_eq(create(1, 524 * MIB), GB_CONTEXT_ESTIMATE);
    ck_assert_uint_eq(gb_contexts_expected(&contexts), GB_CONTEXT_ESTIMATE);
    gb_contexts_sampled(&contexts, 518 * MIB);
    ck_assert_uint_eq(create(2, 524 * MIB), 518 * MIB);
    /* What the tools say counts more. */
    tools_work = true;
    create(3, 530 * MIB);
    gb_contexts_sampled(&contexts, 518 * MIB);
    tools_work = false;
    ck_assert_uint_eq(create(4, 524 * MIB), gb_contexts_expected(&contexts));
    ck_assert_uint_ne(gb_contexts_expected(&contexts), 518 * MIB);
    gb_contexts_clear(&contexts);
}
END_TEST

/* The tools may say nothing of this process for a while (0): never a negative figure. */
START_TEST(test_tools_show_nothing)
{
    begin();
    ck_assert_uint_eq(create(1, 0), GB_CONTEXT_ESTIMATE);
    gb_contexts_clear(&contexts);

    begin();
    create(1, 524 * MIB);
    atomic_store(&shown, 100 * MIB);
    ck_assert_uint_eq(create(2, 0), 0);
    ck_assert_uint_eq(gb_ledger_outstanding(&ledger), 524 * MIB);
    gb_contexts_clear(&contexts);
}
END_TEST

/* What others allocate during the call is not the context's. */
START_TEST(test_growth_of_others)
{
    uint64_t charged;

    begin();
    gb_ledger_acquire(&ledger, 64 * MIB);
    atomic_store(&shown, 64 * MIB + 100 * MIB + 524 * MIB);
    ck_assert(gb_contexts_add(&contexts, &first_copy, handle(1), false, true, 64 * MIB,
                              64 * MIB, 164 * MIB, &charged));
    ck_assert_uint_eq(charged, 524 * MIB);
    gb_contexts_clear(&contexts);

    /* The same where the tools have shown 50 MiB all along that nobody tracks. */
    begin();
    gb_ledger_acquire(&ledger, 64 * MIB);
    atomic_store(&shown, 50 * MIB + 64 * MIB + 100 * MIB + 524 * MIB);
    ck_assert(gb_contexts_add(&contexts, &first_copy, handle(1), false, true, 114 * MIB,
                              64 * MIB, 164 * MIB, &charged));
    ck_assert_uint_eq(charged, 524 * MIB);
    gb_contexts_clear(&contexts);
}
END_TEST

/* Two are made at once and each measurement sees both: the sum is right, whoever is first. */
START_TEST(test_two_at_once)
{
    uint64_t first, second;

    begin();
    atomic_store(&shown, 1048 * MIB);
    atomic_store(&contexts.making, 2);
    ck_assert(gb_contexts_add(&contexts, &first_copy, handle(1), false, true, 0, 0, 0, &first));
    atomic_store(&contexts.making, 1);
    /* The size of both is no context's size. */
    ck_assert_uint_eq(atomic_load(&contexts.learned), 0);
    ck_assert(
        gb_contexts_add(&contexts, &first_copy, handle(2), false, true, 0, 0, 0, &second));
    ck_assert_uint_eq(first + second, 1048 * MIB);
    ck_assert_uint_eq(gb_ledger_outstanding(&ledger), 1048 * MIB);
    gb_contexts_remove(&contexts, handle(1), 0);
    gb_contexts_remove(&contexts, handle(2), 0);
    ck_assert_uint_eq(gb_ledger_outstanding(&ledger), 0);
    gb_contexts_clear(&contexts);
}
END_TEST

static void make_and_end(void *arg, int index)
{
    (void)arg;
    for (int i = 0; i < 300; i++) {
        const uintptr_t number = (uintptr_t)(index + 1);
        uint64_t before = 0, charged;
        bool known = gb_contexts_measure(&contexts, &before);

        atomic_fetch_add(&shown, 10);
        ck_assert(gb_contexts_add(&contexts, &first_copy, handle(number), false, known, before,
                                  0, 0, &charged));
        ck_assert_uint_le(atomic_load(&contexts.charged), 8 * 10);
        atomic_fetch_sub(&shown, 10);
        ck_assert(gb_contexts_remove(&contexts, handle(number), 0));
    }
}

/* A thread ends a context; before it has noted that, another one's new context has its handle.
 */
START_TEST(test_handle_comes_back)
{
    uint64_t ended;

    begin();
    create(1, 524 * MIB);
    ended = gb_contexts_serial(&contexts, handle(1));
    atomic_fetch_sub(&shown, 524 * MIB);
    ck_assert(gb_contexts_remove(&contexts, handle(1), 0));
    create(1, 600 * MIB);
    ck_assert(!gb_contexts_remove(&contexts, handle(1), ended));
    ck_assert_uint_eq(gb_ledger_outstanding(&ledger), 600 * MIB);
    ck_assert(
        gb_contexts_remove(&contexts, handle(1), gb_contexts_serial(&contexts, handle(1))));
    ck_assert_uint_eq(gb_ledger_outstanding(&ledger), 0);
    gb_contexts_clear(&contexts);
}
END_TEST

START_TEST(test_threads)
{
    begin();
    unit_threads(8, make_and_end, NULL);
    ck_assert_uint_eq(gb_ledger_outstanding(&ledger), 0);
    ck_assert_uint_eq(atomic_load(&contexts.charged), 0);
    ck_assert_int_eq(atomic_load(&contexts.count), 0);
    gb_contexts_clear(&contexts);
}
END_TEST

START_TEST(test_primary_of_each_copy)
{
    uint64_t charged;

    begin();
    atomic_store(&shown, 10);
    ck_assert_ptr_null(gb_contexts_primary(&contexts, &first_copy));
    gb_contexts_add(&contexts, &first_copy, handle(1), false, true, 0, 0, 0, &charged);
    gb_contexts_add(&contexts, &first_copy, handle(2), true, true, 0, 0, 0, &charged);
    gb_contexts_add(&contexts, &second_copy, handle(3), true, true, 0, 0, 0, &charged);
    ck_assert_ptr_eq(gb_contexts_primary(&contexts, &first_copy), handle(2));
    ck_assert_ptr_eq(gb_contexts_primary(&contexts, &second_copy), handle(3));
    gb_contexts_remove(&contexts, handle(2), 0);
    ck_assert_ptr_null(gb_contexts_primary(&contexts, &first_copy));
    gb_contexts_clear(&contexts);
}
END_TEST

START_TEST(test_without_memory)
{
    bool done = false;

    for (long allowed = 0; !done; allowed++) {
        uint64_t charged = 99;

        ck_assert_int_lt(allowed, 20);
        begin();
        atomic_store(&shown, 10);
        malloc_fail_after(allowed);
        done =
            gb_contexts_add(&contexts, &first_copy, handle(1), false, true, 0, 0, 0, &charged);
        malloc_recover();
        ck_assert_uint_eq(charged, done ? 10 : 99);
        ck_assert_uint_eq(gb_ledger_outstanding(&ledger), done ? 10 : 0);
        ck_assert_int_eq(gb_contexts_serial(&contexts, handle(1)) != 0, done);
        gb_contexts_clear(&contexts);
    }
}
END_TEST

START_TEST(test_child_knows_the_size_only)
{
    begin();
    create(1, 524 * MIB);
    gb_ledger_init(&ledger);
    gb_contexts_clear(&contexts);
    gb_contexts_forked(&contexts);
    ck_assert(gb_contexts_serial(&contexts, handle(1)) == 0);
    ck_assert_uint_eq(atomic_load(&contexts.learned), 524 * MIB);
    ck_assert_uint_eq(gb_ledger_outstanding(&ledger), 0);
    ck_assert_uint_eq(atomic_load(&contexts.charged), 0);
    ck_assert(contexts.measure == measure);
}
END_TEST

/* Memory for kernels of executables stays: what has come for those that are gone serves later
 * ones. */
START_TEST(test_nodes)
{
    uint64_t serial = 99, other = 99;

    begin();
    create(1, 524 * MIB);
    /* The first ones find room. */
    ck_assert_uint_eq(gb_contexts_nodes_begin(&contexts, handle(1), 8, &serial), 0);
    ck_assert_uint_ne(serial, 0);
    gb_contexts_nodes_end(&contexts, handle(1), serial, 8);
    ck_assert_uint_eq(gb_contexts_nodes_begin(&contexts, handle(1), 1000, &other), 110 * MIB);
    ck_assert_uint_eq(other, serial);
    gb_contexts_nodes_came(&contexts, handle(1), serial, 108 * MIB);
    gb_contexts_nodes_end(&contexts, handle(1), serial, 1000);
    ck_assert_uint_eq(gb_contexts_nodes_begin(&contexts, handle(1), 1000, &other), 0);
    /* Small ones add up. */
    ck_assert_uint_eq(gb_contexts_nodes_begin(&contexts, handle(1), 17, &other), 4 * MIB);
    gb_contexts_nodes_end(&contexts, handle(1), serial, 17);
    ck_assert_uint_eq(gb_contexts_nodes_begin(&contexts, handle(1), 1000, &other), 112 * MIB);
    gb_contexts_nodes_end(&contexts, handle(1), serial, 2000);
    /* Another context has none of that, and what ended with the first one is no matter. */
    ck_assert(gb_contexts_remove(&contexts, handle(1), 0));
    create(1, 524 * MIB);
    gb_contexts_nodes_came(&contexts, handle(1), serial, 108 * MIB);
    ck_assert_uint_eq(gb_contexts_nodes_begin(&contexts, handle(1), 20, &other), 4 * MIB);
    ck_assert(other != serial);
    gb_contexts_nodes_end(&contexts, handle(1), serial, 10);
    ck_assert_uint_eq(gb_contexts_nodes_begin(&contexts, handle(1), 20, &other), 6 * MIB);
    gb_contexts_clear(&contexts);
}
END_TEST

/* No more than what has come is there: not what might have, nor what others took meanwhile. */
START_TEST(test_nodes_that_came)
{
    uint64_t serial = 0;

    begin();
    create(1, 524 * MIB);
    ck_assert_uint_eq(gb_contexts_nodes_begin(&contexts, handle(1), 1000, &serial), 110 * MIB);
    gb_contexts_nodes_end(&contexts, handle(1), serial, 1000);
    ck_assert_uint_eq(gb_contexts_nodes_begin(&contexts, handle(1), 1000, &serial), 110 * MIB);
    gb_contexts_nodes_came(&contexts, handle(1), serial, 54 * MIB);
    gb_contexts_nodes_end(&contexts, handle(1), serial, 1000);
    ck_assert_uint_eq(gb_contexts_nodes_begin(&contexts, handle(1), 1000, &serial), 56 * MIB);
    gb_contexts_nodes_came(&contexts, handle(1), serial, 1000 * MIB);
    ck_assert_uint_eq(gb_contexts_nodes_begin(&contexts, handle(1), 1000, &serial), 112 * MIB);
    gb_contexts_clear(&contexts);
}
END_TEST

/* Kernels of which it is not known where they are may be in any context, and nothing is there
 * for them. */
START_TEST(test_nodes_without_place)
{
    uint64_t serial = 0, none = 99;

    begin();
    create(1, 524 * MIB);
    ck_assert_uint_eq(gb_contexts_nodes_begin(&contexts, handle(1), 1000, &serial), 110 * MIB);
    gb_contexts_nodes_came(&contexts, handle(1), serial, 108 * MIB);
    gb_contexts_nodes_end(&contexts, handle(1), serial, 1000);
    ck_assert_uint_eq(gb_contexts_nodes_begin(&contexts, NULL, 1000, &none), 110 * MIB);
    ck_assert_uint_eq(none, 0);
    ck_assert_uint_eq(gb_contexts_nodes_begin(&contexts, handle(2), 10, &none), 2 * MIB);
    ck_assert_uint_eq(none, 0);
    ck_assert_uint_eq(gb_contexts_nodes_begin(&contexts, handle(1), 1000, &serial), 112 * MIB);
    gb_contexts_nodes_end(&contexts, handle(1), serial, 1000);
    gb_contexts_nodes_end(&contexts, NULL, 0, 1010);
    ck_assert_uint_eq(gb_contexts_nodes_begin(&contexts, handle(1), 1000, &serial), 0);
    gb_contexts_clear(&contexts);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {test_charged_as_measured,
                                  test_known_is_charged_once,
                                  test_not_charged_where_nothing_measures,
                                  test_estimate,
                                  test_sampled,
                                  test_tools_show_nothing,
                                  test_growth_of_others,
                                  test_two_at_once,
                                  test_handle_comes_back,
                                  test_threads,
                                  test_primary_of_each_copy,
                                  test_without_memory,
                                  test_child_knows_the_size_only,
                                  test_nodes,
                                  test_nodes_that_came,
                                  test_nodes_without_place};

    return unit_run("contexts", tests, COUNT_OF(tests));
}
