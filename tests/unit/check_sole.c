/* One that asks alone, beside others: who waits for whom, and never for long. */
#include "resource/sole.h"

#include "unit.h"

#include <time.h>
#include <unistd.h>

static struct gb_sole sole;
static _Atomic bool quiet, entered, left;
static _Atomic int alone;

static void setup(void)
{
    gb_sole_forked(&sole);
    atomic_store(&quiet, true);
    atomic_store(&entered, false);
    atomic_store(&left, false);
    atomic_store(&alone, 0);
}

static bool is_quiet(void *arg)
{
    (void)arg;
    return atomic_load(&quiet);
}

static double seconds(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (double)ts.tv_sec + (double)ts.tv_nsec * 1e-9;
}

START_TEST(test_nobody_else)
{
    uint64_t mark;

    for (int i = 0; i < 3; i++) {
        ck_assert(gb_sole_begin(&sole, is_quiet, NULL, &mark));
        ck_assert(gb_sole_end(&sole, mark));
        gb_sole_join(&sole);
        gb_sole_leave(&sole);
    }
}
END_TEST

/* About a tenth of a second, and for a while not once more. */
START_TEST(test_beside_one_that_stays)
{
    double begin = seconds();
    uint64_t mark;

    gb_sole_join(&sole);
    ck_assert(!gb_sole_begin(&sole, is_quiet, NULL, &mark));
    gb_sole_end(&sole, mark);
    ck_assert(seconds() - begin >= 0.09);
    begin = seconds();
    for (int i = 0; i < 5; i++) {
        ck_assert(!gb_sole_begin(&sole, is_quiet, NULL, &mark));
        gb_sole_end(&sole, mark);
    }
    ck_assert(seconds() - begin < 0.4);
    gb_sole_leave(&sole);
    ck_assert(gb_sole_begin(&sole, is_quiet, NULL, &mark));
    ck_assert(gb_sole_end(&sole, mark));
}
END_TEST

START_TEST(test_beside_one_that_is_not_counted)
{
    uint64_t mark;

    atomic_store(&quiet, false);
    ck_assert(!gb_sole_begin(&sole, is_quiet, NULL, &mark));
    gb_sole_end(&sole, mark);
}
END_TEST

static void *joins(void *arg)
{
    (void)arg;
    atomic_store(&entered, true);
    gb_sole_join(&sole);
    atomic_store(&left, true);
    gb_sole_leave(&sole);
    return NULL;
}

START_TEST(test_others_wait)
{
    pthread_t thread;
    uint64_t mark;

    ck_assert(gb_sole_begin(&sole, is_quiet, NULL, &mark));
    pthread_create(&thread, NULL, joins, NULL);
    while (!atomic_load(&entered))
        usleep(100);
    usleep(10000);
    ck_assert(!atomic_load(&left));
    ck_assert(gb_sole_end(&sole, mark));
    pthread_join(thread, NULL);
}
END_TEST

/* Where it takes too long they go on, and it was not alone. */
START_TEST(test_others_do_not_wait_for_long)
{
    pthread_t thread;
    uint64_t mark;

    ck_assert(gb_sole_begin(&sole, is_quiet, NULL, &mark));
    pthread_create(&thread, NULL, joins, NULL);
    pthread_join(thread, NULL);
    ck_assert(!gb_sole_end(&sole, mark));
}
END_TEST

enum { THREADS = 4, ROUNDS = 2000 };

static void *asks_alone(void *arg)
{
    for (int i = 0; i < ROUNDS; i++) {
        uint64_t mark;
        bool begun = gb_sole_begin(&sole, is_quiet, NULL, &mark);
        int others = begun ? atomic_fetch_add(&alone, 1) : 0;

        if (begun)
            atomic_fetch_sub(&alone, 1);
        if (gb_sole_end(&sole, mark) && begun && others > 0)
            *(bool *)arg = true;
    }
    return NULL;
}

/* Of several that want to be, no two are. */
START_TEST(test_several)
{
    pthread_t threads[THREADS];
    bool two[THREADS] = {false};

    atomic_store(&sole.weary, UINT64_MAX); /* none waits */
    for (int i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, asks_alone, &two[i]);
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        ck_assert(!two[i]);
    }
    ck_assert_uint_eq(atomic_load(&sole.begun), atomic_load(&sole.ended));
    ck_assert_uint_eq(atomic_load(&sole.wanted), 0);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {
        test_nobody_else, test_beside_one_that_stays,       test_beside_one_that_is_not_counted,
        test_others_wait, test_others_do_not_wait_for_long, test_several};

    return unit_run_with("sole", tests, COUNT_OF(tests), setup, NULL);
}
