/*
 * budget.h: the state of a GlobalDeviceBudget and what the preload sets beyond the public API.
 */
#ifndef GB_RESOURCE_BUDGET_H
#define GB_RESOURCE_BUDGET_H

#include "driver/cuda_api.h"

#include <gpubudget/budget.h>

#include "resource/ledger.h"
#include "resource/lock.h"

#define GB_BUDGET_NO_LIMIT UINT64_MAX

/*
 * What a budget that several processes share is kept in (job_budget.c): all figures are those
 * of all processes, in bytes.
 */
struct gb_budget_scope {
    uint64_t (*limit)(void *arg);
    uint64_t (*held)(void *arg);      /* outstanding */
    uint64_t (*in_flight)(void *arg); /* read before held */
    uint64_t (*used)(void *arg);      /* both, in that order, and not below the truth */

    /* One attempt; settle takes the bytes out again. Writes what is left beside them. */
    bool (*claim)(void *arg, uint64_t bytes, uint64_t pressure, uint64_t *left);
    void (*settle)(void *arg, uint64_t bytes);

    /* With the turn: the claim stands until it fits, or cannot, or the deadline. */
    bool (*insist)(void *arg, uint64_t bytes, uint64_t pressure, uint64_t deadline,
                   uint64_t *left);
    bool (*turn_take)(void *arg, uint64_t deadline);
    void (*turn_drop)(void *arg);

    /* Gives back what ended processes have left. */
    void (*reap)(void *arg);
};

/*
 * Invariants, with O the ledger's outstanding bytes and F the bytes in flight:
 *  - every request adds its bound to F before the driver is called, and takes it out again only
 *    after what it was really charged stands in O (or nothing does);
 *  - a request is let through only if O + F, read after its own add, stays within `admit`.
 * So of all grants alive at one moment, the one whose add came last saw every other one, and
 * O never passes `admit` by anything that went through here.
 */
struct gpubudget_budget {
    gpubudget_resource_t resource;
    gpubudget_resource_t *inner;
    const struct gpubudget_accounting *ledger;
    const struct gb_budget_scope *scope; /* NULL: of this process alone */
    void *scope_arg;
    struct gpubudget_budget *below; /* of the same stack, which measurements are noted at */
    struct gpubudget_budget *above; /* the reverse of it; NULL: none */
    uint64_t limit;                 /* of this process, or GB_BUDGET_NO_LIMIT */
    _Atomic uint64_t admit;         /* limit less the reserve: requests are let in up to here */
    uint64_t wait_ns;
    bool report_only; /* count what would be refused, and let it through */
    bool heap;        /* made by gpubudget_budget_new */
    uint64_t reclaimed_before;
    uint64_t acquired_before;
    struct gb_lock turn; /* the growth turn of the device, see lock.h */
    _Atomic uint64_t in_flight;
    _Atomic uint64_t unsure; /* what the one with the turn may take beyond its reservation */
    _Atomic unsigned tight;  /* requests that look for room: no slack and no credit meanwhile */
    _Atomic uint64_t doubt;  /* what the ledger may lack: a measurement was disturbed */
    _Atomic uint64_t doubted; /* so much of it was waited for in vain */
    bool looks;               /* something below measures what no request granted */
    _Atomic uint64_t looked;  /* outstanding at the last look for that, or less since */
    _Atomic uint64_t refusals;
    _Atomic bool leftover;      /* a measured call that was undone has left something */
    _Atomic uint64_t overshoot; /* see gpubudget_budget_overshoot */
};

/* In the caller's storage; limit and reserve in bytes, reserve <= limit. */
void gb_budget_init(struct gpubudget_budget *budget, gpubudget_resource_t *inner,
                    uint64_t limit, uint64_t reserve);

/* The same for one that is shared by several processes, above the budget of this process, or
 * above the backend. */
void gb_budget_init_shared(struct gpubudget_budget *budget, gpubudget_resource_t *inner,
                           const struct gb_budget_scope *scope, void *scope_arg);

/* The process's budget `below` is the one that measurements are noted at. */
void gb_budget_stack(struct gpubudget_budget *above, struct gpubudget_budget *below);

/* Where doubts are noted, see `doubt`: at the budget of this process. */
static inline struct gpubudget_budget *gb_budget_noted(struct gpubudget_budget *budget)
{
    return budget->below ? budget->below : budget;
}

/* The limit, up to where requests are let in, and what is held, of all that share the budget.
 */
static inline uint64_t gb_budget_limit(const struct gpubudget_budget *budget)
{
    return budget->scope ? budget->scope->limit(budget->scope_arg) : budget->limit;
}

static inline uint64_t gb_budget_admits(const struct gpubudget_budget *budget)
{
    return budget->scope ? budget->scope->limit(budget->scope_arg)
                         : atomic_load_explicit(&budget->admit, memory_order_relaxed);
}

static inline uint64_t gb_budget_in_flight(const struct gpubudget_budget *budget)
{
    return budget->scope ? budget->scope->in_flight(budget->scope_arg)
                         : atomic_load(&budget->in_flight);
}

static inline uint64_t gb_budget_held(const struct gpubudget_budget *budget)
{
    return budget->scope ? budget->scope->held(budget->scope_arg)
                         : gb_ledger_outstanding(budget->ledger);
}

/* Memory that no call could refuse has been found: is it above the limit? */
void gb_budget_note_overshoot(struct gpubudget_budget *budget);

/* Would so many bytes more fit now, here and in the budget above? A look, no promise. */
bool gb_budget_has_room(const struct gpubudget_budget *budget, uint64_t bytes);

/* Reaps, and answers what is reserved without anything that is charged above the truth. */
uint64_t gb_budget_reserved_exactly(struct gpubudget_budget *budget);

/*
 * May what was lent be used? Not where more stands in the ledger than is let in, by growth that
 * nothing could refuse, or where a measurement may have missed as much.
 */
static inline bool gb_budget_may_spend(const struct gpubudget_budget *budget)
{
    uint64_t doubt = atomic_load_explicit(&budget->doubt, memory_order_relaxed);
    uint64_t outstanding = gb_ledger_outstanding(budget->ledger);
    uint64_t admit = atomic_load_explicit(&budget->admit, memory_order_relaxed);

    return outstanding <= admit && doubt <= admit - outstanding;
}

/* In the child of a fork: nothing is in flight, nobody has the turn. */
void gb_budget_forked(struct gpubudget_budget *budget);

#endif
