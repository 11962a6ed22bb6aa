/*
 * graph_width.c: how many kernels of a graph are beside one another.
 */
#include "interpose/graph_width.h"

#include <stdlib.h>

unsigned gb_graph_place(struct gb_graph_widths *widths, CUcontext context)
{
    for (unsigned i = 1; context && i < GB_GRAPH_CONTEXTS; i++) {
        if (!widths->context[i])
            widths->context[i] = context;
        if (widths->context[i] == context)
            return i;
    }
    return 0;
}

static int by_handle(const void *a, const void *b)
{
    uintptr_t one = (uintptr_t)((const struct gb_graph_node *)a)->handle;
    uintptr_t two = (uintptr_t)((const struct gb_graph_node *)b)->handle;

    return (one > two) - (one < two);
}

static struct gb_graph_node *find(struct gb_graph_node *nodes, size_t count, CUgraphNode handle)
{
    const struct gb_graph_node key = {.handle = handle};

    return bsearch(&key, nodes, count, sizeof(*nodes), by_handle);
}

static bool has_kernels(const struct gb_graph_node *node)
{
    for (int i = 0; i < GB_GRAPH_CONTEXTS; i++)
        if (node->kernels[i] > 0)
            return true;
    return false;
}

static void link_nodes(struct gb_graph_node *before, struct gb_graph_node *after,
                       bool kernels_only)
{
    if (!before || !after || before == after || before->then || after->is_behind ||
        (kernels_only && !(has_kernels(before) && has_kernels(after))))
        return;
    before->then = after;
    after->is_behind = true;
}

static void sum_up(const struct gb_graph_node *nodes, size_t count, uint64_t *widths)
{
    for (size_t i = 0; i < count; i++) {
        uint64_t most[GB_GRAPH_CONTEXTS] = {0};

        if (nodes[i].is_behind)
            continue;
        for (const struct gb_graph_node *node = &nodes[i]; node; node = node->then)
            for (int k = 0; k < GB_GRAPH_CONTEXTS; k++)
                if (node->kernels[k] > most[k])
                    most[k] = node->kernels[k];
        for (int k = 0; k < GB_GRAPH_CONTEXTS; k++)
            widths[k] += most[k];
    }
}

void gb_graph_chains(struct gb_graph_node *nodes, size_t count, const CUgraphNode *from,
                     const CUgraphNode *to, size_t edges, uint64_t *widths)
{
    if (edges > 0)
        qsort(nodes, count, sizeof(*nodes), by_handle);
    /* Kernels behind kernels first, so that nothing else takes their places. */
    for (int all = 0; all < 2; all++)
        for (size_t i = 0; i < edges; i++)
            link_nodes(find(nodes, count, from[i]), find(nodes, count, to[i]), !all);
    sum_up(nodes, count, widths);
}

/* One whose edges have properties answers the later form of the question only. */
static bool read_edges(const struct gb_driver_api *api, CUgraph graph, bool later,
                       CUgraphNode *from, CUgraphNode *to, CUgraphEdgeData *data, size_t *count)
{
    if (later)
        return api->cuGraphGetEdges_v2 &&
               api->cuGraphGetEdges_v2(graph, from, to, data, count) == CUDA_SUCCESS;
    return api->cuGraphGetEdges && api->cuGraphGetEdges(graph, from, to, count) == CUDA_SUCCESS;
}

static bool width_by(const struct gb_driver_api *api, CUgraph graph, bool later,
                     struct gb_graph_node *nodes, size_t count, uint64_t *widths)
{
    CUgraphNode *from = NULL;
    CUgraphEdgeData *data = NULL;
    size_t edges = 0, room;
    bool known = false;

    if (!read_edges(api, graph, later, NULL, NULL, NULL, &edges))
        return false;
    room = edges;
    if (room > 0) {
        from = calloc(room, 2 * sizeof(*from));
        data = later ? calloc(room, sizeof(*data)) : NULL;
        known = from && (data || !later) &&
                read_edges(api, graph, later, from, from + room, data, &edges);
    } else {
        known = true;
    }
    if (known)
        gb_graph_chains(nodes, count, from, from + room, edges < room ? edges : room, widths);
    free(data);
    free(from);
    return known;
}

void gb_graph_width(const struct gb_driver_api *api, CUgraph graph, struct gb_graph_node *nodes,
                    size_t count, uint64_t *widths)
{
    bool none = true;

    /* Its edges need not be read. */
    for (size_t i = 0; i < count && none; i++)
        none = !has_kernels(&nodes[i]);
    if (none)
        return;
    if (!width_by(api, graph, false, nodes, count, widths) &&
        !width_by(api, graph, true, nodes, count, widths))
        gb_graph_chains(nodes, count, NULL, NULL, 0, widths);
}
