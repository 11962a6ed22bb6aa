/* What the same or different streams have freed side by side in a pool: what becomes one piece,
 * and who gets it when. Sizes are what the pool grows by for a request. */
#include "observations.h"

#define BLOCK (64 * MIB)

static CUmemoryPool pool;
static CUstream one, two, asks;
static CUdeviceptr left, middle, right; /* side by side */
static CUevent marks[3];

/* All is idle before and after. */
static void lay_out(void)
{
    CUdeviceptr end = 0;

    cuMemAllocFromPoolAsync(&left, BLOCK, pool, one);
    cuMemAllocFromPoolAsync(&middle, 2 * BLOCK, pool, one);
    cuMemAllocFromPoolAsync(&right, 3 * BLOCK, pool, one);
    cuMemAllocFromPoolAsync(&end, BLOCK / 2, pool, one);
    observe_fact(middle == left + BLOCK && right == middle + 2 * BLOCK, "neighbours.laid_out");
    cuCtxSynchronize();
}

static void clear_up(void)
{
    observe_let_go();
    cuCtxSynchronize();
    cuStreamDestroy(one);
    cuStreamDestroy(two);
    cuStreamDestroy(asks);
    cuMemPoolDestroy(pool);
    cuCtxSynchronize();
}

static void begin(void)
{
    pool = observe_pool(0, ~(uint64_t)0);
    one = observe_stream();
    two = observe_stream();
    asks = observe_stream();
    lay_out();
}

static CUevent free_on(CUstream stream, CUdeviceptr block, int mark)
{
    cuMemFreeAsync(block, stream);
    if (!marks[mark])
        cuEventCreate(&marks[mark], CU_EVENT_DISABLE_TIMING);
    cuEventRecord(marks[mark], stream);
    return marks[mark];
}

/* Behind the mark, where there is one. */
static uint64_t growth(CUstream stream, CUevent mark, size_t bytes)
{
    uint64_t before = observe_reserved(pool);
    CUdeviceptr block = 0;

    if (mark)
        cuStreamWaitEvent(stream, mark, 0);
    cuMemAllocFromPoolAsync(&block, bytes, pool, stream);
    return observe_reserved(pool) - before;
}

static void wait_until(CUevent mark)
{
    while (cuEventQuery(mark) == CUDA_ERROR_NOT_READY)
        ;
}

void observe_pool_neighbours(void)
{
    CUevent first, last;

    observe_begin();
    begin();
    observe_hold(one);
    first = free_on(one, left, 0);
    last = free_on(one, middle, 1);
    observe_size(growth(asks, first, BLOCK), "neighbours.joined.first_mark");
    observe_size(growth(two, last, BLOCK), "neighbours.joined.last_mark");
    observe_size(growth(asks, last, 2 * BLOCK), "neighbours.joined.the_rest");
    clear_up();

    begin();
    observe_hold(one);
    first = free_on(one, left, 0);
    free_on(one, middle, 1);
    observe_size(growth(one, NULL, 3 * BLOCK), "neighbours.joined.own_stream");
    clear_up();

    begin();
    observe_hold(one);
    first = free_on(one, left, 0);
    last = free_on(one, right, 1);
    observe_size(growth(asks, first, BLOCK), "neighbours.apart.first_mark");
    observe_size(growth(two, last, 3 * BLOCK), "neighbours.apart.last_mark");
    clear_up();

    begin();
    observe_hold(one);
    first = free_on(one, left, 0);
    free_on(one, right, 1);
    last = free_on(one, middle, 2);
    observe_size(growth(asks, marks[1], BLOCK), "neighbours.middle_last.first_mark");
    observe_size(growth(two, last, 6 * BLOCK), "neighbours.middle_last.last_mark");
    clear_up();

    begin();
    observe_hold(one);
    cuStreamWaitEvent(two, free_on(one, left, 0), 0);
    last = free_on(two, middle, 1);
    cuStreamWaitEvent(asks, marks[0], 0);
    observe_size(growth(asks, last, 3 * BLOCK), "neighbours.two_streams.both");
    observe_size(growth(asks, NULL, 2 * BLOCK), "neighbours.two_streams.second");
    observe_size(growth(asks, NULL, BLOCK), "neighbours.two_streams.first");
    clear_up();

    begin();
    wait_until(free_on(one, left, 0));
    observe_hold(one);
    free_on(one, middle, 1);
    observe_size(growth(asks, NULL, BLOCK), "neighbours.run.first");
    clear_up();

    begin();
    free_on(one, left, 0);
    cuStreamSynchronize(one);
    observe_hold(one);
    last = free_on(one, middle, 1);
    observe_size(growth(two, NULL, BLOCK), "neighbours.synchronized.first");
    observe_size(growth(asks, last, 2 * BLOCK), "neighbours.synchronized.second");
    clear_up();

    begin();
    free_on(one, left, 0);
    cuStreamSynchronize(one);
    observe_hold(one);
    last = free_on(one, middle, 1);
    observe_size(growth(asks, last, 3 * BLOCK), "neighbours.synchronized.both");
    clear_up();
}
