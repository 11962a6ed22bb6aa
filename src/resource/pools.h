/*
 * pools.h: the memory pools of one device, each a gauge of the ledger.
 */
#ifndef GB_RESOURCE_POOLS_H
#define GB_RESOURCE_POOLS_H

#include "driver/api.h"

#include <stdbool.h>
#include <stdint.h>

#include "resource/credit.h"
#include "resource/hash.h"
#include "resource/ledger.h"
#include "resource/lock.h"

/* Pools grow in steps of this size (measured, docs/driver-behaviour.md). */
#define GB_POOL_STEP_BYTES (UINT64_C(32) << 20)

enum { GB_POOL_BLIND_MOST = 64 };

struct gb_pool_key {
    const struct gb_driver_api *api; /* handles of two driver copies may be equal */
    CUmemoryPool handle;
};

/*
 * A pool. Invariant: `posted` + `unseen` + the units of `credit` is exactly what this pool adds
 * to the ledger. posted is what the last look found; only a look and the pool's end change it,
 * each under `gauge`, and each moves the ledger by the difference once. unseen grows with every
 * grant that did not look, after its driver call; a look takes it away, and calls the credit
 * in, before it reads, so that what it takes away it has seen. Entries are never freed while
 * the process lives, because threads hold pointers without a lock; an ended pool is marked
 * dead, leaves the table, and its entry serves a later pool once nothing of it is charged any
 * more.
 */
struct gb_pool {
    struct gb_pool_key key; /* of the table; under its lock */
    _Atomic(const struct gb_driver_api *) api;
    _Atomic(CUmemoryPool) handle;
    struct gb_lock gauge;
    _Atomic uint64_t posted;    /* bytes */
    _Atomic uint64_t unseen;    /* bounds of grants since the last look; in the ledger, too */
    _Atomic unsigned blind;     /* how many these are */
    _Atomic bool looking;       /* RESERVED is being read, and is not posted yet */
    _Atomic uint64_t uncounted; /* freed with cuMemFree: the driver leaves them in USED */
    _Atomic bool dead;
    bool closing;           /* being destroyed: not to be asked any more; under gauge */
    int trims;              /* trims of ours in progress; closing waits for them; under gauge */
    _Atomic bool managed;   /* its blocks are managed memory; uncharged as a pool */
    _Atomic bool uncharged; /* imported or not on a device: never in the ledger */
    uint64_t left;          /* dead with live blocks: bytes of those still out */
    bool claimed;           /* the entry is in use, or being made so; under the table's lock */
    struct gb_pool *next;   /* all pools, in order of appearance, newest first */
    UT_hash_handle hh;
    struct gb_credit credit; /* last: its lines are the threads' own */
};

enum { GB_POOL_COPIES = 4 };

struct gb_pools {
    int device;
    bool charged; /* footprint mode: gauges move the ledger */
    struct gpubudget_accounting *ledger;
    struct gb_lock lock;
    struct gb_pool *table;
    _Atomic(struct gb_pool *) all; /* list head; walked without the lock */
    _Atomic int orphaned;          /* dead pools that still have live blocks */
    struct gb_pool_current {       /* the device's current pool, per driver copy */
        _Atomic(const struct gb_driver_api *) api;
        _Atomic(struct gb_pool *) pool;
        _Atomic uint64_t era; /* in which it was asked for; written first to 0, then last */
    } current[GB_POOL_COPIES];
};

void gb_pools_init(struct gb_pools *pools, int device, bool charged,
                   struct gpubudget_accounting *ledger);

/* Frees all entries. No other thread may use them. */
void gb_pools_clear(struct gb_pools *pools);

/* In the child of a fork. */
void gb_pools_forked(struct gb_pools *pools);

/*
 * The entry of a pool of this device, made if new (uncharged applies to a new one). NULL when
 * there is no memory for it.
 */
struct gb_pool *gb_pools_get(struct gb_pools *pools, const struct gb_driver_api *api,
                             CUmemoryPool handle, bool uncharged);

/* The entry if there is one. */
struct gb_pool *gb_pools_find(struct gb_pools *pools, const struct gb_driver_api *api,
                              CUmemoryPool handle);

/*
 * Around every driver call that may switch a device's current pool; of all devices, since a
 * destroyed pool does not tell whose current one it was.
 */
void gb_pools_switch_begins(void);
void gb_pools_switch_ends(void);

/* In the child of a fork: nobody is switching. */
void gb_pools_switch_forked(void);

/*
 * The time between two switches; 0 while one is in progress. A call that began and ended in the
 * same era, which is not 0, had the same current pools all the time.
 */
uint64_t gb_pools_era(void);

/* The device's current pool; asked from the driver once an era. NULL: unknown. */
struct gb_pool *gb_pools_current(struct gb_pools *pools, const struct gb_driver_api *api);

/*
 * Reads what the pool holds and posts the difference to the ledger. Answers the bytes by which
 * it rose (0 where it fell or stayed). A failing read changes nothing.
 */
uint64_t gb_pool_refresh(struct gb_pools *pools, struct gb_pool *pool);

/*
 * The same after a grant that may have added `most`. Where the pool cannot be read, the most is
 * posted, until it can. With slack for it, the pool is not looked at: the most is posted on top
 * until the next look, which comes after GB_POOL_BLIND_MOST such grants at the latest. With
 * credit, so much is posted beyond the most as well, and lent to the thread.
 */
uint64_t gb_pool_granted(struct gb_pools *pools, struct gb_pool *pool, uint64_t most,
                         uint64_t slack, uint64_t credit);

/* The credit's part of it; false: nothing has changed. */
bool gb_pool_lend(struct gb_pools *pools, struct gb_pool *pool, uint64_t most, uint64_t credit);

/* A grant on credit, between the two functions below. */
struct gb_claim {
    struct gb_pool *pool;
    unsigned lane, units;
};

/*
 * Before the driver is called for `bytes`: true when what that may take stands in the ledger
 * already. gb_pool_claimed follows, after the call, whatever its answer.
 */
bool gb_pool_claim(struct gb_pools *pools, struct gb_pool *pool, uint64_t bytes,
                   struct gb_claim *claim);
void gb_pool_claimed(struct gb_pools *pools, const struct gb_claim *claim, bool granted);

/*
 * For a look: takes away the bounds that it will have seen the truth of, before it reads, and
 * counts them as floating; afterwards settles them, which go if they have been seen.
 */
uint64_t gb_pool_take_unseen(struct gb_pools *pools, struct gb_pool *pool);
void gb_pool_settle_unseen(struct gb_pools *pools, struct gb_pool *pool, uint64_t bytes,
                           bool seen);

/* Reads what the pool holds: is it what was posted, and nobody posting another value? */
bool gb_pool_is_as_posted(struct gb_pool *pool);

/* What a pool of the device holds, as the driver says; false: not charged, or not to be asked.
 */
bool gb_pool_reserved(struct gb_pool *pool, uint64_t *bytes);

/* Is no pool just asked for memory on credit? */
bool gb_pools_are_quiet(const struct gb_pools *pools);

/* Bytes that no live block of any pool has. */
uint64_t gb_pools_idle(struct gb_pools *pools);

/* Refreshes every pool; answers by how much they rose together. */
uint64_t gb_pools_refresh(struct gb_pools *pools);

/* Bytes that no live block has; memory of pending frees is among them. */
uint64_t gb_pool_idle(struct gb_pool *pool);

/* Does it give memory to a stream that waits for the free? (A program can switch that off.) */
bool gb_pool_follows_events(struct gb_pool *pool);

/* Bytes that a request of `bytes` adds at least: what its pool has idle need not be taken. */
uint64_t gb_pool_least_growth(struct gb_pool *pool, uint64_t bytes);

/*
 * Trims idle memory of the pools so that the ledger falls by at least `bytes`, if they have
 * that much; true when something was trimmed.
 */
bool gb_pools_make_room(struct gb_pools *pools, uint64_t bytes);

/*
 * Around the driver's destroy call. close keeps all our other threads from asking the pool (its
 * handle is about to die), lets go of its idle memory, as the destroy will, and answers what
 * its live blocks use and what it still holds (theirs, and frees that are pending). reopen
 * after a failed destroy.
 */
void gb_pool_close(struct gb_pools *pools, struct gb_pool *pool, uint64_t *used,
                   uint64_t *held);
void gb_pool_reopen(struct gb_pool *pool);

/*
 * The driver has destroyed the pool; used and held as close told. With live blocks, all it
 * holds stays charged until the last of them is freed: the driver keeps whole steps for them.
 * Without, answers the bytes of pending frees, which are still in the ledger: the caller's from
 * now on.
 */
uint64_t gb_pools_destroyed(struct gb_pools *pools, struct gb_pool *pool, uint64_t used,
                            uint64_t held);

/*
 * A block of a destroyed pool is about to be freed: which orphan does it belong to? NULL: none.
 * Asks the driver; only called while `orphaned` is not 0.
 */
struct gb_pool *gb_pools_orphan_of(struct gb_pools *pools, const struct gb_driver_api *api,
                                   CUdeviceptr pointer, uint64_t *bytes);

/* The same for a block of a pool that is still there, before cuMemFree. */
struct gb_pool *gb_pools_block_of(struct gb_pools *pools, const struct gb_driver_api *api,
                                  CUdeviceptr pointer, uint64_t *bytes);

/*
 * cuMemFree of such a block succeeded. The driver goes on counting it in the pool's USED
 * attribute for ever (measured, docs/driver-behaviour.md), so it is taken off here.
 */
void gb_pool_freed_at_once(struct gb_pool *pool, uint64_t bytes);

/*
 * The free of such a block succeeded. With the last one the pool's charge goes: answers those
 * bytes, still in the ledger, else 0.
 */
uint64_t gb_pools_orphan_freed(struct gb_pools *pools, struct gb_pool *pool, uint64_t bytes);

#endif
