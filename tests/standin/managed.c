/* Managed memory: nothing on the card until it is touched there. The host can use it: it is
 * ordinary memory of the process. */
#include "sim.h"

#include <sys/mman.h>

CUresult sim_managed_new(struct sim_card *card, uint64_t bytes, struct sim_block **block)
{
    uint64_t size;
    void *memory;
    if (bytes > (uint64_t)1 << 45)
        return CUDA_ERROR_OUT_OF_MEMORY;
    size = sim_round_up(bytes, sim_settings.profile->big_round);
    memory = mmap(NULL, size, PROT_READ | PROT_WRITE,
                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED)
        return CUDA_ERROR_OUT_OF_MEMORY;
    *block = sim_range_single(SIM_RANGE_MANAGED, card, (uint64_t)(uintptr_t)memory, size, bytes,
                              false);
    return CUDA_SUCCESS;
}

CUresult cuMemAllocManaged(CUdeviceptr *dptr, size_t bytesize, unsigned int flags)
{
    SIM_ENTER(cuMemAllocManaged, W(dptr), W(bytesize), W(flags));
    SIM_CURRENT(context);
    struct sim_block *block;
    CUresult code;
    if (!dptr)
        return CUDA_ERROR_INVALID_VALUE;
    *dptr = 0; /* a failure leaves it so */
    if (!bytesize || (flags != CU_MEM_ATTACH_GLOBAL && flags != CU_MEM_ATTACH_HOST))
        return CUDA_ERROR_INVALID_VALUE;
    SIM_UNSAFE();
    code = sim_managed_new(context->card, bytesize, &block);
    if (code)
        return code;
    block->context = context;
    *dptr = block->base;
    return CUDA_SUCCESS;
}

static uint64_t chunks(uint64_t bytes)
{
    const uint64_t chunk = sim_settings.profile->managed_chunk;
    return (bytes + chunk - 1) / chunk;
}

/* Measured: the card loses 64 MiB for each 64 MiB of all managed memory that is there, and
 * takes them two by two: 1 MiB took 128, and so did 128 together, 130 took 256. Freeing one of
 * two of 64 left 64. More than the card has room for stays on the host, as page migration has
 * it. */
void sim_touch(uint64_t address)
{
    struct sim_range *range = sim_range_find(address);
    struct sim_card *card;
    uint64_t have, need;
    if (!range || range->kind != SIM_RANGE_MANAGED || range->physical)
        return;
    card = range->card;
    have = chunks(card->use[SIM_USE_MANAGED]);
    need = chunks(card->managed_there + range->size);
    if (need > have &&
        !sim_card_take(card, SIM_USE_MANAGED,
                       sim_round_up(need - have, 2) * sim_settings.profile->managed_chunk))
        return;
    card->managed_there += range->size;
    range->physical = true;
}

void sim_managed_free(struct sim_range *range)
{
    const uint64_t chunk = sim_settings.profile->managed_chunk;
    struct sim_card *card = range->card;
    void *memory = (void *)(uintptr_t)range->base;
    size_t size = range->size;
    if (range->physical) {
        uint64_t have = chunks(card->use[SIM_USE_MANAGED]), back = size / chunk;
        card->managed_there -= size;
        if (back > have - chunks(card->managed_there))
            back = have - chunks(card->managed_there);
        /* With the last one all goes. */
        sim_card_give(card, SIM_USE_MANAGED,
                      card->managed_there ? back * chunk : card->use[SIM_USE_MANAGED]);
    }
    sim_range_drop(range);
    munmap(memory, size);
}

void sim_managed_end(struct sim_context *context)
{
    size_t count;
    struct sim_range **ranges = sim_ranges(&count);
    for (size_t i = count; i-- > 0;)
        if (ranges[i]->kind == SIM_RANGE_MANAGED && ranges[i]->first->context == context)
            sim_managed_free(ranges[i]);
}

static CUresult advise(CUdeviceptr devPtr, size_t count)
{
    struct sim_range *range = sim_range_find(devPtr);
    if (!range || range->kind != SIM_RANGE_MANAGED || !count)
        return CUDA_ERROR_INVALID_VALUE;
    return CUDA_SUCCESS;
}

CUresult cuMemAdvise(CUdeviceptr devPtr, size_t count, CUmem_advise advice, CUdevice device)
{
    SIM_ENTER(cuMemAdvise, W(devPtr), W(count), W(advice), W(device));
    return advise(devPtr, count);
}

CUresult cuMemAdvise_v2(CUdeviceptr devPtr, size_t count, CUmem_advise advice,
                        CUmemLocation location)
{
    SIM_ENTER(cuMemAdvise_v2, W(devPtr), W(count), W(advice), W(location.type), W(location.id));
    return advise(devPtr, count);
}

static CUresult prefetch(CUdeviceptr devPtr, size_t count, bool to_device, CUstream hStream,
                         bool per_thread)
{
    struct sim_stream *stream;
    CUresult code = sim_stream_find(hStream, per_thread, &stream);
    bool captured = false;
    if (!code)
        code = advise(devPtr, count);
    if (!code)
        code = sim_capture_work(stream, &captured);
    if (code || captured)
        return code;
    if (to_device)
        sim_touch(devPtr);
    sim_queue_mark(stream);
    return CUDA_SUCCESS;
}

CUresult cuMemPrefetchAsync(CUdeviceptr devPtr, size_t count, CUdevice dstDevice,
                            CUstream hStream)
{
    SIM_ENTER(cuMemPrefetchAsync, W(devPtr), W(count), W(dstDevice), W(hStream));
    return prefetch(devPtr, count, dstDevice >= 0, hStream, false);
}

CUresult cuMemPrefetchAsync_ptsz(CUdeviceptr devPtr, size_t count, CUdevice dstDevice,
                                 CUstream hStream)
{
    SIM_ENTER(cuMemPrefetchAsync_ptsz, W(devPtr), W(count), W(dstDevice), W(hStream));
    return prefetch(devPtr, count, dstDevice >= 0, hStream, true);
}

CUresult cuMemPrefetchAsync_v2(CUdeviceptr devPtr, size_t count, CUmemLocation location,
                               unsigned int flags, CUstream hStream)
{
    SIM_ENTER(cuMemPrefetchAsync_v2, W(devPtr), W(count), W(location.type), W(location.id),
              W(flags), W(hStream));
    return prefetch(devPtr, count, location.type == CU_MEM_LOCATION_TYPE_DEVICE, hStream,
                    false);
}

CUresult cuMemPrefetchAsync_v2_ptsz(CUdeviceptr devPtr, size_t count, CUmemLocation location,
                                    unsigned int flags, CUstream hStream)
{
    SIM_ENTER(cuMemPrefetchAsync_v2_ptsz, W(devPtr), W(count), W(location.type), W(location.id),
              W(flags), W(hStream));
    return prefetch(devPtr, count, location.type == CU_MEM_LOCATION_TYPE_DEVICE, hStream, true);
}
