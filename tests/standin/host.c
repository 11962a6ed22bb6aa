/* Pinned host memory: ordinary memory that the driver remembers. */
#include "sim.h"

#include <sys/mman.h>

static CUresult allocate(void **pp, size_t bytesize, unsigned flags)
{
    struct sim_context *context;
    CUresult code = sim_current(&context);
    struct sim_block *block;
    void *memory;
    if (code)
        return code;
    if (!pp || !bytesize)
        return CUDA_ERROR_INVALID_VALUE;
    SIM_UNSAFE();
    if (bytesize > (uint64_t)1 << 45)
        return CUDA_ERROR_OUT_OF_MEMORY;
    memory = mmap(NULL, sim_round_up(bytesize, 4096), PROT_READ | PROT_WRITE,
                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED)
        return CUDA_ERROR_OUT_OF_MEMORY;
    block = sim_range_single(SIM_RANGE_HOST, NULL, (uint64_t)(uintptr_t)memory,
                             sim_round_up(bytesize, 4096), bytesize, false);
    block->context = context;
    block->flags = flags;
    *pp = memory;
    return CUDA_SUCCESS;
}

CUresult cuMemHostAlloc(void **pp, size_t bytesize, unsigned int Flags)
{
    SIM_ENTER(cuMemHostAlloc, W(pp), W(bytesize), W(Flags));
    return allocate(pp, bytesize, Flags);
}

CUresult cuMemAllocHost_v2(void **pp, size_t bytesize)
{
    SIM_ENTER(cuMemAllocHost_v2, W(pp), W(bytesize));
    return allocate(pp, bytesize, 0);
}

CUresult cuMemAllocHost(void **pp, unsigned int bytesize)
{
    SIM_ENTER(cuMemAllocHost, W(pp), W(bytesize));
    return allocate(pp, bytesize, 0);
}

/* Registered memory is the program's own: the range marks it so. */
static struct sim_block *host_block(const void *p, bool registered)
{
    struct sim_block *block = sim_block_find((uint64_t)(uintptr_t)p);
    if (!block || block->range->kind != SIM_RANGE_HOST ||
        (block->range->more != NULL) != registered)
        return NULL;
    return block;
}

CUresult cuMemFreeHost(void *p)
{
    SIM_ENTER(cuMemFreeHost, W(p));
    SIM_CURRENT(context);
    struct sim_block *block = host_block(p, false);
    (void)context;
    SIM_UNSAFE();
    if (!block)
        return CUDA_ERROR_INVALID_VALUE;
    munmap(p, block->size);
    sim_range_drop(block->range);
    return CUDA_SUCCESS;
}

static CUresult register_memory(void *p, size_t bytesize, unsigned flags)
{
    struct sim_context *context;
    CUresult code = sim_current(&context);
    struct sim_block *block;
    if (code)
        return code;
    if (!p || !bytesize)
        return CUDA_ERROR_INVALID_VALUE;
    if (sim_range_find((uint64_t)(uintptr_t)p))
        return CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
    block = sim_range_single(SIM_RANGE_HOST, NULL, (uint64_t)(uintptr_t)p, bytesize, bytesize,
                             false);
    block->context = context;
    block->flags = flags;
    block->range->more = p;
    return CUDA_SUCCESS;
}

CUresult cuMemHostRegister(void *p, size_t bytesize, unsigned int Flags)
{
    SIM_ENTER(cuMemHostRegister, W(p), W(bytesize), W(Flags));
    return register_memory(p, bytesize, Flags);
}

CUresult cuMemHostRegister_v2(void *p, size_t bytesize, unsigned int Flags)
{
    SIM_ENTER(cuMemHostRegister_v2, W(p), W(bytesize), W(Flags));
    return register_memory(p, bytesize, Flags);
}

CUresult cuMemHostUnregister(void *p)
{
    SIM_ENTER(cuMemHostUnregister, W(p));
    struct sim_block *block = host_block(p, true);
    if (!block)
        return CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
    sim_range_drop(block->range);
    return CUDA_SUCCESS;
}

CUresult cuMemHostGetDevicePointer_v2(CUdeviceptr *pdptr, void *p, unsigned int Flags)
{
    SIM_ENTER(cuMemHostGetDevicePointer_v2, W(pdptr), W(p), W(Flags));
    struct sim_range *range = sim_range_find((uint64_t)(uintptr_t)p);
    if (!pdptr || Flags || !range || range->kind != SIM_RANGE_HOST)
        return CUDA_ERROR_INVALID_VALUE;
    *pdptr = (CUdeviceptr)(uintptr_t)p;
    return CUDA_SUCCESS;
}

CUresult cuMemHostGetFlags(unsigned int *pFlags, void *p)
{
    SIM_ENTER(cuMemHostGetFlags, W(pFlags), W(p));
    struct sim_range *range = sim_range_find((uint64_t)(uintptr_t)p);
    if (!pFlags || !range || range->kind != SIM_RANGE_HOST)
        return CUDA_ERROR_INVALID_VALUE;
    *pFlags = range->first->flags;
    return CUDA_SUCCESS;
}
