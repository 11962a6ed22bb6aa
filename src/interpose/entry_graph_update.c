/*
 * entry_graph_update.c: kernels of an executable become others, which may need more local
 * memory.
 */
#include "interpose/graph_call.h"
#include "interpose/local_memory.h"

#include <stddef.h>

/* What is not launched under a measuring budget need not be known. */
static bool is_watched(CUresult code)
{
    return code == CUDA_SUCCESS && !gb_graph_is_requested() && gb_process_device_count() > 0;
}

static void needs_function(struct gb_driver *drv, CUgraphExec handle, CUfunction function,
                           CUkernel kernel)
{
    gb_executable_needs_local(
        drv, handle, gb_local_need(drv, function ? function : (CUfunction)(void *)kernel));
}

static void needs_graph(struct gb_driver *drv, CUgraphExec handle, CUgraph graph)
{
    struct gb_graph_needs needs;

    if (gb_graph_read_needs(drv, graph, &needs))
        gb_executable_needs_local(drv, handle, needs.local);
}

CUresult gb_enter_cuGraphExecKernelNodeSetParams(struct gb_driver *drv, CUgraphExec hGraphExec,
                                                 CUgraphNode hNode,
                                                 const CUDA_KERNEL_NODE_PARAMS_v1 *nodeParams)
{
    CUresult code = GB_REAL(drv, cuGraphExecKernelNodeSetParams)(hGraphExec, hNode, nodeParams);

    if (is_watched(code) && nodeParams)
        needs_function(drv, hGraphExec, nodeParams->func, NULL);
    return code;
}

CUresult
gb_enter_cuGraphExecKernelNodeSetParams_v2(struct gb_driver *drv, CUgraphExec hGraphExec,
                                           CUgraphNode hNode,
                                           const CUDA_KERNEL_NODE_PARAMS_v2 *nodeParams)
{
    CUresult code =
        GB_REAL(drv, cuGraphExecKernelNodeSetParams_v2)(hGraphExec, hNode, nodeParams);

    if (is_watched(code) && nodeParams)
        needs_function(drv, hGraphExec, nodeParams->func, nodeParams->kern);
    return code;
}

CUresult gb_enter_cuGraphExecChildGraphNodeSetParams(struct gb_driver *drv,
                                                     CUgraphExec hGraphExec, CUgraphNode hNode,
                                                     CUgraph childGraph)
{
    CUresult code =
        GB_REAL(drv, cuGraphExecChildGraphNodeSetParams)(hGraphExec, hNode, childGraph);

    if (is_watched(code))
        needs_graph(drv, hGraphExec, childGraph);
    return code;
}

CUresult gb_enter_cuGraphExecNodeSetParams(struct gb_driver *drv, CUgraphExec hGraphExec,
                                           CUgraphNode hNode, CUgraphNodeParams *nodeParams)
{
    CUresult code = GB_REAL(drv, cuGraphExecNodeSetParams)(hGraphExec, hNode, nodeParams);

    if (!is_watched(code) || !nodeParams)
        return code;
    if (nodeParams->type == CU_GRAPH_NODE_TYPE_KERNEL)
        needs_function(drv, hGraphExec, nodeParams->kernel.func, nodeParams->kernel.kern);
    else if (nodeParams->type == CU_GRAPH_NODE_TYPE_GRAPH)
        needs_graph(drv, hGraphExec, nodeParams->graph.graph);
    return code;
}

static CUresult updated(struct gb_driver *drv, CUgraphExec handle, CUgraph graph, CUresult code)
{
    if (is_watched(code))
        needs_graph(drv, handle, graph);
    return code;
}

CUresult gb_enter_cuGraphExecUpdate(struct gb_driver *drv, CUgraphExec hGraphExec,
                                    CUgraph hGraph, CUgraphNode *hErrorNode_out,
                                    CUgraphExecUpdateResult *updateResult_out)
{
    return updated(
        drv, hGraphExec, hGraph,
        GB_REAL(drv, cuGraphExecUpdate)(hGraphExec, hGraph, hErrorNode_out, updateResult_out));
}

CUresult gb_enter_cuGraphExecUpdate_v2(struct gb_driver *drv, CUgraphExec hGraphExec,
                                       CUgraph hGraph, CUgraphExecUpdateResultInfo *resultInfo)
{
    return updated(drv, hGraphExec, hGraph,
                   GB_REAL(drv, cuGraphExecUpdate_v2)(hGraphExec, hGraph, resultInfo));
}
