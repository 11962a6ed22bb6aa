/* Making and ending contexts that are not primary. */
#include "sim.h"

static CUresult create(CUcontext *pctx, unsigned flags, CUdevice dev, unsigned version)
{
    struct sim_card *card = sim_card_of(dev);
    struct sim_context *context;
    CUresult code;
    if (!pctx)
        return CUDA_ERROR_INVALID_VALUE;
    if (!card)
        return CUDA_ERROR_INVALID_DEVICE;
    if (flags & ~(unsigned)CU_CTX_FLAGS_MASK)
        return CUDA_ERROR_INVALID_VALUE;
    if (sim_thread.depth == SIM_STACK_DEPTH)
        return CUDA_ERROR_INVALID_VALUE;
    code = sim_context_begin(card, flags, version, &context);
    if (code)
        return code;
    sim_push(context);
    *pctx = (CUcontext)(void *)context;
    return CUDA_SUCCESS;
}

CUresult cuCtxCreate(CUcontext *pctx, unsigned int flags, CUdevice dev)
{
    SIM_ENTER(cuCtxCreate, W(pctx), W(flags), W(dev));
    const struct sim_card *card = sim_card_of(dev);
    /* Seen on a card of 140 GiB, whose memory no 32-bit address reaches; that a small card does
     * give such a context is a guess. */
    if (pctx && card && card->total >= 4 * SIM_GIB)
        return CUDA_ERROR_OUT_OF_MEMORY;
    return create(pctx, flags, dev, 3010);
}

CUresult cuCtxCreate_v2(CUcontext *pctx, unsigned int flags, CUdevice dev)
{
    SIM_ENTER(cuCtxCreate_v2, W(pctx), W(flags), W(dev));
    return create(pctx, flags, dev, 3020);
}

CUresult cuCtxCreate_v3(CUcontext *pctx, CUexecAffinityParam *paramsArray, int numParams,
                        unsigned int flags, CUdevice dev)
{
    SIM_ENTER(cuCtxCreate_v3, W(pctx), W(paramsArray), W(numParams), W(flags), W(dev));
    if (numParams < 0 || (numParams > 0 && !paramsArray))
        return CUDA_ERROR_INVALID_VALUE;
    if (numParams > 0)
        SIM_NOTE(paramsArray, (size_t)numParams * sizeof(*paramsArray));
    return create(pctx, flags, dev, 3020);
}

CUresult cuCtxCreate_v4(CUcontext *pctx, CUctxCreateParams *ctxCreateParams, unsigned int flags,
                        CUdevice dev)
{
    SIM_ENTER(cuCtxCreate_v4, W(pctx), W(ctxCreateParams), W(flags), W(dev));
    SIM_NOTE(ctxCreateParams, sizeof(*ctxCreateParams));
    return create(pctx, flags, dev, 3020);
}

/* The names of headers that need others to be there; whose display it is does not matter here.
 */
CUresult cuGLCtxCreate(CUcontext *, unsigned, CUdevice);
CUresult cuGLCtxCreate_v2(CUcontext *, unsigned, CUdevice);
CUresult cuVDPAUCtxCreate(CUcontext *, unsigned, CUdevice, uint32_t, void *);
CUresult cuVDPAUCtxCreate_v2(CUcontext *, unsigned, CUdevice, uint32_t, void *);

CUresult cuGLCtxCreate(CUcontext *pCtx, unsigned int Flags, CUdevice device)
{
    SIM_ENTER(cuGLCtxCreate, W(pCtx), W(Flags), W(device));
    return create(pCtx, Flags, device, 3010);
}

CUresult cuGLCtxCreate_v2(CUcontext *pCtx, unsigned int Flags, CUdevice device)
{
    SIM_ENTER(cuGLCtxCreate_v2, W(pCtx), W(Flags), W(device));
    return create(pCtx, Flags, device, 3020);
}

CUresult cuVDPAUCtxCreate(CUcontext *pCtx, unsigned int flags, CUdevice device,
                          uint32_t vdpDevice, void *vdpGetProcAddress)
{
    SIM_ENTER(cuVDPAUCtxCreate, W(pCtx), W(flags), W(device), W(vdpDevice),
              W(vdpGetProcAddress));
    return create(pCtx, flags, device, 3010);
}

CUresult cuVDPAUCtxCreate_v2(CUcontext *pCtx, unsigned int flags, CUdevice device,
                             uint32_t vdpDevice, void *vdpGetProcAddress)
{
    SIM_ENTER(cuVDPAUCtxCreate_v2, W(pCtx), W(flags), W(device), W(vdpDevice),
              W(vdpGetProcAddress));
    return create(pCtx, flags, device, 3020);
}

static CUresult destroy(CUcontext ctx)
{
    CUresult code;
    struct sim_context *context;
    if (!ctx)
        return CUDA_ERROR_INVALID_VALUE; /* also before cuInit */
    if (!sim_initialised())
        return CUDA_ERROR_NOT_INITIALIZED;
    context = sim_context_find(ctx, &code);
    if (!context)
        return code;
    if (context->primary)
        return CUDA_ERROR_INVALID_CONTEXT;
    SIM_UNSAFE();
    sim_wait_context(context);
    if (context->ended) /* meanwhile, by another thread */
        return CUDA_ERROR_CONTEXT_IS_DESTROYED;
    sim_context_end(context);
    if (sim_thread.depth && sim_thread.stack[sim_thread.depth - 1] == context)
        sim_thread.depth--;
    return CUDA_SUCCESS;
}

CUresult cuCtxDestroy(CUcontext ctx)
{
    SIM_ENTER_ANY_TIME(cuCtxDestroy, W(ctx));
    return destroy(ctx);
}

CUresult cuCtxDestroy_v2(CUcontext ctx)
{
    SIM_ENTER_ANY_TIME(cuCtxDestroy_v2, W(ctx));
    return destroy(ctx);
}

CUresult cuCtxAttach(CUcontext *pctx, unsigned int flags)
{
    SIM_ENTER(cuCtxAttach, W(pctx), W(flags));
    SIM_CURRENT(context);
    if (!pctx || flags)
        return CUDA_ERROR_INVALID_VALUE;
    context->references++;
    *pctx = (CUcontext)(void *)context;
    return CUDA_SUCCESS;
}

CUresult cuCtxDetach(CUcontext ctx)
{
    SIM_ENTER(cuCtxDetach, W(ctx));
    CUresult code;
    struct sim_context *context = sim_context_find(ctx, &code);
    if (!context)
        return code;
    if (context->primary)
        return CUDA_SUCCESS; /* and it stays */
    if (context->references > 1) {
        context->references--;
        return CUDA_SUCCESS;
    }
    return destroy(ctx);
}
