/*
 * entry_graph_update.c: kernels of an executable become others, which may need more at its next
 * launch.
 */
#include "interpose/graph_call.h"
#include "interpose/library_use.h"
#include "interpose/local_memory.h"

#include <stddef.h>

/* What is not launched under a measuring budget need not be known. */
static bool is_watched(CUresult code)
{
    return code == CUDA_SUCCESS && !gb_graph_is_requested() && gb_process_device_count() > 0;
}

/* A kernel node may name its kernel by either handle. */
static const void *kernel_of(CUfunction function, CUkernel kernel)
{
    return function ? (const void *)function : (const void *)kernel;
}

static void needs_kernel(struct gb_driver *drv, CUgraphExec handle, const void *kernel)
{
    const struct gb_launch_need need = gb_local_need(drv, (CUfunction)(uintptr_t)kernel);

    gb_executable_needs(drv, handle, &need);
}

static void needs_graph(struct gb_driver *drv, CUgraphExec handle, CUgraph graph)
{
    struct gb_graph_needs needs;

    if (gb_graph_read_needs(drv, graph, &needs))
        gb_executable_needs(drv, handle, &needs.kernels);
}

CUresult gb_enter_cuGraphExecKernelNodeSetParams(struct gb_driver *drv, CUgraphExec hGraphExec,
                                                 CUgraphNode hNode,
                                                 const CUDA_KERNEL_NODE_PARAMS_v1 *nodeParams)
{
    const void *kernel = nodeParams ? nodeParams->func : NULL;
    CUresult code = gb_library_bring_kernel(drv, kernel, "cuGraphExecKernelNodeSetParams");

    if (code != CUDA_SUCCESS)
        return code;
    code = GB_REAL(drv, cuGraphExecKernelNodeSetParams)(hGraphExec, hNode, nodeParams);
    if (is_watched(code) && kernel)
        needs_kernel(drv, hGraphExec, kernel);
    return code;
}

CUresult
gb_enter_cuGraphExecKernelNodeSetParams_v2(struct gb_driver *drv, CUgraphExec hGraphExec,
                                           CUgraphNode hNode,
                                           const CUDA_KERNEL_NODE_PARAMS_v2 *nodeParams)
{
    const void *kernel = nodeParams ? kernel_of(nodeParams->func, nodeParams->kern) : NULL;
    CUresult code = gb_library_bring_kernel(drv, kernel, "cuGraphExecKernelNodeSetParams");

    if (code != CUDA_SUCCESS)
        return code;
    code = GB_REAL(drv, cuGraphExecKernelNodeSetParams_v2)(hGraphExec, hNode, nodeParams);
    if (is_watched(code) && kernel)
        needs_kernel(drv, hGraphExec, kernel);
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
    const void *kernel = nodeParams && nodeParams->type == CU_GRAPH_NODE_TYPE_KERNEL
                             ? kernel_of(nodeParams->kernel.func, nodeParams->kernel.kern)
                             : NULL;
    CUresult code = gb_library_bring_kernel(drv, kernel, "cuGraphExecNodeSetParams");

    if (code != CUDA_SUCCESS)
        return code;
    code = GB_REAL(drv, cuGraphExecNodeSetParams)(hGraphExec, hNode, nodeParams);
    if (!is_watched(code) || !nodeParams)
        return code;
    if (kernel)
        needs_kernel(drv, hGraphExec, kernel);
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
