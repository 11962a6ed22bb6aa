/* Local memory: a context has room for as many threads as the card can run at once, each with
 * the bytes of the most demanding kernel launched so far, and at least the stack limit. The
 * room for the default stack comes with the context (the measured growth at a launch was the
 * whole less that). It never shrinks by itself (the manual says so of the drivers of today,
 * whatever the context's flags), only when the stack limit is set; then also below the default
 * (measured). */
#include "sim.h"

uint64_t sim_local_of(uint64_t bytes)
{
    const struct sim_profile *profile = sim_settings.profile;
    const uint64_t threads =
        (uint64_t)profile->multiprocessors * (uint64_t)profile->threads_per_multiprocessor;
    return sim_round_up(bytes * threads, profile->big_round);
}

/* Not measured: the code (2) where the card has no room. */
static CUresult become(struct sim_context *context, uint64_t bytes)
{
    const uint64_t ordinary = sim_local_of(sim_settings.profile->stack_bytes),
                   wanted = sim_local_of(bytes);
    const uint64_t beyond = wanted > ordinary ? wanted - ordinary : 0;
    const uint64_t below = wanted < ordinary ? ordinary - wanted : 0;
    /* What goes first makes room. */
    if (beyond < context->local_bytes)
        sim_card_give(context->card, SIM_USE_LOCAL, context->local_bytes - beyond);
    else if (!sim_card_take_pressing(context->card, SIM_USE_LOCAL,
                                     beyond - context->local_bytes))
        return CUDA_ERROR_OUT_OF_MEMORY;
    context->local_bytes = beyond;
    if (below > context->stack_given)
        sim_card_give(context->card, SIM_USE_CONTEXT, below - context->stack_given);
    else if (!sim_card_take_pressing(context->card, SIM_USE_CONTEXT,
                                     context->stack_given - below))
        return CUDA_ERROR_OUT_OF_MEMORY;
    context->stack_given = below;
    context->thread_bytes = bytes;
    context->limits[CU_LIMIT_STACK_SIZE] = bytes; /* also where a kernel needs it (measured) */
    return CUDA_SUCCESS;
}

/* To grow or shrink waits for what the context's streams have queued; where nothing changes
 * there is no wait (measured of launches and the limit, not of instantiations). The wait lets
 * go of the lock: another thread may have made it grow, or ended the context. */
CUresult sim_local_need(struct sim_context *context, uint64_t bytes)
{
    if (bytes <= context->thread_bytes)
        return CUDA_SUCCESS;
    sim_wait_context(context);
    if (context->ended)
        return CUDA_ERROR_CONTEXT_IS_DESTROYED;
    return bytes > context->thread_bytes ? become(context, bytes) : CUDA_SUCCESS;
}

CUresult sim_local_limit(struct sim_context *context, uint64_t bytes)
{
    if (bytes == context->thread_bytes)
        return CUDA_SUCCESS;
    sim_wait_context(context);
    if (context->ended)
        return CUDA_ERROR_CONTEXT_IS_DESTROYED;
    return become(context, bytes);
}
