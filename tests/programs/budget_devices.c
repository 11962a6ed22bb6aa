/*
 * budget_devices.c: several devices in one process, each with its own ledger.
 *
 * Needs two devices. Memory is freed while another device's context is current, or on another
 * device's stream; contexts, pools and refusals of one do not touch the other.
 */
#define _GNU_SOURCE
#include "budget_program.h"

static CUcontext contexts[2];
static CUstream streams[2];

/* What the budget of a device has given out; the current context stays what it was. */
static uint64_t used_of(int device)
{
    CUcontext popped;
    uint64_t used;

    MUST(cuCtxPushCurrent_v2(contexts[device]));
    used = info_used();
    MUST(cuCtxPopCurrent_v2(&popped));
    return used;
}

static void expect_ledgers_at(int line, uint64_t first, uint64_t second)
{
    const uint64_t requested[2] = {first, second};

    for (int i = 0; i < 2; i++) {
        uint64_t used = used_of(i);
        uint64_t wanted = charge_is_requested() ? requested[i] : sim.live_bytes(i);

        if (used != wanted)
            case_fails("line %d: device %d: the ledger says %" PRIu64 ", not %" PRIu64, line, i,
                       used, wanted);
    }
}

#define EXPECT_LEDGERS(first, second) expect_ledgers_at(__LINE__, (first), (second))

static void direct(void)
{
    CUdeviceptr zero, one;

    case_begin("direct");
    MUST(cuCtxSetCurrent(contexts[0]));
    EXPECT_OK(cuMemAlloc_v2(&zero, 100 * MIB));
    MUST(cuCtxSetCurrent(contexts[1]));
    EXPECT_OK(cuMemAlloc_v2(&one, 30 * MIB));
    EXPECT_LEDGERS(100 * MIB, 30 * MIB);
    EXPECT_OK(cuMemFree_v2(zero)); /* with device 1's context current */
    EXPECT_LEDGERS(0, 30 * MIB);
    MUST(cuCtxSetCurrent(contexts[0]));
    EXPECT_OK(cuMemFree_v2(one));
    EXPECT_LEDGERS(0, 0);
    case_end();
}

static void ordered(void)
{
    CUdeviceptr zero, one;

    case_begin("ordered");
    /* The stream's device counts, not the current context's. */
    MUST(cuCtxSetCurrent(contexts[1]));
    EXPECT_OK(cuMemAllocAsync(&zero, 100 * MIB, streams[0]));
    EXPECT_LEDGERS(100 * MIB, 0);
    MUST(cuCtxSetCurrent(contexts[0]));
    EXPECT_OK(cuMemAllocAsync(&one, 30 * MIB, streams[1]));
    EXPECT_LEDGERS(100 * MIB, 30 * MIB);
    EXPECT_OK(cuMemFreeAsync(one, streams[1]));
    EXPECT_OK(cuStreamSynchronize(streams[1]));
    EXPECT_LEDGERS(100 * MIB, 0);
    /* Freed on a stream of the other device. */
    EXPECT_OK(cuMemFreeAsync(zero, streams[1]));
    EXPECT_OK(cuStreamSynchronize(streams[1]));
    EXPECT_LEDGERS(0, 0);
    /* On the default stream, which is the current context's. */
    MUST(cuCtxSetCurrent(contexts[1]));
    EXPECT_OK(cuMemAllocAsync(&one, 30 * MIB, NULL));
    EXPECT_LEDGERS(0, 30 * MIB);
    MUST(cuCtxSetCurrent(contexts[0]));
    EXPECT_OK(cuMemFree_v2(one));
    EXPECT_LEDGERS(0, 0);
    case_end();
}

static void pools(void)
{
    CUmemoryPool pool;
    CUdeviceptr block, own;

    case_begin("pools");
    MUST(cuCtxSetCurrent(contexts[0]));
    pool = make_pool(1);
    /* The memory is on the pool's device, whatever the stream's. */
    EXPECT_OK(cuMemAllocFromPoolAsync(&block, 64 * MIB, pool, streams[1]));
    EXPECT_LEDGERS(0, 64 * MIB);
    EXPECT_OK(cuDeviceSetMemPool(1, pool));
    EXPECT_OK(cuMemAllocAsync(&own, 32 * MIB, streams[1]));
    EXPECT_LEDGERS(0, 96 * MIB);
    EXPECT_OK(cuMemFreeAsync(own, streams[1]));
    EXPECT_OK(cuMemFreeAsync(block, streams[1]));
    EXPECT_OK(cuStreamSynchronize(streams[1]));
    EXPECT_OK(cuMemPoolDestroy(pool));
    EXPECT_LEDGERS(0, 0);
    case_end();
}

/* What the map of a peer's memory takes here goes when it is ended, and with its context. */
static void peers(void)
{
    CUcontext extra;
    CUdeviceptr filler;
    uint64_t live = sim.live_bytes(0);

    case_begin("peers");
    MUST(cuCtxSetCurrent(contexts[0]));
    EXPECT_OK(cuCtxEnablePeerAccess(contexts[1], 0));
    EXPECT(sim.live_bytes(0) > live);
    EXPECT_LEDGERS(0, 0);
    EXPECT_CODE(cuCtxEnablePeerAccess(contexts[1], 0), CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED);
    EXPECT_CODE(cuCtxEnablePeerAccess(contexts[0], 0), CUDA_ERROR_INVALID_DEVICE);
    EXPECT_LEDGERS(0, 0);
    EXPECT_OK(cuCtxDisablePeerAccess(contexts[1]));
    EXPECT_CODE(cuCtxDisablePeerAccess(contexts[1]), CUDA_ERROR_PEER_ACCESS_NOT_ENABLED);
    EXPECT_EQUAL(sim.live_bytes(0), live);
    EXPECT_LEDGERS(0, 0);
    /* Where it does not fit it is undone. */
    if (!charge_is_requested()) {
        EXPECT_OK(cuMemAlloc_v2(&filler, info_free() / (2 * MIB) * (2 * MIB)));
        live = sim.live_bytes(0);
        EXPECT_CODE(cuCtxEnablePeerAccess(contexts[1], 0), CUDA_ERROR_OUT_OF_MEMORY);
        EXPECT_EQUAL(sim.live_bytes(0), live);
        EXPECT_CODE(cuCtxDisablePeerAccess(contexts[1]), CUDA_ERROR_PEER_ACCESS_NOT_ENABLED);
        EXPECT_OK(cuMemFree_v2(filler));
    }
    MUST(cuCtxCreate_v2(&extra, 0, 0));
    EXPECT_OK(cuCtxEnablePeerAccess(contexts[1], 0));
    EXPECT_OK(cuCtxDestroy_v2(extra));
    MUST(cuCtxSetCurrent(contexts[0]));
    EXPECT_LEDGERS(0, 0);
    case_end();
}

static void refusals(void)
{
    CUdeviceptr block = SENTINEL, other;
    size_t left;

    case_begin("refusals");
    MUST(cuCtxSetCurrent(contexts[0]));
    left = info_free();
    EXPECT_CODE(cuMemAlloc_v2(&block, left + 2 * MIB), CUDA_ERROR_OUT_OF_MEMORY);
    EXPECT(block == SENTINEL);
    MUST(cuCtxSetCurrent(contexts[1]));
    EXPECT(info_free() > left + 2 * MIB); /* the script gives device 1 more */
    EXPECT_OK(cuMemAlloc_v2(&other, left + 2 * MIB));
    EXPECT_CODE(cuMemAllocAsync(&block, left + 2 * MIB, streams[0]), CUDA_ERROR_OUT_OF_MEMORY);
    EXPECT_OK(cuMemFree_v2(other));
    EXPECT_LEDGERS(0, 0);
    case_end();
}

static void contexts_end(void)
{
    CUcontext extra;
    CUdeviceptr zero, lost;

    case_begin("contexts-end");
    MUST(cuCtxSetCurrent(contexts[0]));
    EXPECT_OK(cuMemAlloc_v2(&zero, 10 * MIB));
    MUST(cuCtxCreate_v2(&extra, 0, 1));
    EXPECT_OK(cuMemAlloc_v2(&lost, 50 * MIB));
    EXPECT_LEDGERS(10 * MIB, 50 * MIB);
    MUST(cuCtxSetCurrent(contexts[0]));
    EXPECT_OK(cuCtxDestroy_v2(extra));
    EXPECT_LEDGERS(10 * MIB, 0);
    EXPECT_OK(cuMemFree_v2(zero));
    EXPECT_LEDGERS(0, 0);
    case_end();
}

int main(void)
{
    sim_needed();
    MUST(cuInit(0));
    for (int i = 0; i < 2; i++) {
        MUST(cuDevicePrimaryCtxRetain(&contexts[i], i));
        MUST(cuCtxSetCurrent(contexts[i]));
        MUST(cuStreamCreate(&streams[i], CU_STREAM_NON_BLOCKING));
    }
    direct();
    ordered();
    pools();
    peers();
    refusals();
    contexts_end();
    return cases_status();
}
