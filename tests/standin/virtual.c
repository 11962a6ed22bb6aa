/* Physical handles, address reservations and mappings. The card's memory is taken at create and
 * goes back when the last reference and the last mapping are gone. */
#include "sim.h"

struct sim_physical {
    struct sim_object object;
    struct sim_card *card; /* NULL: host memory */
    uint64_t size;
    unsigned references, mappings;
    CUmemAllocationProp props;
};

struct mapping { /* of a reservation, in a list at its range */
    struct mapping *next;
    uint64_t base, size;
    struct sim_physical *physical;
};

static void check_gone(struct sim_physical *physical)
{
    if (physical->references == 0 && physical->object.key) {
        sim_object_remove(physical);
        physical->object.key = NULL;
    }
    if (physical->references || physical->mappings)
        return;
    if (physical->card) {
        sim_card_give(physical->card, SIM_USE_HANDLE, physical->size);
        physical->card->blocks--;
    }
    free(physical);
}

CUresult cuMemCreate(CUmemGenericAllocationHandle *handle, size_t size,
                     const CUmemAllocationProp *prop, unsigned long long flags)
{
    SIM_ENTER(cuMemCreate, W(handle), W(size), W(prop), W(flags));
    SIM_NOTE(prop, sizeof(*prop));
    struct sim_physical *physical;
    struct sim_card *card = NULL;
    if (!handle || !prop || !size || flags || size % sim_settings.profile->granularity ||
        prop->type != CU_MEM_ALLOCATION_TYPE_PINNED)
        return CUDA_ERROR_INVALID_VALUE;
    if (prop->location.type == CU_MEM_LOCATION_TYPE_DEVICE) {
        card = sim_card_of(prop->location.id);
        if (!card)
            return CUDA_ERROR_INVALID_DEVICE;
        if (!sim_card_take(card, SIM_USE_HANDLE, size))
            return CUDA_ERROR_OUT_OF_MEMORY;
        card->blocks++;
    } else if (prop->location.type == CU_MEM_LOCATION_TYPE_INVALID) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    physical = sim_new(sizeof(*physical));
    physical->card = card;
    physical->size = size;
    physical->references = 1;
    physical->props = *prop;
    sim_object_add(physical, SIM_HANDLE);
    *handle = (CUmemGenericAllocationHandle)(uintptr_t)physical;
    return CUDA_SUCCESS;
}

static struct sim_physical *physical_of(CUmemGenericAllocationHandle handle)
{
    return sim_object_find((void *)(uintptr_t)handle, SIM_HANDLE);
}

CUresult cuMemRelease(CUmemGenericAllocationHandle handle)
{
    SIM_ENTER(cuMemRelease, W(handle));
    struct sim_physical *physical = physical_of(handle);
    if (!physical)
        return CUDA_ERROR_INVALID_VALUE;
    physical->references--;
    check_gone(physical);
    return CUDA_SUCCESS;
}

CUresult cuMemAddressReserve(CUdeviceptr *ptr, size_t size, size_t alignment, CUdeviceptr addr,
                             unsigned long long flags)
{
    SIM_ENTER(cuMemAddressReserve, W(ptr), W(size), W(alignment), W(addr), W(flags));
    struct sim_range *range;
    (void)addr; /* a wish, which the driver need not grant */
    if (!ptr || !size || size % sim_settings.profile->granularity || flags ||
        (alignment & (alignment - 1)))
        return CUDA_ERROR_INVALID_VALUE;
    range = sim_range_new(SIM_RANGE_RESERVED, NULL, 0, size, false);
    *ptr = range->base;
    return CUDA_SUCCESS;
}

CUresult cuMemAddressFree(CUdeviceptr ptr, size_t size)
{
    SIM_ENTER(cuMemAddressFree, W(ptr), W(size));
    struct sim_range *range = sim_range_find(ptr);
    if (!range || range->kind != SIM_RANGE_RESERVED || range->base != ptr ||
        range->size != size || range->more)
        return CUDA_ERROR_INVALID_VALUE;
    sim_range_drop(range);
    return CUDA_SUCCESS;
}

CUresult cuMemMap(CUdeviceptr ptr, size_t size, size_t offset,
                  CUmemGenericAllocationHandle handle, unsigned long long flags)
{
    SIM_ENTER(cuMemMap, W(ptr), W(size), W(offset), W(handle), W(flags));
    struct sim_range *range = sim_range_find(ptr);
    struct sim_physical *physical = physical_of(handle);
    struct mapping *mapping;
    if (!range || range->kind != SIM_RANGE_RESERVED || !physical || !size || flags ||
        size > physical->size || offset || size > range->size - (ptr - range->base))
        return CUDA_ERROR_INVALID_VALUE;
    for (mapping = range->more; mapping; mapping = mapping->next)
        if (ptr < mapping->base + mapping->size && mapping->base < ptr + size)
            return CUDA_ERROR_INVALID_VALUE;
    mapping = sim_new(sizeof(*mapping));
    mapping->base = ptr;
    mapping->size = size;
    mapping->physical = physical;
    mapping->next = range->more;
    range->more = mapping;
    physical->mappings++;
    return CUDA_SUCCESS;
}

static struct mapping *mapping_at(CUdeviceptr ptr)
{
    struct sim_range *range = sim_range_find(ptr);
    struct mapping *mapping = range && range->kind == SIM_RANGE_RESERVED ? range->more : NULL;
    while (mapping && ptr - mapping->base >= mapping->size)
        mapping = mapping->next;
    return mapping;
}

CUresult cuMemUnmap(CUdeviceptr ptr, size_t size)
{
    SIM_ENTER(cuMemUnmap, W(ptr), W(size));
    struct sim_range *range = sim_range_find(ptr);
    struct mapping **at;
    uint64_t covered = 0;
    if (!range || range->kind != SIM_RANGE_RESERVED || !size)
        return CUDA_ERROR_INVALID_VALUE;
    for (struct mapping *one = range->more; one; one = one->next)
        if (one->base >= ptr && one->base + one->size <= ptr + size)
            covered += one->size;
    if (covered != size)
        return CUDA_ERROR_INVALID_VALUE;
    at = (struct mapping **)&range->more;
    while (*at) {
        struct mapping *one = *at;
        if (one->base < ptr || one->base + one->size > ptr + size) {
            at = &one->next;
            continue;
        }
        *at = one->next;
        one->physical->mappings--;
        check_gone(one->physical);
        free(one);
    }
    return CUDA_SUCCESS;
}

CUresult cuMemSetAccess(CUdeviceptr ptr, size_t size, const CUmemAccessDesc *desc, size_t count)
{
    SIM_ENTER(cuMemSetAccess, W(ptr), W(size), W(desc), W(count));
    if (!desc || !count || !size || !mapping_at(ptr))
        return CUDA_ERROR_INVALID_VALUE;
    return CUDA_SUCCESS;
}

CUresult cuMemGetAccess(unsigned long long *flags, const CUmemLocation *location,
                        CUdeviceptr ptr)
{
    SIM_ENTER(cuMemGetAccess, W(flags), W(location), W(ptr));
    if (!flags || !location || !mapping_at(ptr))
        return CUDA_ERROR_INVALID_VALUE;
    *flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    return CUDA_SUCCESS;
}

CUresult cuMemGetAllocationGranularity(size_t *granularity, const CUmemAllocationProp *prop,
                                       CUmemAllocationGranularity_flags option)
{
    SIM_ENTER(cuMemGetAllocationGranularity, W(granularity), W(prop), W(option));
    if (!granularity || !prop)
        return CUDA_ERROR_INVALID_VALUE;
    *granularity = sim_settings.profile->granularity;
    return CUDA_SUCCESS;
}

CUresult cuMemGetAllocationPropertiesFromHandle(CUmemAllocationProp *prop,
                                                CUmemGenericAllocationHandle handle)
{
    SIM_ENTER(cuMemGetAllocationPropertiesFromHandle, W(prop), W(handle));
    struct sim_physical *physical = physical_of(handle);
    if (!prop || !physical)
        return CUDA_ERROR_INVALID_VALUE;
    *prop = physical->props;
    return CUDA_SUCCESS;
}

CUresult cuMemRetainAllocationHandle(CUmemGenericAllocationHandle *handle, void *addr)
{
    SIM_ENTER(cuMemRetainAllocationHandle, W(handle), W(addr));
    struct mapping *mapping = mapping_at((CUdeviceptr)(uintptr_t)addr);
    if (!handle || !mapping)
        return CUDA_ERROR_INVALID_VALUE;
    /* A handle whose last reference went while it was mapped comes to life again. */
    if (mapping->physical->references++ == 0)
        sim_object_add(mapping->physical, SIM_HANDLE);
    *handle = (CUmemGenericAllocationHandle)(uintptr_t)mapping->physical;
    return CUDA_SUCCESS;
}
