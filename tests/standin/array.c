/* Arrays: their life, and what can be asked of them. They belong to the context that was
 * current and end with it; mipmapped ones are the same thing with levels (mipmap.c). */
#include "array.h"

/* Arrays of ended contexts are still known for a while, so that a stale handle can be told. */
#define GONE 1024

static uint64_t array_ids;
static struct sim_array *gone[GONE];
static unsigned gone_next;

static void small_begin(struct sim_context *context)
{
    const struct sim_profile *profile = sim_settings.profile;
    struct sim_heap *heap = &context->small_arrays;
    memset(heap, 0, sizeof(*heap));
    heap->kind = SIM_RANGE_ARRAY;
    heap->use = SIM_USE_ARRAY;
    heap->card = context->card;
    heap->step = profile->region;
    heap->align = profile->block_align;
    heap->owner = context;
}

/* Small arrays share regions, as small direct blocks do; large ones are rounded up as those
 * are.
 */
static CUresult memory_take(struct sim_array *array)
{
    const struct sim_profile *profile = sim_settings.profile;
    struct sim_context *context = array->context;
    struct sim_heap *heap = &context->small_arrays;
    uint64_t size;
    if (array->bytes > profile->small_limit) {
        if (array->bytes > context->card->total)
            return CUDA_ERROR_OUT_OF_MEMORY;
        size = sim_round_up(array->bytes, profile->big_round);
        if (!sim_card_take(context->card, SIM_USE_ARRAY, size) &&
            !(sim_pools_reclaim(context->card) &&
              sim_card_take(context->card, SIM_USE_ARRAY, size)))
            return CUDA_ERROR_OUT_OF_MEMORY;
        array->taken = size;
        context->card->blocks++;
        return CUDA_SUCCESS;
    }
    if (!heap->card)
        small_begin(context);
    size = sim_round_up(array->bytes, heap->align);
    array->block = sim_heap_take(heap, size);
    if (!array->block) {
        CUresult code = sim_heap_grow(heap, size);
        if (code && sim_pools_reclaim(context->card))
            code = sim_heap_grow(heap, size);
        if (code)
            return code;
        array->block = sim_heap_take(heap, size);
    }
    sim_block_live(array->block);
    return CUDA_SUCCESS;
}

static void memory_give(struct sim_array *array)
{
    if (array->taken) {
        sim_card_give(array->context->card, SIM_USE_ARRAY, array->taken);
        array->context->card->blocks--;
    }
    if (array->block) {
        sim_block_gone(array->block);
        sim_heap_return(&array->context->small_arrays, array->block, NULL);
    }
    array->taken = 0;
    array->block = NULL;
    if (array->tiles)
        sim_tiles_end(array->tiles);
    array->tiles = NULL;
}

CUresult sim_array_create(enum sim_kind kind, const CUDA_ARRAY3D_DESCRIPTOR *desc,
                          unsigned levels, struct sim_array **result)
{
    const unsigned late = CUDA_ARRAY3D_SPARSE | CUDA_ARRAY3D_DEFERRED_MAPPING;
    struct sim_context *context;
    struct sim_array *array;
    CUresult code = sim_current(&context);
    if (!code)
        code = sim_unsafe();
    if (code)
        return code;
    array = sim_new(sizeof(*array));
    array->context = context;
    array->desc = *desc;
    array->levels = levels;
    if (!sim_array_allowed(desc, kind == SIM_MIPMAP) || !sim_format_find(desc, &array->format))
        code = CUDA_ERROR_INVALID_VALUE;
    if (!code) {
        array->bytes = sim_array_bytes(desc, &array->format, 0, levels, true);
        if (desc->Flags & late) {
            array->tiles = sim_tiles_new(array);
            code = array->tiles ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
        } else {
            code = memory_take(array);
        }
    }
    if (code) {
        free(array);
        return code;
    }
    array->id = ++array_ids;
    array->next = context->arrays;
    if (array->next)
        array->next->prev = array;
    context->arrays = array;
    sim_object_add(array, kind);
    *result = array;
    return CUDA_SUCCESS;
}

struct sim_array *sim_array_find(const void *handle, enum sim_kind kind, CUresult *code)
{
    struct sim_array *array = sim_object_find(handle, kind);
    *code = CUDA_SUCCESS;
    if (!array)
        *code = CUDA_ERROR_INVALID_HANDLE;
    else if (!array->context)
        *code = CUDA_ERROR_CONTEXT_IS_DESTROYED;
    return *code ? NULL : array;
}

/* The array of a level or a plane: the same one each time, and never destroyed alone. */
struct sim_array *sim_array_part(struct sim_array *array, unsigned index,
                                 const CUDA_ARRAY3D_DESCRIPTOR *desc)
{
    struct sim_array *part;
    if (!array->parts) {
        array->part_count = array->object.kind == SIM_MIPMAP ? array->levels : 3;
        array->parts = sim_new(array->part_count * sizeof(struct sim_array *));
    }
    part = array->parts[index];
    if (!part) {
        part = sim_new(sizeof(*part));
        part->context = array->context;
        part->desc = *desc;
        part->levels = 1;
        part->parent = array;
        sim_format_find(desc, &part->format);
        sim_object_add(part, SIM_ARRAY);
        array->parts[index] = part;
    }
    return part;
}

static void parts_end(struct sim_array *array)
{
    for (unsigned i = 0; i < array->part_count; i++) {
        struct sim_array *part = array->parts[i];
        if (!part)
            continue;
        parts_end(part); /* the planes of a level */
        sim_object_remove(part);
        free(part);
    }
    free(array->parts);
    array->parts = NULL;
    array->part_count = 0;
}

/* Its memory, its place in the context and its parts; the handle is left. */
static void end(struct sim_array *array)
{
    struct sim_context *context = array->context;
    parts_end(array);
    memory_give(array);
    if (array->next)
        array->next->prev = array->prev;
    if (array->prev)
        array->prev->next = array->next;
    else
        context->arrays = array->next;
    array->next = array->prev = NULL;
    array->context = NULL;
}

static void forget(struct sim_array *array)
{
    sim_object_remove(array);
    array->destroyed = true;
    if (!array->references)
        free(array);
}

void sim_array_drop(struct sim_array *array)
{
    array->references--;
    if (array->destroyed && !array->references)
        free(array);
}

void sim_arrays_end(struct sim_context *context)
{
    while (context->arrays) {
        struct sim_array *array = context->arrays;
        end(array);
        if (gone[gone_next])
            forget(gone[gone_next]);
        gone[gone_next] = array;
        gone_next = (gone_next + 1) % GONE;
    }
    if (context->small_arrays.card)
        sim_heap_end(&context->small_arrays);
    memset(&context->small_arrays, 0, sizeof(context->small_arrays));
}

/* It waits for the work of its context, as the free of a direct block does. The
 * handle says whose it is: no context need be current, only no ended one. */
CUresult sim_array_destroy(const void *handle, enum sim_kind kind)
{
    struct sim_context *current;
    CUresult code;
    struct sim_array *array = sim_array_find(handle, kind, &code);
    uint64_t id;
    if (!array)
        return code;
    if (array->parent)
        return CUDA_ERROR_INVALID_HANDLE;
    if (sim_current(&current) == CUDA_ERROR_CONTEXT_IS_DESTROYED)
        return CUDA_ERROR_CONTEXT_IS_DESTROYED;
    SIM_UNSAFE();
    id = array->id;
    sim_wait_context(array->context);
    array = sim_array_find(handle, kind, &code);
    if (!array)
        return code;
    if (array->id != id)
        return CUDA_ERROR_INVALID_HANDLE; /* destroyed by another thread meanwhile */
    end(array);
    forget(array);
    return CUDA_SUCCESS;
}

/* ---- the calls ---- */

static CUresult create_plain(CUarray *pHandle, size_t width, size_t height,
                             CUarray_format format, unsigned channels)
{
    CUDA_ARRAY3D_DESCRIPTOR desc = {
        .Width = width, .Height = height, .Format = format, .NumChannels = channels};
    struct sim_array *array;
    CUresult code = sim_array_create(SIM_ARRAY, &desc, 1, &array);
    if (!code)
        *pHandle = (CUarray)(void *)array;
    return code;
}

CUresult cuArrayCreate_v2(CUarray *pHandle, const CUDA_ARRAY_DESCRIPTOR *pAllocateArray)
{
    SIM_ENTER(cuArrayCreate_v2, W(pHandle), W(pAllocateArray));
    SIM_NOTE(pAllocateArray, sizeof(*pAllocateArray));
    SIM_CURRENT(context);
    (void)context;
    if (!pHandle || !pAllocateArray)
        return CUDA_ERROR_INVALID_VALUE;
    return create_plain(pHandle, pAllocateArray->Width, pAllocateArray->Height,
                        pAllocateArray->Format, pAllocateArray->NumChannels);
}

/* The first forms work in contexts of their own time only, as those of cuMemAlloc do (measured
 * of cuArrayCreate). */
static CUresult first_form(void)
{
    struct sim_context *context;
    CUresult code = sim_current(&context);
    if (!code && context->version >= 3020)
        code = CUDA_ERROR_INVALID_CONTEXT;
    return code;
}

CUresult cuArrayCreate(CUarray *pHandle, const CUDA_ARRAY_DESCRIPTOR_v1 *pAllocateArray)
{
    SIM_ENTER(cuArrayCreate, W(pHandle), W(pAllocateArray));
    SIM_NOTE(pAllocateArray, sizeof(*pAllocateArray));
    const CUresult code = first_form();
    if (code)
        return code;
    if (!pHandle || !pAllocateArray)
        return CUDA_ERROR_INVALID_VALUE;
    return create_plain(pHandle, pAllocateArray->Width, pAllocateArray->Height,
                        pAllocateArray->Format, pAllocateArray->NumChannels);
}

CUresult cuArray3DCreate_v2(CUarray *pHandle, const CUDA_ARRAY3D_DESCRIPTOR *pAllocateArray)
{
    SIM_ENTER(cuArray3DCreate_v2, W(pHandle), W(pAllocateArray));
    SIM_NOTE(pAllocateArray, sizeof(*pAllocateArray));
    SIM_CURRENT(context);
    struct sim_array *array;
    CUresult code;
    (void)context;
    if (!pHandle || !pAllocateArray)
        return CUDA_ERROR_INVALID_VALUE;
    code = sim_array_create(SIM_ARRAY, pAllocateArray, 1, &array);
    if (!code)
        *pHandle = (CUarray)(void *)array;
    return code;
}

CUresult cuArray3DCreate(CUarray *pHandle, const CUDA_ARRAY3D_DESCRIPTOR_v1 *pAllocateArray)
{
    SIM_ENTER(cuArray3DCreate, W(pHandle), W(pAllocateArray));
    SIM_NOTE(pAllocateArray, sizeof(*pAllocateArray));
    CUDA_ARRAY3D_DESCRIPTOR desc;
    struct sim_array *array;
    CUresult code = first_form();
    if (code)
        return code;
    if (!pHandle || !pAllocateArray)
        return CUDA_ERROR_INVALID_VALUE;
    desc.Width = pAllocateArray->Width;
    desc.Height = pAllocateArray->Height;
    desc.Depth = pAllocateArray->Depth;
    desc.Format = pAllocateArray->Format;
    desc.NumChannels = pAllocateArray->NumChannels;
    desc.Flags = pAllocateArray->Flags;
    code = sim_array_create(SIM_ARRAY, &desc, 1, &array);
    if (!code)
        *pHandle = (CUarray)(void *)array;
    return code;
}

CUresult cuArrayDestroy(CUarray hArray)
{
    SIM_ENTER(cuArrayDestroy, W(hArray));
    return sim_array_destroy(hArray, SIM_ARRAY);
}

#define DESCRIBE(result, handle, with_depth)                                                   \
    do {                                                                                       \
        CUresult code_;                                                                        \
        struct sim_array *array_ = sim_array_find(handle, SIM_ARRAY, &code_);                  \
        if (!(result))                                                                         \
            return CUDA_ERROR_INVALID_VALUE;                                                   \
        if (!array_)                                                                           \
            return code_;                                                                      \
        (result)->Width = array_->desc.Width;                                                  \
        (result)->Height = array_->desc.Height;                                                \
        (result)->Format = array_->desc.Format;                                                \
        (result)->NumChannels = array_->desc.NumChannels;                                      \
        with_depth((result)->Depth = array_->desc.Depth;                                       \
                   (result)->Flags = array_->desc.Flags;)                                      \
    } while (0)
#define YES(...) __VA_ARGS__
#define NO(...)

/* Of any array, also where it has depth (not measured). */
CUresult cuArrayGetDescriptor_v2(CUDA_ARRAY_DESCRIPTOR *pArrayDescriptor, CUarray hArray)
{
    SIM_ENTER(cuArrayGetDescriptor_v2, W(pArrayDescriptor), W(hArray));
    SIM_CURRENT(context);
    (void)context;
    DESCRIBE(pArrayDescriptor, hArray, NO);
    return CUDA_SUCCESS;
}

CUresult cuArrayGetDescriptor(CUDA_ARRAY_DESCRIPTOR_v1 *pArrayDescriptor, CUarray hArray)
{
    SIM_ENTER(cuArrayGetDescriptor, W(pArrayDescriptor), W(hArray));
    SIM_CURRENT(context);
    (void)context;
    DESCRIBE(pArrayDescriptor, hArray, NO);
    return CUDA_SUCCESS;
}

CUresult cuArray3DGetDescriptor_v2(CUDA_ARRAY3D_DESCRIPTOR *pArrayDescriptor, CUarray hArray)
{
    SIM_ENTER(cuArray3DGetDescriptor_v2, W(pArrayDescriptor), W(hArray));
    SIM_CURRENT(context);
    (void)context;
    DESCRIBE(pArrayDescriptor, hArray, YES);
    return CUDA_SUCCESS;
}

CUresult cuArray3DGetDescriptor(CUDA_ARRAY3D_DESCRIPTOR_v1 *pArrayDescriptor, CUarray hArray)
{
    SIM_ENTER(cuArray3DGetDescriptor, W(pArrayDescriptor), W(hArray));
    SIM_CURRENT(context);
    (void)context;
    DESCRIBE(pArrayDescriptor, hArray, YES);
    return CUDA_SUCCESS;
}

CUresult cuArrayGetPlane(CUarray *pPlaneArray, CUarray hArray, unsigned int planeIdx)
{
    SIM_ENTER(cuArrayGetPlane, W(pPlaneArray), W(hArray), W(planeIdx));
    SIM_CURRENT(context);
    CUresult code;
    struct sim_array *array = sim_array_find(hArray, SIM_ARRAY, &code);
    CUDA_ARRAY3D_DESCRIPTOR desc;
    (void)context;
    if (!pPlaneArray)
        return CUDA_ERROR_INVALID_VALUE;
    if (!array)
        return code;
    if (planeIdx >= array->format.planes)
        return CUDA_ERROR_INVALID_VALUE;
    desc = array->desc;
    desc.Width /= array->format.plane[planeIdx].narrow;
    desc.Height /= array->format.plane[planeIdx].low;
    desc.Format = array->format.plane[planeIdx].format;
    desc.NumChannels = array->format.plane[planeIdx].channels;
    *pPlaneArray = (CUarray)(void *)sim_array_part(array, planeIdx, &desc);
    return CUDA_SUCCESS;
}
