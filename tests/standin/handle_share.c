/* Physical handles that leave the process, and come back. A descriptor is a file that names the
 * memory; it holds the memory until its last copy is closed, in whatever process: each carries
 * a lock that goes with it, and the stand-in has the same file open to look for that. A fabric
 * handle is only data and holds nothing (not measured). */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "physical.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <unistd.h>

#define MAGIC 0x5a1d0003u

struct ticket { /* what is written into the file, or into the fabric handle */
    unsigned magic;
    int pid, card; /* card -1: host memory */
    unsigned short usage;
    unsigned short location;
    uint64_t copy; /* of the library: a process may have several */
    uint64_t id, size;
    uint64_t types;
    bool multicast;
};

_Static_assert(sizeof(struct ticket) <= sizeof(CUmemFabricHandle), "it must fit");

struct sim_descriptor {
    struct sim_descriptor *next;
    int file; /* our own look at it */
    uint64_t born;
};

bool sim_descriptors_open(struct sim_memory *memory)
{
    struct sim_descriptor **at = &memory->descriptors;
    while (*at) {
        struct sim_descriptor *one = *at;
        if (flock(one->file, LOCK_EX | LOCK_NB) != 0) {
            at = &one->next;
            continue;
        }
        *at = one->next;
        close(one->file);
        free(one);
    }
    return memory->descriptors != NULL;
}

uint64_t sim_descriptors_oldest(struct sim_memory *memory)
{
    const struct sim_descriptor *one;
    if (!sim_descriptors_open(memory))
        return 0;
    for (one = memory->descriptors; one->next;)
        one = one->next;
    return one->born;
}

void sim_orphans_settle(void)
{
    struct sim_memory *memory = sim_memories_waiting() ? sim_memories() : NULL;
    while (memory)
        /* The end of a multicast object may end others. */
        if (memory->waiting && sim_memory_check(memory))
            memory = sim_memories();
        else
            memory = memory->next;
}

static const char copy_mark;

static void ticket_fill(struct ticket *ticket, const struct sim_memory *memory)
{
    memset(ticket, 0, sizeof(*ticket));
    ticket->magic = MAGIC;
    ticket->pid = getpid();
    ticket->card = memory->card ? memory->card->index : -1;
    ticket->usage = memory->props.allocFlags.usage;
    ticket->location = (unsigned short)memory->props.location.type;
    ticket->copy = (uint64_t)(uintptr_t)&copy_mark;
    ticket->id = memory->id;
    ticket->size = memory->size;
    ticket->types = memory->props.requestedHandleTypes;
    ticket->multicast = memory->multicast != NULL;
}

/* The file with a lock of its own; -1 where there is none to be had. */
static int descriptor_new(struct sim_memory *memory)
{
    struct sim_descriptor *one;
    struct ticket ticket;
    char path[40];
    int file = memfd_create("standin-handle", 0), own;
    if (file < 0)
        return -1;
    snprintf(path, sizeof(path), "/proc/self/fd/%d", file);
    own = open(path, O_RDWR | O_CLOEXEC);
    ticket_fill(&ticket, memory);
    if (own < 0 || flock(file, LOCK_SH) != 0 ||
        pwrite(file, &ticket, sizeof(ticket), 0) != (ssize_t)sizeof(ticket)) {
        if (own >= 0)
            close(own);
        close(file);
        return -1;
    }
    sim_descriptors_open(memory);
    one = sim_new(sizeof(*one));
    one->file = own;
    one->born = sim_birth();
    one->next = memory->descriptors;
    memory->descriptors = one;
    return file;
}

CUresult cuMemExportToShareableHandle(void *shareableHandle,
                                      CUmemGenericAllocationHandle handle,
                                      CUmemAllocationHandleType handleType,
                                      unsigned long long flags)
{
    SIM_ENTER(cuMemExportToShareableHandle, W(shareableHandle), W(handle), W(handleType),
              W(flags));
    struct sim_physical *physical = sim_physical_find(handle);
    struct sim_memory *memory = physical ? physical->memory : NULL;
    uint64_t types;
    if (!shareableHandle || !memory || flags)
        return CUDA_ERROR_INVALID_VALUE;
    types = memory->multicast ? sim_multicast_types(memory->multicast)
                              : memory->props.requestedHandleTypes;
    if (!(types & handleType))
        return CUDA_ERROR_INVALID_VALUE;
    if (handleType == CU_MEM_HANDLE_TYPE_FABRIC) {
        struct ticket ticket;
        ticket_fill(&ticket, memory);
        memset(shareableHandle, 0, sizeof(CUmemFabricHandle));
        memcpy(shareableHandle, &ticket, sizeof(ticket));
        return CUDA_SUCCESS;
    }
    if (handleType != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
        return CUDA_ERROR_INVALID_VALUE;
    {
        int file = descriptor_new(memory);
        if (file < 0)
            return CUDA_ERROR_OPERATING_SYSTEM;
        *(int *)shareableHandle = file;
    }
    return CUDA_SUCCESS;
}

static struct sim_memory *own_memory(const struct ticket *ticket)
{
    struct sim_memory *memory = sim_memories();
    while (memory && memory->id != ticket->id)
        memory = memory->next;
    return memory;
}

/* Memory of another process: it has its bytes from the card there (in the tests of one process
 * GPUSTANDIN_OTHER may stand for them), and NVML shows them for that one while it is there. */
static struct sim_memory *foreign_memory(const struct ticket *ticket)
{
    CUmemAllocationProp props = {.type = CU_MEM_ALLOCATION_TYPE_PINNED};
    struct sim_card *card = NULL;
    struct sim_memory *memory;
    if (ticket->card >= 0) {
        if (ticket->card >= SIM_MAX_CARDS || sim_cards[ticket->card].ordinal < 0)
            return NULL;
        card = &sim_cards[ticket->card];
        props.location.id = card->ordinal;
    }
    props.location.type = (CUmemLocationType)ticket->location;
    props.requestedHandleTypes = (CUmemAllocationHandleType)ticket->types;
    props.allocFlags.usage = ticket->usage;
    memory = sim_memory_new(card, ticket->size, &props);
    memory->foreign = ticket->pid;
    return memory;
}

CUresult cuMemImportFromShareableHandle(CUmemGenericAllocationHandle *handle, void *osHandle,
                                        CUmemAllocationHandleType shHandleType)
{
    SIM_ENTER(cuMemImportFromShareableHandle, W(handle), W(osHandle), W(shHandleType));
    struct sim_memory *memory;
    struct ticket ticket;
    if (!handle)
        return CUDA_ERROR_INVALID_VALUE;
    if (shHandleType == CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) {
        if (pread((int)(intptr_t)osHandle, &ticket, sizeof(ticket), 0) !=
            (ssize_t)sizeof(ticket))
            return CUDA_ERROR_INVALID_VALUE;
    } else if (shHandleType == CU_MEM_HANDLE_TYPE_FABRIC && osHandle) {
        SIM_NOTE(osHandle, sizeof(CUmemFabricHandle));
        memcpy(&ticket, osHandle, sizeof(ticket));
    } else {
        return CUDA_ERROR_INVALID_VALUE;
    }
    if (ticket.magic != MAGIC || !ticket.size)
        return CUDA_ERROR_INVALID_VALUE;
    if (ticket.pid == getpid() && ticket.copy == (uint64_t)(uintptr_t)&copy_mark)
        memory = own_memory(&ticket);
    else
        memory = ticket.multicast ? NULL : foreign_memory(&ticket);
    if (!memory)
        return CUDA_ERROR_INVALID_VALUE;
    *handle = sim_physical_handle(sim_physical_new(memory, true));
    return CUDA_SUCCESS;
}

/* A dma-buf of a mapped range that one handle backs; it holds the memory as a descriptor does.
 * Not simulated for memory of cuMemAlloc. */
CUresult cuMemGetHandleForAddressRange(void *handle, CUdeviceptr dptr, size_t size,
                                       CUmemRangeHandleType handleType,
                                       unsigned long long flags)
{
    SIM_ENTER(cuMemGetHandleForAddressRange, W(handle), W(dptr), W(size), W(handleType),
              W(flags));
    struct sim_physical *first, *last;
    uint64_t offset;
    int file;
    if (!handle || !size || dptr % 4096 || size % 4096 ||
        handleType != CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD)
        return CUDA_ERROR_INVALID_VALUE;
    if (sim_block_around(dptr))
        return CUDA_ERROR_NOT_SUPPORTED;
    first = sim_physical_at(dptr, &offset);
    last = sim_physical_at(dptr + size - 1, &offset);
    if (!first || first != last || first->memory->multicast)
        return CUDA_ERROR_INVALID_VALUE;
    file = descriptor_new(first->memory);
    if (file < 0)
        return CUDA_ERROR_OPERATING_SYSTEM;
    *(int *)handle = file;
    return CUDA_SUCCESS;
}
