/*
 * budget_race.c: sixteen threads race for the last bites of the budget.
 *
 *     budget_race KIND ROUNDS
 *
 * KIND is direct, async, pool, mixed (direct and stream-ordered at once), small (blocks that
 * share a region) or step (stream-ordered ones that share a step of the pool's growth); of the
 * last two all must fit. In every round exactly as many succeed as fit.
 */
#define _GNU_SOURCE
#include "budget_program.h"

enum { THREADS = 16, MOST_FILLERS = 4096 };

enum kind { DIRECT, ASYNC, POOL, MIXED, SMALL, STEP };

static CUcontext context;
static CUmemoryPool pool;
static enum kind kind;
static size_t bite;
static unsigned long rounds;
static pthread_barrier_t start, done;
static int successes;
static CUdeviceptr taken[THREADS];
static CUstream streams[THREADS];

static bool is_direct(int thread)
{
    return kind == DIRECT || kind == SMALL || (kind == MIXED && thread % 2 == 0);
}

static CUresult take(int thread, CUdeviceptr *pointer)
{
    if (is_direct(thread))
        return cuMemAlloc_v2(pointer, bite);
    if (kind == POOL)
        return cuMemAllocFromPoolAsync(pointer, bite, pool, streams[thread]);
    return cuMemAllocAsync(pointer, bite, streams[thread]);
}

static CUresult give(int thread, CUdeviceptr pointer)
{
    if (is_direct(thread))
        return cuMemFree_v2(pointer);
    return cuMemFreeAsync(pointer, streams[thread]);
}

static void *racer(void *arg)
{
    int thread = (int)(intptr_t)arg;

    EXPECT_OK(cuCtxSetCurrent(context));
    for (unsigned long round = 0; round < rounds; round++) {
        CUdeviceptr pointer = SENTINEL;
        CUresult code;

        pthread_barrier_wait(&start);
        code = take(thread, &pointer);
        if (code == CUDA_SUCCESS)
            __atomic_fetch_add(&successes, 1, __ATOMIC_SEQ_CST);
        else if (code != CUDA_ERROR_OUT_OF_MEMORY || pointer != SENTINEL)
            case_fails("round %lu: code %d, pointer %llx", round, (int)code, pointer);
        taken[thread] = code == CUDA_SUCCESS ? pointer : 0;
        pthread_barrier_wait(&done);
        /* main looks at the count and settles; then all give back. */
        pthread_barrier_wait(&start);
        if (taken[thread] && give(thread, taken[thread]) != CUDA_SUCCESS)
            case_fails("round %lu: the free fails", round);
        pthread_barrier_wait(&done);
    }
    return NULL;
}

static CUdeviceptr fillers[MOST_FILLERS];
static int filler_count;

static bool filler_fits(size_t bytes)
{
    if (filler_count == MOST_FILLERS || cuMemAlloc_v2(&fillers[filler_count], bytes) != 0)
        return false;
    filler_count++;
    return true;
}

/*
 * Takes everything but room for `bites` bites. What is over and no bite is taken too where it
 * can be: a filler that is too small for the next bite.
 */
static void leave_room(size_t room)
{
    size_t left = info_free();

    if (left > room)
        filler_fits((left - room) / (2 * MIB) * (2 * MIB));
    if (charge_is_requested() && info_free() > room)
        filler_fits(info_free() - room);
}

static void one_run(int fitting)
{
    pthread_t threads[THREADS];
    unsigned long wrong = 0;
    int first_wrong = 0;

    case_begin("race-%d-fit", fitting);
    for (int i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, racer, (void *)(intptr_t)i);
    for (unsigned long round = 0; round < rounds; round++) {
        successes = 0;
        pthread_barrier_wait(&start);
        pthread_barrier_wait(&done);
        if (successes != fitting) {
            if (wrong++ == 0)
                first_wrong = successes;
        }
        pthread_barrier_wait(&start);
        pthread_barrier_wait(&done);
        /* Idle pools give their memory back here, as the card does at a synchronisation. */
        EXPECT_OK(cuCtxSynchronize());
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    if (wrong > 0)
        case_fails("%lu of %lu rounds were wrong; the first granted %d", wrong, rounds,
                   first_wrong);
    case_end();
}

int main(int argc, char **argv)
{
    static const char *const kinds[] = {"direct", "async", "pool", "mixed", "small", "step"};
    static const int fits[] = {1, 3, 8};
    size_t room;

    rounds = argc > 2 ? strtoul(argv[2], NULL, 10) : 0;
    for (kind = DIRECT; kind <= STEP && (argc < 2 || strcmp(argv[1], kinds[kind])); kind++)
        ;
    if (kind > STEP || rounds == 0) {
        fprintf(stderr, "usage: budget_race direct|async|pool|mixed|small|step ROUNDS\n");
        return 2;
    }
    context = start_device(0);
    pool = make_pool(0);
    for (int i = 0; i < THREADS; i++)
        MUST(cuStreamCreate(&streams[i], CU_STREAM_NON_BLOCKING));
    pthread_barrier_init(&start, NULL, THREADS + 1);
    pthread_barrier_init(&done, NULL, THREADS + 1);

    /* In footprint mode a pool grows by 32 MiB, whatever is asked for. */
    bite = kind == SMALL ? 64 * KIB : kind == STEP ? MIB : kind == DIRECT ? 2 * MIB : 32 * MIB;
    if (charge_is_requested())
        bite -= 511; /* odd sizes are charged as they are */
    for (size_t i = 0; i < sizeof(fits) / sizeof(fits[0]); i++) {
        bool share = kind == SMALL || kind == STEP;
        int fitting = share ? THREADS : fits[i];

        room = bite * (size_t)fitting;
        /* All share the last region, or the last step. */
        if (share && !charge_is_requested())
            room = kind == SMALL ? 2 * MIB : 32 * MIB;
        leave_room(room);
        one_run(fitting);
        while (filler_count > 0)
            EXPECT_OK(cuMemFree_v2(fillers[--filler_count]));
        if (share)
            break;
    }
    EXPECT_OK(cuCtxSynchronize());
    return cases_status();
}
