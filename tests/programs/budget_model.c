/*
 * budget_model.c: a randomised run against a model.
 *
 *     budget_model [OPERATIONS [SEED]]
 *
 * Several threads allocate and free in every way, on streams that are held now and then, from
 * pools and in contexts that come and go, while others read, and driver calls fail at random
 * positions. At every rest the ledger (as cuMemGetInfo shows it) must be exactly what the
 * program's own model says and what the stand-in's ledger says.
 * MODEL_FAILURES: one driver call in so many fails (0: none; default 300). MODEL_CONTEXTS=0: no
 * contexts but the primary one; then the peak between rests is looked at as well.
 */
#define _GNU_SOURCE
#include "budget_program.h"

#include <unistd.h>

enum { WORKERS = 4, READERS = 2, SLOTS = 40, STREAMS = 4, POOLS = 2, SHARED = 16, RESTS = 40 };

#define STEP_BYTES (32 * MIB)
#define ONCE_BYTES (128 * MIB) /* of the first managed allocation, footprint mode */

enum kind { NONE, DIRECT, MANAGED, ORDERED };

struct block {
    enum kind kind;
    CUdeviceptr pointer;
    uint64_t bytes;
    bool inner; /* in the worker's own context, not the primary one */
};

struct worker {
    pthread_t thread;
    uint64_t random;
    struct block slots[SLOTS];
    CUstream streams[STREAMS];
    CUmemoryPool pools[POOLS];
    CUcontext context; /* a second one, current while it lives */
    CUstream inner_stream;
    unsigned long refused, granted, failed;
};

static CUcontext primary;
static unsigned long operations;
static unsigned long one_in;
static bool with_contexts, requested;
static struct worker workers[WORKERS];
static struct block shared[SHARED];
static pthread_mutex_t shared_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_barrier_t rest_begins, rest_ends;
static bool finished;
static bool managed_seen;

/*
 * Every driver call but those without which the program itself cannot go on, and the question
 * for the current context, which no driver fails to answer.
 */
static const char may_fail[] =
    "cuMem*,cuEvent*,cuStreamIsCapturing,cuStreamGet*,cuStreamDestroy*,cuStreamWait*,"
    "cuThreadExchange*,cuCtxGetDevice,cuCtxCreate*,cuCtxDestroy*,cuCtxPush*,cuPointer*,"
    "cuDeviceGet*,cuDeviceSet*,cuDeviceTotal*";

static uint64_t below(struct worker *worker, uint64_t bound)
{
    return random_next(&worker->random) % bound;
}

/* Sizes of all orders of magnitude up to 2^most bytes. */
static size_t some_size(struct worker *worker, unsigned most)
{
    return (size_t)1 + below(worker, (uint64_t)1 << (1 + below(worker, most)));
}

static struct block *empty_slot(struct worker *worker)
{
    for (int tries = 0; tries < 8; tries++) {
        struct block *slot = &worker->slots[below(worker, SLOTS)];

        if (slot->kind == NONE)
            return slot;
    }
    return NULL;
}

/*
 * What is about a block of the second context stays on that context's stream: memory of an
 * ended context must not be freed by work that a stream of another one still has before it.
 */
static CUstream some_stream(struct worker *worker, bool inner)
{
    uint64_t choice = below(worker, STREAMS + 2);

    if (inner || (worker->context && choice % 2))
        return worker->inner_stream;
    if (choice == STREAMS)
        return CU_STREAM_PER_THREAD;
    return choice < STREAMS ? worker->streams[choice] : NULL;
}

static void allocate(struct worker *worker)
{
    struct block *slot = empty_slot(worker);
    CUdeviceptr pointer = SENTINEL;
    enum kind kind = ORDERED;
    size_t bytes, pitch = 0;
    CUresult code;

    if (!slot)
        return;
    switch (below(worker, 10)) {
    case 0:
    case 1:
        kind = DIRECT;
        bytes = some_size(worker, 20);
        code = cuMemAlloc_v2(&pointer, bytes);
        break;
    case 2:
        kind = DIRECT;
        bytes = some_size(worker, 24);
        code = cuMemAlloc_v2(&pointer, bytes);
        break;
    case 3:
        kind = DIRECT;
        bytes = 1 + below(worker, 2000);
        code = cuMemAllocPitch_v2(&pointer, &pitch, 1 + below(worker, 3000), bytes, 4);
        bytes *= pitch;
        break;
    case 4:
        kind = MANAGED;
        bytes = some_size(worker, 22);
        code = cuMemAllocManaged(&pointer, bytes, CU_MEM_ATTACH_GLOBAL);
        break;
    case 5:
        bytes = some_size(worker, 24);
        code = cuMemAllocAsync_ptsz(&pointer, bytes, some_stream(worker, false));
        break;
    case 6:
    case 7:
        bytes = some_size(worker, 24);
        code = cuMemAllocFromPoolAsync(&pointer, bytes, worker->pools[below(worker, POOLS)],
                                       some_stream(worker, false));
        break;
    default:
        bytes = some_size(worker, 24);
        code = cuMemAllocAsync(&pointer, bytes, some_stream(worker, false));
        break;
    }
    if (code != CUDA_SUCCESS) {
        if (pointer != SENTINEL)
            case_fails("a call that failed with %d wrote its output", (int)code);
        worker->refused += code == CUDA_ERROR_OUT_OF_MEMORY;
        worker->failed += code != CUDA_ERROR_OUT_OF_MEMORY;
        return;
    }
    worker->granted++;
    if (kind == MANAGED)
        __atomic_store_n(&managed_seen, true, __ATOMIC_SEQ_CST);
    *slot = (struct block){kind, pointer, bytes, worker->context != NULL && kind != ORDERED};
}

/* The block stays where the driver's free fails. */
static void give_back(struct worker *worker, struct block *slot)
{
    CUresult code;

    if (slot->kind == NONE)
        return;
    /* The driver frees managed memory at once only. */
    switch (slot->kind == MANAGED ? 0 : below(worker, 4)) {
    case 0:
        code = cuMemFree_v2(slot->pointer);
        break;
    case 1:
        code = cuMemFreeAsync_ptsz(slot->pointer, some_stream(worker, slot->inner));
        break;
    default:
        code = cuMemFreeAsync(slot->pointer, some_stream(worker, slot->inner));
        break;
    }
    if (code == CUDA_SUCCESS)
        *slot = (struct block){0};
    else
        worker->failed++;
}

/* Blocks wander between the threads, so that one frees what another has allocated. */
static void exchange(struct worker *worker)
{
    struct block *mine = &worker->slots[below(worker, SLOTS)];
    struct block *theirs = &shared[below(worker, SHARED)];
    struct block held;

    if (mine->inner)
        return;
    pthread_mutex_lock(&shared_lock);
    held = *theirs;
    *theirs = *mine;
    *mine = held;
    pthread_mutex_unlock(&shared_lock);
}

static CUmemoryPool pool_of_device(void)
{
    CUmemPoolProps properties;
    CUmemoryPool pool = NULL;

    memset(&properties, 0, sizeof(properties));
    properties.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    while (cuMemPoolCreate(&pool, &properties) != CUDA_SUCCESS)
        ;
    return pool;
}

static void change_pool(struct worker *worker)
{
    CUmemoryPool *pool = &worker->pools[below(worker, POOLS)];
    cuuint64_t threshold = below(worker, 3) * 64 * MIB;

    switch (below(worker, 8)) {
    case 0:
    case 1:
        cuDeviceSetMemPool(0, *pool);
        break;
    case 2:
        cuMemPoolSetAttribute(*pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &threshold);
        break;
    default:
        cuMemPoolTrimTo(*pool, below(worker, 3) * STEP_BYTES);
        break;
    }
}

static void change_stream(struct worker *worker)
{
    unsigned index = (unsigned)below(worker, STREAMS);
    CUstream *stream = &worker->streams[index], made;

    switch (below(worker, 4)) {
    case 0:
        if (cuStreamDestroy_v2(*stream) != CUDA_SUCCESS)
            break;
        MUST(cuCtxSetCurrent(primary));
        MUST(cuStreamCreate(&made, CU_STREAM_NON_BLOCKING));
        __atomic_store_n(stream, made, __ATOMIC_SEQ_CST);
        if (worker->context)
            MUST(cuCtxSetCurrent(worker->context));
        break;
    case 1:
        sim.hold(*stream);
        break;
    default:
        sim.release(*stream);
        cuStreamSynchronize(*stream);
        break;
    }
}

static void leave_context(struct worker *worker)
{
    while (cuCtxDestroy_v2(worker->context) != CUDA_SUCCESS)
        ;
    worker->context = NULL;
    MUST(cuCtxSetCurrent(primary));
    /* Direct and managed blocks end with their context. */
    for (int i = 0; i < SLOTS; i++)
        if (worker->slots[i].inner)
            worker->slots[i] = (struct block){0};
}

static void change_context(struct worker *worker)
{
    if (worker->context) {
        if (below(worker, 4) == 0)
            leave_context(worker);
        return;
    }
    if (!with_contexts || below(worker, 8) ||
        cuCtxCreate_v2(&worker->context, 0, 0) != CUDA_SUCCESS) {
        worker->context = NULL;
        return;
    }
    MUST(cuStreamCreate(&worker->inner_stream, CU_STREAM_NON_BLOCKING));
}

static void work_once(struct worker *worker)
{
    uint64_t choice = below(worker, 1000);

    if (choice < 480)
        allocate(worker);
    else if (choice < 900)
        give_back(worker, &worker->slots[below(worker, SLOTS)]);
    else if (choice < 950)
        exchange(worker);
    else if (choice < 970)
        change_pool(worker);
    else if (choice < 990)
        change_stream(worker);
    else
        change_context(worker);
}

static void use_own_stream(void)
{
    CUdeviceptr pointer;

    if (cuMemAllocAsync_ptsz(&pointer, 1, NULL) == CUDA_SUCCESS)
        MUST(cuMemFreeAsync_ptsz(pointer, NULL));
}

static void *work(void *arg)
{
    struct worker *worker = arg;

    MUST(cuCtxSetCurrent(primary));
    for (int rest = 0; rest < RESTS; rest++) {
        for (unsigned long i = 0; i < operations / WORKERS / RESTS; i++)
            work_once(worker);
        if (worker->context)
            leave_context(worker);
        pthread_barrier_wait(&rest_begins);
        /* No failures from here on. What a thread's own default stream has done only the thread
         * itself can show, at its next free. */
        pthread_barrier_wait(&rest_begins);
        for (int i = 0; i < 3; i++)
            use_own_stream();
        pthread_barrier_wait(&rest_begins);
        pthread_barrier_wait(&rest_ends);
    }
    return NULL;
}

/*
 * Frees of direct memory, and the ends of contexts, wait for every stream: so no stream is held
 * for long.
 */
static void open_streams(void)
{
    for (int w = 0; w < WORKERS; w++)
        for (int i = 0; i < STREAMS; i++)
            sim.release(__atomic_load_n(&workers[w].streams[i], __ATOMIC_SEQ_CST));
}

static void *read_on(void *arg)
{
    bool opens = arg != NULL;

    MUST(cuCtxSetCurrent(primary));
    while (!__atomic_load_n(&finished, __ATOMIC_SEQ_CST)) {
        CUmemoryPool pool = NULL;
        cuuint64_t bytes;
        size_t left = 0, total = 0;

        /* Only the default pool cannot be destroyed under a reader. */
        if (cuDeviceGetDefaultMemPool(&pool, 0) == CUDA_SUCCESS) {
            cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, &bytes);
            cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &bytes);
        }
        if (cuMemGetInfo_v2(&left, &total) == CUDA_SUCCESS && left > total)
            case_fails("%zu bytes free of %zu", left, total);
        if (opens)
            open_streams();
        usleep(50);
    }
    return NULL;
}

static uint64_t model_bytes(enum kind wanted, bool all)
{
    uint64_t bytes = 0;

    for (int w = 0; w < WORKERS; w++)
        for (int i = 0; i < SLOTS; i++)
            if (workers[w].slots[i].kind != NONE && (all || workers[w].slots[i].kind == wanted))
                bytes += workers[w].slots[i].bytes;
    for (int i = 0; i < SHARED; i++)
        if (shared[i].kind != NONE && (all || shared[i].kind == wanted))
            bytes += shared[i].bytes;
    return bytes;
}

/* Exact: nothing is left of pools that were destroyed, whose charge goes with the last block.
 */
static void compare(const char *when, bool exact)
{
    uint64_t used = 0, wanted = 0;

    /* A reader may be in the middle of asking about a stream: then that one counts as it was.
     */
    for (int tries = 0; tries < 200; tries++) {
        used = info_used();
        if (requested) {
            wanted = model_bytes(NONE, true);
        } else {
            wanted = sim.live_bytes(0) - sim.managed_bytes(0) + model_bytes(MANAGED, false);
            if (managed_seen)
                wanted += ONCE_BYTES;
        }
        /* More than the limit cannot be shown. It is there for a moment where the growth of a
         * pool has to be undone, and stays where the driver fails to undo it. */
        if (used == wanted || (!exact && used > wanted))
            return;
        if (used < wanted && used == info_total() && (!exact || one_in > 0))
            return;
        usleep(1000);
    }
    case_fails("%s: the ledger says %" PRIu64 ", not %" PRIu64 " (%+" PRId64 ")", when, used,
               wanted, (int64_t)(used - wanted));
}

static void failures(bool on, uint64_t seed)
{
    static const int codes[] = {CUDA_ERROR_OUT_OF_MEMORY, CUDA_ERROR_UNKNOWN,
                                CUDA_ERROR_ILLEGAL_ADDRESS};

    if (!on || one_in == 0) {
        sim.fail_clear();
        return;
    }
    sim.fail_random_names(may_fail);
    sim.fail_random_code(codes[seed % 3]);
    sim.fail_random(seed, one_in);
}

static void settle_everything(void)
{
    for (int w = 0; w < WORKERS; w++)
        for (int i = 0; i < STREAMS; i++)
            sim.release(workers[w].streams[i]);
    MUST(cuCtxSynchronize());
}

static bool pool_lives(CUmemoryPool pool)
{
    CUmemoryPool usual = NULL;

    MUST(cuDeviceGetDefaultMemPool(&usual, 0));
    if (pool == usual)
        return true;
    for (int w = 0; w < WORKERS; w++)
        for (int i = 0; i < POOLS; i++)
            if (workers[w].pools[i] == pool)
                return true;
    return false;
}

static void free_orphan(struct block *block)
{
    CUmemoryPool pool = NULL;

    if (block->kind != ORDERED)
        return;
    MUST(cuPointerGetAttribute(&pool, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, block->pointer));
    if (pool_lives(pool))
        return;
    MUST(cuMemFree_v2(block->pointer));
    *block = (struct block){0};
}

static void free_orphans(void)
{
    for (int w = 0; w < WORKERS; w++)
        for (int i = 0; i < SLOTS; i++)
            free_orphan(&workers[w].slots[i]);
    for (int i = 0; i < SHARED; i++)
        free_orphan(&shared[i]);
}

/*
 * Some pools end with whatever live blocks and pending frees they have; the workers go on to
 * free these. Not while they are at it: a free that races with the end of its own pool leaves
 * that pool's charge, which is documented.
 */
static void end_pools(uint64_t random)
{
    for (int w = 0; w < WORKERS; w++) {
        CUmemoryPool *pool = &workers[w].pools[random_next(&random) % POOLS];

        for (int i = 0; i < SLOTS; i++)
            if (workers[w].slots[i].kind == ORDERED && i % 4 == 0)
                give_back(&workers[w], &workers[w].slots[i]);
        if (random_next(&random) % 2)
            continue;
        MUST(cuMemPoolDestroy(*pool));
        *pool = pool_of_device();
    }
}

/* All workers stand still, the readers go on. */
static void rest(int number, uint64_t seed)
{
    size_t limit = info_total();

    if (!requested) {
        compare("with streams held", false);
        /* What a pool has grown by against its bound is undone, and may wait for a stream. */
        if (sim.live_bytes(0) > limit + STEP_BYTES)
            case_fails("%" PRIu64 " bytes live with a limit of %zu", sim.live_bytes(0), limit);
        if (!with_contexts && sim.peak_bytes(0) > limit + STEP_BYTES)
            case_fails("a peak of %" PRIu64 " with a limit of %zu", sim.peak_bytes(0), limit);
    } else {
        uint64_t used = info_used(), live = model_bytes(NONE, true);

        /* More than the limit cannot be shown, nor is it there unless the driver has failed to
         * undo a grant. */
        if (used < live && (one_in == 0 || used != limit))
            case_fails("%" PRIu64 " charged, %" PRIu64 " live with a limit of %zu", used, live,
                       limit);
    }
    free_orphans();
    settle_everything();
    compare("at rest", true);
    if (!requested && one_in == 0 && sim.live_bytes(0) > limit)
        case_fails("at rest: %" PRIu64 " bytes live with a limit of %zu", sim.live_bytes(0),
                   limit);
    end_pools(seed + (uint64_t)number);
    sim.reset_peak(0);
    failures(number + 1 < RESTS, seed + (uint64_t)number);
}

static void free_everything(void)
{
    for (int w = 0; w < WORKERS; w++)
        for (int i = 0; i < SLOTS; i++)
            while (workers[w].slots[i].kind != NONE)
                give_back(&workers[w], &workers[w].slots[i]);
    for (int i = 0; i < SHARED; i++)
        while (shared[i].kind != NONE)
            give_back(&workers[0], &shared[i]);
    settle_everything();
    for (int w = 0; w < WORKERS; w++)
        for (int i = 0; i < POOLS; i++)
            MUST(cuMemPoolDestroy(workers[w].pools[i]));
}

int main(int argc, char **argv)
{
    uint64_t seed = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;
    unsigned long granted = 0, refused = 0, failed = 0;
    pthread_t readers[READERS];
    uint64_t before;

    operations = argc > 1 ? strtoul(argv[1], NULL, 10) : 200000;
    sim_needed();
    one_in = number_from("MODEL_FAILURES", 300);
    with_contexts = number_from("MODEL_CONTEXTS", 1) != 0;
    requested = charge_is_requested();
    primary = start_device(0);
    before = info_used();
    case_begin("model-seed-%" PRIu64, seed);
    pthread_barrier_init(&rest_begins, NULL, WORKERS + 1);
    pthread_barrier_init(&rest_ends, NULL, WORKERS + 1);
    for (int w = 0; w < WORKERS; w++) {
        workers[w].random = (seed * WORKERS + (uint64_t)w) * UINT64_C(0x9e3779b97f4a7c15) + 1;
        for (int i = 0; i < STREAMS; i++)
            MUST(cuStreamCreate(&workers[w].streams[i], CU_STREAM_NON_BLOCKING));
        for (int i = 0; i < POOLS; i++)
            workers[w].pools[i] = pool_of_device();
    }
    failures(true, seed);
    for (int w = 0; w < WORKERS; w++)
        pthread_create(&workers[w].thread, NULL, work, &workers[w]);
    for (int i = 0; i < READERS; i++)
        pthread_create(&readers[i], NULL, read_on, i == 0 ? primary : NULL);
    for (int i = 0; i < RESTS; i++) {
        pthread_barrier_wait(&rest_begins);
        failures(false, 0);
        pthread_barrier_wait(&rest_begins);
        pthread_barrier_wait(&rest_begins);
        rest(i, seed);
        pthread_barrier_wait(&rest_ends);
    }
    for (int w = 0; w < WORKERS; w++)
        pthread_join(workers[w].thread, NULL);
    free_everything();
    compare("at the end", true);
    __atomic_store_n(&finished, true, __ATOMIC_SEQ_CST);
    for (int i = 0; i < READERS; i++)
        pthread_join(readers[i], NULL);
    /* What streams have taken stays with their context. */
    if (!requested)
        before = sim.live_bytes(0) - sim.managed_bytes(0) + (managed_seen ? ONCE_BYTES : 0);
    EXPECT_EQUAL(info_used(), before);
    for (int w = 0; w < WORKERS; w++) {
        granted += workers[w].granted;
        refused += workers[w].refused;
        failed += workers[w].failed;
    }
    printf("# granted %lu, refused %lu, failed otherwise %lu\n", granted, refused, failed);
    /* A run that never meets the limit, or never gets anything, shows nothing. */
    EXPECT(granted > operations / 20);
    EXPECT(refused > operations / 500);
    case_end();
    return cases_status();
}
