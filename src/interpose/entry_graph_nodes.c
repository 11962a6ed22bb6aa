/*
 * entry_graph_nodes.c: kernels become nodes of graphs. With that the driver uses the library of
 * a kernel (entry_library.c). What such a kernel needs at its launch is read from the graph
 * when it becomes an executable, but for the bodies of conditional nodes, which cannot be read.
 */
#include "interpose/executables.h"
#include "interpose/handlers.h"
#include "interpose/library_use.h"

/* It may be in a body. */
static CUresult after(struct gb_driver *drv, const void *kernel, CUresult code)
{
    if (code == CUDA_SUCCESS)
        gb_graph_note_kernel(drv, (CUfunction)(uintptr_t)kernel);
    return code;
}

CUresult gb_enter_cuGraphAddKernelNode(struct gb_driver *drv, CUgraphNode *phGraphNode,
                                       CUgraph hGraph, const CUgraphNode *dependencies,
                                       size_t numDependencies,
                                       const CUDA_KERNEL_NODE_PARAMS_v1 *nodeParams)
{
    const void *kernel = nodeParams ? nodeParams->func : NULL;
    CUresult code = gb_library_bring_kernel(drv, kernel, "cuGraphAddKernelNode");

    if (code != CUDA_SUCCESS)
        return code;
    return after(drv, kernel,
                 GB_REAL(drv, cuGraphAddKernelNode)(phGraphNode, hGraph, dependencies,
                                                    numDependencies, nodeParams));
}

CUresult gb_enter_cuGraphAddKernelNode_v2(struct gb_driver *drv, CUgraphNode *phGraphNode,
                                          CUgraph hGraph, const CUgraphNode *dependencies,
                                          size_t numDependencies,
                                          const CUDA_KERNEL_NODE_PARAMS_v2 *nodeParams)
{
    const void *kernel =
        nodeParams ? gb_graph_kernel(nodeParams->func, nodeParams->kern) : NULL;
    CUresult code = gb_library_bring_kernel(drv, kernel, "cuGraphAddKernelNode");

    if (code != CUDA_SUCCESS)
        return code;
    return after(drv, kernel,
                 GB_REAL(drv, cuGraphAddKernelNode_v2)(phGraphNode, hGraph, dependencies,
                                                       numDependencies, nodeParams));
}

CUresult gb_enter_cuGraphKernelNodeSetParams(struct gb_driver *drv, CUgraphNode hNode,
                                             const CUDA_KERNEL_NODE_PARAMS_v1 *nodeParams)
{
    const void *kernel = nodeParams ? nodeParams->func : NULL;
    CUresult code = gb_library_bring_kernel(drv, kernel, "cuGraphKernelNodeSetParams");

    if (code != CUDA_SUCCESS)
        return code;
    return after(drv, kernel, GB_REAL(drv, cuGraphKernelNodeSetParams)(hNode, nodeParams));
}

CUresult gb_enter_cuGraphKernelNodeSetParams_v2(struct gb_driver *drv, CUgraphNode hNode,
                                                const CUDA_KERNEL_NODE_PARAMS_v2 *nodeParams)
{
    const void *kernel =
        nodeParams ? gb_graph_kernel(nodeParams->func, nodeParams->kern) : NULL;
    CUresult code = gb_library_bring_kernel(drv, kernel, "cuGraphKernelNodeSetParams");

    if (code != CUDA_SUCCESS)
        return code;
    return after(drv, kernel, GB_REAL(drv, cuGraphKernelNodeSetParams_v2)(hNode, nodeParams));
}

/* NULL: the node is no kernel. */
static const void *kernel_in(const CUgraphNodeParams *params)
{
    return params && params->type == CU_GRAPH_NODE_TYPE_KERNEL
               ? gb_graph_kernel(params->kernel.func, params->kernel.kern)
               : NULL;
}

CUresult gb_enter_cuGraphNodeSetParams(struct gb_driver *drv, CUgraphNode hNode,
                                       CUgraphNodeParams *nodeParams)
{
    const void *kernel = kernel_in(nodeParams);
    CUresult code = gb_library_bring_kernel(drv, kernel, "cuGraphNodeSetParams");

    if (code != CUDA_SUCCESS)
        return code;
    return after(drv, kernel, GB_REAL(drv, cuGraphNodeSetParams)(hNode, nodeParams));
}

CUresult gb_enter_cuGraphAddNode(struct gb_driver *drv, CUgraphNode *phGraphNode,
                                 CUgraph hGraph, const CUgraphNode *dependencies,
                                 size_t numDependencies, CUgraphNodeParams *nodeParams)
{
    const void *kernel = kernel_in(nodeParams);
    CUresult code = gb_library_bring_kernel(drv, kernel, "cuGraphAddNode");

    if (code != CUDA_SUCCESS)
        return code;
    return after(drv, kernel,
                 GB_REAL(drv, cuGraphAddNode)(phGraphNode, hGraph, dependencies,
                                              numDependencies, nodeParams));
}

CUresult gb_enter_cuGraphAddNode_v2(struct gb_driver *drv, CUgraphNode *phGraphNode,
                                    CUgraph hGraph, const CUgraphNode *dependencies,
                                    const CUgraphEdgeData *dependencyData,
                                    size_t numDependencies, CUgraphNodeParams *nodeParams)
{
    const void *kernel = kernel_in(nodeParams);
    CUresult code = gb_library_bring_kernel(drv, kernel, "cuGraphAddNode");

    if (code != CUDA_SUCCESS)
        return code;
    return after(drv, kernel,
                 GB_REAL(drv, cuGraphAddNode_v2)(phGraphNode, hGraph, dependencies,
                                                 dependencyData, numDependencies, nodeParams));
}
