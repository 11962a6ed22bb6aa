/*
 * budget.c: GlobalDeviceBudget as a resource: what it answers itself and what it forwards.
 */
#include "resource/budget.h"

#include <stdlib.h>

#include "resource/admission.h"
#include "resource/resource.h"

#define DEFAULT_WAIT_NS UINT64_C(200000000)

static struct gpubudget_budget *budget_of(gpubudget_resource_t *resource)
{
    return (struct gpubudget_budget *)resource;
}

static const struct gpubudget_budget *const_budget_of(const gpubudget_resource_t *resource)
{
    return (const struct gpubudget_budget *)resource;
}

static gpubudget_status_t budget_deallocate(gpubudget_resource_t *self,
                                            const gpubudget_block_t *block,
                                            const gpubudget_release_t *release,
                                            gpubudget_error_t *error)
{
    return gpubudget_deallocate(budget_of(self)->inner, block, release, error);
}

static const gpubudget_accounting_t *budget_accounting(const gpubudget_resource_t *self)
{
    return gpubudget_allocation_accounting(const_budget_of(self)->inner);
}

static uint64_t budget_outstanding(const gpubudget_resource_t *self)
{
    return gpubudget_bytes_outstanding(const_budget_of(self)->inner);
}

static int budget_device(const gpubudget_resource_t *self)
{
    return gpubudget_device_ordinal(const_budget_of(self)->inner);
}

static uint64_t budget_charge_bound(gpubudget_resource_t *self,
                                    const gpubudget_request_t *request, bool least)
{
    return gb_resource_charge_bound(budget_of(self)->inner, request, least);
}

static bool budget_make_room(gpubudget_resource_t *self, uint64_t bytes)
{
    return gb_resource_make_room(budget_of(self)->inner, bytes);
}

static bool budget_follow_frees(gpubudget_resource_t *self, const gpubudget_request_t *request,
                                uint64_t bytes, bool grew)
{
    return gb_resource_follow_frees(budget_of(self)->inner, request, bytes, grew);
}

static uint64_t budget_bytes_pending(gpubudget_resource_t *self)
{
    return gb_resource_bytes_pending(budget_of(self)->inner);
}

static bool budget_snapshot(const gpubudget_resource_t *self, gpubudget_snapshot_t *snapshot)
{
    snapshot->limit = gb_budget_limit(const_budget_of(self));
    snapshot->reserved = gb_budget_reserved(const_budget_of(self));
    return true;
}

static gpubudget_status_t budget_reap(gpubudget_resource_t *self, gpubudget_error_t *error)
{
    struct gpubudget_budget *budget = budget_of(self);
    gpubudget_status_t status = gpubudget_reap_pending(budget->inner, error);

    if (budget->scope)
        budget->scope->reap(budget->scope_arg); /* What a pool had to keep of an undone growth
                                                   until its stream came so far. */
    gb_budget_make_room(budget, 0);
    return status;
}

static bool budget_tracks_uses(const gpubudget_resource_t *self)
{
    return gpubudget_supports_block_use_tracking(const_budget_of(self)->inner);
}

static gpubudget_status_t budget_record(gpubudget_resource_t *self,
                                        const gpubudget_block_t *block, CUstream stream,
                                        gpubudget_error_t *error)
{
    return gpubudget_record_block_use(budget_of(self)->inner, block, stream, error);
}

static gpubudget_status_t budget_prepare(gpubudget_resource_t *self, gpubudget_block_id_t id,
                                         CUstream stream, gpubudget_access_t access,
                                         gpubudget_error_t *error)
{
    return gpubudget_prepare_block_use(budget_of(self)->inner, id, stream, access, error);
}

static gpubudget_status_t budget_finish(gpubudget_resource_t *self, gpubudget_block_id_t id,
                                        CUstream stream, gpubudget_access_t access,
                                        gpubudget_error_t *error)
{
    return gpubudget_finish_block_use(budget_of(self)->inner, id, stream, access, error);
}

static void budget_destroy(gpubudget_resource_t *self)
{
    if (budget_of(self)->heap)
        free(budget_of(self));
}

static const gpubudget_resource_ops_t budget_ops = {
    .size = sizeof(budget_ops),
    .materialize = gb_budget_materialize,
    .deallocate = budget_deallocate,
    .allocation_accounting = budget_accounting,
    .bytes_outstanding = budget_outstanding,
    .device_ordinal = budget_device,
    .destroy = budget_destroy,
    .charge_bound = budget_charge_bound,
    .make_room = budget_make_room,
    .follow_frees = budget_follow_frees,
    .bytes_pending = budget_bytes_pending,
    .budget_snapshot = budget_snapshot,
    .reap_pending = budget_reap,
    .supports_block_use_tracking = budget_tracks_uses,
    .record_block_use = budget_record,
    .prepare_block_use = budget_prepare,
    .finish_block_use = budget_finish,
};

void gb_budget_init(struct gpubudget_budget *budget, gpubudget_resource_t *inner,
                    uint64_t limit, uint64_t reserve_bytes)
{
    *budget = (struct gpubudget_budget){.resource.ops = &budget_ops,
                                        .inner = inner,
                                        .ledger = gpubudget_allocation_accounting(inner),
                                        .limit = limit,
                                        .admit = limit - reserve_bytes,
                                        .wait_ns = DEFAULT_WAIT_NS};
    gb_lock_init(&budget->turn);
    gb_ledger_sample(budget->ledger, &budget->acquired_before, &budget->reclaimed_before);
}

void gb_budget_init_shared(struct gpubudget_budget *budget, gpubudget_resource_t *inner,
                           const struct gb_budget_scope *scope, void *scope_arg)
{
    gb_budget_init(budget, inner, GB_BUDGET_NO_LIMIT, 0);
    budget->scope = scope;
    budget->scope_arg = scope_arg;
}

void gb_budget_stack(struct gpubudget_budget *above, struct gpubudget_budget *below)
{
    above->below = below;
    below->above = above;
}

void gb_budget_forked(struct gpubudget_budget *budget)
{
    gb_lock_init(&budget->turn);
    atomic_store(&budget->in_flight, 0);
    atomic_store(&budget->unsure, 0);
    atomic_store(&budget->tight, 0);
    atomic_store(&budget->doubt, 0);
    atomic_store(&budget->doubted, 0);
    atomic_store(&budget->overshoot, 0);
    atomic_store(&budget->leftover, false);
    budget->acquired_before = budget->reclaimed_before = 0;
}

gpubudget_status_t gpubudget_budget_new(gpubudget_resource_t *inner, uint64_t limit,
                                        gpubudget_budget_t **budget)
{
    struct gpubudget_budget *made;

    if (!inner || !budget)
        return GPUBUDGET_INVALID_ARGUMENT;
    made = malloc(sizeof(*made));
    if (!made)
        return GPUBUDGET_OUT_OF_HOST_MEMORY;
    gb_budget_init(made, inner, limit, 0);
    made->heap = true;
    *budget = made;
    return GPUBUDGET_OK;
}

gpubudget_resource_t *gpubudget_budget_resource(gpubudget_budget_t *budget)
{
    return &budget->resource;
}

uint64_t gpubudget_budget_limit(const gpubudget_budget_t *budget)
{
    return gb_budget_limit(budget);
}

uint64_t gpubudget_budget_reserved_bytes(const gpubudget_budget_t *budget)
{
    return gb_budget_reserved(budget);
}

uint64_t gb_budget_reserved_exactly(struct gpubudget_budget *budget)
{
    uint64_t floating, reserved;

    /* Nobody is lent anything while this is looked at. */
    atomic_fetch_add(&budget->tight, 1);
    gpubudget_reap_pending(&budget->resource, NULL);
    floating = atomic_load(&budget->ledger->floating);
    reserved = gb_budget_reserved(budget);
    atomic_fetch_sub(&budget->tight, 1);
    return reserved > floating ? reserved - floating : 0;
}

uint64_t gpubudget_budget_remaining(const gpubudget_budget_t *budget)
{
    uint64_t reserved = gb_budget_reserved(budget), limit = gb_budget_limit(budget);

    return reserved < limit ? limit - reserved : 0;
}

void gpubudget_budget_set_wait(gpubudget_budget_t *budget, uint64_t nanoseconds)
{
    budget->wait_ns = nanoseconds;
}

uint64_t gpubudget_budget_overshoot(const gpubudget_budget_t *budget)
{
    return atomic_load(&budget->overshoot);
}

void gb_budget_note_overshoot(struct gpubudget_budget *budget)
{
    uint64_t held = gb_budget_held(budget), limit = gb_budget_limit(budget);
    uint64_t over = held > limit ? held - limit : 0;
    uint64_t most = atomic_load(&budget->overshoot);

    while (over > most && !atomic_compare_exchange_weak(&budget->overshoot, &most, over))
        ;
}

uint64_t gpubudget_budget_refusals(const gpubudget_budget_t *budget)
{
    return atomic_load(&budget->refusals);
}
