/* What the card's tools show for us since an exporter has ended, and what we have really taken.
 */
#include "resource/inherited.h"

#include "resource/backend.h"
#include "resource/budget.h"
#include "unit.h"

static struct gb_driver_api api;
static struct gb_backend backend;
static struct gpubudget_budget budget;
static uint64_t figure, card_free;
static bool hints;

static bool measure(void *arg, uint64_t *bytes)
{
    (void)arg;
    *bytes = figure;
    return true;
}

static bool hint(void *arg, const struct gb_driver_api *unused, struct gb_hint *answer)
{
    (void)arg;
    (void)unused;
    *answer = (struct gb_hint){card_free, 1};
    return hints;
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
    hints = true;
    figure = 10 * MIB;
    card_free = 10 * GIB;
    gb_other_look(&backend, 0);
}

static uint64_t other(void)
{
    gb_other_look(&backend, 0);
    return atomic_load(&backend.other.posted);
}

static void take(uint64_t bytes)
{
    figure += bytes;
    card_free -= bytes;
}

/* The exporter and so much of its own memory go; ours is shown for us. */
static void exporter_ends(uint64_t ours, uint64_t its_own)
{
    figure += ours;
    card_free += its_own;
}

START_TEST(test_found_and_given_back)
{
    begin();
    gb_inherited_import(&backend, 64 * MIB);
    gb_inherited_import(&backend, 32 * MIB);
    ck_assert_uint_eq(other(), 10 * MIB);
    exporter_ends(96 * MIB, 500 * MIB);
    ck_assert_uint_eq(other(), 10 * MIB);
    ck_assert_uint_eq(atomic_load(&backend.imported), 96 * MIB);
    ck_assert_uint_eq(atomic_load(&backend.imported_unseen), 0);
    take(7 * MIB);
    ck_assert_uint_eq(other(), 17 * MIB);
    gb_inherited_import_ends(&backend, 32 * MIB);
    exporter_ends(-32 * MIB, 32 * MIB);
    ck_assert_uint_eq(other(), 17 * MIB);
    gb_inherited_import_ends(&backend, 64 * MIB);
    exporter_ends(-64 * MIB, 64 * MIB);
    ck_assert_uint_eq(other(), 17 * MIB);
    ck_assert_uint_eq(atomic_load(&backend.imported), 0);
    ck_assert_uint_eq(atomic_load(&backend.imported_unseen), 0);
}
END_TEST

/* What the card has lost was taken, whatever is imported. */
START_TEST(test_hides_nothing)
{
    begin();
    gb_inherited_import(&backend, 64 * MIB);
    take(40 * MIB);
    ck_assert_uint_eq(other(), 50 * MIB);
    /* Both at once. */
    take(5 * MIB);
    exporter_ends(64 * MIB, 0);
    ck_assert_uint_eq(other(), 55 * MIB);
    /* No more than was imported. */
    exporter_ends(2 * MIB, 500 * MIB);
    ck_assert_uint_eq(other(), 57 * MIB);
}
END_TEST

/* A call that takes what only the tools can tell, while a neighbour gives back as much. */
START_TEST(test_not_what_a_call_takes)
{
    begin();
    gb_inherited_import(&backend, 64 * MIB);
    atomic_store(&backend.inherited.taking, 1);
    take(20 * MIB);
    card_free += 20 * MIB;
    ck_assert_uint_eq(other(), 30 * MIB);
    atomic_store(&backend.inherited.taking, 0);
    ck_assert_uint_eq(other(), 30 * MIB);
}
END_TEST

/* Of two imports one is inherited, and the other ends. */
START_TEST(test_the_wrong_one)
{
    begin();
    gb_inherited_import(&backend, 64 * MIB);
    gb_inherited_import(&backend, 64 * MIB);
    exporter_ends(64 * MIB, 500 * MIB);
    ck_assert_uint_eq(other(), 10 * MIB);
    gb_inherited_import_ends(&backend, 64 * MIB);
    ck_assert_uint_eq(other(), 10 * MIB);
    ck_assert_uint_eq(atomic_load(&backend.imported), 64 * MIB);
    gb_inherited_import_ends(&backend, 64 * MIB);
    exporter_ends(-64 * MIB, 64 * MIB);
    ck_assert_uint_eq(other(), 10 * MIB);
}
END_TEST

/* Where nothing tells what the card has lost it counts. */
START_TEST(test_no_hint)
{
    begin();
    hints = false;
    gb_inherited_import(&backend, 64 * MIB);
    gb_other_look(&backend, 0);
    exporter_ends(64 * MIB, 0);
    ck_assert_uint_eq(other(), 74 * MIB);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {test_found_and_given_back, test_hides_nothing,
                                  test_not_what_a_call_takes, test_the_wrong_one, test_no_hint};

    return unit_run("inherited", tests, COUNT_OF(tests));
}
