/* Pools: growth, reuse, what is given back when. */
#include "observations.h"

#include <string.h>
#include <unistd.h>

#define FOREVER UINT64_MAX

void observe_pool_growth(void)
{
    static const size_t requests[] = {1, 20, 31, 32, 33, 48, 64, 65, 100, 1000};
    CUstream stream;
    CUdeviceptr block[128] = {0}, more = 0;
    CUmemoryPool pool;
    uint64_t before;
    observe_begin();
    stream = observe_stream();
    for (size_t i = 0; i < sizeof(requests) / sizeof(requests[0]); i++) {
        pool = observe_pool(0, FOREVER);
        before = observe_process_bytes();
        observe_code(cuMemAllocFromPoolAsync(&block[0], requests[i] * MIB, pool, stream),
                     "growth.%zum", requests[i]);
        observe_size(observe_reserved(pool), "growth.%zum.reserved", requests[i]);
        observe_size(observe_process_bytes() - before, "growth.%zum.process", requests[i]);
        observe_size(observe_used(pool), "growth.%zum.used", requests[i]);
        cuMemFreeAsync(block[0], stream);
        cuStreamSynchronize(stream);
        cuMemPoolDestroy(pool);
        observe_size(observe_process_bytes() - before, "growth.%zum.left", requests[i]);
    }
    /* What a small block counts in USED. */
    pool = observe_pool(0, FOREVER);
    cuMemAllocFromPoolAsync(&block[0], 1, pool, stream);
    observe_size(observe_used(pool), "growth.used_of_1");
    cuMemAllocFromPoolAsync(&block[1], 300000, pool, stream);
    observe_size(observe_used(pool), "growth.used_of_1_and_300000");
    observe_size(observe_reserved(pool), "growth.reserved_of_1_and_300000");
    for (int i = 0; i < 2; i++) {
        CUdeviceptr base = 0;
        size_t size = 0;

        cuMemGetAddressRange(&base, &size, block[i]);
        observe_size(size, "growth.range_of_small_%d", i);
    }
    cuMemFreeAsync(block[0], stream);
    cuMemFreeAsync(block[1], stream);
    cuStreamSynchronize(stream);
    cuMemPoolDestroy(pool);
    /* The second step of a pool that has one already: 20 + 20 MiB, then 40. */
    pool = observe_pool(0, FOREVER);
    cuMemAllocFromPoolAsync(&block[0], 20 * MIB, pool, stream);
    cuMemAllocFromPoolAsync(&block[1], 20 * MIB, pool, stream);
    observe_size(observe_reserved(pool), "growth.20m_20m.reserved");
    cuMemAllocFromPoolAsync(&block[2], 40 * MIB, pool, stream);
    observe_size(observe_reserved(pool), "growth.20m_20m_40m.reserved");
    cuMemAllocFromPoolAsync(&block[3], 12 * MIB, pool, stream);
    observe_size(observe_reserved(pool), "growth.20m_20m_40m_12m.reserved");
    for (int i = 0; i < 4; i++)
        cuMemFreeAsync(block[i], stream);
    cuStreamSynchronize(stream);
    cuMemPoolDestroy(pool);
    /* A fragmented pool: 128 blocks of 8 MiB, every second one freed; then 16 MiB, for which
     * there is idle memory enough, but not in one piece. */
    pool = observe_pool(0, FOREVER);
    for (int i = 0; i < 128; i++)
        cuMemAllocFromPoolAsync(&block[i], 8 * MIB, pool, stream);
    observe_size(observe_reserved(pool), "fragments.full.reserved");
    for (int i = 0; i < 128; i += 2)
        cuMemFreeAsync(block[i], stream);
    cuStreamSynchronize(stream);
    observe_size(observe_used(pool), "fragments.half.used");
    observe_size(observe_reserved(pool), "fragments.half.reserved");
    observe_code(cuMemAllocFromPoolAsync(&more, 16 * MIB, pool, stream), "fragments.16m");
    observe_size(observe_reserved(pool), "fragments.16m.reserved");
    cuMemFreeAsync(more, stream);
    cuStreamSynchronize(stream);
    observe_code(cuMemAllocFromPoolAsync(&more, 100 * MIB, pool, stream), "fragments.100m");
    observe_size(observe_reserved(pool), "fragments.100m.reserved");
    cuMemFreeAsync(more, stream);
    cuStreamSynchronize(stream);
    observe_code(cuMemPoolTrimTo(pool, 0), "fragments.trim");
    observe_size(observe_reserved(pool), "fragments.trim.reserved");
    for (int i = 1; i < 128; i += 2)
        cuMemFreeAsync(block[i], stream);
    cuStreamSynchronize(stream);
    cuMemPoolTrimTo(pool, 0);
    observe_size(observe_reserved(pool), "fragments.end.reserved");
    cuMemPoolDestroy(pool);
}

void observe_pool_order(void)
{
    CUstream stream;
    CUevent event = NULL;
    CUdeviceptr block = 0, again = 0;
    CUmemoryPool pool = NULL, current = NULL;
    cuuint64_t value = 0;
    int flag = -1;
    uint64_t before;
    observe_begin();
    stream = observe_stream();
    cuEventCreate(&event, CU_EVENT_DISABLE_TIMING);
    observe_code(cuDeviceGetDefaultMemPool(&pool, 0), "order.default_pool");
    observe_code(cuDeviceGetMemPool(&current, 0), "order.current_pool");
    observe_fact(pool == current, "order.default_is_current");
    cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &value);
    observe_fact((long long)value, "order.threshold");
    cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES, &flag);
    observe_fact(flag, "order.reuse_follow_events");
    cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC, &flag);
    observe_fact(flag, "order.reuse_opportunistic");
    cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES, &flag);
    observe_fact(flag, "order.reuse_internal");
    before = observe_process_bytes();
    observe_code(cuMemAllocAsync(&block, 100 * MIB, stream), "order.alloc");
    observe_size(observe_reserved(pool), "order.alloc.reserved");
    observe_size(observe_process_bytes() - before, "order.alloc.process");
    cuMemFreeAsync(block, stream);
    observe_size(observe_used(pool), "order.freed.used");
    observe_code(cuMemAllocAsync(&again, 100 * MIB, stream), "order.reuse");
    observe_fact(again == block, "order.reuse_same_address");
    cuMemFreeAsync(again, stream);
    cuEventRecord(event, stream);
    while (cuEventQuery(event) == CUDA_ERROR_NOT_READY)
        ;
    observe_size(observe_used(pool), "order.run.used");
    observe_code(cuStreamSynchronize(stream), "order.synchronize");
    observe_size(observe_reserved(pool), "order.synchronized.reserved");
    observe_size(observe_process_bytes() - before, "order.synchronized.process");
    cuMemAllocAsync(&block, 100 * MIB, stream);
    cuMemFreeAsync(block, stream);
    cuEventRecord(event, stream);
    cuEventSynchronize(event);
    observe_size(observe_reserved(pool), "order.event_synchronized.reserved");
    cuCtxSynchronize();
    observe_size(observe_reserved(pool), "order.context_synchronized.reserved");
    value = 64 * MIB;
    observe_code(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &value),
                 "order.set_threshold");
    cuMemAllocAsync(&block, 200 * MIB, stream);
    cuMemFreeAsync(block, stream);
    cuStreamSynchronize(stream);
    observe_size(observe_reserved(pool), "order.threshold_64m.reserved");
    observe_code(cuMemPoolTrimTo(pool, 0), "order.trim");
    observe_size(observe_reserved(pool), "order.trimmed.reserved");
    value = FOREVER;
    cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &value);
    cuMemAllocAsync(&block, 200 * MIB, stream);
    cuMemFreeAsync(block, stream);
    cuStreamSynchronize(stream);
    observe_size(observe_reserved(pool), "order.kept.reserved");
    observe_size(observe_process_bytes() - before, "order.kept.process");
    cuMemPoolTrimTo(pool, 100 * MIB);
    observe_size(observe_reserved(pool), "order.trimmed_to_100m.reserved");
    cuMemPoolTrimTo(pool, 0);
    value = 1;
    observe_code(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, &value),
                 "order.set_reserved_current");
    observe_code(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH, &value),
                 "order.set_reserved_high_1");
    value = 0;
    observe_code(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH, &value),
                 "order.set_reserved_high_0");
    observe_code(cuMemPoolGetAttribute(NULL, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &value),
                 "order.attribute_of_null");
    observe_code(cuMemPoolTrimTo(NULL, 0), "order.trim_null");
}

void observe_pool_pending(void)
{
    CUstream stream, other;
    CUevent event = NULL;
    CUdeviceptr block = 0, again = 0;
    CUmemoryPool pool = NULL;
    size_t left, total;
    observe_begin();
    stream = observe_stream();
    other = observe_stream();
    cuEventCreate(&event, CU_EVENT_DISABLE_TIMING);
    cuDeviceGetDefaultMemPool(&pool, 0);
    cuMemAllocAsync(&block, 512 * MIB, stream);
    cuStreamSynchronize(stream);
    observe_code(observe_hold(stream), "pending.hold");
    observe_code(cuMemFreeAsync(block, stream), "pending.free");
    cuEventRecord(event, stream);
    observe_code(cuEventQuery(event), "pending.event_query");
    observe_code(cuStreamQuery(stream), "pending.stream_query");
    observe_size(observe_used(pool), "pending.used");
    observe_size(observe_reserved(pool), "pending.reserved");
    observe_code(cuMemPoolTrimTo(pool, 0), "pending.trim");
    observe_size(observe_reserved(pool), "pending.trimmed.reserved");
    observe_code(cuStreamSynchronize(other), "pending.synchronize_other");
    observe_size(observe_reserved(pool), "pending.synchronized_other.reserved");
    observe_code(cuMemFreeAsync(block, stream), "pending.free_again");
    observe_code(cuMemFreeAsync(block, other), "pending.free_again_other_stream");
    observe_code(cuPointerGetAttribute(&left, CU_POINTER_ATTRIBUTE_BUFFER_ID, block),
                 "pending.pointer_attribute");
    /* The same stream takes it at once; another grows the pool. */
    observe_code(cuMemAllocAsync(&again, 512 * MIB, stream), "pending.same_stream");
    observe_fact(again == block, "pending.same_stream_same_address");
    observe_size(observe_reserved(pool), "pending.same_stream.reserved");
    cuMemFreeAsync(again, stream);
    observe_code(cuMemAllocAsync(&again, 512 * MIB, other), "pending.other_stream");
    observe_fact(again == block, "pending.other_stream_same_address");
    observe_size(observe_reserved(pool), "pending.other_stream.reserved");
    cuMemFreeAsync(again, other);
    /* A smaller request out of the pending piece, and then the rest. */
    observe_code(cuMemAllocAsync(&again, 64 * MIB, stream), "pending.part");
    observe_size(observe_reserved(pool), "pending.part.reserved");
    cuMemFreeAsync(again, stream);
    /* After a wait for the event the other stream may use it. */
    cuStreamWaitEvent(other, event, 0);
    observe_code(cuMemAllocAsync(&again, 512 * MIB, other), "pending.after_event_wait");
    observe_size(observe_reserved(pool), "pending.after_event_wait.reserved");
    cuMemFreeAsync(again, other);
    observe_fact(observe_was_blocked(), "pending.anything_blocked");
    observe_let_go();
    cuStreamSynchronize(stream);
    cuStreamSynchronize(other);
    observe_size(observe_reserved(pool), "pending.let_go.reserved");
    cuMemGetInfo(&left, &total);
    observe_fact(left <= total, "pending.info_sane");
}

void observe_pool_limits(void)
{
    CUstream stream;
    CUdeviceptr block[6] = {0}, touched = 0x77;
    CUmemoryPool pool;
    size_t left = 0, total = 0;
    observe_begin();
    stream = observe_stream();
    pool = observe_pool(256 * MIB, FOREVER);
    for (int i = 0; i < 5; i++)
        observe_code(cuMemAllocFromPoolAsync(&block[i], 64 * MIB, pool, stream),
                     "limit_256m.block_%d", i + 1);
    observe_size(observe_reserved(pool), "limit_256m.reserved");
    for (int i = 0; i < 5; i++)
        if (block[i])
            cuMemFreeAsync(block[i], stream);
    cuStreamSynchronize(stream);
    observe_code(cuMemAllocFromPoolAsync(&block[0], 128 * MIB, pool, stream),
                 "limit_256m.after_free");
    cuMemFreeAsync(block[0], stream);
    cuStreamSynchronize(stream);
    cuMemPoolDestroy(pool);
    pool = observe_pool(1 * MIB, FOREVER);
    observe_fact(pool != NULL, "limit_1m.made");
    observe_code(cuMemAllocFromPoolAsync(&block[0], 512 * KIB, pool, stream), "limit_1m.512k");
    observe_size(observe_reserved(pool), "limit_1m.reserved");
    observe_code(cuMemAllocFromPoolAsync(&block[1], 16 * MIB, pool, stream), "limit_1m.16m");
    observe_code(cuMemAllocFromPoolAsync(&block[2], 40 * MIB, pool, stream), "limit_1m.40m");
    pool = observe_pool(40 * MIB, FOREVER);
    observe_code(cuMemAllocFromPoolAsync(&block[0], 33 * MIB, pool, stream), "limit_40m.33m");
    observe_size(observe_reserved(pool), "limit_40m.reserved");
    observe_code(cuMemAllocFromPoolAsync(&block[1], 20 * MIB, pool, stream), "limit_40m.20m");
    cuMemGetInfo(&left, &total);
    observe_code(cuMemAllocAsync(&touched, total + GIB, stream), "async.too_big");
    observe_fact(touched == 0x77, "async.too_big_untouched");
    observe_code(cuMemAllocAsync(&touched, SIZE_MAX, stream), "async.absurd");
    observe_code(cuMemAllocAsync(&touched, 0, stream), "async.zero");
    observe_fact(touched == 0x77, "async.zero_untouched");
    observe_code(cuMemAllocAsync(NULL, MIB, stream), "async.null_output");
    touched = 0x77;
    observe_code(cuMemAllocFromPoolAsync(&touched, MIB, NULL, stream), "async.null_pool");
    observe_fact(touched == 0x77, "async.null_pool_untouched");
    observe_code(cuMemAllocFromPoolAsync(NULL, MIB, pool, stream),
                 "async.from_pool_null_output");
    observe_code(cuMemFreeAsync(0, stream), "async.free_null");
    observe_code(cuMemFreeAsync(4096, stream), "async.free_unknown");
    observe_code(cuMemPoolCreate(NULL, NULL), "pool.create_null");
    observe_code(cuMemPoolDestroy(NULL), "pool.destroy_null");
}

void observe_pool_end(void)
{
    CUstream stream;
    CUdeviceptr block = 0, second = 0;
    CUmemoryPool pool, standard = NULL, current = NULL, of_block = NULL;
    uint64_t before;
    observe_begin();
    stream = observe_stream();
    cuDeviceGetDefaultMemPool(&standard, 0);
    before = observe_process_bytes();
    pool = observe_pool(0, FOREVER);
    cuMemAllocFromPoolAsync(&block, 64 * MIB, pool, stream);
    cuStreamSynchronize(stream);
    observe_code(cuMemPoolDestroy(pool), "pool_end.destroy_with_live_block");
    observe_size(observe_process_bytes() - before, "pool_end.process_after");
    observe_code(cuPointerGetAttribute(&of_block, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, block),
                 "pool_end.pool_of_block");
    observe_code(cuMemFreeAsync(block, stream), "pool_end.free_block");
    cuStreamSynchronize(stream);
    observe_size(observe_process_bytes() - before, "pool_end.process_after_free");
    /* The same with a block that is pending when the pool goes. */
    pool = observe_pool(0, FOREVER);
    cuMemAllocFromPoolAsync(&block, 64 * MIB, pool, stream);
    cuStreamSynchronize(stream);
    observe_hold(stream);
    cuMemFreeAsync(block, stream);
    observe_code(cuMemPoolDestroy(pool), "pool_end.destroy_with_pending_block");
    observe_fact(observe_was_blocked(), "pool_end.destroy_waits");
    observe_size(observe_process_bytes() - before, "pool_end.process_while_pending");
    observe_let_go();
    cuStreamSynchronize(stream);
    observe_size(observe_process_bytes() - before, "pool_end.process_after_pending");
    /* The current pool. */
    pool = observe_pool(0, 0);
    observe_code(cuDeviceSetMemPool(0, pool), "pool_end.set_current");
    cuDeviceGetMemPool(&current, 0);
    observe_fact(current == pool, "pool_end.is_current");
    observe_code(cuMemAllocAsync(&second, 64 * MIB, stream), "pool_end.alloc_from_current");
    observe_size(observe_reserved(pool), "pool_end.current.reserved");
    observe_size(observe_reserved(standard), "pool_end.default.reserved");
    observe_code(cuMemPoolDestroy(pool), "pool_end.destroy_current");
    cuDeviceGetMemPool(&current, 0);
    observe_fact(current == standard, "pool_end.default_is_current_again");
    observe_code(cuMemAllocAsync(&block, 64 * MIB, stream), "pool_end.alloc_after");
    observe_size(observe_reserved(standard), "pool_end.default.reserved_after");
    cuMemFreeAsync(block, stream);
    cuMemFreeAsync(second, stream);
    cuStreamSynchronize(stream);
    observe_size(observe_process_bytes() - before, "pool_end.left");
    observe_code(cuMemPoolDestroy(standard), "pool_end.destroy_default");
    observe_code(cuDeviceSetMemPool(0, NULL), "pool_end.set_null_pool");
}

/* A pool that others may have: what is left of it while only a descriptor is. */
void observe_pool_export(void)
{
    CUmemPoolProps properties;
    CUmemoryPool pool = NULL;
    CUdeviceptr block = 0;
    CUstream stream;
    uint64_t process, card;
    int file = -1;
    observe_begin();
    stream = observe_stream();
    process = observe_process_bytes();
    card = observe_card_bytes();
    memset(&properties, 0, sizeof(properties));
    properties.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties.handleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    observe_code(cuMemPoolCreate(&pool, &properties), "pool_export.create");
    observe_code(cuMemAllocFromPoolAsync(&block, 64 * MIB, pool, stream), "pool_export.alloc");
    cuStreamSynchronize(stream);
    observe_code(cuMemPoolExportToShareableHandle(&file, pool,
                                                  CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0),
                 "pool_export.export");
    observe_size(observe_process_bytes() - process, "pool_export.process");
    cuMemFreeAsync(block, stream);
    cuStreamSynchronize(stream);
    observe_code(cuMemPoolDestroy(pool), "pool_export.destroy");
    observe_size(observe_process_bytes() - process, "pool_export.process_after");
    observe_size(observe_card_bytes() - card, "pool_export.card_after");
    close(file);
    observe_size(observe_process_bytes() - process, "pool_export.process_closed");
    observe_size(observe_card_bytes() - card, "pool_export.card_closed");
}
