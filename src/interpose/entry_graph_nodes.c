/*
 * entry_graph_nodes.c: kernels become nodes of graphs. With that the driver uses the library of
 * a kernel (entry_library.c). What such a kernel needs at its launch is read from the graph
 * when it becomes an executable, but for the bodies of conditional nodes, which cannot be read.
 */
#include "interpose/executables.h"
#include "interpose/handlers.h"
#include "interpose/library_use.h"

/* What a node is to launch, and in which context: NULL: the current one, or the function's. */
struct launched {
    const void *kernel;
    CUcontext context;
};

/* What a node has beside a function is not its context (manual). */
static struct launched launched(CUfunction function, CUkernel kernel, CUcontext context)
{
    return (struct launched){gb_graph_kernel(function, kernel), function ? NULL : context};
}

static CUresult before(struct gb_driver *drv, const struct launched *what, const char *call)
{
    return gb_library_bring_kernel_in(drv, what->kernel, what->context, call);
}

/* It may be in a body. */
static CUresult after(struct gb_driver *drv, const struct launched *what, CUresult code)
{
    if (code == CUDA_SUCCESS)
        gb_graph_note_kernel(drv, (CUfunction)(uintptr_t)what->kernel, what->context);
    return code;
}

CUresult gb_enter_cuGraphAddKernelNode(struct gb_driver *drv, CUgraphNode *phGraphNode,
                                       CUgraph hGraph, const CUgraphNode *dependencies,
                                       size_t numDependencies,
                                       const CUDA_KERNEL_NODE_PARAMS_v1 *nodeParams)
{
    const struct launched what = launched(nodeParams ? nodeParams->func : NULL, NULL, NULL);
    CUresult code = before(drv, &what, "cuGraphAddKernelNode");

    if (code != CUDA_SUCCESS)
        return code;
    return after(drv, &what,
                 GB_REAL(drv, cuGraphAddKernelNode)(phGraphNode, hGraph, dependencies,
                                                    numDependencies, nodeParams));
}

CUresult gb_enter_cuGraphAddKernelNode_v2(struct gb_driver *drv, CUgraphNode *phGraphNode,
                                          CUgraph hGraph, const CUgraphNode *dependencies,
                                          size_t numDependencies,
                                          const CUDA_KERNEL_NODE_PARAMS_v2 *nodeParams)
{
    const struct launched what =
        nodeParams ? launched(nodeParams->func, nodeParams->kern, nodeParams->ctx)
                   : (struct launched){NULL, NULL};
    CUresult code = before(drv, &what, "cuGraphAddKernelNode");

    if (code != CUDA_SUCCESS)
        return code;
    return after(drv, &what,
                 GB_REAL(drv, cuGraphAddKernelNode_v2)(phGraphNode, hGraph, dependencies,
                                                       numDependencies, nodeParams));
}

CUresult gb_enter_cuGraphKernelNodeSetParams(struct gb_driver *drv, CUgraphNode hNode,
                                             const CUDA_KERNEL_NODE_PARAMS_v1 *nodeParams)
{
    const struct launched what = launched(nodeParams ? nodeParams->func : NULL, NULL, NULL);
    CUresult code = before(drv, &what, "cuGraphKernelNodeSetParams");

    if (code != CUDA_SUCCESS)
        return code;
    return after(drv, &what, GB_REAL(drv, cuGraphKernelNodeSetParams)(hNode, nodeParams));
}

CUresult gb_enter_cuGraphKernelNodeSetParams_v2(struct gb_driver *drv, CUgraphNode hNode,
                                                const CUDA_KERNEL_NODE_PARAMS_v2 *nodeParams)
{
    const struct launched what =
        nodeParams ? launched(nodeParams->func, nodeParams->kern, nodeParams->ctx)
                   : (struct launched){NULL, NULL};
    CUresult code = before(drv, &what, "cuGraphKernelNodeSetParams");

    if (code != CUDA_SUCCESS)
        return code;
    return after(drv, &what, GB_REAL(drv, cuGraphKernelNodeSetParams_v2)(hNode, nodeParams));
}

/* Nothing: the node is no kernel. */
static struct launched kernel_in(const CUgraphNodeParams *params)
{
    if (!params || params->type != CU_GRAPH_NODE_TYPE_KERNEL)
        return (struct launched){NULL, NULL};
    return launched(params->kernel.func, params->kernel.kern, params->kernel.ctx);
}

CUresult gb_enter_cuGraphNodeSetParams(struct gb_driver *drv, CUgraphNode hNode,
                                       CUgraphNodeParams *nodeParams)
{
    const struct launched what = kernel_in(nodeParams);
    CUresult code = before(drv, &what, "cuGraphNodeSetParams");

    if (code != CUDA_SUCCESS)
        return code;
    return after(drv, &what, GB_REAL(drv, cuGraphNodeSetParams)(hNode, nodeParams));
}

CUresult gb_enter_cuGraphAddNode(struct gb_driver *drv, CUgraphNode *phGraphNode,
                                 CUgraph hGraph, const CUgraphNode *dependencies,
                                 size_t numDependencies, CUgraphNodeParams *nodeParams)
{
    const struct launched what = kernel_in(nodeParams);
    CUresult code = before(drv, &what, "cuGraphAddNode");

    if (code != CUDA_SUCCESS)
        return code;
    return after(drv, &what,
                 GB_REAL(drv, cuGraphAddNode)(phGraphNode, hGraph, dependencies,
                                              numDependencies, nodeParams));
}

CUresult gb_enter_cuGraphAddNode_v2(struct gb_driver *drv, CUgraphNode *phGraphNode,
                                    CUgraph hGraph, const CUgraphNode *dependencies,
                                    const CUgraphEdgeData *dependencyData,
                                    size_t numDependencies, CUgraphNodeParams *nodeParams)
{
    const struct launched what = kernel_in(nodeParams);
    CUresult code = before(drv, &what, "cuGraphAddNode");

    if (code != CUDA_SUCCESS)
        return code;
    return after(drv, &what,
                 GB_REAL(drv, cuGraphAddNode_v2)(phGraphNode, hGraph, dependencies,
                                                 dependencyData, numDependencies, nodeParams));
}
