/*
 * budget.h: the state of a GlobalDeviceBudget and what the preload sets beyond the public API.
 */
#ifndef GB_RESOURCE_BUDGET_H
#define GB_RESOURCE_BUDGET_H

#include "driver/cuda_api.h"

#include <gpubudget/budget.h>

#include "resource/ledger.h"
#include "resource/lock.h"

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
    uint64_t limit;
    _Atomic uint64_t admit; /* limit less the reserve: requests are let in up to here */
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

/* Memory that no call could refuse has been found: is it above the limit? */
void gb_budget_note_overshoot(struct gpubudget_budget *budget);

/* Would so many bytes more fit now? A look, no promise. */
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
