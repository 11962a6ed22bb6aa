/*
 * pools_credit.c: grants of a pool on credit. See credit.h.
 */
#include "resource/pools.h"

#include <stdatomic.h>

/* A lane with less is enlarged now and then, where the budget allows it. */
enum { FEW = GB_CREDIT_MOST / 2, NOW_AND_THEN = 16 };

static uint64_t units_of(uint64_t bytes)
{
    return bytes / GB_POOL_STEP_BYTES + (bytes % GB_POOL_STEP_BYTES != 0);
}

/*
 * The spent units of the lane serve again once a look has shown that the pool has not grown:
 * the usual case of a warm pool, which changes nothing in the ledger. False: the request goes
 * the long way, which looks or brings new credit. So does one that all of the lane would not do
 * for.
 */
static bool renew(struct gb_pools *pools, struct gb_pool *pool, unsigned lane, unsigned units)
{
    unsigned spent, all;
    uint64_t word;

    /* As look_unlocked in pools.c: no other look may be going on before or after. */
    if (atomic_load(&pool->looking))
        return false;
    word = gb_credit_look(&pool->credit, lane, &spent, &all);
    if (spent == 0 || all < units)
        return false;
    if (!gb_pool_is_as_posted(pool)) {
        gb_pool_refresh(pools, pool);
        return false;
    }
    return gb_credit_renew(&pool->credit, lane, word) &&
           (all >= FEW || gb_credit_turn(word) % NOW_AND_THEN != 0);
}

bool gb_pool_claim(struct gb_pools *pools, struct gb_pool *pool, uint64_t bytes,
                   struct gb_claim *claim)
{
    uint64_t units = units_of(bytes);
    unsigned lane;

    if (units > GB_CREDIT_MOST)
        return false;
    lane = gb_credit_lane();
    if (!gb_credit_claim(&pool->credit, lane, (unsigned)units) &&
        !(renew(pools, pool, lane, (unsigned)units) &&
          gb_credit_claim(&pool->credit, lane, (unsigned)units)))
        return false;
    *claim = (struct gb_claim){.pool = pool, .lane = lane, .units = (unsigned)units};
    return true;
}

/* The pool was destroyed meanwhile, so nobody looks at it any more. With the table's lock its
 * entry does not become another pool's. */
static void drop_of_dead(struct gb_pools *pools, struct gb_pool *pool)
{
    gb_lock_take(&pools->lock);
    if (atomic_load(&pool->dead))
        gb_pool_settle_unseen(pools, pool, gb_pool_take_unseen(pools, pool), true);
    gb_lock_drop(&pools->lock);
}

void gb_pool_claimed(struct gb_pools *pools, const struct gb_claim *claim, bool granted)
{
    struct gb_pool *pool = claim->pool;

    if (!gb_credit_landed(&pool->credit, claim->lane, claim->units, granted))
        return;
    /* Called in: somebody is near the limit and waits for the truth. */
    gb_pool_refresh(pools, pool);
    if (atomic_load(&pool->dead))
        drop_of_dead(pools, pool);
    atomic_fetch_sub(&pools->ledger->floating, claim->units * GB_POOL_STEP_BYTES);
}

bool gb_pool_lend(struct gb_pools *pools, struct gb_pool *pool, uint64_t most, uint64_t credit)
{
    uint64_t spent = units_of(most), free = credit / GB_POOL_STEP_BYTES;
    uint64_t bytes;

    if (free > GB_CREDIT_MOST)
        free = GB_CREDIT_MOST;
    if (free == 0 || spent > GB_CREDIT_MOST)
        return false;
    bytes = (spent + free) * GB_POOL_STEP_BYTES;
    gb_ledger_acquire(pools->ledger, bytes);
    if (gb_credit_add(&pool->credit, gb_credit_lane(), (unsigned)spent, (unsigned)free))
        return true;
    gb_ledger_reclaim(pools->ledger, bytes);
    return false;
}

uint64_t gb_pool_take_unseen(struct gb_pools *pools, struct gb_pool *pool)
{
    _Atomic uint64_t *floating = &pools->ledger->floating;
    uint64_t free, spent, unseen;

    gb_credit_call_in(&pool->credit, floating, GB_POOL_STEP_BYTES, &free, &spent);
    if (free > 0) {
        /* Nothing was granted on those, so no look is needed. */
        gb_ledger_reclaim(pools->ledger, free * GB_POOL_STEP_BYTES);
        atomic_fetch_sub(floating, free * GB_POOL_STEP_BYTES);
    }
    spent *= GB_POOL_STEP_BYTES;
    while ((unseen = atomic_load(&pool->unseen)) > 0) {
        atomic_fetch_add(floating, unseen);
        atomic_store(&pool->blind, 0);
        if (atomic_compare_exchange_strong(&pool->unseen, &(uint64_t){unseen}, 0))
            break;
        atomic_fetch_sub(floating, unseen);
    }
    return spent + unseen;
}

void gb_pool_settle_unseen(struct gb_pools *pools, struct gb_pool *pool, uint64_t bytes,
                           bool seen)
{
    if (bytes == 0)
        return;
    if (seen)
        gb_ledger_reclaim(pools->ledger, bytes);
    else
        atomic_fetch_add(&pool->unseen, bytes);
    atomic_fetch_sub(&pools->ledger->floating, bytes);
}
