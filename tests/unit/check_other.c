/* What the card's tools show and nothing tracks, with tools as the test wants them. */
#include "resource/other.h"

#include "resource/backend.h"
#include "resource/budget.h"
#include "unit.h"

static struct gb_driver_api api;
static struct gb_backend backend;
static struct gpubudget_budget budget;

static uint64_t figure, card_free;
static unsigned source = 1; /* the second one has a figure of its own */
static bool tools_work = true;
static int questions;
static void (*meanwhile)(void); /* other threads, while the tools are asked */

static bool measure(void *arg, uint64_t *bytes)
{
    (void)arg;
    questions++;
    if (meanwhile)
        meanwhile();
    *bytes = figure;
    return tools_work;
}

static bool hint(void *arg, const struct gb_driver_api *unused, struct gb_hint *answer)
{
    (void)arg;
    (void)unused;
    answer->free = card_free + (source == 2 ? 3 * MIB : 0);
    answer->source = source;
    return true;
}

static void begin(void)
{
    const struct gb_backend_options options = {.charge = GPUBUDGET_CHARGE_FOOTPRINT,
                                               .api = &api};

    gb_backend_init(&backend, &options);
    gb_budget_init(&budget, &backend.resource, GIB, 0);
    backend.contexts.measure = measure;
    backend.other.hint = hint;
    atomic_store(&backend.contexts.count, 1);
    source = 1;
    backend.other.budget = &budget;
    figure = 0;
    card_free = 10 * GIB;
    questions = 0;
    meanwhile = NULL;
    tools_work = true;
}

static uint64_t posted(void)
{
    return atomic_load(&backend.other.posted);
}

/* Something tracked is taken, by the card and in the ledger. */
static void track(uint64_t bytes)
{
    figure += bytes;
    card_free -= bytes;
    gb_ledger_acquire(&backend.ledger, bytes);
}

static void driver_takes(uint64_t bytes)
{
    figure += bytes;
    card_free -= bytes;
}

static void driver_gives(uint64_t bytes)
{
    figure -= bytes;
    card_free += bytes;
}

START_TEST(test_rises_and_falls)
{
    begin();
    track(100 * MIB);
    ck_assert_uint_eq(gb_other_look(&backend, 0), 0);
    driver_takes(7 * MIB);
    ck_assert_uint_eq(gb_other_look(&backend, 0), 7 * MIB);
    ck_assert_uint_eq(gb_ledger_outstanding(&backend.ledger), 107 * MIB);
    ck_assert_uint_eq(gb_other_look(&backend, 0), 0);
    driver_gives(3 * MIB);
    ck_assert_uint_eq(gb_other_look(&backend, 0), 0);
    ck_assert_uint_eq(posted(), 4 * MIB);
    ck_assert_uint_eq(gb_ledger_outstanding(&backend.ledger), 104 * MIB);
    /* Never negative. */
    driver_gives(50 * MIB);
    gb_other_look(&backend, 0);
    ck_assert_uint_eq(posted(), 0);
    ck_assert(gb_other_tells(&backend));
}
END_TEST

START_TEST(test_tools_that_do_not_tell)
{
    begin();
    driver_takes(7 * MIB);
    tools_work = false;
    ck_assert_uint_eq(gb_other_look(&backend, 0), 0);
    ck_assert(!gb_other_tells(&backend));
    tools_work = true;
    gb_other_look(&backend, 0);
    ck_assert_uint_eq(posted(), 7 * MIB);
    /* After a checkpoint they show nothing for a while. */
    figure = 0;
    gb_other_look(&backend, 0);
    ck_assert_uint_eq(posted(), 7 * MIB);
    /* Without any context that is the truth. */
    atomic_store(&backend.contexts.count, 0);
    gb_other_look(&backend, 0);
    ck_assert_uint_eq(posted(), 0);
    backend.contexts.measure = NULL;
    ck_assert(!gb_other_tells(&backend));
    ck_assert_uint_eq(gb_other_look(&backend, 0), 0);
}
END_TEST

static int heard[2]; /* that they do not tell, that they do */

static void told(void *arg, bool tells)
{
    (void)arg;
    heard[tells]++;
}

/* Estimates stand in while they do not tell, and go when they do. */
START_TEST(test_estimates_until_they_tell)
{
    begin();
    backend.other.told = told;
    track(10 * MIB);
    gb_other_look(&backend, 0);
    ck_assert_int_eq(heard[0], 0);
    tools_work = false;
    gb_other_look(&backend, 0);
    gb_other_look(&backend, 0);
    ck_assert_int_eq(heard[0], 1);
    ck_assert(atomic_load(&backend.other.blind));
    driver_takes(7 * MIB);
    gb_estimates_change(&backend.estimates, GB_MEASURED_MODULE, 1, NULL, 0, 9 * MIB);
    ck_assert_uint_eq(gb_ledger_outstanding(&backend.ledger), 19 * MIB);
    /* The estimate was too high, so that nothing has risen. */
    tools_work = true;
    ck_assert_uint_eq(gb_other_look(&backend, 0), 0);
    ck_assert_uint_eq(posted(), 7 * MIB);
    ck_assert_uint_eq(gb_ledger_outstanding(&backend.ledger), 17 * MIB);
    ck_assert_int_eq(heard[1], 1);
    ck_assert(!atomic_load(&backend.other.blind));
    /* Not listed, and holding something: that is no figure. */
    figure = 0;
    gb_other_look(&backend, 0);
    ck_assert(atomic_load(&backend.other.blind));
    ck_assert_int_eq(heard[0], 2);
}
END_TEST

START_TEST(test_managed_is_not_attributed)
{
    begin();
    driver_takes(5 * MIB);
    gb_ledger_acquire(&backend.ledger, 64 * MIB);
    atomic_store(&backend.managed, 64 * MIB);
    gb_other_look(&backend, 0);
    ck_assert_uint_eq(posted(), 5 * MIB);
}
END_TEST

/* What others have taken and not posted yet is not taken for the driver's. */
START_TEST(test_in_flight)
{
    begin();
    driver_takes(40 * MIB);
    atomic_store(&budget.in_flight, 32 * MIB);
    gb_other_look(&backend, 0);
    ck_assert_uint_eq(posted(), 8 * MIB);
    /* The caller's own reservation is no such request. */
    gb_other_look(&backend, 32 * MIB);
    ck_assert_uint_eq(posted(), 40 * MIB);
    /* What one with the growth turn may take beyond its reservation is. */
    driver_takes(20 * MIB);
    atomic_store(&budget.in_flight, 0);
    atomic_store(&budget.unsure, 20 * MIB);
    gb_other_look(&backend, 0);
    ck_assert_uint_eq(posted(), 40 * MIB);
}
END_TEST

static void another_allocates(void)
{
    track(100 * MIB);
}

static void another_frees(void)
{
    figure -= 50 * MIB;
    card_free += 50 * MIB;
    gb_ledger_reclaim(&backend.ledger, 50 * MIB);
}

static void another_allocates_and_frees(void)
{
    track(100 * MIB);
    /* In the figure, and out of the ledger when that is read again. */
    gb_ledger_reclaim(&backend.ledger, 100 * MIB);
}

START_TEST(test_others_meanwhile)
{
    begin();
    track(50 * MIB);
    driver_takes(7 * MIB);
    meanwhile = another_allocates_and_frees;
    gb_other_look(&backend, 0);
    ck_assert_uint_eq(posted(), 7 * MIB);
    driver_gives(100 * MIB);
    meanwhile = another_allocates;
    gb_other_look(&backend, 0);
    ck_assert_uint_le(posted(), 7 * MIB);
    meanwhile = another_frees;
    gb_other_look(&backend, 0);
    ck_assert_uint_eq(posted(), 7 * MIB);
    meanwhile = NULL;
    gb_other_look(&backend, 0);
    ck_assert_uint_eq(posted(), 7 * MIB);
}
END_TEST

/* A fall is believed only when nothing moved, and looked for again until it is. */
START_TEST(test_falls_when_quiet)
{
    begin();
    driver_takes(70 * MIB);
    gb_other_look(&backend, 0);
    driver_gives(70 * MIB);
    figure += MIB;
    meanwhile = another_allocates;
    gb_other_check(&backend, true);
    ck_assert_uint_eq(posted(), 70 * MIB);
    meanwhile = NULL;
    gb_other_check(&backend, true);
    ck_assert_uint_eq(posted(), MIB);
    questions = 0;
    gb_other_check(&backend, true);
    ck_assert_int_eq(questions, 0);
}
END_TEST

/* Nor is what was hidden by others forgotten: the look is made again. */
START_TEST(test_rises_when_quiet)
{
    begin();
    gb_other_look(&backend, 0);
    ck_assert(gb_other_is_settled(&backend));
    driver_takes(70 * MIB);
    atomic_store(&budget.in_flight, 100 * MIB);
    gb_other_look(&backend, 0);
    ck_assert_uint_eq(posted(), 0);
    ck_assert(!gb_other_is_settled(&backend));
    ck_assert_uint_eq(atomic_load(&budget.doubt), 70 * MIB);
    gb_other_check(&backend, false);
    questions = 0;
    gb_other_check(&backend, false); /* in vain just now, and others are still at it */
    ck_assert_int_eq(questions, 0);
    atomic_store(&budget.in_flight, 0);
    gb_other_check(&backend, false);
    ck_assert_uint_eq(posted(), 70 * MIB);
    ck_assert(gb_other_is_settled(&backend));
    ck_assert_uint_eq(atomic_load(&budget.doubt), 0);
    questions = 0;
    gb_other_check(&backend, false);
    ck_assert_int_eq(questions, 0);
}
END_TEST

static void driver_takes_at_last(void)
{
    uint64_t shown = figure;

    driver_takes(70 * MIB);
    figure = shown; /* in the next answer only */
}

/* What is taken while the tools answer is not lost. */
START_TEST(test_taken_behind_the_answer)
{
    begin();
    track(10 * MIB);
    meanwhile = driver_takes_at_last;
    gb_other_look(&backend, 0);
    meanwhile = NULL;
    figure += 70 * MIB;
    gb_other_check(&backend, false);
    ck_assert_uint_eq(posted(), 70 * MIB);
}
END_TEST

static CUresult graph_memory(CUdevice device, CUgraphMem_attribute attribute, void *value)
{
    (void)device;
    (void)attribute;
    *(cuuint64_t *)value = 50 * MIB;
    return CUDA_SUCCESS;
}

/* What graphs have taken and nobody has looked at yet is not taken for the driver's. */
START_TEST(test_graph_memory)
{
    begin();
    api.cuDeviceGetGraphMemAttribute = graph_memory;
    atomic_store(&backend.graphs.seen, true);
    driver_takes(50 * MIB);
    gb_other_look(&backend, 0);
    api.cuDeviceGetGraphMemAttribute = NULL;
    ck_assert_uint_eq(posted(), 0);
    ck_assert_uint_eq(gb_ledger_outstanding(&backend.ledger), 50 * MIB);
}
END_TEST

START_TEST(test_hints)
{
    struct gb_hint answer = {0, 0};
    uint64_t level;

    begin();
    track(10 * MIB);
    /* Nothing to compare with before the first look. */
    gb_other_check(&backend, true);
    ck_assert_int_eq(questions, 0);
    gb_other_look(&backend, 0);
    questions = 0;
    /* Tracked memory moves the card and the ledger alike. */
    track(300 * MIB);
    gb_other_check(&backend, true);
    driver_takes(64 * KIB);
    gb_other_check(&backend, true);
    ck_assert_int_eq(questions, 0);
    driver_takes(2 * MIB);
    gb_other_check(&backend, true);
    ck_assert_int_eq(questions, 1);
    ck_assert_uint_eq(posted(), 2 * MIB + 64 * KIB);
    /* A neighbour's memory is a hint as well, and not the process's. */
    card_free -= GIB;
    gb_other_check(&backend, true);
    ck_assert_int_eq(questions, 2);
    ck_assert_uint_eq(posted(), 2 * MIB + 64 * KIB);
    /* In vain: without a reason it is not followed at once again. */
    card_free += GIB;
    gb_other_check(&backend, false);
    ck_assert_int_eq(questions, 2);
    ck_assert(gb_other_level(&backend, &api, &answer, &level));
    ck_assert_uint_eq(answer.free, card_free);
}
END_TEST

/* Memory that is charged and takes nothing of the card hides nothing, and is no hint. */
START_TEST(test_hints_beside_what_is_not_attributed)
{
    begin();
    track(10 * MIB);
    gb_other_look(&backend, 0);
    questions = 0;
    gb_ledger_acquire(&backend.ledger, 6 * MIB);
    atomic_fetch_add(&backend.managed, 6 * MIB);
    gb_other_check(&backend, true);
    ck_assert_int_eq(questions, 0);
    driver_takes(6 * MIB);
    gb_other_check(&backend, true);
    ck_assert_uint_eq(posted(), 6 * MIB);
    driver_gives(6 * MIB);
    gb_ledger_reclaim(&backend.ledger, 6 * MIB);
    atomic_fetch_sub(&backend.managed, 6 * MIB);
    gb_other_check(&backend, true);
    ck_assert_uint_eq(posted(), 0);
}
END_TEST

static void card_carries_out_a_free(void)
{
    driver_gives(4 * MIB);
    meanwhile = NULL;
}

/* Another thread's free that the card has carried out while the tools were asked, and the
 * ledger not yet: `other` has not fallen. */
START_TEST(test_free_in_progress)
{
    begin();
    track(100 * MIB);
    driver_takes(7 * MIB);
    gb_other_look(&backend, 0);
    meanwhile = card_carries_out_a_free;
    gb_other_look(&backend, 0);
    ck_assert_uint_eq(posted(), 7 * MIB);
    gb_ledger_reclaim(&backend.ledger, 4 * MIB);
    gb_other_check(&backend, true);
    ck_assert_uint_eq(posted(), 7 * MIB);
    ck_assert_uint_eq(gb_ledger_outstanding(&backend.ledger), figure);
    /* It falls when the driver gives something back. */
    driver_gives(3 * MIB);
    gb_other_check(&backend, true);
    ck_assert_uint_eq(posted(), 4 * MIB);
}
END_TEST

/* One that began before: nothing moves while the tools are asked. */
START_TEST(test_free_begun_before)
{
    begin();
    track(100 * MIB);
    driver_takes(7 * MIB);
    gb_other_look(&backend, 0);
    gb_giving_begins();
    driver_gives(4 * MIB);
    gb_other_look(&backend, 0);
    ck_assert_uint_eq(posted(), 7 * MIB);
    gb_ledger_reclaim(&backend.ledger, 4 * MIB);
    gb_giving_ends();
    ck_assert_uint_eq(gb_ledger_outstanding(&backend.ledger), figure);
    /* And one that begins meanwhile. */
    driver_gives(3 * MIB);
    meanwhile = gb_giving_begins;
    gb_other_look(&backend, 0);
    ck_assert_uint_eq(posted(), 7 * MIB);
    meanwhile = NULL;
    gb_giving_ends();
    gb_other_look(&backend, 0);
    ck_assert_uint_eq(posted(), 4 * MIB);
}
END_TEST

/* A free in stream order, which the card has carried out and nobody has proven: what `other`
 * has too much then may be that. */
START_TEST(test_free_not_proven)
{
    begin();
    track(100 * MIB);
    driver_takes(60 * MIB);
    gb_other_look(&backend, 0);
    atomic_fetch_add(&backend.pending.bytes, 32 * MIB);
    driver_gives(32 * MIB);
    gb_other_look(&backend, 0);
    ck_assert_uint_eq(posted(), 60 * MIB);
    ck_assert(!gb_other_is_exact(&backend));
    /* What is beyond that has gone. */
    driver_gives(8 * MIB);
    gb_other_look(&backend, 0);
    ck_assert_uint_eq(posted(), 52 * MIB);
    /* It is proven. */
    atomic_fetch_sub(&backend.pending.bytes, 32 * MIB);
    gb_ledger_reclaim(&backend.ledger, 32 * MIB);
    gb_other_check(&backend, false);
    ck_assert_uint_eq(posted(), 52 * MIB);
    ck_assert_uint_eq(gb_ledger_outstanding(&backend.ledger), figure);
    ck_assert(gb_other_is_exact(&backend));
}
END_TEST

/* One that the card has not carried out yet: `other` falls as soon as it is proven. */
START_TEST(test_falls_beside_a_free)
{
    begin();
    track(100 * MIB);
    driver_takes(60 * MIB);
    gb_other_look(&backend, 0);
    atomic_fetch_add(&backend.pending.bytes, 32 * MIB);
    driver_gives(20 * MIB);
    gb_other_look(&backend, 0);
    driver_gives(32 * MIB);
    atomic_fetch_sub(&backend.pending.bytes, 32 * MIB);
    gb_ledger_reclaim(&backend.ledger, 32 * MIB);
    gb_other_check(&backend, false);
    ck_assert_uint_eq(posted(), 40 * MIB);
    ck_assert_uint_eq(gb_ledger_outstanding(&backend.ledger), figure);
}
END_TEST

/* What somebody else moves the other way hides it; not for ever. */
START_TEST(test_hidden_changes)
{
    begin();
    track(10 * MIB);
    gb_other_look(&backend, 0);
    questions = 0;
    driver_takes(6 * MIB);
    card_free += 6 * MIB;
    gb_other_check(&backend, false);
    ck_assert_int_eq(questions, 0);
    atomic_store(&backend.other.looked, 0);
    gb_other_check(&backend, false);
    ck_assert_uint_eq(posted(), 6 * MIB);
}
END_TEST

/* Figures of another source are no hint; the next one of the same source is. */
START_TEST(test_sources)
{
    begin();
    track(10 * MIB);
    gb_other_look(&backend, 0);
    questions = 0;
    source = 2;
    gb_other_check(&backend, false);
    ck_assert_int_eq(questions, 1);
    gb_other_check(&backend, false);
    ck_assert_int_eq(questions, 1);
    driver_takes(2 * MIB);
    gb_other_check(&backend, false);
    ck_assert_uint_eq(posted(), 2 * MIB);
}
END_TEST

/* Memory of others that the tools show for this process is not the driver's. */
START_TEST(test_imported)
{
    struct gb_other_reading before;

    begin();
    track(50 * MIB);
    driver_takes(7 * MIB);
    gb_other_look(&backend, 0);
    gb_other_before_import(&backend, &before);
    ck_assert(before.known && before.quiet);
    figure += 64 * MIB;
    ck_assert_uint_eq(gb_other_imported(&backend, &before), 64 * MIB);
    gb_other_look(&backend, 0);
    ck_assert_uint_eq(posted(), 7 * MIB);
    driver_takes(2 * MIB);
    gb_other_look(&backend, 0);
    ck_assert_uint_eq(posted(), 9 * MIB);
    /* Its end. */
    figure -= 64 * MIB;
    atomic_fetch_sub(&backend.imported, 64 * MIB);
    gb_other_look(&backend, 0);
    ck_assert_uint_eq(posted(), 9 * MIB);
    /* What others allocate meanwhile is not taken for the import's. */
    gb_other_before_import(&backend, &before);
    track(30 * MIB);
    atomic_store(&budget.in_flight, 10 * MIB);
    figure += 8 * MIB;
    ck_assert_uint_eq(gb_other_imported(&backend, &before), 0);
    atomic_store(&budget.in_flight, 0);
    /* And where the tools tell nothing there is nothing to take out. */
    tools_work = false;
    gb_other_before_import(&backend, &before);
    ck_assert_uint_eq(gb_other_imported(&backend, &before), 0);
}
END_TEST

/* Frees that the card has carried out and the ledger not yet are not the import's. */
START_TEST(test_imported_beside_frees)
{
    struct gb_other_reading before;

    begin();
    track(50 * MIB);
    driver_gives(20 * MIB);
    gb_other_before_import(&backend, &before);
    figure += 8 * MIB;
    ck_assert_uint_eq(gb_other_imported(&backend, &before), 8 * MIB);
    gb_ledger_reclaim(&backend.ledger, 20 * MIB);
    gb_other_look(&backend, 0);
    ck_assert_uint_eq(posted(), 0);
}
END_TEST

/* Another thread's look has taken an import for the driver's: it is looked at again. */
START_TEST(test_imported_and_looked_at)
{
    struct gb_other_reading before;

    begin();
    track(50 * MIB);
    gb_other_look(&backend, 0);
    gb_other_before_import(&backend, &before);
    figure += 64 * MIB;
    gb_other_look(&backend, 0);
    ck_assert_uint_eq(posted(), 64 * MIB);
    ck_assert_uint_eq(gb_other_imported(&backend, &before), 64 * MIB);
    gb_other_check(&backend, false);
    ck_assert_uint_eq(posted(), 0);
}
END_TEST

START_TEST(test_overshoot)
{
    begin();
    track(GIB - 4 * MIB);
    gb_other_look(&backend, 0);
    driver_takes(3 * MIB);
    gb_other_check(&backend, true);
    ck_assert_uint_eq(gpubudget_budget_overshoot(&budget), 0);
    driver_takes(3 * MIB);
    gb_other_check(&backend, true);
    ck_assert_uint_eq(gpubudget_budget_overshoot(&budget), 2 * MIB);
    driver_gives(6 * MIB);
    gb_other_check(&backend, true);
    /* The most that was seen. */
    ck_assert_uint_eq(gpubudget_budget_overshoot(&budget), 2 * MIB);
}
END_TEST

/* While a context is being made its memory is nobody's yet. */
START_TEST(test_not_while_a_context_is_made)
{
    begin();
    driver_takes(500 * MIB);
    atomic_store(&backend.contexts.making, 1);
    ck_assert_uint_eq(gb_other_look(&backend, 0), 0);
    ck_assert_int_eq(questions, 0);
    ck_assert_uint_eq(posted(), 0);
}
END_TEST

START_TEST(test_child_holds_nothing)
{
    begin();
    driver_takes(5 * MIB);
    gb_other_look(&backend, 0);
    gb_backend_forked(&backend);
    ck_assert_uint_eq(posted(), 0);
    ck_assert_uint_eq(gb_ledger_outstanding(&backend.ledger), 0);
    ck_assert_ptr_eq(backend.other.budget, &budget);
    ck_assert_ptr_nonnull((void *)(uintptr_t)backend.other.hint);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {test_rises_and_falls,
                                  test_tools_that_do_not_tell,
                                  test_estimates_until_they_tell,
                                  test_managed_is_not_attributed,
                                  test_in_flight,
                                  test_others_meanwhile,
                                  test_falls_when_quiet,
                                  test_graph_memory,
                                  test_rises_when_quiet,
                                  test_taken_behind_the_answer,
                                  test_hints,
                                  test_hints_beside_what_is_not_attributed,
                                  test_free_in_progress,
                                  test_free_begun_before,
                                  test_free_not_proven,
                                  test_falls_beside_a_free,
                                  test_hidden_changes,
                                  test_sources,
                                  test_imported,
                                  test_imported_beside_frees,
                                  test_imported_and_looked_at,
                                  test_overshoot,
                                  test_not_while_a_context_is_made,
                                  test_child_holds_nothing};

    return unit_run("other", tests, COUNT_OF(tests));
}
