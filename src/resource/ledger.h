/*
 * ledger.h: the two counters of a device (gpubudget_accounting_t) and how they move.
 */
#ifndef GB_RESOURCE_LEDGER_H
#define GB_RESOURCE_LEDGER_H

#include <stdatomic.h>
#include <stdint.h>

#include <gpubudget/accounting.h>

/*
 * Invariants: both only grow; reclaimed <= acquired at every moment, because bytes are
 * reclaimed by the amount that was acquired for them and only after that.
 */
struct gb_ledger_totals {
    _Atomic uint64_t acquired;
    _Atomic uint64_t reclaimed;
};

struct gpubudget_accounting {
    struct gb_ledger_totals *at; /* `own`, or where the processes of a job can read them */
    struct gb_ledger_totals own;
    /* Of what is outstanding: bounds of grants in progress, see credit.h. They settle in a
     * moment, as the bytes in flight do. Read before the other two: what stops floating has
     * been corrected in them. */
    _Atomic uint64_t floating;
    uint64_t before; /* what stood in both totals at `at` before this ledger was there */
};

/* Starts at zero. Also used in the child of a fork, which owns nothing on the device. */
void gb_ledger_init(struct gpubudget_accounting *ledger);

/*
 * From now on the totals are counted there, where as much has been reclaimed as acquired, and
 * nobody else writes. Before anybody else uses the ledger.
 */
void gb_ledger_share(struct gpubudget_accounting *ledger, struct gb_ledger_totals *at);

static inline void gb_ledger_acquire(struct gpubudget_accounting *ledger, uint64_t bytes)
{
    atomic_fetch_add(&ledger->at->acquired, bytes);
}

static inline void gb_ledger_reclaim(struct gpubudget_accounting *ledger, uint64_t bytes)
{
    atomic_fetch_add(&ledger->at->reclaimed, bytes);
}

/*
 * Reads reclaimed before acquired: a block that is taken and given back in between then counts
 * as live, and the answer is never below the truth. Admission relies on that (admission.c).
 */
static inline uint64_t gb_ledger_difference(const struct gb_ledger_totals *totals)
{
    uint64_t reclaimed = atomic_load(&totals->reclaimed);
    uint64_t acquired = atomic_load(&totals->acquired);

    return acquired - reclaimed;
}

static inline uint64_t gb_ledger_outstanding(const struct gpubudget_accounting *ledger)
{
    return gb_ledger_difference(ledger->at);
}

/* Bytes ever acquired, by this ledger. */
static inline uint64_t gb_ledger_acquired(const struct gpubudget_accounting *ledger)
{
    return atomic_load(&ledger->at->acquired) - ledger->before;
}

/* Both totals of one moment, or the closest after a bounded number of tries. */
void gb_ledger_sample(const struct gpubudget_accounting *ledger, uint64_t *acquired,
                      uint64_t *reclaimed);

#endif
