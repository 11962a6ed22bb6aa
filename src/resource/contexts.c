/*
 * contexts.c: the contexts of one device, as measured at creation.
 */
#include "resource/contexts.h"

#include <stdatomic.h>
#include <stdlib.h>

#include "resource/resource.h"

/* Of each kernel of executables that is beside others, what the first ones find there, and the
 * most that was ever seen for each, with what may come with the first executable. */
#define NODE_BYTES      (UINT64_C(111) << 10)
#define FIRST_NODES     (UINT64_C(888) << 10)
#define MOST_NODE_BYTES (UINT64_C(112) << 10)
#define NODE_STEP       (UINT64_C(2) << 20)

/* Of the process: a handle stands in one device's table only, whichever that is. */
static _Atomic uint64_t serials;

void gb_contexts_init(struct gb_contexts *contexts, struct gpubudget_accounting *ledger)
{
    *contexts = (struct gb_contexts){.ledger = ledger};
    gb_lock_init(&contexts->lock);
}

void gb_contexts_clear(struct gb_contexts *contexts)
{
    struct gb_context *context, *next;

    HASH_ITER(hh, contexts->table, context, next)
    {
        HASH_DELETE(hh, contexts->table, context);
        free(context);
    }
    atomic_store(&contexts->count, 0);
    atomic_store(&contexts->charged, 0);
}

void gb_contexts_forked(struct gb_contexts *contexts)
{
    uint64_t learned = atomic_load(&contexts->learned);
    uint64_t sampled = atomic_load(&contexts->sampled);
    gb_measure_fn measure = contexts->measure;
    void *arg = contexts->measure_arg;

    gb_contexts_init(contexts, contexts->ledger);
    contexts->measure = measure;
    contexts->measure_arg = arg;
    atomic_store(&contexts->learned, learned);
    atomic_store(&contexts->sampled, sampled);
}

static struct gb_context *find_locked(struct gb_contexts *contexts, CUcontext handle)
{
    struct gb_context *context;

    HASH_FIND(hh, contexts->table, &handle, sizeof(handle), context);
    return context;
}

uint64_t gb_contexts_serial(struct gb_contexts *contexts, CUcontext handle)
{
    const struct gb_context *context;
    uint64_t serial;

    gb_lock_take(&contexts->lock);
    context = find_locked(contexts, handle);
    serial = context ? context->serial : 0;
    gb_lock_drop(&contexts->lock);
    return serial;
}

void gb_contexts_came(struct gb_contexts *contexts, CUcontext handle)
{
    atomic_compare_exchange_strong(&contexts->gone, &handle, NULL);
}

bool gb_contexts_measure(struct gb_contexts *contexts, uint64_t *bytes)
{
    return contexts->measure && contexts->measure(contexts->measure_arg, bytes);
}

void gb_contexts_sampled(struct gb_contexts *contexts, int64_t lost)
{
    if (lost >= (int64_t)GB_CONTEXT_LEAST && lost <= (int64_t)GB_CONTEXT_ESTIMATE &&
        atomic_load(&contexts->making) <= 1)
        atomic_store(&contexts->sampled, (uint64_t)lost);
}

uint64_t gb_contexts_expected(struct gb_contexts *contexts)
{
    uint64_t learned = atomic_load(&contexts->learned);
    uint64_t sampled = atomic_load(&contexts->sampled);

    if (learned > 0)
        return learned;
    if (sampled > 0)
        return sampled;
    return atomic_load(&contexts->estimated) ? GB_CONTEXT_ESTIMATE : 0;
}

/*
 * Without the card's tools: the last size seen, by them or else by the card's free memory; else
 * an estimate on the safe side.
 */
static uint64_t guess(struct gb_contexts *contexts)
{
    atomic_store(&contexts->estimated, true);
    return gb_contexts_expected(contexts);
}

bool gb_contexts_add(struct gb_contexts *contexts, const struct gb_driver_api *api,
                     CUcontext handle, bool primary, bool known_before, uint64_t before,
                     uint64_t tracked_before, uint64_t tracked, uint64_t *charged)
{
    struct gb_context *made = calloc(1, sizeof(*made));
    uint64_t after = 0, bytes = 0;
    bool known = gb_contexts_measure(contexts, &after), measured = false;

    if (!made)
        return false;
    made->api = api;
    made->handle = handle;
    made->primary = primary;
    made->serial = atomic_fetch_add(&serials, 1) + 1;
    gb_lock_take(&contexts->lock);
    if (find_locked(contexts, handle)) {
        gb_lock_drop(&contexts->lock);
        free(made);
        *charged = 0;
        return true;
    }
    if (contexts->measure && known && after > 0) {
        uint64_t others = atomic_load(&contexts->charged) + tracked;

        /* Growth during the call, less what others tracked meanwhile ... */
        bytes = known_before && after > before ? after - before : after;
        if (tracked > tracked_before)
            bytes -= bytes < tracked - tracked_before ? bytes : tracked - tracked_before;
        /* ... and never more than what nobody else accounts for: of two contexts made at the
         * same time each sees both, and the second one is left with the rest. */
        if (bytes > (after > others ? after - others : 0))
            bytes = after > others ? after - others : 0;
        measured = true;
    } else if (contexts->measure) {
        bytes = guess(contexts);
    }
    made->charged = bytes;
    HASH_ADD(hh, contexts->table, handle, sizeof(made->handle), made);
    if (!made->hh.tbl) {
        gb_lock_drop(&contexts->lock);
        free(made);
        return false;
    }
    atomic_fetch_add(&contexts->count, 1);
    atomic_fetch_add(&contexts->charged, bytes);
    /* Two that are made at the same moment may be measured as one: nothing to learn from. */
    if (measured && bytes > 0 && atomic_load(&contexts->making) <= 1)
        atomic_store(&contexts->learned, bytes);
    gb_ledger_acquire(contexts->ledger, bytes);
    gb_lock_drop(&contexts->lock);
    *charged = bytes;
    return true;
}

bool gb_contexts_remove(struct gb_contexts *contexts, CUcontext handle, uint64_t serial)
{
    struct gb_context *context;

    gb_lock_take(&contexts->lock);
    context = find_locked(contexts, handle);
    if (context && serial != 0 && context->serial != serial)
        context = NULL;
    if (context) {
        HASH_DELETE(hh, contexts->table, context);
        atomic_store(&contexts->gone, handle);
        atomic_fetch_sub(&contexts->count, 1);
        atomic_fetch_sub(&contexts->charged, context->charged);
        gb_ledger_reclaim(contexts->ledger, context->charged);
    }
    gb_lock_drop(&contexts->lock);
    free(context);
    return context != NULL;
}

uint64_t gb_contexts_local(struct gb_contexts *contexts, CUcontext handle, uint64_t otherwise)
{
    const struct gb_context *context;
    uint64_t bytes = 0;

    gb_lock_take(&contexts->lock);
    context = find_locked(contexts, handle);
    if (context)
        bytes = context->local;
    gb_lock_drop(&contexts->lock);
    return bytes > 0 ? bytes : otherwise;
}

void gb_contexts_set_local(struct gb_contexts *contexts, CUcontext handle, uint64_t bytes,
                           bool only_up)
{
    struct gb_context *context;

    gb_lock_take(&contexts->lock);
    context = find_locked(contexts, handle);
    if (context && (!only_up || bytes > context->local))
        context->local = bytes;
    gb_lock_drop(&contexts->lock);
}

bool gb_contexts_has_heap(struct gb_contexts *contexts, CUcontext handle)
{
    const struct gb_context *context;
    bool has_heap;

    gb_lock_take(&contexts->lock);
    context = find_locked(contexts, handle);
    has_heap = !context || context->heap;
    gb_lock_drop(&contexts->lock);
    return has_heap;
}

void gb_contexts_set_heap(struct gb_contexts *contexts, CUcontext handle)
{
    struct gb_context *context;

    gb_lock_take(&contexts->lock);
    context = find_locked(contexts, handle);
    if (context)
        context->heap = true;
    gb_lock_drop(&contexts->lock);
}

uint64_t gb_contexts_frames(struct gb_contexts *contexts, CUcontext handle)
{
    const struct gb_context *context;
    uint64_t bytes;

    gb_lock_take(&contexts->lock);
    context = find_locked(contexts, handle);
    bytes = context ? context->frames : UINT64_MAX;
    gb_lock_drop(&contexts->lock);
    return bytes;
}

void gb_contexts_set_frames(struct gb_contexts *contexts, CUcontext handle, uint64_t bytes)
{
    struct gb_context *context;

    gb_lock_take(&contexts->lock);
    context = find_locked(contexts, handle);
    if (context && bytes > context->frames)
        context->frames = bytes;
    gb_lock_drop(&contexts->lock);
}

/* What so many kernels were measured to take, and no more. */
static uint64_t taken_by(uint64_t nodes)
{
    uint64_t bytes = nodes * NODE_BYTES;

    return bytes > FIRST_NODES ? gb_round_up(bytes - FIRST_NODES, NODE_STEP) : 0;
}

/* What they take at most. */
static uint64_t most_of(uint64_t nodes)
{
    return gb_round_up(nodes * MOST_NODE_BYTES, NODE_STEP);
}

uint64_t gb_contexts_nodes_begin(struct gb_contexts *contexts, CUcontext handle, uint64_t nodes,
                                 uint64_t *serial)
{
    struct gb_context *context = NULL;
    uint64_t more = 0, all;

    *serial = 0;
    gb_lock_take(&contexts->lock);
    if (handle)
        context = find_locked(contexts, handle);
    if (context) {
        *serial = context->serial;
        context->nodes += nodes;
        all = context->nodes + contexts->unplaced;
        if (taken_by(all) > context->node_bytes)
            more = most_of(all) - context->node_bytes;
    } else {
        contexts->unplaced += nodes;
        more = most_of(nodes);
    }
    gb_lock_drop(&contexts->lock);
    return more;
}

void gb_contexts_nodes_came(struct gb_contexts *contexts, CUcontext handle, uint64_t serial,
                            uint64_t bytes)
{
    struct gb_context *context;
    uint64_t most;

    gb_lock_take(&contexts->lock);
    context = find_locked(contexts, handle);
    if (context && serial == context->serial) {
        /* Two threads may both have seen what came to either. */
        most = taken_by(context->nodes);
        bytes += context->node_bytes;
        if (bytes > most)
            bytes = most;
        if (bytes > context->node_bytes)
            context->node_bytes = bytes;
    }
    gb_lock_drop(&contexts->lock);
}

void gb_contexts_nodes_end(struct gb_contexts *contexts, CUcontext handle, uint64_t serial,
                           uint64_t nodes)
{
    struct gb_context *context;

    gb_lock_take(&contexts->lock);
    if (!handle) {
        contexts->unplaced -= nodes;
    } else {
        context = find_locked(contexts, handle);
        if (context && serial == context->serial)
            context->nodes -= nodes;
    }
    gb_lock_drop(&contexts->lock);
}

CUcontext gb_contexts_primary(struct gb_contexts *contexts, const struct gb_driver_api *api)
{
    struct gb_context *context, *next;
    CUcontext handle = NULL;

    gb_lock_take(&contexts->lock);
    HASH_ITER(hh, contexts->table, context, next)
    {
        if (context->primary && context->api == api)
            handle = context->handle;
    }
    gb_lock_drop(&contexts->lock);
    return handle;
}
