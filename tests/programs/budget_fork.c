/*
 * budget_fork.c: a forked child.
 *
 *     budget_fork before BITES   a child of a parent that has not started CUDA has the whole
 *                                budget: room for BITES times 64 MiB
 *     budget_fork after          a child of one that has gets the driver's answer, and lives
 *     budget_fork storm FORKS    eight threads allocate while the main thread forks
 */
#define _GNU_SOURCE
#include "budget_program.h"

#include <sys/wait.h>
#include <unistd.h>

enum { THREADS = 8 };

static CUcontext context;
static bool finished;

/* The child's exit status; 100 and more: it did not exit by itself. */
static int child_status(pid_t child)
{
    int status = 0;

    if (child < 0 || waitpid(child, &status, 0) != child)
        return 200;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 100 + WTERMSIG(status);
}

static int bites_until_refused(void)
{
    CUdeviceptr pointer;
    int bites = 0;

    start_device(0);
    while (bites < 1000 && cuMemAlloc_v2(&pointer, 64 * MIB) == CUDA_SUCCESS)
        bites++;
    return bites;
}

static void before(int bites)
{
    pid_t child;

    case_begin("before-child");
    /* The library has been used, without the driver. */
    EXPECT(dlsym(RTLD_DEFAULT, "cuMemAlloc_v2") != NULL);
    child = fork();
    if (child == 0) {
        pid_t grandchild = fork();

        if (grandchild == 0)
            _exit(bites_until_refused());
        if (child_status(grandchild) != bites)
            _exit(99);
        _exit(bites_until_refused());
    }
    EXPECT_EQUAL(child_status(child), bites);
    case_end();
    case_begin("before-parent");
    EXPECT_EQUAL(bites_until_refused(), bites);
    case_end();
}

static int calls_in_child(CUdeviceptr direct, CUdeviceptr ordered)
{
    CUdeviceptr pointer = SENTINEL;
    CUcontext made = NULL;
    size_t left, total;

    if (cuMemAlloc_v2(&pointer, MIB) != CUDA_ERROR_NOT_INITIALIZED || pointer != SENTINEL)
        return 1;
    if (cuMemAllocAsync(&pointer, MIB, NULL) != CUDA_ERROR_NOT_INITIALIZED)
        return 2;
    if (cuMemFree_v2(direct) != CUDA_ERROR_NOT_INITIALIZED)
        return 3;
    if (cuMemFreeAsync(ordered, NULL) != CUDA_ERROR_NOT_INITIALIZED)
        return 4;
    if (cuMemGetInfo_v2(&left, &total) != CUDA_ERROR_NOT_INITIALIZED)
        return 5;
    if (cuDevicePrimaryCtxRetain(&made, 0) != CUDA_ERROR_NOT_INITIALIZED)
        return 6;
    if (cuCtxCreate_v2(&made, 0, 0) != CUDA_ERROR_NOT_INITIALIZED)
        return 7;
    if (cuInit(0) != CUDA_ERROR_NOT_INITIALIZED)
        return 8;
    return 0;
}

static void after(void)
{
    CUdeviceptr direct, ordered;
    uint64_t used;
    pid_t child;

    case_begin("after");
    context = start_device(0);
    MUST(cuMemAlloc_v2(&direct, 10 * MIB));
    MUST(cuMemAllocAsync(&ordered, 10 * MIB, NULL));
    MUST(cuCtxSynchronize());
    used = info_used();
    child = fork();
    if (child == 0)
        _exit(calls_in_child(direct, ordered));
    EXPECT_EQUAL(child_status(child), 0);
    EXPECT_EQUAL(info_used(), used);
    EXPECT_OK(cuMemFree_v2(direct));
    EXPECT_OK(cuMemFree_v2(ordered));
    case_end();
}

static void *allocate_on(void *arg)
{
    bool direct = (intptr_t)arg % 2;
    CUstream stream;

    MUST(cuCtxSetCurrent(context));
    MUST(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    while (!__atomic_load_n(&finished, __ATOMIC_SEQ_CST)) {
        CUdeviceptr pointer;
        CUresult code = direct ? cuMemAlloc_v2(&pointer, 100000)
                               : cuMemAllocAsync(&pointer, 100000, stream);

        if (code == CUDA_SUCCESS)
            EXPECT_OK(direct ? cuMemFree_v2(pointer) : cuMemFreeAsync(pointer, stream));
        else if (code != CUDA_ERROR_OUT_OF_MEMORY)
            case_fails("code %d", (int)code);
    }
    EXPECT_OK(cuStreamSynchronize(stream));
    return NULL;
}

static void storm(unsigned long forks)
{
    pthread_t threads[THREADS];
    unsigned long wrong = 0;
    int first_wrong = 0;
    uint64_t used;

    case_begin("storm");
    context = start_device(0);
    warm_streams(THREADS + 1);
    used = info_used();
    for (int i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, allocate_on, (void *)(intptr_t)i);
    for (unsigned long i = 0; i < forks; i++) {
        pid_t child = fork();
        int status;

        if (child == 0)
            _exit(dlsym(RTLD_DEFAULT, "cuMemAlloc_v2") == NULL ||
                  dlsym(RTLD_NEXT, "malloc") == NULL);
        status = child_status(child);
        if (status != 0 && wrong++ == 0)
            first_wrong = status;
    }
    __atomic_store_n(&finished, true, __ATOMIC_SEQ_CST);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    if (wrong > 0)
        case_fails("%lu of %lu children ended badly, the first with %d", wrong, forks,
                   first_wrong);
    EXPECT_OK(cuCtxSynchronize());
    EXPECT_EQUAL(info_used(), used);
    case_end();
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";
    unsigned long number = argc > 2 ? strtoul(argv[2], NULL, 10) : 0;

    if (strcmp(what, "before") == 0)
        before((int)number);
    else if (strcmp(what, "after") == 0)
        after();
    else if (strcmp(what, "storm") == 0)
        storm(number);
    else
        return 2;
    return cases_status();
}
