/*
 * budget_devices.c: several devices in one process, each with its own ledger.
 *
 * Needs two devices. Memory is freed while another device's context is current, or on another
 * device's stream; contexts, pools and refusals of one do not touch the other.
 *
 *     budget_devices ROUNDS    so many of each thread
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

/* The free is the memory's device's, whatever the stream's: a request there that needs it looks
 * whether the stream has come so far, and makes the driver let go. */
static void freed_on_the_other_device(void)
{
    CUdeviceptr filler, block, again;

    case_begin("freed-on-the-other-device");
    MUST(cuCtxSetCurrent(contexts[1]));
    MUST(cuMemAlloc_v2(&filler, (info_free() - 300 * MIB) & ~(2 * MIB - 1)));
    MUST(cuMemAllocAsync(&block, 256 * MIB, streams[1]));
    MUST(cuStreamSynchronize(streams[1]));
    sim.hold(streams[0]);
    EXPECT_OK(cuMemFreeAsync(block, streams[0]));
    sim.release(streams[0]);
    EXPECT_OK(cuMemAlloc_v2(&again, 256 * MIB));
    EXPECT_OK(cuMemFree_v2(again));
    EXPECT_OK(cuMemFree_v2(filler));
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

/* ---- threads, which free what others have taken on another device ---- */

enum { THREADS = 32, SLOTS = 64 };

static CUdeviceptr slots[SLOTS]; /* a block, or 0; exchanged atomically */
static unsigned long rounds;

static void *take_and_free(void *arg)
{
    uint64_t state = 1234567 + (uint64_t)(uintptr_t)arg * 7919;

    for (unsigned long i = 0; i < rounds; i++) {
        uint64_t random = random_next(&state);
        int device = (int)(random % 2), way = (int)(random >> 8) % 3;
        CUdeviceptr block = 0;
        CUresult code;

        MUST(cuCtxSetCurrent(contexts[random >> 1 & 1]));
        if (way == 0) /* the current context's device */
            code = cuMemAlloc_v2(&block, (random >> 16) % (8 * MIB) + 1);
        else /* the stream's */
            code = cuMemAllocAsync(&block, (random >> 16) % (8 * MIB) + 1, streams[device]);
        if (code != CUDA_SUCCESS && code != CUDA_ERROR_OUT_OF_MEMORY)
            case_fails("code %d", (int)code);
        block = __atomic_exchange_n(&slots[(random >> 40) % SLOTS], block, __ATOMIC_SEQ_CST);
        if (block == 0)
            continue;
        MUST(cuCtxSetCurrent(contexts[random >> 2 & 1]));
        EXPECT_OK(random & 8 ? cuMemFree_v2(block) : cuMemFreeAsync(block, streams[!device]));
        if (random & 16) { /* once more, which changes nothing */
            CUdeviceptr nothing = 4096 + (random >> 20) % 4096;

            EXPECT(cuMemFree_v2(nothing) != CUDA_SUCCESS);
        }
    }
    return NULL;
}

static void threads_on_both(void)
{
    pthread_t threads[THREADS];

    case_begin("threads-on-both");
    for (int i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, take_and_free, (void *)(intptr_t)i);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    for (int i = 0; i < SLOTS; i++)
        if (slots[i])
            EXPECT_OK(cuMemFree_v2(slots[i]));
    for (int i = 0; i < 2; i++) {
        MUST(cuCtxSetCurrent(contexts[i]));
        EXPECT_OK(cuCtxSynchronize());
    }
    EXPECT_LEDGERS(0, 0);
    case_end();
}

int main(int argc, char **argv)
{
    rounds = argc > 1 ? strtoul(argv[1], NULL, 10) : 200;
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
    freed_on_the_other_device();
    peers();
    refusals();
    contexts_end();
    threads_on_both();
    return cases_status();
}
