/* Kernel nodes, and the calls that add a node of any kind. */
#include "sim.h"
#include "launch.h"

/* `kern` is looked at where there is no `func`; a kernel becomes the function of the context
 * that the parameters name, or of the current one. */
CUresult sim_kernel_of(const CUDA_KERNEL_NODE_PARAMS_v3 *what, struct sim_function **function)
{
    struct sim_context *context;
    CUresult code;
    *function = what->func ? sim_object_find(what->func, SIM_FUNCTION) : NULL;
    if (*function)
        return sim_function_load(*function);
    if (what->ctx && !what->func)
        context = sim_context_find(what->ctx, &code);
    else
        code = sim_current(&context);
    if (code)
        return code;
    return sim_function_find(what->func ? (const void *)what->func : (const void *)what->kern,
                             context, function);
}

/* Of a kernel of a library a node tells the context and the kernel, too, however it came. */
void sim_node_keep_kernel(struct sim_node *node, const CUDA_KERNEL_NODE_PARAMS_v3 *what,
                          struct sim_function *function)
{
    const struct sim_library *library = function->module->library;
    node->function = function;
    node->launch = *what;
    node->launch.func = (CUfunction)(void *)function;
    if (!library)
        return;
    node->launch.ctx = (CUcontext)(void *)function->module->context;
    for (struct sim_kernel *kernel = library->kernels; kernel; kernel = kernel->next)
        if (kernel->code == function->code)
            node->launch.kern = (CUkernel)(void *)kernel;
}

CUresult sim_node_set_kernel(struct sim_node *node, const CUDA_KERNEL_NODE_PARAMS_v3 *what)
{
    struct sim_function *function;
    CUresult code = sim_launch_check(what);
    if (!code)
        code = sim_kernel_of(what, &function);
    if (code)
        return code;
    sim_node_keep_kernel(node, what, function);
    return CUDA_SUCCESS;
}

static CUDA_KERNEL_NODE_PARAMS_v3 from_first(const CUDA_KERNEL_NODE_PARAMS_v1 *what)
{
    return (CUDA_KERNEL_NODE_PARAMS_v3){.func = what->func,
                                        .gridDimX = what->gridDimX,
                                        .gridDimY = what->gridDimY,
                                        .gridDimZ = what->gridDimZ,
                                        .blockDimX = what->blockDimX,
                                        .blockDimY = what->blockDimY,
                                        .blockDimZ = what->blockDimZ,
                                        .sharedMemBytes = what->sharedMemBytes,
                                        .kernelParams = what->kernelParams,
                                        .extra = what->extra};
}

static CUDA_KERNEL_NODE_PARAMS_v3 from_second(const CUDA_KERNEL_NODE_PARAMS_v2 *what)
{
    CUDA_KERNEL_NODE_PARAMS_v3 result;
    /* The same members in the same places. */
    _Static_assert(sizeof(result) == sizeof(*what), "kernel node parameters");
    memcpy(&result, what, sizeof(result));
    return result;
}

static CUresult add_kernel(CUgraphNode *phGraphNode, CUgraph hGraph,
                           const CUgraphNode *dependencies, size_t count,
                           const CUDA_KERNEL_NODE_PARAMS_v3 *what)
{
    struct sim_node *node, wanted;
    CUresult code;
    if (!phGraphNode || !sim_graph_for(hGraph, dependencies, count))
        return CUDA_ERROR_INVALID_VALUE;
    code = sim_node_set_kernel(&wanted, what);
    if (!code)
        code = sim_node_begin(phGraphNode, hGraph, dependencies, count, what,
                              CU_GRAPH_NODE_TYPE_KERNEL, &node);
    if (code)
        return code;
    node->function = wanted.function;
    node->launch = wanted.launch;
    return CUDA_SUCCESS;
}

CUresult cuGraphAddKernelNode(CUgraphNode *phGraphNode, CUgraph hGraph,
                              const CUgraphNode *dependencies, size_t numDependencies,
                              const CUDA_KERNEL_NODE_PARAMS_v1 *nodeParams)
{
    SIM_ENTER(cuGraphAddKernelNode, W(phGraphNode), W(hGraph), W(dependencies),
              W(numDependencies), W(nodeParams));
    SIM_NOTE(nodeParams, sizeof(*nodeParams));
    CUDA_KERNEL_NODE_PARAMS_v3 what;
    if (!nodeParams)
        return CUDA_ERROR_INVALID_VALUE;
    what = from_first(nodeParams);
    return add_kernel(phGraphNode, hGraph, dependencies, numDependencies, &what);
}

CUresult cuGraphAddKernelNode_v2(CUgraphNode *phGraphNode, CUgraph hGraph,
                                 const CUgraphNode *dependencies, size_t numDependencies,
                                 const CUDA_KERNEL_NODE_PARAMS_v2 *nodeParams)
{
    SIM_ENTER(cuGraphAddKernelNode_v2, W(phGraphNode), W(hGraph), W(dependencies),
              W(numDependencies), W(nodeParams));
    SIM_NOTE(nodeParams, sizeof(*nodeParams));
    CUDA_KERNEL_NODE_PARAMS_v3 what;
    if (!nodeParams)
        return CUDA_ERROR_INVALID_VALUE;
    /* A launch takes a kernel of a library for a function, this call does not (measured). */
    if (sim_object_find(nodeParams->func, SIM_KERNEL))
        return CUDA_ERROR_INVALID_HANDLE;
    what = from_second(nodeParams);
    return add_kernel(phGraphNode, hGraph, dependencies, numDependencies, &what);
}

CUresult cuGraphKernelNodeGetParams(CUgraphNode hNode, CUDA_KERNEL_NODE_PARAMS_v1 *nodeParams)
{
    SIM_ENTER(cuGraphKernelNodeGetParams, W(hNode), W(nodeParams));
    const struct sim_node *node = sim_node_of(hNode, CU_GRAPH_NODE_TYPE_KERNEL);
    if (!node || !nodeParams)
        return CUDA_ERROR_INVALID_VALUE;
    /* The first form is the beginning of the later ones. */
    memcpy(nodeParams, &node->launch, sizeof(*nodeParams));
    return CUDA_SUCCESS;
}

CUresult cuGraphKernelNodeGetParams_v2(CUgraphNode hNode,
                                       CUDA_KERNEL_NODE_PARAMS_v2 *nodeParams)
{
    SIM_ENTER(cuGraphKernelNodeGetParams_v2, W(hNode), W(nodeParams));
    const struct sim_node *node = sim_node_of(hNode, CU_GRAPH_NODE_TYPE_KERNEL);
    if (!node || !nodeParams)
        return CUDA_ERROR_INVALID_VALUE;
    memcpy(nodeParams, &node->launch, sizeof(*nodeParams));
    return CUDA_SUCCESS;
}

CUresult cuGraphKernelNodeSetParams(CUgraphNode hNode,
                                    const CUDA_KERNEL_NODE_PARAMS_v1 *nodeParams)
{
    SIM_ENTER(cuGraphKernelNodeSetParams, W(hNode), W(nodeParams));
    struct sim_node *node = sim_node_of(hNode, CU_GRAPH_NODE_TYPE_KERNEL);
    CUDA_KERNEL_NODE_PARAMS_v3 what;
    if (!node || !nodeParams)
        return CUDA_ERROR_INVALID_VALUE;
    what = from_first(nodeParams);
    return sim_node_set_kernel(node, &what);
}

CUresult cuGraphKernelNodeSetParams_v2(CUgraphNode hNode,
                                       const CUDA_KERNEL_NODE_PARAMS_v2 *nodeParams)
{
    SIM_ENTER(cuGraphKernelNodeSetParams_v2, W(hNode), W(nodeParams));
    struct sim_node *node = sim_node_of(hNode, CU_GRAPH_NODE_TYPE_KERNEL);
    CUDA_KERNEL_NODE_PARAMS_v3 what;
    if (!node || !nodeParams)
        return CUDA_ERROR_INVALID_VALUE;
    what = from_second(nodeParams);
    return sim_node_set_kernel(node, &what);
}

static CUresult add_alloc(CUgraphNode *phGraphNode, struct sim_graph *graph,
                          const CUgraphNode *dependencies, size_t count,
                          CUDA_MEM_ALLOC_NODE_PARAMS_v2 *params)
{
    struct sim_card *card = sim_card_of(params->poolProps.location.id);
    struct sim_node *node;
    CUresult code;
    if (params->poolProps.location.type != CU_MEM_LOCATION_TYPE_DEVICE)
        return CUDA_ERROR_INVALID_VALUE;
    if (!card)
        return CUDA_ERROR_INVALID_DEVICE;
    code = sim_node_add_alloc(graph, card, params->bytesize, &node);
    if (code)
        return code;
    params->dptr = node->address;
    _Static_assert(sizeof(node->params) == sizeof(*params), "allocation node parameters");
    memcpy(&node->params, params, sizeof(node->params));
    sim_node_depend(node, dependencies, count);
    *phGraphNode = (CUgraphNode)(void *)node;
    return CUDA_SUCCESS;
}

static CUresult add_child(CUgraphNode *phGraphNode, CUgraph hGraph,
                          const CUgraphNode *dependencies, size_t count,
                          const CUDA_CHILD_GRAPH_NODE_PARAMS *params)
{
    struct sim_graph *child = sim_object_find(params->graph, SIM_GRAPH);
    struct sim_graph *graph = sim_graph_for(hGraph, dependencies, count);
    const bool move = params->ownership == CU_GRAPH_CHILD_GRAPH_OWNERSHIP_MOVE;
    struct sim_node *node;
    CUresult code;
    if (!child || !graph || child == graph || (move && child->owner))
        return CUDA_ERROR_INVALID_VALUE;
    /* The code was measured of memory. */
    if (sim_graph_has(child, false, true) ||
        (sim_graph_has(child, true, false) && (!move || (graph->owner && !graph->moved))))
        return CUDA_ERROR_NOT_SUPPORTED;
    code = sim_node_begin(phGraphNode, hGraph, dependencies, count, params,
                          CU_GRAPH_NODE_TYPE_GRAPH, &node);
    if (code)
        return code;
    if (move) {
        node->children = sim_new(sizeof(*node->children));
        node->child_count = 1;
        node->children[0] = params->graph;
        child->owner = node;
        child->moved = true;
    } else {
        sim_node_own(node, 1);
        sim_graph_copy((struct sim_graph *)(void *)node->children[0], child);
    }
    return CUDA_SUCCESS;
}

CUresult cuGraphAddChildGraphNode(CUgraphNode *phGraphNode, CUgraph hGraph,
                                  const CUgraphNode *dependencies, size_t numDependencies,
                                  CUgraph childGraph)
{
    SIM_ENTER(cuGraphAddChildGraphNode, W(phGraphNode), W(hGraph), W(dependencies),
              W(numDependencies), W(childGraph));
    return add_child(phGraphNode, hGraph, dependencies, numDependencies,
                     &(CUDA_CHILD_GRAPH_NODE_PARAMS){.graph = childGraph});
}

static CUresult add_conditional(CUgraphNode *phGraphNode, CUgraph hGraph,
                                const CUgraphNode *dependencies, size_t count,
                                CUDA_CONDITIONAL_NODE_PARAMS *params)
{
    struct sim_node *node;
    CUresult code;
    if (!params->handle || !params->size ||
        (params->type == CU_GRAPH_COND_TYPE_WHILE && params->size != 1) ||
        (params->type == CU_GRAPH_COND_TYPE_IF && params->size > 2) ||
        params->type > CU_GRAPH_COND_TYPE_SWITCH)
        return CUDA_ERROR_INVALID_VALUE;
    code = sim_node_begin(phGraphNode, hGraph, dependencies, count, params,
                          CU_GRAPH_NODE_TYPE_CONDITIONAL, &node);
    if (code)
        return code;
    sim_node_own(node, params->size);
    params->phGraph_out = node->children;
    return CUDA_SUCCESS;
}

static CUresult add_any(CUgraphNode *phGraphNode, CUgraph hGraph,
                        const CUgraphNode *dependencies, size_t count,
                        CUgraphNodeParams *params)
{
    struct sim_graph *graph = sim_graph_for(hGraph, dependencies, count);
    struct sim_node *node;
    CUresult code;
    if (!phGraphNode || !graph || !params)
        return CUDA_ERROR_INVALID_VALUE;
    switch (params->type) {
    case CU_GRAPH_NODE_TYPE_KERNEL:
        return add_kernel(phGraphNode, hGraph, dependencies, count, &params->kernel);
    case CU_GRAPH_NODE_TYPE_MEM_ALLOC:
        return add_alloc(phGraphNode, graph, dependencies, count, &params->alloc);
    case CU_GRAPH_NODE_TYPE_MEM_FREE:
        code = sim_node_add_free(graph, params->free.dptr, &node);
        if (code)
            return code;
        sim_node_depend(node, dependencies, count);
        *phGraphNode = (CUgraphNode)(void *)node;
        return CUDA_SUCCESS;
    case CU_GRAPH_NODE_TYPE_GRAPH:
        return add_child(phGraphNode, hGraph, dependencies, count, &params->graph);
    case CU_GRAPH_NODE_TYPE_CONDITIONAL:
        return add_conditional(phGraphNode, hGraph, dependencies, count, &params->conditional);
    case CU_GRAPH_NODE_TYPE_HOST:
        if (!params->host.fn)
            return CUDA_ERROR_INVALID_VALUE;
        break;
    default:
        if (params->type > CU_GRAPH_NODE_TYPE_CONDITIONAL)
            return CUDA_ERROR_INVALID_VALUE;
        break;
    }
    code =
        sim_node_begin(phGraphNode, hGraph, dependencies, count, params, params->type, &node);
    if (code)
        return code;
    if (params->type == CU_GRAPH_NODE_TYPE_HOST)
        node->work.host = (CUDA_HOST_NODE_PARAMS_v1){params->host.fn, params->host.userData};
    else if (params->type == CU_GRAPH_NODE_TYPE_MEMCPY)
        node->work.copy = params->memcpy.copyParams;
    return CUDA_SUCCESS;
}

CUresult cuGraphAddNode(CUgraphNode *phGraphNode, CUgraph hGraph,
                        const CUgraphNode *dependencies, size_t numDependencies,
                        CUgraphNodeParams *nodeParams)
{
    SIM_ENTER(cuGraphAddNode, W(phGraphNode), W(hGraph), W(dependencies), W(numDependencies),
              W(nodeParams));
    SIM_NOTE(nodeParams, sizeof(*nodeParams));
    return add_any(phGraphNode, hGraph, dependencies, numDependencies, nodeParams);
}

CUresult cuGraphAddNode_v2(CUgraphNode *phGraphNode, CUgraph hGraph,
                           const CUgraphNode *dependencies,
                           const CUgraphEdgeData *dependencyData, size_t numDependencies,
                           CUgraphNodeParams *nodeParams)
{
    SIM_ENTER(cuGraphAddNode_v2, W(phGraphNode), W(hGraph), W(dependencies), W(dependencyData),
              W(numDependencies), W(nodeParams));
    SIM_NOTE(nodeParams, sizeof(*nodeParams));
    return add_any(phGraphNode, hGraph, dependencies, numDependencies, nodeParams);
}

/* Memory nodes: not supported, the manual says. */
CUresult cuGraphNodeSetParams(CUgraphNode hNode, CUgraphNodeParams *nodeParams)
{
    SIM_ENTER(cuGraphNodeSetParams, W(hNode), W(nodeParams));
    SIM_NOTE(nodeParams, sizeof(*nodeParams));
    struct sim_node *node = sim_object_find(hNode, SIM_NODE);
    if (!node || !nodeParams || node->type != nodeParams->type)
        return CUDA_ERROR_INVALID_VALUE;
    switch (node->type) {
    case CU_GRAPH_NODE_TYPE_KERNEL:
        return sim_node_set_kernel(node, &nodeParams->kernel);
    case CU_GRAPH_NODE_TYPE_HOST:
        node->work.host =
            (CUDA_HOST_NODE_PARAMS_v1){nodeParams->host.fn, nodeParams->host.userData};
        return CUDA_SUCCESS;
    case CU_GRAPH_NODE_TYPE_MEMCPY:
        node->work.copy = nodeParams->memcpy.copyParams;
        return CUDA_SUCCESS;
    case CU_GRAPH_NODE_TYPE_MEMSET:
        return CUDA_SUCCESS;
    default:
        return CUDA_ERROR_NOT_SUPPORTED;
    }
}
