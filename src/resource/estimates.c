/*
 * estimates.c: what calls took of the card by its free memory.
 */
#include "resource/estimates.h"

#include <stdatomic.h>
#include <stdlib.h>

void gb_estimates_init(struct gb_estimates *estimates, struct gpubudget_accounting *ledger)
{
    *estimates = (struct gb_estimates){.ledger = ledger};
    gb_lock_init(&estimates->lock);
}

static void charge(struct gb_estimates *estimates, uint64_t bytes)
{
    gb_ledger_acquire(estimates->ledger, bytes);
    atomic_fetch_add(&estimates->charged, bytes);
}

/* `charged` goes first, as it comes last: never more than stands in the ledger. */
static void give_back(struct gb_estimates *estimates, uint64_t bytes)
{
    atomic_fetch_sub(&estimates->charged, bytes);
    gb_ledger_reclaim(estimates->ledger, bytes);
}

static struct gb_estimate *find_locked(struct gb_estimates *estimates,
                                       const struct gb_estimate_key *key)
{
    struct gb_estimate *entry;

    HASH_FIND(hh, estimates->table, key, sizeof(*key), entry);
    return entry;
}

/* False, and not in the table, where there is no memory for that. */
static bool add_locked(struct gb_estimates *estimates, struct gb_estimate *entry)
{
    HASH_ADD(hh, estimates->table, key, sizeof(entry->key), entry);
    return entry->hh.tbl != NULL;
}

static void free_all_locked(struct gb_estimates *estimates)
{
    struct gb_estimate *entry, *next;

    HASH_ITER(hh, estimates->table, entry, next)
    {
        HASH_DELETE(hh, estimates->table, entry);
        free(entry);
    }
}

void gb_estimates_clear(struct gb_estimates *estimates)
{
    free_all_locked(estimates);
    atomic_store(&estimates->charged, 0);
}

static void shrink_locked(struct gb_estimates *estimates, struct gb_estimate *entry,
                          uint64_t bytes)
{
    if (!entry)
        return;
    if (bytes > entry->bytes)
        bytes = entry->bytes;
    entry->bytes -= bytes;
    give_back(estimates, bytes);
}

void gb_estimates_change(struct gb_estimates *estimates, uint64_t kind, uint64_t handle,
                         CUcontext context, uint64_t generation, int64_t change)
{
    struct gb_estimate *made = change > 0 ? calloc(1, sizeof(*made)) : NULL;
    const struct gb_estimate_key key = {kind, handle};
    struct gb_estimate *there;

    gb_lock_take(&estimates->lock);
    there = find_locked(estimates, &key);
    if (change < 0)
        shrink_locked(estimates, there, (uint64_t)-change);
    if (change > 0) {
        charge(estimates, (uint64_t)change);
        if (!there && made) {
            made->key = key;
            if (add_locked(estimates, made))
                there = made;
        }
        if (there) {
            there->context = context;
            there->generation = generation;
            there->bytes += (uint64_t)change;
        }
    }
    gb_lock_drop(&estimates->lock);
    if (there != made)
        free(made);
}

struct gb_estimate *gb_estimates_take(struct gb_estimates *estimates, uint64_t kind,
                                      uint64_t handle)
{
    const struct gb_estimate_key key = {kind, handle};
    struct gb_estimate *found;

    /* Where the tools tell there are none. */
    if (atomic_load_explicit(&estimates->charged, memory_order_relaxed) == 0)
        return NULL;
    gb_lock_take(&estimates->lock);
    found = find_locked(estimates, &key);
    if (found) {
        HASH_DELETE(hh, estimates->table, found);
        estimates->taken += found->bytes;
    }
    gb_lock_drop(&estimates->lock);
    return found;
}

void gb_estimates_taken(struct gb_estimates *estimates, struct gb_estimate *taken, bool ended)
{
    bool kept = false;

    if (!taken)
        return;
    gb_lock_take(&estimates->lock);
    estimates->taken -= taken->bytes;
    /* Without memory for the table it stays charged, as a new one would. */
    if (!ended)
        kept = add_locked(estimates, taken);
    gb_lock_drop(&estimates->lock);
    if (ended)
        give_back(estimates, taken->bytes);
    if (!kept)
        free(taken);
}

void gb_estimates_context_ended(struct gb_estimates *estimates, CUcontext context,
                                uint64_t generation)
{
    struct gb_estimate *entry, *next;

    if (!context || atomic_load(&estimates->charged) == 0)
        return;
    gb_lock_take(&estimates->lock);
    HASH_ITER(hh, estimates->table, entry, next)
    {
        if (entry->context != context || entry->generation > generation)
            continue;
        HASH_DELETE(hh, estimates->table, entry);
        give_back(estimates, entry->bytes);
        free(entry);
    }
    gb_lock_drop(&estimates->lock);
}

uint64_t gb_estimates_drop(struct gb_estimates *estimates)
{
    uint64_t bytes;

    if (atomic_load(&estimates->charged) == 0)
        return 0;
    gb_lock_take(&estimates->lock);
    /* What somebody has taken out meanwhile is for that one to give back. */
    bytes = atomic_load(&estimates->charged) - estimates->taken;
    free_all_locked(estimates);
    give_back(estimates, bytes);
    gb_lock_drop(&estimates->lock);
    return bytes;
}
