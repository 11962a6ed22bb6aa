/*
 * pools.c: the memory pools of one device, each a gauge of the ledger.
 */
#include "resource/pools.h"

#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "resource/capture.h"
#include "resource/resource.h"

/* A trim of ours takes microseconds; this many yields are far longer, and bounded. */
enum { CLOSE_TURNS = 1000000 };

void gb_pools_init(struct gb_pools *pools, int device, bool charged,
                   struct gpubudget_accounting *ledger)
{
    *pools = (struct gb_pools){.device = device, .charged = charged, .ledger = ledger};
    gb_lock_init(&pools->lock);
}

void gb_pools_clear(struct gb_pools *pools)
{
    struct gb_pool *pool = atomic_load(&pools->all);

    HASH_CLEAR(hh, pools->table);
    while (pool) {
        struct gb_pool *next = pool->next;

        free(pool);
        pool = next;
    }
    atomic_store(&pools->all, NULL);
    for (int i = 0; i < GB_POOL_COPIES; i++)
        atomic_store(&pools->current[i].era, 0);
}

void gb_pools_forked(struct gb_pools *pools)
{
    gb_pools_init(pools, pools->device, pools->charged, pools->ledger);
    gb_pools_switch_forked();
}

static struct gb_pool *find_locked(struct gb_pools *pools, const struct gb_pool_key *key)
{
    struct gb_pool *pool;

    HASH_FIND(hh, pools->table, key, sizeof(*key), pool);
    return pool;
}

struct gb_pool *gb_pools_find(struct gb_pools *pools, const struct gb_driver_api *api,
                              CUmemoryPool handle)
{
    const struct gb_pool_key key = {.api = api, .handle = handle};
    struct gb_pool *pool;

    gb_lock_take(&pools->lock);
    pool = find_locked(pools, &key);
    gb_lock_drop(&pools->lock);
    return pool;
}

/* With the lock held: the entry of an ended pool that nothing is charged for, claimed. */
static struct gb_pool *find_spent(struct gb_pools *pools)
{
    for (struct gb_pool *pool = atomic_load(&pools->all); pool; pool = pool->next) {
        if (!atomic_load(&pool->dead) || pool->claimed || atomic_load(&pool->posted) > 0 ||
            atomic_load(&pool->unseen) > 0 || !gb_credit_is_empty(&pool->credit))
            continue;
        pool->claimed = true;
        return pool;
    }
    return NULL;
}

struct gb_pool *gb_pools_get(struct gb_pools *pools, const struct gb_driver_api *api,
                             CUmemoryPool handle, bool uncharged)
{
    const struct gb_pool_key key = {.api = api, .handle = handle};
    struct gb_pool *pool = gb_pools_find(pools, api, handle);
    struct gb_pool *made;
    bool listed = true;

    if (pool)
        return pool;
    gb_lock_take(&pools->lock);
    made = find_spent(pools);
    gb_lock_drop(&pools->lock);
    if (!made) {
        made = calloc(1, sizeof(*made));
        if (!made)
            return NULL;
        gb_lock_init(&made->gauge);
        listed = false;
    }
    gb_lock_take(&pools->lock);
    pool = find_locked(pools, &key);
    if (!pool) {
        made->key = key;
        HASH_ADD(hh, pools->table, key, sizeof(made->key), made);
        if (made->hh.tbl) {
            atomic_store(&made->api, api);
            atomic_store(&made->handle, handle);
            atomic_store(&made->uncharged, uncharged);
            atomic_store(&made->managed, false);
            atomic_store(&made->uncounted, 0);
            atomic_store(&made->dead, false);
            if (!listed) {
                made->next = atomic_load(&pools->all);
                atomic_store(&pools->all, made);
                listed = true;
            }
            pool = made;
        }
    }
    if (pool != made && listed)
        made->claimed = false;
    gb_lock_drop(&pools->lock);
    if (!listed)
        free(made);
    return pool;
}

static bool read_attribute(struct gb_pool *pool, CUmemPool_attribute attribute, uint64_t *bytes)
{
    const struct gb_driver_api *api = atomic_load(&pool->api);
    struct gb_capture_mode saved;
    cuuint64_t value = 0;
    CUresult code;

    if (!api->cuMemPoolGetAttribute)
        return false;
    saved = gb_capture_relax(api);
    code = api->cuMemPoolGetAttribute(atomic_load(&pool->handle), attribute, &value);
    gb_capture_restore(api, &saved);
    if (code != CUDA_SUCCESS)
        return false;
    *bytes = value;
    return true;
}

/* With the gauge held: what the pool adds to the ledger from now on; answers the rise. */
static uint64_t post_value(struct gb_pools *pools, struct gb_pool *pool, uint64_t value)
{
    uint64_t posted = atomic_load(&pool->posted);

    /* A rise stands in the ledger before anybody can read that it is posted. */
    if (value > posted)
        gb_ledger_acquire(pools->ledger, value - posted);
    atomic_store(&pool->posted, value);
    if (value > posted)
        return value - posted;
    gb_ledger_reclaim(pools->ledger, posted - value);
    return 0;
}

/* With the gauge held: posts what the pool holds now; answers by how much it rose. */
static uint64_t look_and_post(struct gb_pools *pools, struct gb_pool *pool, uint64_t most)
{
    uint64_t reserved, unseen, rose = 0;
    bool known;

    if (pool->closing || atomic_load(&pool->dead))
        return 0;
    /* Between the look and the post the value may be overtaken: see look_unlocked. */
    atomic_store(&pool->looking, true);
    unseen = gb_pool_take_unseen(pools, pool);
    known = read_attribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, &reserved);
    if (known || most > 0)
        rose = post_value(pools, pool, known ? reserved : atomic_load(&pool->posted) + most);
    gb_pool_settle_unseen(pools, pool, unseen, known);
    atomic_store(&pool->looking, false);
    return rose;
}

bool gb_pool_is_as_posted(struct gb_pool *pool)
{
    uint64_t reserved;

    return read_attribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, &reserved) &&
           !atomic_load(&pool->looking) && reserved == atomic_load(&pool->posted);
}

/*
 * The usual answer of a look, nothing changed, needs no lock. Another thread's look may have
 * read before the growth that this one has seen, and post that later: so none may be going on
 * before the bounds are taken away, nor after the read. One that ends in between shows in
 * posted.
 */
static bool look_unlocked(struct gb_pools *pools, struct gb_pool *pool)
{
    uint64_t unseen;
    bool same;

    if (atomic_load(&pool->looking))
        return false;
    unseen = gb_pool_take_unseen(pools, pool);
    same = gb_pool_is_as_posted(pool);
    gb_pool_settle_unseen(pools, pool, unseen, same);
    return same;
}

/* After a grant that need not look. */
static bool post_unseen(struct gb_pools *pools, struct gb_pool *pool, uint64_t most,
                        uint64_t slack)
{
    if (gb_add_saturated(atomic_load(&pool->unseen), most) > slack ||
        atomic_fetch_add(&pool->blind, 1) >= GB_POOL_BLIND_MOST)
        return false;
    gb_ledger_acquire(pools->ledger, most);
    atomic_fetch_add(&pool->unseen, most);
    return true;
}

static uint64_t post_locked(struct gb_pools *pools, struct gb_pool *pool)
{
    return look_and_post(pools, pool, 0);
}

uint64_t gb_pool_refresh(struct gb_pools *pools, struct gb_pool *pool)
{
    return gb_pool_granted(pools, pool, 0, 0, 0);
}

uint64_t gb_pool_granted(struct gb_pools *pools, struct gb_pool *pool, uint64_t most,
                         uint64_t slack, uint64_t credit)
{
    uint64_t rose;

    if (!pools->charged || atomic_load(&pool->uncharged) || atomic_load(&pool->dead))
        return 0;
    if (most > 0 && gb_pool_lend(pools, pool, most, credit))
        return most;
    if (most > 0 && slack > 0 && post_unseen(pools, pool, most, slack))
        return most;
    /* The program is using this very pool, so nobody destroys it now. */
    if (look_unlocked(pools, pool))
        return 0;
    gb_lock_take(&pool->gauge);
    rose = look_and_post(pools, pool, most);
    gb_lock_drop(&pool->gauge);
    return rose;
}

uint64_t gb_pools_refresh(struct gb_pools *pools)
{
    uint64_t rose = 0;

    if (!pools->charged)
        return 0;
    for (struct gb_pool *pool = atomic_load(&pools->all); pool; pool = pool->next) {
        if (atomic_load(&pool->uncharged) || atomic_load(&pool->dead))
            continue;
        gb_lock_take(&pool->gauge);
        rose += post_locked(pools, pool);
        gb_lock_drop(&pool->gauge);
    }
    return rose;
}

/* Bytes of the pool's live blocks. */
static bool read_used(struct gb_pool *pool, uint64_t *used)
{
    uint64_t uncounted = atomic_load(&pool->uncounted);

    if (!read_attribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, used))
        return false;
    *used -= *used < uncounted ? *used : uncounted;
    return true;
}

/* Reserved but not used, as the driver says; memory of a pending free is among it. */
static uint64_t idle_locked(struct gb_pool *pool, uint64_t *reserved)
{
    uint64_t used;

    if (pool->closing || atomic_load(&pool->dead) || atomic_load(&pool->uncharged) ||
        !read_attribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, reserved) ||
        !read_used(pool, &used))
        return 0;
    return *reserved > used ? *reserved - used : 0;
}

uint64_t gb_pool_idle(struct gb_pool *pool)
{
    uint64_t idle, reserved;

    gb_lock_take(&pool->gauge);
    idle = idle_locked(pool, &reserved);
    gb_lock_drop(&pool->gauge);
    return idle;
}

bool gb_pool_reserved(struct gb_pool *pool, uint64_t *bytes)
{
    bool known;

    gb_lock_take(&pool->gauge);
    known = !pool->closing && !atomic_load(&pool->dead) && !atomic_load(&pool->uncharged) &&
            read_attribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, bytes);
    gb_lock_drop(&pool->gauge);
    return known;
}

bool gb_pools_are_quiet(const struct gb_pools *pools)
{
    for (const struct gb_pool *pool = atomic_load(&pools->all); pool; pool = pool->next)
        if (gb_credit_flies(&pool->credit))
            return false;
    return true;
}

bool gb_pool_follows_events(struct gb_pool *pool)
{
    uint64_t follows;

    return read_attribute(pool, CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES, &follows) &&
           follows != 0;
}

uint64_t gb_pool_least_growth(struct gb_pool *pool, uint64_t bytes)
{
    uint64_t idle = gb_pool_idle(pool);

    return idle >= bytes ? 0 : bytes - idle;
}

/* Trims up to `most` idle bytes of one pool; answers by how much the ledger fell. */
static uint64_t trim(struct gb_pools *pools, struct gb_pool *pool, uint64_t most, bool *trimmed)
{
    const struct gb_driver_api *api = atomic_load(&pool->api);
    struct gb_capture_mode saved;
    uint64_t idle, before, after, reserved = 0;

    gb_lock_take(&pool->gauge);
    idle = idle_locked(pool, &reserved);
    before = atomic_load(&pool->posted);
    if (idle > 0)
        pool->trims++;
    gb_lock_drop(&pool->gauge);
    if (idle == 0)
        return 0;
    saved = gb_capture_relax(api);
    if (api->cuMemPoolTrimTo &&
        api->cuMemPoolTrimTo(atomic_load(&pool->handle),
                             reserved - (idle < most ? idle : most)) == CUDA_SUCCESS)
        *trimmed = true;
    gb_capture_restore(api, &saved);
    gb_lock_take(&pool->gauge);
    pool->trims--;
    post_locked(pools, pool);
    after = atomic_load(&pool->posted);
    gb_lock_drop(&pool->gauge);
    return before > after ? before - after : 0;
}

/* Trims every pool by up to `each` bytes until `bytes` have come back; answers what lacks. */
static uint64_t trim_all(struct gb_pools *pools, uint64_t bytes, uint64_t each, bool *trimmed)
{
    for (struct gb_pool *pool = atomic_load(&pools->all); pool && bytes > 0;
         pool = pool->next) {
        uint64_t fell = trim(pools, pool, bytes > each ? bytes : each, trimmed);

        bytes = fell < bytes ? bytes - fell : 0;
    }
    return bytes;
}

uint64_t gb_pools_idle(struct gb_pools *pools)
{
    uint64_t idle = 0;

    for (struct gb_pool *pool = atomic_load(&pools->all); pool; pool = pool->next)
        idle = gb_add_saturated(idle, gb_pool_idle(pool));
    return idle;
}

bool gb_pools_make_room(struct gb_pools *pools, uint64_t bytes)
{
    bool trimmed = false;

    if (!pools->charged)
        return false;
    /* Trimming that cannot help would only cost the program its warm memory. */
    if (gb_pools_idle(pools) < bytes)
        return false;
    bytes = trim_all(pools, bytes, 0, &trimmed);
    /* Pools let go of whole pieces, and keep one that is larger than what is to go: then all
     * that is idle has to be asked for. */
    if (bytes > 0)
        trim_all(pools, bytes, UINT64_MAX, &trimmed);
    return trimmed;
}

void gb_pool_close(struct gb_pools *pools, struct gb_pool *pool, uint64_t *used, uint64_t *held)
{
    bool busy = true, trimmed = false;
    uint64_t unseen;

    if (pools->charged && !atomic_load(&pool->uncharged))
        trim(pools, pool, UINT64_MAX, &trimmed);
    gb_lock_take(&pool->gauge);
    pool->closing = true;
    gb_lock_drop(&pool->gauge);
    for (int turn = 0; busy && turn < CLOSE_TURNS; turn++) {
        gb_lock_take(&pool->gauge);
        busy = pool->trims > 0;
        gb_lock_drop(&pool->gauge);
        if (busy)
            sched_yield();
    }
    *used = *held = 0;
    if (!pools->charged || atomic_load(&pool->uncharged))
        return;
    read_used(pool, used);
    /* Where the pool could not be looked at, the bounds stand for what it holds. */
    gb_lock_take(&pool->gauge);
    unseen = gb_pool_take_unseen(pools, pool);
    *held = atomic_load(&pool->posted) + unseen;
    atomic_store(&pool->posted, *held);
    atomic_fetch_sub(&pools->ledger->floating, unseen);
    gb_lock_drop(&pool->gauge);
}

void gb_pool_reopen(struct gb_pool *pool)
{
    gb_lock_take(&pool->gauge);
    pool->closing = false;
    gb_lock_drop(&pool->gauge);
}

uint64_t gb_pools_destroyed(struct gb_pools *pools, struct gb_pool *pool, uint64_t used,
                            uint64_t held)
{
    uint64_t pending;

    gb_lock_take(&pools->lock);
    HASH_DELETE(hh, pools->table, pool);
    pool->claimed = false;
    gb_lock_drop(&pools->lock);
    gb_lock_take(&pool->gauge);
    pending = used > 0 ? 0 : held;
    pool->left = held > 0 ? used : 0;
    if (pool->left > 0)
        atomic_fetch_add(&pools->orphaned, 1);
    atomic_store(&pool->posted, pool->left > 0 ? held : 0);
    gb_pool_settle_unseen(pools, pool, gb_pool_take_unseen(pools, pool), true);
    /* Last: from here on the entry may serve another pool. */
    atomic_store(&pool->dead, true);
    pool->closing = false;
    gb_lock_drop(&pool->gauge);
    return pending;
}
