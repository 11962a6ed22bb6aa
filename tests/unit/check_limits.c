/* What a limit is put back to, with other threads at the same limit. */
#include "resource/limits.h"

#include "unit.h"

#define LIMIT CU_LIMIT_STACK_SIZE

static struct gb_driver_api api;
static size_t now; /* as the driver has it */
static bool tells;
static int questions;

static CUresult get_limit(size_t *value, CUlimit limit)
{
    questions++;
    ck_assert_int_eq(limit, LIMIT);
    if (!tells)
        return CUDA_ERROR_INVALID_VALUE;
    *value = now;
    return CUDA_SUCCESS;
}

static CUcontext context(int number)
{
    static char contexts[32];

    return (CUcontext)(void *)&contexts[number];
}

static void begin(void)
{
    gb_limits_forked();
    api = (struct gb_driver_api){.cuCtxGetLimit = get_limit};
    now = 1024;
    tells = true;
    questions = 0;
}

static void begins(struct gb_limit_change *change, int number)
{
    gb_limit_change_begins(change, &api, context(number), LIMIT);
}

static void ck_old(const struct gb_limit_change *change, size_t wanted)
{
    size_t value;

    ck_assert(gb_limit_change_old(change, &value));
    ck_assert_uint_eq(value, wanted);
}

START_TEST(test_alone)
{
    struct gb_limit_change change;

    begin();
    begins(&change, 0);
    now = 4096;
    ck_old(&change, 1024);
    gb_limit_change_ends(&change, true, 4096);
    begins(&change, 0);
    ck_old(&change, 4096);
    gb_limit_change_ends(&change, false, 8192);
    ck_assert_int_eq(questions, 2);
}
END_TEST

/* What another thread has set, and will put back, is not what it was. */
START_TEST(test_another_is_refused)
{
    struct gb_limit_change first, second;

    begin();
    begins(&first, 0);
    now = 4096;
    begins(&second, 0);
    ck_old(&first, 1024);
    now = 1024;
    gb_limit_change_ends(&first, false, 4096);
    now = 8192;
    ck_old(&second, 1024);
    gb_limit_change_ends(&second, false, 8192);
}
END_TEST

/* And what it has been granted stays. */
START_TEST(test_another_is_granted)
{
    struct gb_limit_change first, second;

    begin();
    begins(&first, 0);
    begins(&second, 0);
    now = 4096;
    gb_limit_change_ends(&second, true, 4096);
    ck_old(&first, 4096);
    gb_limit_change_ends(&first, false, 8192);
}
END_TEST

START_TEST(test_of_other_contexts)
{
    struct gb_limit_change first, second;

    begin();
    begins(&first, 0);
    now = 4096;
    begins(&second, 1);
    ck_old(&first, 1024);
    ck_old(&second, 4096);
    gb_limit_change_ends(&first, false, 0);
    gb_limit_change_ends(&second, false, 0);
}
END_TEST

START_TEST(test_driver_does_not_say)
{
    struct gb_limit_change first, second;
    size_t value;

    begin();
    tells = false;
    begins(&first, 0);
    ck_assert(!gb_limit_change_old(&first, &value));
    /* The second one does learn it. */
    tells = true;
    begins(&second, 0);
    ck_old(&first, 1024);
    ck_old(&second, 1024);
    gb_limit_change_ends(&first, false, 0);
    gb_limit_change_ends(&second, false, 0);
    api.cuCtxGetLimit = NULL;
    begins(&first, 0);
    ck_assert(!gb_limit_change_old(&first, &value));
    gb_limit_change_ends(&first, false, 0);
}
END_TEST

/* More than there are places for: each for itself. */
START_TEST(test_many)
{
    struct gb_limit_change changes[20];

    begin();
    for (int i = 0; i < 20; i++)
        begins(&changes[i], i);
    now = 4096;
    for (int i = 0; i < 20; i++) {
        ck_old(&changes[i], 1024);
        gb_limit_change_ends(&changes[i], false, 0);
    }
    /* All places are free again. */
    begins(&changes[0], 0);
    begins(&changes[1], 0);
    ck_assert_ptr_nonnull(changes[0].shared);
    ck_assert_ptr_eq(changes[0].shared, changes[1].shared);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {test_alone,
                                  test_another_is_refused,
                                  test_another_is_granted,
                                  test_of_other_contexts,
                                  test_driver_does_not_say,
                                  test_many};

    return unit_run("limits", tests, COUNT_OF(tests));
}
