/*
 * budget_crowd.c: all families at once on several threads; at rest the ledger is the card's.
 *
 *     budget_crowd ROUNDS [report]
 *
 * Runs with a limit of 1 GiB beyond the context, in footprint mode; report: which is not kept.
 */
#define _GNU_SOURCE
#include "budget_program.h"

static const char big[] = ".version 7.0\n.target sm_70\n.address_size 64\n"
                          ".global .align 4 .b8 big[67108864];\n";
static CUcontext context;
static unsigned long rounds;

enum { KEEP = 4 };

struct worker {
    pthread_t thread;
    int index;
    CUmodule modules[KEEP];
    CUstream streams[KEEP], own;
    CUarray arrays[KEEP];
    CUmemGenericAllocationHandle handles[KEEP];
    CUdeviceptr direct[KEEP], ordered[KEEP];
    CUgraphExec executables[KEEP];
    CUgraph graphs[KEEP];
};

static CUgraph make_graph(size_t bytes)
{
    CUDA_MEM_ALLOC_NODE_PARAMS params;
    CUgraphNode node = NULL, last = NULL;
    CUgraph graph;

    memset(&params, 0, sizeof(params));
    params.poolProps.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    params.poolProps.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    params.bytesize = bytes;
    MUST(cuGraphCreate(&graph, 0));
    MUST(cuGraphAddMemAllocNode(&node, graph, NULL, 0, &params));
    MUST(cuGraphAddMemFreeNode(&last, graph, &node, 1, params.dptr));
    return graph;
}

static void check(CUresult code, const char *call)
{
    if (code != CUDA_SUCCESS && code != CUDA_ERROR_OUT_OF_MEMORY)
        case_fails("%s answers %d", call, (int)code);
}

static void one(struct worker *worker, uint64_t *seed)
{
    const CUmemAllocationProp prop = {
        .type = CU_MEM_ALLOCATION_TYPE_PINNED,
        .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0}};
    uint64_t r = random_next(seed);
    unsigned at = (r >> 8) % KEEP;
    size_t bytes = ((r >> 16) % 60 + 1) * MIB;
    CUresult code;

    switch (r % 8) {
    case 0:
        if (worker->modules[at]) {
            EXPECT_OK(cuModuleUnload(worker->modules[at]));
            worker->modules[at] = NULL;
        } else {
            code = cuModuleLoadData(&worker->modules[at], big);
            check(code, "cuModuleLoadData");
        }
        break;
    case 1:
        if (worker->streams[at]) {
            EXPECT_OK(cuStreamDestroy_v2(worker->streams[at]));
            worker->streams[at] = NULL;
        } else {
            check(cuStreamCreate(&worker->streams[at], 0), "cuStreamCreate");
        }
        break;
    case 2:
        if (worker->arrays[at]) {
            EXPECT_OK(cuArrayDestroy(worker->arrays[at]));
            worker->arrays[at] = NULL;
        } else {
            CUDA_ARRAY_DESCRIPTOR flat = {1024, bytes / 4096, CU_AD_FORMAT_FLOAT, 1};

            check(cuArrayCreate_v2(&worker->arrays[at], &flat), "cuArrayCreate");
        }
        break;
    case 3:
        if (worker->handles[at]) {
            EXPECT_OK(cuMemRelease(worker->handles[at]));
            worker->handles[at] = 0;
        } else {
            check(cuMemCreate(&worker->handles[at], bytes / MIB * 2 * MIB, &prop, 0),
                  "cuMemCreate");
        }
        break;
    case 4:
        if (worker->direct[at]) {
            EXPECT_OK(cuMemFree_v2(worker->direct[at]));
            worker->direct[at] = 0;
        } else {
            check(cuMemAlloc_v2(&worker->direct[at], bytes), "cuMemAlloc");
        }
        break;
    case 5:
        if (worker->ordered[at]) {
            EXPECT_OK(cuMemFreeAsync(worker->ordered[at], worker->own));
            worker->ordered[at] = 0;
        } else {
            code = cuMemAllocAsync(&worker->ordered[at], bytes, worker->own);
            check(code, "cuMemAllocAsync");
            if (code != CUDA_SUCCESS)
                worker->ordered[at] = 0;
        }
        break;
    case 6:
        if (!worker->executables[at]) {
            check(cuGraphInstantiateWithFlags(&worker->executables[at], worker->graphs[at], 0),
                  "cuGraphInstantiate");
        } else if (r & (1 << 30)) {
            EXPECT_OK(cuGraphExecDestroy(worker->executables[at]));
            worker->executables[at] = NULL;
        } else if (r & (1 << 29)) {
            check(cuGraphUpload(worker->executables[at], worker->own), "cuGraphUpload");
        } else {
            check(cuGraphLaunch(worker->executables[at], worker->own), "cuGraphLaunch");
        }
        break;
    default:
        if ((r >> 32) % 8 == 0)
            EXPECT_OK(cuDeviceGraphMemTrim(0));
        else if ((r >> 32) % 8 == 1)
            EXPECT_OK(cuStreamSynchronize(worker->own));
        break;
    }
}

static void *work(void *arg)
{
    struct worker *worker = arg;
    uint64_t seed = 88172645463325252u + (uint64_t)worker->index * 7919;

    MUST(cuCtxSetCurrent(context));
    for (unsigned long i = 0; i < rounds; i++)
        one(worker, &seed);
    return NULL;
}

static void end(struct worker *worker)
{
    for (int at = 0; at < KEEP; at++) {
        if (worker->modules[at])
            EXPECT_OK(cuModuleUnload(worker->modules[at]));
        if (worker->streams[at])
            EXPECT_OK(cuStreamDestroy_v2(worker->streams[at]));
        if (worker->arrays[at])
            EXPECT_OK(cuArrayDestroy(worker->arrays[at]));
        if (worker->handles[at])
            EXPECT_OK(cuMemRelease(worker->handles[at]));
        if (worker->direct[at])
            EXPECT_OK(cuMemFree_v2(worker->direct[at]));
        if (worker->ordered[at])
            EXPECT_OK(cuMemFreeAsync(worker->ordered[at], worker->own));
        if (worker->executables[at])
            EXPECT_OK(cuGraphExecDestroy(worker->executables[at]));
    }
}

int main(int argc, char **argv)
{
    static struct worker workers[4];
    bool reports = argc > 2;
    uint64_t limit;

    rounds = argc > 1 ? strtoul(argv[1], NULL, 10) : 2000;
    sim_needed();
    context = start_device(0);
    limit = info_total();
    for (int round = 0; round < 5; round++) {
        case_begin("crowd-%d", round);
        memset(workers, 0, sizeof(workers));
        for (int i = 0; i < 4; i++) {
            workers[i].index = i + round * 4;
            for (int at = 0; at < KEEP; at++)
                workers[i].graphs[at] = make_graph((size_t)(i + at + 1) * 30 * MIB);
            MUST(cuStreamCreate(&workers[i].own, CU_STREAM_NON_BLOCKING));
        }
        for (int i = 0; i < 4; i++)
            pthread_create(&workers[i].thread, NULL, work, &workers[i]);
        for (int i = 0; i < 4; i++)
            pthread_join(workers[i].thread, NULL);
        if (!reports && sim.live_bytes(0) > limit)
            case_fails("%llu over the limit", (unsigned long long)(sim.live_bytes(0) - limit));
        EXPECT_OK(cuCtxSynchronize());
        if (sim.live_bytes(0) <= limit)
            EXPECT_EQUAL(info_used(), sim.process_bytes(0));
        for (int i = 0; i < 4; i++)
            end(&workers[i]);
        EXPECT_OK(cuCtxSynchronize());
        EXPECT_OK(cuDeviceGraphMemTrim(0));
        EXPECT_EQUAL(info_used(), sim.process_bytes(0));
        for (int i = 0; i < 4; i++) {
            for (int at = 0; at < KEEP; at++)
                EXPECT_OK(cuGraphDestroy(workers[i].graphs[at]));
            EXPECT_OK(cuStreamDestroy_v2(workers[i].own));
        }
        case_end();
    }
    return cases_status();
}
