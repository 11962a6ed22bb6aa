/*
 * budget_nodes.c: the memory that the driver takes for the kernels of an executable, which
 * stays when it is destroyed, is asked for before.
 *
 * Runs with a limit of 1 GiB, beyond the context.
 */
#define _GNU_SOURCE
#include "budget_program.h"

static const char code[] = ".version 6.0\n.target sm_50\n.address_size 64\n"
                           ".visible .entry plain()\n{\n\tret;\n}\n"
                           ".visible .entry deep()\n{\n"
                           "\t.local .align 16 .b8 depot[2048];\n\tret;\n}\n";

static CUfunction plain, deep;
static CUstream stream;

enum shape { WIDE, CHAIN, FORK };

/* Answers the code of the instantiation. */
static CUresult make(CUfunction function, unsigned count, enum shape shape, bool upload,
                     CUgraphExec *executable)
{
    CUDA_GRAPH_INSTANTIATE_PARAMS with = {.flags = CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD,
                                          .hUploadStream = stream};
    CUDA_KERNEL_NODE_PARAMS params;
    CUDA_MEM_ALLOC_NODE_PARAMS alloc;
    CUgraphNode node, first = NULL, last = NULL;
    CUresult result;
    CUgraph graph;

    memset(&params, 0, sizeof(params));
    params.func = function;
    params.gridDimX = params.gridDimY = params.gridDimZ = 1;
    params.blockDimX = params.blockDimY = params.blockDimZ = 1;
    MUST(cuGraphCreate(&graph, 0));
    for (unsigned i = 0; i < count; i++) {
        const CUgraphNode *after = shape == FORK ? &first : &last;

        MUST(cuGraphAddKernelNode_v2(&node, graph, after, shape != WIDE && i > 0, &params));
        if (i == 0)
            first = node;
        last = node;
    }
    if (upload) {
        memset(&alloc, 0, sizeof(alloc));
        alloc.poolProps.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
        alloc.poolProps.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
        alloc.bytesize = 32 * MIB;
        MUST(cuGraphAddMemAllocNode(&node, graph, NULL, 0, &alloc));
        MUST(cuGraphAddMemFreeNode(&last, graph, &node, 1, alloc.dptr));
    }
    result = upload ? cuGraphInstantiateWithParams(executable, graph, &with)
                    : cuGraphInstantiateWithFlags(executable, graph, 0);
    MUST(cuGraphDestroy(graph));
    return result;
}

static CUdeviceptr filler;

/* So much is left. */
static void fill(uint64_t left)
{
    MUST(cuMemAlloc_v2(&filler, info_total() - info_used() - left));
}

static void empty(void)
{
    MUST(cuMemFree_v2(filler));
}

/* Another context, where nothing has come yet. */
static CUcontext fresh(void)
{
    CUcontext made;
    CUmodule module;

    MUST(cuCtxCreate_v4(&made, NULL, 0, 0));
    MUST(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    MUST(cuModuleLoadData(&module, code));
    MUST(cuModuleGetFunction(&plain, module, "plain"));
    MUST(cuModuleGetFunction(&deep, module, "deep"));
    return made;
}

/* Refused where so much is left, and nothing is taken; not refused where there is room. */
static CUgraphExec asked_for(CUfunction function, enum shape shape, bool upload, uint64_t left)
{
    CUgraphExec untouched = (CUgraphExec)(uintptr_t)SENTINEL, executable = untouched;
    uint64_t used, live;

    fill(left);
    used = info_used();
    live = sim.live_bytes(0);
    sim.reset_peak(0);
    EXPECT_CODE(make(function, 1000, shape, upload, &executable), CUDA_ERROR_OUT_OF_MEMORY);
    EXPECT(executable == untouched);
    EXPECT_EQUAL(sim.peak_bytes(0), live);
    EXPECT_EQUAL(info_used(), used);
    empty();
    used = info_used();
    live = sim.live_bytes(0);
    MUST(make(function, 1000, shape, upload, &executable));
    EXPECT(sim.live_bytes(0) >= live + 108 * MIB);
    EXPECT_EQUAL(info_used() - used, sim.live_bytes(0) - live);
    EXPECT_OK(cuGraphLaunch(executable, stream));
    EXPECT_OK(cuCtxSynchronize());
    return executable;
}

/* There already: a full budget refuses nothing of it. */
static void there(CUfunction function, enum shape shape, unsigned count)
{
    uint64_t live = sim.live_bytes(0);
    CUgraphExec executable = NULL;

    fill(0);
    live = sim.live_bytes(0);
    EXPECT_OK(make(function, count, shape, false, &executable));
    EXPECT_EQUAL(sim.live_bytes(0), live);
    empty();
    EXPECT_OK(cuGraphExecDestroy(executable));
}

static void add(CUgraph graph, CUgraphNode *node, const CUgraphNode *after)
{
    CUDA_KERNEL_NODE_PARAMS params;

    memset(&params, 0, sizeof(params));
    params.func = plain;
    params.gridDimX = params.gridDimY = params.gridDimZ = 1;
    params.blockDimX = params.blockDimY = params.blockDimZ = 1;
    MUST(cuGraphAddKernelNode_v2(node, graph, after, after ? 1 : 0, &params));
}

/* A hundred child graphs in a chain, each with a chain of 17 kernels, and empty nodes. */
static CUgraph narrow(void)
{
    CUgraph graph, child;
    CUgraphNode node = NULL, last;

    MUST(cuGraphCreate(&graph, 0));
    MUST(cuGraphCreate(&child, 0));
    for (int i = 0; i < 17; i++) {
        last = node;
        add(child, &node, i > 0 ? &last : NULL);
    }
    for (int i = 0; i < 100; i++) {
        last = node;
        MUST(cuGraphAddChildGraphNode(&node, graph, &last, i > 0, child));
    }
    for (int i = 0; i < 1000; i++)
        MUST(cuGraphAddEmptyNode(&last, graph, NULL, 0));
    MUST(cuGraphDestroy(child));
    return graph;
}

/* What is in a chain is asked nothing for, and leaves nothing for what is wide. */
static void narrow_then_wide(void)
{
    CUgraphExec executable = NULL;
    CUgraph graph = narrow();

    fill(0);
    EXPECT_OK(cuGraphInstantiateWithFlags(&executable, graph, 0));
    empty();
    MUST(cuGraphDestroy(graph));
    EXPECT_OK(cuGraphExecDestroy(executable));
    EXPECT_OK(cuGraphExecDestroy(asked_for(plain, WIDE, false, 50 * MIB)));
}

/* Kernels count in their own context, whichever is current. */
static void other_context(CUfunction others)
{
    CUgraphExec executable = NULL;

    MUST(make(others, 1000, WIDE, false, &executable));
    EXPECT_OK(cuGraphExecDestroy(executable));
    there(others, WIDE, 1000);
    EXPECT_OK(cuGraphExecDestroy(asked_for(plain, WIDE, false, 50 * MIB)));
}

/* Each takes nothing, or one step; together they are asked for. */
static void small_ones(void)
{
    CUgraphExec executable = NULL;
    uint64_t live;

    fill(0);
    live = sim.live_bytes(0);
    sim.reset_peak(0);
    for (int i = 0; i < 50; i++)
        (void)make(plain, 5, WIDE, false, &executable);
    EXPECT_EQUAL(sim.peak_bytes(0), live);
    EXPECT_CODE(make(plain, 5, WIDE, false, &executable), CUDA_ERROR_OUT_OF_MEMORY);
    EXPECT_EQUAL(sim.peak_bytes(0), live);
    empty();
}

int main(void)
{
    CUgraphExec first, second;
    CUfunction others;
    CUcontext elsewhere;
    CUcontext context;

    sim_needed();
    start_device(0);
    context = fresh();
    case_begin("nodes-beside-one-another");
    first = asked_for(plain, WIDE, false, 50 * MIB);
    second = asked_for(plain, FORK, false, 50 * MIB);
    case_end();

    case_begin("nodes-that-are-there");
    there(plain, CHAIN, 1000);
    EXPECT_OK(cuGraphExecDestroy(first));
    there(plain, WIDE, 1000);
    there(plain, FORK, 1000);
    EXPECT_OK(cuGraphExecDestroy(second));
    there(plain, WIDE, 2000);
    EXPECT_OK(cuCtxDestroy(context));
    case_end();

    case_begin("nodes-with-local-memory");
    context = fresh();
    first = asked_for(deep, WIDE, false, 264 * MIB + 50 * MIB);
    second = asked_for(deep, WIDE, false, 50 * MIB);
    EXPECT_OK(cuGraphExecDestroy(first));
    there(deep, WIDE, 1000);
    EXPECT_OK(cuGraphExecDestroy(second));
    EXPECT_OK(cuCtxDestroy(context));
    case_end();

    case_begin("nodes-with-an-upload");
    context = fresh();
    first = asked_for(plain, WIDE, true, 32 * MIB + 50 * MIB);
    EXPECT_OK(cuGraphExecDestroy(first));
    EXPECT_OK(cuDeviceGraphMemTrim(0));
    there(plain, WIDE, 1000);
    EXPECT_OK(cuCtxDestroy(context));
    case_end();

    case_begin("nodes-in-chains");
    context = fresh();
    narrow_then_wide();
    EXPECT_OK(cuCtxDestroy(context));
    case_end();

    case_begin("nodes-of-another-context");
    elsewhere = fresh();
    others = plain;
    context = fresh();
    other_context(others);
    EXPECT_OK(cuCtxDestroy(context));
    EXPECT_OK(cuCtxDestroy(elsewhere));
    case_end();

    case_begin("nodes-of-small-ones");
    context = fresh();
    small_ones();
    EXPECT_OK(cuCtxDestroy(context));
    case_end();
    return cases_status();
}
