/* GlobalDeviceBudget over a scripted inner resource. */
#include "resource/budget.h"

#include "resource/resource.h"
#include "unit.h"

#include <sched.h>
#include <semaphore.h>
#include <string.h>

#define LIMIT UINT64_C(100)

/*
 * The inner resource. Exact kinds charge what is asked; GROWING, as a pool, takes `growth` once
 * its idle bytes do not suffice, and keeps it as idle bytes when the block is freed.
 */
#define EXACT   GPUBUDGET_KIND_DIRECT
#define GROWING GPUBUDGET_KIND_STREAM_ORDERED

struct inner {
    gpubudget_resource_t resource;
    struct gpubudget_accounting ledger;
    uint64_t growth;    /* most that a GROWING request may take */
    uint64_t surplus;   /* charged beyond the bound, by any request */
    uint64_t idle;      /* of the ledger: what make_room can give back */
    uint64_t reapable;  /* of the ledger: what a reap can give back */
    CUresult code;      /* the driver's answer */
    CUresult undo_code; /* and to a free */
    bool looking;       /* `looks` grants charge another's growth too, the rest nothing */
    _Atomic int looks;
    bool blocking; /* materialize of kind `blocked` waits for `leave` */
    gpubudget_kind_t blocked;
    sem_t entered, leave;
    _Atomic int materialized, deallocated, reaped, rooms, least_asked;
    pthread_mutex_t lock; /* of the figures that free, reap and make room */
    gpubudget_request_t seen;
    const gpubudget_request_t *seen_at;
    uint64_t room_wanted;
};

static struct inner inner;

static struct inner *inner_of(const gpubudget_resource_t *resource)
{
    return (struct inner *)(uintptr_t)resource;
}

static gpubudget_status_t inner_materialize(gpubudget_resource_t *self,
                                            gpubudget_request_t *request,
                                            gpubudget_block_t *block, gpubudget_error_t *error)
{
    struct inner *in = inner_of(self);
    uint64_t charge = request->bytes + in->surplus;

    atomic_fetch_add(&in->materialized, 1);
    if (in->blocking && request->kind == in->blocked) {
        sem_post(&in->entered);
        sem_wait(&in->leave);
    } else if (!in->blocking) {
        in->seen = *request;
        in->seen_at = request;
    }
    if (in->code != CUDA_SUCCESS)
        return gb_fail_driver(error, in->code);
    if (request->kind == GROWING)
        charge = in->growth + in->surplus;
    if (in->looking)
        charge = atomic_fetch_sub(&in->looks, 1) > 0 ? 2 * in->growth : 0;
    gb_ledger_acquire(&in->ledger, charge);
    request->charged = charge;
    *block = (gpubudget_block_t){.id = {4096, 1}, .bytes = charge, .tag = request->tag};
    return GPUBUDGET_OK;
}

static gpubudget_status_t inner_deallocate(gpubudget_resource_t *self,
                                           const gpubudget_block_t *block,
                                           const gpubudget_release_t *release,
                                           gpubudget_error_t *error)
{
    struct inner *in = inner_of(self);

    atomic_fetch_add(&in->deallocated, 1);
    if (in->undo_code != CUDA_SUCCESS)
        return gb_fail_driver(error, in->undo_code);
    pthread_mutex_lock(&in->lock);
    if (release && release->ordered)
        in->idle += block->bytes;
    else
        gb_ledger_reclaim(&in->ledger, block->bytes);
    pthread_mutex_unlock(&in->lock);
    return GPUBUDGET_OK;
}

static const gpubudget_accounting_t *inner_accounting(const gpubudget_resource_t *self)
{
    return &inner_of(self)->ledger;
}

static uint64_t inner_outstanding(const gpubudget_resource_t *self)
{
    return gb_ledger_outstanding(&inner_of(self)->ledger);
}

static int inner_device(const gpubudget_resource_t *self)
{
    (void)self;
    return 5;
}

static void inner_destroy(gpubudget_resource_t *self)
{
    (void)self;
}

static uint64_t inner_bound(gpubudget_resource_t *self, const gpubudget_request_t *request,
                            bool least)
{
    if (least)
        atomic_fetch_add(&inner_of(self)->least_asked, 1);
    if (request->kind == GROWING)
        return least ? 0 : inner_of(self)->growth;
    return request->bytes;
}

static bool inner_make_room(gpubudget_resource_t *self, uint64_t bytes)
{
    struct inner *in = inner_of(self);
    bool enough;

    atomic_fetch_add(&in->rooms, 1);
    pthread_mutex_lock(&in->lock);
    in->room_wanted = bytes;
    enough = in->idle >= bytes;
    if (enough) {
        in->idle -= bytes;
        gb_ledger_reclaim(&in->ledger, bytes);
    }
    pthread_mutex_unlock(&in->lock);
    return enough;
}

static gpubudget_status_t inner_reap(gpubudget_resource_t *self, gpubudget_error_t *error)
{
    struct inner *in = inner_of(self);

    (void)error;
    pthread_mutex_lock(&in->lock);
    gb_ledger_reclaim(&in->ledger, in->reapable);
    in->reapable = 0;
    pthread_mutex_unlock(&in->lock);
    atomic_fetch_add(&in->reaped, 1);
    return GPUBUDGET_OK;
}

static const gpubudget_resource_ops_t inner_ops = {
    .size = sizeof(inner_ops),
    .materialize = inner_materialize,
    .deallocate = inner_deallocate,
    .allocation_accounting = inner_accounting,
    .bytes_outstanding = inner_outstanding,
    .device_ordinal = inner_device,
    .destroy = inner_destroy,
    .charge_bound = inner_bound,
    .make_room = inner_make_room,
    .reap_pending = inner_reap,
};

static void inner_begin(uint64_t outstanding)
{
    memset(&inner, 0, sizeof(inner));
    inner.resource.ops = &inner_ops;
    gb_ledger_init(&inner.ledger);
    gb_ledger_acquire(&inner.ledger, outstanding);
    pthread_mutex_init(&inner.lock, NULL);
    sem_init(&inner.entered, 0, 0);
    sem_init(&inner.leave, 0, 0);
}

static gpubudget_budget_t *new_budget(uint64_t outstanding, uint64_t limit)
{
    gpubudget_budget_t *budget = NULL;

    inner_begin(outstanding);
    ck_assert_int_eq(gpubudget_budget_new(&inner.resource, limit, &budget), GPUBUDGET_OK);
    return budget;
}

static void end_budget(gpubudget_budget_t *budget)
{
    gpubudget_resource_destroy(gpubudget_budget_resource(budget));
}

static gpubudget_status_t ask(gpubudget_budget_t *budget, gpubudget_kind_t kind, size_t bytes,
                              uint64_t pressure, gpubudget_error_t *error)
{
    gpubudget_request_t request = {
        .bytes = bytes, .kind = kind, .reservation_pressure = pressure, .tag = 7};
    gpubudget_block_t block;

    return gpubudget_materialize(gpubudget_budget_resource(budget), &request, &block, error);
}

START_TEST(test_new)
{
    gpubudget_budget_t *budget = new_budget(30, LIMIT);

    ck_assert_uint_eq(gpubudget_budget_limit(budget), LIMIT);
    ck_assert_uint_eq(gpubudget_budget_reserved_bytes(budget), 30);
    ck_assert_uint_eq(gpubudget_budget_remaining(budget), 70);
    ck_assert_uint_eq(gpubudget_budget_refusals(budget), 0);
    ck_assert_int_eq(gpubudget_budget_new(NULL, LIMIT, &budget), GPUBUDGET_INVALID_ARGUMENT);
    ck_assert_int_eq(gpubudget_budget_new(&inner.resource, LIMIT, NULL),
                     GPUBUDGET_INVALID_ARGUMENT);
    end_budget(budget);
}
END_TEST

/* An inner with live blocks already, also more of them than the limit. */
START_TEST(test_inner_with_live_blocks)
{
    gpubudget_budget_t *budget = new_budget(90, LIMIT);

    ck_assert_int_eq(ask(budget, EXACT, 11, 0, NULL), GPUBUDGET_OUT_OF_BUDGET);
    ck_assert_int_eq(ask(budget, EXACT, 10, 0, NULL), GPUBUDGET_OK);
    end_budget(budget);

    budget = new_budget(150, LIMIT);
    ck_assert_uint_eq(gpubudget_budget_remaining(budget), 0);
    ck_assert_int_eq(ask(budget, EXACT, 1, 0, NULL), GPUBUDGET_OUT_OF_BUDGET);
    gb_ledger_reclaim(&inner.ledger, 51);
    ck_assert_int_eq(ask(budget, EXACT, 1, 0, NULL), GPUBUDGET_OK);
    ck_assert_uint_eq(gpubudget_budget_remaining(budget), 0);
    end_budget(budget);
}
END_TEST

START_TEST(test_admission)
{
    gpubudget_budget_t *budget = new_budget(0, LIMIT);

    ck_assert_int_eq(ask(budget, EXACT, 60, 0, NULL), GPUBUDGET_OK);
    ck_assert_uint_eq(gpubudget_budget_reserved_bytes(budget), 60);
    ck_assert_int_eq(ask(budget, EXACT, 41, 0, NULL), GPUBUDGET_OUT_OF_BUDGET);
    ck_assert_uint_eq(gpubudget_budget_reserved_bytes(budget), 60);
    ck_assert_int_eq(ask(budget, EXACT, 40, 0, NULL), GPUBUDGET_OK);
    ck_assert_uint_eq(gpubudget_budget_remaining(budget), 0);
    ck_assert_int_eq(ask(budget, EXACT, 1, 0, NULL), GPUBUDGET_OUT_OF_BUDGET);
    /* Nothing costs nothing, also when the budget is full. */
    ck_assert_int_eq(ask(budget, EXACT, 0, 0, NULL), GPUBUDGET_OK);
    ck_assert_uint_eq(gpubudget_budget_refusals(budget), 2);
    ck_assert_int_eq(atomic_load(&inner.materialized), 3);
    end_budget(budget);
}
END_TEST

START_TEST(test_fast_path_asks_nothing)
{
    gpubudget_budget_t *budget = new_budget(0, LIMIT);

    ck_assert_int_eq(ask(budget, EXACT, 60, 0, NULL), GPUBUDGET_OK);
    ck_assert_int_eq(atomic_load(&inner.reaped), 0);
    ck_assert_int_eq(atomic_load(&inner.least_asked), 0);
    ck_assert_int_eq(atomic_load(&inner.rooms), 0);
    end_budget(budget);
}
END_TEST

START_TEST(test_pressure)
{
    gpubudget_budget_t *budget = new_budget(50, LIMIT);

    ck_assert_int_eq(ask(budget, EXACT, 20, 31, NULL), GPUBUDGET_OUT_OF_BUDGET);
    ck_assert_int_eq(ask(budget, EXACT, 20, 30, NULL), GPUBUDGET_OK);
    /* Counted at that admission, in no tally afterwards. */
    ck_assert_uint_eq(gpubudget_budget_reserved_bytes(budget), 70);
    ck_assert_int_eq(ask(budget, EXACT, 30, 0, NULL), GPUBUDGET_OK);
    ck_assert_int_eq(ask(budget, EXACT, 0, UINT64_MAX, NULL), GPUBUDGET_OUT_OF_BUDGET);
    end_budget(budget);
}
END_TEST

START_TEST(test_error_fields)
{
    gpubudget_budget_t *budget = new_budget(70, LIMIT);
    gpubudget_error_t error;

    memset(&error, 0xff, sizeof(error));
    ck_assert_int_eq(ask(budget, EXACT, 31, 0, &error), GPUBUDGET_OUT_OF_BUDGET);
    ck_assert_int_eq(error.status, GPUBUDGET_OUT_OF_BUDGET);
    ck_assert_int_eq(error.driver_code, CUDA_SUCCESS);
    ck_assert_uint_eq(error.requested, 31);
    ck_assert_uint_eq(error.current, 70);
    ck_assert_uint_eq(error.remaining, 30);
    ck_assert_uint_eq(error.limit, LIMIT);
    gb_ledger_acquire(&inner.ledger, 80);
    ck_assert_int_eq(ask(budget, EXACT, 1, 0, &error), GPUBUDGET_OUT_OF_BUDGET);
    ck_assert_uint_eq(error.current, 150);
    ck_assert_uint_eq(error.remaining, 0);
    end_budget(budget);
}
END_TEST

START_TEST(test_outputs_untouched)
{
    gpubudget_budget_t *budget = new_budget(70, LIMIT);
    gpubudget_resource_t *resource = gpubudget_budget_resource(budget);
    gpubudget_request_t request = {.bytes = 31, .kind = EXACT};
    gpubudget_block_t block, before;
    gpubudget_error_t error, no_error;

    memset(&block, 0x5a, sizeof(block));
    before = block;
    memset(&error, 0x5a, sizeof(error));
    no_error = error;
    ck_assert_int_eq(gpubudget_materialize(resource, &request, &block, NULL),
                     GPUBUDGET_OUT_OF_BUDGET);
    ck_assert_mem_eq(&block, &before, sizeof(block));
    request.bytes = 1;
    inner.code = CUDA_ERROR_OUT_OF_MEMORY;
    ck_assert_int_eq(gpubudget_materialize(resource, &request, &block, NULL), GPUBUDGET_DRIVER);
    ck_assert_mem_eq(&block, &before, sizeof(block));
    /* Charged more than there is room for: undone, and the block stays as it was. */
    inner.code = CUDA_SUCCESS;
    inner.surplus = 50;
    ck_assert_int_eq(gpubudget_materialize(resource, &request, &block, NULL),
                     GPUBUDGET_OUT_OF_BUDGET);
    ck_assert_int_eq(atomic_load(&inner.deallocated), 1);
    ck_assert_mem_eq(&block, &before, sizeof(block));
    inner.surplus = 0;
    ck_assert_int_eq(gpubudget_materialize(resource, &request, &block, &error), GPUBUDGET_OK);
    ck_assert_mem_eq(&error, &no_error, sizeof(error));
    end_budget(budget);
}
END_TEST

START_TEST(test_driver_refuses)
{
    gpubudget_budget_t *budget = new_budget(10, LIMIT);
    gpubudget_error_t error;

    inner.code = CUDA_ERROR_OUT_OF_MEMORY;
    ck_assert_int_eq(ask(budget, EXACT, 20, 0, &error), GPUBUDGET_DRIVER);
    ck_assert_int_eq(error.driver_code, CUDA_ERROR_OUT_OF_MEMORY);
    ck_assert_uint_eq(gpubudget_budget_reserved_bytes(budget), 10);
    /* The driver's answer, not a refusal of ours; and no retry behind the program's back. */
    ck_assert_uint_eq(gpubudget_budget_refusals(budget), 0);
    ck_assert_int_eq(atomic_load(&inner.materialized), 1);
    end_budget(budget);
}
END_TEST

START_TEST(test_larger_than_the_limit)
{
    gpubudget_budget_t *budget = new_budget(50, LIMIT);

    inner.reapable = 50;
    ck_assert_int_eq(ask(budget, EXACT, LIMIT + 1, 0, NULL), GPUBUDGET_OUT_OF_BUDGET);
    ck_assert_int_eq(ask(budget, EXACT, 50, 51, NULL), GPUBUDGET_OUT_OF_BUDGET);
    ck_assert_int_eq(ask(budget, EXACT, SIZE_MAX, 0, NULL), GPUBUDGET_OUT_OF_BUDGET);
    ck_assert_int_eq(atomic_load(&inner.reaped), 0);
    ck_assert_int_eq(atomic_load(&inner.rooms), 0);
    ck_assert_int_eq(atomic_load(&inner.least_asked), 0);
    ck_assert_int_eq(atomic_load(&inner.materialized), 0);
    ck_assert_int_eq(ask(budget, EXACT, LIMIT, 0, NULL), GPUBUDGET_OK);
    end_budget(budget);
}
END_TEST

START_TEST(test_one_reap_one_retry)
{
    gpubudget_budget_t *budget = new_budget(90, LIMIT);

    inner.reapable = 30;
    ck_assert_int_eq(ask(budget, EXACT, 40, 0, NULL), GPUBUDGET_OK);
    ck_assert_int_eq(atomic_load(&inner.reaped), 1);
    ck_assert_int_eq(atomic_load(&inner.materialized), 1);
    ck_assert_uint_eq(gpubudget_budget_reserved_bytes(budget), 100);
    ck_assert_uint_eq(gpubudget_budget_refusals(budget), 0);
    /* A reap that brings too little: refused after that one reap. */
    inner.reapable = 5;
    ck_assert_int_eq(ask(budget, EXACT, 6, 0, NULL), GPUBUDGET_OUT_OF_BUDGET);
    ck_assert_int_eq(atomic_load(&inner.reaped), 2);
    ck_assert_int_eq(atomic_load(&inner.materialized), 1);
    end_budget(budget);
}
END_TEST

START_TEST(test_room_is_made)
{
    gpubudget_budget_t *budget = new_budget(90, LIMIT);

    inner.idle = 25;
    ck_assert_int_eq(ask(budget, EXACT, 30, 0, NULL), GPUBUDGET_OK);
    ck_assert_int_eq(atomic_load(&inner.rooms), 1);
    ck_assert_uint_eq(inner.room_wanted, 20);
    ck_assert_uint_eq(gpubudget_budget_reserved_bytes(budget), 100);
    /* With pressure, room is made for that too. */
    inner.idle = 50;
    ck_assert_int_eq(ask(budget, EXACT, 10, 20, NULL), GPUBUDGET_OK);
    ck_assert_uint_eq(inner.room_wanted, 30);
    ck_assert_uint_eq(gpubudget_budget_reserved_bytes(budget), 80);
    end_budget(budget);
}
END_TEST

START_TEST(test_reserve)
{
    struct gpubudget_budget budget;
    gpubudget_error_t error;

    inner_begin(0);
    gb_budget_init(&budget, &inner.resource, LIMIT, 20);
    ck_assert_int_eq(ask(&budget, EXACT, 81, 0, &error), GPUBUDGET_OUT_OF_BUDGET);
    ck_assert_uint_eq(error.limit, LIMIT);
    ck_assert_int_eq(ask(&budget, EXACT, 80, 0, NULL), GPUBUDGET_OK);
    /* Growth that nobody asked for may use the reserve; requests may not. */
    gb_ledger_acquire(&inner.ledger, 15);
    ck_assert_uint_eq(gpubudget_budget_remaining(&budget), 5);
    ck_assert_int_eq(ask(&budget, EXACT, 1, 0, NULL), GPUBUDGET_OUT_OF_BUDGET);
    gpubudget_resource_destroy(&budget.resource);
}
END_TEST

START_TEST(test_report_only)
{
    gpubudget_budget_t *budget = new_budget(90, LIMIT);

    budget->report_only = true;
    /* What a reap can make fit would not have been refused. */
    inner.reapable = 50;
    ck_assert_int_eq(ask(budget, EXACT, 40, 0, NULL), GPUBUDGET_OK);
    ck_assert_uint_eq(gpubudget_budget_reserved_bytes(budget), 80);
    ck_assert_uint_eq(gpubudget_budget_refusals(budget), 0);
    ck_assert_int_eq(ask(budget, EXACT, 50, 0, NULL), GPUBUDGET_OK);
    ck_assert_uint_eq(gpubudget_budget_reserved_bytes(budget), 130);
    ck_assert_uint_eq(gpubudget_budget_refusals(budget), 1);
    ck_assert_int_eq(ask(budget, EXACT, 200, 0, NULL), GPUBUDGET_OK);
    ck_assert_uint_eq(gpubudget_budget_refusals(budget), 2);
    inner.code = CUDA_ERROR_OUT_OF_MEMORY;
    ck_assert_int_eq(ask(budget, EXACT, 40, 0, NULL), GPUBUDGET_DRIVER);
    ck_assert_uint_eq(gpubudget_budget_reserved_bytes(budget), 330);
    end_budget(budget);
}
END_TEST

START_TEST(test_charged_more_than_reserved)
{
    gpubudget_budget_t *budget = new_budget(80, LIMIT);

    /* It fits all the same: kept. */
    inner.surplus = 10;
    ck_assert_int_eq(ask(budget, EXACT, 10, 0, NULL), GPUBUDGET_OK);
    ck_assert_uint_eq(gpubudget_budget_reserved_bytes(budget), 100);
    gb_ledger_reclaim(&inner.ledger, 10);
    /* It does not: given back and refused. */
    ck_assert_int_eq(ask(budget, EXACT, 5, 0, NULL), GPUBUDGET_OUT_OF_BUDGET);
    ck_assert_int_eq(atomic_load(&inner.deallocated), 1);
    ck_assert_uint_eq(gpubudget_budget_reserved_bytes(budget), 90);
    ck_assert_uint_eq(gpubudget_budget_refusals(budget), 1);
    end_budget(budget);
}
END_TEST

START_TEST(test_undo_fails)
{
    gpubudget_budget_t *budget = new_budget(80, LIMIT);

    inner.surplus = 30;
    inner.undo_code = CUDA_ERROR_UNKNOWN;
    /* Taken and not to be given back: then it is the program's, charged as it stands. */
    ck_assert_int_eq(ask(budget, EXACT, 10, 0, NULL), GPUBUDGET_OK);
    ck_assert_int_eq(atomic_load(&inner.deallocated), 1);
    ck_assert_uint_eq(gpubudget_budget_reserved_bytes(budget), 120);
    ck_assert_uint_eq(gpubudget_budget_remaining(budget), 0);
    end_budget(budget);
}
END_TEST

/* A pool that grows by 40 for a request of 10: judged after the fact, undone, let go. */
START_TEST(test_growth_undone)
{
    gpubudget_budget_t *budget = new_budget(90, LIMIT);
    gpubudget_error_t error;

    inner.growth = 40;
    ck_assert_int_eq(ask(budget, GROWING, 10, 0, &error), GPUBUDGET_OUT_OF_BUDGET);
    ck_assert_int_eq(atomic_load(&inner.materialized), 1);
    ck_assert_int_eq(atomic_load(&inner.deallocated), 1);
    ck_assert_uint_eq(error.requested, 10);
    /* The pool would keep the growth as idle bytes: nothing of it stays beyond the limit. */
    ck_assert_uint_le(gpubudget_budget_reserved_bytes(budget), LIMIT);
    end_budget(budget);
}
END_TEST

/* The same outside the turn: the bound was admitted, the driver took more. */
START_TEST(test_growth_beyond_its_bound_is_let_go)
{
    gpubudget_budget_t *budget = new_budget(0, LIMIT);

    inner.growth = 10;
    inner.surplus = 120;
    ck_assert_int_eq(ask(budget, GROWING, 10, 0, NULL), GPUBUDGET_OUT_OF_BUDGET);
    ck_assert_int_eq(atomic_load(&inner.materialized), 1);
    ck_assert_uint_le(gpubudget_budget_reserved_bytes(budget), LIMIT);
    end_budget(budget);
}
END_TEST

START_TEST(test_growth_that_fits)
{
    gpubudget_budget_t *budget = new_budget(90, LIMIT);

    /* The upper bound does not fit, but the pool had enough: nothing is undone. */
    inner.growth = 40;
    ck_assert_int_eq(ask(budget, GROWING, 10, 0, NULL), GPUBUDGET_OUT_OF_BUDGET);
    inner_begin(60);
    inner.growth = 40;
    ck_assert_int_eq(ask(budget, GROWING, 10, 0, NULL), GPUBUDGET_OK);
    ck_assert_int_eq(atomic_load(&inner.deallocated), 0);
    ck_assert_uint_eq(gpubudget_budget_reserved_bytes(budget), 100);
    end_budget(budget);
}
END_TEST

struct asker {
    gpubudget_budget_t *budget;
    gpubudget_kind_t kind;
    size_t bytes;
    gpubudget_status_t status;
    _Atomic bool done;
    pthread_t thread;
};

static void *ask_in_thread(void *arg)
{
    struct asker *asker = arg;

    asker->status = ask(asker->budget, asker->kind, asker->bytes, 0, NULL);
    atomic_store(&asker->done, true);
    return NULL;
}

static void asker_start(struct asker *asker)
{
    ck_assert_int_eq(pthread_create(&asker->thread, NULL, ask_in_thread, asker), 0);
}

static gpubudget_status_t asker_join(struct asker *asker)
{
    pthread_join(asker->thread, NULL);
    return asker->status;
}

/* A request in flight holds the room: whether the other one gets it is not decided yet. */
static void wait_for_rollback(CUresult code, gpubudget_status_t expected)
{
    gpubudget_budget_t *budget = new_budget(0, LIMIT);
    struct asker first = {.budget = budget, .kind = GPUBUDGET_KIND_MANAGED, .bytes = 60};
    struct asker second = {.budget = budget, .kind = EXACT, .bytes = 60};

    gpubudget_budget_set_wait(budget, UINT64_C(3600000000000));
    inner.blocking = true;
    inner.blocked = GPUBUDGET_KIND_MANAGED;
    asker_start(&first);
    sem_wait(&inner.entered);
    ck_assert_uint_eq(gpubudget_budget_reserved_bytes(budget), 60);
    asker_start(&second);
    /* It has looked, reaped, and not been let in. */
    while (atomic_load(&inner.least_asked) == 0)
        sched_yield();
    ck_assert_int_eq(atomic_load(&inner.materialized), 1);
    inner.code = code;
    sem_post(&inner.leave);
    ck_assert_int_eq(asker_join(&first),
                     code == CUDA_SUCCESS ? GPUBUDGET_OK : GPUBUDGET_DRIVER);
    /* The driver's code is for both; what counts is that the second was let in. */
    ck_assert_int_eq(asker_join(&second), expected);
    ck_assert_int_eq(atomic_load(&inner.materialized), code == CUDA_SUCCESS ? 1 : 2);
    end_budget(budget);
}

START_TEST(test_wait_ends_in_a_grant)
{
    wait_for_rollback(CUDA_ERROR_OUT_OF_MEMORY, GPUBUDGET_DRIVER);
}
END_TEST

START_TEST(test_wait_ends_in_a_refusal)
{
    wait_for_rollback(CUDA_SUCCESS, GPUBUDGET_OUT_OF_BUDGET);
}
END_TEST

/* The wait is bounded, and 0 is never; the first request stays in flight all the time. */
START_TEST(test_wait_is_bounded)
{
    const uint64_t waits[] = {0, 1, 2000000};

    for (size_t i = 0; i < COUNT_OF(waits); i++) {
        gpubudget_budget_t *budget = new_budget(0, LIMIT);
        struct asker first = {.budget = budget, .kind = GPUBUDGET_KIND_MANAGED, .bytes = 60};

        gpubudget_budget_set_wait(budget, waits[i]);
        inner.blocking = true;
        inner.blocked = GPUBUDGET_KIND_MANAGED;
        asker_start(&first);
        sem_wait(&inner.entered);
        ck_assert_int_eq(ask(budget, EXACT, 60, 0, NULL), GPUBUDGET_OUT_OF_BUDGET);
        ck_assert(!atomic_load(&first.done));
        sem_post(&inner.leave);
        ck_assert_int_eq(asker_join(&first), GPUBUDGET_OK);
        end_budget(budget);
    }
}
END_TEST

/* A request that would not fit even then does not wait: with an hour to wait, this would. */
START_TEST(test_no_wait_in_vain)
{
    gpubudget_budget_t *budget = new_budget(50, LIMIT);
    struct asker first = {.budget = budget, .kind = GPUBUDGET_KIND_MANAGED, .bytes = 40};

    gpubudget_budget_set_wait(budget, UINT64_C(3600000000000));
    inner.blocking = true;
    inner.blocked = GPUBUDGET_KIND_MANAGED;
    asker_start(&first);
    sem_wait(&inner.entered);
    ck_assert_int_eq(ask(budget, EXACT, 51, 0, NULL), GPUBUDGET_OUT_OF_BUDGET);
    ck_assert(!atomic_load(&first.done));
    sem_post(&inner.leave);
    ck_assert_int_eq(asker_join(&first), GPUBUDGET_OK);
    end_budget(budget);
}
END_TEST

/*
 * Four that fit exactly; two of them find the growth of all four when they look at the pool. In
 * flight and in the ledger at once, neither may wait for the other to settle.
 */
START_TEST(test_two_that_judge_at_once)
{
    gpubudget_budget_t *budget = new_budget(0, LIMIT);
    struct asker askers[4];

    gpubudget_budget_set_wait(budget, UINT64_C(3600000000000));
    inner.growth = LIMIT / 4;
    inner.looking = true;
    inner.looks = 2;
    inner.blocking = true;
    inner.blocked = GROWING;
    for (size_t i = 0; i < COUNT_OF(askers); i++) {
        askers[i] = (struct asker){.budget = budget, .kind = GROWING, .bytes = 25};
        asker_start(&askers[i]);
    }
    for (size_t i = 0; i < COUNT_OF(askers); i++)
        sem_wait(&inner.entered);
    for (size_t i = 0; i < COUNT_OF(askers); i++)
        sem_post(&inner.leave);
    for (size_t i = 0; i < COUNT_OF(askers); i++)
        ck_assert_int_eq(asker_join(&askers[i]), GPUBUDGET_OK);
    ck_assert_uint_eq(gpubudget_budget_reserved_bytes(budget), LIMIT);
    ck_assert_int_eq(atomic_load(&inner.deallocated), 0);
    end_budget(budget);
}
END_TEST

/* While one has the growth turn inside the driver, requests of known size go on. */
START_TEST(test_turn_stops_no_others)
{
    gpubudget_budget_t *budget = new_budget(80, LIMIT);
    struct asker growing = {.budget = budget, .kind = GROWING, .bytes = 10};
    struct asker next = {.budget = budget, .kind = GROWING, .bytes = 10};

    inner.growth = 40;
    inner.blocking = true;
    inner.blocked = GROWING;
    asker_start(&growing);
    sem_wait(&inner.entered);
    ck_assert_int_eq(ask(budget, EXACT, 15, 0, NULL), GPUBUDGET_OK);
    ck_assert_int_eq(ask(budget, EXACT, 6, 0, NULL), GPUBUDGET_OUT_OF_BUDGET);
    /* A second one that may grow waits for its turn: one growth is out at most. */
    atomic_store(&inner.least_asked, 0);
    asker_start(&next);
    while (atomic_load(&inner.least_asked) == 0)
        sched_yield();
    for (int i = 0; i < 1000; i++)
        sched_yield();
    ck_assert_int_eq(sem_trywait(&inner.entered), -1);
    sem_post(&inner.leave);
    ck_assert_int_eq(asker_join(&growing), GPUBUDGET_OUT_OF_BUDGET);
    sem_wait(&inner.entered);
    sem_post(&inner.leave);
    ck_assert_int_eq(asker_join(&next), GPUBUDGET_OUT_OF_BUDGET);
    ck_assert_uint_le(gpubudget_budget_reserved_bytes(budget), LIMIT);
    end_budget(budget);
}
END_TEST

/* Two layers: the inner budget is the tighter one, or the outer one. */
static gpubudget_budget_t *stack(uint64_t outstanding, uint64_t inner_limit,
                                 uint64_t outer_limit, gpubudget_budget_t **outer)
{
    gpubudget_budget_t *lower = new_budget(outstanding, inner_limit);

    ck_assert_int_eq(gpubudget_budget_new(gpubudget_budget_resource(lower), outer_limit, outer),
                     GPUBUDGET_OK);
    return lower;
}

static void end_stack(gpubudget_budget_t *lower, gpubudget_budget_t *outer)
{
    end_budget(outer);
    end_budget(lower);
}

START_TEST(test_stack_forwards)
{
    gpubudget_budget_t *outer, *lower = stack(40, 200, LIMIT, &outer);
    gpubudget_resource_t *top = gpubudget_budget_resource(outer);
    gpubudget_request_t request = {.bytes = 10, .kind = EXACT, .tag = 3};
    gpubudget_snapshot_t snapshot;
    gpubudget_block_t block;

    ck_assert_ptr_eq(gpubudget_allocation_accounting(top), &inner.ledger);
    ck_assert_ptr_eq(gpubudget_allocation_accounting(gpubudget_budget_resource(lower)),
                     &inner.ledger);
    ck_assert_uint_eq(gpubudget_bytes_outstanding(top), 40);
    ck_assert_int_eq(gpubudget_device_ordinal(top), 5);
    /* The outermost budget answers about itself. */
    ck_assert(gpubudget_budget_snapshot(top, &snapshot));
    ck_assert_uint_eq(snapshot.limit, LIMIT);
    ck_assert_uint_eq(snapshot.reserved, 40);
    /* The identical request travels down, once. */
    ck_assert_int_eq(gpubudget_materialize(top, &request, &block, NULL), GPUBUDGET_OK);
    ck_assert_ptr_eq(inner.seen_at, &request);
    ck_assert_uint_eq(inner.seen.depth, 2);
    ck_assert_uint_eq(request.depth, 0);
    ck_assert_int_eq(atomic_load(&inner.materialized), 1);
    ck_assert_int_eq(gpubudget_deallocate(top, &block, NULL, NULL), GPUBUDGET_OK);
    ck_assert_uint_eq(gpubudget_bytes_outstanding(top), 40);
    ck_assert_int_eq(gpubudget_reap_pending(top, NULL), GPUBUDGET_OK);
    ck_assert_int_eq(atomic_load(&inner.reaped), 1);
    end_stack(lower, outer);
}
END_TEST

START_TEST(test_stack_block_use)
{
    gpubudget_budget_t *outer, *lower = stack(0, 200, LIMIT, &outer);
    gpubudget_resource_t *top = gpubudget_budget_resource(outer);
    gpubudget_block_t block = {.id = {4096, 1}};
    gpubudget_error_t error;

    ck_assert(!gpubudget_supports_block_use_tracking(top));
    ck_assert_int_eq(gpubudget_record_block_use(top, &block, NULL, &error),
                     GPUBUDGET_STREAM_MISUSE);
    ck_assert_int_eq(error.status, GPUBUDGET_STREAM_MISUSE);
    ck_assert_int_eq(
        gpubudget_prepare_block_use(top, block.id, NULL, GPUBUDGET_ACCESS_READ, &error),
        GPUBUDGET_STREAM_MISUSE);
    ck_assert_int_eq(
        gpubudget_finish_block_use(top, block.id, NULL, GPUBUDGET_ACCESS_WRITE, &error),
        GPUBUDGET_STREAM_MISUSE);
    end_stack(lower, outer);
}
END_TEST

/* The outer budget is short: one reap and one retry for the whole stack. */
START_TEST(test_stack_outermost_reaps)
{
    gpubudget_budget_t *outer, *lower = stack(90, 200, LIMIT, &outer);

    inner.reapable = 20;
    ck_assert_int_eq(ask(outer, EXACT, 30, 0, NULL), GPUBUDGET_OK);
    ck_assert_int_eq(atomic_load(&inner.reaped), 1);
    ck_assert_int_eq(atomic_load(&inner.materialized), 1);
    end_stack(lower, outer);
}
END_TEST

/* The inner budget is short: it answers once, and the outermost reaps and retries. */
START_TEST(test_stack_inner_answers_once)
{
    gpubudget_budget_t *outer, *lower = stack(90, LIMIT, 200, &outer);
    gpubudget_error_t error;

    inner.reapable = 20;
    ck_assert_int_eq(ask(outer, EXACT, 30, 0, NULL), GPUBUDGET_OK);
    ck_assert_int_eq(atomic_load(&inner.reaped), 1);
    ck_assert_int_eq(atomic_load(&inner.materialized), 1);
    ck_assert_uint_eq(gpubudget_budget_refusals(outer), 0);
    /* Now nothing helps: refused with the inner budget's figures, after one reap. */
    ck_assert_int_eq(ask(outer, EXACT, 30, 0, &error), GPUBUDGET_OUT_OF_BUDGET);
    ck_assert_uint_eq(error.limit, LIMIT);
    ck_assert_uint_eq(error.current, 100);
    ck_assert_int_eq(atomic_load(&inner.reaped), 2);
    ck_assert_uint_eq(gpubudget_budget_refusals(outer), 1);
    ck_assert_uint_eq(gpubudget_budget_reserved_bytes(outer), 100);
    end_stack(lower, outer);
}
END_TEST

/* Idle bytes help the inner budget too. */
START_TEST(test_stack_inner_gets_room)
{
    gpubudget_budget_t *outer, *lower = stack(90, LIMIT, 200, &outer);

    inner.idle = 50;
    ck_assert_int_eq(ask(outer, EXACT, 30, 0, NULL), GPUBUDGET_OK);
    ck_assert_uint_eq(inner.room_wanted, 20);
    end_stack(lower, outer);
}
END_TEST

/* Of three layers only the outermost asks twice. */
START_TEST(test_stack_of_three)
{
    gpubudget_budget_t *middle, *outer, *lower = stack(90, LIMIT, 200, &middle);

    ck_assert_int_eq(gpubudget_budget_new(gpubudget_budget_resource(middle), 300, &outer),
                     GPUBUDGET_OK);
    ck_assert_int_eq(ask(outer, EXACT, 30, 0, NULL), GPUBUDGET_OUT_OF_BUDGET);
    ck_assert_int_eq(atomic_load(&inner.reaped), 1);
    ck_assert_uint_eq(gpubudget_budget_refusals(outer), 1);
    /* Each try of the outermost is one answer of those below. */
    ck_assert_uint_eq(gpubudget_budget_refusals(middle), 2);
    ck_assert_uint_eq(gpubudget_budget_refusals(lower), 2);
    end_budget(outer);
    end_stack(lower, middle);
}
END_TEST

/* Larger than the inner limit: nothing can help, so nothing is tried. */
START_TEST(test_stack_larger_than_inner_limit)
{
    gpubudget_budget_t *outer, *lower = stack(0, LIMIT, 200, &outer);

    ck_assert_int_eq(ask(outer, EXACT, LIMIT + 1, 0, NULL), GPUBUDGET_OUT_OF_BUDGET);
    ck_assert_int_eq(atomic_load(&inner.reaped), 0);
    ck_assert_int_eq(atomic_load(&inner.rooms), 0);
    end_stack(lower, outer);
}
END_TEST

static _Atomic uint64_t granted_bytes;

/* Many threads, small budget: never above the limit, and nothing is left in flight. */
static void take_and_free(void *arg, int index)
{
    gpubudget_budget_t *budget = arg;
    unsigned seed = (unsigned)index + 1;

    for (int i = 0; i < 2000; i++) {
        gpubudget_request_t request = {.kind = EXACT};
        gpubudget_block_t block;

        seed = seed * 1103515245 + 12345;
        request.bytes = seed / 65536 % 60;
        if (gpubudget_materialize(gpubudget_budget_resource(budget), &request, &block, NULL) !=
            GPUBUDGET_OK)
            continue;
        /* Granted to all threads together, at this very moment. */
        ck_assert_uint_le(atomic_fetch_add(&granted_bytes, block.bytes) + block.bytes, LIMIT);
        atomic_fetch_sub(&granted_bytes, block.bytes);
        gpubudget_deallocate(gpubudget_budget_resource(budget), &block, NULL, NULL);
    }
}

START_TEST(test_threads_leave_nothing)
{
    gpubudget_budget_t *budget = new_budget(0, LIMIT);

    gpubudget_budget_set_wait(budget, 1000000);
    inner.blocking = true; /* of a kind that nobody asks for: only keeps `seen` out of it */
    inner.blocked = GPUBUDGET_KIND_CONTEXT;
    unit_threads(8, take_and_free, budget);
    ck_assert_uint_eq(gpubudget_budget_reserved_bytes(budget), 0);
    end_budget(budget);
}
END_TEST

struct race {
    gpubudget_budget_t *budget;
    pthread_barrier_t barrier;
    _Atomic int ready, granted;
};

enum { RACERS = 8, RACES = 1000 };

/* All ask at the same moment; who comes first looks at the result and begins the next round. */
static void race_on(void *arg, int index)
{
    struct race *race = arg;

    for (int round = 0; round < RACES; round++) {
        const int room = round % 25 == 0 ? 4 : 3;

        pthread_barrier_wait(&race->barrier);
        if (index == 0) {
            gb_ledger_init(&inner.ledger);
            gb_ledger_acquire(&inner.ledger, (uint64_t)(round % 25));
            atomic_store(&race->granted, 0);
            atomic_store(&race->ready, 0);
        }
        pthread_barrier_wait(&race->barrier);
        atomic_fetch_add(&race->ready, 1);
        while (atomic_load(&race->ready) < RACERS)
            sched_yield();
        if (ask(race->budget, EXACT, 25, 0, NULL) == GPUBUDGET_OK)
            atomic_fetch_add(&race->granted, 1);
        pthread_barrier_wait(&race->barrier);
        ck_assert_int_eq(atomic_load(&race->granted), room);
        ck_assert_uint_eq(gb_ledger_outstanding(&inner.ledger),
                          (uint64_t)(round % 25 + 25 * room));
    }
}

START_TEST(test_race_for_the_last_bite)
{
    struct race race = {.budget = new_budget(0, LIMIT)};

    inner.blocking = true;
    inner.blocked = GPUBUDGET_KIND_CONTEXT;
    gpubudget_budget_set_wait(race.budget, UINT64_C(3600000000000));
    pthread_barrier_init(&race.barrier, NULL, RACERS);
    unit_threads(RACERS, race_on, &race);
    ck_assert_uint_eq(atomic_load(&race.budget->in_flight), 0);
    end_budget(race.budget);
}
END_TEST

/* Two alone, who spin until both are there: as close together as two can ask. */
static void race_for_one(void *arg, int index)
{
    struct race *race = arg;

    for (int round = 0; round < 20 * RACES; round++) {
        pthread_barrier_wait(&race->barrier);
        if (index == 0) {
            gb_ledger_init(&inner.ledger);
            atomic_store(&race->granted, 0);
            atomic_store(&race->ready, 0);
        }
        pthread_barrier_wait(&race->barrier);
        atomic_fetch_add(&race->ready, 1);
        for (int i = 0; atomic_load(&race->ready) < 2; i++)
            if (i > 10000)
                sched_yield();
        if (ask(race->budget, EXACT, 60, 0, NULL) == GPUBUDGET_OK)
            atomic_fetch_add(&race->granted, 1);
        pthread_barrier_wait(&race->barrier);
        ck_assert_int_eq(atomic_load(&race->granted), 1);
    }
}

START_TEST(test_race_of_two)
{
    struct race race = {.budget = new_budget(0, LIMIT)};

    inner.blocking = true;
    inner.blocked = GPUBUDGET_KIND_CONTEXT;
    gpubudget_budget_set_wait(race.budget, UINT64_C(3600000000000));
    pthread_barrier_init(&race.barrier, NULL, 2);
    unit_threads(2, race_for_one, &race);
    end_budget(race.budget);
}
END_TEST

/* As ask, of a request that could use credit. */
static gpubudget_status_t ask_credit(gpubudget_budget_t *budget, gpubudget_kind_t kind,
                                     size_t bytes, uint64_t credit)
{
    gpubudget_request_t request = {.bytes = bytes, .kind = kind, .credit = credit};
    gpubudget_block_t block;

    return gpubudget_materialize(gpubudget_budget_resource(budget), &request, &block, NULL);
}

/* Credit is a part of what is left, reserved while the driver is called and no longer. */
START_TEST(test_credit_is_reserved)
{
    gpubudget_budget_t *budget = new_budget(100, 1000), *outer;

    ck_assert_int_eq(ask_credit(budget, EXACT, 100, UINT64_MAX), GPUBUDGET_OK);
    ck_assert_uint_eq(inner.seen.credit, 50);
    ck_assert_uint_eq(inner.seen.slack, 50);
    ck_assert_uint_eq(inner.seen.in_flight, 150);
    ck_assert_uint_eq(gpubudget_budget_reserved_bytes(budget), 200);
    ck_assert_int_eq(ask_credit(budget, EXACT, 100, 3), GPUBUDGET_OK);
    ck_assert_uint_eq(inner.seen.credit, 3);
    ck_assert_int_eq(ask_credit(budget, EXACT, 100, 0), GPUBUDGET_OK);
    ck_assert_uint_eq(inner.seen.credit, 0);
    /* Near the limit there is none. */
    ck_assert_int_eq(ask_credit(budget, GROWING, 590, UINT64_MAX), GPUBUDGET_OK);
    inner.growth = 2000;
    ck_assert_int_eq(ask_credit(budget, GROWING, 1, UINT64_MAX), GPUBUDGET_OUT_OF_BUDGET);
    ck_assert_uint_eq(inner.seen.credit, 0);
    ck_assert_uint_eq(inner.seen.slack, 0);
    ck_assert_uint_eq(atomic_load(&budget->in_flight), 0);
    ck_assert_uint_eq(atomic_load(&budget->tight), 0);
    end_budget(budget);
    /* In a stack, what every budget has reserved. */
    budget = new_budget(0, 1600);
    ck_assert_int_eq(gpubudget_budget_new(gpubudget_budget_resource(budget), 800, &outer),
                     GPUBUDGET_OK);
    ck_assert_int_eq(ask_credit(outer, EXACT, 0, UINT64_MAX), GPUBUDGET_OK);
    ck_assert_uint_eq(inner.seen.credit, 50);
    end_budget(budget);
    ck_assert_uint_eq(atomic_load(&outer->in_flight), 0);
    end_budget(outer);
}
END_TEST

/* While a request looks for room, nothing is charged above the truth. */
START_TEST(test_no_credit_while_tight)
{
    gpubudget_budget_t *budget = new_budget(0, 1000);

    atomic_store(&budget->tight, 1);
    ck_assert_int_eq(ask_credit(budget, GROWING, 100, UINT64_MAX), GPUBUDGET_OK);
    ck_assert_uint_eq(inner.seen.credit, 0);
    ck_assert_uint_eq(inner.seen.slack, 0);
    ck_assert_int_eq(atomic_load(&inner.reaped), 0);
    ck_assert_uint_eq(atomic_load(&budget->in_flight), 0);
    end_budget(budget);
}
END_TEST

static void ask_growing_credit(void *arg, int index)
{
    gpubudget_budget_t *budget = arg;

    if (index == 0) {
        ck_assert_int_eq(ask_credit(budget, GROWING, 10, UINT64_MAX), GPUBUDGET_OK);
        return;
    }
    /* The request looks for room while the other's driver call is in progress. */
    sem_wait(&inner.entered);
    ck_assert_uint_gt(atomic_load(&budget->in_flight), 0);
    atomic_store(&budget->tight, 1);
    sem_post(&inner.leave);
}

/* One that had credit when the search began posts the truth before its bytes settle. */
START_TEST(test_credit_given_before_it_was_tight)
{
    gpubudget_budget_t *budget = new_budget(0, 1000);

    inner.blocking = true;
    inner.blocked = GROWING;
    unit_threads(2, ask_growing_credit, budget);
    ck_assert_int_eq(atomic_load(&inner.reaped), 1);
    end_budget(budget);
}
END_TEST

static void ask_or_land(void *arg, int index)
{
    gpubudget_budget_t *budget = arg;

    if (index == 0) {
        ck_assert_int_eq(ask(budget, EXACT, 60, 0, NULL), GPUBUDGET_OK);
        return;
    }
    while (atomic_load(&budget->tight) == 0)
        sched_yield();
    gb_ledger_reclaim(&inner.ledger, 50);
    atomic_fetch_sub(&inner.ledger.floating, 50);
}

/* Bounds of grants in progress are waited for as bytes in flight are. */
START_TEST(test_floating_bytes_settle)
{
    gpubudget_budget_t *budget = new_budget(80, LIMIT);

    gpubudget_budget_set_wait(budget, UINT64_C(3600000000000));
    atomic_store(&inner.ledger.floating, 50);
    unit_threads(2, ask_or_land, budget);
    ck_assert_uint_eq(gpubudget_budget_reserved_bytes(budget), 90);
    /* But for ever, they are not; and without them there is no reason to wait. */
    gpubudget_budget_set_wait(budget, 1000000);
    atomic_store(&inner.ledger.floating, 50);
    ck_assert_int_eq(ask(budget, EXACT, 60, 0, NULL), GPUBUDGET_OUT_OF_BUDGET);
    gpubudget_budget_set_wait(budget, UINT64_C(3600000000000));
    ck_assert_int_eq(ask(budget, EXACT, 61, 0, NULL), GPUBUDGET_OUT_OF_BUDGET);
    end_budget(budget);
}
END_TEST

START_TEST(test_reserved_exactly)
{
    gpubudget_budget_t *budget = new_budget(80, LIMIT);

    inner.reapable = 10;
    atomic_store(&inner.ledger.floating, 30);
    ck_assert_uint_eq(gb_budget_reserved_exactly(budget), 40);
    ck_assert_int_eq(atomic_load(&inner.reaped), 1);
    ck_assert_uint_eq(atomic_load(&budget->tight), 0);
    end_budget(budget);
}
END_TEST

START_TEST(test_may_spend)
{
    gpubudget_budget_t *budget = new_budget(80, LIMIT);

    ck_assert(gb_budget_may_spend(budget));
    atomic_store(&budget->doubt, 20);
    ck_assert(gb_budget_may_spend(budget));
    atomic_store(&budget->doubt, 21);
    ck_assert(!gb_budget_may_spend(budget));
    atomic_store(&budget->doubt, 0);
    gb_ledger_acquire(&inner.ledger, 20);
    ck_assert(gb_budget_may_spend(budget));
    gb_ledger_acquire(&inner.ledger, 1);
    ck_assert(!gb_budget_may_spend(budget));
    end_budget(budget);
}
END_TEST

START_TEST(test_child_has_nothing_in_flight)
{
    struct gpubudget_budget budget;

    inner_begin(0);
    gb_budget_init(&budget, &inner.resource, LIMIT, 0);
    atomic_store(&budget.in_flight, 60);
    atomic_store(&budget.tight, 1);
    gb_lock_take(&budget.turn);
    gb_budget_forked(&budget);
    ck_assert_uint_eq(atomic_load(&budget.tight), 0);
    ck_assert_uint_eq(gpubudget_budget_reserved_bytes(&budget), 0);
    gb_lock_take(&budget.turn);
    gb_lock_drop(&budget.turn);
    ck_assert_int_eq(ask(&budget, EXACT, LIMIT, 0, NULL), GPUBUDGET_OK);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {test_new,
                                  test_inner_with_live_blocks,
                                  test_admission,
                                  test_fast_path_asks_nothing,
                                  test_pressure,
                                  test_error_fields,
                                  test_outputs_untouched,
                                  test_driver_refuses,
                                  test_larger_than_the_limit,
                                  test_one_reap_one_retry,
                                  test_room_is_made,
                                  test_reserve,
                                  test_report_only,
                                  test_charged_more_than_reserved,
                                  test_undo_fails,
                                  test_growth_undone,
                                  test_growth_beyond_its_bound_is_let_go,
                                  test_growth_that_fits,
                                  test_wait_ends_in_a_grant,
                                  test_wait_ends_in_a_refusal,
                                  test_wait_is_bounded,
                                  test_no_wait_in_vain,
                                  test_two_that_judge_at_once,
                                  test_turn_stops_no_others,
                                  test_stack_forwards,
                                  test_stack_block_use,
                                  test_stack_outermost_reaps,
                                  test_stack_inner_answers_once,
                                  test_stack_inner_gets_room,
                                  test_stack_of_three,
                                  test_stack_larger_than_inner_limit,
                                  test_threads_leave_nothing,
                                  test_race_for_the_last_bite,
                                  test_race_of_two,
                                  test_credit_is_reserved,
                                  test_no_credit_while_tight,
                                  test_credit_given_before_it_was_tight,
                                  test_floating_bytes_settle,
                                  test_reserved_exactly,
                                  test_may_spend,
                                  test_child_has_nothing_in_flight};

    return unit_run("budget", tests, COUNT_OF(tests));
}
