/*
 * look.c: when a budget looks for what the driver has taken by itself.
 */
#include "resource/look.h"

#include "resource/admission.h"
#include "resource/resource.h"

/* Memory that the driver takes by itself is looked for after grants of this part of what is
 * left. */
enum { LOOK_PART = 8 };

/* What is left here and below. */
static uint64_t room_of(const struct gpubudget_budget *budget)
{
    uint64_t reserved = gb_budget_reserved(budget), admit = gb_budget_admits(budget);
    uint64_t room = admit > reserved ? admit - reserved : 0, below;

    if (!budget->below)
        return room;
    below = room_of(budget->below);
    return below < room ? below : room;
}

bool gb_budget_look_is_due(struct gpubudget_budget *budget, const gpubudget_request_t *request,
                           uint64_t most)
{
    const struct gpubudget_budget *noted = gb_budget_noted(budget);
    uint64_t doubt = atomic_load_explicit(&noted->doubt, memory_order_relaxed);
    uint64_t outstanding, looked, part;

    if (request->depth > 0)
        return false;
    /* What a disturbed measurement may have missed would not fit beside it: measured anew. */
    if (doubt > 0 && !gb_budget_has_room(noted, gb_add_saturated(most, doubt)))
        return true;
    if (!budget->looks || request->kind == GPUBUDGET_KIND_MEASURED ||
        request->kind == GPUBUDGET_KIND_CONTEXT)
        return false;
    outstanding = gb_ledger_outstanding(budget->ledger);
    looked = atomic_load_explicit(&budget->looked, memory_order_relaxed);
    if (outstanding < looked) {
        atomic_store_explicit(&budget->looked, outstanding, memory_order_relaxed);
        looked = outstanding;
    }
    part = room_of(budget) / LOOK_PART;
    if (outstanding - looked <= part) {
        if (most <= part)
            return false;
        /* What lies idle in a pool takes nothing. */
        if (request->kind == GPUBUDGET_KIND_STREAM_ORDERED &&
            gb_resource_charge_bound(budget->inner, request, true) <= part)
            return false;
    }
    atomic_store_explicit(&budget->looked, outstanding, memory_order_relaxed);
    return true;
}
