/* Contexts: their life, and which of them is current in a thread. */
#include "sim.h"

__thread struct sim_thread sim_thread;

static struct sim_context *contexts;
static uint64_t context_ids, thread_ids;

uint64_t sim_thread_id(void)
{
    if (!sim_thread.id)
        sim_thread.id = ++thread_ids;
    return sim_thread.id;
}

struct sim_context *sim_contexts(void)
{
    return contexts;
}

/* A green context's handle stands for the primary context, with resources of its own. */
static struct sim_context *behind(struct sim_context *context)
{
    return context->green ? context->card->primary : context;
}

static struct sim_context *top(void)
{
    return sim_thread.depth ? sim_thread.stack[sim_thread.depth - 1] : NULL;
}

CUresult sim_current(struct sim_context **context)
{
    if (!top())
        return CUDA_ERROR_INVALID_CONTEXT;
    *context = behind(top());
    return top()->ended || (*context)->ended ? CUDA_ERROR_CONTEXT_IS_DESTROYED : CUDA_SUCCESS;
}

struct sim_green *sim_current_green(void)
{
    return top() ? top()->green : NULL;
}

struct sim_context *sim_context_find(CUcontext handle, CUresult *code)
{
    struct sim_context *context = sim_object_find(handle, SIM_CONTEXT);
    *code = CUDA_SUCCESS;
    if (context)
        return behind(context);
    *code = CUDA_ERROR_INVALID_CONTEXT;
    return NULL;
}

static void heap_begin(struct sim_heap *heap, struct sim_context *context, bool low)
{
    const struct sim_profile *profile = sim_settings.profile;
    memset(heap, 0, sizeof(*heap));
    heap->kind = SIM_RANGE_DIRECT;
    heap->use = SIM_USE_DIRECT;
    heap->card = context->card;
    heap->step = profile->region;
    heap->align = profile->block_align;
    heap->low = low;
    heap->owner = context;
}

CUresult sim_context_start(struct sim_context *context)
{
    CUresult code;
    if (!sim_card_take(context->card, SIM_USE_CONTEXT, sim_settings.profile->context_bytes))
        return CUDA_ERROR_OUT_OF_MEMORY;
    context->ended = false;
    context->id = ++context_ids;
    sim_limits_start(context);
    heap_begin(&context->direct, context, false);
    heap_begin(&context->direct_low, context, true);
    sim_object_add(context, SIM_CONTEXT);
    context->legacy = sim_stream_new(context, 0, 0);
    context->legacy->legacy = true;
    context->legacy->handle = CU_STREAM_LEGACY;
    code = sim_libraries_start(context);
    if (code)
        sim_context_end(context);
    return code;
}

void sim_context_known(struct sim_context *context)
{
    context->next = contexts;
    contexts = context;
}

CUresult sim_context_begin(struct sim_card *card, unsigned flags, unsigned version,
                           struct sim_context **result)
{
    struct sim_context *context = sim_new(sizeof(*context));
    CUresult code;
    context->card = card;
    context->flags = flags;
    context->version = version;
    context->references = 1;
    code = sim_context_start(context);
    if (code) {
        free(context);
        return code;
    }
    sim_context_known(context);
    *result = context;
    return CUDA_SUCCESS;
}

void sim_context_end(struct sim_context *context)
{
    sim_late_forget(context);
    while (context->modules)
        sim_module_end(context->modules);
    for (struct sim_stream *stream = context->streams, *next; stream; stream = next) {
        next = stream->next;
        sim_stream_force(stream);
    }
    while (context->events)
        sim_event_orphan(context->events);
    for (struct sim_stream *stream = context->streams, *next; stream; stream = next) {
        next = stream->next;
        sim_stream_end(stream, true);
    }
    context->legacy = NULL;
    sim_context_synced(context);
    sim_managed_end(context);
    sim_direct_end(context);
    sim_brought_end(context);
    sim_limits_end(context);
    sim_stream_memory_end(context);
    sim_green_memory_end(context);
    sim_card_give(context->card, SIM_USE_PEER,
                  context->peer_count * sim_settings.profile->peer_bytes);
    context->peer_count = 0;
    sim_card_give(context->card, SIM_USE_CONTEXT,
                  sim_settings.profile->context_bytes - context->stack_given);
    sim_object_remove(context);
    context->ended = true;
}

CUresult sim_push(struct sim_context *context)
{
    if (sim_thread.depth == SIM_STACK_DEPTH)
        return CUDA_ERROR_INVALID_VALUE;
    sim_thread.stack[sim_thread.depth++] = context;
    return CUDA_SUCCESS;
}

/* What can be made current: ended contexts as well; calls that need it then answer 709. */
static CUresult find_any(CUcontext handle, struct sim_context **context)
{
    for (*context = contexts; *context; *context = (*context)->next)
        if ((CUcontext)(void *)*context == handle)
            return CUDA_SUCCESS;
    return CUDA_ERROR_INVALID_CONTEXT;
}

static CUresult push(CUcontext ctx)
{
    struct sim_context *context;
    CUresult code = find_any(ctx, &context);
    return code ? code : sim_push(context);
}

static CUresult pop(CUcontext *pctx)
{
    if (sim_thread.depth == 0)
        return CUDA_ERROR_INVALID_CONTEXT;
    sim_thread.depth--;
    if (pctx)
        *pctx = (CUcontext)(void *)sim_thread.stack[sim_thread.depth];
    return CUDA_SUCCESS;
}

CUresult cuCtxPushCurrent(CUcontext ctx)
{
    SIM_ENTER(cuCtxPushCurrent, W(ctx));
    return push(ctx);
}

CUresult cuCtxPushCurrent_v2(CUcontext ctx)
{
    SIM_ENTER(cuCtxPushCurrent_v2, W(ctx));
    return push(ctx);
}

CUresult cuCtxPopCurrent(CUcontext *pctx)
{
    SIM_ENTER(cuCtxPopCurrent, W(pctx));
    return pop(pctx);
}

CUresult cuCtxPopCurrent_v2(CUcontext *pctx)
{
    SIM_ENTER(cuCtxPopCurrent_v2, W(pctx));
    return pop(pctx);
}

CUresult cuCtxSetCurrent(CUcontext ctx)
{
    SIM_ENTER(cuCtxSetCurrent, W(ctx));
    struct sim_context *context = NULL;
    if (ctx) {
        CUresult code = find_any(ctx, &context);
        if (code)
            return code;
    }
    if (sim_thread.depth == 0)
        return context ? sim_push(context) : CUDA_SUCCESS;
    /* NULL pops the top, as the manual says. */
    if (!context)
        sim_thread.depth--;
    else
        sim_thread.stack[sim_thread.depth - 1] = context;
    return CUDA_SUCCESS;
}

CUresult cuCtxGetCurrent(CUcontext *pctx)
{
    SIM_ENTER(cuCtxGetCurrent, W(pctx));
    if (!pctx)
        return CUDA_ERROR_INVALID_VALUE;
    *pctx = sim_thread.depth ? (CUcontext)(void *)sim_thread.stack[sim_thread.depth - 1] : NULL;
    return CUDA_SUCCESS;
}

CUresult cuCtxGetDevice(CUdevice *device)
{
    SIM_ENTER(cuCtxGetDevice, W(device));
    SIM_CURRENT(context);
    if (!device)
        return CUDA_ERROR_INVALID_VALUE;
    *device = context->card->ordinal;
    return CUDA_SUCCESS;
}

/* NULL means the current context. */
static CUresult given(CUcontext ctx, struct sim_context **context)
{
    CUresult code;
    if (!ctx)
        return sim_current(context);
    *context = sim_context_find(ctx, &code);
    return code;
}

CUresult cuCtxGetDevice_v2(CUdevice *device, CUcontext ctx)
{
    SIM_ENTER(cuCtxGetDevice_v2, W(device), W(ctx));
    struct sim_context *context;
    CUresult code = given(ctx, &context);
    if (code)
        return code;
    if (!device)
        return CUDA_ERROR_INVALID_VALUE;
    *device = context->card->ordinal;
    return CUDA_SUCCESS;
}

CUresult cuCtxGetFlags(unsigned int *flags)
{
    SIM_ENTER(cuCtxGetFlags, W(flags));
    SIM_CURRENT(context);
    if (!flags)
        return CUDA_ERROR_INVALID_VALUE;
    *flags = context->flags;
    return CUDA_SUCCESS;
}

CUresult cuCtxGetId(CUcontext ctx, unsigned long long *ctxId)
{
    SIM_ENTER(cuCtxGetId, W(ctx), W(ctxId));
    struct sim_context *context;
    CUresult code = given(ctx, &context);
    if (code)
        return code;
    if (!ctxId)
        return CUDA_ERROR_INVALID_VALUE;
    *ctxId = context->id;
    return CUDA_SUCCESS;
}

CUresult cuCtxGetApiVersion(CUcontext ctx, unsigned int *version)
{
    SIM_ENTER(cuCtxGetApiVersion, W(ctx), W(version));
    struct sim_context *context;
    CUresult code = given(ctx, &context);
    if (code)
        return code;
    if (!version)
        return CUDA_ERROR_INVALID_VALUE;
    *version = context->version;
    return CUDA_SUCCESS;
}

CUresult cuCtxGetStreamPriorityRange(int *leastPriority, int *greatestPriority)
{
    SIM_ENTER(cuCtxGetStreamPriorityRange, W(leastPriority), W(greatestPriority));
    SIM_CURRENT(context);
    (void)context;
    if (leastPriority)
        *leastPriority = 0;
    if (greatestPriority)
        *greatestPriority = -5;
    return CUDA_SUCCESS;
}

/* A capture on any of its streams forbids this, whoever captures in whatever mode, and whatever
 * the mode of this thread. */
static CUresult synchronize(struct sim_context *context)
{
    CUresult code = sim_capture_in(context);
    if (!code)
        code = sim_unsafe();
    if (code)
        return code;
    sim_wait_context(context);
    sim_context_synced(context);
    sim_pools_synced();
    return CUDA_SUCCESS;
}

CUresult cuCtxSynchronize(void)
{
    SIM_ENTER(cuCtxSynchronize);
    SIM_CURRENT(context);
    return synchronize(context);
}

CUresult cuCtxSynchronize_v2(CUcontext ctx)
{
    SIM_ENTER(cuCtxSynchronize_v2, W(ctx));
    struct sim_context *context;
    CUresult code = given(ctx, &context);
    return code ? code : synchronize(context);
}

static unsigned peer_index(const struct sim_context *context, const struct sim_context *peer)
{
    unsigned i = 0;
    while (i < context->peer_count && context->peers[i] != peer)
        i++;
    return i;
}

/* What it takes was not measured; nor the codes, which are the manual's. */
CUresult cuCtxEnablePeerAccess(CUcontext peerContext, unsigned int Flags)
{
    SIM_ENTER(cuCtxEnablePeerAccess, W(peerContext), W(Flags));
    SIM_CURRENT(context);
    CUresult code;
    struct sim_context *peer = sim_context_find(peerContext, &code);
    if (!peer)
        return code;
    if (Flags)
        return CUDA_ERROR_INVALID_VALUE;
    if (peer->card == context->card)
        return CUDA_ERROR_INVALID_DEVICE;
    if (peer_index(context, peer) < context->peer_count)
        return CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED;
    if (context->peer_count == SIM_MAX_CARDS)
        return CUDA_ERROR_TOO_MANY_PEERS;
    if (!sim_card_take_pressing(context->card, SIM_USE_PEER, sim_settings.profile->peer_bytes))
        return CUDA_ERROR_OUT_OF_MEMORY;
    context->peers[context->peer_count++] = peer;
    return CUDA_SUCCESS;
}

CUresult cuCtxDisablePeerAccess(CUcontext peerContext)
{
    SIM_ENTER(cuCtxDisablePeerAccess, W(peerContext));
    SIM_CURRENT(context);
    CUresult code;
    struct sim_context *peer = sim_context_find(peerContext, &code);
    unsigned i;
    if (!peer)
        return code;
    i = peer_index(context, peer);
    if (i == context->peer_count)
        return CUDA_ERROR_PEER_ACCESS_NOT_ENABLED;
    context->peers[i] = context->peers[--context->peer_count];
    sim_card_give(context->card, SIM_USE_PEER, sim_settings.profile->peer_bytes);
    return CUDA_SUCCESS;
}
