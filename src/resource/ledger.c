/*
 * ledger.c: the two counters of a device.
 */
#include "resource/ledger.h"

enum { SAMPLE_TRIES = 1000 };

void gb_ledger_init(struct gpubudget_accounting *ledger)
{
    atomic_store(&ledger->own.acquired, 0);
    atomic_store(&ledger->own.reclaimed, 0);
    atomic_store(&ledger->floating, 0);
    ledger->at = &ledger->own;
    ledger->before = 0;
}

void gb_ledger_share(struct gpubudget_accounting *ledger, struct gb_ledger_totals *at)
{
    ledger->before = atomic_load(&at->acquired);
    atomic_fetch_add(&at->acquired, atomic_load(&ledger->own.acquired));
    atomic_fetch_add(&at->reclaimed, atomic_load(&ledger->own.reclaimed));
    ledger->at = at;
}

void gb_ledger_sample(const struct gpubudget_accounting *ledger, uint64_t *acquired,
                      uint64_t *reclaimed)
{
    /* acquired unchanged around the read of reclaimed: both belong to that moment. */
    for (int i = 0; i < SAMPLE_TRIES; i++) {
        uint64_t before = gb_ledger_acquired(ledger);

        *reclaimed = gpubudget_accounting_reclaimed(ledger);
        *acquired = gb_ledger_acquired(ledger);
        if (before == *acquired)
            return;
    }
}

uint64_t gpubudget_accounting_acquired(const gpubudget_accounting_t *accounting)
{
    return gb_ledger_acquired(accounting);
}

uint64_t gpubudget_accounting_reclaimed(const gpubudget_accounting_t *accounting)
{
    return atomic_load(&accounting->at->reclaimed) - accounting->before;
}

uint64_t gpubudget_accounting_outstanding(const gpubudget_accounting_t *accounting)
{
    return gb_ledger_outstanding(accounting);
}
