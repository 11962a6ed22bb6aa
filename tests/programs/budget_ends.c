/*
 * budget_ends.c: memory that ends without being freed, and frees that are not over.
 *
 *     budget_ends
 *
 * Contexts, primary contexts, streams and pools end with something left in them. After each end
 * the ledger is what the stand-in holds (footprint mode) or what the program still has and what
 * is not proven (requested mode).
 */
#define _GNU_SOURCE
#include "budget_program.h"

static CUcontext primary;

/* A stream that waits for the host: work is queued, none of it runs until it is opened. */
struct gate {
    cuuint32_t *word;
    CUdeviceptr address;
};

static void gate_close(struct gate *gate, CUstream stream)
{
    if (!gate->word) {
        MUST(cuMemHostAlloc((void **)&gate->word, sizeof(*gate->word),
                            CU_MEMHOSTALLOC_DEVICEMAP));
        MUST(cuMemHostGetDevicePointer_v2(&gate->address, gate->word, 0));
    }
    *(volatile cuuint32_t *)gate->word = 0;
    MUST(cuStreamWaitValue32(stream, gate->address, 1, CU_STREAM_WAIT_VALUE_EQ));
}

static void gate_open(struct gate *gate)
{
    *(volatile cuuint32_t *)gate->word = 1;
}

/* requested: what the program holds, by its own count. */
static void expect_ledger_at(int line, uint64_t requested)
{
    /* The question comes first: it lets the driver give back what has run. */
    uint64_t used = info_used();
    uint64_t wanted = charge_is_requested() ? requested : sim.live_bytes(0);

    if (used != wanted)
        case_fails("line %d: the ledger says %" PRIu64 ", not %" PRIu64, line, used, wanted);
}

#define EXPECT_LEDGER(requested) expect_ledger_at(__LINE__, (requested))

/* In footprint mode more may be charged than is there, never less. */
static void expect_ledger_from_at(int line, uint64_t requested)
{
    /* The question comes first: it lets the driver give back what has run. */
    uint64_t used = info_used();
    uint64_t wanted = charge_is_requested() ? requested : sim.live_bytes(0);

    if (used < wanted || (charge_is_requested() && used != wanted))
        case_fails("line %d: the ledger says %" PRIu64 ", not %" PRIu64 " or more", line, used,
                   wanted);
}

#define EXPECT_LEDGER_FROM(requested) expect_ledger_from_at(__LINE__, (requested))

static CUstream new_stream(void)
{
    CUstream stream;

    MUST(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    return stream;
}

static void context_with_direct_blocks(void)
{
    CUdeviceptr block, kept;
    CUcontext context;
    size_t pitch;

    case_begin("context-with-direct-blocks");
    EXPECT_OK(cuMemAlloc_v2(&kept, 10 * MIB));
    MUST(cuCtxCreate_v2(&context, 0, 0));
    EXPECT_OK(cuMemAlloc_v2(&block, 100 * MIB));
    EXPECT_OK(cuMemAlloc_v2(&block, 1000));
    EXPECT_OK(cuMemAlloc_v2(&block, 1000));
    EXPECT_OK(cuMemAllocPitch_v2(&block, &pitch, 1000, 5000, 4));
    EXPECT_LEDGER(110 * MIB + 2000 + pitch * 5000);
    EXPECT_OK(cuCtxDestroy_v2(context));
    EXPECT_LEDGER(10 * MIB);
    EXPECT_OK(cuMemFree_v2(kept));
    EXPECT_LEDGER(0);
    case_end();
}

static void context_with_pool_blocks(void)
{
    CUdeviceptr ordered, direct;
    CUcontext context;
    CUstream stream, home = new_stream();

    case_begin("context-with-pool-blocks");
    MUST(cuCtxCreate_v2(&context, 0, 0));
    stream = new_stream();
    EXPECT_OK(cuMemAllocAsync(&ordered, 100 * MIB, stream));
    EXPECT_OK(cuMemAlloc_v2(&direct, 50 * MIB));
    EXPECT_OK(cuCtxDestroy_v2(context));
    /* The pool's block lives on; the direct one has gone. */
    EXPECT_LEDGER(100 * MIB);
    EXPECT_OK(cuMemFreeAsync(ordered, home));
    EXPECT_OK(cuStreamSynchronize(home));
    EXPECT_LEDGER(0);
    EXPECT_OK(cuStreamDestroy_v2(home));
    case_end();
}

static void context_with_pending_frees(void)
{
    struct gate gate = {0};
    CUdeviceptr ordered, direct;
    CUcontext context;
    CUstream stream;

    case_begin("context-with-pending-frees");
    MUST(cuCtxCreate_v2(&context, 0, 0));
    stream = new_stream();
    EXPECT_OK(cuMemAllocAsync(&ordered, 100 * MIB, stream));
    EXPECT_OK(cuMemAlloc_v2(&direct, 50 * MIB));
    gate_close(&gate, stream);
    EXPECT_OK(cuMemFreeAsync(ordered, stream));
    EXPECT_OK(cuMemFreeAsync(direct, stream));
    EXPECT_LEDGER(150 * MIB);
    gate_open(&gate);
    EXPECT_OK(cuCtxDestroy_v2(context));
    EXPECT_OK(cuCtxSynchronize());
    EXPECT_LEDGER(0);
    case_end();
}

static void detach(void)
{
    CUcontext context, same;
    CUdeviceptr block;

    case_begin("detach");
    MUST(cuCtxCreate_v2(&context, 0, 0));
    MUST(cuCtxAttach(&same, 0));
    EXPECT_OK(cuMemAlloc_v2(&block, 20 * MIB));
    EXPECT_OK(cuCtxDetach(same));
    EXPECT_LEDGER(20 * MIB);
    EXPECT_OK(cuCtxDetach(context));
    MUST(cuCtxSetCurrent(primary));
    EXPECT_LEDGER(0);
    case_end();
}

static void primary_release(void)
{
    CUcontext same;
    CUdeviceptr block;

    case_begin("primary-release");
    MUST(cuDevicePrimaryCtxRetain(&same, 0));
    EXPECT_OK(cuMemAlloc_v2(&block, 20 * MIB));
    EXPECT_OK(cuDevicePrimaryCtxRelease_v2(0));
    EXPECT_LEDGER(20 * MIB); /* one reference is left */
    EXPECT_OK(cuDevicePrimaryCtxRelease_v2(0));
    EXPECT_CODE(cuMemAlloc_v2(&block, MIB), CUDA_ERROR_CONTEXT_IS_DESTROYED);
    MUST(cuDevicePrimaryCtxRetain(&primary, 0));
    MUST(cuCtxSetCurrent(primary));
    EXPECT_LEDGER(0);
    EXPECT_OK(cuMemAlloc_v2(&block, 20 * MIB));
    EXPECT_LEDGER(20 * MIB);
    EXPECT_OK(cuMemFree_v2(block));
    EXPECT_LEDGER(0);
    case_end();
}

static void primary_reset(void)
{
    CUdeviceptr block, ordered;
    CUcontext same;
    CUstream stream = new_stream();

    case_begin("primary-reset");
    MUST(cuDevicePrimaryCtxRetain(&same, 0));
    EXPECT_OK(cuMemAlloc_v2(&block, 20 * MIB));
    EXPECT_OK(cuMemAllocAsync(&ordered, 40 * MIB, stream));
    EXPECT_OK(cuStreamSynchronize(stream));
    EXPECT_OK(cuDevicePrimaryCtxReset_v2(0)); /* with two references left */
    MUST(cuDevicePrimaryCtxRetain(&primary, 0));
    MUST(cuCtxSetCurrent(primary));
    EXPECT_LEDGER(40 * MIB);
    EXPECT_OK(cuMemFree_v2(ordered));
    EXPECT_OK(cuCtxSynchronize());
    EXPECT_LEDGER(0);
    case_end();
}

static void stream_with_pending_frees(void)
{
    struct gate gate = {0};
    CUdeviceptr ordered, direct, late;
    CUstream stream = new_stream();

    case_begin("stream-with-pending-frees");
    EXPECT_OK(cuMemAllocAsync(&ordered, 100 * MIB, stream));
    EXPECT_OK(cuMemAllocAsync(&late, 50 * MIB, stream));
    EXPECT_OK(cuMemAlloc_v2(&direct, 30 * MIB));
    gate_close(&gate, stream);
    EXPECT_OK(cuMemFreeAsync(ordered, stream));
    EXPECT_OK(cuMemFreeAsync(direct, stream));
    EXPECT_OK(cuMemFreeAsync(late, stream));
    EXPECT_OK(cuStreamDestroy_v2(stream));
    /* Nothing of it has run yet. */
    EXPECT_LEDGER(180 * MIB);
    gate_open(&gate);
    EXPECT_LEDGER(0);
    case_end();
}

/* A later stream may get the same handle; its frees are its own. */
static void stream_handles_again(void)
{
    CUdeviceptr block;

    case_begin("stream-handles-again");
    for (int i = 0; i < 50; i++) {
        struct gate gate = {0};
        CUstream stream = new_stream();

        EXPECT_OK(cuMemAllocAsync(&block, 8 * MIB, stream));
        if (i % 3 == 0)
            gate_close(&gate, stream);
        EXPECT_OK(cuMemFreeAsync(block, stream));
        EXPECT_OK(cuStreamDestroy_v2(stream));
        if (i % 3 == 0) {
            EXPECT_LEDGER_FROM(8 * MIB);
            gate_open(&gate);
            EXPECT_OK(cuMemFreeHost(gate.word));
        }
    }
    EXPECT_OK(cuCtxSynchronize());
    EXPECT_LEDGER(0);
    case_end();
}

static void pool_with_blocks(void)
{
    CUstream stream = new_stream(), other = new_stream();
    struct gate gate = {0};
    CUdeviceptr live, second, pending;
    CUmemoryPool pool = make_pool(0);

    case_begin("pool-with-blocks");
    EXPECT_OK(cuMemAllocFromPoolAsync(&live, 40 * MIB, pool, stream));
    EXPECT_OK(cuMemAllocFromPoolAsync(&second, 40 * MIB, pool, stream));
    EXPECT_OK(cuMemAllocFromPoolAsync(&pending, 100 * MIB, pool, stream));
    EXPECT_OK(cuStreamSynchronize(stream));
    gate_close(&gate, stream);
    EXPECT_OK(cuMemFreeAsync(pending, stream));
    EXPECT_OK(cuMemPoolDestroy(pool));
    EXPECT_LEDGER_FROM(180 * MIB);
    EXPECT_OK(cuMemFreeAsync(second, other));
    EXPECT_OK(cuStreamSynchronize(other));
    EXPECT_LEDGER_FROM(140 * MIB);
    /* The last block's free is over, the first one's not. */
    EXPECT_OK(cuMemFreeAsync(live, other));
    EXPECT_OK(cuStreamSynchronize(other));
    EXPECT_LEDGER_FROM(100 * MIB);
    gate_open(&gate);
    EXPECT_OK(cuStreamSynchronize(stream));
    EXPECT_LEDGER(0);
    EXPECT_OK(cuStreamDestroy_v2(stream));
    EXPECT_OK(cuStreamDestroy_v2(other));
    case_end();
}

static void pool_with_pending_only(void)
{
    CUstream stream = new_stream();
    struct gate gate = {0};
    CUdeviceptr pending;
    CUmemoryPool pool = make_pool(0);

    case_begin("pool-with-pending-only");
    EXPECT_OK(cuMemAllocFromPoolAsync(&pending, 100 * MIB, pool, stream));
    gate_close(&gate, stream);
    EXPECT_OK(cuMemFreeAsync(pending, stream));
    EXPECT_OK(cuMemPoolDestroy(pool));
    EXPECT_LEDGER_FROM(100 * MIB);
    gate_open(&gate);
    EXPECT_OK(cuStreamSynchronize(stream));
    EXPECT_LEDGER(0);
    EXPECT_OK(cuStreamDestroy_v2(stream));
    case_end();
}

static void trim_and_threshold(void)
{
    CUmemoryPool pool = make_pool(0);
    CUstream stream = new_stream();
    cuuint64_t nothing = 0;
    CUdeviceptr block;
    uint64_t before = info_used();

    case_begin("trim-and-threshold");
    keep_pool_memory(pool);
    EXPECT_OK(cuMemAllocFromPoolAsync(&block, 100 * MIB, pool, stream));
    EXPECT_OK(cuMemFreeAsync(block, stream));
    EXPECT_OK(cuStreamSynchronize(stream));
    if (!charge_is_requested())
        EXPECT(info_used() >= before + 100 * MIB); /* kept by the pool */
    EXPECT_LEDGER(0);
    EXPECT_OK(cuMemPoolTrimTo(pool, 0));
    EXPECT_LEDGER(0);
    EXPECT_EQUAL(info_used(), before);

    EXPECT_OK(cuMemAllocFromPoolAsync(&block, 100 * MIB, pool, stream));
    EXPECT_OK(cuMemFreeAsync(block, stream));
    EXPECT_OK(cuStreamSynchronize(stream));
    EXPECT_OK(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &nothing));
    EXPECT_OK(cuStreamSynchronize(stream));
    EXPECT_EQUAL(info_used(), before);
    EXPECT_OK(cuMemPoolDestroy(pool));
    EXPECT_OK(cuStreamDestroy_v2(stream));
    case_end();
}

static void current_pool(void)
{
    CUmemoryPool pool = make_pool(0), usual, now;
    CUmemLocation here = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
    CUstream stream = new_stream();
    CUdeviceptr first, second, third;

    case_begin("current-pool");
    MUST(cuDeviceGetDefaultMemPool(&usual, 0));
    EXPECT_OK(cuMemAllocAsync(&first, 40 * MIB, stream));
    EXPECT_OK(cuDeviceSetMemPool(0, pool));
    EXPECT_OK(cuMemAllocAsync(&second, 80 * MIB, stream));
    EXPECT_LEDGER(120 * MIB);
    EXPECT_OK(cuMemSetMemPool(&here, CU_MEM_ALLOCATION_TYPE_PINNED, usual));
    EXPECT_OK(cuMemAllocAsync(&third, 20 * MIB, stream));
    EXPECT_LEDGER(140 * MIB);
    EXPECT_OK(cuMemFreeAsync(third, stream));
    EXPECT_OK(cuMemFreeAsync(second, stream));
    EXPECT_OK(cuStreamSynchronize(stream));
    EXPECT_LEDGER(40 * MIB);

    /* The current pool ends: the default one is current again. */
    EXPECT_OK(cuDeviceSetMemPool(0, pool));
    EXPECT_OK(cuMemPoolDestroy(pool));
    EXPECT_OK(cuDeviceGetMemPool(&now, 0));
    EXPECT(now == usual);
    EXPECT_OK(cuMemAllocAsync(&second, 80 * MIB, stream));
    EXPECT_LEDGER(120 * MIB);
    EXPECT_OK(cuMemFreeAsync(second, stream));
    EXPECT_OK(cuMemFreeAsync(first, stream));
    EXPECT_OK(cuStreamSynchronize(stream));
    EXPECT_LEDGER(0);
    EXPECT_OK(cuStreamDestroy_v2(stream));
    case_end();
}

/* What both ends of are this process is charged until the importing pool ends: the card keeps
 * it when the first block is gone, and whether the import is freed. */
static void imported_pool(void)
{
    CUmemPoolPtrExportData data;
    CUmemPoolProps properties;
    CUmemoryPool pool, imported;
    CUstream stream = new_stream();
    CUdeviceptr block, same = 0;
    const uint64_t kept = charge_is_requested() ? 40 * MIB : 64 * MIB;
    uint64_t before, live;
    int descriptor = -1;

    case_begin("imported-pool");
    live = sim.live_bytes(0);
    memset(&properties, 0, sizeof(properties));
    properties.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties.handleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    MUST(cuMemPoolCreate(&pool, &properties));
    EXPECT_OK(cuMemAllocFromPoolAsync(&block, 40 * MIB, pool, stream));
    EXPECT_OK(cuStreamSynchronize(stream));
    before = info_used();
    EXPECT_OK(cuMemPoolExportToShareableHandle(&descriptor, pool,
                                               CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
    EXPECT_OK(cuMemPoolImportFromShareableHandle(&imported, (void *)(intptr_t)descriptor,
                                                 CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
    EXPECT_OK(cuMemPoolExportPointer(&data, block));
    /* What the driver does not import is not charged. */
    sim.fail("cuMemPoolImportPointer", 1, CUDA_ERROR_UNKNOWN);
    EXPECT_CODE(cuMemPoolImportPointer(&same, imported, &data), CUDA_ERROR_UNKNOWN);
    EXPECT_EQUAL(info_used(), before);
    EXPECT_OK(cuMemPoolImportPointer(&same, imported, &data));
    EXPECT_EQUAL(info_used(), before + kept);
    EXPECT_OK(cuMemFreeAsync(block, stream));
    EXPECT_OK(cuStreamSynchronize(stream));
    EXPECT_OK(cuMemPoolDestroy(pool));
    EXPECT_EQUAL(sim.live_bytes(0) - live, 64 * MIB);
    EXPECT_EQUAL(info_used(), before + kept - (charge_is_requested() ? 40 : 64) * MIB);
    EXPECT_OK(cuMemFreeAsync(same, stream));
    EXPECT_OK(cuStreamSynchronize(stream));
    EXPECT_EQUAL(sim.live_bytes(0) - live, 64 * MIB);
    EXPECT_EQUAL(info_used(), before + kept - (charge_is_requested() ? 40 : 64) * MIB);
    sim.fail("cuMemPoolDestroy", 1, CUDA_ERROR_UNKNOWN);
    EXPECT_CODE(cuMemPoolDestroy(imported), CUDA_ERROR_UNKNOWN);
    EXPECT_OK(cuMemPoolDestroy(imported));
    EXPECT_EQUAL(sim.live_bytes(0), live);
    EXPECT_LEDGER(0);
    EXPECT_OK(cuStreamDestroy_v2(stream));
    case_end();
}

static void idle_pool_makes_room(void)
{
    CUstream stream = new_stream();
    CUmemoryPool usual;
    CUdeviceptr block, large = 0, live;
    size_t whole = info_free();
    unsigned long trims;
    uint64_t reserved;

    case_begin("idle-pool-makes-room");
    MUST(cuDeviceGetDefaultMemPool(&usual, 0));
    keep_pool_memory(usual);
    EXPECT_OK(cuMemAllocAsync(&block, whole / 3 * 2, stream));
    EXPECT_OK(cuMemFreeAsync(block, stream));
    EXPECT_OK(cuStreamSynchronize(stream));
    /* Kept by the pool, used by nobody: it makes room for a direct block. */
    EXPECT_OK(cuMemAlloc_v2(&large, whole / 3 * 2));
    EXPECT_LEDGER(whole / 3 * 2);
    EXPECT_OK(cuMemFree_v2(large));
    MUST(cuMemPoolTrimTo(usual, 0));

    /* Nothing can help: then the program keeps its warm memory. */
    EXPECT_OK(cuMemAlloc_v2(&live, whole / 2));
    EXPECT_OK(cuMemAllocAsync(&block, whole / 4, stream));
    EXPECT_OK(cuMemFreeAsync(block, stream));
    EXPECT_OK(cuStreamSynchronize(stream));
    reserved = sim.pool_reserved(0);
    trims = sim.calls("cuMemPoolTrimTo");
    EXPECT_CODE(cuMemAlloc_v2(&large, whole / 4 * 3), CUDA_ERROR_OUT_OF_MEMORY);
    EXPECT_CODE(cuMemAllocAsync(&large, whole / 4 * 3, stream), CUDA_ERROR_OUT_OF_MEMORY);
    EXPECT_EQUAL(sim.calls("cuMemPoolTrimTo"), trims);
    EXPECT_EQUAL(sim.pool_reserved(0), reserved);
    EXPECT_OK(cuMemFree_v2(live));
    MUST(cuMemPoolTrimTo(usual, 0));
    EXPECT_LEDGER(0);
    EXPECT_OK(cuStreamDestroy_v2(stream));
    case_end();
}

/* Memory that is not on the device costs nothing, whenever its pool was made. */
static void host_pool(CUmemoryPool early)
{
    CUmemPoolProps properties;
    CUmemoryPool late;
    CUdeviceptr first = 0, second = 0;
    CUstream stream = new_stream();
    uint64_t before = info_used();

    case_begin("host-pool");
    memset(&properties, 0, sizeof(properties));
    properties.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties.location.type = CU_MEM_LOCATION_TYPE_HOST;
    MUST(cuMemPoolCreate(&late, &properties));
    EXPECT_OK(cuMemAllocFromPoolAsync(&first, 100 * MIB, late, stream));
    EXPECT_EQUAL(info_used(), before);
    EXPECT_OK(cuMemAllocFromPoolAsync(&second, 100 * MIB, early, stream));
    EXPECT_EQUAL(info_used(), before);
    EXPECT_OK(cuMemFreeAsync(first, stream));
    EXPECT_OK(cuMemFreeAsync(second, stream));
    EXPECT_OK(cuStreamSynchronize(stream));
    EXPECT_OK(cuMemPoolDestroy(late));
    EXPECT_OK(cuMemPoolDestroy(early));
    EXPECT_EQUAL(info_used(), before);
    EXPECT_OK(cuStreamDestroy_v2(stream));
    case_end();
}

int main(void)
{
    CUmemPoolProps properties;
    CUmemoryPool host;

    sim_needed();
    MUST(cuInit(0));
    /* Before the library has seen any device. */
    memset(&properties, 0, sizeof(properties));
    properties.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties.location.type = CU_MEM_LOCATION_TYPE_HOST;
    MUST(cuMemPoolCreate(&host, &properties));
    primary = start_device(0);
    host_pool(host);
    context_with_direct_blocks();
    context_with_pool_blocks();
    context_with_pending_frees();
    detach();
    primary_release();
    primary_reset();
    stream_with_pending_frees();
    stream_handles_again();
    pool_with_blocks();
    pool_with_pending_only();
    trim_and_threshold();
    current_pool();
    imported_pool();
    idle_pool_makes_room();
    return cases_status();
}
