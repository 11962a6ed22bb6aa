/*
 * budget_follow.c: requests that need memory whose free is pending. A stream-ordered one makes
 * its own stream wait for the frees it needs and no other work; a synchronous one waits on the
 * host, no longer than it may.
 *
 * The streams are held by values in host memory, so it runs on a real GPU as well. It is the
 * thread that asks which lets them go, after its call has returned: what waits for them on the
 * host never comes back.
 */
#define _GNU_SOURCE
#include "held_streams.h"

#define UNIT  (128 * MIB)
#define UNITS 8 /* of room in every case, and a bit that is no use */
#define SPARE (16 * MIB)

enum { STREAMS = 4 };

/* That are out on one stream at a time. */
enum { MARKS = 16 };

static CUcontext context;
static CUmemoryPool main_pool;
static CUstream streams[STREAMS]; /* [0] and [2] are held up, [1] and [3] ask */
static CUdeviceptr ballast;
static uint64_t used_before;

static CUdeviceptr blocks[64];
static int block_count;

/* ---- cases ---- */

static void begin(const char *name)
{
    case_begin("%s", name);
    close_gates();
    block_count = 0;
    used_before = info_used();
}

/* Everything is let go, and comes back. */
static void end(void)
{
    open_gates();
    EXPECT_OK(cuCtxSynchronize());
    for (int i = 0; i < block_count; i++)
        if (blocks[i])
            EXPECT_OK(cuMemFreeAsync(blocks[i], streams[3]));
    EXPECT_OK(cuCtxSynchronize());
    EXPECT_EQUAL(info_used(), used_before);
    case_end();
}

static int take_from(CUmemoryPool pool, CUstream stream, size_t bytes)
{
    CUdeviceptr *block = &blocks[block_count];

    *block = 0;
    EXPECT_OK(pool ? cuMemAllocFromPoolAsync(block, bytes, pool, stream)
                   : cuMemAllocAsync(block, bytes, stream));
    return block_count++;
}

static int take(CUstream stream, int units)
{
    return take_from(NULL, stream, units * UNIT);
}

static void give(int which, CUstream stream)
{
    EXPECT_OK(cuMemFreeAsync(blocks[which], stream));
    blocks[which] = 0;
}

static void is_refused(CUstream stream, size_t bytes)
{
    CUdeviceptr none = SENTINEL;

    EXPECT_CODE(cuMemAllocAsync(&none, bytes, stream), CUDA_ERROR_OUT_OF_MEMORY);
    EXPECT_EQUAL(none, SENTINEL);
    EXPECT(!is_waiting(stream));
}

/* The room is taken; answers the first block, of so many units, on the stream. */
static int fill(CUstream stream, int units)
{
    int first = take(stream, units);

    for (int left = UNITS - units; left > 0; left--)
        take(streams[3], 1);
    EXPECT_OK(cuStreamSynchronize(streams[3]));
    return first;
}

static void waits_for_the_free(void)
{
    int gate, freed;

    begin("waits-for-the-free");
    freed = fill(streams[0], 2);
    gate = hold(streams[0]);
    give(freed, streams[0]);
    take(streams[1], 2);
    EXPECT(is_waiting(streams[1]));
    EXPECT(!is_waiting(streams[3]));
    open_gate(gate);
    EXPECT(comes_through(streams[1]));
    /* It is live again, so there is no more. */
    is_refused(streams[1], UNIT);
    end();
}

static void not_for_later_work(void)
{
    int gate, freed;

    begin("not-for-later-work");
    freed = fill(streams[0], 2);
    gate = hold(streams[0]);
    give(freed, streams[0]);
    hold(streams[0]);
    take(streams[1], 2);
    EXPECT(is_waiting(streams[1]));
    open_gate(gate);
    EXPECT(comes_through(streams[1]));
    EXPECT(is_waiting(streams[0]));
    end();
}

/* Of two streams that are held up the one that has enough, and the least of those. */
static void not_for_another_stream(void)
{
    int first, second, gate_first, gate_second;

    begin("not-for-another-stream");
    first = take(streams[0], 2);
    second = take(streams[2], 1);
    for (int i = 3; i < UNITS; i++)
        take(streams[3], 1);
    EXPECT_OK(cuCtxSynchronize());
    gate_first = hold(streams[0]);
    gate_second = hold(streams[2]);
    give(first, streams[0]);
    give(second, streams[2]);
    take(streams[1], 2);
    EXPECT(is_waiting(streams[1]));
    take(streams[3], 1);
    EXPECT(is_waiting(streams[3]));
    open_gate(gate_first);
    EXPECT(comes_through(streams[1]));
    EXPECT(is_waiting(streams[3]));
    open_gate(gate_second);
    EXPECT(comes_through(streams[3]));
    end();
}

/* Each free of a stream that stands still can be waited for, and no work that came after it. */
static void several_of_a_stream(void)
{
    int freed[3], gate[4];

    begin("several-of-a-stream");
    for (int i = 0; i < 3; i++) {
        freed[i] = take(streams[0], i + 1);
        take_from(NULL, streams[0], MIB); /* between them: neighbours become one piece */
    }
    take(streams[3], 1);
    take_from(NULL, streams[3], UNIT - 32 * MIB);
    EXPECT_OK(cuCtxSynchronize());
    for (int i = 0; i < 3; i++) {
        gate[i] = hold(streams[0]);
        give(freed[i], streams[0]);
    }
    gate[3] = hold(streams[0]);
    take(streams[1], 2);
    take(streams[2], 1);
    take(streams[3], 3);
    for (int i = 1; i <= 3; i++)
        EXPECT(is_waiting(streams[i]));
    open_gate(gate[0]);
    EXPECT(comes_through(streams[2]));
    EXPECT(is_waiting(streams[1]));
    open_gate(gate[1]);
    EXPECT(comes_through(streams[1]));
    EXPECT(is_waiting(streams[3]));
    open_gate(gate[2]);
    EXPECT(comes_through(streams[3]));
    EXPECT(is_waiting(streams[0]));
    end();
}

/* Neighbours that a stream has freed are one piece to the card, which comes with the last of
 * the frees. Where the limit is one of bytes, the first of them is enough. */
static void neighbours_of_a_stream(void)
{
    const int last = charge_is_requested() ? 0 : 2;
    int freed[3], gate[4];

    begin("neighbours-of-a-stream");
    for (int i = 0; i < 3; i++)
        freed[i] = take(streams[0], i == 1 ? 1 : 2);
    for (int i = 5; i < UNITS; i++)
        take(streams[3], 1);
    EXPECT_OK(cuCtxSynchronize());
    /* The one in the middle last. */
    for (int i = 0; i < 3; i++) {
        const int which[] = {0, 2, 1};

        gate[i] = hold(streams[0]);
        give(freed[which[i]], streams[0]);
    }
    gate[3] = hold(streams[0]);
    take(streams[1], 2);
    for (int i = 0; i <= last; i++) {
        EXPECT(is_waiting(streams[1]));
        open_gate(gate[i]);
    }
    EXPECT(comes_through(streams[1]));
    take(streams[2], 3);
    for (int i = last + 1; i < 3; i++)
        open_gate(gate[i]);
    EXPECT(comes_through(streams[2]));
    EXPECT(is_waiting(streams[0]));
    end();
}

/* Of more frees than have marks of their own the last ones wait for a mark that is reached: an
 * event of now would lie behind later work, which may wait for this request. */
static void beyond_the_marks(void)
{
    const size_t bytes = 64 * MIB;
    int freed[MARKS], large, gate;

    begin("beyond-the-marks");
    for (int i = 0; i < MARKS; i++) {
        freed[i] = take_from(NULL, streams[0], i < 3 ? bytes : MIB);
        take_from(NULL, streams[0], MIB); /* between them: neighbours may become one piece */
    }
    large = take(streams[0], 3);
    for (int i = 5; i < UNITS; i++)
        take(streams[3], 1);
    EXPECT_OK(cuCtxSynchronize());
    gate = hold(streams[0]);
    for (int i = 0; i < MARKS; i++)
        give(freed[i], streams[0]);
    give(large, streams[0]);
    is_refused(streams[1], 3 * UNIT);
    take_from(NULL, streams[1], bytes);
    EXPECT(is_waiting(streams[1]));
    open_gate(gate);
    EXPECT(comes_through(streams[0]));
    EXPECT(comes_through(streams[1]));
    take(streams[1], 3);
    EXPECT(comes_through(streams[1]));
    end();
}

/* A program's own order, which is enough for the driver; the stream that has freed waits for
 * the one that asks. */
static void what_the_program_waits_for(void)
{
    CUevent event = NULL;
    int first, second, gate, answer;

    begin("what-the-program-waits-for");
    MUST(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    first = take(streams[0], 1);
    second = take(streams[0], 2);
    for (int i = 3; i < UNITS; i++)
        take(streams[3], 1);
    EXPECT_OK(cuCtxSynchronize());
    gate = hold(streams[0]);
    give(first, streams[0]);
    give(second, streams[0]);
    EXPECT_OK(cuEventRecord(event, streams[0]));
    answer = hold(streams[0]);
    EXPECT_OK(cuStreamWaitEvent(streams[1], event, 0));
    if (charge_is_requested())
        blocks[block_count] = 0; /* the ledger does not know of that event */
    else
        take(streams[1], 2);
    open_gate(gate);
    EXPECT(comes_through(streams[1]));
    EXPECT(is_waiting(streams[0]));
    open_gate(answer);
    EXPECT_OK(cuEventDestroy_v2(event));
    end();
}

/* Blocks that lie apart serve no larger request: nobody waits for them, and nothing is left. */
static void in_pieces(void)
{
    int pieces[4];

    if (charge_is_requested())
        return; /* that counts bytes, wherever they lie */
    begin("in-pieces");
    for (int i = 0; i < 4; i++)
        pieces[i] = take(streams[0], 1);
    for (int i = 4; i < UNITS; i++)
        take(streams[3], 1);
    EXPECT_OK(cuCtxSynchronize());
    hold(streams[0]);
    give(pieces[0], streams[0]);
    give(pieces[2], streams[0]);
    is_refused(streams[1], 2 * UNIT);
    take(streams[1], 1);
    EXPECT(is_waiting(streams[1]));
    end();
}

static void too_little(void)
{
    int freed;

    begin("too-little-is-pending");
    freed = fill(streams[0], 2);
    hold(streams[0]);
    give(freed, streams[0]);
    is_refused(streams[1], 3 * UNIT);
    take(streams[1], 2);
    end();
}

static void of_another_pool(void)
{
    CUmemoryPool pool = make_pool(0);
    int freed;

    begin("of-another-pool");
    freed = take_from(pool, streams[0], 2 * UNIT);
    for (int i = 2; i < UNITS; i++)
        take(streams[3], 1);
    EXPECT_OK(cuCtxSynchronize());
    hold(streams[0]);
    give(freed, streams[0]);
    is_refused(streams[1], 2 * UNIT);
    take_from(pool, streams[1], 2 * UNIT);
    EXPECT(is_waiting(streams[1]));
    end();
    EXPECT_OK(cuMemPoolDestroy(pool));
}

static void of_a_direct_block(void)
{
    CUdeviceptr direct = 0;

    begin("of-a-direct-block");
    EXPECT_OK(cuMemAlloc_v2(&direct, 2 * UNIT));
    for (int i = 2; i < UNITS; i++)
        take(streams[3], 1);
    EXPECT_OK(cuCtxSynchronize());
    hold(streams[0]);
    EXPECT_OK(cuMemFreeAsync(direct, streams[0]));
    is_refused(streams[1], 2 * UNIT);
    end();
}

static void set_following(int follows)
{
    MUST(cuMemPoolSetAttribute(main_pool, CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES,
                               &follows));
}

static void pool_that_does_not_follow(void)
{
    int freed;

    begin("pool-that-does-not-follow");
    freed = fill(streams[0], 2);
    hold(streams[0]);
    give(freed, streams[0]);
    set_following(0);
    is_refused(streams[1], 2 * UNIT);
    set_following(1);
    end();
}

static void own_stream(void)
{
    int freed;

    begin("own-stream");
    freed = fill(streams[0], 2);
    hold(streams[0]);
    give(freed, streams[0]);
    /* Its own frees come first: nobody waits for anybody. */
    take(streams[0], 2);
    is_refused(streams[1], UNIT);
    end();
}

/* The default streams are told apart from the created ones, and from each other. */
static void default_streams(bool per_thread)
{
    int gate, freed;

    begin(per_thread ? "per-thread-stream-waits" : "legacy-stream-waits");
    freed = fill(streams[0], 2);
    gate = hold(streams[0]);
    give(freed, streams[0]);
    blocks[block_count] = 0;
    EXPECT_OK(per_thread ? cuMemAllocAsync_ptsz(&blocks[block_count], 2 * UNIT, NULL)
                         : cuMemAllocAsync(&blocks[block_count], 2 * UNIT, NULL));
    block_count++;
    EXPECT(is_waiting(per_thread ? CU_STREAM_PER_THREAD : CU_STREAM_LEGACY));
    /* The legacy stream waits for those of the threads anyway, and not they for its requests.
     */
    EXPECT(per_thread || !is_waiting(streams[3]));
    open_gate(gate);
    EXPECT(comes_through(per_thread ? CU_STREAM_PER_THREAD : CU_STREAM_LEGACY));
    end();
}

static void ended_stream(void)
{
    CUstream stream;
    int gate, freed;

    /* What it takes of the card stays with the context. */
    MUST(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    begin("stream-that-has-ended");
    freed = fill(stream, 2);
    gate = hold(stream);
    give(freed, stream);
    EXPECT_OK(cuStreamDestroy_v2(stream));
    take(streams[1], 2);
    EXPECT(is_waiting(streams[1]));
    open_gate(gate);
    EXPECT(comes_through(streams[1]));
    end();
}

/* While another thread captures in GLOBAL mode. */
static void beside_a_capture(void)
{
    CUgraph graph = NULL;
    int freed;

    begin("beside-a-capture");
    freed = fill(streams[0], 2);
    hold(streams[0]);
    give(freed, streams[0]);
    EXPECT_OK(cuStreamBeginCapture_v2(streams[2], CU_STREAM_CAPTURE_MODE_RELAXED));
    take(streams[1], 2);
    EXPECT(is_waiting(streams[1]));
    EXPECT_OK(cuStreamEndCapture(streams[2], &graph));
    if (graph)
        EXPECT_OK(cuGraphDestroy(graph));
    end();
}

/* Over and over: what is given to one stream after another stays what it is. */
static void in_turns(void)
{
    int held;

    begin("in-turns");
    held = fill(streams[0], 2);
    for (int i = 0; i < 20; i++) {
        CUstream from = streams[i % 2 ? 2 : 0], to = streams[i % 2 ? 0 : 2];
        int gate;

        close_gates();
        gate = hold(from);
        give(held, from);
        block_count--;
        blocks[held] = blocks[block_count];
        blocks[block_count] = 0;
        held = take(to, 2);
        EXPECT(is_waiting(to));
        is_refused(streams[1], UNIT);
        open_gate(gate);
        EXPECT(comes_through(to));
    }
    end();
}

/* ---- requests that wait on the host ---- */

struct helper {
    int gate;
    _Atomic bool go;
};

static void *open_later(void *arg)
{
    struct helper *helper = arg;
    const struct timespec moment = {.tv_nsec = 50000000};

    nanosleep(&moment, NULL);
    open_gate(helper->gate);
    return NULL;
}

static void synchronous_waits(bool helped)
{
    struct helper helper;
    CUdeviceptr direct = SENTINEL;
    pthread_t thread;
    int freed;

    begin(helped ? "synchronous-waits" : "synchronous-gives-up");
    freed = fill(streams[0], 2);
    helper.gate = hold(streams[0]);
    give(freed, streams[0]);
    if (helped) {
        pthread_create(&thread, NULL, open_later, &helper);
        EXPECT_OK(cuMemAlloc_v2(&direct, 2 * UNIT));
        pthread_join(thread, NULL);
        if (direct != SENTINEL)
            EXPECT_OK(cuMemFree_v2(direct));
    } else {
        EXPECT_CODE(cuMemAlloc_v2(&direct, 2 * UNIT), CUDA_ERROR_OUT_OF_MEMORY);
        EXPECT_EQUAL(direct, SENTINEL);
    }
    end();
}

static double now(void)
{
    struct timespec time;

    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec + time.tv_nsec / 1e9;
}

/* GPUBUDGET_WAIT is minutes in these runs: whatever waits for it is found out. */
static void synchronous_does_not_wait_in_vain(void)
{
    double start;
    CUdeviceptr direct = SENTINEL;
    int freed;

    begin("synchronous-does-not-wait-in-vain");
    freed = fill(streams[0], 2);
    hold(streams[0]);
    give(freed, streams[0]);
    start = now();
    EXPECT_CODE(cuMemAlloc_v2(&direct, 4 * UNIT), CUDA_ERROR_OUT_OF_MEMORY);
    is_refused(streams[1], 4 * UNIT);
    EXPECT(now() - start < 60);
    end();
}

/* A block of this size that was freed while more than half of the limit was left; then all else
 * is filled. Answers the gate. */
static int free_far(void)
{
    int most = (int)(info_free() / UNIT);
    int freed = take(streams[0], 1);
    int gate = hold(streams[0]);

    give(freed, streams[0]);
    block_count = 0;
    for (int i = 1; i < most && block_count < 2 * UNITS; i++)
        take(streams[1], 1);
    EXPECT(!is_waiting(streams[1]));
    return gate;
}

/* What was freed while more than half of the limit was left, and is needed when it is not. */
static void freed_far_from_the_limit(void)
{
    CUdeviceptr block = 0;
    int gate;

    begin("freed-far-from-the-limit");
    gate = free_far();
    EXPECT_OK(cuMemAllocAsync(&block, UNIT, streams[3]));
    EXPECT(is_waiting(streams[3]));
    open_gate(gate);
    EXPECT(comes_through(streams[3]));
    if (block)
        EXPECT_OK(cuMemFreeAsync(block, streams[3]));
    end();
}

static void synchronous_waits_for_far(void)
{
    struct helper helper;
    CUdeviceptr direct = SENTINEL;
    pthread_t thread;

    begin("synchronous-waits-for-what-was-freed-far");
    helper.gate = free_far();
    pthread_create(&thread, NULL, open_later, &helper);
    EXPECT_OK(cuMemAlloc_v2(&direct, UNIT));
    pthread_join(thread, NULL);
    if (direct != SENTINEL)
        EXPECT_OK(cuMemFree_v2(direct));
    end();
}

static uint64_t pool_reserved(void)
{
    cuuint64_t bytes = 0;

    MUST(cuMemPoolGetAttribute(main_pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, &bytes));
    return bytes;
}

/* Some streams have freed, the room is full: the request gets what lies there, and waits. */
static void follows_without_growth(size_t bytes)
{
    uint64_t before = pool_reserved();

    take_from(NULL, streams[1], bytes);
    EXPECT(is_waiting(streams[1]));
    EXPECT_EQUAL(pool_reserved(), before);
}

/* What the host has synchronised with is anybody's, whatever lies beside it. */
static void neighbour_synchronised(void)
{
    int first, second;

    begin("neighbour-synchronised");
    first = take_from(NULL, streams[0], 20 * MIB);
    second = take_from(NULL, streams[0], 20 * MIB);
    take_from(NULL, streams[3], UNITS * UNIT - 40 * MIB);
    EXPECT_OK(cuCtxSynchronize());
    give(first, streams[0]);
    EXPECT_OK(cuStreamSynchronize(streams[0]));
    hold(streams[0]);
    give(second, streams[0]);
    take_from(NULL, streams[1], 20 * MIB);
    EXPECT(!is_waiting(streams[1]));
    end();
}

/* The stream that has freed two takes one of them again, by its size: the other one is left,
 * and has a mark of its own. */
static void own_reuse_of_another_mark(void)
{
    int larger, smaller, gate[2];
    CUdeviceptr was;

    begin("own-reuse-of-another-mark");
    larger = take(streams[0], 2);
    take_from(NULL, streams[0], MIB);
    smaller = take(streams[0], 1);
    take_from(NULL, streams[0], MIB);
    for (int i = 4; i < UNITS; i++)
        take(streams[3], 1);
    take_from(NULL, streams[3], UNIT - 32 * MIB);
    EXPECT_OK(cuCtxSynchronize());
    was = blocks[larger];
    gate[0] = hold(streams[0]);
    give(larger, streams[0]);
    gate[1] = hold(streams[0]);
    give(smaller, streams[0]);
    EXPECT_EQUAL(blocks[take(streams[0], 2)], was);
    follows_without_growth(UNIT);
    open_gate(gate[0]);
    EXPECT(is_waiting(streams[1]));
    open_gate(gate[1]);
    EXPECT(comes_through(streams[1]));
    end();
}

/* The stream's own request is served elsewhere: what it has freed is left for others. */
static void own_request_from_idle(void)
{
    int freed, idle;
    CUdeviceptr was;

    begin("own-request-from-idle");
    freed = take_from(NULL, streams[0], 16 * MIB);
    take_from(NULL, streams[3], MIB);
    idle = take_from(NULL, streams[3], 20 * MIB);
    take_from(NULL, streams[3], UNITS * UNIT - 37 * MIB);
    EXPECT_OK(cuCtxSynchronize());
    was = blocks[idle];
    hold(streams[0]);
    give(idle, streams[3]);
    EXPECT_OK(cuStreamSynchronize(streams[3]));
    give(freed, streams[0]);
    EXPECT_EQUAL(blocks[take_from(NULL, streams[0], 20 * MIB)], was);
    follows_without_growth(16 * MIB);
    end();
}

/* A small neighbour, which wants no mark of its own, joins a large one that had one; between
 * them another one may have been freed. */
static void joined_by_a_small_one(bool with_another)
{
    const size_t small = 32 * MIB, apart = with_another ? 16 * MIB : 0;
    int large, neighbour, another = -1;

    begin(with_another ? "joined-after-another" : "joined-by-a-small-one");
    large = take(streams[0], 3);
    neighbour = take_from(NULL, streams[0], small);
    if (with_another) {
        take_from(NULL, streams[3], apart);
        another = take_from(NULL, streams[0], apart);
    }
    take_from(NULL, streams[3], UNIT - small - 2 * apart);
    EXPECT_OK(cuCtxSynchronize());
    hold(streams[0]);
    give(large, streams[0]);
    if (with_another)
        give(another, streams[0]);
    give(neighbour, streams[0]);
    take(streams[3], 4);
    follows_without_growth(3 * UNIT);
    end();
}

static void start(void)
{
    context = start_device(0);
    (void)context;
    for (int i = 0; i < STREAMS; i++)
        MUST(cuStreamCreate(&streams[i], CU_STREAM_NON_BLOCKING));
    make_gates();
    MUST(cuDeviceGetDefaultMemPool(&main_pool, 0));
    /* What default streams take of the card, they take here. */
    for (int i = 0; i < 2; i++) {
        MUST(i ? cuMemAllocAsync_ptsz(&ballast, 1, NULL) : cuMemAllocAsync(&ballast, 1, NULL));
        MUST(cuMemFreeAsync(ballast, streams[0]));
    }
    MUST(cuCtxSynchronize());
    sim_find();
}

static void take_ballast(void)
{
    size_t room = info_free(), wanted = UNITS * UNIT + SPARE;

    if (room > wanted)
        MUST(cuMemAlloc_v2(&ballast, (room - wanted) & ~(2 * MIB - 1)));
}

int main(int count, char **arguments)
{
    const char *part = count > 1 ? arguments[1] : "";

    start();
    if (strcmp(part, "far") == 0) {
        freed_far_from_the_limit();
        return cases_status();
    }
    if (strcmp(part, "far-synchronous") == 0) {
        synchronous_waits_for_far();
        return cases_status();
    }
    take_ballast();
    if (strcmp(part, "long") == 0) {
        synchronous_does_not_wait_in_vain();
        synchronous_waits(true);
        return cases_status();
    }
    waits_for_the_free();
    not_for_later_work();
    not_for_another_stream();
    several_of_a_stream();
    neighbours_of_a_stream();
    if (!charge_is_requested()) {
        neighbour_synchronised();
        own_reuse_of_another_mark();
        own_request_from_idle();
        joined_by_a_small_one(false);
        joined_by_a_small_one(true);
    }
    beyond_the_marks();
    what_the_program_waits_for();
    in_pieces();
    too_little();
    of_another_pool();
    of_a_direct_block();
    pool_that_does_not_follow();
    own_stream();
    default_streams(false);
    default_streams(true);
    ended_stream();
    beside_a_capture();
    in_turns();
    synchronous_waits(false);
    return cases_status();
}
