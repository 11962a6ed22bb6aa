/* What can be asked about a stream, each name in its two forms. */
#include "sim.h"

static CUresult get_context(CUstream hStream, bool per_thread, CUcontext *pctx)
{
    struct sim_stream *stream;
    CUresult code = sim_stream_find(hStream, per_thread, &stream);
    if (code)
        return code;
    if (!pctx)
        return CUDA_ERROR_INVALID_VALUE;
    if (!stream->context)
        return CUDA_ERROR_CONTEXT_IS_DESTROYED;
    *pctx = (CUcontext)(void *)stream->context;
    return CUDA_SUCCESS;
}

CUresult cuStreamGetCtx(CUstream hStream, CUcontext *pctx)
{
    SIM_ENTER(cuStreamGetCtx, W(hStream), W(pctx));
    return get_context(hStream, false, pctx);
}

CUresult cuStreamGetCtx_ptsz(CUstream hStream, CUcontext *pctx)
{
    SIM_ENTER(cuStreamGetCtx_ptsz, W(hStream), W(pctx));
    return get_context(hStream, true, pctx);
}

static CUresult get_context_v2(CUstream hStream, bool per_thread, CUcontext *pCtx,
                               CUgreenCtx *pGreenCtx)
{
    struct sim_stream *stream;
    CUresult code = sim_stream_find(hStream, per_thread, &stream);
    if (!code)
        code = get_context(hStream, per_thread, pCtx);
    if (code)
        return code;
    if (stream->green)
        *pCtx = (CUcontext)(void *)stream->green->handle;
    if (pGreenCtx)
        *pGreenCtx = (CUgreenCtx)(void *)stream->green;
    return CUDA_SUCCESS;
}

CUresult cuStreamGetCtx_v2(CUstream hStream, CUcontext *pCtx, CUgreenCtx *pGreenCtx)
{
    SIM_ENTER(cuStreamGetCtx_v2, W(hStream), W(pCtx), W(pGreenCtx));
    return get_context_v2(hStream, false, pCtx, pGreenCtx);
}

CUresult cuStreamGetCtx_v2_ptsz(CUstream hStream, CUcontext *pCtx, CUgreenCtx *pGreenCtx)
{
    SIM_ENTER(cuStreamGetCtx_v2_ptsz, W(hStream), W(pCtx), W(pGreenCtx));
    return get_context_v2(hStream, true, pCtx, pGreenCtx);
}

static CUresult get_device(CUstream hStream, bool per_thread, CUdevice *device)
{
    struct sim_stream *stream;
    CUresult code = sim_stream_find(hStream, per_thread, &stream);
    if (code)
        return code;
    if (!device)
        return CUDA_ERROR_INVALID_VALUE;
    *device = stream->context->card->ordinal;
    return CUDA_SUCCESS;
}

CUresult cuStreamGetDevice(CUstream hStream, CUdevice *device)
{
    SIM_ENTER(cuStreamGetDevice, W(hStream), W(device));
    return get_device(hStream, false, device);
}

CUresult cuStreamGetDevice_ptsz(CUstream hStream, CUdevice *device)
{
    SIM_ENTER(cuStreamGetDevice_ptsz, W(hStream), W(device));
    return get_device(hStream, true, device);
}

static CUresult get_flags(CUstream hStream, bool per_thread, unsigned *flags)
{
    struct sim_stream *stream;
    CUresult code = sim_stream_find(hStream, per_thread, &stream);
    if (code)
        return code;
    if (!flags)
        return CUDA_ERROR_INVALID_VALUE;
    *flags = stream->flags;
    return CUDA_SUCCESS;
}

CUresult cuStreamGetFlags(CUstream hStream, unsigned int *flags)
{
    SIM_ENTER(cuStreamGetFlags, W(hStream), W(flags));
    return get_flags(hStream, false, flags);
}

CUresult cuStreamGetFlags_ptsz(CUstream hStream, unsigned int *flags)
{
    SIM_ENTER(cuStreamGetFlags_ptsz, W(hStream), W(flags));
    return get_flags(hStream, true, flags);
}

static CUresult get_priority(CUstream hStream, bool per_thread, int *priority)
{
    struct sim_stream *stream;
    CUresult code = sim_stream_find(hStream, per_thread, &stream);
    if (code)
        return code;
    if (!priority)
        return CUDA_ERROR_INVALID_VALUE;
    *priority = stream->priority;
    return CUDA_SUCCESS;
}

CUresult cuStreamGetPriority(CUstream hStream, int *priority)
{
    SIM_ENTER(cuStreamGetPriority, W(hStream), W(priority));
    return get_priority(hStream, false, priority);
}

CUresult cuStreamGetPriority_ptsz(CUstream hStream, int *priority)
{
    SIM_ENTER(cuStreamGetPriority_ptsz, W(hStream), W(priority));
    return get_priority(hStream, true, priority);
}

static CUresult get_id(CUstream hStream, bool per_thread, unsigned long long *streamId)
{
    struct sim_stream *stream;
    CUresult code = sim_stream_find(hStream, per_thread, &stream);
    if (code)
        return code;
    if (!streamId)
        return CUDA_ERROR_INVALID_VALUE;
    *streamId = stream->id;
    return CUDA_SUCCESS;
}

CUresult cuStreamGetId(CUstream hStream, unsigned long long *streamId)
{
    SIM_ENTER(cuStreamGetId, W(hStream), W(streamId));
    return get_id(hStream, false, streamId);
}

CUresult cuStreamGetId_ptsz(CUstream hStream, unsigned long long *streamId)
{
    SIM_ENTER(cuStreamGetId_ptsz, W(hStream), W(streamId));
    return get_id(hStream, true, streamId);
}
