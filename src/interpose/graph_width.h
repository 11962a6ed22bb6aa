/*
 * graph_width.h: how many kernels of a graph are beside one another.
 */
#ifndef GB_INTERPOSE_GRAPH_WIDTH_H
#define GB_INTERPOSE_GRAPH_WIDTH_H

#include "driver/api.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Contexts that the kernels of one graph are told apart by; the first place stands for those
 * whose context is not known, and for further ones. */
enum { GB_GRAPH_CONTEXTS = 5 };

struct gb_graph_widths {
    CUcontext context[GB_GRAPH_CONTEXTS]; /* NULL: the place is free; the first one always */
    uint64_t width[GB_GRAPH_CONTEXTS];
};

/* The place of a context; NULL: the first one. */
unsigned gb_graph_place(struct gb_graph_widths *widths, CUcontext context);

/* A node while its graph is read. */
struct gb_graph_node {
    CUgraphNode handle;
    uint64_t kernels[GB_GRAPH_CONTEXTS]; /* its own: 1, or the width of a child graph */
    struct gb_graph_node *then;          /* the next one of its chain */
    bool is_behind;
};

/*
 * Puts the nodes in chains, each node behind the one before, and adds to the widths what the
 * widest node of each chain has: never less than what is beside one another. Sorts the nodes.
 */
void gb_graph_chains(struct gb_graph_node *nodes, size_t count, const CUgraphNode *from,
                     const CUgraphNode *to, size_t edges, uint64_t *widths);

/* The same with the edges of the graph. Where they cannot be read, or without memory: all nodes
 * are beside one another. */
void gb_graph_width(const struct gb_driver_api *api, CUgraph graph, struct gb_graph_node *nodes,
                    size_t count, uint64_t *widths);

#endif
