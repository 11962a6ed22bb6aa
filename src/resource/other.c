/*
 * other.c: what the process holds and no call of ours granted.
 */
#include "resource/other.h"

#include <time.h>

#include "resource/backend.h"
#include "resource/budget.h"
#include "resource/capture.h"
#include "resource/handles.h"
#include "resource/resource.h"

/* Smaller changes of the card's free memory are no hint: the driver takes at least this much.
 */
#define HINT_BYTES (UINT64_C(1) << 20)

/* After a look that a hint asked for in vain: it was a neighbour's. */
#define HINT_PAUSE_NS UINT64_C(5000000)

/*
 * A hint that says nothing is believed so long: what a neighbour, or managed memory that comes
 * and goes, moves the other way by as much hides what is looked for.
 */
#define LOOK_AGAIN_NS UINT64_C(1000000000)

/* As a level: no hint is believed. */
#define UNSETTLED UINT64_C(1)

static uint64_t now_ns(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t)ts.tv_sec * UINT64_C(1000000000) + (uint64_t)ts.tv_nsec;
}

void gb_other_init(struct gb_other *other)
{
    *other = (struct gb_other){0};
    gb_lock_init(&other->lock);
}

void gb_other_forked(struct gb_other *other)
{
    gb_hint_fn hint = other->hint;
    void *arg = other->hint_arg;
    struct gpubudget_budget *budget = other->budget;
    gb_told_fn told = other->told;

    gb_other_init(other);
    other->hint = hint;
    other->hint_arg = arg;
    other->budget = budget;
    other->told = told;
}

uint64_t gb_other_in_flight(const struct gb_backend *backend)
{
    const struct gpubudget_budget *budget = backend->other.budget;
    uint64_t floating = atomic_load(&backend->ledger.floating);

    return floating +
           (budget ? atomic_load(&budget->in_flight) + atomic_load(&budget->unsure) : 0);
}

/* One moment of the ledger, for what the tools are asked about around it. */
struct moment {
    uint64_t acquired, outstanding, in_flight;
    uint64_t floating; /* of what is outstanding, and among what is in flight */
};

/*
 * In this order: what leaves the requests in flight after they are read has been acquired, and
 * what is acquired after that is read may count twice, never not at all.
 */
static struct moment moment_of(struct gb_backend *backend, uint64_t own)
{
    struct moment moment;

    moment.floating = atomic_load(&backend->ledger.floating);
    moment.in_flight = gb_other_in_flight(backend);
    moment.in_flight -= own < moment.in_flight ? own : moment.in_flight;
    moment.acquired = gb_ledger_acquired(&backend->ledger);
    moment.outstanding = gb_ledger_outstanding(&backend->ledger);
    return moment;
}

/* Of the process, since a handle does not tell its device before it is looked up. */
static _Atomic uint64_t giving_begun, giving_ended;

void gb_giving_begins(void)
{
    atomic_fetch_add(&giving_begun, 1);
}

void gb_giving_ends(void)
{
    atomic_fetch_add(&giving_ended, 1);
}

bool gb_giving_count(uint64_t *count)
{
    /* In this order: one that is going on is seen. */
    *count = atomic_load(&giving_ended);
    return *count == atomic_load(&giving_begun);
}

void gb_giving_forked(void)
{
    /* A thread that was giving back does not exist here. */
    atomic_store(&giving_begun, 0);
    atomic_store(&giving_ended, 0);
}

/* What pools and graphs hold is tracked, as far as somebody has looked. */
void gb_other_refresh_gauges(struct gb_backend *backend)
{
    gb_pools_refresh(&backend->pools);
    gb_graphs_refresh(&backend->graphs, backend->options.api);
}

static uint64_t less(uint64_t from, uint64_t what)
{
    return from > what ? from - what : 0;
}

static uint64_t lower(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/*
 * With the lock held. The figure belongs to some moment between two of ours. What was tracked
 * then is at most what was at the first, plus all that came in between, plus what is in flight
 * at the second; and at least what was at the first, less all that went in between. So `least`
 * is never more than what is really untracked, whatever other threads do meanwhile, and less
 * only when they do something; `most` is as good but for frees in progress.
 */
static void read_untracked(struct gb_backend *backend, uint64_t own,
                           struct gb_other_reading *reading)
{
    /* Estimates are of what the tools did not tell: with their figure that is untracked. */
    uint64_t posted =
        atomic_load(&backend->other.posted) + atomic_load(&backend->estimates.charged);
    uint64_t moved, given, begun, elsewhere, again, imported, tracked, gone, figure = 0;
    struct moment first, second;

    /* In this order: one that is going on is seen. */
    given = atomic_load(&giving_ended);
    begun = atomic_load(&giving_begun);
    moved = gb_handles_imports_moved();
    elsewhere = gb_backend_unattributed(backend);
    imported = atomic_load(&backend->imported);
    first = moment_of(backend, own);
    /* Of all these figures the one that leaves most tracked. */
    elsewhere = lower(elsewhere, gb_backend_unattributed(backend));
    reading->known = gb_contexts_measure(&backend->contexts, &figure);
    elsewhere = lower(elsewhere, gb_backend_unattributed(backend));
    if (gb_handles_imports_moved() != moved)
        elsewhere = lower(elsewhere, atomic_load(&backend->managed));
    /* A pool that has changed meanwhile shows as movement. */
    gb_other_refresh_gauges(backend);
    /* After the figure; what is proven from here on shows as movement. */
    reading->pending = gb_pending_bytes(&backend->pending);
    second = moment_of(backend, own);
    again = atomic_load(&backend->imported);
    tracked = less(gb_add_saturated(first.outstanding, again > imported ? again : imported),
                   posted + elsewhere);
    gone = less(first.outstanding + (second.acquired - first.acquired), second.outstanding);
    /* Bounds, for which nothing may have been taken. */
    gone += first.floating;
    reading->least =
        less(figure, tracked + (second.acquired - first.acquired) + second.in_flight);
    reading->most = less(figure, less(tracked, gone));
    reading->figure = figure;
    reading->inherited = atomic_load(&backend->inherited.bytes);
    reading->since = first.acquired;
    reading->until = second.acquired + second.in_flight;
    reading->quiet = given == begun && begun == atomic_load(&giving_begun) &&
                     first.in_flight == 0 && second.in_flight == 0 && imported == again &&
                     first.acquired == second.acquired &&
                     first.outstanding == second.outstanding &&
                     gb_backend_unattributed(backend) == elsewhere;
    /* 0 is also what the tools show after a checkpoint; without contexts it is the truth. */
    if (figure == 0 && atomic_load(&backend->contexts.count) > 0)
        reading->known = false;
    gb_other_note_told(backend, reading->known);
}

void gb_other_note_told(struct gb_backend *backend, bool tells)
{
    struct gb_other *other = &backend->other;

    atomic_store(&other->tells, tells);
    if (atomic_exchange(&other->blind, !tells) == tells && other->told)
        other->told(other->hint_arg, tells);
}

/*
 * Free bytes of the card and all that is tracked here. `other` itself is left out, and so is
 * managed memory, which is not taken when it is charged: it would hide as much that was taken
 * or given back meanwhile. What is away is the card's all the same.
 */
bool gb_other_level(struct gb_backend *backend, const struct gb_driver_api *api,
                    struct gb_hint *hint, uint64_t *level)
{
    struct gb_other *other = &backend->other;
    uint64_t apart;

    if (!other->hint || !other->hint(other->hint_arg, api, hint))
        return false;
    apart = atomic_load(&other->posted) + atomic_load(&backend->estimates.charged) +
            atomic_load(&backend->managed);
    *level = gb_add_saturated(hint->free, gb_ledger_outstanding(&backend->ledger)) - apart;
    return true;
}

static bool level_now(struct gb_backend *backend, uint64_t *level, unsigned *source)
{
    struct gb_hint hint = {0, 0};

    if (!gb_other_level(backend, backend->options.api, &hint, level))
        return false;
    *source = hint.source;
    return true;
}

/*
 * Before the tools are asked: what is taken after their answer then shows as a change. False:
 * there is no hint.
 */
static bool note_level(struct gb_backend *backend)
{
    uint64_t level;
    unsigned source;

    if (!level_now(backend, &level, &source))
        return false;
    atomic_store(&backend->other.source, source);
    atomic_store(&backend->other.level, level);
    return true;
}

static bool is_near(uint64_t level, uint64_t now)
{
    return now - level < HINT_BYTES || level - now < HINT_BYTES;
}

/*
 * After the tools have answered. A free that the card has carried out meanwhile and the ledger
 * not yet moves nothing there; it shows here, and would show nowhere later. Where that cannot
 * be told, the next check looks.
 */
static bool level_has_moved(struct gb_backend *backend)
{
    struct gb_other *other = &backend->other;
    uint64_t level;
    unsigned source;

    if (!level_now(backend, &level, &source) || source != atomic_load(&other->source)) {
        atomic_store(&other->level, UNSETTLED);
        return true;
    }
    return !is_near(atomic_load(&other->level), level);
}

/* With the lock held. */
static uint64_t post(struct gb_backend *backend, uint64_t value)
{
    struct gb_other *other = &backend->other;
    uint64_t posted = atomic_load(&other->posted);

    atomic_store(&other->posted, value);
    if (value > posted) {
        gb_ledger_acquire(&backend->ledger, value - posted);
        return value - posted;
    }
    gb_ledger_reclaim(&backend->ledger, posted - value);
    return 0;
}

/* While a context is made its memory is nobody's. */
static bool can_look(const struct gb_backend *backend)
{
    return backend->contexts.measure && atomic_load(&backend->contexts.making) == 0;
}

/* With the lock held, after a post. Of several disturbed looks the worst counts: a free in
 * progress makes `most` too small. */
static void note_doubt(struct gb_other *other, const struct gb_other_reading *reading)
{
    uint64_t doubt = less(reading->most, atomic_load(&other->posted));

    if (reading->quiet) {
        atomic_store(&other->budget->doubt, 0);
        atomic_store(&other->budget->doubted, 0);
    } else if (doubt > atomic_load(&other->budget->doubt)) {
        atomic_store(&other->budget->doubt, doubt);
    }
}

uint64_t gb_other_look(struct gb_backend *backend, uint64_t own)
{
    struct gb_other *other = &backend->other;
    struct gb_other_reading reading;
    uint64_t rose = 0, posted, highest;
    bool hinted, moved;

    if (!can_look(backend))
        return 0;
    gb_other_refresh_gauges(backend);
    gb_lock_take(&other->lock);
    hinted = note_level(backend);
    atomic_store(&other->looked, now_ns());
    read_untracked(backend, own, &reading);
    /* It cannot be told where the hint fails, but for those who never have one. */
    moved = hinted ? level_has_moved(backend) : atomic_load(&other->level) != 0;
    if (reading.known && can_look(backend)) {
        if (reading.quiet && !moved)
            reading.least -= gb_inherited_found(backend, reading.least, hinted);
        posted = atomic_load(&other->posted);
        highest = gb_add_saturated(reading.least, reading.pending);
        /* It falls only when nothing else moved, and not by what may be another's free. */
        if (reading.least > posted)
            rose = post(backend, reading.least);
        else if (reading.quiet && !moved)
            post(backend, lower(posted, highest));
        /* What estimates stood for is in the figure: they end, and that was no rise. */
        if (reading.quiet)
            rose = less(rose, gb_estimates_drop(&backend->estimates));
        atomic_fetch_add(&other->risen, rose);
        atomic_store(&other->exact,
                     reading.quiet && !moved && atomic_load(&other->posted) == reading.least);
        /* What others moved may have hidden some: until nothing does, every check looks again.
         */
        if (hinted && (!reading.quiet || (!moved && !atomic_load(&other->exact))))
            atomic_store(&other->level, UNSETTLED);
        if (other->budget)
            note_doubt(other, &reading);
    }
    gb_lock_drop(&other->lock);
    return rose;
}

void gb_other_before_import(struct gb_backend *backend, struct gb_other_reading *before)
{
    before->known = false;
    if (!can_look(backend))
        return;
    gb_other_refresh_gauges(backend);
    gb_lock_take(&backend->other.lock);
    read_untracked(backend, 0, before);
    gb_lock_drop(&backend->other.lock);
}

uint64_t gb_other_imported(struct gb_backend *backend, const struct gb_other_reading *before)
{
    struct gb_other *other = &backend->other;
    struct gb_other_reading after = {0};
    uint64_t bytes = 0, grown;

    if (!before->known || !can_look(backend))
        return 0;
    gb_lock_take(&other->lock);
    read_untracked(backend, 0, &after);
    if (after.known) {
        bytes = less(after.least, before->most);
        /* Where frees that are carried out stand in the ledger still, that is too little. */
        grown = less(after.figure, before->figure + (after.until - before->since));
        if (grown > bytes)
            bytes = grown;
        /* Another thread's look may have thought it inherited. */
        bytes = less(bytes, less(after.inherited, before->inherited));
        atomic_fetch_add(&backend->imported, bytes);
    }
    /* Another thread's look may have taken it for the driver's meanwhile. */
    if (bytes > 0)
        atomic_store(&other->level, UNSETTLED);
    gb_lock_drop(&other->lock);
    return bytes;
}

void gb_other_check(struct gb_backend *backend, bool because)
{
    struct gb_other *other = &backend->other;
    uint64_t level = atomic_load(&other->level);
    uint64_t now, posted, rose;
    unsigned source;
    bool same;

    if (!backend->contexts.measure || level == 0 || !level_now(backend, &now, &source))
        return;
    /* What is lent, and bounds of grants, are no memory: without them it may be the same. */
    if (level != UNSETTLED && !is_near(level, now)) {
        gb_other_refresh_gauges(backend);
        if (!level_now(backend, &now, &source))
            return;
    }
    same = source == atomic_load(&other->source);
    if (same && is_near(level, now) && now_ns() - atomic_load(&other->looked) < LOOK_AGAIN_NS)
        return;
    /* Nor is a look that was disturbed made again at once, but where nobody is at it now. */
    if (!because && (level != UNSETTLED || gb_other_in_flight(backend) > 0) &&
        now_ns() - atomic_load(&other->in_vain) < HINT_PAUSE_NS)
        return;
    posted = atomic_load(&other->posted);
    rose = gb_other_look(backend, 0);
    if (same && rose == 0 && atomic_load(&other->posted) == posted)
        atomic_store(&other->in_vain, now_ns());
    if (rose > 0 && other->budget)
        gb_budget_note_overshoot(other->budget);
}

bool gb_other_is_settled(struct gb_backend *backend)
{
    return atomic_load(&backend->other.level) != UNSETTLED;
}

bool gb_other_is_exact(struct gb_backend *backend)
{
    return atomic_load(&backend->other.exact);
}

bool gb_other_tells(struct gb_backend *backend)
{
    return backend->contexts.measure && atomic_load(&backend->other.tells);
}
