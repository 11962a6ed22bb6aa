/*
 * budget_launch.c: the local memory of kernels is reserved before they are launched.
 *
 *     budget_launch ROUNDS
 *     budget_launch unlimited    two devices, the first has no limit
 *
 * Runs with a limit of 1 GiB, beyond the context in footprint mode.
 */
#define _GNU_SOURCE
#include "budget_program.h"

#define FRAME(name, bytes)                                                                     \
    ".visible .entry " name "()\n{\n\t.local .align 16 .b8 depot[" bytes "];\n\tret;\n}\n"

static const char frames[] =
    ".version 6.0\n.target sm_50\n.address_size 64\n" FRAME("small", "512")
        FRAME("near", "1280") FRAME("middle", "2048") FRAME("large", "4096")
            FRAME("over", "8192") FRAME("huge", "65536");

static CUcontext context;
static CUmodule module;
static CUfunction small, middle, large;
/* Refused: 2 GiB by the budget alone; where that does not count, 16 GiB by the simulated card.
 */
static CUfunction beyond;
static CUstream stream;
static bool requested;

static CUfunction function_of(CUmodule from, const char *name)
{
    CUfunction function = NULL;

    MUST(cuModuleGetFunction(&function, from, name));
    return function;
}

static CUresult launch(CUfunction function, CUstream on)
{
    return cuLaunchKernel(function, 1, 1, 1, 32, 1, 1, 0, on, NULL, NULL);
}

static CUresult by_form(int form, CUfunction function)
{
    CUDA_LAUNCH_PARAMS list = {.function = function,
                               .gridDimX = 1,
                               .gridDimY = 1,
                               .gridDimZ = 1,
                               .blockDimX = 32,
                               .blockDimY = 1,
                               .blockDimZ = 1,
                               .hStream = stream};
    CUlaunchConfig config = {.gridDimX = 1,
                             .gridDimY = 1,
                             .gridDimZ = 1,
                             .blockDimX = 32,
                             .blockDimY = 1,
                             .blockDimZ = 1,
                             .hStream = stream};

    switch (form) {
    case 0:
        return launch(function, stream);
    case 1:
        return cuLaunchKernel_ptsz(function, 1, 1, 1, 32, 1, 1, 0, NULL, NULL, NULL);
    case 2:
        return cuLaunchKernelEx(&config, function, NULL, NULL);
    case 3:
        return cuLaunchKernelEx_ptsz(&config, function, NULL, NULL);
    case 4:
        return cuLaunchCooperativeKernel(function, 1, 1, 1, 32, 1, 1, 0, stream, NULL);
    case 5:
        return cuLaunchCooperativeKernel_ptsz(function, 1, 1, 1, 32, 1, 1, 0, stream, NULL);
    case 6:
        return cuLaunchCooperativeKernelMultiDevice(&list, 1, 0);
    case 7:
        return cuFuncSetBlockShape(function, 32, 1, 1) == CUDA_SUCCESS
                   ? cuLaunch(function)
                   : CUDA_ERROR_NOT_SUPPORTED;
    case 8:
        return cuLaunchGrid(function, 1, 1);
    default:
        return cuLaunchGridAsync(function, 1, 1, stream);
    }
}

enum { FORMS = 10 };

/* The stack back to its default gives the local memory back. */
static void shrink(void)
{
    EXPECT_OK(cuCtxSynchronize());
    EXPECT_OK(cuCtxSetLimit(CU_LIMIT_STACK_SIZE, 1024));
    EXPECT_EQUAL(sim.local_bytes(0), 0);
}

static void every_form(void)
{
    uint64_t used = info_used();

    case_begin("launch-every-form");
    for (int form = 0; form < FORMS; form++) {
        EXPECT_OK(by_form(form, small));
        EXPECT_EQUAL(sim.local_bytes(0), 0);
        EXPECT_CODE(by_form(form, beyond), CUDA_ERROR_OUT_OF_MEMORY);
        EXPECT_EQUAL(sim.local_bytes(0), 0);
        shrink();
        EXPECT_EQUAL(info_used(), used);
        EXPECT_OK(by_form(form, large));
        EXPECT(sim.local_bytes(0) > 500 * MIB);
        EXPECT_EQUAL(info_used(), used + (requested ? 0 : sim.local_bytes(0)));
        EXPECT_OK(by_form(form, middle));
        EXPECT_EQUAL(info_used(), used + (requested ? 0 : sim.local_bytes(0)));
        shrink();
        EXPECT_EQUAL(info_used(), used);
        if (budget_cases.why[0]) {
            case_fails("(form %d)", form);
            fprintf(stdout, "# form %d\n", form);
            break;
        }
    }
    case_end();
}

/* A launch of a known function makes no call but its own, and takes no lock of the budget. */
static void known_functions(void)
{
    case_begin("launch-of-known-functions");
    EXPECT_OK(launch(small, stream));
    sim.reset_counts();
    for (int i = 0; i < 100; i++)
        EXPECT_OK(launch(small, stream));
    EXPECT_EQUAL(sim.calls("*"), 100);
    case_end();
}

static void fits_beside_blocks(void)
{
    uint64_t used = info_used();
    CUdeviceptr block = 0;

    case_begin("launch-beside-blocks");
    EXPECT_OK(cuMemAlloc_v2(&block, 600 * MIB));
    EXPECT_CODE(launch(large, stream), CUDA_ERROR_OUT_OF_MEMORY);
    EXPECT_OK(launch(middle, stream));
    EXPECT_CODE(launch(large, stream), CUDA_ERROR_OUT_OF_MEMORY);
    EXPECT_EQUAL(info_used(), used + 600 * MIB + sim.local_bytes(0));
    EXPECT_OK(cuMemFree_v2(block));
    EXPECT_OK(launch(large, stream));
    /* Now the block does not fit beside the local memory. */
    EXPECT_CODE(cuMemAlloc_v2(&block, 600 * MIB), CUDA_ERROR_OUT_OF_MEMORY);
    shrink();
    EXPECT_OK(cuMemAlloc_v2(&block, 600 * MIB));
    EXPECT_OK(cuMemFree_v2(block));
    EXPECT_EQUAL(info_used(), used);
    case_end();
}

/* By the kernel of a library, in the form the runtime launches it. */
static void of_a_library(void)
{
    uint64_t used = info_used();
    CUlibrary library = NULL;
    CUkernel kernel = NULL;

    case_begin("launch-of-a-library");
    EXPECT_OK(cuLibraryLoadData(&library, frames, NULL, NULL, 0, NULL, NULL, 0));
    EXPECT_OK(cuLibraryGetKernel(&kernel, library, "over"));
    EXPECT_CODE(launch((CUfunction)(void *)kernel, stream), CUDA_ERROR_OUT_OF_MEMORY);
    EXPECT_OK(cuLibraryGetKernel(&kernel, library, "large"));
    EXPECT_OK(launch((CUfunction)(void *)kernel, stream));
    EXPECT(sim.local_bytes(0) > 500 * MIB);
    shrink();
    EXPECT_OK(cuLibraryUnload(library));
    EXPECT_EQUAL(info_used(), used);
    case_end();
}

/* The stream says which context it is that takes the memory, not the thread. */
static void in_another_context(void)
{
    static const char image[] =
        ".version 6.0\n.target sm_50\n.address_size 64\n"
        ".global .align 4 .b8 big[41943040];\n" FRAME("of", "512") FRAME("deep", "1280");
    static const char *const names[] = {"deep", "of"};
    CUdeviceptr filler = 0;
    CUcontext other, current;
    CUfunction theirs;
    CUlibrary library;
    CUmodule loaded;
    CUstream on;

    for (int i = 0; i < 3; i++) {
        const char *name = names[i / 2];
        CUkernel kernel;
        CUfunction function;
        uint64_t used, live;

        case_begin("launch-in-another-context-%s-%d", name, i);
        MUST(cuCtxCreate_v4(&other, NULL, 0, 0));
        MUST(cuStreamCreate(&on, CU_STREAM_NON_BLOCKING));
        MUST(cuModuleLoadData(&loaded, image));
        theirs = function_of(loaded, "deep");
        MUST(cuCtxSetCurrent(context));
        MUST(cuLibraryLoadData(&library, image, NULL, NULL, 0, NULL, NULL, 0));
        MUST(cuLibraryGetKernel(&kernel, library, name));
        function = i == 1 ? theirs : (CUfunction)(void *)kernel;
        /* Here it is all there. */
        EXPECT_OK(launch((CUfunction)(void *)kernel, NULL));
        used = info_used();
        live = sim.live_bytes(0);
        EXPECT_OK(cuMemAlloc_v2(&filler, info_free() - 20 * MIB));
        EXPECT_CODE(launch(function, on), CUDA_ERROR_OUT_OF_MEMORY);
        EXPECT_EQUAL(sim.live_bytes(0) - live, info_used() - used);
        EXPECT_OK(cuMemFree_v2(filler));
        EXPECT_OK(launch(function, on));
        EXPECT_EQUAL(info_used() - used, sim.live_bytes(0) - live);
        EXPECT(sim.live_bytes(0) >= live + 40 * MIB);
        EXPECT_OK(cuCtxGetCurrent(&current));
        EXPECT(current == context);
        /* And the other way round. */
        MUST(cuCtxSetCurrent(other));
        EXPECT_OK(launch(middle, stream));
        EXPECT_EQUAL(info_used() - used, sim.live_bytes(0) - live);
        EXPECT(sim.live_bytes(0) >= live + 200 * MIB);
        MUST(cuCtxDestroy_v2(other));
        MUST(cuCtxSetCurrent(context));
        MUST(cuLibraryUnload(library));
        shrink();
        case_end();
    }
}

static void captured(void)
{
    uint64_t used = info_used();
    CUgraph graph = NULL;

    case_begin("launch-captured");
    EXPECT_OK(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    EXPECT_OK(launch(beyond, stream));
    EXPECT_OK(cuStreamEndCapture(stream, &graph));
    EXPECT_EQUAL(info_used(), used);
    EXPECT_OK(cuGraphDestroy(graph));
    case_end();
}

static CUDA_KERNEL_NODE_PARAMS one_warp_of(CUfunction function)
{
    CUDA_KERNEL_NODE_PARAMS params;

    memset(&params, 0, sizeof(params));
    params.func = function;
    params.gridDimX = params.gridDimY = params.gridDimZ = 1;
    params.blockDimX = 32;
    params.blockDimY = params.blockDimZ = 1;
    return params;
}

/* A graph of one kernel, or of a child graph with it, which is a child of a child and so on. */
static CUgraph graph_of(CUfunction function, int children)
{
    CUDA_KERNEL_NODE_PARAMS params = one_warp_of(function);
    CUgraph graph, outer;
    CUgraphNode node;

    MUST(cuGraphCreate(&graph, 0));
    MUST(cuGraphAddKernelNode_v2(&node, graph, NULL, 0, &params));
    for (int i = 0; i < children; i++) {
        MUST(cuGraphCreate(&outer, 0));
        MUST(cuGraphAddChildGraphNode(&node, outer, NULL, 0, graph));
        EXPECT_OK(cuGraphDestroy(graph));
        graph = outer;
    }
    return graph;
}

static CUgraphExec instantiated(CUgraph graph)
{
    CUgraphExec executable = NULL;

    MUST(cuGraphInstantiateWithFlags(&executable, graph, 0));
    return executable;
}

/* A graph's kernels count as if they were launched one by one. */
static void by_graph(void)
{
    uint64_t used = info_used(), live = sim.live_bytes(0);

    case_begin("launch-by-graph");
    for (int i = 0; i < 3; i++) {
        static const int children[] = {0, 1, 40};
        CUgraph plain = graph_of(small, children[i]), more = graph_of(large, children[i]);
        CUgraph most = graph_of(beyond, children[i]);
        CUgraphExec untouched = (CUgraphExec)(uintptr_t)SENTINEL, most_exec = untouched;
        CUgraphExec plain_exec = instantiated(plain), more_exec;

        EXPECT_OK(cuGraphLaunch(plain_exec, stream));
        EXPECT_EQUAL(sim.local_bytes(0), 0);
        /* The card takes local memory with the instantiation already. */
        EXPECT_CODE(cuGraphInstantiateWithFlags(&most_exec, most, 0), CUDA_ERROR_OUT_OF_MEMORY);
        EXPECT(most_exec == untouched);
        EXPECT_EQUAL(sim.local_bytes(0), 0);
        more_exec = instantiated(more);
        EXPECT_OK(cuGraphLaunch(more_exec, stream));
        EXPECT(sim.local_bytes(0) > 500 * MIB);
        EXPECT_EQUAL(info_used() - used, sim.live_bytes(0) - live);
        EXPECT_OK(cuGraphLaunch(more_exec, stream));
        EXPECT_EQUAL(info_used() - used, sim.live_bytes(0) - live);
        shrink();
        EXPECT_OK(cuGraphExecDestroy(plain_exec));
        EXPECT_OK(cuGraphExecDestroy(more_exec));
        EXPECT_OK(cuGraphDestroy(plain));
        EXPECT_OK(cuGraphDestroy(more));
        EXPECT_OK(cuGraphDestroy(most));
        EXPECT_EQUAL(info_used() - used, sim.live_bytes(0) - live);
    }
    case_end();
}

/* A kernel of another context than the current one: what comes, comes there. */
static void by_graph_of_another_context(void)
{
    CUdeviceptr filler = 0;
    CUcontext other;
    CUmodule loaded;
    CUgraphExec executable = NULL;
    CUgraph graph;

    case_begin("launch-by-graph-of-another-context");
    EXPECT_OK(launch(function_of(module, "near"), NULL));
    MUST(cuCtxCreate_v4(&other, NULL, 0, 0));
    MUST(cuModuleLoadData(&loaded, frames));
    graph = graph_of(function_of(loaded, "near"), 1);
    for (int here = 0; here < 2; here++) {
        uint64_t used, live;

        MUST(cuCtxSetCurrent(here ? other : context));
        used = info_used();
        live = sim.live_bytes(0);
        EXPECT_OK(cuMemAlloc_v2(&filler, info_free() - 20 * MIB));
        EXPECT_CODE(cuGraphInstantiateWithFlags(&executable, graph, 0),
                    CUDA_ERROR_OUT_OF_MEMORY);
        EXPECT_EQUAL(info_used() - used, sim.live_bytes(0) - live);
        EXPECT(sim.live_bytes(0) <= info_total());
        EXPECT_OK(cuMemFree_v2(filler));
        EXPECT_OK(cuGraphInstantiateWithFlags(&executable, graph, 0));
        EXPECT_EQUAL(info_used() - used, sim.live_bytes(0) - live);
        EXPECT(sim.live_bytes(0) >= live + 60 * MIB);
        EXPECT_OK(cuGraphExecDestroy(executable));
        MUST(cuCtxSetCurrent(other));
        EXPECT_OK(cuCtxSynchronize());
        EXPECT_OK(cuCtxSetLimit(CU_LIMIT_STACK_SIZE, 1024));
    }
    EXPECT_OK(cuGraphDestroy(graph));
    MUST(cuCtxDestroy_v2(other));
    MUST(cuCtxSetCurrent(context));
    shrink();
    case_end();
}

/* A node of a kernel, by its own handle or captured: the driver may tell a function for it that
 * it has handed out to nobody. */
static CUgraph graph_of_kernel(CUkernel kernel, bool captures)
{
    CUDA_KERNEL_NODE_PARAMS params = one_warp_of(NULL);
    CUgraphNode node;
    CUgraph graph;

    params.kern = kernel;
    if (captures) {
        MUST(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
        MUST(launch((CUfunction)(void *)kernel, stream));
        MUST(cuStreamEndCapture(stream, &graph));
        return graph;
    }
    MUST(cuGraphCreate(&graph, 0));
    MUST(cuGraphAddKernelNode_v2(&node, graph, NULL, 0, &params));
    return graph;
}

static void by_graph_of_a_kernel(void)
{
    uint64_t used = info_used(), live = sim.live_bytes(0);

    case_begin("launch-by-graph-of-a-kernel");
    for (int i = 0; i < 8; i++) {
        CUgraphExec untouched = (CUgraphExec)(uintptr_t)SENTINEL, executable = untouched;
        CUlibrary library;
        CUmodule loaded;
        CUkernel kernel;
        CUgraph graph;

        /* One whose handle may come back. */
        MUST(cuModuleLoadData(&loaded, frames));
        graph = graph_of(function_of(loaded, i % 2 ? "small" : "middle"), 0);
        EXPECT_OK(cuGraphExecDestroy(instantiated(graph)));
        EXPECT_OK(cuGraphDestroy(graph));
        EXPECT_OK(cuModuleUnload(loaded));
        shrink();
        MUST(cuLibraryLoadData(&library, frames, NULL, NULL, 0, NULL, NULL, 0));
        MUST(cuLibraryGetKernel(&kernel, library, "over"));
        graph = graph_of_kernel(kernel, i / 2 % 2);
        EXPECT_CODE(cuGraphInstantiateWithFlags(&executable, graph, 0),
                    CUDA_ERROR_OUT_OF_MEMORY);
        EXPECT(executable == untouched);
        EXPECT_EQUAL(sim.local_bytes(0), 0);
        EXPECT_OK(cuGraphDestroy(graph));
        EXPECT_OK(cuLibraryUnload(library));
        EXPECT_EQUAL(info_used() - used, sim.live_bytes(0) - live);
    }
    shrink();
    case_end();
}

/* Captured, a node does not tell whose kernel it is, nor does the context that is current. */
static void by_graph_of_a_kernel_elsewhere(void)
{
    CUdeviceptr filler = 0;
    CUcontext other;
    CUlibrary library;
    CUkernel kernel;
    CUgraphExec executable = NULL;
    CUgraph graph;
    uint64_t used, live;

    case_begin("launch-by-graph-of-a-kernel-elsewhere");
    MUST(cuLibraryLoadData(&library, frames, NULL, NULL, 0, NULL, NULL, 0));
    MUST(cuLibraryGetKernel(&kernel, library, "near"));
    MUST(cuCtxCreate_v4(&other, NULL, 0, 0));
    /* There is room for it in the current context, and none in the one that it is in. */
    EXPECT_OK(launch((CUfunction)(void *)kernel, NULL));
    graph = graph_of_kernel(kernel, true);
    used = info_used();
    live = sim.live_bytes(0);
    EXPECT_OK(cuMemAlloc_v2(&filler, info_free() - 20 * MIB));
    EXPECT_CODE(cuGraphInstantiateWithFlags(&executable, graph, 0), CUDA_ERROR_OUT_OF_MEMORY);
    EXPECT_EQUAL(info_used() - used, sim.live_bytes(0) - live);
    EXPECT(sim.live_bytes(0) <= info_total());
    EXPECT_OK(cuMemFree_v2(filler));
    EXPECT_OK(cuGraphInstantiateWithFlags(&executable, graph, 0));
    EXPECT_OK(cuGraphLaunch(executable, stream));
    EXPECT_EQUAL(info_used() - used, sim.live_bytes(0) - live);
    EXPECT_OK(cuGraphExecDestroy(executable));
    EXPECT_OK(cuGraphDestroy(graph));
    EXPECT_OK(cuLibraryUnload(library));
    MUST(cuCtxDestroy_v2(other));
    MUST(cuCtxSetCurrent(context));
    shrink();
    case_end();
}

/* Of a graph that is too deep to be read it is not known what it takes: it is not tried. */
static void too_deep(void)
{
    CUgraphExec untouched = (CUgraphExec)(uintptr_t)SENTINEL, executable = untouched;
    CUgraph graph = graph_of(beyond, 300);
    uint64_t used = info_used();

    case_begin("launch-by-a-graph-too-deep");
    EXPECT_CODE(cuGraphInstantiateWithFlags(&executable, graph, 0), CUDA_ERROR_OUT_OF_MEMORY);
    EXPECT(executable == untouched);
    EXPECT_EQUAL(sim.local_bytes(0), 0);
    EXPECT_EQUAL(info_used(), used);
    EXPECT_OK(cuGraphDestroy(graph));
    case_end();
}

/* An upload brings local memory, too, where it is gone since: the program's own, and ours
 * before the launch of an executable with an allocation. */
static void by_upload(void)
{
    uint64_t used = info_used(), live = sim.live_bytes(0);

    case_begin("launch-by-upload");
    for (int way = 0; way < 3; way++) {
        CUDA_MEM_ALLOC_NODE_PARAMS params;
        CUgraph graph = graph_of(large, 0);
        CUgraphNode node = NULL, end = NULL;
        CUgraphExec executable;
        CUdeviceptr block = 0;

        memset(&params, 0, sizeof(params));
        params.poolProps.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
        params.poolProps.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
        params.bytesize = 32 * MIB;
        if (way > 0) {
            MUST(cuGraphAddMemAllocNode(&node, graph, NULL, 0, &params));
            MUST(cuGraphAddMemFreeNode(&end, graph, &node, 1, params.dptr));
        }
        executable = instantiated(graph);
        shrink();
        EXPECT_OK(cuMemAlloc_v2(&block, 600 * MIB));
        sim.reset_peak(0);
        EXPECT_CODE(way < 2 ? cuGraphUpload(executable, stream)
                            : cuGraphLaunch(executable, stream),
                    CUDA_ERROR_OUT_OF_MEMORY);
        EXPECT_EQUAL(sim.local_bytes(0), 0);
        EXPECT(sim.peak_bytes(0) <= info_total());
        EXPECT_OK(cuMemFree_v2(block));
        EXPECT_OK(way < 2 ? cuGraphUpload(executable, stream)
                          : cuGraphLaunch(executable, stream));
        EXPECT(sim.local_bytes(0) > 500 * MIB);
        EXPECT_EQUAL(info_used() - used, sim.live_bytes(0) - live);
        /* It is there: beside this there is no room for it once more. */
        EXPECT_OK(cuMemAlloc_v2(&block, 100 * MIB));
        EXPECT_OK(cuGraphLaunch(executable, stream));
        EXPECT_OK(cuMemFree_v2(block));
        shrink();
        EXPECT_OK(cuGraphExecDestroy(executable));
        EXPECT_OK(cuGraphDestroy(graph));
        EXPECT_OK(cuDeviceGraphMemTrim(0));
        EXPECT_EQUAL(info_used() - used, sim.live_bytes(0) - live);
    }
    case_end();
}

/* An executable whose kernel becomes another one. */
static void by_changed_graph(void)
{
    CUDA_KERNEL_NODE_PARAMS params = one_warp_of(beyond);
    CUgraphExecUpdateResultInfo info;
    uint64_t used = info_used();

    case_begin("launch-by-changed-graph");
    for (int way = 0; way < 4; way++) {
        CUgraph graph = graph_of(small, way >= 2), larger = graph_of(beyond, 0);
        CUgraphNodeParams child = {.type = CU_GRAPH_NODE_TYPE_GRAPH, .graph.graph = larger};
        CUgraphExec executable = instantiated(graph);
        CUgraphNode node = NULL;
        size_t count = 1;

        EXPECT_OK(cuGraphGetNodes(graph, &node, &count));
        EXPECT_OK(cuGraphLaunch(executable, stream));
        /* Refused before it is made: the executable is what it was. */
        EXPECT_CODE(way == 0   ? cuGraphExecKernelNodeSetParams_v2(executable, node, &params)
                    : way == 1 ? cuGraphExecUpdate_v2(executable, larger, &info)
                    : way == 2 ? cuGraphExecChildGraphNodeSetParams(executable, node, larger)
                               : cuGraphExecNodeSetParams(executable, node, &child),
                    CUDA_ERROR_OUT_OF_MEMORY);
        EXPECT_OK(cuGraphLaunch(executable, stream));
        EXPECT_EQUAL(sim.local_bytes(0), 0);
        EXPECT_OK(cuGraphExecDestroy(executable));
        EXPECT_OK(cuGraphDestroy(graph));
        EXPECT_OK(cuGraphDestroy(larger));
    }
    EXPECT_EQUAL(info_used(), used);
    case_end();
}

/* An executable whose kernel of another context becomes a larger one, of a module or a library.
 */
static void by_changed_graph_elsewhere(void)
{
    CUcontext other;
    CUmodule loaded;
    CUlibrary library;
    CUkernel kernel;

    case_begin("launch-by-changed-graph-elsewhere");
    EXPECT_OK(launch(function_of(module, "near"), NULL));
    MUST(cuLibraryLoadData(&library, frames, NULL, NULL, 0, NULL, NULL, 0));
    MUST(cuLibraryGetKernel(&kernel, library, "near"));
    MUST(cuCtxCreate_v4(&other, NULL, 0, 0));
    MUST(cuModuleLoadData(&loaded, frames));
    for (int way = 0; way < 3; way++) {
        CUDA_KERNEL_NODE_PARAMS params = one_warp_of(function_of(loaded, "small"));
        CUgraphNodeParams any;
        CUdeviceptr filler = 0;
        CUgraphExec executable;
        CUgraphNode node;
        CUgraph graph;
        uint64_t used, live;
        CUresult code;

        MUST(cuGraphCreate(&graph, 0));
        MUST(cuGraphAddKernelNode_v2(&node, graph, NULL, 0, &params));
        executable = instantiated(graph);
        MUST(cuCtxSetCurrent(context));
        params.func = way == 2 ? NULL : function_of(loaded, "near");
        if (way == 2) {
            params.kern = kernel;
            params.ctx = other;
        }
        memset(&any, 0, sizeof(any));
        any.type = CU_GRAPH_NODE_TYPE_KERNEL;
        memcpy(&any.kernel, &params, sizeof(params));
        used = info_used();
        live = sim.live_bytes(0);
        EXPECT_OK(cuMemAlloc_v2(&filler, info_free() - 20 * MIB));
        for (int fits = 0; fits < 2; fits++) {
            code = way == 1 ? cuGraphExecNodeSetParams(executable, node, &any)
                            : cuGraphExecKernelNodeSetParams_v2(executable, node, &params);
            EXPECT_EQUAL(code, fits ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY);
            EXPECT_EQUAL(info_used() - used, sim.live_bytes(0) - live);
            EXPECT(sim.live_bytes(0) <= info_total());
            if (!fits)
                EXPECT_OK(cuMemFree_v2(filler));
        }
        EXPECT(sim.live_bytes(0) >= live + 60 * MIB);
        EXPECT_OK(cuGraphExecDestroy(executable));
        EXPECT_OK(cuGraphDestroy(graph));
        MUST(cuCtxSetCurrent(other));
        EXPECT_OK(cuCtxSetLimit(CU_LIMIT_STACK_SIZE, 1024));
    }
    EXPECT_OK(cuLibraryUnload(library));
    MUST(cuCtxDestroy_v2(other));
    MUST(cuCtxSetCurrent(context));
    shrink();
    case_end();
}

/* The handle of an unloaded module's function may come back for a larger one. */
static void after_an_unload(void)
{
    static const char tiny[] =
        ".version 6.0\n.target sm_50\n.address_size 64\n" FRAME("kernel", "16");
    static const char giant[] =
        ".version 6.0\n.target sm_50\n.address_size 64\n" FRAME("kernel", "8192");

    case_begin("launch-after-an-unload");
    for (int i = 0; i < 20; i++) {
        CUmodule loaded = NULL;

        EXPECT_OK(cuModuleLoadData(&loaded, i % 2 ? giant : tiny));
        EXPECT_CODE(launch(function_of(loaded, "kernel"), stream),
                    i % 2 ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS);
        EXPECT_OK(cuModuleUnload(loaded));
    }
    EXPECT_EQUAL(sim.local_bytes(0), 0);
    case_end();
}

static void errors_are_the_drivers(void)
{
    case_begin("launch-errors-are-the-drivers");
    EXPECT(launch(NULL, stream) != CUDA_SUCCESS);
    EXPECT(launch((CUfunction)(uintptr_t)SENTINEL, stream) != CUDA_SUCCESS);
    EXPECT(cuLaunchKernelEx(NULL, small, NULL, NULL) != CUDA_SUCCESS);
    EXPECT(cuLaunchCooperativeKernelMultiDevice(NULL, 1, 0) != CUDA_SUCCESS);
    EXPECT(launch(small, (CUstream)(uintptr_t)SENTINEL) != CUDA_SUCCESS);
    case_end();
}

enum { WORKERS = 4 };

static unsigned long rounds, granted[WORKERS];

static void *launch_on(void *arg)
{
    int worker = (int)(intptr_t)arg;
    CUstream own;

    MUST(cuCtxSetCurrent(context));
    MUST(cuStreamCreate(&own, CU_STREAM_NON_BLOCKING));
    for (unsigned long i = 0; i < rounds; i++) {
        CUdeviceptr block = 0;

        if (launch(i % 3 ? small : large, own) == CUDA_SUCCESS)
            granted[worker]++;
        if (cuMemAllocAsync(&block, 40 * MIB, own) == CUDA_SUCCESS)
            EXPECT_OK(cuMemFreeAsync(block, own));
        EXPECT_CODE(launch(beyond, own), CUDA_ERROR_OUT_OF_MEMORY);
    }
    EXPECT_OK(cuStreamDestroy_v2(own));
    return NULL;
}

static void threads(void)
{
    pthread_t ids[WORKERS];
    uint64_t used = info_used(), live = sim.live_bytes(0);

    case_begin("launch-threads");
    for (intptr_t i = 0; i < WORKERS; i++)
        pthread_create(&ids[i], NULL, launch_on, (void *)i);
    for (int i = 0; i < WORKERS; i++) {
        pthread_join(ids[i], NULL);
        /* There is room for the local memory and for all blocks in flight. */
        EXPECT_EQUAL(granted[i], rounds);
    }
    shrink();
    EXPECT_EQUAL(info_used() - used, sim.live_bytes(0) - live);
    case_end();
}

/* Calls of the driver for a hundred launches, when a first one has been made. */
static unsigned long calls_of(CUfunction function)
{
    EXPECT_OK(launch(function, NULL));
    sim.reset_counts();
    for (int i = 0; i < 100; i++)
        EXPECT_OK(launch(function, NULL));
    return sim.calls("*");
}

/* Each of the devices is asked for its own. */
static void on_both(CUcontext limited)
{
    static const char *const names[] = {"small", "over", "large"};
    CUDA_LAUNCH_PARAMS list[2];
    CUmodule there;

    case_begin("launch-on-both-devices");
    for (int i = 0; i < 2; i++) {
        MUST(cuCtxSetCurrent(i ? limited : context));
        list[i] = (CUDA_LAUNCH_PARAMS){.gridDimX = 1,
                                       .gridDimY = 1,
                                       .gridDimZ = 1,
                                       .blockDimX = 32,
                                       .blockDimY = 1,
                                       .blockDimZ = 1};
        MUST(cuStreamCreate(&list[i].hStream, CU_STREAM_NON_BLOCKING));
    }
    MUST(cuModuleLoadData(&there, frames));
    for (int current = 0; current < 2; current++)
        for (int i = 0; i < 3; i++) {
            uint64_t used, live;

            MUST(cuCtxSetCurrent(limited));
            used = info_used();
            live = sim.live_bytes(1);
            MUST(cuCtxSetCurrent(current ? limited : context));
            list[0].function = function_of(module, "over");
            list[1].function = function_of(there, names[i]);
            EXPECT_CODE(cuLaunchCooperativeKernelMultiDevice(list, 2, 0),
                        i == 1 ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS);
            MUST(cuCtxSetCurrent(limited));
            EXPECT_EQUAL(info_used() - used, sim.live_bytes(1) - live);
            EXPECT(i == 2 || sim.local_bytes(1) == 0);
            EXPECT_OK(cuCtxSynchronize());
            EXPECT_OK(cuCtxSetLimit(CU_LIMIT_STACK_SIZE, 1024));
        }
    for (int i = 0; i < 2; i++)
        EXPECT_OK(cuStreamDestroy_v2(list[i].hStream));
    EXPECT_OK(cuModuleUnload(there));
    case_end();
}

/* A device without a limit: what is launched there is looked at once, and not taken for known
 * on another device. */
static int unlimited(void)
{
    CUcontext limited;
    CUmodule there;
    CUlibrary library;
    CUkernel kernel;

    context = start_device(0);
    MUST(cuModuleLoadData(&module, frames));
    MUST(cuLibraryLoadData(&library, frames, NULL, NULL, 0, NULL, NULL, 0));
    case_begin("launch-of-a-function");
    EXPECT_EQUAL(calls_of(function_of(module, "small")), 100);
    EXPECT_EQUAL(calls_of(function_of(module, "large")), 100);
    case_end();
    case_begin("launch-of-a-kernel");
    MUST(cuLibraryGetKernel(&kernel, library, "small"));
    EXPECT_EQUAL(calls_of((CUfunction)kernel), 100);
    MUST(cuLibraryGetKernel(&kernel, library, "over"));
    EXPECT_OK(launch((CUfunction)kernel, NULL));
    case_end();
    case_begin("launch-on-a-limited-device");
    limited = start_device(1);
    EXPECT_CODE(launch((CUfunction)kernel, NULL), CUDA_ERROR_OUT_OF_MEMORY);
    MUST(cuCtxSetCurrent(context));
    EXPECT_OK(launch((CUfunction)kernel, NULL));
    MUST(cuCtxSetCurrent(limited));
    EXPECT_CODE(launch((CUfunction)kernel, NULL), CUDA_ERROR_OUT_OF_MEMORY);
    EXPECT_EQUAL(sim.local_bytes(1), 0);
    case_end();
    /* A handle that comes back, for a function of the other device. */
    case_begin("launch-after-an-unload");
    for (int i = 0; i < 20; i++) {
        MUST(cuCtxSetCurrent(i % 2 ? limited : context));
        EXPECT_OK(cuModuleLoadData(&there, frames));
        EXPECT_CODE(launch(function_of(there, "over"), NULL),
                    i % 2 ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS);
        EXPECT_OK(cuModuleUnload(there));
    }
    case_end();
    on_both(limited);
    return cases_status();
}

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "unlimited") == 0) {
        sim_needed();
        return unlimited();
    }
    rounds = argc > 1 ? strtoul(argv[1], NULL, 10) : 100;
    sim_needed();
    requested = charge_is_requested();
    context = start_device(0);
    warm_streams(8);
    MUST(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    MUST(cuModuleLoadData(&module, frames));
    small = function_of(module, "small");
    middle = function_of(module, "middle");
    large = function_of(module, "large");
    beyond = function_of(module, requested ? "huge" : "over");
    known_functions();
    errors_are_the_drivers();
    every_form();
    if (requested)
        return cases_status();
    fits_beside_blocks();
    of_a_library();
    in_another_context();
    captured();
    by_graph();
    by_graph_of_another_context();
    by_graph_of_a_kernel();
    by_graph_of_a_kernel_elsewhere();
    too_deep();
    by_upload();
    by_changed_graph();
    by_changed_graph_elsewhere();
    after_an_unload();
    threads();
    return cases_status();
}
