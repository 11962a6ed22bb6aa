/*
 * unit.h: what the unit tests of src/resource share: one runner, and threads that start at
 * once.
 */
#ifndef UNIT_H
#define UNIT_H

#include <check.h>
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>

#define KIB             (UINT64_C(1) << 10)
#define MIB             (UINT64_C(1) << 20)
#define GIB             (UINT64_C(1) << 30)

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

enum { UNIT_THREADS_MOST = 32, UNIT_SECONDS = 120 };

/* Runs the tests, each in a process of its own, with before and after around it, which may be
 * NULL; the exit status of main. */
static inline int unit_run_with(const char *name, const TTest *const *tests, size_t count,
                                void (*before)(void), void (*after)(void))
{
    Suite *suite = suite_create(name);
    TCase *tcase = tcase_create(name);
    SRunner *runner;
    int failed;

    /* Far beyond what any test needs: it ends one that hangs. */
    tcase_set_timeout(tcase, UNIT_SECONDS);
    tcase_add_checked_fixture(tcase, before, after);
    for (size_t i = 0; i < count; i++)
        tcase_add_test(tcase, tests[i]);
    suite_add_tcase(suite, tcase);
    runner = srunner_create(suite);
    srunner_set_fork_status(runner, CK_FORK);
    srunner_run_all(runner, CK_NORMAL);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed > 0;
}

static inline int unit_run(const char *name, const TTest *const *tests, size_t count)
{
    return unit_run_with(name, tests, count, NULL, NULL);
}

struct unit_thread {
    pthread_barrier_t *start;
    void (*run)(void *arg, int index);
    void *arg;
    int index;
};

static inline void *unit_thread_main(void *arg)
{
    struct unit_thread *thread = arg;

    pthread_barrier_wait(thread->start);
    thread->run(thread->arg, thread->index);
    return NULL;
}

/* Runs run(arg, 0 .. count - 1) in as many threads, which begin together; waits for all. */
static inline void unit_threads(int count, void (*run)(void *arg, int index), void *arg)
{
    pthread_t ids[UNIT_THREADS_MOST];
    struct unit_thread threads[UNIT_THREADS_MOST];
    pthread_barrier_t start;

    ck_assert_int_le(count, UNIT_THREADS_MOST);
    pthread_barrier_init(&start, NULL, (unsigned)count);
    for (int i = 0; i < count; i++) {
        threads[i] = (struct unit_thread){&start, run, arg, i};
        ck_assert_int_eq(pthread_create(&ids[i], NULL, unit_thread_main, &threads[i]), 0);
    }
    for (int i = 0; i < count; i++)
        pthread_join(ids[i], NULL);
    pthread_barrier_destroy(&start);
}

#endif
