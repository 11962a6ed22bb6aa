/* Multicast objects: handles without memory of their own, to which memory of several devices is
 * bound. What is bound lives on when its last reference and mapping are gone. What a device
 * adds to a card's use is not measured: nothing here. */
#include "physical.h"

struct binding {
    struct binding *next;
    struct sim_card *card;
    uint64_t offset, size;
    struct sim_physical *physical; /* NULL: a block of a pool, which is not held */
};

struct sim_multicast {
    CUmulticastObjectProp prop;
    struct sim_card *cards[SIM_MAX_CARDS];
    unsigned count;
    struct binding *bindings;
};

uint64_t sim_multicast_types(const struct sim_multicast *multicast)
{
    return multicast->prop.handleTypes;
}

void sim_multicast_wait(const struct sim_multicast *multicast)
{
    while (multicast->count < multicast->prop.numDevices)
        sim_pause();
}

static void unbind(struct binding **at)
{
    struct binding *binding = *at;
    *at = binding->next;
    if (binding->physical) {
        binding->physical->bindings--;
        sim_physical_check(binding->physical);
    }
    free(binding);
}

void sim_multicast_end(struct sim_multicast *multicast)
{
    while (multicast->bindings)
        unbind(&multicast->bindings);
    for (unsigned i = 0; i < multicast->count; i++)
        sim_card_give(multicast->cards[i], SIM_USE_PEER, sim_settings.profile->multicast_bytes);
    free(multicast);
}

static struct sim_physical *object_of(CUmemGenericAllocationHandle handle)
{
    struct sim_physical *physical = sim_physical_find(handle);
    return physical && physical->memory->multicast ? physical : NULL;
}

CUresult cuMulticastGetGranularity(size_t *granularity, const CUmulticastObjectProp *prop,
                                   CUmulticastGranularity_flags option)
{
    SIM_ENTER(cuMulticastGetGranularity, W(granularity), W(prop), W(option));
    const struct sim_profile *profile = sim_settings.profile;
    if (!granularity || !prop || !prop->numDevices || prop->flags)
        return CUDA_ERROR_INVALID_VALUE;
    if (option == CU_MULTICAST_GRANULARITY_MINIMUM)
        *granularity = profile->multicast_granularity;
    else if (option == CU_MULTICAST_GRANULARITY_RECOMMENDED)
        *granularity = profile->multicast_recommended;
    else
        return CUDA_ERROR_INVALID_VALUE;
    return CUDA_SUCCESS;
}

CUresult cuMulticastCreate(CUmemGenericAllocationHandle *mcHandle,
                           const CUmulticastObjectProp *prop)
{
    SIM_ENTER(cuMulticastCreate, W(mcHandle), W(prop));
    SIM_NOTE(prop, sizeof(*prop));
    const uint64_t known = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR | CU_MEM_HANDLE_TYPE_FABRIC;
    struct sim_memory *memory;
    if (!mcHandle || !prop || !prop->numDevices || !prop->size || prop->flags ||
        prop->size % sim_settings.profile->multicast_granularity || prop->handleTypes & ~known)
        return CUDA_ERROR_INVALID_VALUE;
    if (prop->numDevices > (unsigned)sim_visible_count)
        return CUDA_ERROR_INVALID_DEVICE;
    memory = sim_memory_new(NULL, prop->size, NULL);
    memory->multicast = sim_new(sizeof(*memory->multicast));
    memory->multicast->prop = *prop;
    *mcHandle = sim_physical_handle(sim_physical_new(memory, false));
    return CUDA_SUCCESS;
}

static bool has_card(const struct sim_multicast *multicast, const struct sim_card *card)
{
    for (unsigned i = 0; i < multicast->count; i++)
        if (multicast->cards[i] == card)
            return true;
    return false;
}

CUresult cuMulticastAddDevice(CUmemGenericAllocationHandle mcHandle, CUdevice dev)
{
    SIM_ENTER(cuMulticastAddDevice, W(mcHandle), W(dev));
    struct sim_physical *object = object_of(mcHandle);
    struct sim_card *card = sim_card_of(dev);
    struct sim_multicast *multicast;
    if (!object)
        return CUDA_ERROR_INVALID_VALUE;
    if (!card)
        return CUDA_ERROR_INVALID_DEVICE;
    multicast = object->memory->multicast;
    if (multicast->count == multicast->prop.numDevices || has_card(multicast, card))
        return CUDA_ERROR_INVALID_VALUE;
    if (!sim_card_take_pressing(card, SIM_USE_PEER, sim_settings.profile->multicast_bytes))
        return CUDA_ERROR_OUT_OF_MEMORY;
    multicast->cards[multicast->count++] = card;
    return CUDA_SUCCESS;
}

/* The memory's handle, the place in it and its card have been found; `physical` may be NULL. */
static CUresult bind_card(struct sim_multicast *multicast, uint64_t offset, uint64_t size,
                          struct sim_card *card, struct sim_physical *physical)
{
    const uint64_t step = sim_settings.profile->multicast_granularity;
    struct binding *binding;
    if (!size || size % step || offset % step || offset > multicast->prop.size ||
        size > multicast->prop.size - offset)
        return CUDA_ERROR_INVALID_VALUE;
    if (!card || !has_card(multicast, card))
        return CUDA_ERROR_INVALID_DEVICE;
    for (binding = multicast->bindings; binding; binding = binding->next)
        if (binding->card == card && offset < binding->offset + binding->size &&
            binding->offset < offset + size)
            return CUDA_ERROR_INVALID_VALUE;
    binding = sim_new(sizeof(*binding));
    binding->card = card;
    binding->offset = offset;
    binding->size = size;
    binding->physical = physical;
    binding->next = multicast->bindings;
    multicast->bindings = binding;
    if (physical)
        physical->bindings++;
    return CUDA_SUCCESS;
}

/* An object that can be shared takes only memory that can. */
static bool shareable(const struct sim_multicast *multicast, const struct sim_memory *memory)
{
    return !multicast->prop.handleTypes || memory->props.requestedHandleTypes;
}

CUresult cuMulticastBindMem(CUmemGenericAllocationHandle mcHandle, size_t mcOffset,
                            CUmemGenericAllocationHandle memHandle, size_t memOffset,
                            size_t size, unsigned long long flags)
{
    SIM_ENTER(cuMulticastBindMem, W(mcHandle), W(mcOffset), W(memHandle), W(memOffset), W(size),
              W(flags));
    struct sim_physical *object = object_of(mcHandle);
    struct sim_physical *physical = sim_physical_find(memHandle);
    CUresult code;
    if (!object || !physical || physical->memory->multicast || flags ||
        memOffset % sim_settings.profile->multicast_granularity ||
        memOffset > physical->memory->size || size > physical->memory->size - memOffset ||
        !shareable(object->memory->multicast, physical->memory))
        return CUDA_ERROR_INVALID_VALUE;
    /* Neither may go while this waits. */
    object->bindings++;
    physical->bindings++;
    sim_multicast_wait(object->memory->multicast);
    code =
        bind_card(object->memory->multicast, mcOffset, size, physical->memory->card, physical);
    physical->bindings--;
    sim_physical_check(physical);
    object->bindings--;
    sim_physical_check(object);
    return code;
}

CUresult cuMulticastBindAddr(CUmemGenericAllocationHandle mcHandle, size_t mcOffset,
                             CUdeviceptr memptr, size_t size, unsigned long long flags)
{
    SIM_ENTER(cuMulticastBindAddr, W(mcHandle), W(mcOffset), W(memptr), W(size), W(flags));
    struct sim_physical *object = object_of(mcHandle);
    struct sim_physical *physical;
    struct sim_block *block;
    uint64_t offset = 0;
    CUresult code = CUDA_ERROR_INVALID_VALUE;
    if (!object || flags || memptr % sim_settings.profile->multicast_granularity)
        return CUDA_ERROR_INVALID_VALUE;
    object->bindings++;
    sim_multicast_wait(object->memory->multicast);
    physical = sim_physical_at(memptr, &offset);
    block = physical ? NULL : sim_block_around(memptr);
    if (physical) {
        if (!physical->memory->multicast && size <= physical->memory->size - offset &&
            shareable(object->memory->multicast, physical->memory))
            code = bind_card(object->memory->multicast, mcOffset, size, physical->memory->card,
                             physical);
    } else if (block && block->range->kind == SIM_RANGE_POOL &&
               size <= block->size - (memptr - block->base)) {
        code = bind_card(object->memory->multicast, mcOffset, size, block->range->heap->card,
                         NULL);
    }
    object->bindings--;
    sim_physical_check(object);
    return code;
}

/* Only what was bound so: the manual leaves the rest undefined. */
CUresult cuMulticastUnbind(CUmemGenericAllocationHandle mcHandle, CUdevice dev, size_t mcOffset,
                           size_t size)
{
    SIM_ENTER(cuMulticastUnbind, W(mcHandle), W(dev), W(mcOffset), W(size));
    struct sim_physical *object = object_of(mcHandle);
    struct sim_card *card = sim_card_of(dev);
    struct binding **at;
    if (!object)
        return CUDA_ERROR_INVALID_VALUE;
    if (!card)
        return CUDA_ERROR_INVALID_DEVICE;
    at = &object->memory->multicast->bindings;
    while (*at && ((*at)->card != card || (*at)->offset != mcOffset || (*at)->size != size))
        at = &(*at)->next;
    if (!*at)
        return CUDA_ERROR_INVALID_VALUE;
    unbind(at);
    return CUDA_SUCCESS;
}
