/* cuIpc: a block of another process gets an address here and costs nothing here. NVML shows it
 * for that process, and when that has ended, for this one (measured). */
#include "sim.h"

#include <errno.h>
#include <signal.h>
#include <unistd.h>

#define MAGIC 0x5a1d0002u

/* What stands behind an address that was opened: each process has it once in a context. */
struct opened {
    struct opened *next; /* few, and never freed */
    uint64_t base;
    int pid;
    unsigned references;
};

static struct opened *all;

struct ticket {
    unsigned magic;
    int pid;
    int card;
    uint64_t base, bytes;
};

bool sim_process_ended(int pid)
{
    return kill(pid, 0) != 0 && errno == ESRCH;
}

uint64_t sim_ipc_inherited_bytes(const struct sim_card *card)
{
    uint64_t bytes = 0;
    size_t count;
    struct sim_range **ranges = sim_ranges(&count);
    for (size_t i = 0; i < count; i++) {
        const struct opened *opened = ranges[i]->more;
        if (ranges[i]->kind == SIM_RANGE_IMPORTED && ranges[i]->card == card && opened &&
            sim_process_ended(opened->pid))
            bytes += ranges[i]->size;
    }
    return bytes;
}

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

static struct sim_block *already_open(const struct sim_context *context,
                                      const struct ticket *ticket)
{
    size_t count;
    struct sim_range **ranges = sim_ranges(&count);
    for (size_t i = 0; i < count; i++) {
        const struct opened *opened = ranges[i]->more;
        if (ranges[i]->kind == SIM_RANGE_IMPORTED && opened &&
            ranges[i]->first->context == context && opened->pid == ticket->pid &&
            opened->base == ticket->base)
            return ranges[i]->first;
    }
    return NULL;
}

static CUresult open_handle(CUdeviceptr *pdptr, const CUipcMemHandle *handle)
{
    struct sim_context *context;
    struct ticket ticket;
    struct sim_block *block;
    struct opened *opened;
    CUresult code = sim_current(&context);
    if (code)
        return code;
    memcpy(&ticket, handle, sizeof(ticket));
    if (!pdptr || ticket.magic != MAGIC || !ticket.bytes)
        return CUDA_ERROR_INVALID_VALUE;
    if (ticket.pid == getpid())
        return CUDA_ERROR_INVALID_CONTEXT; /* the exporter cannot open its own */
    block = already_open(context, &ticket);
    if (!block) {
        block = sim_range_single(SIM_RANGE_IMPORTED, context->card, 0,
                                 sim_round_up(ticket.bytes, sim_settings.profile->granularity),
                                 ticket.bytes, false);
        block->context = context;
        opened = sim_new(sizeof(*opened));
        opened->next = all;
        all = opened;
        opened->base = ticket.base;
        opened->pid = ticket.pid;
        block->range->more = opened;
    }
    opened = block->range->more;
    opened->references++;
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
    struct opened *opened = block ? block->range->more : NULL;
    if (!opened || block->range->kind != SIM_RANGE_IMPORTED)
        return CUDA_ERROR_INVALID_VALUE;
    if (--opened->references == 0)
        sim_range_drop(block->range);
    return CUDA_SUCCESS;
}
