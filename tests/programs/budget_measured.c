/*
 * budget_measured.c: what only the card's own tools can tell: modules and their globals.
 *
 *     budget_measured ROUNDS
 *
 * Runs with a limit of 1 GiB beyond the context.
 */
#define _GNU_SOURCE
#include "budget_program.h"

#include <unistd.h>

#define GLOBAL_BYTES (256 * MIB)

static const char big[] = ".version 7.0\n.target sm_70\n.address_size 64\n"
                          ".global .align 4 .b8 big[268435456];\n";
static const char small[] = ".version 7.0\n.target sm_70\n.address_size 64\n";

static CUcontext context;
static bool requested;

/* What the ledger moves by where the card moves by so much. */
static uint64_t measured(uint64_t bytes)
{
    return requested ? 0 : bytes;
}

static void loaded_and_unloaded(void)
{
    uint64_t used = info_used(), live;
    CUmodule modules[3];

    case_begin("module-comes-and-goes");
    live = sim.live_bytes(0);
    for (int i = 0; i < 3; i++) {
        MUST(cuModuleLoadData(&modules[i], big));
        EXPECT_EQUAL(info_used() - used, measured(sim.live_bytes(0) - live));
        EXPECT(sim.live_bytes(0) - live >= (uint64_t)(i + 1) * GLOBAL_BYTES);
    }
    for (int i = 0; i < 3; i++)
        EXPECT_OK(cuModuleUnload(modules[i]));
    EXPECT_EQUAL(info_used(), used);
    case_end();
}

/* Loads by each function: what does not fit is unloaded again, and the output stays as it was.
 */
static void too_large(void)
{
    void *const untouched = (void *)(uintptr_t)SENTINEL;
    CUdeviceptr filler = 0;
    uint64_t used, live;
    char path[] = "/tmp/budget_measured_XXXXXX";
    int file = mkstemp(path);

    case_begin("module-too-large");
    EXPECT(file >= 0 && write(file, big, sizeof(big)) == (ssize_t)sizeof(big));
    EXPECT_OK(cuMemAlloc_v2(&filler, 1000 * MIB));
    used = info_used();
    live = sim.live_bytes(0);
    for (int i = 0; i < 4 && !requested; i++) {
        CUmodule module = untouched;
        CUresult code = i == 0   ? cuModuleLoadData(&module, big)
                        : i == 1 ? cuModuleLoadDataEx(&module, big, 0, NULL, NULL)
                        : i == 2 ? cuModuleLoadFatBinary(&module, big)
                                 : cuModuleLoad(&module, path);

        /* Not every simulated driver has these. */
        if (code == CUDA_ERROR_NOT_SUPPORTED && i > 0)
            continue;
        EXPECT_EQUAL(code, CUDA_ERROR_OUT_OF_MEMORY);
        EXPECT(module == untouched);
        EXPECT_EQUAL(sim.live_bytes(0), live);
        EXPECT_EQUAL(info_used(), used);
    }
    /* Nothing is sticky: one that takes nothing is loaded, and with room the large one too. */
    {
        CUmodule module = untouched;

        EXPECT_OK(cuModuleLoadData(&module, small));
        EXPECT_OK(cuModuleUnload(module));
        EXPECT_OK(cuMemFree_v2(filler));
        EXPECT_OK(cuModuleLoadData(&module, big));
        EXPECT_OK(cuModuleUnload(module));
    }
    close(file);
    unlink(path);
    case_end();
}

static void driver_errors(void)
{
    void *const untouched = (void *)(uintptr_t)SENTINEL;
    CUmodule module = untouched;
    CUlibrary library = untouched;
    CUstream stream = untouched;
    uint64_t used = info_used();

    case_begin("module-errors-are-the-drivers");
    EXPECT_CODE(cuModuleLoadData(NULL, big), CUDA_ERROR_INVALID_VALUE);
    EXPECT(cuModuleLoadData(&module, "no module") != CUDA_SUCCESS);
    EXPECT(cuModuleLoad(&module, "/nonexistent") != CUDA_SUCCESS);
    EXPECT(cuModuleUnload(untouched) != CUDA_SUCCESS);
    EXPECT(cuLibraryLoadData(&library, "no library", NULL, NULL, 0, NULL, NULL, 0) !=
           CUDA_SUCCESS);
    EXPECT_CODE(cuStreamCreate(NULL, 0), CUDA_ERROR_INVALID_VALUE);
    EXPECT_CODE(cuStreamCreate(&stream, 99), CUDA_ERROR_INVALID_VALUE);
    EXPECT(cuCtxSetLimit((CUlimit)99, 1) != CUDA_SUCCESS);
    EXPECT_OK(cuCtxSetCurrent(NULL));
    EXPECT_CODE(cuModuleLoadData(&module, big), CUDA_ERROR_INVALID_CONTEXT);
    EXPECT_CODE(cuStreamCreate(&stream, 0), CUDA_ERROR_INVALID_CONTEXT);
    EXPECT_OK(cuCtxSetCurrent(context));
    EXPECT_EQUAL(info_used(), used);
    case_end();
}

static void ends_with_its_context(void)
{
    uint64_t used = info_used();
    CUcontext second;
    CUmodule module;

    case_begin("module-ends-with-its-context");
    MUST(cuCtxCreate_v2(&second, 0, 0));
    MUST(cuModuleLoadData(&module, big));
    EXPECT_EQUAL(info_used(), used + measured(sim.context_bytes(0) / 2 + GLOBAL_BYTES));
    EXPECT_OK(cuCtxDestroy_v2(second));
    EXPECT_OK(cuCtxSetCurrent(context));
    EXPECT_EQUAL(info_used(), used);
    case_end();
}

enum { WORKERS = 3 };

static unsigned long rounds;
static bool finished;

static void *allocate_on(void *arg)
{
    CUstream stream;

    (void)arg;
    MUST(cuCtxSetCurrent(context));
    MUST(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    for (unsigned i = 0; !__atomic_load_n(&finished, __ATOMIC_SEQ_CST); i++) {
        CUdeviceptr direct = 0, ordered = 0;

        if (cuMemAlloc_v2(&direct, (i % 40 + 1) * MIB) == CUDA_SUCCESS)
            EXPECT_OK(cuMemFree_v2(direct));
        if (cuMemAllocAsync(&ordered, (i % 70 + 1) * MIB, stream) == CUDA_SUCCESS)
            EXPECT_OK(cuMemFreeAsync(ordered, stream));
    }
    EXPECT_OK(cuStreamDestroy_v2(stream));
    return NULL;
}

/* What others allocate meanwhile must not be taken for the module's. */
static void beside_others(void)
{
    pthread_t threads[WORKERS];
    uint64_t used = info_used(), live = sim.live_bytes(0);
    unsigned long refused = 0;

    case_begin("module-beside-other-threads");
    for (int i = 0; i < WORKERS; i++)
        pthread_create(&threads[i], NULL, allocate_on, NULL);
    for (unsigned long i = 0; i < rounds; i++) {
        CUmodule module;
        CUresult code = cuModuleLoadData(&module, i % 2 ? big : small);

        if (code == CUDA_SUCCESS)
            EXPECT_OK(cuModuleUnload(module));
        else
            refused++;
    }
    __atomic_store_n(&finished, true, __ATOMIC_SEQ_CST);
    for (int i = 0; i < WORKERS; i++)
        pthread_join(threads[i], NULL);
    EXPECT_OK(cuCtxSynchronize());
    /* There was room for all of it all the time. */
    EXPECT_EQUAL(refused, 0);
    usleep(10000);
    /* The threads' streams may have left something behind in the context. */
    EXPECT_EQUAL(info_used(), used + measured(sim.live_bytes(0) - live));
    case_end();
}

int main(int argc, char **argv)
{
    rounds = argc > 1 ? strtoul(argv[1], NULL, 10) : 200;
    sim_needed();
    requested = charge_is_requested();
    context = start_device(0);
    loaded_and_unloaded();
    too_large();
    driver_errors();
    ends_with_its_context();
    beside_others();
    return cases_status();
}
