/* How many nodes of a graph are beside one another. */
#include "interpose/graph_width.h"

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

/* Of so many nodes, in an order that is not that of their handles. */
static size_t chains(size_t count, const struct edge *edges, size_t edge_count)
{
    CUgraphNode nodes[MOST] = {0}, from[MOST] = {0}, to[MOST] = {0};

    for (size_t i = 0; i < count; i++)
        nodes[i] = node(1 + (i + count / 2) % count);
    for (size_t i = 0; i < edge_count; i++) {
        from[i] = node(edges[i].from);
        to[i] = node(edges[i].to);
    }
    return gb_graph_chains(nodes, count, from, to, edge_count);
}

START_TEST(test_shapes)
{
    const struct edge line[] = {{1, 2}, {2, 3}, {3, 4}, {4, 5}};
    const struct edge back[] = {{4, 5}, {3, 4}, {2, 3}, {1, 2}};
    const struct edge fork_join[] = {{1, 2}, {1, 3}, {1, 4}, {2, 5}, {3, 5}, {4, 5}};
    const struct edge twice[] = {{1, 2}, {1, 2}, {3, 4}};
    const struct edge strange[] = {{1, 99}, {98, 2}};

    ck_assert_uint_eq(chains(0, NULL, 0), 0);
    ck_assert_uint_eq(chains(5, NULL, 0), 5);
    ck_assert_uint_eq(chains(5, line, COUNT_OF(line)), 1);
    ck_assert_uint_eq(chains(5, back, COUNT_OF(back)), 1);
    ck_assert_uint_eq(chains(5, fork_join, COUNT_OF(fork_join)), 3);
    ck_assert_uint_eq(chains(4, twice, COUNT_OF(twice)), 2);
    ck_assert_uint_eq(chains(2, strange, COUNT_OF(strange)), 2);
}
END_TEST

START_TEST(test_without_memory)
{
    const struct edge line[] = {{1, 2}, {2, 3}};
    size_t count;

    malloc_fail_after(0);
    count = chains(3, line, COUNT_OF(line));
    ck_assert_int_eq(malloc_recover(), 1);
    ck_assert_uint_eq(count, 3);
    ck_assert_uint_eq(chains(3, line, COUNT_OF(line)), 1);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {test_shapes, test_without_memory};

    return unit_run("graph_width", tests, COUNT_OF(tests));
}
