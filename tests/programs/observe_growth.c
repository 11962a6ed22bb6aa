/* A pool that must grow for a request and has something free at its end: whether the new memory
 * joins it, by where its free stands; and whether the growth goes back at once, by a free on a
 * stream that has nothing to wait for. Sizes are what RESERVED rises or falls by. */
#include "observations.h"

#define BLOCK (64 * MIB)
#define PART  (16 * MIB) /* less than a pool's step */

static CUmemoryPool pool;
static bool by_default; /* of the default pool, by the call that names none */
static CUstream one, asks, idle;

static CUresult take(CUdeviceptr *block, size_t bytes, CUstream stream)
{
    return by_default ? cuMemAllocAsync(block, bytes, stream)
                      : cuMemAllocFromPoolAsync(block, bytes, pool, stream);
}

/* A live block, so that the end is no whole pool, and the one at the end; 128 MiB in all. */
static void begin(const char *of, const char *name, size_t bytes, CUdeviceptr *live,
                  CUdeviceptr *end)
{
    one = observe_stream();
    asks = observe_stream();
    idle = observe_stream();
    take(live, 2 * BLOCK - bytes, one);
    take(end, bytes, one);
    observe_fact(*end == *live + 2 * BLOCK - bytes, "tail.%s.%s.laid_out", of, name);
    cuCtxSynchronize();
    observe_size(observe_reserved(pool), "tail.%s.%s.reserved", of, name);
}

static void clear_up(const char *of, const char *name, CUdeviceptr live)
{
    observe_let_go();
    cuCtxSynchronize();
    cuMemFreeAsync(live, idle);
    cuCtxSynchronize();
    cuStreamDestroy(one);
    cuStreamDestroy(asks);
    cuStreamDestroy(idle);
    cuMemPoolTrimTo(pool, 0);
    observe_size(observe_reserved(pool), "tail.%s.%s.left", of, name);
}

/* Asks for 64 MiB more than the end has, by which the pool grows if they join; gives that back
 * on another stream, while this one is held. The whole steps of an idle end go with it. */
static void grow_and_undo(const char *of, const char *name, size_t end, CUstream stream)
{
    CUdeviceptr block = 0;
    uint64_t before = observe_reserved(pool), grown;

    observe_code(take(&block, end + BLOCK, stream), "tail.%s.%s.request", of, name);
    grown = observe_reserved(pool);
    observe_size(grown - before, "tail.%s.%s.growth", of, name);
    observe_code(cuMemFreeAsync(block, idle), "tail.%s.%s.free", of, name);
    observe_code(cuStreamSynchronize(idle), "tail.%s.%s.synchronize", of, name);
    observe_size(grown - observe_reserved(pool), "tail.%s.%s.synchronized", of, name);
    observe_code(cuMemPoolTrimTo(pool, 0), "tail.%s.%s.trim", of, name);
    observe_size(grown - observe_reserved(pool), "tail.%s.%s.trimmed", of, name);
    observe_code(cuStreamQuery(stream), "tail.%s.%s.still_held", of, name);
    observe_fact(observe_was_blocked(), "tail.%s.%s.blocked", of, name);
}

/* The end was free for this stream all along: no growth for what it has room for. */
static void ask_for_the_end(const char *of, const char *name, CUstream stream)
{
    CUdeviceptr block = 0;
    uint64_t before = observe_reserved(pool);

    take(&block, BLOCK, stream);
    observe_size(observe_reserved(pool) - before, "tail.%s.%s.fitting", of, name);
    cuMemFreeAsync(block, stream);
}

static void ask_idle(const char *of, const char *name, size_t bytes)
{
    CUdeviceptr live = 0, end = 0;

    begin(of, name, bytes, &live, &end);
    cuMemFreeAsync(end, one);
    cuStreamSynchronize(one);
    observe_hold(asks);
    grow_and_undo(of, name, bytes, asks);
    clear_up(of, name, live);
}

static void ask(const char *of)
{
    CUdeviceptr live = 0, end = 0;
    CUevent freed = NULL;

    begin(of, "own_stream", BLOCK, &live, &end);
    observe_hold(one);
    cuMemFreeAsync(end, one);
    grow_and_undo(of, "own_stream", BLOCK, one);
    ask_for_the_end(of, "own_stream", one);
    clear_up(of, "own_stream", live);

    begin(of, "followed", BLOCK, &live, &end);
    cuEventCreate(&freed, CU_EVENT_DISABLE_TIMING);
    observe_hold(one);
    cuMemFreeAsync(end, one);
    cuEventRecord(freed, one);
    cuStreamWaitEvent(asks, freed, 0);
    grow_and_undo(of, "followed", BLOCK, asks);
    ask_for_the_end(of, "followed", asks);
    clear_up(of, "followed", live);
    cuEventDestroy(freed);

    ask_idle(of, "idle", BLOCK);
    /* Idle memory of whole steps may also move. */
    ask_idle(of, "idle_part", PART);
}

void observe_pool_tail(void)
{
    cuuint64_t all = ~(cuuint64_t)0; /* nothing goes back by itself */

    observe_begin();
    by_default = true;
    cuDeviceGetDefaultMemPool(&pool, 0);
    cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &all);
    ask("default");
    by_default = false;
    pool = observe_pool(0, all);
    ask("created");
    cuMemPoolDestroy(pool);
}
