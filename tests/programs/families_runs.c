/*
 * families_runs.c: graphs of kernels: in chains and beside one another, of both contexts, in
 * children and in the bodies of conditional nodes, captured; made executable, changed,
 * launched.
 */
#include "families.h"

/* Of what bodies hold it cannot be known how much is beside one another. */
uint64_t bodies_bytes(const struct worker *worker)
{
    uint64_t bytes = 0;

    for (int i = 0; i < RUNS; i++)
        if (worker->runs[i].executable && worker->runs[i].shape.in_body)
            bytes += REGION;
    return bytes;
}

static struct shape some_run_shape(struct worker *worker)
{
    struct shape shape = {.count = 1 + (unsigned)below(worker, RUN_KERNELS),
                          .in_turn = one_of(worker, 2),
                          .in_child = one_of(worker, 3),
                          .in_body = one_of(worker, 4)};

    for (unsigned i = 0; i < shape.count; i++)
        shape.inner[i] = worker->context && one_of(worker, 2);
    return shape;
}

/* A kernel of a frame; false: none is there for that context. */
static bool some_node(struct worker *worker, bool inner, CUDA_KERNEL_NODE_PARAMS_v2 *params,
                      unsigned *uses)
{
    CUfunction function = NULL;
    unsigned index = 0;

    for (int tries = 0; !function && tries < 8; tries++)
        function = some_frame(worker, inner, &index);
    if (!function)
        return false;
    *uses |= 1u << index;
    memset(params, 0, sizeof(*params));
    params->gridDimX = params->gridDimY = params->gridDimZ = 1;
    params->blockDimX = 32;
    params->blockDimY = params->blockDimZ = 1;
    if (worker->frames[index].module) {
        params->func = function;
    } else {
        /* Without a context it is the current one's. */
        params->kern = (CUkernel)(void *)function;
        if (inner != (worker->context != NULL) || one_of(worker, 2))
            params->ctx = inner ? worker->context : primary;
    }
    return true;
}

static bool add_kernels(struct worker *worker, CUgraph graph, const struct shape *shape,
                        CUgraphNode *first, unsigned *uses)
{
    CUgraphNode last = NULL;

    for (unsigned i = 0; i < shape->count; i++) {
        CUDA_KERNEL_NODE_PARAMS_v2 params;
        CUgraphNode before = last;
        const bool depends = before && shape->in_turn;

        if (!some_node(worker, shape->inner[i], &params, uses) ||
            cuGraphAddKernelNode_v2(&last, graph, depends ? &before : NULL, depends ? 1 : 0,
                                    &params) != CUDA_SUCCESS)
            return false;
        if (i == 0)
            *first = last;
    }
    return true;
}

/* The body of a conditional node of the graph; NULL: it failed. */
static CUgraph add_body(struct worker *worker, CUgraph graph)
{
    CUgraphConditionalHandle handle = 0;
    CUgraphNodeParams params;
    CUgraphNode node;

    if (cuGraphConditionalHandleCreate(&handle, graph, primary, (unsigned)below(worker, 2),
                                       CU_GRAPH_COND_ASSIGN_DEFAULT) != CUDA_SUCCESS)
        return NULL;
    memset(&params, 0, sizeof(params));
    params.type = CU_GRAPH_NODE_TYPE_CONDITIONAL;
    params.conditional.handle = handle;
    params.conditional.ctx = primary;
    params.conditional.type = CU_GRAPH_COND_TYPE_IF;
    params.conditional.size = 1;
    if (cuGraphAddNode_v2(&node, graph, NULL, NULL, 0, &params) != CUDA_SUCCESS)
        return NULL;
    return params.conditional.phGraph_out[0];
}

/* The kernels where the shape has them: in the graph, in a body of it, in a child there. */
static bool fill_graph(struct worker *worker, CUgraph graph, const struct shape *shape,
                       CUgraphNode *first, unsigned *uses)
{
    CUgraph place = shape->in_body ? add_body(worker, graph) : graph, child = NULL;
    CUgraphNode node;
    bool done;

    if (!place)
        return false;
    if (!shape->in_child)
        return add_kernels(worker, place, shape, first, uses);
    if (cuGraphCreate(&child, 0) != CUDA_SUCCESS)
        return false;
    done = add_kernels(worker, child, shape, first, uses) &&
           cuGraphAddChildGraphNode(&node, place, NULL, 0, child) == CUDA_SUCCESS;
    did(worker, "child destroy", cuGraphDestroy(child));
    return done;
}

/* By a capture; all kernels are the primary context's. */
static bool capture_kernels(struct worker *worker, const struct shape *shape, CUgraph *graph,
                            unsigned *uses)
{
    bool done = true;

    if (cuStreamBeginCapture_v2(worker->capturing, CU_STREAM_CAPTURE_MODE_RELAXED) !=
        CUDA_SUCCESS)
        return false;
    for (unsigned i = 0; i < shape->count && done; i++) {
        unsigned index;
        CUfunction function = some_frame(worker, false, &index);

        *uses |= 1u << index;
        done = function && did(worker, "captured kernel",
                               cuLaunchKernel(function, 1, 1, 1, 32, 1, 1, 0, worker->capturing,
                                              NULL, NULL));
    }
    if (cuStreamEndCapture(worker->capturing, graph) != CUDA_SUCCESS)
        *graph = NULL;
    return done && *graph;
}

/* Also what is left of a graph that could not be filled. */
static bool make_graph(struct worker *worker, const struct shape *shape, CUgraph *graph,
                       CUgraphNode *first, unsigned *uses)
{
    bool all_outer = shape->in_turn && !shape->in_child && !shape->in_body;

    *graph = NULL;
    *first = NULL;
    for (unsigned i = 0; i < shape->count; i++)
        all_outer = all_outer && !shape->inner[i];
    if (all_outer && one_of(worker, 3))
        return capture_kernels(worker, shape, graph, uses);
    if (cuGraphCreate(graph, 0) != CUDA_SUCCESS) {
        *graph = NULL;
        return false;
    }
    return fill_graph(worker, *graph, shape, first, uses);
}

static void drop_graph(struct worker *worker, CUgraph graph)
{
    if (graph)
        did(worker, "run graph destroy", cuGraphDestroy(graph));
}

static CUresult instantiate(struct worker *worker, CUgraphExec *executable, CUgraph graph)
{
    CUDA_GRAPH_INSTANTIATE_PARAMS params;

    switch (below(worker, 3)) {
    case 0:
        memset(&params, 0, sizeof(params));
        params.flags = one_of(worker, 2) ? CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD : 0;
        params.hUploadStream = worker->streams[0];
        return cuGraphInstantiateWithParams(executable, graph, &params);
    case 1:
        return cuGraphInstantiate_v2(executable, graph, NULL, NULL, 0);
    default:
        return cuGraphInstantiateWithFlags(executable, graph, 0);
    }
}

static void begin_run(struct worker *worker, struct run *run)
{
    struct run made = {.executable = UNTOUCHED, .shape = some_run_shape(worker)};

    if (make_graph(worker, &made.shape, &made.graph, &made.node, &made.uses) &&
        gave(worker, "run instantiate", instantiate(worker, &made.executable, made.graph),
             made.executable != UNTOUCHED))
        *run = made;
    else
        drop_graph(worker, made.graph);
}

void end_run(struct worker *worker, struct run *run)
{
    if (!did(worker, "run destroy", cuGraphExecDestroy(run->executable)))
        return;
    drop_graph(worker, run->graph);
    *run = (struct run){0};
}

/* Of the code that is about to go, or of the context. */
void end_runs_of(struct worker *worker, unsigned uses)
{
    for (int i = 0; i < RUNS; i++)
        while (worker->runs[i].executable && (worker->runs[i].uses & uses))
            end_run(worker, &worker->runs[i]);
}

void end_inner_runs(struct worker *worker)
{
    for (int i = 0; i < RUNS; i++) {
        struct run *run = &worker->runs[i];
        bool inner = false;

        for (unsigned k = 0; k < run->shape.count; k++)
            inner = inner || run->shape.inner[k];
        while (inner && run->executable)
            end_run(worker, run);
    }
}

/* After another graph of the same shape. */
static void update_run(struct worker *worker, struct run *run)
{
    CUgraphExecUpdateResultInfo info;
    CUgraph graph = NULL;
    CUgraphNode node;

    if (make_graph(worker, &run->shape, &graph, &node, &run->uses)) {
        memset(&info, 0, sizeof(info));
        did(worker, "run update", cuGraphExecUpdate_v2(run->executable, graph, &info));
    }
    drop_graph(worker, graph);
}

static void set_kernel(struct worker *worker, struct run *run)
{
    CUDA_KERNEL_NODE_PARAMS_v2 params;
    CUgraphNodeParams any;

    if (!run->node || run->shape.in_child || run->shape.in_body ||
        !some_node(worker, run->shape.inner[0], &params, &run->uses))
        return;
    switch (below(worker, 3)) {
    case 0: /* the next executable's */
        did(worker, "run node", cuGraphKernelNodeSetParams_v2(run->node, &params));
        break;
    case 1:
        memset(&any, 0, sizeof(any));
        any.type = CU_GRAPH_NODE_TYPE_KERNEL;
        memcpy(&any.kernel, &params, sizeof(params));
        did(worker, "run set", cuGraphExecNodeSetParams(run->executable, run->node, &any));
        break;
    default:
        did(worker, "run set kernel",
            cuGraphExecKernelNodeSetParams_v2(run->executable, run->node, &params));
        break;
    }
}

/* A second executable of the graph in the place of the first. */
static void repeat_run(struct worker *worker, struct run *run)
{
    CUgraphExec executable = UNTOUCHED;

    if (!gave(worker, "run again", instantiate(worker, &executable, run->graph),
              executable != UNTOUCHED))
        return;
    while (!did(worker, "run destroy", cuGraphExecDestroy(run->executable)))
        ;
    run->executable = executable;
}

void change_run(struct worker *worker)
{
    struct run *run = &worker->runs[below(worker, RUNS)];
    CUstream stream = worker->context && one_of(worker, 2)
                          ? worker->inner_stream
                          : worker->streams[below(worker, STREAMS)];

    if (!run->executable) {
        begin_run(worker, run);
        return;
    }
    switch (below(worker, 9)) {
    case 0:
    case 1:
        end_run(worker, run);
        break;
    case 2:
        did(worker, "run upload", cuGraphUpload(run->executable, stream));
        break;
    case 3:
        update_run(worker, run);
        break;
    case 4:
        set_kernel(worker, run);
        break;
    case 5:
        repeat_run(worker, run);
        break;
    default:
        did(worker, "run launch", cuGraphLaunch(run->executable, stream));
        break;
    }
}
