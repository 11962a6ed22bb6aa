/* Calls of which only the card's tools tell what they took, with other threads at work. */
#include "resource/backend.h"

#include "resource/budget.h"
#include "resource/resource.h"
#include "unit.h"

#define LIMIT GIB

static struct gb_driver_api api;
static struct gb_backend backend;
static struct gpubudget_budget budget;

static uint64_t figure, card_free;
static uint64_t takes;       /* what the call takes */
static void (*beside)(void); /* other threads, during the call */
static int undone, questions;

static bool measure(void *arg, uint64_t *bytes)
{
    (void)arg;
    questions++;
    *bytes = figure;
    return true;
}

static bool hint(void *arg, const struct gb_driver_api *unused, struct gb_hint *answer)
{
    (void)arg;
    (void)unused;
    answer->free = card_free;
    answer->source = 1;
    return true;
}

static void card_takes(uint64_t bytes)
{
    figure += bytes;
    card_free -= bytes;
}

static void card_gives(uint64_t bytes)
{
    figure -= bytes;
    card_free += bytes;
}

static CUresult acquire(void *arg, CUdeviceptr *pointer, size_t *bytes)
{
    (void)arg;
    card_takes(takes);
    if (beside)
        beside();
    *pointer = 1;
    *bytes = 0;
    return CUDA_SUCCESS;
}

static CUresult undo(void *arg, CUdeviceptr pointer)
{
    (void)arg;
    (void)pointer;
    card_gives(takes);
    undone++;
    return CUDA_SUCCESS;
}

/* With so much of the budget in use. */
static void begin(uint64_t used)
{
    const struct gb_backend_options options = {.charge = GPUBUDGET_CHARGE_FOOTPRINT,
                                               .api = &api};

    gb_giving_forked();
    gb_backend_init(&backend, &options);
    gb_budget_init(&budget, &backend.resource, LIMIT, 0);
    backend.contexts.measure = measure;
    backend.other.hint = hint;
    backend.other.budget = &budget;
    atomic_store(&backend.contexts.count, 1);
    figure = 0;
    card_free = 10 * GIB;
    beside = NULL;
    undone = 0;
    card_takes(used);
    gb_ledger_acquire(&backend.ledger, used);
    gb_other_look(&backend, 0);
}

static gpubudget_status_t call(enum gb_measured which, gpubudget_request_t *request)
{
    gpubudget_block_t block;

    *request = (gpubudget_request_t){
        .kind = GPUBUDGET_KIND_MEASURED, .tag = which, .acquire = acquire, .undo = undo};
    return gpubudget_materialize(&budget.resource, request, &block, NULL);
}

static void ck_within(void)
{
    ck_assert_uint_le(figure, LIMIT);
    gb_other_look(&backend, 0);
    ck_assert_uint_eq(gb_ledger_outstanding(&backend.ledger), figure);
}

START_TEST(test_alone)
{
    gpubudget_request_t request;

    begin(LIMIT - 40 * MIB);
    takes = 30 * MIB;
    ck_assert_int_eq(call(GB_MEASURED_LIMIT, &request), GPUBUDGET_OK);
    ck_assert_uint_eq(request.charged, 30 * MIB);
    ck_within();
    ck_assert_int_eq(call(GB_MEASURED_LIMIT, &request), GPUBUDGET_OUT_OF_BUDGET);
    ck_assert_int_eq(undone, 1);
    ck_within();
    takes = 0;
    ck_assert_int_eq(call(GB_MEASURED_LIMIT, &request), GPUBUDGET_OK);
}
END_TEST

/* A pool that is trimmed, and looked at. */
static void as_much_is_trimmed(void)
{
    card_gives(30 * MIB);
    gb_ledger_reclaim(&backend.ledger, 30 * MIB);
}

/* What goes at the same time hides it from the card's free bytes, not from the ledger. */
START_TEST(test_beside_what_goes)
{
    gpubudget_request_t request;

    begin(LIMIT - 10 * MIB);
    takes = 30 * MIB;
    beside = as_much_is_trimmed;
    ck_assert_int_eq(call(GB_MEASURED_LIMIT, &request), GPUBUDGET_OK);
    ck_assert_uint_eq(request.charged, 30 * MIB);
    ck_within();
}
END_TEST

/* Growth above the limit that another thread is about to undo is no room. */
static void a_step_is_undone(void)
{
    card_gives(32 * MIB);
    gb_ledger_reclaim(&backend.ledger, 32 * MIB);
    beside = NULL;
}

START_TEST(test_beside_growth_that_is_undone)
{
    gpubudget_request_t request;

    begin(LIMIT - 10 * MIB);
    card_takes(32 * MIB);
    gb_ledger_acquire(&backend.ledger, 32 * MIB);
    takes = 32 * MIB;
    beside = a_step_is_undone;
    /* It is not even tried. */
    ck_assert_int_eq(call(GB_MEASURED_LIMIT, &request), GPUBUDGET_OUT_OF_BUDGET);
    ck_assert_int_eq(undone, 0);
    a_step_is_undone();
    ck_within();
}
END_TEST

static void as_much_is_freed(void)
{
    gb_giving_begins();
    card_gives(30 * MIB);
    beside = NULL;
}

/* A free that the card has carried out, and the ledger not yet: there is room, but the ledger
 * must not tell of it twice. */
START_TEST(test_beside_a_free)
{
    gpubudget_request_t request;

    begin(LIMIT - 10 * MIB);
    takes = 30 * MIB;
    beside = as_much_is_freed;
    ck_assert_int_eq(call(GB_MEASURED_MODULE, &request), GPUBUDGET_OK);
    gb_ledger_reclaim(&backend.ledger, 30 * MIB);
    gb_giving_ends();
    gb_other_check(&backend, false);
    ck_assert_uint_eq(gb_ledger_outstanding(&backend.ledger), figure);
}
END_TEST

/* The tools are asked where the card's free bytes cannot be trusted, and only there. */
START_TEST(test_what_is_asked)
{
    gpubudget_request_t request;

    begin(LIMIT - 10 * MIB);
    takes = 0;
    questions = 0;
    ck_assert_int_eq(call(GB_MEASURED_MODULE, &request), GPUBUDGET_OK);
    ck_assert_int_eq(questions, 0);
    gb_giving_begins();
    ck_assert_int_eq(call(GB_MEASURED_MODULE, &request), GPUBUDGET_OK);
    ck_assert_int_gt(questions, 0);
    gb_giving_ends();
    gb_other_look(&backend, 0);
    /* A free in stream order, of which the card may be through at any moment. */
    atomic_fetch_add(&backend.pending.bytes, MIB);
    questions = 0;
    ck_assert_int_eq(call(GB_MEASURED_MODULE, &request), GPUBUDGET_OK);
    ck_assert_int_gt(questions, 0);
}
END_TEST

/* Memory that has gone, and stood in `other` as long as a free was in progress, hides it. */
START_TEST(test_beside_what_has_gone)
{
    static const enum gb_measured kinds[] = {GB_MEASURED_LIMIT, GB_MEASURED_MODULE,
                                             GB_MEASURED_GREEN};

    for (size_t i = 0; i < COUNT_OF(kinds); i++) {
        gpubudget_request_t request;

        begin(LIMIT - 20 * MIB);
        card_takes(70 * MIB);
        gb_other_look(&backend, 0);
        gb_giving_begins();
        card_gives(60 * MIB);
        gb_other_look(&backend, 0);
        ck_assert_uint_eq(gb_ledger_outstanding(&backend.ledger), LIMIT + 50 * MIB);
        takes = 34 * MIB;
        beside = gb_giving_ends;
        ck_assert_int_eq(call(kinds[i], &request), GPUBUDGET_OUT_OF_BUDGET);
        ck_assert_int_eq(undone, 0);
        gb_giving_ends();
        ck_within();
    }
}
END_TEST

static void what_was_freed_is_taken(void)
{
    /* A module of another thread ends, its room goes to a third, which looks, too. */
    card_gives(40 * MIB);
    takes = 0;
    gb_other_look(&backend, 0);
    gb_ledger_acquire(&backend.ledger, 40 * MIB);
    card_takes(40 * MIB);
    takes = 34 * MIB;
    card_takes(takes);
    gb_other_look(&backend, 0);
    beside = NULL;
}

/* And what falls and rises again is not the same as what stays. */
START_TEST(test_beside_looks_of_others)
{
    gpubudget_request_t request;

    begin(LIMIT - 50 * MIB);
    card_takes(40 * MIB);
    gb_other_look(&backend, 0);
    takes = 0;
    beside = what_was_freed_is_taken;
    ck_assert_int_eq(call(GB_MEASURED_MODULE, &request), GPUBUDGET_OUT_OF_BUDGET);
    ck_within();
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {test_alone,
                                  test_beside_what_goes,
                                  test_beside_growth_that_is_undone,
                                  test_beside_a_free,
                                  test_what_is_asked,
                                  test_beside_what_has_gone,
                                  test_beside_looks_of_others};

    return unit_run("measured", tests, COUNT_OF(tests));
}
