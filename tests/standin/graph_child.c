/* Graphs inside of graphs: children, clones, the bodies of conditional nodes. */
#include "sim.h"

static uint64_t conditional_handles;

void sim_node_own(struct sim_node *node, unsigned children)
{
    node->children = sim_new(children * sizeof(*node->children));
    node->child_count = children;
    for (unsigned i = 0; i < children; i++) {
        struct sim_graph *graph = sim_graph_new();
        graph->owner = node;
        node->children[i] = (CUgraph)(void *)graph;
    }
}

static struct sim_node *copy_of(const struct sim_graph *graph, const struct sim_node *original)
{
    struct sim_node *node = graph->nodes;
    while (node && node->origin != original->id)
        node = node->next;
    return node;
}

/* Of graphs without memory or conditional nodes. */
void sim_graph_copy(struct sim_graph *to, const struct sim_graph *from)
{
    for (const struct sim_node *node = from->nodes; node; node = node->next) {
        struct sim_node *copy = sim_node_add(to, node->type);
        copy->origin = node->id;
        copy->function = node->function;
        copy->launch = node->launch;
        copy->work = node->work;
        if (!node->child_count)
            continue;
        sim_node_own(copy, node->child_count);
        for (unsigned i = 0; i < node->child_count; i++)
            sim_graph_copy((struct sim_graph *)(void *)copy->children[i],
                           (const struct sim_graph *)(void *)node->children[i]);
    }
    for (size_t i = 0; i < from->edge_count; i++) {
        CUgraphNode before = (CUgraphNode)(void *)copy_of(to, from->edges[i].from);
        sim_node_depend(copy_of(to, from->edges[i].to), &before, 1);
    }
}

CUresult cuGraphChildGraphNodeGetGraph(CUgraphNode hNode, CUgraph *phGraph)
{
    SIM_ENTER(cuGraphChildGraphNodeGetGraph, W(hNode), W(phGraph));
    const struct sim_node *node = sim_object_find(hNode, SIM_NODE);
    if (!node || !phGraph || node->type != CU_GRAPH_NODE_TYPE_GRAPH)
        return CUDA_ERROR_INVALID_VALUE;
    *phGraph = node->children[0];
    return CUDA_SUCCESS;
}

/* The manual: not of graphs with memory or conditional nodes (the code was measured of memory).
 */
CUresult cuGraphClone(CUgraph *phGraphClone, CUgraph originalGraph)
{
    SIM_ENTER(cuGraphClone, W(phGraphClone), W(originalGraph));
    const struct sim_graph *original = sim_object_find(originalGraph, SIM_GRAPH);
    struct sim_graph *clone;
    if (!phGraphClone || !original)
        return CUDA_ERROR_INVALID_VALUE;
    if (sim_graph_has(original, true, true))
        return CUDA_ERROR_NOT_SUPPORTED;
    clone = sim_graph_new();
    sim_graph_copy(clone, original);
    *phGraphClone = (CUgraph)(void *)clone;
    return CUDA_SUCCESS;
}

CUresult cuGraphNodeFindInClone(CUgraphNode *phNode, CUgraphNode hOriginalNode,
                                CUgraph hClonedGraph)
{
    SIM_ENTER(cuGraphNodeFindInClone, W(phNode), W(hOriginalNode), W(hClonedGraph));
    const struct sim_node *original = sim_object_find(hOriginalNode, SIM_NODE);
    const struct sim_graph *clone = sim_object_find(hClonedGraph, SIM_GRAPH);
    struct sim_node *node = original && clone ? copy_of(clone, original) : NULL;
    if (!node || !phNode)
        return CUDA_ERROR_INVALID_VALUE;
    *phNode = (CUgraphNode)(void *)node;
    return CUDA_SUCCESS;
}

/* The bodies' work counts at every launch, whatever the condition is: the driver cannot know it
 * when it makes room for local memory. */
CUresult cuGraphConditionalHandleCreate(CUgraphConditionalHandle *pHandle_out, CUgraph hGraph,
                                        CUcontext ctx, unsigned int defaultLaunchValue,
                                        unsigned int flags)
{
    SIM_ENTER(cuGraphConditionalHandleCreate, W(pHandle_out), W(hGraph), W(ctx),
              W(defaultLaunchValue), W(flags));
    CUresult code = CUDA_SUCCESS;
    if (!pHandle_out || !sim_object_find(hGraph, SIM_GRAPH) || flags > 1)
        return CUDA_ERROR_INVALID_VALUE;
    if (!ctx)
        return CUDA_ERROR_INVALID_CONTEXT; /* also where one is current (measured) */
    sim_context_find(ctx, &code);
    if (code)
        return code;
    *pHandle_out = ++conditional_handles;
    return CUDA_SUCCESS;
}
