/* How many kernels of a graph are beside one another. */
#include "interpose/graph_width.h"

#include <string.h>

#include "failing_malloc.h"
#include "unit.h"

enum { MOST = 64 };

static CUgraphNode node(uintptr_t number)
{
    return (CUgraphNode)(number * 64);
}

struct edge {
    uintptr_t from, to;
};

static struct gb_graph_node nodes[MOST];

/* So many kernels, in an order that is not that of their handles; shape() puts others there. */
static void kernels(size_t count)
{
    memset(nodes, 0, sizeof(nodes));
    for (size_t i = 0; i < count; i++) {
        nodes[i].handle = node(1 + (i + count / 2) % count);
        nodes[i].kernels[1] = 1;
    }
}

static struct gb_graph_node *numbered(size_t count, uintptr_t number)
{
    for (size_t i = 0; i < count; i++)
        if (nodes[i].handle == node(number))
            return &nodes[i];
    return NULL;
}

/* What is there, with these edges. */
static uint64_t shape(size_t count, const struct edge *edges, size_t edge_count, int place)
{
    CUgraphNode from[MOST] = {0}, to[MOST] = {0};
    uint64_t widths[GB_GRAPH_CONTEXTS] = {0};

    for (size_t i = 0; i < edge_count; i++) {
        from[i] = node(edges[i].from);
        to[i] = node(edges[i].to);
    }
    gb_graph_chains(nodes, count, from, to, edge_count, widths);
    return widths[place];
}

static uint64_t chains(size_t count, const struct edge *edges, size_t edge_count)
{
    kernels(count);
    return shape(count, edges, edge_count, 1);
}

static const struct edge line[] = {{1, 2}, {2, 3}, {3, 4}, {4, 5}};

START_TEST(test_shapes)
{
    const struct edge back[] = {{4, 5}, {3, 4}, {2, 3}, {1, 2}};
    const struct edge fork_join[] = {{1, 2}, {1, 3}, {1, 4}, {2, 5}, {3, 5}, {4, 5}};
    const struct edge twice[] = {{1, 2}, {1, 2}, {3, 4}};
    const struct edge strange[] = {{1, 99}, {98, 2}, {1, 1}};

    ck_assert_uint_eq(chains(0, NULL, 0), 0);
    ck_assert_uint_eq(chains(5, NULL, 0), 5);
    ck_assert_uint_eq(chains(5, line, COUNT_OF(line)), 1);
    ck_assert_uint_eq(chains(5, back, COUNT_OF(back)), 1);
    ck_assert_uint_eq(chains(5, fork_join, COUNT_OF(fork_join)), 3);
    ck_assert_uint_eq(chains(4, twice, COUNT_OF(twice)), 2);
    ck_assert_uint_eq(chains(2, strange, COUNT_OF(strange)), 2);
}
END_TEST

/* Nodes that are no kernels. */
START_TEST(test_others)
{
    const struct edge beside[] = {{1, 2}, {2, 3}};
    const struct edge between[] = {{1, 2}, {2, 3}, {3, 4}, {4, 5}};
    const struct edge tempting[] = {{1, 2}, {1, 3}};

    kernels(40);
    for (uintptr_t i = 4; i <= 40; i++)
        numbered(40, i)->kernels[1] = 0;
    ck_assert_uint_eq(shape(40, beside, COUNT_OF(beside), 1), 1);
    kernels(5);
    numbered(5, 2)->kernels[1] = numbered(5, 4)->kernels[1] = 0;
    ck_assert_uint_eq(shape(5, between, COUNT_OF(between), 1), 1);
    kernels(3);
    numbered(3, 2)->kernels[1] = 0;
    ck_assert_uint_eq(shape(3, tempting, COUNT_OF(tempting), 1), 1);
}
END_TEST

/* A child graph is as wide as it is, once in its chain. */
START_TEST(test_children)
{
    kernels(5);
    numbered(5, 2)->kernels[1] = 7;
    numbered(5, 4)->kernels[1] = 6;
    ck_assert_uint_eq(shape(5, line, COUNT_OF(line), 1), 7);
    kernels(5);
    numbered(5, 2)->kernels[1] = 7;
    numbered(5, 4)->kernels[1] = 6;
    ck_assert_uint_eq(shape(5, NULL, 0, 1), 16);
}
END_TEST

/* Each context's by themselves. */
START_TEST(test_contexts)
{
    struct gb_graph_widths widths = {.context = {NULL}};
    const CUcontext one = (CUcontext)(uintptr_t)16, two = (CUcontext)(uintptr_t)32;

    ck_assert_uint_eq(gb_graph_place(&widths, NULL), 0);
    ck_assert_uint_eq(gb_graph_place(&widths, one), 1);
    ck_assert_uint_eq(gb_graph_place(&widths, two), 2);
    ck_assert_uint_eq(gb_graph_place(&widths, one), 1);
    for (uintptr_t i = 3; i < GB_GRAPH_CONTEXTS; i++)
        ck_assert_uint_eq(gb_graph_place(&widths, (CUcontext)(i * 64)), i);
    ck_assert_uint_eq(gb_graph_place(&widths, (CUcontext)(uintptr_t)4096), 0);
    ck_assert_uint_eq(gb_graph_place(&widths, two), 2);
    kernels(5);
    numbered(5, 3)->kernels[1] = 0;
    numbered(5, 3)->kernels[2] = 1;
    ck_assert_uint_eq(shape(5, line, COUNT_OF(line), 1), 1);
    kernels(5);
    numbered(5, 3)->kernels[1] = 0;
    numbered(5, 3)->kernels[2] = 1;
    ck_assert_uint_eq(shape(5, line, COUNT_OF(line), 2), 1);
}
END_TEST

/* A graph of three in a line; what the driver's two questions about its edges answer. */
static CUresult plain, with_data;

static CUresult edges_of(CUgraphNode *from, CUgraphNode *to, size_t *count)
{
    for (size_t i = 0; from && i < 2 && i < *count; i++) {
        from[i] = node(i + 1);
        to[i] = node(i + 2);
    }
    *count = 2;
    return CUDA_SUCCESS;
}

static CUresult get_edges(CUgraph graph, CUgraphNode *from, CUgraphNode *to, size_t *count)
{
    (void)graph;
    return plain ? plain : edges_of(from, to, count);
}

static CUresult get_edges_v2(CUgraph graph, CUgraphNode *from, CUgraphNode *to,
                             CUgraphEdgeData *data, size_t *count)
{
    (void)graph;
    if (with_data || (from && !data))
        return with_data ? with_data : CUDA_ERROR_INVALID_VALUE;
    return edges_of(from, to, count);
}

static uint64_t width(const struct gb_driver_api *api)
{
    uint64_t widths[GB_GRAPH_CONTEXTS] = {0};

    kernels(3);
    gb_graph_width(api, NULL, nodes, 3, widths);
    return widths[1];
}

START_TEST(test_edges)
{
    struct gb_driver_api api = {.cuGraphGetEdges = get_edges,
                                .cuGraphGetEdges_v2 = get_edges_v2};

    plain = with_data = CUDA_SUCCESS;
    ck_assert_uint_eq(width(&api), 1);
    plain = CUDA_ERROR_LOSSY_QUERY;
    ck_assert_uint_eq(width(&api), 1);
    with_data = CUDA_ERROR_INVALID_VALUE;
    ck_assert_uint_eq(width(&api), 3);
    with_data = CUDA_SUCCESS;
    api.cuGraphGetEdges_v2 = NULL;
    ck_assert_uint_eq(width(&api), 3);
    api = (struct gb_driver_api){.cuGraphGetEdges = NULL};
    ck_assert_uint_eq(width(&api), 3);
}
END_TEST

START_TEST(test_without_memory)
{
    const struct gb_driver_api api = {.cuGraphGetEdges = get_edges};
    uint64_t count;

    plain = CUDA_SUCCESS;
    malloc_fail_after(0);
    count = width(&api);
    ck_assert_int_eq(malloc_recover(), 1);
    ck_assert_uint_eq(count, 3);
    ck_assert_uint_eq(width(&api), 1);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {test_shapes,   test_others, test_children,
                                  test_contexts, test_edges,  test_without_memory};

    return unit_run("graph_width", tests, COUNT_OF(tests));
}
