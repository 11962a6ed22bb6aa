/* JobBudget over an inner resource that takes what is asked, or grows in steps: several stacks
 * in one process, and processes, that share a job. */
#define _GNU_SOURCE
#include "job/job_budget.h"
#include "job_unit.h"

#include "resource/backend.h"
#include "resource/resource.h"

#include <sys/mman.h>
#include <time.h>

#define EXACT   GPUBUDGET_KIND_DIRECT
#define GROWING GPUBUDGET_KIND_STREAM_ORDERED
#define SECOND  UINT64_C(1000000000)

enum { STEP = 32 };

/* A pool that grows by STEP where its idle bytes do not suffice. */
struct inner {
    gpubudget_resource_t resource;
    struct gpubudget_accounting ledger;
    _Atomic uint64_t idle;
    _Atomic unsigned undone;
    unsigned nap_us;                /* in the driver */
    struct gb_job_account *claimer; /* another process's, which claims much just then */
};

static struct inner *inner_of(const gpubudget_resource_t *resource)
{
    return (struct inner *)(uintptr_t)resource;
}

static gpubudget_status_t materialize(gpubudget_resource_t *self, gpubudget_request_t *request,
                                      gpubudget_block_t *block, gpubudget_error_t *error)
{
    struct inner *in = inner_of(self);
    uint64_t charge = request->bytes;

    (void)error;
    ck_assert_uint_eq(request->slack, 0);
    ck_assert_uint_eq(request->credit, 0);
    if (in->nap_us)
        usleep(in->nap_us);
    if (in->claimer)
        atomic_fetch_add(&in->claimer->in_flight, 1000);
    if (request->kind == GROWING) {
        charge = 0;
        if (atomic_load(&in->idle) < request->bytes) {
            charge = STEP;
            atomic_fetch_add(&in->idle, STEP);
        }
        atomic_fetch_sub(&in->idle, request->bytes);
    }
    gb_ledger_acquire(&in->ledger, charge);
    request->charged = charge;
    *block = (gpubudget_block_t){
        .id = {4096, 1}, .bytes = charge, .requested = request->bytes, .kind = request->kind};
    return GPUBUDGET_OK;
}

static gpubudget_status_t deallocate(gpubudget_resource_t *self, const gpubudget_block_t *block,
                                     const gpubudget_release_t *release,
                                     gpubudget_error_t *error)
{
    struct inner *in = inner_of(self);

    (void)error;
    if (release)
        atomic_fetch_add(&in->undone, 1);
    if (block->kind == GROWING)
        atomic_fetch_add(&in->idle, block->requested);
    else
        gb_ledger_reclaim(&in->ledger, block->bytes);
    return GPUBUDGET_OK;
}

static const gpubudget_accounting_t *accounting(const gpubudget_resource_t *self)
{
    return &inner_of(self)->ledger;
}

static uint64_t outstanding(const gpubudget_resource_t *self)
{
    return gb_ledger_outstanding(&inner_of(self)->ledger);
}

static uint64_t bound(gpubudget_resource_t *self, const gpubudget_request_t *request,
                      bool least)
{
    (void)self;
    if (request->kind == GROWING)
        return least ? 0 : STEP;
    return request->bytes;
}

static bool make_room(gpubudget_resource_t *self, uint64_t bytes)
{
    struct inner *in = inner_of(self);
    uint64_t idle = atomic_load(&in->idle);

    if (idle < bytes)
        return false;
    atomic_fetch_sub(&in->idle, idle);
    gb_ledger_reclaim(&in->ledger, idle);
    return true;
}

static int device(const gpubudget_resource_t *self)
{
    (void)self;
    return 0;
}

static void destroy(gpubudget_resource_t *self)
{
    (void)self;
}

static const gpubudget_resource_ops_t inner_ops = {.size = sizeof(inner_ops),
                                                   .materialize = materialize,
                                                   .deallocate = deallocate,
                                                   .allocation_accounting = accounting,
                                                   .bytes_outstanding = outstanding,
                                                   .device_ordinal = device,
                                                   .destroy = destroy,
                                                   .charge_bound = bound,
                                                   .make_room = make_room};

/* What one process has: a stack of job, own budget and backend. */
struct part {
    struct inner inner;
    struct gpubudget_budget own;
    struct gb_job_budget top;
    struct gb_job *job;
};

static struct part *part_of(uint64_t job_limit, uint64_t own_limit)
{
    struct part *part = calloc(1, sizeof(*part));

    ck_assert_ptr_nonnull(part);
    part->job = job_joined(job_limit);
    part->inner.resource.ops = &inner_ops;
    gb_ledger_init(&part->inner.ledger);
    gb_budget_init(&part->own, &part->inner.resource, own_limit, 0);
    gb_job_budget_init(&part->top, part->job, 0, &part->own.resource, &part->inner.ledger);
    gb_budget_stack(&part->top.budget, &part->own);
    return part;
}

static void part_ends(struct part *part)
{
    job_left(part->job);
    free(part);
}

static gpubudget_status_t ask(struct part *part, gpubudget_kind_t kind, size_t bytes,
                              gpubudget_block_t *block, const void **refused_by)
{
    gpubudget_request_t request = {.bytes = bytes, .kind = kind};
    gpubudget_error_t error;
    gpubudget_status_t status =
        gpubudget_materialize(&part->top.budget.resource, &request, block, &error);

    if (refused_by)
        *refused_by = request.refused_by;
    return status;
}

static bool takes(struct part *part, gpubudget_kind_t kind, size_t bytes)
{
    gpubudget_block_t block;

    return ask(part, kind, bytes, &block, NULL) == GPUBUDGET_OK;
}

START_TEST(test_two_share)
{
    struct part *one = part_of(1000, GB_BUDGET_NO_LIMIT), *other = part_of(1000, 700);
    const void *by = NULL;
    gpubudget_block_t block;

    ck_assert(takes(one, EXACT, 600));
    ck_assert_int_eq(ask(other, EXACT, 500, &block, &by), GPUBUDGET_OUT_OF_BUDGET);
    ck_assert_ptr_eq(by, &other->top.budget);
    ck_assert_int_eq(ask(other, EXACT, 400, &block, NULL), GPUBUDGET_OK);
    ck_assert(!takes(one, EXACT, 1));
    ck_assert_uint_eq(gb_job_used(one->job, 0), 1000);
    ck_assert_uint_eq(gpubudget_budget_reserved_bytes(&one->top.budget), 1000);
    ck_assert_uint_eq(gpubudget_budget_remaining(&other->top.budget), 0);
    gpubudget_deallocate(&other->top.budget.resource, &block, NULL, NULL);
    ck_assert(takes(one, EXACT, 400));
    ck_assert_uint_eq(atomic_load(&one->own.in_flight), 0);
    ck_assert_uint_eq(gb_job_in_flight(one->job, 0), 0);
    part_ends(one);
    part_ends(other);
}
END_TEST

START_TEST(test_own_limit_holds)
{
    struct part *one = part_of(1000, 300);
    const void *by = NULL;
    gpubudget_block_t block;

    ck_assert_int_eq(ask(one, EXACT, 301, &block, &by), GPUBUDGET_OUT_OF_BUDGET);
    ck_assert_ptr_eq(by, &one->own);
    ck_assert(takes(one, EXACT, 300));
    ck_assert(!gb_budget_has_room(&one->own, 1));
    ck_assert_uint_eq(gb_job_used(one->job, 0), 300);
    part_ends(one);
}
END_TEST

/* What grows beyond is undone, and what the pool keeps of it goes back. */
START_TEST(test_growth)
{
    struct part *one = part_of(100, GB_BUDGET_NO_LIMIT), *other = part_of(100, 1000);

    ck_assert(takes(other, EXACT, 70));
    ck_assert(!takes(one, GROWING, 8));
    ck_assert_uint_eq(atomic_load(&one->inner.undone), 1);
    ck_assert_uint_eq(gb_job_used(one->job, 0), 70);
    gb_ledger_reclaim(&other->inner.ledger, 2);
    ck_assert(takes(one, GROWING, 8));
    ck_assert(takes(one, GROWING, 24));
    ck_assert_uint_eq(gb_job_used(one->job, 0), 100);
    ck_assert(!takes(one, GROWING, 1));
    ck_assert_uint_eq(gb_job_used(one->job, 0), 100);
    part_ends(one);
    part_ends(other);
}
END_TEST

/* What others have in flight for a moment does not keep it from going back. */
START_TEST(test_growth_beside_a_claim)
{
    struct part *one = part_of(100, GB_BUDGET_NO_LIMIT), *other = part_of(100, 1000);

    ck_assert(takes(other, EXACT, 70));
    one->inner.claimer = gb_job_account(other->job, 0);
    ck_assert(!takes(one, GROWING, 8));
    ck_assert_uint_eq(atomic_load(&one->inner.undone), 1);
    ck_assert_uint_eq(gb_job_held(one->job, 0), 70);
    part_ends(one);
    part_ends(other);
}
END_TEST

/* Without a limit nothing is summed, and a limit that is set later holds. */
START_TEST(test_without_a_limit)
{
    struct part *one = part_of(GB_JOB_NO_LIMIT, GB_BUDGET_NO_LIMIT);
    struct gb_job *job = one->job;

    gb_ledger_acquire(&one->inner.ledger, 5000);
    ck_assert_uint_eq(gb_job_held(job, 0), 5000);
    ck_assert_uint_eq(gpubudget_budget_limit(&one->top.budget), GB_JOB_NO_LIMIT);
    atomic_store(&job->file.shared->device[0].limit, 4000);
    ck_assert(!takes(one, EXACT, 1));
    gb_ledger_reclaim(&one->inner.ledger, 2000);
    ck_assert(takes(one, EXACT, 1000));
    ck_assert(!takes(one, EXACT, 1));
    part_ends(one);
}
END_TEST

START_TEST(test_file_is_gone)
{
    struct part *one = part_of(1000, GB_BUDGET_NO_LIMIT);
    const void *by = NULL;
    gpubudget_block_t block;

    ck_assert(takes(one, EXACT, 1));
    ck_assert_int_eq(unlink(one->job->file.path), 0);
    usleep(250000);
    ck_assert_int_eq(ask(one, EXACT, 1, &block, &by), GPUBUDGET_OUT_OF_BUDGET);
    ck_assert_ptr_eq(by, &one->top.budget);
    ck_assert(gb_job_is_gone(one->job));
    part_ends(one);
}
END_TEST

START_TEST(test_child_of_a_fork)
{
    struct part *one = part_of(1000, 500);
    int status;
    pid_t child;

    ck_assert(takes(one, EXACT, 300));
    child = fork();
    if (child == 0) {
        gb_job_forked(one->job);
        gb_ledger_init(&one->inner.ledger);
        gb_budget_forked(&one->own);
        gb_budget_forked(&one->top.budget);
        _exit(takes(one, EXACT, 1) || takes(one, GROWING, 1) ||
              gb_ledger_outstanding(&one->inner.ledger) != 0 ||
              gb_job_used(one->job, 0) != 300);
    }
    waitpid(child, &status, 0);
    ck_assert_int_eq(status, 0);
    ck_assert_uint_eq(gb_job_used(one->job, 0), 300);
    part_ends(one);
}
END_TEST

/* ---- processes that race ---- */

struct board {
    _Atomic unsigned ready, go, granted, ended;
};

static struct board *board;

static void racer(gpubudget_kind_t kind, size_t bytes, uint64_t limit)
{
    struct part *part = part_of(limit, GB_BUDGET_NO_LIMIT);

    part->inner.nap_us = 200;
    atomic_fetch_add(&board->ready, 1);
    while (!atomic_load(&board->go))
        ;
    if (takes(part, kind, bytes))
        atomic_fetch_add(&board->granted, 1);
    atomic_fetch_add(&board->ended, 1);
    for (;;)
        pause();
}

/* Of so many that come at once exactly as many are granted as fit. */
static void race(gpubudget_kind_t kind, size_t bytes, uint64_t limit, unsigned fit)
{
    enum { RACERS = 6, ROUNDS = 25 };
    pid_t children[RACERS];

    board =
        mmap(NULL, sizeof(*board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ck_assert_ptr_ne(board, MAP_FAILED);
    for (int round = 0; round < ROUNDS; round++) {
        struct gb_job *job = job_joined(limit);

        *board = (struct board){0};
        for (int i = 0; i < RACERS; i++) {
            children[i] = fork();
            if (children[i] == 0)
                racer(kind, bytes, limit);
        }
        while (atomic_load(&board->ready) < RACERS)
            usleep(100);
        atomic_store(&board->go, 1);
        while (atomic_load(&board->ended) < RACERS)
            usleep(100);
        ck_assert_uint_eq(atomic_load(&board->granted), fit);
        ck_assert_uint_le(gb_job_used(job, 0), limit);
        for (int i = 0; i < RACERS; i++) {
            kill(children[i], SIGKILL);
            waitpid(children[i], NULL, 0);
        }
        gb_job_reap(job);
        ck_assert_uint_eq(gb_job_used(job, 0), 0);
        job_left(job);
    }
}

START_TEST(test_race)
{
    race(EXACT, 400, 1000, 2);
}
END_TEST

START_TEST(test_race_of_growth)
{
    race(GROWING, 20, 70, 2);
}
END_TEST

/* Whoever has the turn and is stopped keeps others no longer than they wait; killed, not at
 * all. */
START_TEST(test_stopped_with_the_turn)
{
    struct part *one = part_of(100, GB_BUDGET_NO_LIMIT);
    pid_t child;

    board =
        mmap(NULL, sizeof(*board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ck_assert(takes(one, EXACT, 50));
    child = fork();
    if (child == 0) {
        struct part *part = part_of(100, GB_BUDGET_NO_LIMIT);

        gb_job_turn_take(part->job, 0, UINT64_MAX);
        atomic_store(&board->ready, 1);
        for (;;)
            pause();
    }
    while (!atomic_load(&board->ready))
        usleep(100);
    ck_assert(takes(one, EXACT, 40)); /* far enough: no turn */
    ck_assert(!takes(one, GROWING, 4));
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    gb_ledger_reclaim(&one->inner.ledger, 22);
    ck_assert(takes(one, GROWING, 4));
    ck_assert_uint_eq(gb_job_used(one->job, 0), 100);
    part_ends(one);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {test_two_share,       test_own_limit_holds,
                                  test_growth,          test_growth_beside_a_claim,
                                  test_without_a_limit, test_file_is_gone,
                                  test_child_of_a_fork, test_race,
                                  test_race_of_growth,  test_stopped_with_the_turn};

    return unit_run_with("job_budget", tests, COUNT_OF(tests), job_setup, job_teardown);
}
