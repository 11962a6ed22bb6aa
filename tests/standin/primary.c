/* The primary context of each device. Its handle outlives it: a later retain revives the same.
 */
#include "sim.h"

CUresult sim_primary_retain(struct sim_card *card, struct sim_context **context)
{
    CUresult code = CUDA_SUCCESS;
    if (!card->primary) {
        code = sim_context_begin(card, 0, 3020, &card->primary);
        if (code)
            return code;
        card->primary->primary = true;
        card->primary->references = 0;
    } else if (card->primary->ended) {
        code = sim_context_start(card->primary);
    }
    if (code)
        return code;
    card->primary->references++;
    *context = card->primary;
    return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxRetain(CUcontext *pctx, CUdevice dev)
{
    SIM_ENTER(cuDevicePrimaryCtxRetain, W(pctx), W(dev));
    struct sim_card *card = sim_card_of(dev);
    struct sim_context *context;
    CUresult code;
    if (!pctx)
        return CUDA_ERROR_INVALID_VALUE;
    if (!card)
        return CUDA_ERROR_INVALID_DEVICE;
    code = sim_primary_retain(card, &context);
    if (!code)
        *pctx = (CUcontext)(void *)context;
    return code;
}

CUresult sim_primary_release(struct sim_card *card)
{
    /* A reset ends the context and leaves the retains, each to be released. */
    if (!card->primary || card->primary->references == 0)
        return CUDA_ERROR_INVALID_CONTEXT;
    if (--card->primary->references == 0 && !card->primary->ended)
        sim_context_end(card->primary);
    return CUDA_SUCCESS;
}

static CUresult release(CUdevice dev)
{
    struct sim_card *card = sim_card_of(dev);
    return card ? sim_primary_release(card) : CUDA_ERROR_INVALID_DEVICE;
}

CUresult cuDevicePrimaryCtxRelease(CUdevice dev)
{
    SIM_ENTER(cuDevicePrimaryCtxRelease, W(dev));
    return release(dev);
}

CUresult cuDevicePrimaryCtxRelease_v2(CUdevice dev)
{
    SIM_ENTER(cuDevicePrimaryCtxRelease_v2, W(dev));
    return release(dev);
}

static CUresult reset(CUdevice dev)
{
    struct sim_card *card = sim_card_of(dev);
    if (!card)
        return CUDA_ERROR_INVALID_DEVICE;
    if (card->primary && !card->primary->ended)
        sim_context_end(card->primary);
    return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxReset(CUdevice dev)
{
    SIM_ENTER(cuDevicePrimaryCtxReset, W(dev));
    return reset(dev);
}

CUresult cuDevicePrimaryCtxReset_v2(CUdevice dev)
{
    SIM_ENTER(cuDevicePrimaryCtxReset_v2, W(dev));
    return reset(dev);
}

CUresult cuDevicePrimaryCtxGetState(CUdevice dev, unsigned int *flags, int *active)
{
    SIM_ENTER(cuDevicePrimaryCtxGetState, W(dev), W(flags), W(active));
    struct sim_card *card = sim_card_of(dev);
    if (!card)
        return CUDA_ERROR_INVALID_DEVICE;
    if (!flags || !active)
        return CUDA_ERROR_INVALID_VALUE;
    *flags = card->primary_flags;
    *active = card->primary && !card->primary->ended;
    return CUDA_SUCCESS;
}

static CUresult set_flags(CUdevice dev, unsigned flags)
{
    struct sim_card *card = sim_card_of(dev);
    if (!card)
        return CUDA_ERROR_INVALID_DEVICE;
    if (flags & ~(unsigned)CU_CTX_FLAGS_MASK)
        return CUDA_ERROR_INVALID_VALUE;
    card->primary_flags = flags;
    if (card->primary)
        card->primary->flags = flags;
    return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxSetFlags(CUdevice dev, unsigned int flags)
{
    SIM_ENTER(cuDevicePrimaryCtxSetFlags, W(dev), W(flags));
    return set_flags(dev, flags);
}

CUresult cuDevicePrimaryCtxSetFlags_v2(CUdevice dev, unsigned int flags)
{
    SIM_ENTER(cuDevicePrimaryCtxSetFlags_v2, W(dev), W(flags));
    return set_flags(dev, flags);
}
