/*
 * budget_undone.c: growth of a pool that does not fit is undone at once, though the stream that
 * it was asked on stands still: the pool never stays above the limit.
 *
 *     budget_undone [far]
 *
 * Runs on a real GPU as well, but for the faults. In footprint mode, with room for 1088 MiB
 * beside a context.
 */
#define _GNU_SOURCE
#include "held_streams.h"

#include <stdatomic.h>

#define ROOM (1040 * MIB)

enum { PIECES = 4, TRIES = 40, NEIGHBOURS = 2 };

static CUcontext context;
static CUmemoryPool main_pool, other_pool;
static CUstream asking, giving, neighbours[NEIGHBOURS];
static CUdeviceptr ballast, pieces[2 * PIECES];
static uint64_t used_before;
static _Atomic bool over;

static uint64_t reserved_of(CUmemoryPool pool)
{
    cuuint64_t bytes = 0;

    MUST(cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, &bytes));
    return bytes;
}

static uint64_t reserved(void)
{
    return reserved_of(main_pool) + reserved_of(other_pool);
}

static void begin(const char *name)
{
    case_begin("%s", name);
    close_gates();
    atomic_store(&over, false);
    used_before = info_used();
}

/*
 * Leaves room for 40 MiB beside a pool with four idle pieces of 24 MiB, and holds the stream
 * that asks: a request for 48 MiB may find all it needs in the pool, and has to grow it.
 */
static void scatter(CUmemoryPool pool)
{
    for (int i = 0; i < 2 * PIECES; i++)
        MUST(cuMemAllocFromPoolAsync(&pieces[i], i % 2 ? 8 * MIB : 24 * MIB, pool, giving));
    for (int i = 0; i < 2 * PIECES; i += 2)
        MUST(cuMemFreeAsync(pieces[i], giving));
    MUST(cuStreamSynchronize(giving));
    MUST(cuMemAlloc_v2(&ballast, info_free() - 40 * MIB));
    hold(asking);
}

static void gather(void)
{
    open_gates();
    EXPECT_OK(cuMemFree_v2(ballast));
    for (int i = 1; i < 2 * PIECES; i += 2)
        EXPECT_OK(cuMemFreeAsync(pieces[i], giving));
    EXPECT_OK(cuCtxSynchronize());
    EXPECT_OK(cuMemPoolTrimTo(main_pool, 0));
    EXPECT_OK(cuMemPoolTrimTo(other_pool, 0));
    EXPECT_EQUAL(info_used(), used_before);
    case_end();
}

static CUresult ask(CUmemoryPool pool, size_t bytes)
{
    CUdeviceptr pointer = SENTINEL;
    CUresult code = pool ? cuMemAllocFromPoolAsync(&pointer, bytes, pool, asking)
                         : cuMemAllocAsync(&pointer, bytes, asking);

    if (code == CUDA_SUCCESS)
        MUST(cuMemFreeAsync(pointer, asking));
    else
        EXPECT_EQUAL(pointer, SENTINEL);
    return code;
}

static void on_a_held_stream(const char *name, bool named)
{
    CUmemoryPool pool = named ? other_pool : main_pool;
    uint64_t before;

    begin(name);
    scatter(pool);
    before = reserved();
    for (int i = 0; i < TRIES; i++) {
        EXPECT_CODE(ask(named ? pool : NULL, 48 * MIB), CUDA_ERROR_OUT_OF_MEMORY);
        EXPECT_EQUAL(reserved(), before);
    }
    EXPECT(is_waiting(asking));
    gather();
}

/* What fits is granted, on the held stream, too. */
static void what_fits(void)
{
    begin("what-fits");
    scatter(main_pool);
    EXPECT_OK(ask(NULL, 24 * MIB));
    EXPECT_CODE(ask(NULL, 48 * MIB), CUDA_ERROR_OUT_OF_MEMORY);
    EXPECT_OK(ask(NULL, 20 * MIB));
    EXPECT(is_waiting(asking));
    gather();
}

/* ---- beside other threads ---- */

static void *switches(void *arg)
{
    (void)arg;
    MUST(cuCtxSetCurrent(context));
    for (unsigned i = 0; !atomic_load(&over); i++)
        MUST(cuDeviceSetMemPool(0, i % 2 ? main_pool : other_pool));
    MUST(cuDeviceSetMemPool(0, main_pool));
    return NULL;
}

static void *allocates(void *arg)
{
    CUstream stream = *(CUstream *)arg;

    MUST(cuCtxSetCurrent(context));
    while (!atomic_load(&over)) {
        CUdeviceptr pointer;
        CUresult code = cuMemAllocAsync(&pointer, MIB, stream);

        if (code == CUDA_SUCCESS)
            MUST(cuMemFreeAsync(pointer, stream));
        else
            EXPECT_EQUAL(code, CUDA_ERROR_OUT_OF_MEMORY);
    }
    MUST(cuStreamSynchronize(stream));
    return NULL;
}

/* At rest nothing stands above what was there before; `spare` may be one pool's step. */
static void beside(const char *name, void *(*neighbour)(void *), uint64_t spare)
{
    pthread_t threads[NEIGHBOURS];
    uint64_t before;
    int count = neighbour == switches ? 1 : NEIGHBOURS;

    begin(name);
    scatter(main_pool);
    before = reserved();
    for (int i = 0; i < count; i++)
        pthread_create(&threads[i], NULL, neighbour, &neighbours[i]);
    for (int i = 0; i < TRIES; i++)
        EXPECT_CODE(ask(NULL, 48 * MIB), CUDA_ERROR_OUT_OF_MEMORY);
    atomic_store(&over, true);
    for (int i = 0; i < count; i++)
        pthread_join(threads[i], NULL);
    EXPECT_CODE(ask(NULL, 48 * MIB), CUDA_ERROR_OUT_OF_MEMORY);
    EXPECT(reserved() <= before + spare);
    EXPECT(is_waiting(asking));
    gather();
}

/* ---- what the undoing itself is refused ---- */

static void with_a_fault(const char *call)
{
    char name[96];

    snprintf(name, sizeof(name), "fault-%s", call);
    begin(name);
    scatter(main_pool);
    sim.fail(call, 1, CUDA_ERROR_UNKNOWN);
    EXPECT_CODE(ask(NULL, 48 * MIB), CUDA_ERROR_OUT_OF_MEMORY);
    sim.fail_clear();
    /* It may stand there until the stream goes on, and is charged as long. */
    EXPECT(info_used() >= used_before + reserved());
    gather();
}

/*
 * Two blocks are freed on a stream that stands still, far from the limit, where nobody counts
 * such frees; then the room is taken. A request for both waits for that stream, in vain, since
 * the two lie apart: what it makes the pool grow by goes back though its own stream waits now.
 */
static void followed(void)
{
    CUdeviceptr first, between, second;
    uint64_t before;

    begin("followed");
    MUST(cuMemAllocAsync(&first, 64 * MIB, giving));
    MUST(cuMemAllocAsync(&between, 32 * MIB, giving));
    MUST(cuMemAllocAsync(&second, 64 * MIB, giving));
    MUST(cuStreamSynchronize(giving));
    hold(giving);
    MUST(cuMemFreeAsync(first, giving));
    MUST(cuMemFreeAsync(second, giving));
    MUST(cuMemAlloc_v2(&ballast, info_free() - 40 * MIB));
    before = reserved();
    EXPECT_CODE(ask(NULL, 128 * MIB), CUDA_ERROR_OUT_OF_MEMORY);
    EXPECT_EQUAL(reserved(), before);
    EXPECT(is_waiting(asking));
    open_gates();
    EXPECT_OK(cuMemFree_v2(ballast));
    EXPECT_OK(cuMemFreeAsync(between, giving));
    EXPECT_OK(cuCtxSynchronize());
    EXPECT_OK(cuMemPoolTrimTo(main_pool, 0));
    EXPECT_EQUAL(info_used(), used_before);
    case_end();
}

static void start(void)
{
    const CUmemPoolProps props = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                                  .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0}};
    cuuint64_t all = UINT64_MAX;
    CUdeviceptr block;

    context = start_device(0);
    MUST(cuStreamCreate(&asking, CU_STREAM_NON_BLOCKING));
    MUST(cuStreamCreate(&giving, CU_STREAM_NON_BLOCKING));
    make_gates();
    MUST(cuDeviceGetDefaultMemPool(&main_pool, 0));
    MUST(cuMemPoolCreate(&other_pool, &props));
    MUST(cuMemPoolSetAttribute(main_pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &all));
    MUST(cuMemPoolSetAttribute(other_pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &all));
    /* What streams take, and with their first work, they take here. */
    for (int i = 0; i < NEIGHBOURS; i++) {
        MUST(cuStreamCreate(&neighbours[i], CU_STREAM_NON_BLOCKING));
        MUST(cuMemAllocAsync(&block, 1, neighbours[i]));
        MUST(cuMemFreeAsync(block, giving));
    }
    warm_streams(8);
    MUST(cuMemAllocAsync(&block, 1, asking));
    MUST(cuMemFreeAsync(block, giving));
    MUST(cuCtxSynchronize());
    MUST(cuMemPoolTrimTo(main_pool, 0));
}

int main(int count, char **arguments)
{
    start();
    if (count > 1 && strcmp(arguments[1], "far") == 0) {
        followed();
        return cases_status();
    }
    MUST(cuMemAlloc_v2(&ballast,
                       info_free() > ROOM ? (info_free() - ROOM) & ~(2 * MIB - 1) : 2));
    on_a_held_stream("own-stream", false);
    on_a_held_stream("named-pool", true);
    what_fits();
    beside("beside-switches", switches, 0);
    beside("beside-requests", allocates, 0);
    if (sim_find()) {
        with_a_fault("cuStreamCreate");
        with_a_fault("cuStreamSynchronize");
        with_a_fault("cuMemFreeAsync");
    }
    return cases_status();
}
