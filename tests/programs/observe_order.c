/* Frees of one family by the call of another, and streams that end while work is pending. */
#include "observations.h"

void observe_families(void)
{
    CUstream stream;
    CUdeviceptr direct = 0, block = 0;
    CUmemoryPool pool = NULL;
    CUevent event = NULL;
    uint64_t before;
    observe_begin();
    stream = observe_stream();
    cuEventCreate(&event, CU_EVENT_DISABLE_TIMING);
    cuDeviceGetDefaultMemPool(&pool, 0);
    before = observe_process_bytes();
    /* A direct block freed in stream order. */
    cuMemAlloc(&direct, 64 * MIB);
    observe_code(cuMemFreeAsync(direct, stream), "family.free_async_direct");
    cuEventRecord(event, stream);
    while (cuEventQuery(event) == CUDA_ERROR_NOT_READY)
        ;
    observe_size(observe_process_bytes() - before, "family.free_async_direct.run");
    cuStreamSynchronize(stream);
    observe_size(observe_process_bytes() - before, "family.free_async_direct.synchronized");
    observe_size(observe_reserved(pool), "family.free_async_direct.pool_reserved");
    observe_code(cuMemFree(direct), "family.free_async_direct.free_again");
    /* The same behind a held stream. */
    cuMemAlloc(&direct, 64 * MIB);
    observe_hold(stream);
    observe_code(cuMemFreeAsync(direct, stream), "family.held.free_async_direct");
    observe_fact(observe_was_blocked(), "family.held.free_async_waits");
    observe_size(observe_process_bytes() - before, "family.held.pending");
    /* Not asked: to free it once more. The driver (580) answers 0, and the synchronise with the
     * stream never returns. */
    observe_let_go();
    cuStreamSynchronize(stream);
    observe_size(observe_process_bytes() - before, "family.held.synchronized");
    /* A small one, of a region. */
    cuMemAlloc(&direct, 64 * KIB);
    observe_code(cuMemFreeAsync(direct, stream), "family.free_async_small");
    cuStreamSynchronize(stream);
    observe_size(observe_process_bytes() - before, "family.free_async_small.synchronized");
    /* A pool's block freed at once. */
    cuMemAllocAsync(&block, 64 * MIB, stream);
    cuStreamSynchronize(stream);
    observe_code(cuMemFree(block), "family.free_block");
    observe_size(observe_used(pool), "family.free_block.used");
    observe_size(observe_reserved(pool), "family.free_block.reserved");
    cuStreamSynchronize(stream);
    observe_size(observe_reserved(pool), "family.free_block.synchronized");
    observe_code(cuMemFree(block), "family.free_block_again");
    observe_code(cuMemFreeAsync(block, stream), "family.free_async_block_again");
}

/* cuMemFree of a block while a stream that had it is held: does it wait, what is left? */
void observe_pending_by_sync_free(void)
{
    CUstream stream;
    CUdeviceptr block = 0, direct = 0, small = 0, managed = 0;
    CUmemoryPool pool = NULL;
    observe_begin();
    stream = observe_stream();
    cuDeviceGetDefaultMemPool(&pool, 0);
    cuMemAllocAsync(&block, 64 * MIB, stream);
    cuMemAlloc(&direct, 64 * MIB);
    cuStreamSynchronize(stream);
    observe_hold(stream);
    cuMemFreeAsync(block, stream);
    observe_code(cuMemFree(block), "sync_free.pending_block");
    observe_fact(observe_was_blocked(), "sync_free.pending_block_waits");
    observe_let_go();
    cuStreamSynchronize(stream);
    cuMemAllocAsync(&block, 64 * MIB, stream);
    cuStreamSynchronize(stream);
    observe_hold(stream);
    observe_code(cuMemFree(block), "sync_free.block");
    observe_fact(observe_was_blocked(), "sync_free.block_waits");
    observe_size(observe_reserved(pool), "sync_free.block.reserved");
    observe_let_go();
    cuStreamSynchronize(stream);
    observe_hold(stream);
    observe_code(cuMemFree(direct), "sync_free.direct");
    observe_fact(observe_was_blocked(), "sync_free.direct_waits");
    observe_let_go();
    /* The watchdog lets go of the stream of whatever waits: nothing hangs here. */
    cuMemAlloc(&small, 4096);
    cuMemAllocManaged(&managed, 2 * MIB, CU_MEM_ATTACH_GLOBAL);
    cuStreamSynchronize(stream);
    observe_hold(stream);
    observe_code(cuMemFree(small), "sync_free.small");
    observe_fact(observe_was_blocked(), "sync_free.small_waits");
    observe_let_go();
    observe_hold(stream);
    observe_code(cuMemFree(managed), "sync_free.managed");
    observe_fact(observe_was_blocked(), "sync_free.managed_waits");
    observe_let_go();
    /* Is that wait one that lets go of a pool's freed memory? */
    cuMemAllocAsync(&block, 64 * MIB, stream);
    cuMemAlloc(&direct, 64 * MIB);
    cuStreamSynchronize(stream);
    cuMemFreeAsync(block, stream);
    observe_code(cuMemFree(direct), "sync_free.direct_after_free_async");
    observe_size(observe_reserved(pool), "sync_free.direct_after_free_async.reserved");
    cuStreamSynchronize(stream);
    observe_hold(stream);
    observe_code(cuMemAlloc(&direct, 64 * MIB), "sync_alloc.direct");
    observe_fact(observe_was_blocked(), "sync_alloc.direct_waits");
    observe_let_go();
    cuStreamSynchronize(stream);
}

void observe_stream_end(void)
{
    CUstream stream;
    CUdeviceptr block = 0;
    CUmemoryPool pool = NULL;
    CUcontext context = NULL;
    CUdevice device = -1;
    CUresult (*device_of)(CUstream, CUdevice *) =
        (CUresult(*)(CUstream, CUdevice *))observe_symbol("cuStreamGetDevice");
    observe_begin();
    stream = observe_stream();
    cuDeviceGetDefaultMemPool(&pool, 0);
    observe_code(cuStreamGetCtx(stream, &context), "stream.context");
    observe_code(device_of ? device_of(stream, &device) : CUDA_ERROR_NOT_FOUND,
                 "stream.device");
    observe_code(cuStreamGetCtx(NULL, &context), "stream.context_of_null");
    observe_code(cuStreamGetCtx(CU_STREAM_PER_THREAD, &context),
                 "stream.context_of_per_thread");
    cuMemAllocAsync(&block, 64 * MIB, stream);
    cuStreamSynchronize(stream);
    observe_hold(stream);
    cuMemFreeAsync(block, stream);
    observe_code(cuStreamDestroy(stream), "stream.destroy_held");
    observe_fact(observe_was_blocked(), "stream.destroy_waits");
    observe_size(observe_reserved(pool), "stream.destroyed.reserved");
    observe_let_go();
    cuCtxSynchronize();
    observe_size(observe_reserved(pool), "stream.destroyed.run.reserved");
    observe_code(cuStreamDestroy(NULL), "stream.destroy_null");
    observe_code(cuStreamDestroy(CU_STREAM_LEGACY), "stream.destroy_legacy");
    observe_code(cuStreamDestroy(CU_STREAM_PER_THREAD), "stream.destroy_per_thread");
    /* The stream of a pending free is legacy, and another stream waits for it. */
    stream = NULL;
    cuStreamCreate(&stream, CU_STREAM_DEFAULT);
    observe_hold(stream);
    cuMemAllocAsync(&block, 64 * MIB, NULL);
    cuMemFreeAsync(block, NULL);
    observe_code(cuStreamQuery(NULL), "stream.legacy_waits_for_blocking");
    observe_size(observe_reserved(pool), "stream.legacy.reserved");
    observe_let_go();
    cuCtxSynchronize();
    observe_code(cuStreamQuery(NULL), "stream.legacy_after");
}
