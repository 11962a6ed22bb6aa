/* Local memory: a context has room for as many threads as the card can run at once, each with
 * the bytes of the most demanding kernel launched so far, and at least the stack limit. The
 * room for the default stack comes with the context (the measured growth at a launch was the
 * whole less that). It never shrinks by itself (the manual says so of the drivers of today,
 * whatever the context's flags), only when the stack limit is set. */
#include "sim.h"

/* Beyond what is in the context from its start. */
static uint64_t beyond(uint64_t bytes)
{
    const struct sim_profile *profile = sim_settings.profile;
    const uint64_t threads =
        (uint64_t)profile->multiprocessors * (uint64_t)profile->threads_per_multiprocessor;
    /* A smaller stack than the default: not measured; the context's own part stays. */
    if (bytes <= profile->stack_bytes)
        return 0;
    return sim_round_up((bytes - profile->stack_bytes) * threads, profile->big_round);
}

/* Not measured: the code (2) where the card has no room. Nor whether a launch that makes local
 * memory grow waits for the work of the context; here it does not. */
static CUresult grow(struct sim_context *context, uint64_t wanted)
{
    if (wanted <= context->local_bytes)
        return CUDA_SUCCESS;
    if (!sim_card_take_pressing(context->card, SIM_USE_LOCAL, wanted - context->local_bytes))
        return CUDA_ERROR_OUT_OF_MEMORY;
    context->local_bytes = wanted;
    return CUDA_SUCCESS;
}

CUresult sim_local_need(struct sim_context *context, uint64_t bytes)
{
    return grow(context, beyond(bytes));
}

CUresult sim_local_limit(struct sim_context *context, uint64_t bytes)
{
    const uint64_t wanted = beyond(bytes);
    if (wanted >= context->local_bytes)
        return grow(context, wanted);
    sim_card_give(context->card, SIM_USE_LOCAL, context->local_bytes - wanted);
    context->local_bytes = wanted;
    return CUDA_SUCCESS;
}
