/* Nodes of other work than kernels: copies, fills, host functions, events. Of these only host
 * functions do anything when a graph is launched. */
#include "sim.h"

CUresult sim_node_begin(CUgraphNode *phGraphNode, CUgraph hGraph,
                        const CUgraphNode *dependencies, size_t count, const void *params,
                        CUgraphNodeType type, struct sim_node **node)
{
    struct sim_graph *graph = sim_graph_for(hGraph, dependencies, count);
    if (!phGraphNode || !graph || !params)
        return CUDA_ERROR_INVALID_VALUE;
    *node = sim_node_add(graph, type);
    sim_node_depend(*node, dependencies, count);
    *phGraphNode = (CUgraphNode)(void *)*node;
    return CUDA_SUCCESS;
}

struct sim_node *sim_node_of(CUgraphNode handle, CUgraphNodeType type)
{
    struct sim_node *node = sim_object_find(handle, SIM_NODE);
    return node && node->type == type ? node : NULL;
}

CUresult cuGraphAddMemcpyNode(CUgraphNode *phGraphNode, CUgraph hGraph,
                              const CUgraphNode *dependencies, size_t numDependencies,
                              const CUDA_MEMCPY3D *copyParams, CUcontext ctx)
{
    SIM_ENTER(cuGraphAddMemcpyNode, W(phGraphNode), W(hGraph), W(dependencies),
              W(numDependencies), W(copyParams), W(ctx));
    struct sim_node *node;
    CUresult code = sim_node_begin(phGraphNode, hGraph, dependencies, numDependencies,
                                   copyParams, CU_GRAPH_NODE_TYPE_MEMCPY, &node);
    if (!code)
        node->work.copy = *copyParams;
    return code;
}

CUresult cuGraphMemcpyNodeGetParams(CUgraphNode hNode, CUDA_MEMCPY3D *nodeParams)
{
    SIM_ENTER(cuGraphMemcpyNodeGetParams, W(hNode), W(nodeParams));
    const struct sim_node *node = sim_node_of(hNode, CU_GRAPH_NODE_TYPE_MEMCPY);
    if (!node || !nodeParams)
        return CUDA_ERROR_INVALID_VALUE;
    *nodeParams = node->work.copy;
    return CUDA_SUCCESS;
}

CUresult cuGraphAddMemsetNode(CUgraphNode *phGraphNode, CUgraph hGraph,
                              const CUgraphNode *dependencies, size_t numDependencies,
                              const CUDA_MEMSET_NODE_PARAMS *memsetParams, CUcontext ctx)
{
    SIM_ENTER(cuGraphAddMemsetNode, W(phGraphNode), W(hGraph), W(dependencies),
              W(numDependencies), W(memsetParams), W(ctx));
    struct sim_node *node;
    CUresult code = sim_node_begin(phGraphNode, hGraph, dependencies, numDependencies,
                                   memsetParams, CU_GRAPH_NODE_TYPE_MEMSET, &node);
    if (!code)
        node->work.fill = *memsetParams;
    return code;
}

CUresult cuGraphMemsetNodeGetParams(CUgraphNode hNode, CUDA_MEMSET_NODE_PARAMS *nodeParams)
{
    SIM_ENTER(cuGraphMemsetNodeGetParams, W(hNode), W(nodeParams));
    const struct sim_node *node = sim_node_of(hNode, CU_GRAPH_NODE_TYPE_MEMSET);
    if (!node || !nodeParams)
        return CUDA_ERROR_INVALID_VALUE;
    *nodeParams = node->work.fill;
    return CUDA_SUCCESS;
}

CUresult cuGraphAddHostNode(CUgraphNode *phGraphNode, CUgraph hGraph,
                            const CUgraphNode *dependencies, size_t numDependencies,
                            const CUDA_HOST_NODE_PARAMS *nodeParams)
{
    SIM_ENTER(cuGraphAddHostNode, W(phGraphNode), W(hGraph), W(dependencies),
              W(numDependencies), W(nodeParams));
    struct sim_node *node;
    CUresult code;
    if (nodeParams && !nodeParams->fn)
        return CUDA_ERROR_INVALID_VALUE;
    code = sim_node_begin(phGraphNode, hGraph, dependencies, numDependencies, nodeParams,
                          CU_GRAPH_NODE_TYPE_HOST, &node);
    if (!code)
        node->work.host = *nodeParams;
    return code;
}

CUresult cuGraphHostNodeGetParams(CUgraphNode hNode, CUDA_HOST_NODE_PARAMS *nodeParams)
{
    SIM_ENTER(cuGraphHostNodeGetParams, W(hNode), W(nodeParams));
    const struct sim_node *node = sim_node_of(hNode, CU_GRAPH_NODE_TYPE_HOST);
    if (!node || !nodeParams)
        return CUDA_ERROR_INVALID_VALUE;
    *nodeParams = node->work.host;
    return CUDA_SUCCESS;
}

CUresult cuGraphMemcpyNodeSetParams(CUgraphNode hNode, const CUDA_MEMCPY3D *nodeParams)
{
    SIM_ENTER(cuGraphMemcpyNodeSetParams, W(hNode), W(nodeParams));
    struct sim_node *node = sim_node_of(hNode, CU_GRAPH_NODE_TYPE_MEMCPY);
    if (!node || !nodeParams)
        return CUDA_ERROR_INVALID_VALUE;
    node->work.copy = *nodeParams;
    return CUDA_SUCCESS;
}

CUresult cuGraphMemsetNodeSetParams(CUgraphNode hNode,
                                    const CUDA_MEMSET_NODE_PARAMS *nodeParams)
{
    SIM_ENTER(cuGraphMemsetNodeSetParams, W(hNode), W(nodeParams));
    struct sim_node *node = sim_node_of(hNode, CU_GRAPH_NODE_TYPE_MEMSET);
    if (!node || !nodeParams)
        return CUDA_ERROR_INVALID_VALUE;
    node->work.fill = *nodeParams;
    return CUDA_SUCCESS;
}

CUresult cuGraphHostNodeSetParams(CUgraphNode hNode, const CUDA_HOST_NODE_PARAMS *nodeParams)
{
    SIM_ENTER(cuGraphHostNodeSetParams, W(hNode), W(nodeParams));
    struct sim_node *node = sim_node_of(hNode, CU_GRAPH_NODE_TYPE_HOST);
    if (!node || !nodeParams || !nodeParams->fn)
        return CUDA_ERROR_INVALID_VALUE;
    node->work.host = *nodeParams;
    return CUDA_SUCCESS;
}

static CUresult add_event(CUgraphNode *phGraphNode, CUgraph hGraph,
                          const CUgraphNode *dependencies, size_t count, CUevent event,
                          CUgraphNodeType type)
{
    struct sim_node *node;
    return sim_node_begin(phGraphNode, hGraph, dependencies, count,
                          sim_object_find(event, SIM_EVENT), type, &node);
}

CUresult cuGraphAddEventRecordNode(CUgraphNode *phGraphNode, CUgraph hGraph,
                                   const CUgraphNode *dependencies, size_t numDependencies,
                                   CUevent event)
{
    SIM_ENTER(cuGraphAddEventRecordNode, W(phGraphNode), W(hGraph), W(dependencies),
              W(numDependencies), W(event));
    return add_event(phGraphNode, hGraph, dependencies, numDependencies, event,
                     CU_GRAPH_NODE_TYPE_EVENT_RECORD);
}

CUresult cuGraphAddEventWaitNode(CUgraphNode *phGraphNode, CUgraph hGraph,
                                 const CUgraphNode *dependencies, size_t numDependencies,
                                 CUevent event)
{
    SIM_ENTER(cuGraphAddEventWaitNode, W(phGraphNode), W(hGraph), W(dependencies),
              W(numDependencies), W(event));
    return add_event(phGraphNode, hGraph, dependencies, numDependencies, event,
                     CU_GRAPH_NODE_TYPE_WAIT_EVENT);
}

/* Attributes change nothing here; all of them read as zero. */
CUresult cuGraphKernelNodeSetAttribute(CUgraphNode hNode, CUkernelNodeAttrID attr,
                                       const CUkernelNodeAttrValue *value)
{
    SIM_ENTER(cuGraphKernelNodeSetAttribute, W(hNode), W(attr), W(value));
    return sim_node_of(hNode, CU_GRAPH_NODE_TYPE_KERNEL) && value ? CUDA_SUCCESS
                                                                  : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuGraphKernelNodeGetAttribute(CUgraphNode hNode, CUkernelNodeAttrID attr,
                                       CUkernelNodeAttrValue *value_out)
{
    SIM_ENTER(cuGraphKernelNodeGetAttribute, W(hNode), W(attr), W(value_out));
    if (!sim_node_of(hNode, CU_GRAPH_NODE_TYPE_KERNEL) || !value_out)
        return CUDA_ERROR_INVALID_VALUE;
    memset(value_out, 0, sizeof(*value_out));
    return CUDA_SUCCESS;
}

CUresult cuGraphKernelNodeCopyAttributes(CUgraphNode dst, CUgraphNode src)
{
    SIM_ENTER(cuGraphKernelNodeCopyAttributes, W(dst), W(src));
    return sim_node_of(dst, CU_GRAPH_NODE_TYPE_KERNEL) &&
                   sim_node_of(src, CU_GRAPH_NODE_TYPE_KERNEL)
               ? CUDA_SUCCESS
               : CUDA_ERROR_INVALID_VALUE;
}
