/* Pools and their blocks between processes, as far as one process can play both parts: a handle
 * is a descriptor that names the pool by its owner's process and number. */
#include "sim.h"

#include <stdio.h>
#include <unistd.h>

#define MAGIC 0x5a1d0001u

struct ticket { /* what is written into the shared file, or into exported pointer data */
    unsigned magic;
    int pid;
    int card;
    uint64_t pool, offset, bytes;
};

CUresult cuMemPoolExportToShareableHandle(void *handle_out, CUmemoryPool pool,
                                          CUmemAllocationHandleType handleType,
                                          unsigned long long flags)
{
    SIM_ENTER(cuMemPoolExportToShareableHandle, W(handle_out), W(pool), W(handleType),
              W(flags));
    struct sim_pool *found = sim_object_find(pool, SIM_POOL);
    struct ticket ticket = {.magic = MAGIC, .pid = getpid()};
    FILE *file;
    if (!handle_out || !found || flags || found->is_default || !found->heap.card ||
        handleType != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR ||
        !(found->props.handleTypes & handleType))
        return CUDA_ERROR_INVALID_VALUE;
    file = tmpfile();
    if (!file)
        return CUDA_ERROR_OPERATING_SYSTEM;
    ticket.card = found->heap.card->index;
    ticket.pool = (uint64_t)(uintptr_t)found;
    fwrite(&ticket, sizeof(ticket), 1, file);
    fflush(file);
    *(int *)handle_out = dup(fileno(file));
    fclose(file);
    return CUDA_SUCCESS;
}

CUresult cuMemPoolImportFromShareableHandle(CUmemoryPool *pool_out, void *handle,
                                            CUmemAllocationHandleType handleType,
                                            unsigned long long flags)
{
    SIM_ENTER(cuMemPoolImportFromShareableHandle, W(pool_out), W(handle), W(handleType),
              W(flags));
    struct ticket ticket;
    CUmemPoolProps props = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                            .handleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
                            .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}};
    struct sim_pool *pool;
    if (!pool_out || flags || handleType != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
        return CUDA_ERROR_INVALID_VALUE;
    if (pread((int)(intptr_t)handle, &ticket, sizeof(ticket), 0) != sizeof(ticket) ||
        ticket.magic != MAGIC || ticket.card < 0 || ticket.card >= SIM_MAX_CARDS ||
        sim_cards[ticket.card].ordinal < 0)
        return CUDA_ERROR_INVALID_VALUE;
    props.location.id = sim_cards[ticket.card].ordinal;
    pool = sim_pool_new(&sim_cards[ticket.card], &props);
    pool->imported = true;
    *pool_out = (CUmemoryPool)(void *)pool;
    return CUDA_SUCCESS;
}

CUresult cuMemPoolExportPointer(CUmemPoolPtrExportData *shareData_out, CUdeviceptr ptr)
{
    SIM_ENTER(cuMemPoolExportPointer, W(shareData_out), W(ptr));
    struct sim_block *block = sim_block_find(ptr);
    struct ticket ticket = {.magic = MAGIC, .pid = getpid()};
    struct sim_pool *pool;
    if (!shareData_out || !block || block->range->kind != SIM_RANGE_POOL)
        return CUDA_ERROR_INVALID_VALUE;
    pool = block->range->heap->owner;
    if (!(pool->props.handleTypes & CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR))
        return CUDA_ERROR_INVALID_VALUE;
    ticket.pool = (uint64_t)(uintptr_t)pool;
    ticket.offset = ptr;
    ticket.bytes = block->size;
    memset(shareData_out, 0, sizeof(*shareData_out));
    memcpy(shareData_out, &ticket, sizeof(ticket));
    return CUDA_SUCCESS;
}

/* An imported block has an address and no memory of its own. */
CUresult cuMemPoolImportPointer(CUdeviceptr *ptr_out, CUmemoryPool pool,
                                CUmemPoolPtrExportData *shareData)
{
    SIM_ENTER(cuMemPoolImportPointer, W(ptr_out), W(pool), W(shareData));
    struct sim_pool *found = sim_object_find(pool, SIM_POOL);
    struct ticket ticket;
    struct sim_block *block;
    if (!ptr_out || !found || !found->imported || !shareData)
        return CUDA_ERROR_INVALID_VALUE;
    memcpy(&ticket, shareData, sizeof(ticket));
    if (ticket.magic != MAGIC || !ticket.bytes)
        return CUDA_ERROR_INVALID_VALUE;
    block = sim_range_single(SIM_RANGE_IMPORTED, found->heap.card, 0,
                             sim_round_up(ticket.bytes, sim_settings.profile->granularity),
                             ticket.bytes, false);
    *ptr_out = block->base;
    return CUDA_SUCCESS;
}
