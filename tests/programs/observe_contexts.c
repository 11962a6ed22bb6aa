/* Contexts: what they cost, and what is left when they end. */
#include "observations.h"

void observe_contexts(void)
{
    CUcontext first, second = NULL, current = NULL;
    CUcontext touched = (CUcontext)(uintptr_t)0x77;
    uint64_t before, middle;
    unsigned version = 0, flags = 0;
    int active = -1;
    CUdevice device = -1;
    cuInit(0);
    observe_fact(observe_has_nvml(), "nvml");
    before = observe_process_bytes();
    first = observe_primary();
    middle = observe_process_bytes();
    observe_size(middle - before, "context.first");
    observe_code(observe_context_create(&second, 0, 0), "context.second");
    observe_size(observe_process_bytes() - middle, "context.second");
    observe_code(cuCtxGetCurrent(&current), "context.current");
    observe_fact(current == second, "context.created_is_current");
    observe_code(cuCtxGetApiVersion(second, &version), "context.api_version");
    observe_fact(version, "context.api_version");
    observe_code(cuCtxGetApiVersion(NULL, &version), "context.api_version_of_null");
    observe_code(cuCtxGetDevice(&device), "context.device");
    observe_code(cuCtxDestroy(second), "context.destroy");
    observe_size(observe_process_bytes() - middle, "context.left_by_second");
    cuCtxGetCurrent(&current);
    observe_fact(current == first, "context.current_after_destroy_is_first");
    observe_code(cuCtxDestroy(first), "context.destroy_primary");
    observe_code(cuCtxDestroy(NULL), "context.destroy_null");
    observe_code(cuCtxDetach(NULL), "context.detach_null");
    observe_code(cuCtxDetach(first), "context.detach_primary");
    cuDevicePrimaryCtxGetState(0, &flags, &active);
    observe_fact(active, "context.active_after_detach");
    observe_code(observe_context_create(&touched, 0xffff, 0), "context.bad_flags");
    observe_fact(touched == (CUcontext)(uintptr_t)0x77, "context.bad_flags_untouched");
    observe_code(cuMemFree(0), "context.usable_after");
}

void observe_context_end(void)
{
    CUcontext primary, context = NULL;
    CUdeviceptr direct = 0, block = 0, managed = 0;
    CUstream stream = NULL;
    CUevent event = NULL;
    CUmemoryPool pool = NULL;
    uint64_t before;
    size_t size = 0;
    CUdeviceptr base = 0;
    primary = observe_primary();
    cuDeviceGetDefaultMemPool(&pool, 0);
    before = observe_process_bytes();
    observe_context_create(&context, 0, 0);
    observe_code(cuMemAlloc(&direct, 64 * MIB), "context_end.alloc");
    observe_code(cuMemAllocManaged(&managed, 2 * MIB, CU_MEM_ATTACH_GLOBAL),
                 "context_end.alloc_managed");
    cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING);
    cuEventCreate(&event, 0);
    observe_code(cuMemAllocAsync(&block, 64 * MIB, stream), "context_end.alloc_async");
    cuStreamSynchronize(stream);
    observe_code(cuCtxDestroy(context), "context_end.destroy");
    cuCtxSetCurrent(primary);
    observe_size(observe_process_bytes() - before, "context_end.process_after");
    observe_size(observe_reserved(pool), "context_end.pool_reserved_after");
    observe_size(observe_used(pool), "context_end.pool_used_after");
    observe_code(cuMemGetAddressRange(&base, &size, direct), "context_end.range_of_direct");
    observe_code(cuMemGetAddressRange(&base, &size, block), "context_end.range_of_block");
    observe_code(cuMemFree(direct), "context_end.free_direct");
    observe_code(cuMemFree(managed), "context_end.free_managed");
    observe_code(cuMemFreeAsync(block, CU_STREAM_LEGACY), "context_end.free_async_block");
    cuCtxSynchronize();
    observe_size(observe_reserved(pool), "context_end.pool_reserved_at_last");
    /* A block that is pending on a stream of the context that ends. */
    observe_context_create(&context, 0, 0);
    cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING);
    cuMemAllocAsync(&block, 64 * MIB, stream);
    observe_hold(stream);
    cuMemFreeAsync(block, stream);
    observe_code(cuCtxDestroy(context), "context_end.destroy_with_held_stream");
    observe_fact(observe_was_blocked(), "context_end.destroy_waits");
    observe_let_go();
    cuCtxSetCurrent(primary);
    cuCtxSynchronize();
    observe_size(observe_reserved(pool), "context_end.reserved_after_held");
}

void observe_primary_life(void)
{
    CUcontext context = NULL, again = NULL, current = NULL;
    CUdeviceptr direct = 0;
    unsigned flags = 0, version = 0;
    int active = 0;
    size_t left, total;
    cuInit(0);
    observe_code(cuDevicePrimaryCtxSetFlags(0, CU_CTX_SCHED_BLOCKING_SYNC),
                 "primary.set_flags_inactive");
    cuDevicePrimaryCtxGetState(0, &flags, &active);
    observe_fact(active, "primary.active_after_set_flags");
    observe_fact(flags, "primary.flags_inactive");
    observe_fact((long long)(observe_process_bytes() >> 20 > 0),
                 "primary.bytes_after_set_flags");
    observe_code(cuDevicePrimaryCtxRetain(&context, 0), "primary.retain");
    observe_code(cuDevicePrimaryCtxRetain(&again, 0), "primary.retain_again");
    observe_fact(context == again, "primary.same");
    cuCtxGetCurrent(&current);
    observe_fact(current == NULL, "primary.retain_does_not_make_current");
    cuCtxSetCurrent(context);
    observe_code(cuDevicePrimaryCtxSetFlags(0, CU_CTX_SCHED_SPIN), "primary.set_flags_active");
    cuDevicePrimaryCtxGetState(0, &flags, &active);
    observe_fact(flags, "primary.flags_active");
    observe_code(cuDevicePrimaryCtxSetFlags(0, 0xffff), "primary.set_bad_flags");
    observe_code(cuMemAlloc(&direct, 4 * MIB), "primary.alloc");
    observe_code(cuDevicePrimaryCtxRelease(0), "primary.release");
    cuDevicePrimaryCtxGetState(0, &flags, &active);
    observe_fact(active, "primary.active_after_one_release");
    observe_code(cuDevicePrimaryCtxRelease(0), "primary.release_last");
    cuDevicePrimaryCtxGetState(0, &flags, &active);
    observe_fact(active, "primary.active_after_last_release");
    observe_code(cuMemFree(direct), "primary.free_after_release");
    observe_code(cuMemAlloc(&direct, 4 * MIB), "primary.alloc_after_release");
    observe_code(cuMemGetInfo(&left, &total), "primary.info_after_release");
    observe_code(cuCtxGetCurrent(&current), "primary.current_after_release");
    observe_fact(current == context, "primary.still_current");
    observe_code(cuDevicePrimaryCtxRelease(0), "primary.release_too_often");
    observe_code(cuDevicePrimaryCtxRetain(&again, 0), "primary.revive");
    observe_fact(again == context, "primary.revived_same_handle");
    observe_code(cuMemAlloc(&direct, 4 * MIB), "primary.alloc_after_revive");
    observe_code(cuCtxSetCurrent(again), "primary.set_current_revived");
    observe_code(cuMemAlloc(&direct, 4 * MIB), "primary.alloc_revived");
    cuDevicePrimaryCtxRetain(&again, 0);
    observe_code(cuDevicePrimaryCtxReset(0), "primary.reset");
    cuDevicePrimaryCtxGetState(0, &flags, &active);
    observe_fact(active, "primary.active_after_reset");
    observe_code(cuMemFree(direct), "primary.free_after_reset");
    observe_code(cuCtxGetApiVersion(again, &version), "primary.api_version_after_reset");
    observe_code(cuDevicePrimaryCtxRelease(0), "primary.release_after_reset");
    observe_code(cuDevicePrimaryCtxRelease(0), "primary.release_after_reset_again");
    observe_code(cuDevicePrimaryCtxRelease(0), "primary.release_after_reset_third");
}

/* Last of all: a driver may well die of these. */
void observe_ended_handles(void)
{
    CUcontext primary = observe_primary(), context = NULL;
    CUevent event = NULL;
    unsigned version = 0;
    CUdeviceptr pointer = 0;
    CUmemoryPool pool;
    observe_context_create(&context, 0, 0);
    cuEventCreate(&event, 0);
    cuCtxDestroy(context);
    cuCtxSetCurrent(primary);
    observe_code(cuCtxGetApiVersion(context, &version), "ended.context_api_version");
    observe_code(cuCtxSetCurrent(context), "ended.context_set_current");
    observe_code(cuCtxPushCurrent(context), "ended.context_push");
    cuCtxSetCurrent(primary);
    /* Not asked: to end it once more, which looks into memory that is no more (580 answered 201
     * in one run and 709 in another). */
    pool = observe_pool(0, 0);
    cuMemPoolDestroy(pool);
    observe_code(cuMemAllocFromPoolAsync(&pointer, MIB, pool, CU_STREAM_LEGACY),
                 "ended.pool_alloc");
    observe_code(cuMemPoolTrimTo(pool, 0), "ended.pool_trim");
    observe_code(cuMemPoolDestroy(pool), "ended.pool_destroy");
    observe_code(cuEventQuery(event), "ended.event_query");
    /* Not asked: a stream of an ended context. The driver crashes (580). */
}
