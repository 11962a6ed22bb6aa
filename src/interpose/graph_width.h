/*
 * graph_width.h: how many nodes of a graph are beside one another.
 */
#ifndef GB_INTERPOSE_GRAPH_WIDTH_H
#define GB_INTERPOSE_GRAPH_WIDTH_H

#include "driver/api.h"

#include <stddef.h>
#include <stdint.h>

/*
 * What the driver takes at most for a kernel that is beside others: an executable with 1,002 of
 * them takes 110 MiB, one with a thousand in a chain 2 (measured, nothing in between).
 */
#define GB_GRAPH_KERNEL_BYTES (UINT64_C(112) << 10)

/* Fewer take one step of the driver at most: GPUBUDGET_RESERVE has room. */
enum { GB_GRAPH_WIDE = 18 };

/*
 * In how many chains, each node behind the one before, the nodes fall; never fewer than are
 * beside one another. Sorts the nodes. Without memory: all are beside one another.
 */
size_t gb_graph_chains(CUgraphNode *nodes, size_t count, const CUgraphNode *from,
                       const CUgraphNode *to, size_t edges);

/* How many of so many kernels among the nodes of a graph may be beside one another. */
uint64_t gb_graph_width(const struct gb_driver_api *api, CUgraph graph, CUgraphNode *nodes,
                        size_t count, uint64_t kernels);

#endif
