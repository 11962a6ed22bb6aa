/* Physical handles, address reservations and mappings. The card's memory is taken at create and
 * goes back when the last that holds it is gone: references, mappings, bindings, descriptors,
 * imports. None of these calls needs a context. */
#include "physical.h"

struct mapping { /* of a reservation, in a list at its range */
    struct mapping *next;
    uint64_t base, size, offset;
    bool accessible; /* to some device */
    struct sim_physical *physical;
};

static struct sim_memory *memories;
static uint64_t memory_ids, births;
static unsigned waiting;
bool sim_fabric;

unsigned sim_memories_waiting(void)
{
    return waiting;
}

uint64_t sim_birth(void)
{
    return ++births;
}

/* Memory for arrays whose handle is released and which only arrays have hold of (measured:
 * sparse and deferred ones). Of bindings to multicast objects nothing was measured. */
static bool only_bound(const struct sim_physical *physical)
{
    return !physical->references && !physical->mappings &&
           physical->memory->props.allocFlags.usage & CU_MEM_CREATE_USAGE_TILE_POOL;
}

/* The rule by which NVML shows memory for a process (measured): of all that has hold of it the
 * oldest counts, be it a handle, with what is mapped by it, or a descriptor. A descriptor is
 * nobody's, and so is an array. Memory of another process is that one's; when that has ended,
 * ours by the same rule (measured). */
static bool shown_for_nobody(struct sim_memory *memory)
{
    const uint64_t descriptor = sim_descriptors_oldest(memory);
    return !memory->handles || (descriptor && descriptor < memory->handles->born) ||
           only_bound(memory->handles);
}

uint64_t sim_orphaned_bytes(const struct sim_card *card)
{
    uint64_t bytes = 0;
    for (struct sim_memory *memory = memories; memory; memory = memory->next)
        if (memory->card == card && !memory->foreign && shown_for_nobody(memory))
            bytes += memory->size;
    return bytes;
}

uint64_t sim_inherited_bytes(const struct sim_card *card)
{
    uint64_t bytes = 0;
    for (struct sim_memory *memory = memories; memory; memory = memory->next)
        if (memory->card == card && memory->foreign && !shown_for_nobody(memory) &&
            sim_process_ended(memory->foreign))
            bytes += memory->size;
    return bytes;
}

static void set_waiting(struct sim_memory *memory, bool now)
{
    waiting += now;
    waiting -= memory->waiting;
    memory->waiting = now;
}

struct sim_memory *sim_memories(void)
{
    return memories;
}

struct sim_memory *sim_memory_new(struct sim_card *card, uint64_t size,
                                  const CUmemAllocationProp *props)
{
    struct sim_memory *memory = sim_new(sizeof(*memory));
    memory->card = card;
    memory->size = size;
    memory->id = ++memory_ids;
    if (props)
        memory->props = *props;
    memory->next = memories;
    if (memories)
        memories->prev = memory;
    memories = memory;
    return memory;
}

bool sim_memory_check(struct sim_memory *memory)
{
    bool held = memory->handles || sim_descriptors_open(memory);
    struct sim_card *card = memory->foreign ? NULL : memory->card;
    set_waiting(memory, held && !memory->handles);
    if (held)
        return false;
    if (card) {
        sim_card_give(card, SIM_USE_HANDLE, memory->size);
        card->blocks--;
    }
    if (memory->multicast)
        sim_multicast_end(memory->multicast);
    if (memory->next)
        memory->next->prev = memory->prev;
    if (memory->prev)
        memory->prev->next = memory->next;
    else
        memories = memory->next;
    free(memory);
    return true;
}

struct sim_physical *sim_physical_new(struct sim_memory *memory, bool imported)
{
    struct sim_physical *physical = sim_new(sizeof(*physical)), **at = &memory->handles;
    while (*at)
        at = &(*at)->next;
    *at = physical;
    physical->born = sim_birth();
    physical->memory = memory;
    physical->references = 1;
    physical->imported = imported;
    set_waiting(memory, false);
    sim_object_add(physical, SIM_HANDLE);
    return physical;
}

void sim_physical_check(struct sim_physical *physical)
{
    struct sim_memory *memory = physical->memory;
    struct sim_physical **at = &memory->handles;
    if (physical->references == 0 && physical->object.key) {
        sim_object_remove(physical);
        physical->object.key = NULL;
    }
    if (physical->references || physical->mappings || physical->bindings)
        return;
    while (*at != physical)
        at = &(*at)->next;
    *at = physical->next;
    physical->memory = NULL;
    if (!physical->queued)
        free(physical);
    sim_memory_check(memory);
}

struct sim_physical *sim_physical_find(CUmemGenericAllocationHandle handle)
{
    return sim_object_find((void *)(uintptr_t)handle, SIM_HANDLE);
}

CUmemGenericAllocationHandle sim_physical_handle(const struct sim_physical *physical)
{
    return (CUmemGenericAllocationHandle)(uintptr_t)physical;
}

/* Which ids of host nodes there are is not asked: any that is not negative will do. */
static CUresult location_card(const CUmemAllocationProp *prop, struct sim_card **card)
{
    *card = NULL;
    switch (prop->location.type) {
    case CU_MEM_LOCATION_TYPE_DEVICE:
        *card = sim_card_of(prop->location.id);
        return *card ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
    case CU_MEM_LOCATION_TYPE_HOST:
        return sim_driver_version < 12020 || prop->requestedHandleTypes
                   ? CUDA_ERROR_INVALID_VALUE
                   : CUDA_SUCCESS;
    case CU_MEM_LOCATION_TYPE_HOST_NUMA:
        return sim_driver_version < 12020 || prop->location.id < 0 ? CUDA_ERROR_INVALID_VALUE
                                                                   : CUDA_SUCCESS;
    default:
        return CUDA_ERROR_INVALID_VALUE; /* HOST_NUMA_CURRENT too, as the manual says */
    }
}

CUresult cuMemCreate(CUmemGenericAllocationHandle *handle, size_t size,
                     const CUmemAllocationProp *prop, unsigned long long flags)
{
    SIM_ENTER(cuMemCreate, W(handle), W(size), W(prop), W(flags));
    SIM_NOTE(prop, sizeof(*prop));
    const unsigned known = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR | CU_MEM_HANDLE_TYPE_FABRIC;
    /* What the card answered; its host has no service for them. */
    const bool fabric = prop && prop->requestedHandleTypes & CU_MEM_HANDLE_TYPE_FABRIC;
    struct sim_card *card;
    CUresult code;
    if (!handle || !prop || !size || flags || size % sim_settings.profile->granularity ||
        prop->type != CU_MEM_ALLOCATION_TYPE_PINNED || prop->requestedHandleTypes & ~known)
        return CUDA_ERROR_INVALID_VALUE;
    code = location_card(prop, &card);
    if (code)
        return code;
    if (fabric && !sim_fabric)
        return CUDA_ERROR_NOT_PERMITTED;
    if (card) {
        if (!sim_card_take(card, SIM_USE_HANDLE, size))
            return CUDA_ERROR_OUT_OF_MEMORY;
        card->blocks++;
    }
    *handle = sim_physical_handle(sim_physical_new(sim_memory_new(card, size, prop), false));
    return CUDA_SUCCESS;
}

CUresult cuMemRelease(CUmemGenericAllocationHandle handle)
{
    SIM_ENTER(cuMemRelease, W(handle));
    struct sim_physical *physical = sim_physical_find(handle);
    if (!physical)
        return CUDA_ERROR_INVALID_VALUE;
    physical->references--;
    sim_physical_check(physical);
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

static bool mapped_within(const struct sim_range *range, uint64_t base, uint64_t size)
{
    for (const struct mapping *one = range->more; one; one = one->next)
        if (base < one->base + one->size && one->base < base + size)
            return true;
    return false;
}

/* A handle is mapped as a whole, as often as one likes (measured). Of a multicast object a part
 * can be, here; no driver was asked. */
CUresult cuMemMap(CUdeviceptr ptr, size_t size, size_t offset,
                  CUmemGenericAllocationHandle handle, unsigned long long flags)
{
    SIM_ENTER(cuMemMap, W(ptr), W(size), W(offset), W(handle), W(flags));
    const uint64_t step = sim_settings.profile->granularity;
    struct sim_physical *physical = sim_physical_find(handle);
    struct sim_range *range;
    struct mapping *mapping;
    if (!physical || !size || flags || ptr % step || size % step || offset % step ||
        offset > physical->memory->size || size > physical->memory->size - offset ||
        physical->memory->props.allocFlags.usage & CU_MEM_CREATE_USAGE_TILE_POOL)
        return CUDA_ERROR_INVALID_VALUE;
    if (!physical->memory->multicast && size != physical->memory->size)
        return CUDA_ERROR_NOT_SUPPORTED;
    physical->mappings++;
    if (physical->memory->multicast)
        sim_multicast_wait(physical->memory->multicast);
    range = sim_range_find(ptr);
    if (!range || range->kind != SIM_RANGE_RESERVED ||
        size > range->size - (ptr - range->base) || mapped_within(range, ptr, size)) {
        physical->mappings--;
        sim_physical_check(physical);
        return CUDA_ERROR_INVALID_VALUE;
    }
    mapping = sim_new(sizeof(*mapping));
    mapping->base = ptr;
    mapping->size = size;
    mapping->offset = offset;
    mapping->physical = physical;
    mapping->next = range->more;
    range->more = mapping;
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
        sim_physical_check(one->physical);
        free(one);
    }
    return CUDA_SUCCESS;
}

struct sim_physical *sim_physical_at(CUdeviceptr address, uint64_t *offset)
{
    struct mapping *mapping = mapping_at(address);
    if (!mapping)
        return NULL;
    *offset = address - mapping->base + mapping->offset;
    return mapping->physical;
}

bool sim_mapping_around(CUdeviceptr address, uint64_t *base, uint64_t *size,
                        const struct sim_physical **physical)
{
    const struct mapping *mapping = mapping_at(address);
    if (!mapping)
        return false;
    *base = mapping->base;
    *size = mapping->size;
    *physical = mapping->physical;
    return true;
}

bool sim_mapping_accessible(CUdeviceptr address)
{
    const struct mapping *mapping = mapping_at(address);
    return mapping && mapping->accessible;
}

static bool fully_mapped(CUdeviceptr ptr, uint64_t size)
{
    while (size) {
        struct mapping *mapping = mapping_at(ptr);
        uint64_t left = mapping ? mapping->size - (ptr - mapping->base) : 0;
        if (!left)
            return false;
        if (left >= size)
            return true;
        ptr += left;
        size -= left;
    }
    return true;
}

CUresult cuMemSetAccess(CUdeviceptr ptr, size_t size, const CUmemAccessDesc *desc, size_t count)
{
    SIM_ENTER(cuMemSetAccess, W(ptr), W(size), W(desc), W(count));
    if (!desc || !count || !size || !fully_mapped(ptr, size))
        return CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < count; i++)
        if (desc[i].location.type == CU_MEM_LOCATION_TYPE_DEVICE &&
            !sim_card_of(desc[i].location.id))
            return CUDA_ERROR_INVALID_DEVICE;
    for (struct mapping *one = sim_range_find(ptr)->more; one; one = one->next)
        if (ptr < one->base + one->size && one->base < ptr + size)
            one->accessible = true;
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
    struct sim_physical *physical = sim_physical_find(handle);
    if (!prop || !physical || physical->memory->multicast)
        return CUDA_ERROR_INVALID_VALUE;
    *prop = physical->memory->props;
    if (physical->imported) /* no import can be exported by what it says (measured) */
        prop->requestedHandleTypes = 0;
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
    *handle = sim_physical_handle(mapping->physical);
    return CUDA_SUCCESS;
}
