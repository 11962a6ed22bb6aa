/*
 * bench_pairs.c: how long an allocation and its free take, one case a run.
 *
 *   bench_pairs CASE ROUNDS
 *
 * Prints the nanoseconds of one round: the lowest mean of several equal parts, since what else
 * runs on a machine can only add. The pool is warm and keeps what it has; nothing here
 * depends on how a budget works, so the same run serves with and without one.
 */
#define _GNU_SOURCE
#include <cuda.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define KIB     ((size_t)1024)
#define MIB     (KIB * 1024)
#define TOO_BIG (KIB * KIB * MIB) /* 1 TiB: more than any card and any limit */
#define LIVE    10000
#define THREADS 4
#define PARTS   20

struct bench {
    const char *name;
    const char *title;
    unsigned long (*run)(CUstream stream, unsigned long rounds); /* returns the wrong answers */
    unsigned int live;    /* pool blocks of 4 KiB that live meanwhile */
    unsigned int threads; /* each on its own stream */
};

static CUcontext context;

static unsigned long async_pair(CUstream stream, unsigned long rounds)
{
    unsigned long wrong = 0;
    CUdeviceptr block;
    for (unsigned long i = 0; i < rounds; i++) {
        if (cuMemAllocAsync(&block, MIB, stream) != CUDA_SUCCESS)
            wrong++;
        else
            wrong += cuMemFreeAsync(block, stream) != CUDA_SUCCESS;
    }
    return wrong;
}

static unsigned long sync_pair(size_t bytes, unsigned long rounds)
{
    unsigned long wrong = 0;
    CUdeviceptr block;
    for (unsigned long i = 0; i < rounds; i++) {
        if (cuMemAlloc(&block, bytes) != CUDA_SUCCESS)
            wrong++;
        else
            wrong += cuMemFree(block) != CUDA_SUCCESS;
    }
    return wrong;
}

static unsigned long sync_pair_1m(CUstream stream, unsigned long rounds)
{
    (void)stream;
    return sync_pair(MIB, rounds);
}

static unsigned long sync_pair_4k(CUstream stream, unsigned long rounds)
{
    (void)stream;
    return sync_pair(4 * KIB, rounds);
}

static unsigned long refusal(CUstream stream, unsigned long rounds)
{
    unsigned long wrong = 0;
    CUdeviceptr block;
    (void)stream;
    for (unsigned long i = 0; i < rounds; i++)
        wrong += cuMemAlloc(&block, TOO_BIG) != CUDA_ERROR_OUT_OF_MEMORY;
    return wrong;
}

static unsigned long async_refusal(CUstream stream, unsigned long rounds)
{
    unsigned long wrong = 0;
    CUdeviceptr block;
    for (unsigned long i = 0; i < rounds; i++)
        wrong += cuMemAllocAsync(&block, TOO_BIG, stream) != CUDA_ERROR_OUT_OF_MEMORY;
    return wrong;
}

static unsigned long mem_get_info(CUstream stream, unsigned long rounds)
{
    unsigned long wrong = 0;
    size_t bytes_free, total;
    (void)stream;
    for (unsigned long i = 0; i < rounds; i++)
        wrong += cuMemGetInfo(&bytes_free, &total) != CUDA_SUCCESS;
    return wrong;
}

/* Calls that take no memory: what they pay for being looked at. */
static CUfunction nothing;
static CUgraphExec empty;

static unsigned long launch(CUstream stream, unsigned long rounds)
{
    unsigned long wrong = 0;
    for (unsigned long i = 0; i < rounds; i++)
        wrong +=
            cuLaunchKernel(nothing, 1, 1, 1, 32, 1, 1, 0, stream, NULL, NULL) != CUDA_SUCCESS;
    return wrong;
}

static unsigned long graph_launch(CUstream stream, unsigned long rounds)
{
    unsigned long wrong = 0;
    for (unsigned long i = 0; i < rounds; i++)
        wrong += cuGraphLaunch(empty, stream) != CUDA_SUCCESS;
    return wrong;
}

/* The same by what cuGetProcAddress gives, which is how frameworks come to the driver. */
static CUresult (*found_launch)(CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned,
                                unsigned, unsigned, CUstream, void **, void **);
static CUresult (*found_graph_launch)(CUgraphExec, CUstream);

static unsigned long launch_found(CUstream stream, unsigned long rounds)
{
    unsigned long wrong = 0;
    for (unsigned long i = 0; i < rounds; i++)
        wrong +=
            found_launch(nothing, 1, 1, 1, 32, 1, 1, 0, stream, NULL, NULL) != CUDA_SUCCESS;
    return wrong;
}

static unsigned long graph_launch_found(CUstream stream, unsigned long rounds)
{
    unsigned long wrong = 0;
    for (unsigned long i = 0; i < rounds; i++)
        wrong += found_graph_launch(empty, stream) != CUDA_SUCCESS;
    return wrong;
}

/* Work with two blocks of the pool, which GPUBUDGET_STREAM_ORDER follows. */
static CUdeviceptr from, to;
static CUfunction pointed;

static unsigned long copy(CUstream stream, unsigned long rounds)
{
    unsigned long wrong = 0;
    for (unsigned long i = 0; i < rounds; i++)
        wrong += cuMemcpyDtoDAsync(to, from, 64, stream) != CUDA_SUCCESS;
    return wrong;
}

static unsigned long copy_inside(CUstream stream, unsigned long rounds)
{
    unsigned long wrong = 0;
    for (unsigned long i = 0; i < rounds; i++)
        wrong += cuMemcpyDtoDAsync(to + 4096, from + 4096, 64, stream) != CUDA_SUCCESS;
    return wrong;
}

static unsigned long fill(CUstream stream, unsigned long rounds)
{
    unsigned long wrong = 0;
    for (unsigned long i = 0; i < rounds; i++)
        wrong += cuMemsetD8Async(to, 0, 64, stream) != CUDA_SUCCESS;
    return wrong;
}

static unsigned long launch_pointed(CUstream stream, unsigned long rounds)
{
    void *parameters[] = {&to};
    unsigned long wrong = 0;
    for (unsigned long i = 0; i < rounds; i++)
        wrong += cuLaunchKernel(pointed, 1, 1, 1, 32, 1, 1, 0, stream, parameters, NULL) !=
                 CUDA_SUCCESS;
    return wrong;
}

static const struct bench benches[] = {
    {"async", "async pair, 1 MiB, pool warm", async_pair, 0, 1},
    {"async-live", "the same, 10,000 live blocks", async_pair, LIVE, 1},
    {"async-threads", "the same from 4 threads", async_pair, 0, THREADS},
    {"sync-1m", "sync pair, 1 MiB", sync_pair_1m, 0, 1},
    {"sync-4k", "sync pair, 4 KiB", sync_pair_4k, 0, 1},
    {"refusal", "refusal of 1 TiB (cuMemAlloc)", refusal, 0, 1},
    {"async-refusal", "refusal of 1 TiB (async)", async_refusal, 0, 1},
    {"info", "cuMemGetInfo", mem_get_info, 0, 1},
    {"launch", "kernel launch", launch, 0, 1},
    {"launch-found", "the same, looked up", launch_found, 0, 1},
    {"graph-launch", "graph launch, no memory nodes", graph_launch, 0, 1},
    {"graph-launch-found", "the same, looked up", graph_launch_found, 0, 1},
    {"copy", "copy of 64 bytes", copy, 0, 1},
    {"copy-inside", "the same, amid two blocks", copy_inside, 0, 1},
    {"memset", "memset of 64 bytes", fill, 0, 1},
    {"launch-pointer", "kernel launch with a pointer", launch_pointed, 0, 1},
};

#define BENCHES (sizeof(benches) / sizeof(benches[0]))

static void must(CUresult result, const char *what)
{
    if (result == CUDA_SUCCESS)
        return;
    fprintf(stderr, "bench_pairs: %s: error %d\n", what, (int)result);
    exit(1);
}

struct worker {
    const struct bench *bench;
    unsigned long rounds, wrong;
    uint64_t taken[PARTS]; /* ns */
    pthread_barrier_t *start;
    pthread_t thread;
};

static uint64_t now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

static void *work(void *argument)
{
    struct worker *worker = argument;
    CUstream stream;

    must(cuCtxSetCurrent(context), "cuCtxSetCurrent");
    must(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), "cuStreamCreate");
    worker->wrong = worker->bench->run(stream, worker->rounds / 10 + 1);
    must(cuStreamSynchronize(stream), "cuStreamSynchronize");
    for (int part = 0; part < PARTS; part++) {
        uint64_t begin;

        pthread_barrier_wait(worker->start);
        begin = now();
        worker->wrong += worker->bench->run(stream, worker->rounds / PARTS);
        worker->taken[part] = now() - begin;
    }
    must(cuStreamSynchronize(stream), "cuStreamSynchronize");
    must(cuStreamDestroy(stream), "cuStreamDestroy");
    return NULL;
}

static void look_up(const char *name, void *function)
{
    CUdriverProcAddressQueryResult found;

    must(cuGetProcAddress(name, function, 12000, CU_GET_PROC_ADDRESS_DEFAULT, &found), name);
}

static void prepare_launches(void)
{
    static const char text[] = ".version 6.0\n.target sm_50\n.address_size 64\n"
                               ".visible .entry nothing()\n{\n\tret;\n}\n"
                               ".visible .entry pointed(.param .u64 p)\n{\n\tret;\n}\n";
    CUmodule module;
    CUgraph graph;

    must(cuModuleLoadData(&module, text), "cuModuleLoadData");
    must(cuModuleGetFunction(&nothing, module, "nothing"), "cuModuleGetFunction");
    must(cuModuleGetFunction(&pointed, module, "pointed"), "cuModuleGetFunction");
    look_up("cuLaunchKernel", &found_launch);
    look_up("cuGraphLaunch", &found_graph_launch);
    must(cuGraphCreate(&graph, 0), "cuGraphCreate");
    must(cuGraphInstantiateWithFlags(&empty, graph, 0), "cuGraphInstantiateWithFlags");
}

static void prepare(const struct bench *bench)
{
    static CUdeviceptr live[LIVE];
    CUdevice device;
    CUmemoryPool pool;
    CUdeviceptr warm;
    cuuint64_t keep = UINT64_MAX;

    must(cuInit(0), "cuInit");
    must(cuDeviceGet(&device, 0), "cuDeviceGet");
    must(cuDevicePrimaryCtxRetain(&context, device), "cuDevicePrimaryCtxRetain");
    must(cuCtxSetCurrent(context), "cuCtxSetCurrent");
    must(cuDeviceGetDefaultMemPool(&pool, device), "cuDeviceGetDefaultMemPool");
    must(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &keep),
         "cuMemPoolSetAttribute");
    must(cuMemAllocAsync(&warm, 256 * MIB, NULL), "cuMemAllocAsync");
    must(cuMemFreeAsync(warm, NULL), "cuMemFreeAsync");
    must(cuStreamSynchronize(NULL), "cuStreamSynchronize");
    prepare_launches();
    must(cuMemAllocAsync(&from, MIB, NULL), "cuMemAllocAsync");
    must(cuMemAllocAsync(&to, MIB, NULL), "cuMemAllocAsync");
    for (unsigned int i = 0; i < bench->live; i++)
        must(cuMemAllocAsync(&live[i], 4 * KIB, NULL), "cuMemAllocAsync");
    must(cuStreamSynchronize(NULL), "cuStreamSynchronize");
}

static int measure(const struct bench *bench, unsigned long rounds)
{
    struct worker workers[THREADS];
    pthread_barrier_t start;
    uint64_t lowest = UINT64_MAX;
    unsigned long wrong = 0;

    if (rounds < PARTS) {
        fprintf(stderr, "bench_pairs: at least %d rounds\n", PARTS);
        return 2;
    }
    prepare(bench);
    pthread_barrier_init(&start, NULL, bench->threads);
    for (unsigned int i = 0; i < bench->threads; i++) {
        workers[i] = (struct worker){.bench = bench, .rounds = rounds, .start = &start};
        if (pthread_create(&workers[i].thread, NULL, work, &workers[i]) != 0)
            return 1;
    }
    for (unsigned int i = 0; i < bench->threads; i++) {
        pthread_join(workers[i].thread, NULL);
        wrong += workers[i].wrong;
    }
    for (int part = 0; part < PARTS; part++) {
        uint64_t taken = 0; /* by the last of the threads */

        for (unsigned int i = 0; i < bench->threads; i++)
            if (workers[i].taken[part] > taken)
                taken = workers[i].taken[part];
        if (taken < lowest)
            lowest = taken;
    }
    if (wrong != 0) {
        fprintf(stderr, "bench_pairs: %s: %lu wrong answers\n", bench->name, wrong);
        return 1;
    }
    printf("%.1f\n", (double)lowest / (double)(rounds / PARTS));
    return 0;
}

int main(int argc, char **argv)
{
    if (argc == 2 && strcmp(argv[1], "list") == 0) {
        for (size_t i = 0; i < BENCHES; i++)
            printf("%s %s\n", benches[i].name, benches[i].title);
        return 0;
    }
    if (argc == 3)
        for (size_t i = 0; i < BENCHES; i++)
            if (strcmp(argv[1], benches[i].name) == 0)
                return measure(&benches[i], strtoul(argv[2], NULL, 10));
    fprintf(stderr, "Usage: bench_pairs CASE ROUNDS | bench_pairs list\n");
    return 2;
}
