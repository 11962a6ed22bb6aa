/* Green contexts: parts of a card's multiprocessors. One retains the primary context; the
 * handle that it gives as a CUcontext stands for that one, whose memory it uses. What they take
 * of the card they leave to the primary context when they end (measured). */
#include "sim.h"

struct sim_resources { /* behind a CUdevResourceDesc */
    struct sim_object object;
    struct sim_card *card;
    unsigned multiprocessors;
};

/* As on cards of today: parts of at least 8, in steps of 8. */
#define PART 8

static uint64_t green_ids;

static void describe(CUdevResource *resource, const struct sim_card *card, unsigned count)
{
    memset(resource, 0, sizeof(*resource));
    resource->type = CU_DEV_RESOURCE_TYPE_SM;
    resource->_internal_padding[0] = (unsigned char)card->ordinal;
    resource->sm.smCount = count;
    resource->sm.minSmPartitionSize = PART;
    resource->sm.smCoscheduledAlignment = PART;
}

static CUresult whole(struct sim_card *card, CUdevResource *resource, CUdevResourceType type)
{
    if (!resource || type != CU_DEV_RESOURCE_TYPE_SM)
        return CUDA_ERROR_INVALID_RESOURCE_TYPE;
    describe(resource, card, (unsigned)sim_settings.profile->multiprocessors);
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetDevResource(CUdevice device, CUdevResource *resource,
                                CUdevResourceType type)
{
    SIM_ENTER(cuDeviceGetDevResource, W(device), W(resource), W(type));
    struct sim_card *card = sim_card_of(device);
    return card ? whole(card, resource, type) : CUDA_ERROR_INVALID_DEVICE;
}

CUresult cuCtxGetDevResource(CUcontext hCtx, CUdevResource *resource, CUdevResourceType type)
{
    SIM_ENTER(cuCtxGetDevResource, W(hCtx), W(resource), W(type));
    const struct sim_context *handle = sim_object_find(hCtx, SIM_CONTEXT);
    CUresult code;
    if (!handle)
        return CUDA_ERROR_INVALID_CONTEXT;
    code = whole(handle->card, resource, type);
    if (!code && handle->green)
        describe(resource, handle->card, handle->green->multiprocessors);
    return code;
}

CUresult cuGreenCtxGetDevResource(CUgreenCtx hCtx, CUdevResource *resource,
                                  CUdevResourceType type)
{
    SIM_ENTER(cuGreenCtxGetDevResource, W(hCtx), W(resource), W(type));
    const struct sim_green *green = sim_object_find(hCtx, SIM_GREEN);
    CUresult code;
    if (!green)
        return CUDA_ERROR_INVALID_CONTEXT;
    code = whole(green->card, resource, type);
    if (!code)
        describe(resource, green->card, green->multiprocessors);
    return code;
}

CUresult cuDevSmResourceSplitByCount(CUdevResource *result, unsigned int *nbGroups,
                                     const CUdevResource *input, CUdevResource *remaining,
                                     unsigned int useFlags, unsigned int minCount)
{
    SIM_ENTER(cuDevSmResourceSplitByCount, W(result), W(nbGroups), W(input), W(remaining),
              W(useFlags), W(minCount));
    struct sim_card *card;
    unsigned each, groups;
    if (!nbGroups || !input || input->type != CU_DEV_RESOURCE_TYPE_SM)
        return CUDA_ERROR_INVALID_VALUE;
    card = sim_card_of(input->_internal_padding[0]);
    each = (unsigned)sim_round_up(minCount ? minCount : 1, PART);
    if (!card || each > input->sm.smCount)
        return CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION;
    groups = input->sm.smCount / each;
    if (!result) {
        *nbGroups = groups;
        return CUDA_SUCCESS;
    }
    if (groups < *nbGroups)
        *nbGroups = groups;
    for (unsigned i = 0; i < *nbGroups; i++)
        describe(&result[i], card, each);
    if (remaining) {
        describe(remaining, card, input->sm.smCount - *nbGroups * each);
        if (!remaining->sm.smCount)
            remaining->type = CU_DEV_RESOURCE_TYPE_INVALID;
    }
    return CUDA_SUCCESS;
}

CUresult cuDevResourceGenerateDesc(CUdevResourceDesc *phDesc, CUdevResource *resources,
                                   unsigned int nbResources)
{
    SIM_ENTER(cuDevResourceGenerateDesc, W(phDesc), W(resources), W(nbResources));
    struct sim_resources *sum;
    if (!phDesc || !resources || !nbResources)
        return CUDA_ERROR_INVALID_VALUE;
    for (unsigned i = 0; i < nbResources; i++)
        if (resources[i].type != CU_DEV_RESOURCE_TYPE_SM ||
            resources[i]._internal_padding[0] != resources[0]._internal_padding[0])
            return CUDA_ERROR_INVALID_RESOURCE_TYPE;
    sum = sim_new(sizeof(*sum));
    sum->card = sim_card_of(resources[0]._internal_padding[0]);
    for (unsigned i = 0; i < nbResources; i++)
        sum->multiprocessors += resources[i].sm.smCount;
    sim_object_add(sum, SIM_RESOURCES);
    *phDesc = (CUdevResourceDesc)(void *)sum;
    return CUDA_SUCCESS;
}

/* Room for one more. Not measured: that what ended ones have left serves it. */
static bool take(struct sim_context *primary)
{
    const struct sim_profile *profile = sim_settings.profile;
    const uint64_t wanted =
        profile->green_first_bytes + primary->green_count * profile->green_bytes;
    if (wanted <= primary->green_bytes)
        return true;
    if (!sim_card_take_pressing(primary->card, SIM_USE_GREEN, wanted - primary->green_bytes))
        return false;
    primary->green_bytes = wanted;
    return true;
}

void sim_green_memory_end(struct sim_context *primary)
{
    sim_card_give(primary->card, SIM_USE_GREEN, primary->green_bytes);
    primary->green_bytes = 0;
    primary->green_count = 0;
}

CUresult cuGreenCtxCreate(CUgreenCtx *phCtx, CUdevResourceDesc desc, CUdevice dev,
                          unsigned int flags)
{
    SIM_ENTER(cuGreenCtxCreate, W(phCtx), W(desc), W(dev), W(flags));
    struct sim_card *card = sim_card_of(dev);
    const struct sim_resources *resources = sim_object_find(desc, SIM_RESOURCES);
    struct sim_context *primary;
    struct sim_green *green;
    CUresult code;
    if (!phCtx || !resources || flags != CU_GREEN_CTX_DEFAULT_STREAM)
        return CUDA_ERROR_INVALID_VALUE;
    if (!card || card != resources->card)
        return CUDA_ERROR_INVALID_DEVICE;
    code = sim_primary_retain(card, &primary);
    if (code)
        return code;
    if (!take(primary)) {
        sim_primary_release(card);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    primary->green_count++;
    green = sim_new(sizeof(*green));
    green->card = card;
    green->multiprocessors = resources->multiprocessors;
    green->id = ++green_ids;
    green->handle = sim_new(sizeof(*green->handle));
    green->handle->card = card;
    green->handle->green = green;
    sim_object_add(green->handle, SIM_CONTEXT);
    sim_context_known(green->handle);
    sim_object_add(green, SIM_GREEN);
    *phCtx = (CUgreenCtx)(void *)green;
    return CUDA_SUCCESS;
}

/* Neither it nor its handle as a context is ever freed, so that stale ones can be told. */
CUresult cuGreenCtxDestroy(CUgreenCtx hCtx)
{
    SIM_ENTER(cuGreenCtxDestroy, W(hCtx));
    struct sim_green *green = sim_object_find(hCtx, SIM_GREEN);
    if (!green)
        return CUDA_ERROR_INVALID_CONTEXT;
    sim_object_remove(green->handle);
    sim_object_remove(green);
    green->ended = green->handle->ended = true;
    /* A reset of the primary context may have ended what it took. */
    if (green->card->primary->green_count > 0)
        green->card->primary->green_count--;
    sim_primary_release(green->card);
    return CUDA_SUCCESS;
}

CUresult cuCtxFromGreenCtx(CUcontext *pContext, CUgreenCtx hCtx)
{
    SIM_ENTER(cuCtxFromGreenCtx, W(pContext), W(hCtx));
    struct sim_green *green = sim_object_find(hCtx, SIM_GREEN);
    if (!pContext)
        return CUDA_ERROR_INVALID_VALUE;
    if (!green)
        return CUDA_ERROR_INVALID_CONTEXT;
    *pContext = (CUcontext)(void *)green->handle;
    return CUDA_SUCCESS;
}

CUresult cuGreenCtxGetId(CUgreenCtx greenCtx, unsigned long long *greenCtxId)
{
    SIM_ENTER(cuGreenCtxGetId, W(greenCtx), W(greenCtxId));
    const struct sim_green *green = sim_object_find(greenCtx, SIM_GREEN);
    if (!greenCtxId)
        return CUDA_ERROR_INVALID_VALUE;
    if (!green)
        return CUDA_ERROR_INVALID_CONTEXT;
    *greenCtxId = green->id;
    return CUDA_SUCCESS;
}

CUresult cuGreenCtxStreamCreate(CUstream *phStream, CUgreenCtx greenCtx, unsigned int flags,
                                int priority)
{
    SIM_ENTER(cuGreenCtxStreamCreate, W(phStream), W(greenCtx), W(flags), W(priority));
    struct sim_green *green = sim_object_find(greenCtx, SIM_GREEN);
    struct sim_stream *stream;
    CUresult code;
    if (!phStream || flags != CU_STREAM_NON_BLOCKING)
        return CUDA_ERROR_INVALID_VALUE;
    if (!green)
        return CUDA_ERROR_INVALID_CONTEXT;
    if (green->card->primary->ended)
        return CUDA_ERROR_CONTEXT_IS_DESTROYED;
    priority = priority > 0 ? 0 : priority < -5 ? -5 : priority;
    code = sim_stream_make(green->card->primary, flags, priority, &stream);
    if (code)
        return code;
    stream->green = green;
    *phStream = stream->handle;
    return CUDA_SUCCESS;
}

CUresult cuStreamGetGreenCtx(CUstream hStream, CUgreenCtx *phCtx)
{
    SIM_ENTER(cuStreamGetGreenCtx, W(hStream), W(phCtx));
    struct sim_stream *stream;
    CUresult code = sim_stream_find(hStream, false, &stream);
    if (code)
        return code;
    if (!phCtx)
        return CUDA_ERROR_INVALID_VALUE;
    *phCtx = (CUgreenCtx)(void *)stream->green;
    return CUDA_SUCCESS;
}
