/*
 * budget_capture.c: what the library asks of the driver must not spoil anybody's capture.
 *
 *     budget_capture [ROUNDS]
 *
 * One thread captures in GLOBAL mode, again and again, while others allocate, free, ask and are
 * refused close to the limit: each capture must end with 0.
 */
#define _GNU_SOURCE
#include "budget_program.h"

enum { NEIGHBOURS = 4 };

static CUcontext context;
static unsigned long rounds;
static bool finished;
static unsigned long granted, refused;

static void count(CUresult code, const char *call)
{
    if (code == CUDA_SUCCESS)
        __atomic_fetch_add(&granted, 1, __ATOMIC_SEQ_CST);
    else if (code == CUDA_ERROR_OUT_OF_MEMORY)
        __atomic_fetch_add(&refused, 1, __ATOMIC_SEQ_CST);
    else
        case_fails("%s answers %d beside a capture", call, (int)code);
}

static bool is_over(void)
{
    return __atomic_load_n(&finished, __ATOMIC_SEQ_CST);
}

static void switch_mode(CUstreamCaptureMode mode)
{
    EXPECT_OK(cuThreadExchangeStreamCaptureMode(&mode));
}

/*
 * What every thread may do beside a capture: ask, and be refused by the budget. To allocate and
 * free it switches itself to RELAXED, as it must.
 */
static void *neighbour_ordered(void *arg)
{
    CUdeviceptr blocks[4] = {0};
    CUstream stream = arg;
    size_t left, total;

    MUST(cuCtxSetCurrent(context));
    for (unsigned i = 0; !is_over(); i++) {
        CUdeviceptr *block = &blocks[i % 4], unused = SENTINEL;
        CUresult code;

        switch_mode(CU_STREAM_CAPTURE_MODE_RELAXED);
        if (*block)
            EXPECT_OK(cuMemFreeAsync(*block, stream));
        *block = 0;
        code = i % 2 ? cuMemAllocAsync(block, 200 * MIB, stream)
                     : cuMemAllocAsync_ptsz(block, 200 * MIB, stream);
        switch_mode(CU_STREAM_CAPTURE_MODE_GLOBAL);
        count(code, "cuMemAllocAsync");
        if (code != CUDA_SUCCESS)
            *block = 0;
        if (i % 16 == 0)
            EXPECT_OK(cuMemGetInfo_v2(&left, &total));
        if (i % 8 == 0) {
            count(cuMemAllocAsync(&unused, 100 * GIB, stream), "a refused call");
            EXPECT(unused == SENTINEL);
        }
        sched_yield();
    }
    for (int i = 0; i < 4; i++)
        if (blocks[i])
            EXPECT_OK(cuMemFreeAsync(blocks[i], stream));
    return NULL;
}

/* Direct memory too, by a thread that is RELAXED all the time. */
static void *neighbour_direct(void *arg)
{
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED, after;
    CUstream stream = arg;
    CUmemoryPool pool;

    MUST(cuCtxSetCurrent(context));
    MUST(cuThreadExchangeStreamCaptureMode(&mode));
    pool = make_pool(0);
    for (unsigned i = 0; !is_over(); i++) {
        CUdeviceptr block = 0;
        size_t pitch;
        CUresult code;

        switch (i % 4) {
        case 0:
            code = cuMemAlloc_v2(&block, 300 * MIB);
            break;
        case 1:
            code = cuMemAllocPitch_v2(&block, &pitch, 1000, 1000, 4);
            break;
        case 2:
            code = cuMemAllocFromPoolAsync(&block, 100 * MIB, pool, stream);
            break;
        default:
            code = cuMemAlloc_v2(&block, 1000);
            break;
        }
        count(code, "an allocation");
        if (code == CUDA_SUCCESS)
            EXPECT_OK(i % 3 ? cuMemFree_v2(block) : cuMemFreeAsync(block, stream));
        if (i % 64 == 0)
            EXPECT_OK(cuMemPoolTrimTo(pool, 0));
        sched_yield();
    }
    /* The library has left the thread's mode as it was. */
    after = CU_STREAM_CAPTURE_MODE_GLOBAL;
    EXPECT_OK(cuThreadExchangeStreamCaptureMode(&after));
    EXPECT_EQUAL(after, CU_STREAM_CAPTURE_MODE_RELAXED);
    EXPECT_OK(cuStreamSynchronize(stream));
    EXPECT_OK(cuMemPoolDestroy(pool));
    return NULL;
}

static void beside_neighbours(void)
{
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
    pthread_t threads[NEIGHBOURS];
    CUstream stream, theirs[NEIGHBOURS];
    unsigned long spoiled = 0;

    case_begin("beside-neighbours");
    /* Before anybody fills the budget, of which a stream takes its part. */
    MUST(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    for (int i = 0; i < NEIGHBOURS; i++)
        MUST(cuStreamCreate(&theirs[i], CU_STREAM_NON_BLOCKING));
    for (int i = 0; i < NEIGHBOURS; i++)
        pthread_create(&threads[i], NULL, i % 2 ? neighbour_direct : neighbour_ordered,
                       theirs[i]);
    for (unsigned long i = 0; i < rounds; i++) {
        CUdeviceptr captured = 0;
        CUgraph graph = NULL;
        size_t left, total;

        MUST(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
        EXPECT_OK(cuMemAllocAsync(&captured, MIB, stream));
        EXPECT_OK(cuMemGetInfo_v2(&left, &total));
        for (int turn = 0; turn < 20; turn++)
            sched_yield();
        if (captured)
            EXPECT_OK(cuMemFreeAsync(captured, stream));
        if (cuStreamEndCapture(stream, &graph) != CUDA_SUCCESS)
            spoiled++;
        else
            EXPECT_OK(cuGraphDestroy(graph));
    }
    __atomic_store_n(&finished, true, __ATOMIC_SEQ_CST);
    for (int i = 0; i < NEIGHBOURS; i++)
        pthread_join(threads[i], NULL);
    EXPECT_EQUAL(spoiled, 0);
    EXPECT(granted > rounds / 100);
    EXPECT(refused > 0);
    /* This thread's mode is the initial one. */
    EXPECT_OK(cuThreadExchangeStreamCaptureMode(&mode));
    EXPECT_EQUAL(mode, CU_STREAM_CAPTURE_MODE_GLOBAL);
    EXPECT_OK(cuThreadExchangeStreamCaptureMode(&mode));
    EXPECT_OK(cuCtxSynchronize());
    EXPECT_OK(cuStreamDestroy_v2(stream));
    case_end();
}

/* By one thread alone, so that every call is the library's doing. */
static void alone(void)
{
    size_t whole = info_total(), left, total;
    CUdeviceptr captured = SENTINEL, block, other, more;
    CUstream stream, side;
    CUmemoryPool usual;
    CUgraph graph = NULL;
    uint64_t used;

    case_begin("alone");
    MUST(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    MUST(cuStreamCreate(&side, CU_STREAM_NON_BLOCKING));
    MUST(cuDeviceGetDefaultMemPool(&usual, 0));
    keep_pool_memory(usual);
    MUST(cuMemAllocAsync(&block, 100 * MIB, side));
    used = info_used();

    /* An allocation on the capturing stream is a node of the graph: forwarded, uncharged. */
    MUST(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    EXPECT_OK(cuMemAllocAsync(&captured, 2 * whole, stream));
    EXPECT(captured != SENTINEL);
    EXPECT_EQUAL(info_used(), used);
    EXPECT_OK(cuMemFreeAsync(captured, stream));
    EXPECT_OK(cuStreamEndCapture(stream, &graph));
    EXPECT_OK(cuGraphDestroy(graph));
    EXPECT_EQUAL(info_used(), used);

    /* Pool growth, pending frees, a reap, a refusal, a trim. */
    MUST(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    switch_mode(CU_STREAM_CAPTURE_MODE_RELAXED);
    EXPECT_OK(cuMemAllocAsync(&other, 300 * MIB, side));
    EXPECT_OK(cuMemFreeAsync(other, side));
    switch_mode(CU_STREAM_CAPTURE_MODE_GLOBAL);
    EXPECT_CODE(cuMemAllocAsync(&more, whole - 50 * MIB, side), CUDA_ERROR_OUT_OF_MEMORY);
    EXPECT_CODE(cuMemAlloc_v2(&more, whole - 50 * MIB), CUDA_ERROR_OUT_OF_MEMORY);
    EXPECT_OK(cuMemGetInfo_v2(&left, &total));
    switch_mode(CU_STREAM_CAPTURE_MODE_RELAXED);
    EXPECT_OK(cuMemAllocAsync(&other, 300 * MIB, side));
    EXPECT_OK(cuMemFreeAsync(other, side));
    switch_mode(CU_STREAM_CAPTURE_MODE_GLOBAL);
    EXPECT_OK(cuStreamEndCapture(stream, &graph));
    EXPECT_OK(cuGraphDestroy(graph));

    /* The driver's own answers: a charged block freed on a capturing stream ... */
    EXPECT_OK(cuStreamSynchronize(side));
    MUST(cuMemPoolTrimTo(usual, 0));
    used = info_used();
    MUST(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    EXPECT_CODE(cuMemFreeAsync(block, stream), CUDA_ERROR_INVALID_VALUE);
    cuStreamEndCapture(stream, &graph);
    EXPECT_EQUAL(info_used(), used);
    EXPECT_OK(cuMemFreeAsync(block, side));
    EXPECT_OK(cuStreamSynchronize(side));

    /* ... and the program's own unsafe call, which spoils its capture as ever. */
    MUST(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    EXPECT_CODE(cuMemAlloc_v2(&other, MIB), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    EXPECT_CODE(cuStreamEndCapture(stream, &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);

    EXPECT_OK(cuStreamDestroy_v2(stream));
    EXPECT_OK(cuStreamDestroy_v2(side));
    case_end();
}

static void legacy_stream(void)
{
    CUdeviceptr pointer = SENTINEL, block;
    CUstream stream;
    CUgraph graph = NULL;
    uint64_t used;
    size_t left, total;

    case_begin("legacy-stream");
    MUST(cuStreamCreate(&stream, 0));
    MUST(cuMemAllocAsync(&block, MIB, NULL));
    EXPECT_OK(cuStreamSynchronize(NULL));
    used = info_used();

    /* Looking at the legacy stream while another captures answers 906, and harms nothing. */
    MUST(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    EXPECT_OK(cuMemGetInfo_v2(&left, &total));
    EXPECT_OK(cuStreamEndCapture(stream, &graph));
    EXPECT_OK(cuGraphDestroy(graph));

    /* Working on it does, with the driver's own code. */
    MUST(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    EXPECT_CODE(cuMemAllocAsync(&pointer, MIB, NULL), CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
    EXPECT_CODE(cuStreamEndCapture(stream, &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    MUST(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    EXPECT_CODE(cuMemFreeAsync(block, NULL), CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
    EXPECT_CODE(cuStreamEndCapture(stream, &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    EXPECT_EQUAL(info_used(), used);
    EXPECT_OK(cuMemFreeAsync(block, NULL));
    EXPECT_OK(cuStreamSynchronize(NULL));
    EXPECT_OK(cuStreamDestroy_v2(stream));
    case_end();
}

/*
 * A pair on the stream; answers how often it was asked whether something captures. Those before
 * it may set a mark behind a free, and note another, which asks in any case.
 */
static unsigned long questions(CUstream stream)
{
    CUdeviceptr pointer = SENTINEL;

    for (int i = 0; i < 3; i++) {
        sim.reset_counts();
        EXPECT_OK(cuMemAllocAsync(&pointer, MIB, stream));
        EXPECT_OK(cuMemFreeAsync(pointer, stream));
    }
    return sim.calls("cuStreamIsCapturing");
}

/*
 * Where nothing captures nothing is asked.
 */
static void counted(void)
{
    CUstream bad = (CUstream)(uintptr_t)0x7000, stream, captured;
    CUdeviceptr pointer = SENTINEL;
    CUgraph graph = NULL;
    uint64_t used;

    case_begin("captures-are-counted");
    if (!sim.calls) {
        case_skipped("needs the stand-in's counts");
        return;
    }
    MUST(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    MUST(cuStreamCreate(&captured, CU_STREAM_NON_BLOCKING));
    EXPECT_OK(cuMemAllocAsync(&pointer, 1, stream));
    EXPECT_EQUAL(questions(stream), 0);
    /* Of many pairs few look at the pool: what is left decides how many. */
    sim.reset_counts();
    for (int i = 0; i < 64; i++) {
        EXPECT_OK(cuMemAllocAsync(&pointer, MIB, stream));
        EXPECT_OK(cuMemFreeAsync(pointer, stream));
    }
    EXPECT(sim.calls("cuMemPoolGetAttribute") <= 32);
    EXPECT_EQUAL(sim.calls("cuStreamIsCapturing"), 0);

    used = info_used();
    EXPECT_OK(cuStreamBeginCapture_v2(captured, CU_STREAM_CAPTURE_MODE_RELAXED));
    EXPECT(questions(stream) > 0);
    EXPECT_OK(cuMemAllocAsync(&pointer, 64 * MIB, captured));
    EXPECT_OK(cuMemFreeAsync(pointer, captured));
    EXPECT_OK(cuStreamEndCapture(captured, &graph));
    EXPECT_EQUAL(info_used(), used);
    EXPECT_EQUAL(questions(stream), 0);
    EXPECT_OK(cuGraphDestroy(graph));

    /* One that never began, and one that was spoiled. */
    sim.fail("cuStreamBeginCapture_v2", 1, CUDA_ERROR_UNKNOWN);
    EXPECT_CODE(cuStreamBeginCapture_v2(captured, CU_STREAM_CAPTURE_MODE_GLOBAL),
                CUDA_ERROR_UNKNOWN);
    EXPECT_EQUAL(questions(stream), 0);
    EXPECT_OK(cuStreamBeginCapture_v2_ptsz(captured, CU_STREAM_CAPTURE_MODE_GLOBAL));
    EXPECT_CODE(cuMemAlloc_v2(&pointer, MIB), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    EXPECT_CODE(cuStreamEndCapture_ptsz(captured, &graph),
                CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    EXPECT_EQUAL(questions(stream), 0);
    /* An end that ends nothing counts for nothing. */
    EXPECT_OK(cuStreamBeginCapture_v2(captured, CU_STREAM_CAPTURE_MODE_RELAXED));
    EXPECT(cuStreamEndCapture(stream, &graph) != CUDA_SUCCESS);
    EXPECT(questions(stream) > 0);
    EXPECT_OK(cuStreamEndCapture(captured, &graph));
    EXPECT_EQUAL(questions(stream), 0);
    EXPECT_OK(cuGraphDestroy(graph));

    /* Without the question a wrong handle shows itself too, also where nothing fits. */
    EXPECT_CODE(cuMemAllocAsync(&pointer, MIB, bad), CUDA_ERROR_INVALID_HANDLE);
    EXPECT_CODE(cuMemAllocAsync(&pointer, 100 * GIB, bad), CUDA_ERROR_INVALID_HANDLE);
    EXPECT_OK(cuCtxSynchronize());
    EXPECT_OK(cuStreamDestroy_v2(captured));
    EXPECT_OK(cuStreamDestroy_v2(stream));
    case_end();
}

int main(int argc, char **argv)
{
    rounds = argc > 1 ? strtoul(argv[1], NULL, 10) : 500;
    sim_find();
    context = start_device(0);
    counted();
    alone();
    legacy_stream();
    beside_neighbours();
    return cases_status();
}
