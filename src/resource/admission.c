/*
 * admission.c: who is let in. Admission is one atomic reserve-or-refuse; the driver is called
 * with no lock held. growth.c has what is done near the limit.
 */
#include "resource/admission_parts.h"

#include <sched.h>
#include <time.h>

#include "resource/backend.h"
#include "resource/look.h"
#include "resource/nap.h"
#include "resource/resource.h"

/* Far from the limit: this part of what is left may be charged above the truth for a while, and
 * so much again lent. */
enum { SLACK_PART = 16 };

/* What counts as left where there is no limit, so that the ledger still tells: another process
 * may be shown it. */
#define LEFT_WITHOUT_LIMIT (UINT64_C(2) << 30)

/* Between two measurements, and for how long at most: others may wait for the turn meanwhile.
 */
enum { MEASURE_NAP_NS = 200000, DOUBT_WAIT_NS = 50000000 };

/* Between two questions about frees that a request below waits for. */
enum { FREES_NAP_NS = 100000 };

uint64_t gb_admission_now(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t)ts.tv_sec * UINT64_C(1000000000) + (uint64_t)ts.tv_nsec;
}

/* In flight first: see admission.h. */
uint64_t gb_budget_reserved(const struct gpubudget_budget *budget)
{
    uint64_t in_flight;

    if (budget->scope)
        return budget->scope->used(budget->scope_arg);
    in_flight = atomic_load(&budget->in_flight);
    return gb_add_saturated(in_flight, gb_ledger_outstanding(budget->ledger));
}

bool gb_budget_has_room(const struct gpubudget_budget *budget, uint64_t bytes)
{
    if (budget->above && !gb_budget_has_room(budget->above, bytes))
        return false;
    return gb_add_saturated(gb_budget_reserved(budget), bytes) <= gb_budget_admits(budget);
}

void gb_admission_reap(struct gpubudget_budget *budget)
{
    gpubudget_reap_pending(budget->inner, NULL);
    if (budget->scope)
        budget->scope->reap(budget->scope_arg);
}

uint64_t gb_admission_let_in(const struct gpubudget_budget *budget,
                             const gpubudget_request_t *request)
{
    if (request->kind == GPUBUDGET_KIND_MEASURED &&
        (request->tag == GB_MEASURED_STREAM || request->tag == GB_MEASURED_LIBRARY))
        return gb_budget_limit(budget);
    return gb_budget_admits(budget);
}

bool gb_admission_reserve(struct gpubudget_budget *budget, uint64_t let_in, uint64_t bytes,
                          uint64_t pressure, uint64_t *left)
{
    uint64_t wanted = gb_add_saturated(bytes, pressure);
    uint64_t before, sum;

    if (budget->scope)
        return budget->scope->claim(budget->scope_arg, bytes, pressure, left);
    /* Look first, so that a request that cannot fit does not stand in the way of others. */
    if (gb_add_saturated(gb_budget_reserved(budget), wanted) > let_in)
        return false;
    before = atomic_fetch_add(&budget->in_flight, bytes);
    sum = gb_add_saturated(gb_add_saturated(before, gb_ledger_outstanding(budget->ledger)),
                           wanted);
    if (sum <= let_in) {
        *left = let_in - sum;
        return true;
    }
    atomic_fetch_sub(&budget->in_flight, bytes);
    return false;
}

static void settle(struct gpubudget_budget *budget, uint64_t bytes)
{
    if (budget->scope)
        budget->scope->settle(budget->scope_arg, bytes);
    else
        atomic_fetch_sub(&budget->in_flight, bytes);
}

/* Gives other threads time to settle; short at first, then 20 us a turn. */
static void pause_briefly(unsigned turn)
{
    if (turn < 16)
        sched_yield();
    else
        gb_nap(20000);
}

/* What is outstanding for longer than a grant in progress takes to settle. */
static uint64_t settled(const struct gpubudget_budget *budget)
{
    uint64_t floating = atomic_load(&budget->ledger->floating);
    uint64_t held = gb_budget_held(budget);

    return held > floating ? held - floating : 0;
}

bool gb_admission_wait(struct gpubudget_budget *budget, const gpubudget_request_t *request,
                       uint64_t bytes, uint64_t deadline)
{
    uint64_t pressure = request->reservation_pressure;
    uint64_t wanted = gb_add_saturated(bytes, pressure);
    uint64_t left;

    if (budget->scope)
        return budget->scope->insist(budget->scope_arg, bytes, pressure, deadline, &left);
    for (unsigned turn = 0;; turn++) {
        if (gb_admission_reserve(budget, gb_admission_let_in(budget, request), bytes, pressure,
                                 &left))
            return true;
        if (gb_add_saturated(settled(budget), wanted) > gb_admission_let_in(budget, request))
            return false;
        if (gb_admission_now() >= deadline)
            return false;
        pause_briefly(turn);
    }
}

/* A measurement was disturbed. Those who come close to the limit wait for one that is not, and
 * so it comes soon. */
static void measure_again(const struct gpubudget_budget *budget)
{
    gb_nap(MEASURE_NAP_NS);
    gpubudget_reap_pending(budget->inner, NULL);
}

static uint64_t doubt_until(const struct gpubudget_budget *budget)
{
    return gb_add_saturated(gb_admission_now(),
                            budget->wait_ns < DOUBT_WAIT_NS ? budget->wait_ns : DOUBT_WAIT_NS);
}

/* Is it of use to measure again? Where somebody never rests, not for every request anew. */
static bool may_settle(struct gpubudget_budget *budget, uint64_t doubt, uint64_t deadline)
{
    struct gpubudget_budget *noted = gb_budget_noted(budget);
    uint64_t doubted = atomic_load(&noted->doubted);

    if (doubt <= doubted)
        return false;
    if (gb_admission_now() < deadline)
        return true;
    if (doubt == atomic_load(&noted->doubt))
        atomic_compare_exchange_strong(&noted->doubted, &doubted, doubt);
    return false;
}

/*
 * After a grant that took more than it had reserved, and has settled: is the budget exceeded
 * for good? What has been freed meanwhile is looked at first, then requests in flight may
 * settle. The caller's own reservation must be gone: of two that judge at the same time each
 * would wait for the other's, whose bytes stand in the ledger already. doubtful: what a
 * measurement may have missed beside other threads counts, too.
 */
static bool is_over(struct gpubudget_budget *budget, const gpubudget_request_t *request)
{
    uint64_t deadline = gb_add_saturated(gb_admission_now(), budget->wait_ns);
    uint64_t doubt_deadline = doubt_until(budget);
    const struct gpubudget_budget *noted = gb_budget_noted(budget);
    uint64_t doubt = request->doubtful ? atomic_load(&noted->doubt) : 0;

    if (gb_add_saturated(gb_budget_reserved(budget), doubt) >
        gb_admission_let_in(budget, request))
        gb_admission_reap(budget);
    for (unsigned turn = 0;; turn++) {
        uint64_t others = gb_budget_in_flight(budget);

        doubt = request->doubtful ? atomic_load(&noted->doubt) : 0;
        others = gb_add_saturated(others, doubt);
        if (gb_add_saturated(gb_budget_held(budget), others) <=
            gb_admission_let_in(budget, request))
            return false;
        if (settled(budget) > gb_admission_let_in(budget, request) ||
            gb_admission_now() >= deadline ||
            (doubt > 0 && !may_settle(budget, doubt, doubt_deadline)))
            return true;
        if (doubt > 0)
            measure_again(budget);
        else
            pause_briefly(turn);
    }
}

void gb_admission_settle_doubt(struct gpubudget_budget *budget, uint64_t most)
{
    const struct gpubudget_budget *noted = gb_budget_noted(budget);
    uint64_t deadline = doubt_until(budget), doubt;

    while ((doubt = atomic_load(&noted->doubt)) > 0 && gb_budget_has_room(noted, most) &&
           !gb_budget_has_room(noted, gb_add_saturated(most, doubt)) &&
           may_settle(budget, doubt, deadline))
        measure_again(budget);
}

gpubudget_status_t gb_admission_refuse(struct gpubudget_budget *budget,
                                       gpubudget_request_t *request, gpubudget_error_t *error)
{
    request->refused_by = budget;
    gb_fail(error, GPUBUDGET_OUT_OF_BUDGET);
    if (error) {
        error->requested = request->bytes;
        error->current = gb_budget_reserved(budget);
        error->remaining = gpubudget_budget_remaining(budget);
        error->limit = gb_budget_limit(budget);
    }
    return GPUBUDGET_OUT_OF_BUDGET;
}

uint64_t gb_admission_shortage(const struct gpubudget_budget *budget, uint64_t bytes)
{
    uint64_t wanted = gb_add_saturated(gb_budget_reserved(budget), bytes);
    uint64_t admit = gb_budget_admits(budget);

    return wanted > admit ? wanted - admit : 0;
}

/* a - b, or 0. */
static uint64_t less(uint64_t a, uint64_t b)
{
    return a > b ? a - b : 0;
}

/* What stands above what is let in, whatever is in flight beside it. */
static uint64_t held_above(const struct gpubudget_budget *budget)
{
    return less(gb_budget_held(budget), gb_budget_admits(budget));
}

void gb_budget_make_room(struct gpubudget_budget *budget, uint64_t bytes)
{
    uint64_t lacking = gb_admission_shortage(budget, bytes);

    if (lacking == 0 || gb_resource_make_room(budget->inner, lacking))
        return;
    lacking = held_above(budget);
    if (lacking > 0)
        gb_resource_make_room(budget->inner, lacking);
}

/* A pool keeps what it has grown by as idle bytes. They go, also where others hold so much, or
 * are about to take so much, that they alone make no room. */
static void give_back_growth(struct gpubudget_budget *budget,
                             const gpubudget_request_t *request)
{
    uint64_t above;

    gb_admission_reap(budget);
    gb_budget_make_room(budget, 0);
    above = held_above(budget);
    if (above > request->charged)
        above = request->charged;
    if (above > 0)
        gb_resource_make_room(budget->inner, above);
}

uint64_t gb_admission_whole(const gpubudget_request_t *request, uint64_t least)
{
    return gb_add_saturated(request->bytes > least ? request->bytes : least,
                            request->reservation_pressure);
}

/*
 * For the outermost: a budget below has refused. Reaps, and makes the room it lacked; where
 * only frees that are pending can, the request's stream or, for a synchronous one, the host
 * waits.
 */
static bool help_below(struct gpubudget_budget *budget, const gpubudget_request_t *request,
                       const gpubudget_error_t *why)
{
    uint64_t deadline = gb_add_saturated(gb_admission_now(), budget->wait_ns);
    uint64_t before = gb_ledger_outstanding(budget->ledger);
    uint64_t after, wanted, lacking;

    if (gb_add_saturated(why->requested, request->reservation_pressure) > why->limit)
        return false;
    for (bool first = true;; first = false) {
        gpubudget_reap_pending(budget->inner, NULL);
        after = gb_ledger_outstanding(budget->ledger);
        wanted =
            gb_admission_whole(request, gb_resource_charge_bound(budget->inner, request, true));
        wanted = gb_add_saturated(wanted, why->current);
        lacking = less(less(wanted, why->limit), less(before, after));
        if (lacking == 0 || gb_resource_make_room(budget->inner, lacking))
            return true;
        if (first)
            gb_resource_follow_frees(budget->inner, request, lacking, false);
        if (!gb_admission_may_wait(request) ||
            gb_resource_bytes_pending(budget->inner) < lacking ||
            gb_admission_now() >= deadline)
            return true;
        gb_nap(FREES_NAP_NS);
    }
}

/* The layers below are asked; in a stack the outermost layer asks them once more. */
static gpubudget_status_t pass_down(struct gpubudget_budget *budget,
                                    gpubudget_request_t *request, gpubudget_block_t *granted,
                                    gpubudget_error_t *error)
{
    const gpubudget_resource_ops_t *ops = budget->inner->ops;
    gpubudget_error_t why = {.status = GPUBUDGET_OK};
    gpubudget_status_t status;

    request->charged = 0;
    request->depth++;
    status = ops->materialize(budget->inner, request, granted, &why);
    if (status == GPUBUDGET_OUT_OF_BUDGET && request->depth == 1 &&
        help_below(budget, request, &why)) {
        request->charged = 0;
        status = ops->materialize(budget->inner, request, granted, &why);
    }
    request->depth--;
    if (status != GPUBUDGET_OK) {
        request->charged = 0;
        if (error)
            *error = why;
    }
    return status;
}

/* A budget that only reports counts what does not fit, and lets it be. */
static bool let_pass(struct gpubudget_budget *budget, gpubudget_request_t *request)
{
    if (!budget->report_only)
        return false;
    atomic_fetch_add(&budget->refusals, 1);
    request->over_limit = true;
    return true;
}

gpubudget_status_t gb_admission_forward(struct gpubudget_budget *budget,
                                        gpubudget_request_t *request, uint64_t reserved,
                                        bool *was_undone, gpubudget_block_t *block,
                                        gpubudget_error_t *error)
{
    gpubudget_block_t granted;
    gpubudget_status_t status;
    bool undone = false, judged;
    uint64_t credit = request->credit, before = gb_ledger_outstanding(budget->ledger);

    request->in_flight = reserved + credit + (was_undone ? atomic_load(&budget->unsure) : 0);
    status = pass_down(budget, request, &granted, error);
    /* A request that looks for room since then would take slack and credit for granted memory.
     * It waits for what is in flight, so the truth is posted before this no longer is. */
    if (request->kind == GPUBUDGET_KIND_STREAM_ORDERED && (credit > 0 || request->slack > 0) &&
        atomic_load(&budget->tight) > 0)
        gpubudget_reap_pending(budget->inner, NULL);
    /* Whatever was granted stands in the ledger from here on. */
    settle(budget, reserved + credit);
    if (was_undone)
        atomic_store(&budget->unsure, 0);
    /* What took nothing is no matter of the budget, whatever others have done to it. */
    if (request->kind == GPUBUDGET_KIND_MEASURED)
        judged = request->charged > reserved || request->doubtful;
    else
        judged = request->charged > reserved || was_undone;
    if (status == GPUBUDGET_OK && judged && is_over(budget, request) &&
        !let_pass(budget, request)) {
        const gpubudget_release_t undo = {.release = request->undo,
                                          .arg = request->arg,
                                          .stream = request->stream,
                                          .ordered =
                                              request->kind == GPUBUDGET_KIND_STREAM_ORDERED,
                                          .stream_is_thread = request->stream_is_thread,
                                          .apart = request->grew};

        /* If even the undo fails the caller gets its memory: it is charged as it stands. */
        undone = budget->inner->ops->deallocate(budget->inner, &granted, &undo, NULL) ==
                 GPUBUDGET_OK;
    }
    if (was_undone)
        *was_undone = undone;
    if (undone) {
        if (request->depth == 0)
            give_back_growth(budget, request);
        if (request->kind == GPUBUDGET_KIND_MEASURED &&
            gb_ledger_outstanding(budget->ledger) > before)
            atomic_store(&budget->leftover, true);
        return gb_admission_refuse(budget, request, error);
    }
    if (status == GPUBUDGET_OK)
        *block = granted;
    return status;
}

/*
 * Under a reservation, with so much left beside it: how much may be charged beyond the truth
 * for a while, and what can be lent for later grants, which is reserved as well.
 */
static void reserve_credit(struct gpubudget_budget *budget, gpubudget_request_t *request,
                           uint64_t left)
{
    uint64_t part;

    request->near_limit |= left < gb_budget_admits(budget) / 2;
    if (request->depth == 0 || left < request->left)
        request->left = left;
    if (budget->limit == GB_BUDGET_NO_LIMIT && left > LEFT_WITHOUT_LIMIT)
        left = LEFT_WITHOUT_LIMIT;
    part = left / SLACK_PART;
    /* What is lent here another process could not call in, and would be refused for. */
    if (budget->scope)
        part = 0;

    /* After the reservation: whoever looks for room either shows here or sees that. */
    if (atomic_load(&budget->tight) > 0)
        part = 0;
    if (request->depth == 0 || request->slack > part)
        request->slack = part;
    if (request->credit > part)
        request->credit = part;
    if (request->credit == 0)
        return;
    if (!gb_admission_reserve(budget, gb_budget_admits(budget), request->credit, 0, &left)) {
        request->credit = 0;
    } else if (atomic_load(&budget->tight) > 0) {
        settle(budget, request->credit);
        request->credit = 0;
    }
}

/* What it may take does not fit. */
static void is_at_limit(gpubudget_request_t *request)
{
    request->near_limit = true;
    request->left = 0;
}

gpubudget_status_t gb_budget_materialize(gpubudget_resource_t *self,
                                         gpubudget_request_t *request, gpubudget_block_t *block,
                                         gpubudget_error_t *error)
{
    struct gpubudget_budget *budget = (struct gpubudget_budget *)self;
    gpubudget_status_t status;
    uint64_t left, most;

    /* A job without a limit: as if this budget were not there. */
    if (budget->scope && gb_budget_limit(budget) == GB_BUDGET_NO_LIMIT)
        return budget->inner->ops->materialize(budget->inner, request, block, error);
    most = gb_resource_charge_bound(budget->inner, request, false);
    /* What is larger than the whole limit nothing can help. */
    if (request->bytes <= gb_admission_let_in(budget, request) &&
        gb_budget_look_is_due(budget, request, most)) {
        gb_admission_reap(budget);
        if (gb_admission_may_wait(request))
            gb_admission_settle_doubt(budget, most);
    }
    if (gb_admission_reserve(budget, gb_admission_let_in(budget, request), most,
                             request->reservation_pressure, &left)) {
        reserve_credit(budget, request, left);
        status = gb_admission_forward(budget, request, most, NULL, block, error);
    } else if (budget->report_only) {
        is_at_limit(request);
        if (!budget->scope)
            atomic_fetch_add(&budget->in_flight, most);
        request->in_flight = most;
        request->slack = request->credit = 0;
        request->depth++;
        status = budget->inner->ops->materialize(budget->inner, request, block, error);
        request->depth--;
        if (!budget->scope)
            settle(budget, most);
        /* The bound did not fit; what was really taken may. */
        if (status == GPUBUDGET_OK && is_over(budget, request))
            let_pass(budget, request);
        return status;
    } else if (request->kind == GPUBUDGET_KIND_MEASURED &&
               gb_resource_charge_bound(budget->inner, request, true) == 0 &&
               request->bytes == 0) {
        is_at_limit(request);
        request->credit = 0;
        atomic_fetch_add(&budget->tight, 1);
        status = gb_admission_measure(budget, request, most, block, error);
        atomic_fetch_sub(&budget->tight, 1);
    } else {
        is_at_limit(request);
        request->credit = 0;
        atomic_fetch_add(&budget->tight, 1);
        status = gb_admission_near(budget, request, most, block, error);
        atomic_fetch_sub(&budget->tight, 1);
    }
    if (status == GPUBUDGET_OUT_OF_BUDGET)
        atomic_fetch_add(&budget->refusals, 1);
    return status;
}
