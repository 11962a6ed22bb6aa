/* Pools, the full card, contexts, captures, graphs, NVML, and the ledger under random use. */
#include "check_standin.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static CUmemoryPool default_pool(void)
{
    CUmemoryPool pool;
    OK(cuDeviceGetDefaultMemPool(&pool, 0));
    return pool;
}

static uint64_t attribute(CUmemoryPool pool, CUmemPool_attribute which)
{
    cuuint64_t value = 0;
    OK(cuMemPoolGetAttribute(pool, which, &value));
    return value;
}

/* 1.5 GiB of a full card is pending: in stream order it can be had, at once it cannot. */
void check_full_card(void)
{
    CUstream held, other;
    CUdeviceptr big, again, direct = 0x77;
    check_begin();
    held = check_stream();
    other = check_stream();
    OK(cuMemAllocAsync(&big, 1536 * MIB, held));
    standin_set_other(0, standin_total_bytes(0) - standin_live_bytes(0));
    EQUAL(standin_free_bytes(0), 0);
    standin_hold(held);
    OK(cuMemFreeAsync(big, held));
    EQUAL(cuMemAlloc(&direct, 4 * MIB), CUDA_ERROR_OUT_OF_MEMORY);
    EQUAL(direct, 0); /* the driver clears it */
    OK(cuMemAllocAsync(&again, 1024 * MIB, other));
    EQUAL(cuStreamQuery(other), CUDA_ERROR_NOT_READY);
    EQUAL(standin_pool_reserved(0), 1536 * MIB);
    standin_release(held);
    OK(cuStreamQuery(other));
    OK(cuMemFreeAsync(again, other));
    OK(cuStreamSynchronize(other));
    EQUAL(standin_pool_reserved(0), 512 * MIB);
    OK(cuStreamSynchronize(held));
    EQUAL(standin_pool_reserved(0), 0);
    standin_set_other(0, 0);
}

void check_pool_order(void)
{
    CUmemoryPool pool;
    CUstream stream;
    CUdeviceptr block[64], one;
    cuuint64_t forever = UINT64_MAX;
    check_begin();
    stream = check_stream();
    pool = default_pool();
    OK(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &forever));
    /* A loop without a synchronise stays within one step, also while the stream is held. */
    standin_hold(stream);
    for (int i = 0; i < 1000; i++) {
        OK(cuMemAllocAsync(&one, 20 * MIB, stream));
        OK(cuMemFreeAsync(one, stream));
    }
    EQUAL(attribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT), 32 * MIB);
    EQUAL(standin_pending_bytes(0), 20 * MIB);
    standin_release(stream);
    EQUAL(standin_pending_bytes(0), 0);
    /* Pieces of a pending block. */
    OK(cuMemAllocAsync(&one, 32 * MIB, stream));
    standin_hold(stream);
    OK(cuMemFreeAsync(one, stream));
    for (int i = 0; i < 64; i++)
        OK(cuMemAllocAsync(&block[i], MIB / 2, stream));
    EQUAL(attribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT), 32 * MIB);
    EQUAL(standin_pending_bytes(0), 0);
    standin_release(stream);
    for (int i = 0; i < 64; i++)
        OK(cuMemFreeAsync(block[i], stream));
    OK(cuStreamSynchronize(stream));
    EQUAL(attribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT), 0);
    EQUAL(attribute(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH), 32 * MIB);
    EQUAL(attribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT), 32 * MIB);
    OK(cuMemPoolTrimTo(pool, 0));
    EQUAL(attribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT), 0);
    EQUAL(standin_live_bytes(0), standin_context_bytes(0));
}

static uint64_t reserved(CUmemoryPool pool)
{
    return attribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT);
}

/* Freed memory is let go when the host has synchronised with the stream of the free. */
void check_letting_go(void)
{
    CUmemoryPool pool, current;
    CUstream stream, other;
    CUevent before, after;
    CUdeviceptr block, direct;
    check_begin();
    stream = check_stream();
    other = check_stream();
    pool = default_pool();
    OK(cuEventCreate(&before, 0));
    OK(cuEventCreate(&after, 0));
    OK(cuMemAllocAsync(&block, 40 * MIB, stream));
    OK(cuEventRecord(before, stream));
    OK(cuMemFreeAsync(block, stream));
    OK(cuEventRecord(after, stream));
    OK(cuEventQuery(after));
    OK(cuStreamQuery(stream));
    OK(cuStreamSynchronize(other));
    OK(cuEventSynchronize(before));
    OK(cuMemPoolTrimTo(pool, 0));
    EQUAL(reserved(pool), 64 * MIB);
    OK(cuEventSynchronize(after));
    EQUAL(reserved(pool), 0);
    OK(cuMemAllocAsync(&block, 40 * MIB, stream));
    OK(cuMemFreeAsync(block, stream));
    OK(cuStreamDestroy(stream));
    EQUAL(reserved(pool), 64 * MIB);
    OK(cuCtxSynchronize());
    EQUAL(reserved(pool), 0);
    /* A direct block likewise. */
    OK(cuMemAlloc(&direct, 64 * MIB));
    OK(cuMemFreeAsync(direct, other));
    EQUAL(cuMemFree(direct), CUDA_ERROR_INVALID_VALUE);
    EQUAL(standin_direct_bytes(0), 64 * MIB);
    OK(cuStreamSynchronize(other));
    EQUAL(standin_direct_bytes(0), 0);
    /* A destroyed pool: idle memory at once, the rest at free and synchronise. */
    {
        CUmemPoolProps props = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                                .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}};
        CUdeviceptr second;
        cuuint64_t forever = UINT64_MAX;
        OK(cuMemPoolCreate(&current, &props));
        OK(cuMemPoolSetAttribute(current, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &forever));
        OK(cuMemAllocFromPoolAsync(&block, 32 * MIB, current, other));
        OK(cuMemAllocFromPoolAsync(&second, 64 * MIB, current, other));
        OK(cuMemFreeAsync(second, other));
        OK(cuStreamSynchronize(other));
        EQUAL(standin_pool_reserved(0), 96 * MIB);
        OK(cuMemPoolDestroy(current));
        EQUAL(standin_pool_reserved(0), 32 * MIB);
        OK(cuMemFreeAsync(block, other));
        EQUAL(standin_pool_reserved(0), 32 * MIB);
        OK(cuStreamSynchronize(other));
        EQUAL(standin_pool_reserved(0), 0);
    }
}

/* Blocks lie across the steps; a request grows a pool by what its tail lacks; only whole steps
 * are trimmed; a full card takes idle memory back. */
void check_packing(void)
{
    CUmemoryPool pool;
    CUstream stream;
    CUdeviceptr block[40], more, direct;
    cuuint64_t forever = UINT64_MAX;
    check_begin();
    stream = check_stream();
    pool = default_pool();
    OK(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &forever));
    for (int i = 0; i < 40; i++)
        OK(cuMemAllocAsync(&block[i], 20 * MIB, stream));
    EQUAL(reserved(pool), 800 * MIB);
    for (int i = 0; i < 40; i += 2)
        OK(cuMemFreeAsync(block[i], stream));
    OK(cuStreamSynchronize(stream));
    OK(cuMemPoolTrimTo(pool, 0));
    EQUAL(reserved(pool), 800 * MIB);
    OK(cuMemFreeAsync(block[39], stream));
    OK(cuMemAllocAsync(&more, 200 * MIB, stream));
    EQUAL(reserved(pool), 960 * MIB);
    for (int i = 1; i < 39; i += 2)
        OK(cuMemFreeAsync(block[i], stream));
    OK(cuStreamSynchronize(stream));
    OK(cuMemPoolTrimTo(pool, 0));
    /* 760 to 960 is in use: the steps from 736 on stay. */
    EQUAL(reserved(pool), 224 * MIB);
    EQUAL(standin_live_bytes(0), standin_context_bytes(0) + 224 * MIB);
    OK(cuMemFreeAsync(more, stream));
    OK(cuStreamSynchronize(stream));
    EQUAL(reserved(pool), 224 * MIB);
    standin_set_other(0, standin_total_bytes(0) - standin_live_bytes(0));
    OK(cuMemAlloc(&direct, 100 * MIB));
    EQUAL(reserved(pool), 0);
    standin_set_other(0, 0);
}

static CUresult from_thread;
static CUcontext shared;

static void *query_in_thread(void *relaxed)
{
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    CUdeviceptr block;
    OK(cuCtxSetCurrent(shared));
    if (relaxed)
        OK(cuThreadExchangeStreamCaptureMode(&mode));
    from_thread = cuMemAlloc(&block, MIB);
    return NULL;
}

static CUresult captured_while_a_thread_allocates(CUstream stream, CUstreamCaptureMode mode,
                                                  bool relaxed)
{
    pthread_t thread;
    CUgraph graph = NULL;
    CUresult ended;
    OK(cuStreamBeginCapture(stream, mode));
    pthread_create(&thread, NULL, query_in_thread, relaxed ? &shared : NULL);
    pthread_join(thread, NULL);
    ended = cuStreamEndCapture(stream, &graph);
    if (graph)
        OK(cuGraphDestroy(graph));
    return ended;
}

void check_capture(void)
{
    CUstream stream, side;
    CUevent fork_mark, join_mark;
    CUgraph graph;
    CUdeviceptr block;
    shared = check_begin();
    stream = check_stream();
    side = check_stream();
    OK(cuEventCreate(&fork_mark, 0));
    OK(cuEventCreate(&join_mark, 0));
    EQUAL(captured_while_a_thread_allocates(stream, CU_STREAM_CAPTURE_MODE_GLOBAL, false), 901);
    EQUAL(from_thread, 900);
    EQUAL(captured_while_a_thread_allocates(stream, CU_STREAM_CAPTURE_MODE_GLOBAL, true), 0);
    EQUAL(from_thread, 0);
    EQUAL(captured_while_a_thread_allocates(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL, false),
          0);
    EQUAL(from_thread, 0);
    /* Fork to another stream, allocate there, join; then the same without the join. */
    for (int join = 1; join >= 0; join--) {
        OK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
        OK(cuEventRecord(fork_mark, stream));
        OK(cuStreamWaitEvent(side, fork_mark, 0));
        OK(cuMemAllocAsync(&block, MIB, side));
        OK(cuMemFreeAsync(block, side));
        OK(cuEventRecord(join_mark, side));
        if (join)
            OK(cuStreamWaitEvent(stream, join_mark, 0));
        EQUAL(standin_pool_used(0), 0);
        EQUAL(cuStreamEndCapture(stream, &graph), join ? 0 : 904);
    }
    OK(cuStreamQuery(side));
}

void check_graph(void)
{
    CUstream stream;
    CUgraph graph[8];
    CUgraphExec exec[8];
    CUdeviceptr block;
    cuuint64_t value;
    check_begin();
    stream = check_stream();
    for (int i = 0; i < 8; i++) {
        OK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
        OK(cuMemAllocAsync(&block, 256 * MIB, stream));
        OK(cuMemFreeAsync(block, stream));
        OK(cuStreamEndCapture(stream, &graph[i]));
        OK(cuGraphInstantiate(&exec[i], graph[i], 0));
    }
    EQUAL(standin_graph_bytes(0), 0);
    for (int i = 0; i < 8; i++)
        OK(cuGraphLaunch(exec[i], stream));
    EQUAL(standin_graph_bytes(0), 256 * MIB);
    for (int i = 0; i < 8; i++) {
        OK(cuGraphExecDestroy(exec[i]));
        OK(cuGraphDestroy(graph[i]));
    }
    OK(cuDeviceGetGraphMemAttribute(0, CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT, &value));
    EQUAL(value, 256 * MIB);
    OK(cuDeviceGraphMemTrim(0));
    EQUAL(standin_live_bytes(0), standin_context_bytes(0));
    /* Without a free node the block lives on after the launch. */
    OK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    OK(cuMemAllocAsync(&block, 64 * MIB, stream));
    OK(cuStreamEndCapture(stream, &graph[0]));
    OK(cuGraphInstantiate(&exec[0], graph[0], 0));
    EQUAL(cuMemFree(block), CUDA_ERROR_INVALID_VALUE);
    OK(cuGraphLaunch(exec[0], stream));
    EQUAL(cuGraphLaunch(exec[0], stream), CUDA_ERROR_INVALID_VALUE);
    OK(cuDeviceGraphMemTrim(0));
    EQUAL(standin_graph_bytes(0), 64 * MIB);
    OK(cuMemFreeAsync(block, stream));
    OK(cuDeviceGraphMemTrim(0));
    EQUAL(standin_graph_bytes(0), 0);
}

void check_contexts(void)
{
    CUcontext primary = check_begin(), context, current;
    CUdeviceptr block, kept;
    CUstream stream;
    uint64_t one = standin_context_bytes(0);
    CHECK(one > 0);
    standin_set_other(0, standin_free_bytes(0) - one / 2);
    context = primary;
    EQUAL(cuCtxCreate(&context, NULL, 0, 0), CUDA_ERROR_OUT_OF_MEMORY);
    CHECK(context == primary);
    standin_set_other(0, 0);
    OK(cuCtxCreate(&context, NULL, 0, 0));
    EQUAL(standin_context_bytes(0), 2 * one);
    OK(cuMemAlloc(&block, MIB));
    stream = check_stream();
    OK(cuMemAllocAsync(&kept, MIB, stream));
    OK(cuCtxDestroy(context));
    OK(cuCtxGetCurrent(&current));
    CHECK(current == primary);
    EQUAL(standin_context_bytes(0), one);
    EQUAL(standin_direct_bytes(0), 0);
    EQUAL(standin_pool_used(0), MIB);
    EQUAL(cuMemFree(block), CUDA_ERROR_INVALID_VALUE);
    OK(cuMemFreeAsync(kept, CU_STREAM_LEGACY));
    OK(cuCtxSynchronize());
    EQUAL(standin_live_bytes(0), one);
    EQUAL(standin_real_live_blocks(0), 0);
    EQUAL(standin_peak_bytes(0), 2 * one + 34 * MIB);
}

struct process {
    unsigned pid;
    unsigned long long bytes;
    unsigned gpu_instance, compute_instance;
};

void check_nvml(void)
{
    void *library = dlopen("libnvidia-ml.so.1", RTLD_NOW);
    int (*init)(void), (*by_index)(unsigned, void **);
    int (*processes)(void *, unsigned *, struct process *);
    struct process found[4];
    unsigned count = 4;
    void *device;
    CUdeviceptr managed;
    CHECK(library != NULL);
    init = (int (*)(void))dlsym(library, "nvmlInit_v2");
    by_index = (int (*)(unsigned, void **))dlsym(library, "nvmlDeviceGetHandleByIndex_v2");
    processes = (int (*)(void *, unsigned *, struct process *))dlsym(
        library, "nvmlDeviceGetComputeRunningProcesses_v3");
    EQUAL(by_index(0, &device), 1);
    EQUAL(init(), 0);
    EQUAL(by_index(0, &device), 0);
    EQUAL(processes(device, &count, found), 0);
    EQUAL(count, 0);
    check_begin();
    OK(cuMemAllocManaged(&managed, 64 * MIB, CU_MEM_ATTACH_GLOBAL));
    OK(cuMemsetD8(managed, 0x5a, 64 * MIB));
    EQUAL(((unsigned char *)(uintptr_t)managed)[64 * MIB - 1], 0x5a);
    EQUAL(standin_managed_bytes(0), 128 * MIB);
    standin_set_other(0, GIB);
    count = 1;
    EQUAL(processes(device, &count, found), 7);
    EQUAL(count, 2);
    EQUAL(processes(device, &count, found), 0);
    EQUAL(found[0].pid, getpid());
    EQUAL(found[0].bytes, standin_context_bytes(0));
    EQUAL(found[1].bytes, GIB);
}

#define SLOTS 300

struct worker {
    unsigned seed;
    int rounds;
};

static void let_go(const CUstream stream[3], bool held[3])
{
    for (int i = 0; i < 3; i++) {
        held[i] = false;
        EQUAL(standin_release(stream[i]), 0);
    }
}

/* Random use of every family; everything is freed at the end. */
static void *work(void *argument)
{
    struct worker *worker = argument;
    unsigned state = worker->seed;
    CUdeviceptr block[SLOTS] = {0};
    CUstream stream[3];
    bool held[3] = {false, false, false};
    OK(cuCtxSetCurrent(shared));
    for (int i = 0; i < 3; i++)
        stream[i] = check_stream();
    for (int i = 0; i < worker->rounds; i++) {
        int slot = rand_r(&state) % SLOTS, s = rand_r(&state) % 3;
        size_t bytes = (size_t)1 << (rand_r(&state) % 26);
        bytes += (size_t)rand_r(&state) % bytes;
        if (block[slot]) {
            if (rand_r(&state) % 4) {
                OK(cuMemFreeAsync(block[slot], stream[s]));
            } else {
                let_go(stream, held); /* it may wait */
                OK(cuMemFree(block[slot]));
            }
            block[slot] = 0;
        } else if (rand_r(&state) % 2) {
            CUresult code = cuMemAllocAsync(&block[slot], bytes, stream[s]);
            CHECK(code == CUDA_SUCCESS || code == CUDA_ERROR_OUT_OF_MEMORY);
        } else {
            CUresult code = cuMemAlloc(&block[slot], bytes);
            CHECK(code == CUDA_SUCCESS || code == CUDA_ERROR_OUT_OF_MEMORY);
        }
        if (rand_r(&state) % 50 == 0) {
            held[s] = !held[s];
            EQUAL(held[s] ? standin_hold(stream[s]) : standin_release(stream[s]), 0);
        }
        if (rand_r(&state) % 200 == 0) {
            /* It may wait for the others: the driver made it so when memory was short. */
            let_go(stream, held);
            OK(cuStreamSynchronize(stream[s]));
        }
        if (rand_r(&state) % 300 == 0)
            OK(cuMemPoolTrimTo(default_pool(), bytes));
    }
    for (int i = 0; i < 3; i++)
        standin_release(stream[i]);
    for (int i = 0; i < SLOTS; i++)
        if (block[i])
            OK(cuMemFree(block[i]));
    for (int i = 0; i < 3; i++)
        OK(cuStreamDestroy(stream[i]));
    return NULL;
}

static void ledger_is_empty(void)
{
    OK(cuCtxSynchronize());
    OK(cuMemPoolTrimTo(default_pool(), 0));
    EQUAL(standin_real_live_blocks(0), 0);
    EQUAL(standin_direct_bytes(0), 0);
    EQUAL(standin_pool_used(0), 0);
    EQUAL(standin_pending_bytes(0), 0);
    EQUAL(standin_pool_reserved(0), 0);
    EQUAL(standin_live_bytes(0), standin_context_bytes(0) + standin_stream_bytes(0));
}

void check_random(void)
{
    struct worker worker = {.seed = 1, .rounds = 100000};
    shared = check_begin();
    standin_set_other(0, standin_free_bytes(0) - 2 * GIB);
    work(&worker);
    ledger_is_empty();
}

void check_race(void)
{
    struct worker worker[4];
    pthread_t thread[4];
    shared = check_begin();
    for (int i = 0; i < 4; i++) {
        worker[i] = (struct worker){.seed = 10u + (unsigned)i, .rounds = 10000};
        pthread_create(&thread[i], NULL, work, &worker[i]);
    }
    for (int i = 0; i < 4; i++)
        pthread_join(thread[i], NULL);
    ledger_is_empty();
}
