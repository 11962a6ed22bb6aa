/*
 * growth.c: who is let in near the limit, where the upper bounds of what is asked for do not
 * fit: room is looked for, and the driver decides, one request of a device at a time.
 */
#include "resource/admission_parts.h"

#include "resource/backend.h"
#include "resource/nap.h"
#include "resource/resource.h"

/* Each try reserves less than the one before; more than a few are never needed. */
enum { LEAST_TRIES = 16 };

/* Between two questions about frees that a request waits for. */
enum { FREES_NAP_NS = 100000 };

/* One request at a time grows. In a job the wait for other processes is bounded: one of them
 * may be stopped. */
static bool turn_take(struct gpubudget_budget *budget, uint64_t deadline)
{
    if (budget->scope)
        return budget->scope->turn_take(budget->scope_arg, deadline);
    gb_lock_take(&budget->turn);
    return true;
}

static void turn_drop(struct gpubudget_budget *budget)
{
    if (budget->scope)
        budget->scope->turn_drop(budget->scope_arg);
    else
        gb_lock_drop(&budget->turn);
}

/* Exactly so much, as soon as others have settled. Of several processes each would withdraw its
 * claim because of the others', so there it is done in turn. */
static bool wait_for_others(struct gpubudget_budget *budget, const gpubudget_request_t *request,
                            uint64_t bytes, uint64_t deadline)
{
    bool granted;

    if (!budget->scope)
        return gb_admission_wait(budget, request, bytes, deadline);
    if (!turn_take(budget, deadline))
        return false;
    granted = gb_admission_wait(budget, request, bytes, deadline);
    turn_drop(budget);
    return granted;
}

/*
 * Reserves the least that the request may add. That least is read again when it does not fit
 * after the wait: a grant that settled meanwhile may have left room inside what it took, in a
 * region or in a pool's step. Writes what was reserved.
 */
static bool reserve_least(struct gpubudget_budget *budget, gpubudget_request_t *request,
                          uint64_t deadline, uint64_t *least)
{
    for (int i = 0; i < LEAST_TRIES; i++) {
        uint64_t before = *least;

        if (gb_admission_wait(budget, request, *least, deadline))
            return true;
        *least = gb_resource_charge_bound(budget->inner, request, true);
        if (*least >= before)
            return false;
    }
    return false;
}

/*
 * What the driver will take is not known and its upper bound does not fit: such requests take
 * turns per device, so that at most one growth step is ever out before it is judged.
 */
static gpubudget_status_t grow_in_turn(struct gpubudget_budget *budget,
                                       gpubudget_request_t *request, uint64_t least,
                                       uint64_t most, uint64_t deadline,
                                       gpubudget_block_t *block, gpubudget_error_t *error)
{
    gpubudget_status_t status;
    bool reserved, undone, alone = request->alone;

    if (!turn_take(budget, deadline))
        return gb_admission_refuse(budget, request, error);
    reserved = reserve_least(budget, request, deadline, &least);
    if (!reserved && request->depth == 0) {
        /* Whoever had the turn before may have undone a growth since this request looked. */
        gb_admission_reap(budget);
        least = gb_resource_charge_bound(budget->inner, request, true);
        gb_budget_make_room(budget, gb_admission_whole(request, least));
        reserved = reserve_least(budget, request, deadline, &least);
    }
    /* Where it is undone it should go back at once, see apart.h. */
    request->alone = request->kind == GPUBUDGET_KIND_STREAM_ORDERED;
    if (reserved) {
        atomic_store(&budget->unsure, most > least ? most - least : 0);
        status = gb_admission_forward(budget, request, least, &undone, block, error);
        if (undone && request->depth == 0) {
            /* The growth has been undone: try once more if there is, or idle bytes elsewhere
             * can make, all the room that it needs. */
            uint64_t grown = request->charged > least ? request->charged : most;

            gb_budget_make_room(budget, grown);
            if (gb_admission_wait(budget, request, grown, deadline))
                status = gb_admission_forward(budget, request, grown, NULL, block, error);
            else if (gb_admission_shortage(budget, 0) == 0 &&
                     gb_resource_follow_frees(budget->inner, request, grown, true))
                status = gb_admission_forward(budget, request, 0, &undone, block, error);
        }
    } else {
        status = gb_admission_refuse(budget, request, error);
    }
    request->alone = alone;
    turn_drop(budget);
    return status;
}

/*
 * Growth that nothing could refuse stands above the limit: nothing is granted until it fits. A
 * call that was undone may have left something that stays with its context; what the next one
 * would take lies there then, and so on. So from such a one on nothing is tried before all fits
 * beside the reserve again, which has room for that one.
 */
static bool stands_above(struct gpubudget_budget *budget, const gpubudget_request_t *request)
{
    uint64_t most = gb_budget_limit(budget);

    /* Of streams it is known what the next one takes. */
    if (request->tag == GB_MEASURED_STREAM && atomic_load(&budget->overshoot) == 0)
        return false;
    if (request->tag != GB_MEASURED_STREAM && atomic_load(&budget->leftover)) {
        most = gb_budget_admits(budget);
        if (gb_budget_held(budget) <= most)
            atomic_store(&budget->leftover, false);
    }
    if (request->depth == 0 && gb_budget_held(budget) > most)
        gb_admission_reap(budget);
    return gb_budget_held(budget) > most;
}

gpubudget_status_t gb_admission_measure(struct gpubudget_budget *budget,
                                        gpubudget_request_t *request, uint64_t most,
                                        gpubudget_block_t *block, gpubudget_error_t *error)
{
    gpubudget_status_t status;
    bool undone;

    request->slack = 0;
    /* In turn, so that no growth stands there which is about to be undone. */
    if (!turn_take(budget, gb_add_saturated(gb_admission_now(), budget->wait_ns)))
        return gb_admission_refuse(budget, request, error);
    if (stands_above(budget, request)) {
        status = gb_admission_refuse(budget, request, error);
    } else {
        atomic_store(&budget->unsure, most);
        status = gb_admission_forward(budget, request, 0, &undone, block, error);
    }
    turn_drop(budget);
    return status;
}

bool gb_admission_may_wait(const gpubudget_request_t *request)
{
    switch (request->kind) {
    case GPUBUDGET_KIND_STREAM_ORDERED:
    case GPUBUDGET_KIND_GRAPH:
        return false;
    case GPUBUDGET_KIND_MEASURED:
        return request->tag != GB_MEASURED_LOCAL && request->tag != GB_MEASURED_LIBRARY;
    default:
        return true;
    }
}

/*
 * What is lacking may be memory whose free is pending: the stream of a stream-ordered request
 * is made to wait for it; a synchronous request waits here, no longer than that can help.
 */
static void wait_for_frees(struct gpubudget_budget *budget, const gpubudget_request_t *request,
                           uint64_t least, uint64_t most, uint64_t deadline)
{
    const bool ordered = request->kind == GPUBUDGET_KIND_STREAM_ORDERED;
    /* A pool that grows takes the most, all others may do with the least. */
    const uint64_t whole =
        gb_add_saturated(ordered ? most : least, request->reservation_pressure);
    uint64_t lacking = gb_admission_shortage(budget, whole);

    if (ordered && lacking > 0)
        gb_resource_follow_frees(budget->inner, request, lacking, false);
    if (!gb_admission_may_wait(request))
        return;
    while (lacking > 0 && gb_resource_bytes_pending(budget->inner) >= lacking &&
           gb_admission_now() < deadline) {
        gb_nap(FREES_NAP_NS);
        gpubudget_reap_pending(budget->inner, NULL);
        gb_budget_make_room(budget, whole);
        lacking = gb_admission_shortage(budget, whole);
    }
}

gpubudget_status_t gb_admission_near(struct gpubudget_budget *budget,
                                     gpubudget_request_t *request, uint64_t most,
                                     gpubudget_block_t *block, gpubudget_error_t *error)
{
    uint64_t pressure = request->reservation_pressure;
    uint64_t deadline;
    uint64_t least, left;

    /* Near the limit the charge is exact at once. */
    request->slack = 0;
    /* Larger than the whole limit: nothing can help, so nothing is tried. */
    if (gb_add_saturated(request->bytes, pressure) > gb_admission_let_in(budget, request))
        return gb_admission_refuse(budget, request, error);

    deadline = gb_add_saturated(gb_admission_now(), budget->wait_ns);
    /* The usual case of a program that lives near its limit: what it asks for lies idle in its
     * pool or region. The driver is asked before anything is reaped. */
    least = gb_resource_charge_bound(budget->inner, request, true);
    if (least < most && gb_admission_shortage(budget, gb_add_saturated(least, pressure)) == 0 &&
        !(request->depth == 0 && gb_resource_follow_frees(budget->inner, request, 0, false)))
        return grow_in_turn(budget, request, least, most, deadline, block, error);
    if (request->depth == 0) {
        gb_admission_reap(budget);
        /* Frees that the request would have taken over may be proven now. */
        most = gb_resource_charge_bound(budget->inner, request, false);
        if (gb_admission_reserve(budget, gb_admission_let_in(budget, request), most, pressure,
                                 &left))
            return gb_admission_forward(budget, request, most, NULL, block, error);
    }
    least = gb_resource_charge_bound(budget->inner, request, true);
    if (request->depth == 0) {
        gb_budget_make_room(budget, gb_admission_whole(request, least));
        wait_for_frees(budget, request, least, most, deadline);
        least = gb_resource_charge_bound(budget->inner, request, true);
    }
    if (least >= most) {
        if (wait_for_others(budget, request, most, deadline))
            return gb_admission_forward(budget, request, most, NULL, block, error);
        /* What stood in the way has settled, and may have left room inside what it took. */
        least = gb_resource_charge_bound(budget->inner, request, true);
        if (least >= most)
            return gb_admission_refuse(budget, request, error);
    }
    return grow_in_turn(budget, request, least, most, deadline, block, error);
}
