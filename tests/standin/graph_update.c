/* Changes to an executable: of one node, or of all after another graph of the same shape. */
#include "sim.h"
#include "launch.h"

struct sim_step *sim_exec_step(struct sim_exec *exec, CUgraphNode handle)
{
    const struct sim_node *node = sim_object_find(handle, SIM_NODE);
    for (unsigned i = 0; node && exec && i < exec->count; i++)
        if (exec->steps[i].id == node->id)
            return &exec->steps[i];
    return NULL;
}

/* All or nothing. The id of the node that stands in the way, if it is one, goes to `node`. */
CUresult sim_steps_update(struct sim_step *steps, const struct sim_step *from, unsigned count,
                          CUgraphExecUpdateResult *result, uint64_t *node)
{
    CUresult code;
    *result = CU_GRAPH_EXEC_UPDATE_SUCCESS;
    *node = 0;
    for (unsigned i = 0; i < count && *result == CU_GRAPH_EXEC_UPDATE_SUCCESS; i++) {
        if (steps[i].type != from[i].type)
            *result = CU_GRAPH_EXEC_UPDATE_ERROR_NODE_TYPE_CHANGED;
        else if (steps[i].span != from[i].span)
            *result = CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED;
        /* After the graph that it was made of: nothing changes (measured). Otherwise not
         * measured. */
        else if (steps[i].memory != from[i].memory)
            *result = CU_GRAPH_EXEC_UPDATE_ERROR_NOT_SUPPORTED;
        else if (steps[i].context != from[i].context)
            *result = CU_GRAPH_EXEC_UPDATE_ERROR_UNSUPPORTED_FUNCTION_CHANGE;
        *node = from[i].id;
    }
    if (*result != CU_GRAPH_EXEC_UPDATE_SUCCESS)
        return CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE;
    *node = 0;
    code = sim_steps_come(from, count, false);
    for (unsigned i = 0; i < count && !code; i++) {
        const struct sim_step was = steps[i];
        steps[i] = from[i];
        steps[i].id = was.id;
        /* Not measured: that memory for nodes does not come with an update. */
        steps[i].width = was.width;
        steps[i].counted_in = was.counted_in;
    }
    return code;
}

static CUgraphNode node_with(const struct sim_graph *graph, uint64_t id)
{
    for (struct sim_node *node = graph->nodes; node; node = node->next) {
        if (node->id == id)
            return (CUgraphNode)(void *)node;
        for (unsigned i = 0; i < node->child_count; i++) {
            CUgraphNode found =
                node_with((const struct sim_graph *)(void *)node->children[i], id);
            if (found)
                return found;
        }
    }
    return NULL;
}

static CUresult update(CUgraphExec hGraphExec, CUgraph hGraph, CUgraphExecUpdateResult *result,
                       CUgraphNode *error)
{
    struct sim_exec *exec = sim_object_find(hGraphExec, SIM_EXEC), *other;
    const struct sim_graph *graph = sim_object_find(hGraph, SIM_GRAPH);
    uint64_t node = 0;
    CUresult code;
    *result = CU_GRAPH_EXEC_UPDATE_ERROR;
    *error = NULL;
    if (!exec || !graph)
        return CUDA_ERROR_INVALID_VALUE;
    SIM_UNSAFE();
    other = sim_new(sizeof(*other));
    code = sim_exec_fill(other, graph);
    if (!code && other->count != exec->count) {
        *result = CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED;
        code = CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE;
    } else if (!code) {
        code = sim_steps_update(exec->steps, other->steps, exec->count, result, &node);
        *error = node ? node_with(graph, node) : NULL;
    }
    sim_exec_end(other);
    return code;
}

CUresult cuGraphExecUpdate(CUgraphExec hGraphExec, CUgraph hGraph, CUgraphNode *hErrorNode_out,
                           CUgraphExecUpdateResult *updateResult_out)
{
    SIM_ENTER(cuGraphExecUpdate, W(hGraphExec), W(hGraph), W(hErrorNode_out),
              W(updateResult_out));
    if (!hErrorNode_out || !updateResult_out)
        return CUDA_ERROR_INVALID_VALUE;
    return update(hGraphExec, hGraph, updateResult_out, hErrorNode_out);
}

CUresult cuGraphExecUpdate_v2(CUgraphExec hGraphExec, CUgraph hGraph,
                              CUgraphExecUpdateResultInfo *resultInfo)
{
    SIM_ENTER(cuGraphExecUpdate_v2, W(hGraphExec), W(hGraph), W(resultInfo));
    if (!resultInfo)
        return CUDA_ERROR_INVALID_VALUE;
    resultInfo->errorFromNode = NULL;
    return update(hGraphExec, hGraph, &resultInfo->result, &resultInfo->errorNode);
}

static CUresult set_kernel(struct sim_step *step, const CUDA_KERNEL_NODE_PARAMS_v3 *what)
{
    struct sim_function *function;
    struct sim_step changed;
    CUresult code;
    if (!step || step->type != CU_GRAPH_NODE_TYPE_KERNEL)
        return CUDA_ERROR_INVALID_VALUE;
    code = sim_launch_check(what);
    if (!code)
        code = sim_kernel_of(what, &function);
    if (!code && function->module->context != step->context)
        code = CUDA_ERROR_INVALID_VALUE;
    if (code)
        return code;
    changed = *step;
    sim_step_set_kernel(&changed, function, what);
    code = sim_steps_come(&changed, 1, false);
    if (!code)
        *step = changed;
    return code;
}

CUresult cuGraphExecKernelNodeSetParams(CUgraphExec hGraphExec, CUgraphNode hNode,
                                        const CUDA_KERNEL_NODE_PARAMS_v1 *nodeParams)
{
    SIM_ENTER(cuGraphExecKernelNodeSetParams, W(hGraphExec), W(hNode), W(nodeParams));
    CUDA_KERNEL_NODE_PARAMS_v3 what = {0};
    if (!nodeParams)
        return CUDA_ERROR_INVALID_VALUE;
    memcpy(&what, nodeParams, sizeof(*nodeParams));
    return set_kernel(sim_exec_step(sim_object_find(hGraphExec, SIM_EXEC), hNode), &what);
}

CUresult cuGraphExecKernelNodeSetParams_v2(CUgraphExec hGraphExec, CUgraphNode hNode,
                                           const CUDA_KERNEL_NODE_PARAMS_v2 *nodeParams)
{
    SIM_ENTER(cuGraphExecKernelNodeSetParams_v2, W(hGraphExec), W(hNode), W(nodeParams));
    CUDA_KERNEL_NODE_PARAMS_v3 what;
    if (!nodeParams)
        return CUDA_ERROR_INVALID_VALUE;
    memcpy(&what, nodeParams, sizeof(what));
    return set_kernel(sim_exec_step(sim_object_find(hGraphExec, SIM_EXEC), hNode), &what);
}

static CUresult set_child(struct sim_step *step, CUgraph childGraph)
{
    const struct sim_graph *graph = sim_object_find(childGraph, SIM_GRAPH);
    struct sim_exec *other;
    CUgraphExecUpdateResult result;
    uint64_t node;
    CUresult code;
    if (!step || step->type != CU_GRAPH_NODE_TYPE_GRAPH || !graph)
        return CUDA_ERROR_INVALID_VALUE;
    other = sim_new(sizeof(*other));
    code = sim_exec_fill(other, graph);
    if (!code && other->count != step->span)
        code = CUDA_ERROR_INVALID_VALUE;
    if (!code && sim_steps_update(step + 1, other->steps, step->span, &result, &node))
        code = CUDA_ERROR_INVALID_VALUE;
    sim_exec_end(other);
    return code;
}

CUresult cuGraphExecChildGraphNodeSetParams(CUgraphExec hGraphExec, CUgraphNode hNode,
                                            CUgraph childGraph)
{
    SIM_ENTER(cuGraphExecChildGraphNodeSetParams, W(hGraphExec), W(hNode), W(childGraph));
    return set_child(sim_exec_step(sim_object_find(hGraphExec, SIM_EXEC), hNode), childGraph);
}

static CUresult set_work(struct sim_step *step, CUgraphNodeType type, const void *params)
{
    return step && params && step->type == type ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuGraphExecMemcpyNodeSetParams(CUgraphExec hGraphExec, CUgraphNode hNode,
                                        const CUDA_MEMCPY3D *copyParams, CUcontext ctx)
{
    SIM_ENTER(cuGraphExecMemcpyNodeSetParams, W(hGraphExec), W(hNode), W(copyParams), W(ctx));
    return set_work(sim_exec_step(sim_object_find(hGraphExec, SIM_EXEC), hNode),
                    CU_GRAPH_NODE_TYPE_MEMCPY, copyParams);
}

CUresult cuGraphExecMemsetNodeSetParams(CUgraphExec hGraphExec, CUgraphNode hNode,
                                        const CUDA_MEMSET_NODE_PARAMS *memsetParams,
                                        CUcontext ctx)
{
    SIM_ENTER(cuGraphExecMemsetNodeSetParams, W(hGraphExec), W(hNode), W(memsetParams), W(ctx));
    return set_work(sim_exec_step(sim_object_find(hGraphExec, SIM_EXEC), hNode),
                    CU_GRAPH_NODE_TYPE_MEMSET, memsetParams);
}

static CUresult set_host(struct sim_step *step, CUhostFn function, void *argument)
{
    CUresult code = set_work(step, CU_GRAPH_NODE_TYPE_HOST, (const void *)(uintptr_t)function);
    if (!code)
        step->host = (CUDA_HOST_NODE_PARAMS_v1){function, argument};
    return code;
}

CUresult cuGraphExecHostNodeSetParams(CUgraphExec hGraphExec, CUgraphNode hNode,
                                      const CUDA_HOST_NODE_PARAMS *nodeParams)
{
    SIM_ENTER(cuGraphExecHostNodeSetParams, W(hGraphExec), W(hNode), W(nodeParams));
    if (!nodeParams)
        return CUDA_ERROR_INVALID_VALUE;
    return set_host(sim_exec_step(sim_object_find(hGraphExec, SIM_EXEC), hNode), nodeParams->fn,
                    nodeParams->userData);
}

/* Memory nodes: not supported, the manual says. */
CUresult cuGraphExecNodeSetParams(CUgraphExec hGraphExec, CUgraphNode hNode,
                                  CUgraphNodeParams *nodeParams)
{
    SIM_ENTER(cuGraphExecNodeSetParams, W(hGraphExec), W(hNode), W(nodeParams));
    SIM_NOTE(nodeParams, sizeof(*nodeParams));
    struct sim_step *step = sim_exec_step(sim_object_find(hGraphExec, SIM_EXEC), hNode);
    if (!step || !nodeParams || step->type != nodeParams->type)
        return CUDA_ERROR_INVALID_VALUE;
    switch (step->type) {
    case CU_GRAPH_NODE_TYPE_KERNEL:
        return set_kernel(step, &nodeParams->kernel);
    case CU_GRAPH_NODE_TYPE_GRAPH:
        return set_child(step, nodeParams->graph.graph);
    case CU_GRAPH_NODE_TYPE_HOST:
        return set_host(step, nodeParams->host.fn, nodeParams->host.userData);
    case CU_GRAPH_NODE_TYPE_MEM_ALLOC:
    case CU_GRAPH_NODE_TYPE_MEM_FREE:
    case CU_GRAPH_NODE_TYPE_CONDITIONAL:
        return CUDA_ERROR_NOT_SUPPORTED;
    default:
        return CUDA_SUCCESS;
    }
}

/* A disabled kernel's local memory counts all the same (measured of a launch). */
CUresult cuGraphNodeSetEnabled(CUgraphExec hGraphExec, CUgraphNode hNode,
                               unsigned int isEnabled)
{
    SIM_ENTER(cuGraphNodeSetEnabled, W(hGraphExec), W(hNode), W(isEnabled));
    struct sim_step *step = sim_exec_step(sim_object_find(hGraphExec, SIM_EXEC), hNode);
    if (!step ||
        (step->type != CU_GRAPH_NODE_TYPE_KERNEL && step->type != CU_GRAPH_NODE_TYPE_MEMCPY &&
         step->type != CU_GRAPH_NODE_TYPE_MEMSET))
        return CUDA_ERROR_INVALID_VALUE;
    step->disabled = !isEnabled;
    return CUDA_SUCCESS;
}

CUresult cuGraphNodeGetEnabled(CUgraphExec hGraphExec, CUgraphNode hNode,
                               unsigned int *isEnabled)
{
    SIM_ENTER(cuGraphNodeGetEnabled, W(hGraphExec), W(hNode), W(isEnabled));
    const struct sim_step *step = sim_exec_step(sim_object_find(hGraphExec, SIM_EXEC), hNode);
    if (!step || !isEnabled)
        return CUDA_ERROR_INVALID_VALUE;
    *isEnabled = !step->disabled;
    return CUDA_SUCCESS;
}
