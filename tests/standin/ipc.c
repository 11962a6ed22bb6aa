/* cuIpc: a block of another process gets an address here and costs nothing here. */
#include "sim.h"

#include <unistd.h>

#define MAGIC 0x5a1d0002u

struct ticket {
    unsigned magic;
    int pid;
    int card;
    uint64_t base, bytes;
};

CUresult cuIpcGetMemHandle(CUipcMemHandle *pHandle, CUdeviceptr dptr)
{
    SIM_ENTER(cuIpcGetMemHandle, W(pHandle), W(dptr));
    struct sim_block *block = sim_block_around(dptr);
    struct ticket ticket = {.magic = MAGIC, .pid = getpid()};
    if (!pHandle || !block || block->range->kind != SIM_RANGE_DIRECT)
        return CUDA_ERROR_INVALID_VALUE;
    ticket.card = block->range->card->index;
    ticket.base = block->base;
    ticket.bytes = block->size;
    memset(pHandle, 0, sizeof(*pHandle));
    memcpy(pHandle, &ticket, sizeof(ticket));
    return CUDA_SUCCESS;
}

static CUresult open_handle(CUdeviceptr *pdptr, const CUipcMemHandle *handle)
{
    struct sim_context *context;
    struct ticket ticket;
    struct sim_block *block;
    CUresult code = sim_current(&context);
    if (code)
        return code;
    memcpy(&ticket, handle, sizeof(ticket));
    if (!pdptr || ticket.magic != MAGIC || !ticket.bytes)
        return CUDA_ERROR_INVALID_VALUE;
    if (ticket.pid == getpid())
        return CUDA_ERROR_INVALID_CONTEXT; /* the exporter cannot open its own */
    block = sim_range_single(SIM_RANGE_IMPORTED, context->card, 0,
                             sim_round_up(ticket.bytes, sim_settings.profile->granularity),
                             ticket.bytes, false);
    block->context = context;
    *pdptr = block->base;
    return CUDA_SUCCESS;
}

CUresult cuIpcOpenMemHandle(CUdeviceptr *pdptr, CUipcMemHandle handle, unsigned int Flags)
{
    SIM_ENTER(cuIpcOpenMemHandle, W(pdptr), W(Flags));
    SIM_NOTE(&handle, sizeof(handle));
    return open_handle(pdptr, &handle);
}

CUresult cuIpcOpenMemHandle_v2(CUdeviceptr *pdptr, CUipcMemHandle handle, unsigned int Flags)
{
    SIM_ENTER(cuIpcOpenMemHandle_v2, W(pdptr), W(Flags));
    SIM_NOTE(&handle, sizeof(handle));
    return open_handle(pdptr, &handle);
}

CUresult cuIpcCloseMemHandle(CUdeviceptr dptr)
{
    SIM_ENTER(cuIpcCloseMemHandle, W(dptr));
    struct sim_block *block = sim_block_find(dptr);
    if (!block || block->range->kind != SIM_RANGE_IMPORTED || block->freeing)
        return CUDA_ERROR_INVALID_VALUE;
    sim_range_drop(block->range);
    return CUDA_SUCCESS;
}
