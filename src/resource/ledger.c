/*
 * ledger.c: the two counters of a device.
 */
#include "resource/ledger.h"

enum { SAMPLE_TRIES = 1000 };

void gb_ledger_init(struct gpubudget_accounting *ledger)
{
    atomic_store(&ledger->acquired, 0);
    atomic_store(&ledger->reclaimed, 0);
    atomic_store(&ledger->floating, 0);
}

void gb_ledger_sample(const struct gpubudget_accounting *ledger, uint64_t *acquired,
                      uint64_t *reclaimed)
{
    /* acquired unchanged around the read of reclaimed: both belong to that moment. */
    for (int i = 0; i < SAMPLE_TRIES; i++) {
        uint64_t before = atomic_load(&ledger->acquired);

        *reclaimed = atomic_load(&ledger->reclaimed);
        *acquired = atomic_load(&ledger->acquired);
        if (before == *acquired)
            return;
    }
}

uint64_t gpubudget_accounting_acquired(const gpubudget_accounting_t *accounting)
{
    return atomic_load(&accounting->acquired);
}

uint64_t gpubudget_accounting_reclaimed(const gpubudget_accounting_t *accounting)
{
    return atomic_load(&accounting->reclaimed);
}

uint64_t gpubudget_accounting_outstanding(const gpubudget_accounting_t *accounting)
{
    return gb_ledger_outstanding(accounting);
}
