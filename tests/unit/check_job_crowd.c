/* Processes of one job: they race, are killed, stopped, forked, and what they held comes back
 * exactly when they are gone. */
#define _GNU_SOURCE
#include "job_unit.h"

#include "job/job_clean.h"

#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>

#define SECOND UINT64_C(1000000000)

enum { WORKERS_MOST = 32 };

/* What the test's processes tell each other, beside the job. */
struct board {
    _Atomic unsigned ready, go, granted, ended;
};

static struct board *board;

static uint64_t now(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t)ts.tv_sec * SECOND + (uint64_t)ts.tv_nsec;
}

static void setup(void)
{
    job_setup();
    board =
        mmap(NULL, sizeof(*board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ck_assert_ptr_ne(board, MAP_FAILED);
}

static void wait_for(_Atomic unsigned *count, unsigned least)
{
    while (atomic_load(count) < least)
        usleep(100);
}

static void ends(pid_t child)
{
    int status;

    ck_assert_int_eq(waitpid(child, &status, 0), child);
}

static void dies(pid_t child)
{
    ck_assert_int_eq(kill(child, SIGKILL), 0);
    ends(child);
}

/* A process that holds so much and does then what it is told. */
static pid_t holder(uint64_t limit, uint64_t bytes, void (*then)(struct gb_job *job))
{
    unsigned before = atomic_load(&board->ready);
    pid_t child = fork();

    ck_assert_int_ge(child, 0);
    if (child == 0) {
        struct gb_job *job = job_joined(limit);

        if (!job_take(job, bytes, 0))
            _exit(1);
        if (then)
            then(job);
        atomic_fetch_add(&board->ready, 1);
        for (;;)
            pause();
    }
    wait_for(&board->ready, before + 1);
    return child;
}

START_TEST(test_killed)
{
    pid_t child = holder(1000, 600, NULL);
    struct gb_job *job = job_joined(1000);

    ck_assert_uint_eq(gb_job_reap(job), 0);
    ck_assert(!job_take(job, 500, 0));
    kill(child, SIGSTOP);
    ck_assert(!job_take(job, 500, now() + SECOND / 100));
    dies(child);
    ck_assert_uint_eq(gb_job_used(job, 0), 600);
    ck_assert(job_take(job, 1000, 0));
    job_left(job);
}
END_TEST

/* In flight, and never heard of again. */
static void claims(struct gb_job *job)
{
    ck_assert(gb_job_reserve(job, 0, 300, 0));
}

START_TEST(test_killed_in_flight)
{
    pid_t child = holder(1000, 600, claims);
    struct gb_job *job = job_joined(1000);

    ck_assert(!job_take(job, 200, now() + SECOND / 100));
    dies(child);
    ck_assert(job_take(job, 200, now() + 10 * SECOND));
    ck_assert_uint_eq(gb_job_used(job, 0), 200);
    job_left(job);
}
END_TEST

static void closes_all(struct gb_job *job)
{
    (void)job;
    for (int fd = 3; fd < 256; fd++)
        close(fd);
}

/* Children of all kinds, which live on. */
static void forks(struct gb_job *job)
{
    (void)job;
    if (fork() == 0) {
        wait_for(&board->go, 1);
        atomic_fetch_add(&board->ended, 1);
        _exit(0);
    }
    if (syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, 0) == 0) {
        wait_for(&board->go, 1);
        atomic_fetch_add(&board->ended, 1);
        _exit(0);
    }
}

START_TEST(test_descriptors_closed)
{
    pid_t child = holder(1000, 600, closes_all);
    struct gb_job *job = job_joined(1000);

    ck_assert(!job_take(job, 500, 0));
    ck_assert_uint_eq(gb_job_used(job, 0), 600);
    dies(child);
    ck_assert(job_take(job, 1000, 0));
    job_left(job);
}
END_TEST

START_TEST(test_children_live_on)
{
    pid_t child = holder(1000, 600, forks);
    struct gb_job *job = job_joined(1000);

    ck_assert(!job_take(job, 500, 0));
    dies(child);
    ck_assert(job_take(job, 1000, 0));
    atomic_store(&board->go, 1);
    wait_for(&board->ended, 2);
    job_left(job);
}
END_TEST

static void executes(struct gb_job *job)
{
    (void)job;
    atomic_fetch_add(&board->ready, 1);
    execlp("sleep", "sleep", "100", (char *)NULL);
    _exit(1);
}

START_TEST(test_exec)
{
    pid_t child = holder(1000, 600, executes);
    struct gb_job *job = job_joined(1000);

    /* It may not have come so far. */
    while (!job_take(job, 1000, 0))
        usleep(1000);
    dies(child);
    job_left(job);
}
END_TEST

/* The child of a fork has none of its parent's, and a slot of its own. */
START_TEST(test_forked)
{
    struct gb_job *job = job_joined(1000);
    pid_t child;
    int status;

    ck_assert(job_take(job, 600, 0));
    child = fork();
    if (child == 0) {
        gb_job_forked(job);
        if (!gb_job_rejoin(job) || job->place != 1 || job_take(job, 500, 0) ||
            !job_take(job, 400, 0) || gb_job_used(job, 0) != 1000)
            _exit(1);
        _exit(0);
    }
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_int_eq(status, 0);
    ck_assert(job_take(job, 400, 0));
    job_left(job);
}
END_TEST

START_TEST(test_more_than_slots)
{
    struct gb_job *last = malloc(sizeof(*last));
    int fds[GB_JOB_SLOTS];

    ck_assert_ptr_nonnull(last);
    job_left(job_joined(1000));
    /* Locks of one open file are one owner's: it is enough that somebody has them. */
    ck_assert(gb_job_file_open(&job_dir, &job_name, &last->file));
    fds[0] = gb_job_file_again(&last->file);
    gb_job_file_close(&last->file);
    for (unsigned i = 0; i < GB_JOB_SLOTS; i++)
        ck_assert(gb_job_file_lock(fds[0], i));
    ck_assert(!gb_job_join(last, &job_dir, &job_name));
    ck_assert_str_eq(last->file.refused, "has no slot left for another process");
    ck_assert(gb_job_file_unlock(fds[0], GB_JOB_SLOTS - 1));
    ck_assert(gb_job_join(last, &job_dir, &job_name));
    ck_assert_uint_eq(last->place, GB_JOB_SLOTS - 1);
    job_left(last);
    close(fds[0]);
}
END_TEST

/* Several processes ask at once, and one of them fits: one is granted, neither more nor none.
 */
START_TEST(test_race)
{
    enum { RACERS = 3, ROUNDS = 200 };
    pid_t children[RACERS];

    for (int i = 0; i < RACERS; i++) {
        children[i] = fork();
        if (children[i] != 0)
            continue;
        struct gb_job *job = job_joined(1000);

        for (unsigned round = 1; round <= ROUNDS; round++) {
            bool mine;

            atomic_fetch_add(&board->ready, 1);
            while (atomic_load(&board->go) < round)
                ;
            mine = job_take(job, 501, now() + 10 * SECOND);
            atomic_fetch_add(&board->granted, mine);
            atomic_fetch_add(&board->ended, 1);
            while (atomic_load(&board->go) < round + ROUNDS &&
                   atomic_load(&board->ended) % RACERS != 0)
                sched_yield();
            if (mine)
                job_give(job, 501);
        }
        _exit(0);
    }
    for (unsigned round = 1; round <= ROUNDS; round++) {
        wait_for(&board->ready, round * RACERS);
        ck_assert_uint_eq(atomic_load(&board->granted), round - 1);
        atomic_store(&board->go, round);
        wait_for(&board->ended, round * RACERS);
    }
    for (int i = 0; i < RACERS; i++)
        ends(children[i]);
    ck_assert_uint_eq(atomic_load(&board->granted), ROUNDS);
}
END_TEST

/* Takes and gives back without end. */
static void works(unsigned seed)
{
    struct gb_job *job = job_joined(1000);
    uint64_t held[8] = {0};

    for (unsigned turn = 0;; turn++) {
        unsigned which = (unsigned)rand_r(&seed) % COUNT_OF(held);

        if (held[which]) {
            job_give(job, held[which]);
            held[which] = 0;
        } else {
            uint64_t bytes = 1 + (uint64_t)rand_r(&seed) % 200;

            if (job_take(job, bytes, now() + SECOND / 1000))
                held[which] = bytes;
        }
        /* Two cores are enough. */
        if (turn % 4 == 0)
            usleep((unsigned)rand_r(&seed) % 4000);
    }
}

static pid_t worker(unsigned seed)
{
    pid_t child = fork();

    ck_assert_int_ge(child, 0);
    if (child == 0)
        works(seed);
    return child;
}

/* So many are killed at any moment, and others come. Whenever all stand still, no more is held
 * than the limit; and in the end nothing. */
static void kills(unsigned workers, unsigned number)
{
    pid_t children[WORKERS_MOST];
    struct gb_job *job = job_joined(1000);
    unsigned seed = 1, granted = 0;

    for (unsigned i = 0; i < workers; i++)
        children[i] = worker(i + 1);
    for (unsigned i = 0; i < number; i++) {
        unsigned which = (unsigned)rand_r(&seed) % workers;

        usleep((unsigned)rand_r(&seed) % 2000);
        dies(children[which]);
        children[which] = worker(i + 100);
        if (i % 10 != 0)
            continue;
        for (unsigned j = 0; j < workers; j++) {
            int status;

            kill(children[j], SIGSTOP);
            ck_assert_int_eq(waitpid(children[j], &status, WUNTRACED), children[j]);
            ck_assert(WIFSTOPPED(status));
        }
        ck_assert_uint_le(gb_job_held(job, 0), 1000);
        granted += gb_job_held(job, 0) > 0;
        for (unsigned j = 0; j < workers; j++)
            kill(children[j], SIGCONT);
    }
    for (unsigned i = 0; i < workers; i++)
        dies(children[i]);
    gb_job_reap(job);
    ck_assert_uint_eq(gb_job_used(job, 0), 0);
    ck_assert_uint_gt(granted, 0);
    job_left(job);
}

START_TEST(test_kills)
{
    const char *length = getenv("GB_TEST_LENGTH");

    if (length && strcmp(length, "long") == 0)
        kills(32, 1000);
    else
        kills(8, 200);
}
END_TEST

/* All at once. */
START_TEST(test_start)
{
    enum { RANKS = 64 };
    pid_t children[RANKS];

    for (int i = 0; i < RANKS; i++) {
        children[i] = fork();
        if (children[i] != 0)
            continue;
        wait_for(&board->go, 1);
        struct gb_job *job = job_joined(64);

        if (!job_take(job, 1, 0))
            _exit(1);
        atomic_fetch_add(&board->ready, 1);
        wait_for(&board->ready, RANKS);
        _exit(0);
    }
    atomic_store(&board->go, 1);
    for (int i = 0; i < RANKS; i++) {
        int status;

        ck_assert_int_eq(waitpid(children[i], &status, 0), children[i]);
        ck_assert_int_eq(status, 0);
    }
}
END_TEST

/* Joins, takes more than half, and leaves, again and again: no two at once have that, whichever
 * file they found. */
static void comes_and_goes(void)
{
    while (atomic_load(&board->go) == 0) {
        struct gb_job *job = job_joined(1000);

        if (job_take(job, 501, 0)) {
            if (atomic_fetch_add(&board->granted, 1) != 0)
                _exit(1);
            sched_yield();
            atomic_fetch_sub(&board->granted, 1);
            job_give(job, 501);
            atomic_fetch_add(&board->ready, 1);
        }
        job_left(job);
    }
    _exit(0);
}

/* The file is removed whenever nobody is in it, and who comes just then notices. */
START_TEST(test_cleaned)
{
    enum { COMERS = 3, TIMES = 100 };
    unsigned removed = 0, seed = 1;
    pid_t children[COMERS];

    for (int i = 0; i < COMERS; i++) {
        children[i] = fork();
        ck_assert_int_ge(children[i], 0);
        if (children[i] == 0)
            comes_and_goes();
    }
    for (int i = 0; removed < TIMES || atomic_load(&board->ready) < TIMES; i++) {
        removed += gb_job_clean(&job_dir, &job_name);
        /* One that cleans without end could keep off whoever comes. */
        usleep((unsigned)rand_r(&seed) % 200);
        for (int j = 0; i % 64 == 0 && j < COMERS; j++)
            ck_assert_msg(waitpid(children[j], NULL, WNOHANG) == 0, "one has failed");
    }
    atomic_store(&board->go, 1);
    for (int i = 0; i < COMERS; i++) {
        int status;

        ck_assert_int_eq(waitpid(children[i], &status, 0), children[i]);
        ck_assert_int_eq(status, 0);
    }
}
END_TEST

/* Is it there? */
static bool has_file(const char *head, unsigned number, struct gb_job_name *name)
{
    char path[128];

    snprintf(name->text, sizeof(name->text), "%s-%u-1", head, number);
    snprintf(path, sizeof(path), "%s/%s.job", job_folder, name->text);
    return access(path, F_OK) == 0;
}

/* A few at a time, and all in the end, however many others live. */
START_TEST(test_cleaned_by_others)
{
    enum { EACH = 8, MOST = 2, TIMES = 200 };
    static struct gb_job live[EACH], dead;
    struct gb_job_name name;
    unsigned left = EACH;

    for (unsigned i = 0; i < EACH; i++) {
        ck_assert(!has_file("pid", i, &name));
        ck_assert(gb_job_join(&live[i], &job_dir, &name));
        ck_assert(!has_file("run", i, &name));
        ck_assert(gb_job_join(&dead, &job_dir, &name));
        gb_job_leave(&dead);
        ck_assert(!has_file("kept", i, &name));
        ck_assert(gb_job_join(&dead, &job_dir, &name));
        gb_job_leave(&dead);
    }
    for (int i = 0; i < TIMES && left > 0; i++) {
        unsigned before = left;
        pid_t child = fork();

        ck_assert_int_ge(child, 0);
        if (child == 0) {
            gb_job_clean_some(&job_dir, MOST);
            _exit(0);
        }
        ends(child);
        left = 0;
        for (unsigned j = 0; j < EACH; j++) {
            left += has_file("run", j, &name);
            ck_assert(has_file("pid", j, &name));
            ck_assert(has_file("kept", j, &name));
        }
        ck_assert_uint_le(before - left, MOST);
    }
    ck_assert_uint_eq(left, 0);
    for (unsigned i = 0; i < EACH; i++)
        gb_job_leave(&live[i]);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {test_killed,
                                  test_killed_in_flight,
                                  test_descriptors_closed,
                                  test_children_live_on,
                                  test_exec,
                                  test_forked,
                                  test_more_than_slots,
                                  test_race,
                                  test_kills,
                                  test_start,
                                  test_cleaned,
                                  test_cleaned_by_others};

    return unit_run_with("job_crowd", tests, COUNT_OF(tests), setup, job_teardown);
}
