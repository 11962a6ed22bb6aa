/* What nodes depend on. The stand-in runs nodes in the order in which they were added, so this
 * is for those who ask. Each question stands in its first form, and in one with edge data. */
#include "sim.h"

struct sim_graph *sim_graph_for(CUgraph handle, const CUgraphNode *dependencies, size_t count)
{
    struct sim_graph *graph = sim_object_find(handle, SIM_GRAPH);
    if (!graph || (count && !dependencies))
        return NULL;
    for (size_t i = 0; i < count; i++) {
        const struct sim_node *node = sim_object_find(dependencies[i], SIM_NODE);
        if (!node || node->graph != graph)
            return NULL;
    }
    return graph;
}

static void edge_add(struct sim_graph *graph, struct sim_node *from, struct sim_node *to)
{
    struct sim_edge *more = sim_new((graph->edge_count + 1) * sizeof(*more));
    if (graph->edges)
        memcpy(more, graph->edges, graph->edge_count * sizeof(*more));
    free(graph->edges);
    graph->edges = more;
    graph->edges[graph->edge_count++] = (struct sim_edge){from, to};
}

static bool edge_remove(struct sim_graph *graph, const struct sim_node *from,
                        const struct sim_node *to)
{
    for (size_t i = 0; i < graph->edge_count; i++)
        if (graph->edges[i].from == from && graph->edges[i].to == to) {
            graph->edges[i] = graph->edges[--graph->edge_count];
            return true;
        }
    return false;
}

void sim_node_depend(struct sim_node *node, const CUgraphNode *dependencies, size_t count)
{
    for (size_t i = 0; i < count; i++)
        edge_add(node->graph, (struct sim_node *)(void *)dependencies[i], node);
}

void sim_edges_of_node_end(struct sim_node *node)
{
    struct sim_graph *graph = node->graph;
    for (size_t i = graph->edge_count; i-- > 0;)
        if (graph->edges[i].from == node || graph->edges[i].to == node)
            graph->edges[i] = graph->edges[--graph->edge_count];
}

static bool has_kernel(const struct sim_graph *graph)
{
    for (const struct sim_node *node = graph->nodes; node; node = node->next) {
        if (node->type == CU_GRAPH_NODE_TYPE_KERNEL)
            return true;
        for (unsigned i = 0; i < node->child_count; i++)
            if (has_kernel((const struct sim_graph *)(void *)node->children[i]))
                return true;
    }
    return false;
}

/* Each node goes behind one at most, and one at most behind it. */
void sim_graph_chains(const struct sim_graph *graph)
{
    for (struct sim_node *node = graph->nodes; node; node = node->next) {
        node->behind = false;
        node->then = NULL;
        node->works = node->type == CU_GRAPH_NODE_TYPE_KERNEL;
        for (unsigned i = 0; i < node->child_count; i++)
            node->works |= has_kernel((const struct sim_graph *)(void *)node->children[i]);
    }
    /* Kernels behind kernels first: what has none takes nobody's place. */
    for (int others = 0; others < 2; others++)
        for (size_t i = 0; i < graph->edge_count; i++) {
            struct sim_node *from = graph->edges[i].from, *to = graph->edges[i].to;
            if (from->then || to->behind || (!others && !(from->works && to->works)))
                continue;
            from->then = to;
            to->behind = true;
        }
}

static uint64_t width_of(const struct sim_node *node, const struct sim_context *context)
{
    const struct sim_function *function = NULL;
    uint64_t width = 0;
    if (node->type == CU_GRAPH_NODE_TYPE_KERNEL)
        function = sim_object_find(node->function, SIM_FUNCTION);
    if (function && function->module->context == context)
        width = 1;
    for (unsigned i = 0; i < node->child_count; i++)
        width += sim_graph_width((const struct sim_graph *)(void *)node->children[i], context);
    return width;
}

uint64_t sim_graph_width(const struct sim_graph *graph, const struct sim_context *context)
{
    uint64_t sum = 0;
    sim_graph_chains(graph);
    for (const struct sim_node *first = graph->nodes; first; first = first->next) {
        uint64_t most = 0;
        for (const struct sim_node *node = first; node && !first->behind; node = node->then) {
            const uint64_t width = width_of(node, context);
            most = width > most ? width : most;
        }
        sum += most;
    }
    return sum;
}

static CUresult change(CUgraph hGraph, const CUgraphNode *from, const CUgraphNode *to,
                       size_t count, bool add)
{
    struct sim_graph *graph = sim_graph_for(hGraph, from, count);
    if (!graph || !sim_graph_for(hGraph, to, count))
        return CUDA_ERROR_INVALID_VALUE;
    /* The manual: edges of a graph with memory nodes cannot be taken away. */
    if (!add && sim_graph_has(graph, true, false))
        return CUDA_ERROR_NOT_SUPPORTED;
    for (size_t i = 0; i < count; i++) {
        struct sim_node *one = (struct sim_node *)(void *)from[i];
        struct sim_node *two = (struct sim_node *)(void *)to[i];
        if (add)
            edge_add(graph, one, two);
        else if (!edge_remove(graph, one, two))
            return CUDA_ERROR_INVALID_VALUE;
    }
    return CUDA_SUCCESS;
}

CUresult cuGraphAddDependencies(CUgraph hGraph, const CUgraphNode *from, const CUgraphNode *to,
                                size_t numDependencies)
{
    SIM_ENTER(cuGraphAddDependencies, W(hGraph), W(from), W(to), W(numDependencies));
    return change(hGraph, from, to, numDependencies, true);
}

CUresult cuGraphAddDependencies_v2(CUgraph hGraph, const CUgraphNode *from,
                                   const CUgraphNode *to, const CUgraphEdgeData *edgeData,
                                   size_t numDependencies)
{
    SIM_ENTER(cuGraphAddDependencies_v2, W(hGraph), W(from), W(to), W(edgeData),
              W(numDependencies));
    return change(hGraph, from, to, numDependencies, true);
}

CUresult cuGraphRemoveDependencies(CUgraph hGraph, const CUgraphNode *from,
                                   const CUgraphNode *to, size_t numDependencies)
{
    SIM_ENTER(cuGraphRemoveDependencies, W(hGraph), W(from), W(to), W(numDependencies));
    return change(hGraph, from, to, numDependencies, false);
}

CUresult cuGraphRemoveDependencies_v2(CUgraph hGraph, const CUgraphNode *from,
                                      const CUgraphNode *to, const CUgraphEdgeData *edgeData,
                                      size_t numDependencies)
{
    SIM_ENTER(cuGraphRemoveDependencies_v2, W(hGraph), W(from), W(to), W(edgeData),
              W(numDependencies));
    return change(hGraph, from, to, numDependencies, false);
}

/* Edges from or to certain nodes (NULL: any); either output may be left out. */
static CUresult edges(const struct sim_graph *graph, const struct sim_node *source,
                      const struct sim_node *target, CUgraphNode *from, CUgraphNode *to,
                      CUgraphEdgeData *data, size_t *count)
{
    size_t found = 0;
    if (!graph || !count)
        return CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < graph->edge_count; i++) {
        const struct sim_edge *edge = &graph->edges[i];
        if ((source && edge->from != source) || (target && edge->to != target))
            continue;
        if (found < *count || (!from && !to)) {
            if (from)
                from[found] = (CUgraphNode)(void *)edge->from;
            if (to)
                to[found] = (CUgraphNode)(void *)edge->to;
            if (data)
                memset(&data[found], 0, sizeof(*data));
        }
        found++;
    }
    if (from || to)
        for (size_t i = found; i < *count; i++) {
            if (from)
                from[i] = NULL;
            if (to)
                to[i] = NULL;
        }
    *count = found;
    return CUDA_SUCCESS;
}

CUresult cuGraphGetEdges(CUgraph hGraph, CUgraphNode *from, CUgraphNode *to, size_t *numEdges)
{
    SIM_ENTER(cuGraphGetEdges, W(hGraph), W(from), W(to), W(numEdges));
    return edges(sim_object_find(hGraph, SIM_GRAPH), NULL, NULL, from, to, NULL, numEdges);
}

CUresult cuGraphGetEdges_v2(CUgraph hGraph, CUgraphNode *from, CUgraphNode *to,
                            CUgraphEdgeData *edgeData, size_t *numEdges)
{
    SIM_ENTER(cuGraphGetEdges_v2, W(hGraph), W(from), W(to), W(edgeData), W(numEdges));
    return edges(sim_object_find(hGraph, SIM_GRAPH), NULL, NULL, from, to,
                 from ? edgeData : NULL, numEdges);
}

static CUresult neighbours(CUgraphNode hNode, bool before, CUgraphNode *nodes,
                           CUgraphEdgeData *data, size_t *count)
{
    const struct sim_node *node = sim_object_find(hNode, SIM_NODE);
    if (!node)
        return CUDA_ERROR_INVALID_VALUE;
    return edges(node->graph, before ? NULL : node, before ? node : NULL, before ? nodes : NULL,
                 before ? NULL : nodes, nodes ? data : NULL, count);
}

CUresult cuGraphNodeGetDependencies(CUgraphNode hNode, CUgraphNode *dependencies,
                                    size_t *numDependencies)
{
    SIM_ENTER(cuGraphNodeGetDependencies, W(hNode), W(dependencies), W(numDependencies));
    return neighbours(hNode, true, dependencies, NULL, numDependencies);
}

CUresult cuGraphNodeGetDependencies_v2(CUgraphNode hNode, CUgraphNode *dependencies,
                                       CUgraphEdgeData *edgeData, size_t *numDependencies)
{
    SIM_ENTER(cuGraphNodeGetDependencies_v2, W(hNode), W(dependencies), W(edgeData),
              W(numDependencies));
    return neighbours(hNode, true, dependencies, edgeData, numDependencies);
}

CUresult cuGraphNodeGetDependentNodes(CUgraphNode hNode, CUgraphNode *dependentNodes,
                                      size_t *numDependentNodes)
{
    SIM_ENTER(cuGraphNodeGetDependentNodes, W(hNode), W(dependentNodes), W(numDependentNodes));
    return neighbours(hNode, false, dependentNodes, NULL, numDependentNodes);
}

CUresult cuGraphNodeGetDependentNodes_v2(CUgraphNode hNode, CUgraphNode *dependentNodes,
                                         CUgraphEdgeData *edgeData, size_t *numDependentNodes)
{
    SIM_ENTER(cuGraphNodeGetDependentNodes_v2, W(hNode), W(dependentNodes), W(edgeData),
              W(numDependentNodes));
    return neighbours(hNode, false, dependentNodes, edgeData, numDependentNodes);
}

CUresult cuGraphGetRootNodes(CUgraph hGraph, CUgraphNode *rootNodes, size_t *numRootNodes)
{
    SIM_ENTER(cuGraphGetRootNodes, W(hGraph), W(rootNodes), W(numRootNodes));
    struct sim_graph *graph = sim_object_find(hGraph, SIM_GRAPH);
    size_t found = 0;
    if (!graph || !numRootNodes)
        return CUDA_ERROR_INVALID_VALUE;
    for (struct sim_node *node = graph->nodes; node; node = node->next) {
        bool root = true;
        for (size_t i = 0; i < graph->edge_count; i++)
            root = root && graph->edges[i].to != node;
        if (root && rootNodes && found < *numRootNodes)
            rootNodes[found] = (CUgraphNode)(void *)node;
        found += root;
    }
    *numRootNodes = found;
    return CUDA_SUCCESS;
}

/* The manual: nodes of a graph with memory nodes cannot be taken away (with which code, is not
 * measured). */
CUresult cuGraphDestroyNode(CUgraphNode hNode)
{
    SIM_ENTER(cuGraphDestroyNode, W(hNode));
    struct sim_node *node = sim_object_find(hNode, SIM_NODE);
    if (!node)
        return CUDA_ERROR_INVALID_VALUE;
    if (sim_graph_has(node->graph, true, false))
        return CUDA_ERROR_NOT_SUPPORTED;
    sim_node_end(node);
    return CUDA_SUCCESS;
}
