/* Executables: what a graph was when it was instantiated. */
#include "sim.h"

void sim_step_set_kernel(struct sim_step *step, struct sim_function *function,
                         const CUDA_KERNEL_NODE_PARAMS_v3 *what)
{
    step->function = function;
    step->launch = *what;
    step->launch.func = (CUfunction)(void *)function;
    step->context = function->module->context;
    step->local = function->code->local;
    step->allocates = function->code->allocates;
    step->prints = function->code->prints;
}

static CUresult fill_kernel(struct sim_step *step, const struct sim_node *node)
{
    struct sim_function *function = sim_object_find(node->function, SIM_FUNCTION);
    CUresult code = function ? sim_function_load(function) : CUDA_ERROR_INVALID_VALUE;
    if (!code)
        sim_step_set_kernel(step, function, &node->launch);
    return code;
}

static unsigned nodes_of(const struct sim_graph *graph)
{
    unsigned count = graph->count;
    for (const struct sim_node *node = graph->nodes; node; node = node->next)
        for (unsigned i = 0; i < node->child_count; i++)
            count += nodes_of((const struct sim_graph *)(void *)node->children[i]);
    return count;
}

static CUresult fill(struct sim_exec *exec, const struct sim_graph *graph, bool inside)
{
    CUresult code = CUDA_SUCCESS;
    for (const struct sim_node *node = graph->nodes; node && !code; node = node->next) {
        const unsigned at = exec->count++;
        struct sim_step *step = &exec->steps[at];
        step->id = node->id;
        step->type = node->type;
        if (node->memory) {
            node->memory->references++;
            step->memory = node->memory;
            step->frees = node->type == CU_GRAPH_NODE_TYPE_MEM_FREE;
            exec->has_memory = true;
            exec->memory_inside = exec->memory_inside || inside;
        }
        if (node->type == CU_GRAPH_NODE_TYPE_KERNEL)
            code = fill_kernel(step, node);
        else if (node->type == CU_GRAPH_NODE_TYPE_HOST)
            step->host = node->work.host;
        for (unsigned i = 0; i < node->child_count && !code; i++) {
            const struct sim_graph *child = (const struct sim_graph *)(void *)node->children[i];
            if (node->type == CU_GRAPH_NODE_TYPE_CONDITIONAL &&
                sim_graph_has(child, true, false))
                code = CUDA_ERROR_INVALID_VALUE;
            else
                code = fill(exec, child, true);
        }
        step->span = exec->count - at - 1;
    }
    return code;
}

CUresult sim_exec_fill(struct sim_exec *exec, const struct sim_graph *graph)
{
    uint64_t live[SIM_MAX_CARDS] = {0};
    CUresult code;
    exec->steps = sim_new((nodes_of(graph) + 1) * sizeof(*exec->steps));
    code = fill(exec, graph, false);
    for (unsigned i = 0; i < exec->count; i++) {
        const struct sim_graph_memory *memory = exec->steps[i].memory;
        const int card = memory ? memory->card->index : 0;
        if (!memory)
            continue;
        if (exec->steps[i].frees)
            live[card] -= memory->bytes < live[card] ? memory->bytes : live[card];
        else
            live[card] += memory->bytes;
        if (live[card] > exec->peak[card])
            exec->peak[card] = live[card];
    }
    /* Measured of five sizes; why is not known. */
    for (int i = 0; i < SIM_MAX_CARDS; i++)
        if (exec->memory_inside && exec->peak[i])
            exec->peak[i] += sim_settings.profile->pool_step;
    return code;
}

void sim_exec_end(struct sim_exec *exec)
{
    for (unsigned i = 0; i < exec->count; i++)
        if (exec->steps[i].memory)
            sim_graph_memory_drop(exec->steps[i].memory);
    free(exec->steps);
    free(exec);
}

/* The manual: launched from the device, a graph has kernels, copies, fills and children only.
 * The code was measured of memory nodes. */
static bool for_device(const struct sim_exec *exec)
{
    for (unsigned i = 0; i < exec->count; i++)
        switch (exec->steps[i].type) {
        case CU_GRAPH_NODE_TYPE_KERNEL:
        case CU_GRAPH_NODE_TYPE_MEMCPY:
        case CU_GRAPH_NODE_TYPE_MEMSET:
        case CU_GRAPH_NODE_TYPE_GRAPH:
            break;
        default:
            return false;
        }
    return exec->count > 0;
}

/* Measured: local memory and heap come with the instantiation, with another kernel, with an
 * upload and a launch where they are not there any more. */
CUresult sim_steps_come(const struct sim_step *steps, unsigned count, bool launched)
{
    CUresult code = CUDA_SUCCESS;
    for (unsigned i = 0; i < count && !code; i++) {
        const struct sim_step *step = &steps[i];
        if (!step->context)
            continue;
        if (step->context->ended)
            return CUDA_ERROR_CONTEXT_IS_DESTROYED;
        code = sim_local_need(step->context, step->local);
        if (!code)
            code = sim_limit_launch(step->context, step->allocates, launched && step->prints);
    }
    return code;
}

static uint64_t bytes_of(const struct sim_context *context)
{
    const struct sim_profile *profile = sim_settings.profile;
    const uint64_t bytes = context->node_count * profile->node_bytes;
    const uint64_t besides = context->primary ? profile->big_round : 0;
    return besides + (bytes > profile->node_free
                          ? sim_round_up(bytes - profile->node_free, profile->big_round)
                          : 0);
}

/* Of kernels that are beside one another each takes its part, the first few nothing, in steps
 * of 2 MiB, which stay when the executable is destroyed and serve later ones of the context
 * (measured, docs/measurements.md). With the first executable of a primary context 2 MiB came
 * besides, and with that of another context did not. */
static CUresult count(struct sim_step *step, const struct sim_graph *graph)
{
    struct sim_context *context = step->context;
    uint64_t wanted;
    step->width = sim_graph_width(graph, context);
    step->counted_in = context->id;
    context->node_count += step->width;
    wanted = bytes_of(context);
    if (wanted <= context->node_bytes)
        return CUDA_SUCCESS;
    if (!sim_card_take_pressing(context->card, SIM_USE_NODES, wanted - context->node_bytes))
        return CUDA_ERROR_OUT_OF_MEMORY;
    context->node_bytes = wanted;
    return CUDA_SUCCESS;
}

/* Each context counts once. */
static CUresult nodes_come(const struct sim_exec *exec, const struct sim_graph *graph)
{
    CUresult code = CUDA_SUCCESS;
    for (unsigned i = 0; i < exec->count && !code; i++) {
        unsigned same = 0;
        if (!exec->steps[i].context)
            continue;
        while (exec->steps[same].context != exec->steps[i].context)
            same++;
        if (same == i)
            code = count(&exec->steps[i], graph);
    }
    return code;
}

static void nodes_go(const struct sim_exec *exec)
{
    for (unsigned i = 0; i < exec->count; i++) {
        const struct sim_step *step = &exec->steps[i];
        if (step->counted_in && !step->context->ended && step->context->id == step->counted_in)
            step->context->node_count -= step->width;
    }
}

#define UPLOAD (uint64_t) CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD

static CUresult instantiate(CUgraphExec *phGraphExec, CUgraph hGraph, uint64_t flags,
                            uint64_t allowed)
{
    struct sim_graph *graph = sim_object_find(hGraph, SIM_GRAPH);
    struct sim_exec *exec;
    CUresult code;
    if (!phGraphExec || !graph || graph->owner || (flags & ~allowed) ||
        ((flags & CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH) &&
         (flags & CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH)))
        return CUDA_ERROR_INVALID_VALUE;
    SIM_UNSAFE();
    /* One at a time. */
    if (graph->execs && sim_graph_has(graph, true, false))
        return CUDA_ERROR_NOT_SUPPORTED;
    exec = sim_new(sizeof(*exec));
    code = sim_exec_fill(exec, graph);
    if (!code && (flags & CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH) && !for_device(exec))
        code = CUDA_ERROR_INVALID_VALUE;
    if (!code)
        code = sim_steps_come(exec->steps, exec->count, false);
    /* It may have waited. */
    if (!code && sim_object_find(hGraph, SIM_GRAPH) != graph)
        code = CUDA_ERROR_INVALID_VALUE;
    if (!code) {
        code = nodes_come(exec, graph);
        if (code)
            nodes_go(exec);
    }
    if (code) {
        sim_exec_end(exec);
        return code;
    }
    exec->graph = graph;
    exec->graph_id = graph->id;
    graph->execs++;
    exec->auto_free = flags & CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH;
    exec->flags = flags;
    sim_object_add(exec, SIM_EXEC);
    *phGraphExec = (CUgraphExec)(void *)exec;
    return CUDA_SUCCESS;
}

CUresult cuGraphInstantiate(CUgraphExec *phGraphExec, CUgraph hGraph, CUgraphNode *phErrorNode,
                            char *logBuffer, size_t bufferSize)
{
    SIM_ENTER(cuGraphInstantiate, W(phGraphExec), W(hGraph), W(phErrorNode), W(logBuffer),
              W(bufferSize));
    return instantiate(phGraphExec, hGraph, 0, 0);
}

CUresult cuGraphInstantiate_v2(CUgraphExec *phGraphExec, CUgraph hGraph,
                               CUgraphNode *phErrorNode, char *logBuffer, size_t bufferSize)
{
    SIM_ENTER(cuGraphInstantiate_v2, W(phGraphExec), W(hGraph), W(phErrorNode), W(logBuffer),
              W(bufferSize));
    return instantiate(phGraphExec, hGraph, 0, 0);
}

/* The upload flag is for the form with parameters only. */
CUresult cuGraphInstantiateWithFlags(CUgraphExec *phGraphExec, CUgraph hGraph,
                                     unsigned long long flags)
{
    SIM_ENTER(cuGraphInstantiateWithFlags, W(phGraphExec), W(hGraph), W(flags));
    return instantiate(phGraphExec, hGraph, flags, 15 & ~UPLOAD);
}

static void destroy(struct sim_exec *exec)
{
    struct sim_graph *graph = sim_object_find(exec->graph, SIM_GRAPH);
    if (graph && graph->id == exec->graph_id)
        graph->execs--;
    sim_object_remove(exec);
    nodes_go(exec);
    sim_exec_end(exec);
}

static CUresult instantiate_with(CUgraphExec *phGraphExec, CUgraph hGraph, bool per_thread,
                                 CUDA_GRAPH_INSTANTIATE_PARAMS *params)
{
    CUgraphExec made = NULL;
    CUresult code;
    if (!params || !phGraphExec)
        return CUDA_ERROR_INVALID_VALUE;
    code = instantiate(&made, hGraph, params->flags, 15);
    if (!code && (params->flags & UPLOAD)) {
        struct sim_exec *exec = sim_object_find(made, SIM_EXEC);
        code = sim_exec_upload(exec, params->hUploadStream, per_thread);
        if (code)
            destroy(exec);
    }
    params->hErrNode_out = NULL;
    params->result_out = code == CUDA_ERROR_NOT_SUPPORTED
                             ? CUDA_GRAPH_INSTANTIATE_NODE_OPERATION_NOT_SUPPORTED
                         : code ? CUDA_GRAPH_INSTANTIATE_ERROR
                                : CUDA_GRAPH_INSTANTIATE_SUCCESS;
    if (!code)
        *phGraphExec = made;
    return code;
}

CUresult cuGraphInstantiateWithParams(CUgraphExec *phGraphExec, CUgraph hGraph,
                                      CUDA_GRAPH_INSTANTIATE_PARAMS *instantiateParams)
{
    SIM_ENTER(cuGraphInstantiateWithParams, W(phGraphExec), W(hGraph), W(instantiateParams));
    SIM_NOTE(instantiateParams, sizeof(*instantiateParams));
    return instantiate_with(phGraphExec, hGraph, false, instantiateParams);
}

CUresult cuGraphInstantiateWithParams_ptsz(CUgraphExec *phGraphExec, CUgraph hGraph,
                                           CUDA_GRAPH_INSTANTIATE_PARAMS *instantiateParams)
{
    SIM_ENTER(cuGraphInstantiateWithParams_ptsz, W(phGraphExec), W(hGraph),
              W(instantiateParams));
    SIM_NOTE(instantiateParams, sizeof(*instantiateParams));
    return instantiate_with(phGraphExec, hGraph, true, instantiateParams);
}

CUresult cuGraphExecDestroy(CUgraphExec hGraphExec)
{
    SIM_ENTER(cuGraphExecDestroy, W(hGraphExec));
    struct sim_exec *exec = sim_object_find(hGraphExec, SIM_EXEC);
    if (!exec)
        return CUDA_ERROR_INVALID_VALUE;
    destroy(exec);
    return CUDA_SUCCESS;
}

CUresult cuGraphExecGetFlags(CUgraphExec hGraphExec, cuuint64_t *flags)
{
    SIM_ENTER(cuGraphExecGetFlags, W(hGraphExec), W(flags));
    struct sim_exec *exec = sim_object_find(hGraphExec, SIM_EXEC);
    if (!exec || !flags)
        return CUDA_ERROR_INVALID_VALUE;
    *flags = exec->flags;
    return CUDA_SUCCESS;
}
