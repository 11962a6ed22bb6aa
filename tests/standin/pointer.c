/* What a program can ask about a pointer. */
#include "physical.h"

CUresult cuMemGetAddressRange_v2(CUdeviceptr *pbase, size_t *psize, CUdeviceptr dptr)
{
    SIM_ENTER(cuMemGetAddressRange_v2, W(pbase), W(psize), W(dptr));
    SIM_CURRENT(context);
    struct sim_block *block = sim_block_around(dptr);
    const struct sim_physical *physical;
    uint64_t base, size;
    (void)context;
    if (block) {
        base = block->base;
        size = block->asked;
    } else if (!sim_mapping_accessible(dptr) ||
               !sim_mapping_around(dptr, &base, &size, &physical)) {
        /* A mapping that no device has access to is not found (measured; that one with access
         * is, was not). */
        return CUDA_ERROR_NOT_FOUND;
    }
    if (pbase)
        *pbase = base;
    if (psize)
        *psize = size;
    return CUDA_SUCCESS;
}

CUresult cuMemGetAddressRange(CUdeviceptr_v1 *pbase, unsigned int *psize, CUdeviceptr_v1 dptr)
{
    SIM_ENTER(cuMemGetAddressRange, W(pbase), W(psize), W(dptr));
    SIM_CURRENT(context);
    struct sim_block *block = sim_block_around(dptr);
    (void)context;
    if (!block)
        return CUDA_ERROR_NOT_FOUND;
    if (pbase)
        *pbase = (CUdeviceptr_v1)block->base;
    if (psize)
        *psize = (unsigned)block->asked;
    return CUDA_SUCCESS;
}

/* An address where a handle is mapped: it has no context, and its range is that mapping (not
 * measured). */
static CUresult mapped_attribute(void *data, CUpointer_attribute which, uint64_t address)
{
    const struct sim_physical *physical;
    const struct sim_card *card;
    uint64_t base, size;
    if (!sim_mapping_around(address, &base, &size, &physical))
        return CUDA_ERROR_INVALID_VALUE;
    card = physical->memory->card;
    switch (which) {
    case CU_POINTER_ATTRIBUTE_CONTEXT:
        *(CUcontext *)data = NULL;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
        *(unsigned *)data =
            card || physical->memory->multicast ? CU_MEMORYTYPE_DEVICE : CU_MEMORYTYPE_HOST;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
        *(CUdeviceptr *)data = address;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_BUFFER_ID:
        *(unsigned long long *)data = physical->memory->id;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
        *(int *)data = card ? card->ordinal : 0;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
        *(CUdeviceptr *)data = base;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
        *(size_t *)data = size;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_MAPPED:
        *(bool *)data = true;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
        *(unsigned *)data = CU_POINTER_ATTRIBUTE_ACCESS_FLAG_READWRITE;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
        *(CUmemoryPool *)data = NULL;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
        *(unsigned long long *)data = physical->memory->props.requestedHandleTypes;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
    case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
    case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
        *(int *)data = 0;
        return CUDA_SUCCESS;
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
}

static CUresult attribute(void *data, CUpointer_attribute which, uint64_t address)
{
    const struct sim_block *block = sim_block_around(address);
    const struct sim_graph_memory *memory = block ? NULL : sim_graph_memory_find(address);
    enum sim_range_kind kind = block ? block->range->kind : SIM_RANGE_GRAPH;
    const struct sim_card *card = block ? block->range->card : memory ? memory->card : NULL;
    if (!data)
        return CUDA_ERROR_INVALID_VALUE;
    if (!block && !memory) {
        if (!mapped_attribute(data, which, address))
            return CUDA_SUCCESS;
        if (which != CU_POINTER_ATTRIBUTE_MAPPED)
            return CUDA_ERROR_INVALID_VALUE;
        *(bool *)data = false;
        return CUDA_SUCCESS;
    }
    switch (which) {
    case CU_POINTER_ATTRIBUTE_CONTEXT:
        *(CUcontext *)data = block ? (CUcontext)(void *)block->context : NULL;
        break;
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
        *(unsigned *)data = kind == SIM_RANGE_HOST ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
        break;
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
        *(CUdeviceptr *)data = address;
        break;
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
        if (kind != SIM_RANGE_HOST && kind != SIM_RANGE_MANAGED)
            return CUDA_ERROR_INVALID_VALUE;
        *(void **)data = (void *)(uintptr_t)address;
        break;
    case CU_POINTER_ATTRIBUTE_BUFFER_ID:
        *(unsigned long long *)data = block ? block->buffer_id : memory->address;
        break;
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
        *(int *)data = kind == SIM_RANGE_MANAGED;
        break;
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
        *(int *)data = card ? card->ordinal : 0;
        break;
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
        *(CUdeviceptr *)data = block ? block->base : memory->address;
        break;
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
        *(size_t *)data = block ? block->asked : memory->bytes;
        break;
    case CU_POINTER_ATTRIBUTE_MAPPED:
        *(bool *)data = true;
        break;
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
        *(int *)data = kind == SIM_RANGE_DIRECT;
        break;
    case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
        *(unsigned *)data = CU_POINTER_ATTRIBUTE_ACCESS_FLAG_READWRITE;
        break;
    case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
        *(CUmemoryPool *)data =
            kind == SIM_RANGE_POOL && block ? (CUmemoryPool)block->range->heap->owner : NULL;
        break;
    case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
    case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
    case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
        *(int *)data = 0;
        break;
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
    return CUDA_SUCCESS;
}

CUresult cuPointerGetAttribute(void *data, CUpointer_attribute attribute_, CUdeviceptr ptr)
{
    SIM_ENTER(cuPointerGetAttribute, W(data), W(attribute_), W(ptr));
    return attribute(data, attribute_, ptr);
}

CUresult cuPointerGetAttributes(unsigned int numAttributes, CUpointer_attribute *attributes,
                                void **data, CUdeviceptr ptr)
{
    SIM_ENTER(cuPointerGetAttributes, W(numAttributes), W(attributes), W(data), W(ptr));
    SIM_CURRENT(context);
    (void)context;
    if (!attributes || !data)
        return CUDA_ERROR_INVALID_VALUE;
    for (unsigned i = 0; i < numAttributes; i++)
        if (attribute(data[i], attributes[i], ptr) && data[i])
            memset(data[i], 0,
                   attributes[i] == CU_POINTER_ATTRIBUTE_MEMORY_TYPE ||
                           attributes[i] == CU_POINTER_ATTRIBUTE_IS_MANAGED ||
                           attributes[i] == CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL
                       ? 4
                       : 8);
    return CUDA_SUCCESS;
}

CUresult cuPointerSetAttribute(const void *value, CUpointer_attribute attribute_,
                               CUdeviceptr ptr)
{
    SIM_ENTER(cuPointerSetAttribute, W(value), W(attribute_), W(ptr));
    if (!value || attribute_ != CU_POINTER_ATTRIBUTE_SYNC_MEMOPS || !sim_block_around(ptr))
        return CUDA_ERROR_INVALID_VALUE;
    return CUDA_SUCCESS;
}
