/* What executables take for their kernel nodes. */
#include "check_code.h"

#include <stdlib.h>
#include <string.h>

static CUfunction none;

static CUgraph graph_new(void)
{
    CUgraph graph = NULL;
    OK(cuGraphCreate(&graph, 0));
    return graph;
}

static CUDA_KERNEL_NODE_PARAMS kernel_params(CUfunction function)
{
    CUDA_KERNEL_NODE_PARAMS params;
    memset(&params, 0, sizeof(params));
    params.func = function;
    params.gridDimX = params.gridDimY = params.gridDimZ = 1;
    params.blockDimX = params.blockDimY = params.blockDimZ = 1;
    return params;
}

static CUgraphExec exec_of(CUgraph graph)
{
    CUgraphExec exec = NULL;
    OK(cuGraphInstantiate(&exec, graph, 0));
    return exec;
}

/* So many kernels beside one another, or each behind the one before. */
static CUgraphExec many(unsigned count, bool chain)
{
    CUDA_KERNEL_NODE_PARAMS params = kernel_params(none);
    CUgraph graph = graph_new();
    CUgraphNode node = NULL, last;
    CUgraphExec exec;
    for (unsigned i = 0; i < count; i++) {
        last = node;
        OK(cuGraphAddKernelNode(&node, graph, &last, chain && i, &params));
    }
    exec = exec_of(graph);
    OK(cuGraphDestroy(graph));
    return exec;
}

/* What the first executable of a context of its own takes, MiB. */
static uint64_t alone(unsigned count, bool chain)
{
    CUcontext context;
    uint64_t before;
    OK(cuCtxCreate(&context, NULL, 0, 0));
    none = check_function(check_module(PTX_LOCAL), "none");
    before = standin_live_bytes(0);
    many(count, chain);
    before = standin_live_bytes(0) - before;
    OK(cuCtxDestroy(context));
    return before / MIB;
}

enum shape { LAYERS, PAIRS, FILLED, CHILDREN, EMPTY };

static void add(CUgraph graph, CUgraphNode *node, const CUgraphNode *after, unsigned count)
{
    CUDA_KERNEL_NODE_PARAMS params = kernel_params(none);
    OK(cuGraphAddKernelNode(node, graph, after, count, &params));
}

/* The same of the other shapes that were measured. */
static uint64_t shaped(enum shape shape, unsigned count)
{
    CUDA_MEMSET_NODE_PARAMS fill = {.elementSize = 1, .width = 1, .height = 1};
    CUgraph graph = graph_new(), child = graph_new();
    CUgraphNode first = NULL, node = NULL, last = NULL, *all = calloc(count, sizeof(*all));
    CUcontext context;
    uint64_t before;
    OK(cuCtxCreate(&context, NULL, 0, 0));
    none = check_function(check_module(PTX_LOCAL), "none");
    OK(cuMemAlloc(&fill.dst, 64));
    add(child, &node, NULL, 0);
    if (shape == LAYERS)
        add(graph, &first, NULL, 0);
    for (unsigned i = 0; i < count; i++) {
        const CUgraphNode *after = shape == LAYERS ? &first : &last;
        if (shape == CHILDREN)
            OK(cuGraphAddChildGraphNode(&node, graph, after, i > 0, child));
        else
            add(graph, &node, after, shape == LAYERS || (shape != PAIRS && i > 0));
        last = all[i] = node;
        if (shape == PAIRS)
            add(graph, &node, &last, 1);
        if (shape == FILLED)
            OK(cuGraphAddMemsetNode(&last, graph, &node, 1, &fill, context));
        if (shape == EMPTY)
            OK(cuGraphAddEmptyNode(&node, graph, NULL, 0));
    }
    if (shape == LAYERS)
        add(graph, &node, all, count);
    free(all);
    before = standin_live_bytes(0);
    exec_of(graph);
    before = standin_live_bytes(0) - before;
    OK(cuCtxDestroy(context));
    OK(cuGraphDestroy(graph));
    OK(cuGraphDestroy(child));
    return before / MIB;
}

/* Memory for nodes; all but the empty nodes is measured. */
void check_graph_nodes(void)
{
    static const struct {
        unsigned count, mib;
    } table[] = {{1, 0},  {2, 0},  {10, 2}, {20, 2},   {36, 4},
                 {38, 4}, {55, 6}, {56, 6}, {100, 10}, {1000, 108}};
    CUcontext context;
    CUgraphExec exec;
    uint64_t before, of_context;
    check_begin();
    none = check_function(check_module(PTX_LOCAL), "none");
    before = standin_live_bytes(0);
    many(1, false);
    EQUAL(standin_live_bytes(0), before + 2 * MIB);
    many(1, false);
    many(1000, true);
    EQUAL(standin_live_bytes(0), before + 2 * MIB);
    exec = many(1000, false);
    EQUAL(standin_live_bytes(0), before + 110 * MIB);
    /* It stays, and serves later ones. */
    OK(cuGraphExecDestroy(exec));
    EQUAL(standin_live_bytes(0), before + 110 * MIB);
    exec = many(1000, false);
    EQUAL(standin_live_bytes(0), before + 110 * MIB);
    many(1000, false);
    EQUAL(standin_live_bytes(0), before + 220 * MIB);
    /* Of other contexts; until they end. */
    OK(cuCtxCreate(&context, NULL, 0, 0));
    none = check_function(check_module(PTX_LOCAL), "none");
    of_context = standin_live_bytes(0);
    exec = many(100, false);
    EQUAL(standin_live_bytes(0), of_context + 10 * MIB);
    OK(cuCtxDestroy(context));
    EQUAL(standin_live_bytes(0), before + 220 * MIB);
    OK(cuGraphExecDestroy(exec));
    for (unsigned i = 0; i < sizeof(table) / sizeof(table[0]); i++)
        EQUAL(alone(table[i].count, false), table[i].mib);
    EQUAL(alone(1000, true), 0);
    EQUAL(shaped(LAYERS, 1000), 108);
    EQUAL(shaped(PAIRS, 500), 54);
    EQUAL(shaped(FILLED, 500), 0);
    EQUAL(shaped(CHILDREN, 1000), 0);
    EQUAL(shaped(EMPTY, 1000), 0);
}
