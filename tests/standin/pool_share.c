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

/* A block of ours that we have imported: of its steps the importing pool keeps each that the
 * exporting one gives back, until it is destroyed itself, whether the import is freed or not
 * (measured; which of several importers then has it was not). */
static struct share {
    struct share *next;
    struct sim_pool *importer;
    struct sim_heap *exporter; /* NULL: no more */
    uint64_t from, to, step, kept;
    bool has[]; /* for each step */
} * shares;

static void share(struct sim_pool *importer, struct sim_pool *exporter, uint64_t base,
                  uint64_t bytes)
{
    const uint64_t step = exporter->heap.step;
    struct sim_range *range = sim_range_find(base);
    uint64_t from, to;
    struct share *made;
    if (!range || range->heap != &exporter->heap)
        return;
    from = range->base + (base - range->base) / step * step;
    to = range->base + sim_round_up(base + bytes - range->base, step);
    made = sim_new(sizeof(*made) + (to - from) / step * sizeof(bool));
    made->importer = importer;
    made->exporter = &exporter->heap;
    made->from = from;
    made->to = to;
    made->step = step;
    made->next = shares;
    shares = made;
}

void sim_shares_keep(struct sim_heap *heap, uint64_t from, uint64_t to)
{
    for (; from < to; from += heap->step)
        for (struct share *one = shares; one; one = one->next) {
            bool *has;
            if (one->exporter != heap || from < one->from || from >= one->to)
                continue;
            has = &one->has[(from - one->from) / one->step];
            if (*has || !sim_card_take(heap->card, SIM_USE_SHARED, one->step))
                continue;
            *has = true;
            one->kept += one->step;
            break;
        }
}

void sim_shares_end(struct sim_pool *importer)
{
    struct share **at = &shares;
    while (*at) {
        struct share *one = *at;
        if (one->importer != importer) {
            at = &one->next;
            continue;
        }
        sim_card_give(importer->heap.card, SIM_USE_SHARED, one->kept);
        *at = one->next;
        free(one);
    }
}

void sim_shares_no_exporter(struct sim_heap *heap)
{
    for (struct share *one = shares; one; one = one->next)
        if (one->exporter == heap)
            one->exporter = NULL;
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
    for (struct sim_pool *exporter = sim_pools(); exporter; exporter = exporter->next)
        if (ticket.pid == getpid() && (uint64_t)(uintptr_t)exporter == ticket.pool)
            share(found, exporter, ticket.offset, ticket.bytes);
    return CUDA_SUCCESS;
}
