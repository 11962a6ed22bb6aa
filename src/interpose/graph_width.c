/*
 * graph_width.c: how many nodes of a graph are beside one another.
 */
#include "interpose/graph_width.h"

#include <stdlib.h>

struct place {
    bool behind, followed;
};

static int by_handle(const void *a, const void *b)
{
    uintptr_t one = (uintptr_t) * (const CUgraphNode *)a;
    uintptr_t two = (uintptr_t) * (const CUgraphNode *)b;

    return (one > two) - (one < two);
}

static struct place *find(struct place *places, const CUgraphNode *nodes, size_t count,
                          CUgraphNode node)
{
    const CUgraphNode *found = bsearch(&node, nodes, count, sizeof(*nodes), by_handle);

    return found ? &places[found - nodes] : NULL;
}

size_t gb_graph_chains(CUgraphNode *nodes, size_t count, const CUgraphNode *from,
                       const CUgraphNode *to, size_t edges)
{
    struct place *places = calloc(count > 0 ? count : 1, sizeof(*places));
    size_t chains = count;

    if (!places)
        return count;
    qsort(nodes, count, sizeof(*nodes), by_handle);
    for (size_t i = 0; i < edges; i++) {
        struct place *before = find(places, nodes, count, from[i]);
        struct place *after = find(places, nodes, count, to[i]);

        if (!before || !after || before->followed || after->behind)
            continue;
        before->followed = after->behind = true;
        chains--;
    }
    free(places);
    return chains;
}

uint64_t gb_graph_width(const struct gb_driver_api *api, CUgraph graph, CUgraphNode *nodes,
                        size_t count, uint64_t kernels)
{
    CUgraphNode *from = NULL;
    size_t edges = 0, room, chains = count;

    if (kernels < GB_GRAPH_WIDE || !api->cuGraphGetEdges ||
        api->cuGraphGetEdges(graph, NULL, NULL, &edges) != CUDA_SUCCESS || edges == 0)
        return kernels;
    room = edges;
    from = calloc(room, 2 * sizeof(*from));
    /* One whose edges have properties does not answer this question. */
    if (from && api->cuGraphGetEdges(graph, from, from + room, &edges) == CUDA_SUCCESS)
        chains = gb_graph_chains(nodes, count, from, from + room, edges < room ? edges : room);
    free(from);
    return chains < kernels ? chains : kernels;
}
