/*
 * budget_graphs.c: the memory of graphs: allocation nodes, captured allocations, uploads.
 *
 * Runs with a limit of 1 GiB, beyond the context in footprint mode.
 */
#define _GNU_SOURCE
#include "budget_program.h"

static CUcontext context;
static CUstream stream;
static bool requested;

static CUgraphNode add_alloc(CUgraph graph, CUgraphNode after, size_t bytes,
                             CUdeviceptr *pointer)
{
    CUDA_MEM_ALLOC_NODE_PARAMS params;
    CUgraphNode node = NULL;

    memset(&params, 0, sizeof(params));
    params.poolProps.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    params.poolProps.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    params.bytesize = bytes;
    MUST(cuGraphAddMemAllocNode(&node, graph, after ? &after : NULL, after ? 1 : 0, &params));
    *pointer = params.dptr;
    return node;
}

static CUgraphNode add_free(CUgraph graph, CUgraphNode after, CUdeviceptr pointer)
{
    CUgraphNode node = NULL;

    MUST(cuGraphAddMemFreeNode(&node, graph, &after, 1, pointer));
    return node;
}

/* So many allocations of that size, each freed before the next (in turn), or all at the end. */
static CUgraph make_graph(int count, size_t bytes, bool in_turn)
{
    CUdeviceptr pointers[8];
    CUgraphNode last = NULL;
    CUgraph graph;

    MUST(cuGraphCreate(&graph, 0));
    for (int i = 0; i < count; i++) {
        last = add_alloc(graph, last, bytes, &pointers[i]);
        if (in_turn)
            last = add_free(graph, last, pointers[i]);
    }
    for (int i = 0; i < count && !in_turn; i++)
        last = add_free(graph, last, pointers[i]);
    return graph;
}

static CUgraphExec instantiated(CUgraph graph)
{
    CUgraphExec executable = NULL;

    MUST(cuGraphInstantiateWithFlags(&executable, graph, 0));
    return executable;
}

/* What the driver gives a graph of so many bytes. */
static uint64_t whole_steps(uint64_t bytes)
{
    const uint64_t step = 32 * MIB;

    return requested ? bytes : (bytes + step - 1) / step * step;
}

static void trimmed(void)
{
    EXPECT_OK(cuCtxSynchronize());
    EXPECT_OK(cuDeviceGraphMemTrim(0));
}

static void from_launch_to_trim(void)
{
    uint64_t used = info_used(), live = sim.live_bytes(0);
    CUgraphExec executables[4];
    CUgraph graphs[4];

    case_begin("graph-from-launch-to-trim");
    for (int i = 0; i < 4; i++) {
        graphs[i] = make_graph(1, 256 * MIB, true);
        executables[i] = instantiated(graphs[i]);
    }
    EXPECT_EQUAL(info_used(), used);
    /* All share what the first one took. */
    for (int i = 0; i < 8; i++) {
        EXPECT_OK(cuGraphLaunch(executables[i % 4], stream));
        EXPECT_EQUAL(info_used(), used + 256 * MIB);
        EXPECT_EQUAL(sim.live_bytes(0), live + 256 * MIB);
    }
    EXPECT_OK(cuCtxSynchronize());
    for (int i = 0; i < 4; i++)
        EXPECT_OK(cuGraphExecDestroy(executables[i]));
    EXPECT_EQUAL(info_used(), used + 256 * MIB);
    trimmed();
    EXPECT_EQUAL(info_used(), used);
    for (int i = 0; i < 4; i++)
        EXPECT_OK(cuGraphDestroy(graphs[i]));
    case_end();
}

static void too_large(void)
{
    CUgraph small = make_graph(1, 128 * MIB, true), large = make_graph(2, 600 * MIB, false);
    CUgraph in_turn = make_graph(2, 600 * MIB, true);
    CUgraphExec warm = instantiated(small), big = instantiated(large);
    CUgraphExec shares = instantiated(in_turn);
    uint64_t used = info_used(), live = sim.live_bytes(0);

    case_begin("graph-too-large");
    EXPECT_OK(cuGraphLaunch(warm, stream));
    EXPECT_CODE(cuGraphLaunch(big, stream), CUDA_ERROR_OUT_OF_MEMORY);
    EXPECT_CODE(cuGraphUpload(big, stream), CUDA_ERROR_OUT_OF_MEMORY);
    EXPECT(sim.live_bytes(0) <= live + 128 * MIB);
    /* The trim that undid it has taken the warm one's memory too: it gets it back. */
    EXPECT_OK(cuGraphLaunch(warm, stream));
    EXPECT_EQUAL(info_used(), used + 128 * MIB);
    /* Two allocations that follow each other need the room of one. */
    EXPECT_OK(cuGraphLaunch(shares, stream));
    EXPECT_EQUAL(info_used(), used + whole_steps(600 * MIB));
    EXPECT_OK(cuGraphExecDestroy(warm));
    EXPECT_OK(cuGraphExecDestroy(big));
    EXPECT_OK(cuGraphExecDestroy(shares));
    trimmed();
    EXPECT_EQUAL(info_used(), used);
    EXPECT_OK(cuGraphDestroy(small));
    EXPECT_OK(cuGraphDestroy(large));
    EXPECT_OK(cuGraphDestroy(in_turn));
    case_end();
}

/* Idle graph memory makes way for what needs the room. */
static void makes_way(void)
{
    CUgraph graph = make_graph(1, 600 * MIB, true);
    CUgraphExec executable = instantiated(graph);
    uint64_t used = info_used();
    CUdeviceptr pointer = 0;

    case_begin("graph-makes-way");
    EXPECT_OK(cuGraphLaunch(executable, stream));
    EXPECT_OK(cuCtxSynchronize());
    EXPECT_OK(cuMemAlloc_v2(&pointer, 600 * MIB));
    EXPECT_EQUAL(info_used(), used + 600 * MIB);
    EXPECT_CODE(cuGraphLaunch(executable, stream), CUDA_ERROR_OUT_OF_MEMORY);
    EXPECT_OK(cuMemFree_v2(pointer));
    EXPECT_OK(cuGraphLaunch(executable, stream));
    EXPECT_OK(cuGraphExecDestroy(executable));
    EXPECT_OK(cuGraphDestroy(graph));
    trimmed();
    EXPECT_EQUAL(info_used(), used);
    case_end();
}

static void uploaded_at_instantiation(void)
{
    CUgraph fits = make_graph(1, 256 * MIB, true), large = make_graph(2, 600 * MIB, false);
    CUDA_GRAPH_INSTANTIATE_PARAMS params;
    CUgraphExec untouched = (CUgraphExec)(uintptr_t)SENTINEL, executable = untouched;
    uint64_t used = info_used(), live = sim.live_bytes(0);

    case_begin("graph-uploaded-at-instantiation");
    memset(&params, 0, sizeof(params));
    params.flags = CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD;
    params.hUploadStream = stream;
    EXPECT_CODE(cuGraphInstantiateWithParams(&executable, large, &params),
                CUDA_ERROR_OUT_OF_MEMORY);
    EXPECT(executable == untouched);
    EXPECT_EQUAL(sim.live_bytes(0), live);
    EXPECT_OK(cuGraphInstantiateWithParams(&executable, fits, &params));
    EXPECT_EQUAL(info_used(), used + 256 * MIB);
    EXPECT_OK(cuGraphLaunch(executable, stream));
    EXPECT_OK(cuCtxSynchronize());
    EXPECT_OK(cuGraphExecDestroy(executable));
    trimmed();
    EXPECT_EQUAL(info_used(), used);
    EXPECT_OK(cuGraphDestroy(fits));
    EXPECT_OK(cuGraphDestroy(large));
    case_end();
}

static void captured(void)
{
    uint64_t used = info_used();
    CUgraphExec executable;
    CUdeviceptr pointer = 0;
    CUgraph graph = NULL;

    case_begin("graph-captured");
    for (int i = 0; i < 2; i++) {
        size_t bytes = i == 0 ? 200 * MIB : 2 * GIB;

        EXPECT_OK(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
        EXPECT_OK(cuMemAllocAsync(&pointer, bytes, stream));
        EXPECT_OK(cuMemFreeAsync(pointer, stream));
        EXPECT_OK(cuStreamEndCapture(stream, &graph));
        if (requested && i == 1) {
            EXPECT_CODE(cuGraphInstantiateWithFlags(&executable, graph, 0),
                        CUDA_ERROR_OUT_OF_MEMORY);
            EXPECT_OK(cuGraphDestroy(graph));
            continue;
        }
        MUST(cuGraphInstantiateWithFlags(&executable, graph, 0));
        EXPECT_EQUAL(info_used(), used + (requested ? bytes : 0));
        EXPECT_CODE(cuGraphLaunch(executable, stream),
                    i == 0 ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY);
        EXPECT_EQUAL(info_used(), used + (i == 0 ? whole_steps(bytes) : 0));
        EXPECT_OK(cuCtxSynchronize());
        EXPECT_OK(cuGraphExecDestroy(executable));
        EXPECT_OK(cuGraphDestroy(graph));
        trimmed();
        EXPECT_EQUAL(info_used(), used);
    }
    case_end();
}

/* A child that was moved into its parent, the only kind that may hold allocation nodes. */
static CUgraph parent_of(CUgraph child)
{
    CUgraphNodeParams params;
    CUgraphNode node;
    CUgraph parent;

    memset(&params, 0, sizeof(params));
    params.type = CU_GRAPH_NODE_TYPE_GRAPH;
    params.graph.graph = child;
    params.graph.ownership = CU_GRAPH_CHILD_GRAPH_OWNERSHIP_MOVE;
    MUST(cuGraphCreate(&parent, 0));
    MUST(cuGraphAddNode_v2(&node, parent, NULL, NULL, 0, &params));
    return parent;
}

static void moved_child(void)
{
    /* In a child the driver takes a step more. */
    const uint64_t takes = 256 * MIB + (requested ? 0 : 32 * MIB);
    CUgraph fits = parent_of(make_graph(1, 256 * MIB, true));
    CUgraph large = parent_of(make_graph(2, 600 * MIB, false));
    CUgraphExec executable, untouched = (CUgraphExec)(uintptr_t)SENTINEL, big = untouched;
    uint64_t used = info_used(), live = sim.live_bytes(0);
    CUdeviceptr filler = 0;

    case_begin("graph-moved-child");
    executable = instantiated(fits);
    EXPECT_EQUAL(info_used(), used + (requested ? takes : 0));
    /* With room for all but that step: not above the limit, and nothing stays. */
    EXPECT_OK(cuMemAlloc_v2(&filler, info_total() - used - 256 * MIB));
    EXPECT_CODE(cuGraphLaunch(executable, stream),
                requested ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY);
    EXPECT_EQUAL(info_used(), info_total() - (requested ? 0 : 256 * MIB));
    EXPECT_OK(cuMemFree_v2(filler));
    EXPECT_OK(cuGraphLaunch(executable, stream));
    EXPECT_EQUAL(info_used(), used + takes);
    EXPECT_EQUAL(sim.live_bytes(0), live + 288 * MIB);
    EXPECT_CODE(cuGraphInstantiateWithFlags(&big, large, 0),
                requested ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS);
    EXPECT(!requested || big == untouched);
    if (!requested) {
        EXPECT_CODE(cuGraphLaunch(big, stream), CUDA_ERROR_OUT_OF_MEMORY);
        EXPECT_OK(cuGraphExecDestroy(big));
    }
    EXPECT_OK(cuCtxSynchronize());
    EXPECT_OK(cuGraphExecDestroy(executable));
    trimmed();
    EXPECT_EQUAL(info_used(), used);
    EXPECT_EQUAL(sim.live_bytes(0), live);
    EXPECT_OK(cuGraphDestroy(fits));
    EXPECT_OK(cuGraphDestroy(large));
    case_end();
}

/* A graph without allocation nodes costs nothing, and errors are the driver's. */
static void others(void)
{
    CUgraphExec executable = (CUgraphExec)(uintptr_t)SENTINEL;
    CUgraph empty;
    uint64_t used = info_used();

    case_begin("graph-errors-are-the-drivers");
    MUST(cuGraphCreate(&empty, 0));
    EXPECT_CODE(cuGraphInstantiateWithFlags(NULL, empty, 0), CUDA_ERROR_INVALID_VALUE);
    EXPECT(cuGraphInstantiateWithFlags(&executable, NULL, 0) != CUDA_SUCCESS);
    EXPECT(executable == (CUgraphExec)(uintptr_t)SENTINEL);
    EXPECT(cuGraphLaunch(executable, stream) != CUDA_SUCCESS);
    EXPECT(cuGraphExecDestroy(executable) != CUDA_SUCCESS);
    EXPECT_OK(cuGraphInstantiateWithFlags(&executable, empty, 0));
    sim.reset_counts();
    EXPECT_OK(cuGraphLaunch(executable, stream));
    EXPECT_EQUAL(sim.calls("*"), 1);
    EXPECT_OK(cuGraphExecDestroy(executable));
    EXPECT_OK(cuGraphDestroy(empty));
    EXPECT_EQUAL(info_used(), used);
    case_end();
}

/* Every driver call of an instantiation and a launch fails once: nothing is lost. */
static void faults(void)
{
    CUgraph graph = make_graph(1, 256 * MIB, true);
    uint64_t used = info_used();

    case_begin("graph-faults");
    for (unsigned long nth = 1; nth < 40; nth++) {
        CUgraphExec untouched = (CUgraphExec)(uintptr_t)SENTINEL, executable = untouched;
        CUresult code;

        sim.fail("*", nth, CUDA_ERROR_UNKNOWN);
        code = cuGraphInstantiateWithFlags(&executable, graph, 0);
        if (code == CUDA_SUCCESS)
            code = cuGraphLaunch(executable, stream);
        sim.fail_clear();
        EXPECT_OK(cuCtxSynchronize());
        if (executable != untouched) {
            /* Once more, without a fault. */
            if (code != CUDA_SUCCESS)
                EXPECT_OK(cuGraphLaunch(executable, stream));
            EXPECT_EQUAL(info_used(), used + 256 * MIB);
            EXPECT_OK(cuCtxSynchronize());
            EXPECT_OK(cuGraphExecDestroy(executable));
        }
        trimmed();
        EXPECT_EQUAL(info_used(), used);
        if (budget_cases.why[0])
            break;
    }
    EXPECT_OK(cuGraphDestroy(graph));
    case_end();
}

/* A launch whose largest node cannot fit is refused without a try. */
static void refused_untried(void)
{
    CUgraph graph = make_graph(1, 300 * MIB, true);
    CUgraphExec executable = instantiated(graph);
    CUdeviceptr filler = 0;
    uint64_t live;

    case_begin("graph-refused-untried");
    EXPECT_OK(cuMemAlloc_v2(&filler, 900 * MIB));
    live = sim.live_bytes(0);
    sim.reset_peak(0);
    EXPECT_CODE(cuGraphLaunch(executable, stream), CUDA_ERROR_OUT_OF_MEMORY);
    EXPECT_EQUAL(sim.peak_bytes(0), live);
    EXPECT_OK(cuMemFree_v2(filler));
    EXPECT_OK(cuGraphLaunch(executable, stream));
    EXPECT_OK(cuCtxSynchronize());
    EXPECT_OK(cuGraphExecDestroy(executable));
    EXPECT_OK(cuGraphDestroy(graph));
    trimmed();
    case_end();
}

static bool finished;

static void *launch_again_and_again(void *arg)
{
    MUST(cuCtxSetCurrent(context));
    while (!__atomic_load_n(&finished, __ATOMIC_SEQ_CST)) {
        CUresult code = cuGraphLaunch(arg, stream);

        if (code != CUDA_SUCCESS && code != CUDA_ERROR_OUT_OF_MEMORY)
            case_fails("cuGraphLaunch answers %d", (int)code);
    }
    return NULL;
}

/*
 * One thread launches, another makes the room for its own memory with a trim, or trims itself:
 * a launch must not take again what a trim has given to somebody else. The last round is the
 * other way round: all fits together, and nothing is refused.
 */
static void beside_trims(void)
{
    CUgraph graph = make_graph(1, 300 * MIB, true);
    CUgraphExec executable = instantiated(graph);
    uint64_t limit = info_total();
    pthread_t thread;

    case_begin("graph-beside-trims");
    sim.reset_peak(0);
    finished = false;
    /* Long enough between the last look and the driver's own. */
    sim.delay("cuGraphLaunch", 500);
    pthread_create(&thread, NULL, launch_again_and_again, executable);
    for (int i = 0; i < 300; i++) {
        CUdeviceptr pointer = 0;
        CUresult code;

        if (i % 2)
            EXPECT_OK(cuDeviceGraphMemTrim(0));
        code = cuMemAlloc_v2(&pointer, (i < 200 ? 900 : 600) * MIB);
        if (code == CUDA_SUCCESS)
            EXPECT_OK(cuMemFree_v2(pointer));
        else if (i >= 200 || code != CUDA_ERROR_OUT_OF_MEMORY)
            case_fails("cuMemAlloc answers %d", (int)code);
    }
    __atomic_store_n(&finished, true, __ATOMIC_SEQ_CST);
    pthread_join(thread, NULL);
    sim.delay("cuGraphLaunch", 0);
    if (sim.peak_bytes(0) > limit)
        case_fails("%llu bytes above the limit",
                   (unsigned long long)(sim.peak_bytes(0) - limit));
    EXPECT_OK(cuCtxSynchronize());
    EXPECT_OK(cuGraphExecDestroy(executable));
    EXPECT_OK(cuGraphDestroy(graph));
    trimmed();
    case_end();
}

static void requested_while_it_lives(void)
{
    CUgraph graph = make_graph(2, 300 * MIB, false);
    CUgraphExec first = instantiated(graph), second = (CUgraphExec)(uintptr_t)SENTINEL;
    uint64_t used = info_used();

    case_begin("graph-while-it-lives");
    EXPECT_EQUAL(used, 600 * MIB);
    EXPECT_CODE(cuGraphInstantiateWithFlags(&second, graph, 0), CUDA_ERROR_OUT_OF_MEMORY);
    EXPECT(second == (CUgraphExec)(uintptr_t)SENTINEL);
    EXPECT_OK(cuGraphLaunch(first, stream));
    EXPECT_EQUAL(info_used(), used);
    EXPECT_OK(cuCtxSynchronize());
    EXPECT_OK(cuGraphExecDestroy(first));
    EXPECT_EQUAL(info_used(), 0);
    EXPECT_OK(cuGraphInstantiateWithFlags(&second, graph, 0));
    EXPECT_OK(cuGraphExecDestroy(second));
    EXPECT_EQUAL(info_used(), 0);
    EXPECT_OK(cuGraphDestroy(graph));
    case_end();
}

int main(void)
{
    sim_needed();
    requested = charge_is_requested();
    context = start_device(0);
    MUST(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    others();
    captured();
    moved_child();
    if (requested) {
        requested_while_it_lives();
        return cases_status();
    }
    from_launch_to_trim();
    too_large();
    makes_way();
    uploaded_at_instantiation();
    refused_untried();
    beside_trims();
    faults();
    return cases_status();
}
