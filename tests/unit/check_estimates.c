/* What calls took by the card's free memory, where nothing better tells. */
#include "resource/estimates.h"

#include "failing_malloc.h"
#include "unit.h"

#include "resource/backend.h"
#include "resource/budget.h"

static struct gb_backend backend;
static struct gpubudget_budget budget;
static CUcontext current;

/* The card: what a neighbour does in the n-th question is in moves[n]. */
static uint64_t card_free;
static int64_t moves[64];
static int questions;

static CUresult get_current(CUcontext *context)
{
    *context = current;
    return CUDA_SUCCESS;
}

static const struct gb_driver_api api = {.cuCtxGetCurrent = get_current};

static bool measure(void *arg, uint64_t *bytes)
{
    (void)arg;
    (void)bytes;
    return false;
}

static bool hint(void *arg, const struct gb_driver_api *unused, struct gb_hint *answer)
{
    (void)arg;
    (void)unused;
    if (questions < 64)
        card_free -= (uint64_t)moves[questions];
    questions++;
    answer->free = card_free;
    answer->source = 1;
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
    backend.other.budget = &budget;
    atomic_store(&backend.contexts.count, 1);
    atomic_store(&backend.other.blind, true);
    card_free = 100 * GIB;
    questions = 0;
    for (size_t i = 0; i < COUNT_OF(moves); i++)
        moves[i] = 0;
    current = (CUcontext)64;
}

static uint64_t outstanding(void)
{
    return gb_ledger_outstanding(&backend.ledger);
}

static struct gb_estimates *estimates(void)
{
    return &backend.estimates;
}

/* ---- the table ---- */

START_TEST(test_ends_with_its_object)
{
    begin();
    gb_estimates_change(estimates(), GB_MEASURED_MODULE, 1, current, 0, 5 * MIB);
    gb_estimates_change(estimates(), GB_MEASURED_ARRAY, 1, current, 0, 7 * MIB);
    gb_estimates_change(estimates(), GB_MEASURED_MODULE, 1, current, 0, MIB);
    ck_assert_uint_eq(outstanding(), 13 * MIB);
    /* A call that fails ends nothing. */
    gb_estimates_taken(estimates(), gb_estimates_take(estimates(), GB_MEASURED_MODULE, 1),
                       false);
    ck_assert_uint_eq(outstanding(), 13 * MIB);
    gb_estimates_taken(estimates(), gb_estimates_take(estimates(), GB_MEASURED_MODULE, 1),
                       true);
    ck_assert_uint_eq(outstanding(), 7 * MIB);
    ck_assert_ptr_null(gb_estimates_take(estimates(), GB_MEASURED_MODULE, 1));
    ck_assert_uint_eq(atomic_load(&estimates()->charged), 7 * MIB);
    ck_assert_uint_eq(gb_estimates_drop(estimates()), 7 * MIB);
    ck_assert_uint_eq(outstanding(), 0);
    gb_estimates_clear(estimates());
}
END_TEST

START_TEST(test_ends_with_its_context)
{
    begin();
    gb_estimates_change(estimates(), GB_MEASURED_MODULE, 1, (CUcontext)64, 4, 5 * MIB);
    gb_estimates_change(estimates(), GB_MEASURED_MODULE, 2, (CUcontext)128, 4, 2 * MIB);
    gb_estimates_change(estimates(), GB_MEASURED_GREEN, 3, NULL, 4, MIB);
    gb_estimates_change(estimates(), GB_MEASURED_MODULE, 4, (CUcontext)64, 9, 8 * MIB);
    /* What came later is of another context with the same handle. */
    gb_estimates_context_ended(estimates(), (CUcontext)64, 8);
    ck_assert_uint_eq(outstanding(), 11 * MIB);
    gb_estimates_context_ended(estimates(), NULL, 8);
    ck_assert_uint_eq(outstanding(), 11 * MIB);
    gb_estimates_context_ended(estimates(), (CUcontext)64, 9);
    ck_assert_uint_eq(outstanding(), 3 * MIB);
    gb_estimates_clear(estimates());
}
END_TEST

START_TEST(test_never_below_nothing)
{
    begin();
    gb_estimates_change(estimates(), GB_MEASURED_LIMIT, 1, current, 0, 5 * MIB);
    gb_estimates_change(estimates(), GB_MEASURED_LIMIT, 1, current, 0, -(int64_t)(2 * MIB));
    ck_assert_uint_eq(outstanding(), 3 * MIB);
    gb_estimates_change(estimates(), GB_MEASURED_LIMIT, 1, current, 0, -(int64_t)(9 * MIB));
    gb_estimates_change(estimates(), GB_MEASURED_LIMIT, 2, current, 0, -(int64_t)MIB);
    ck_assert_uint_eq(outstanding(), 0);
    gb_estimates_clear(estimates());
}
END_TEST

/* Without memory for an entry it is charged all the same. */
START_TEST(test_out_of_host_memory)
{
    begin();
    for (long allowed = 0; allowed < 4; allowed++) {
        uint64_t before = outstanding();

        malloc_fail_after(allowed);
        gb_estimates_change(estimates(), GB_MEASURED_MODULE, (uint64_t)allowed + 1, current, 0,
                            MIB);
        malloc_recover();
        ck_assert_uint_eq(outstanding(), before + MIB);
    }
    ck_assert_uint_eq(gb_estimates_drop(estimates()), 4 * MIB);
    ck_assert_uint_eq(outstanding(), 0);
    gb_estimates_clear(estimates());
}
END_TEST

/* ---- what is charged ---- */

struct taken {
    uint64_t bytes;
    int tries, undone;
};

static CUresult acquire(void *arg, CUdeviceptr *pointer, size_t *bytes)
{
    struct taken *taken = arg;

    card_free -= taken->bytes;
    *pointer = 77;
    *bytes = 0;
    taken->tries++;
    return CUDA_SUCCESS;
}

static CUresult undo(void *arg, CUdeviceptr pointer)
{
    struct taken *taken = arg;

    (void)pointer;
    card_free += taken->bytes;
    taken->undone++;
    return CUDA_SUCCESS;
}

/* Answers what was charged. */
static uint64_t take(enum gb_measured which, uint64_t bytes, uint64_t asked, uint64_t most,
                     struct taken *taken)
{
    gpubudget_request_t request = {.bytes = asked,
                                   .most_bytes = most,
                                   .kind = GPUBUDGET_KIND_MEASURED,
                                   .tag = which,
                                   .acquire = acquire,
                                   .undo = undo,
                                   .arg = taken};
    gpubudget_block_t block;
    gpubudget_error_t error;
    uint64_t before = outstanding();

    *taken = (struct taken){.bytes = bytes};
    questions = 0;
    ck_assert_int_eq(gb_measured_materialize(&backend, &request, &block, &error), GPUBUDGET_OK);
    ck_assert_uint_eq(outstanding() - before, request.charged);
    return request.charged;
}

START_TEST(test_calm_card)
{
    struct taken taken;

    begin();
    ck_assert_uint_eq(take(GB_MEASURED_MODULE, 7 * MIB, 0, 0, &taken), 7 * MIB);
    ck_assert_int_eq(taken.tries, 1);
    ck_assert_uint_eq(take(GB_MEASURED_MODULE, 0, 0, 0, &taken), 0);
    ck_assert_uint_eq(take(GB_MEASURED_STREAM, 2 * MIB, 0, 0, &taken), 2 * MIB);
    /* Of an array the size is known: never less, and never more than it can be. */
    ck_assert_uint_eq(take(GB_MEASURED_ARRAY, 6 * MIB, 5 * MIB, 20 * MIB, &taken), 6 * MIB);
    ck_assert_uint_eq(take(GB_MEASURED_ARRAY, 0, 5 * MIB, 20 * MIB, &taken), 4 * MIB);
    ck_assert_uint_eq(take(GB_MEASURED_LOCAL, 0, 5 * MIB, 5 * MIB, &taken), 5 * MIB);
    gb_estimates_clear(estimates());
}
END_TEST

/* A neighbour that moved between two calls does not count. */
START_TEST(test_neighbour_between_calls)
{
    struct taken taken;

    begin();
    take(GB_MEASURED_MODULE, MIB, 0, 0, &taken);
    for (int i = 0; i < 20; i++) {
        card_free += i % 2 ? GIB : -GIB;
        ck_assert_uint_eq(take(GB_MEASURED_MODULE, 3 * MIB, 0, 0, &taken), 3 * MIB);
        ck_assert_int_eq(taken.tries, 1);
    }
    gb_estimates_clear(estimates());
}
END_TEST

/* The card is asked twice where it has moved since; then the call; then twice. */
enum { QUESTION_AFTER = 1 };

static void learn_rest(struct taken *taken)
{
    take(GB_MEASURED_MODULE, 3 * MIB, 0, 0, taken);
}

/* It takes much just then: so much that the module would be refused for it. */
START_TEST(test_neighbour_takes_much_meanwhile)
{
    struct taken taken;

    begin();
    learn_rest(&taken);
    moves[QUESTION_AFTER] = 50 * GIB;
    ck_assert_uint_eq(take(GB_MEASURED_MODULE, 9 * MIB, 0, 0, &taken), 9 * MIB);
    ck_assert_int_eq(taken.tries, 2);
    ck_assert_int_eq(taken.undone, 1);
    gb_estimates_clear(estimates());
}
END_TEST

/* It gives much back just then: a call that takes gives nothing. */
START_TEST(test_neighbour_gives_back_meanwhile)
{
    struct taken taken;

    begin();
    learn_rest(&taken);
    moves[QUESTION_AFTER] = -(int64_t)(50 * GIB);
    ck_assert_uint_eq(take(GB_MEASURED_MODULE, 9 * MIB, 0, 0, &taken), 9 * MIB);
    ck_assert_int_eq(taken.tries, 2);
    /* What cannot be made again is charged by what is usual, or known. */
    moves[QUESTION_AFTER] = -(int64_t)(50 * GIB);
    ck_assert_uint_eq(take(GB_MEASURED_ARRAY, 9 * MIB, 8 * MIB, 20 * MIB, &taken), 8 * MIB);
    ck_assert_int_eq(taken.tries, 1);
    moves[QUESTION_AFTER] = 50 * GIB;
    ck_assert_uint_eq(take(GB_MEASURED_ARRAY, 9 * MIB, 8 * MIB, 20 * MIB, &taken), 20 * MIB);
    moves[QUESTION_AFTER] = 50 * GIB;
    ck_assert_uint_le(take(GB_MEASURED_STREAM, MIB, 0, 0, &taken), 16 * MIB);
    gb_estimates_clear(estimates());
}
END_TEST

/* It never rests: bounded, and never less than what such a call took on a calm card. */
START_TEST(test_restless_neighbour)
{
    struct taken taken;
    uint64_t charged;

    begin();
    learn_rest(&taken);
    for (size_t i = 0; i < COUNT_OF(moves); i++)
        moves[i] = i % 2 ? (int64_t)(i * MIB) : -(int64_t)((i + 7) * MIB);
    charged = take(GB_MEASURED_MODULE, MIB, 0, 0, &taken);
    ck_assert_uint_ge(charged, 3 * MIB);
    ck_assert_uint_eq(take(GB_MEASURED_STREAM, MIB / 2, 0, 0, &taken), MIB);
    charged = take(GB_MEASURED_ARRAY, 9 * MIB, 9 * MIB, 40 * MIB, &taken);
    ck_assert(charged >= 10 * MIB && charged <= 40 * MIB);
    /* Nothing of it is learned. */
    ck_assert_uint_eq(atomic_load(&backend.learned[GB_MEASURED_MODULE]), 3 * MIB);
    gb_estimates_clear(estimates());
}
END_TEST

/* It did not rest before, and moved once more meanwhile: no figure to learn from. */
START_TEST(test_restless_before)
{
    struct taken taken;

    begin();
    learn_rest(&taken);
    for (int i = 0; i < 10; i++)
        moves[i] = 5 * MIB;
    take(GB_MEASURED_MODULE, MIB, 0, 0, &taken);
    ck_assert_uint_eq(atomic_load(&backend.learned[GB_MEASURED_MODULE]), 3 * MIB);
    gb_estimates_clear(estimates());
}
END_TEST

/* Others of this process that are about to take something are no neighbours to be believed. */
START_TEST(test_own_requests_in_flight)
{
    struct taken taken;

    begin();
    learn_rest(&taken);
    atomic_store(&budget.in_flight, 100 * MIB);
    take(GB_MEASURED_MODULE, 40 * MIB, 0, 0, &taken);
    ck_assert_uint_eq(atomic_load(&backend.learned[GB_MEASURED_MODULE]), 3 * MIB);
    gb_estimates_clear(estimates());
}
END_TEST

/* A refusal gives it back; what a stream took stays, as it does on the card. */
START_TEST(test_given_back)
{
    static const struct {
        enum gb_measured which;
        uint64_t left;
    } cases[] = {{GB_MEASURED_MODULE, 0}, {GB_MEASURED_LIMIT, 0}, {GB_MEASURED_STREAM, 3}};
    const gpubudget_release_t release = {.release = undo, .arg = &(struct taken){.bytes = 0}};

    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct taken taken;
        gpubudget_block_t block = {.id = {77, 0}, .tag = cases[i].which};

        begin();
        block.bytes = take(cases[i].which, 3 * MIB, 0, 0, &taken);
        ck_assert_uint_eq(block.bytes, 3 * MIB);
        ck_assert_int_eq(gb_measured_deallocate(&backend, &block, &release, NULL),
                         GPUBUDGET_OK);
        ck_assert_uint_eq(outstanding(), cases[i].left * MIB);
        gb_estimates_clear(estimates());
    }
}
END_TEST

/* The tools begin to tell while an object is being ended: its bytes go once, whichever way. */
START_TEST(test_told_while_one_ends)
{
    for (int ended = 0; ended < 2; ended++) {
        struct gb_estimate *entry;

        begin();
        gb_estimates_change(estimates(), GB_MEASURED_MODULE, 77, NULL, 1, 3 * MIB);
        gb_estimates_change(estimates(), GB_MEASURED_MODULE, 78, NULL, 1, 5 * MIB);
        entry = gb_estimates_take(estimates(), GB_MEASURED_MODULE, 77);
        ck_assert_ptr_nonnull(entry);
        ck_assert_uint_eq(gb_estimates_drop(estimates()), 5 * MIB);
        ck_assert_uint_eq(outstanding(), 3 * MIB);
        gb_estimates_taken(estimates(), entry, ended);
        ck_assert_uint_eq(outstanding(), ended ? 0 : 3 * MIB);
        ck_assert_uint_eq(gb_estimates_drop(estimates()), ended ? 0 : 3 * MIB);
        ck_assert_uint_eq(outstanding(), 0);
        ck_assert_uint_eq(atomic_load(&estimates()->charged), 0);
        gb_estimates_clear(estimates());
    }
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {test_ends_with_its_object,
                                  test_ends_with_its_context,
                                  test_never_below_nothing,
                                  test_out_of_host_memory,
                                  test_calm_card,
                                  test_neighbour_between_calls,
                                  test_neighbour_takes_much_meanwhile,
                                  test_neighbour_gives_back_meanwhile,
                                  test_restless_neighbour,
                                  test_restless_before,
                                  test_own_requests_in_flight,
                                  test_given_back,
                                  test_told_while_one_ends};

    return unit_run("estimates", tests, COUNT_OF(tests));
}
