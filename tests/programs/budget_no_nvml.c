/*
 * budget_no_nvml.c: a process whose figure nothing tells: what it takes is estimated by the
 * card's free memory, on a card that others use too. The simulated card's own ledger judges.
 *
 *     budget_no_nvml exact | changing | faults | zero | free | fill SEED
 */
#define _GNU_SOURCE
#include "budget_program.h"

static const char big[] = ".version 7.0\n.target sm_70\n.address_size 64\n"
                          ".global .align 4 .b8 big[67108864];\n";

static __typeof__(standin_neighbour) *neighbour;
static __typeof__(standin_set_nvml_zero) *set_nvml_zero;
static CUcontext context;
static uint64_t limit;
static uint64_t seed = 1;

/* What the process holds by the true ledger; it must stay below its limit. */
static void judge(void)
{
    if (sim.process_bytes(0) > limit)
        case_fails("holds %" PRIu64 " MiB of %" PRIu64, sim.process_bytes(0) / MIB,
                   limit / MIB);
}

/* Charged exactly as the card was moved, and given back with the object. */
static void exact(void)
{
    const CUDA_ARRAY_DESCRIPTOR shape = {1000, 1000, CU_AD_FORMAT_FLOAT, 4};
    uint64_t used = info_used(), live = sim.process_bytes(0);
    CUmodule modules[3];
    CUlibrary library;
    CUdeviceptr global;
    CUstream streams[64];
    CUcontext second;
    CUarray array;

    case_begin("modules");
    for (int i = 0; i < 3; i++) {
        EXPECT_OK(cuModuleLoadData(&modules[i], big));
        EXPECT_EQUAL(info_used() - used, sim.process_bytes(0) - live);
    }
    sim.fail("cuModuleUnload", 1, CUDA_ERROR_UNKNOWN);
    EXPECT_CODE(cuModuleUnload(modules[0]), CUDA_ERROR_UNKNOWN);
    EXPECT_EQUAL(info_used() - used, sim.process_bytes(0) - live);
    for (int i = 0; i < 3; i++)
        EXPECT_OK(cuModuleUnload(modules[i]));
    EXPECT_EQUAL(info_used(), used);
    case_end();

    case_begin("library");
    EXPECT_OK(cuLibraryLoadData(&library, big, NULL, NULL, 0, NULL, NULL, 0));
    EXPECT_OK(cuLibraryGetGlobal(&global, NULL, library, "big"));
    EXPECT_EQUAL(info_used() - used, sim.process_bytes(0) - live);
    EXPECT_OK(cuLibraryUnload(library));
    EXPECT_EQUAL(info_used(), used);
    case_end();

    case_begin("array");
    EXPECT_OK(cuArrayCreate_v2(&array, &shape));
    EXPECT_EQUAL(info_used() - used, sim.process_bytes(0) - live);
    EXPECT(info_used() > used);
    EXPECT_OK(cuArrayDestroy(array));
    EXPECT_EQUAL(info_used(), used);
    case_end();

    case_begin("streams-and-their-context");
    EXPECT_OK(cuCtxCreate_v2(&second, 0, 0));
    for (int i = 0; i < 64; i++)
        EXPECT_OK(cuStreamCreate(&streams[i], CU_STREAM_NON_BLOCKING));
    EXPECT_OK(cuModuleLoadData(&modules[0], big));
    EXPECT_OK(cuCtxSetLimit(CU_LIMIT_PRINTF_FIFO_SIZE, 16 * MIB));
    EXPECT_EQUAL(info_used() - used, sim.process_bytes(0) - live);
    /* What streams took stays with the context. */
    for (int i = 0; i < 64; i++)
        EXPECT_OK(cuStreamDestroy_v2(streams[i]));
    EXPECT_EQUAL(info_used() - used, sim.process_bytes(0) - live);
    EXPECT_OK(cuCtxDestroy_v2(second));
    EXPECT_OK(cuCtxSetCurrent(context));
    EXPECT_EQUAL(info_used(), used);
    EXPECT_EQUAL(sim.process_bytes(0), live);
    case_end();
}

/*
 * What is charged, against what is held. A neighbour that takes less than the budget has left
 * just while the module loads looks like a large module: charged until that is unloaded.
 */
static void expect_charged(uint64_t used, uint64_t live, long long move)
{
    uint64_t held = sim.process_bytes(0) - live;
    uint64_t more = move > 0 && move < (2ll << 30) ? (uint64_t)move : 0;

    EXPECT_EQUAL(info_used() - used, held + more);
}

/* The neighbour moves in the middle of calls: it neither opens the budget nor closes it. */
static void changing(void)
{
    static const long long moves[] = {8ll << 30, -(8ll << 30), 900 << 20, -(900 << 20)};
    uint64_t used = info_used(), live = sim.process_bytes(0);
    CUmodule module;
    CUcontext second;
    CUdeviceptr block;

    sim.set_other(0, 20ull << 30);
    for (size_t i = 0; i < sizeof(moves) / sizeof(moves[0]); i++) {
        case_begin("neighbour-moves-while-a-module-loads-%zu", i);
        neighbour("cuModuleLoadData", 1, moves[i]);
        EXPECT_OK(cuModuleLoadData(&module, big));
        expect_charged(used, live, moves[i]);
        EXPECT_OK(cuModuleUnload(module));
        EXPECT_EQUAL(info_used(), used);
        case_end();
        /* At every load. */
        case_begin("neighbour-moves-at-every-load-%zu", i);
        neighbour("cuModuleLoadData", 0, moves[i]);
        EXPECT_OK(cuModuleLoadData(&module, big));
        expect_charged(used, live, moves[i]);
        EXPECT_OK(cuModuleUnload(module));
        EXPECT_EQUAL(info_used(), used);
        sim.fail_clear();
        case_end();
        case_begin("neighbour-moves-while-a-context-is-made-%zu", i);
        neighbour("cuCtxCreate_v2", 1, moves[i]);
        EXPECT_OK(cuCtxCreate_v2(&second, 0, 0));
        EXPECT(info_used() - used >= sim.process_bytes(0) - live);
        EXPECT(info_used() - used <= 640 * MIB);
        EXPECT_OK(cuCtxDestroy_v2(second));
        EXPECT_OK(cuCtxSetCurrent(context));
        EXPECT_EQUAL(info_used(), used);
        case_end();
    }
    case_begin("nothing-is-refused-for-ever");
    EXPECT_OK(cuMemAlloc_v2(&block, info_free() / (2 * MIB) * (2 * MIB)));
    judge();
    EXPECT_OK(cuMemFree_v2(block));
    case_end();
    sim.set_other(0, 0);
}

/* Fills the budget by everything, whatever comes, while a neighbour comes and goes. */
static void fill(void)
{
    enum { PIECES = 400 };
    static CUmodule modules[PIECES];
    static CUarray arrays[PIECES];
    static CUdeviceptr blocks[PIECES];
    unsigned refused = 0, granted = 0;
    CUstream stream;

    case_begin("fill-%" PRIu64, seed);
    for (int i = 0; i < PIECES; i++) {
        CUDA_ARRAY_DESCRIPTOR shape = {100 + random_next(&seed) % 2000,
                                       1 + random_next(&seed) % 3000, CU_AD_FORMAT_FLOAT, 4};
        CUresult code;

        sim.set_other(0, random_next(&seed) % (20ull << 30));
        switch (random_next(&seed) % 6) {
        case 0:
            code = cuModuleLoadData(&modules[i], big);
            break;
        case 1:
            code = cuArrayCreate_v2(&arrays[i], &shape);
            break;
        case 2:
            code = cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING);
            break;
        case 3:
            code = cuMemAlloc_v2(&blocks[i], random_next(&seed) % (16 * MIB) + 1);
            break;
        default: {
            int gone = (int)(random_next(&seed) % PIECES);

            if (modules[gone])
                EXPECT_OK(cuModuleUnload(modules[gone]));
            if (arrays[gone])
                EXPECT_OK(cuArrayDestroy(arrays[gone]));
            EXPECT_OK(cuMemFree_v2(blocks[gone]));
            modules[gone] = NULL;
            arrays[gone] = NULL;
            blocks[gone] = 0;
            code = CUDA_SUCCESS;
            break;
        }
        }
        if (code != CUDA_SUCCESS)
            EXPECT_EQUAL(code, CUDA_ERROR_OUT_OF_MEMORY);
        refused += code != CUDA_SUCCESS;
        granted += code == CUDA_SUCCESS;
        judge();
    }
    /* It has come to its limit, and has not given up before. */
    EXPECT(refused > 0 && granted > 100);
    EXPECT(sim.process_bytes(0) > limit / 2);
    for (int i = 0; i < PIECES; i++) {
        if (modules[i])
            EXPECT_OK(cuModuleUnload(modules[i]));
        if (arrays[i])
            EXPECT_OK(cuArrayDestroy(arrays[i]));
        EXPECT_OK(cuMemFree_v2(blocks[i]));
    }
    /* Only what streams took is left. */
    EXPECT(info_used() < 840 * MIB);
    sim.set_other(0, 0);
    case_end();
}

/* NVML answers now and then: in the end what it says counts, once. */
static void faults(void)
{
    uint64_t used, live;
    CUmodule modules[4];

    case_begin("nvml-fails-now-and-then");
    EXPECT_OK(cuModuleLoadData(&modules[0], big));
    EXPECT_OK(cuModuleUnload(modules[0]));
    live = sim.process_bytes(0);
    used = info_used();
    for (int round = 0; round < 50; round++) {
        for (int i = 0; i < 4; i++) {
            EXPECT_OK(cuModuleLoadData(&modules[i], big));
            judge();
            if (info_used() + 2 * MIB < sim.process_bytes(0))
                case_fails("round %d: %zu MiB count, and %zu are held", round,
                           (size_t)(info_used() / MIB), (size_t)(sim.process_bytes(0) / MIB));
        }
        for (int i = 0; i < 4; i++)
            EXPECT_OK(cuModuleUnload(modules[i]));
    }
    EXPECT_EQUAL(sim.process_bytes(0), live);
    /* Nothing has piled up. */
    EXPECT(info_used() <= used + 5 * 64 * MIB);
    case_end();
}

/*
 * NVML shows 0 for the process from some moment on, as after a checkpoint, and the right figure
 * again later: what counts goes neither down, so that more is let in, nor up.
 */
static void zero(void)
{
    uint64_t used, live;
    CUdeviceptr block = 0;
    CUmodule early, late;
    CUcontext second;
    CUresult code;

    case_begin("nvml-shows-0");
    EXPECT_OK(cuModuleLoadData(&early, big));
    used = info_used();
    live = sim.process_bytes(0);
    EXPECT(used >= live);
    /* A context is what it was before, whether or not anybody has seen the 0 so far. */
    for (int round = 0; round < 2; round++) {
        set_nvml_zero(1);
        for (int i = 0; i < 2; i++) {
            EXPECT_OK(cuCtxCreate_v4(&second, NULL, 0, 0));
            EXPECT_EQUAL(info_used() - used, sim.process_bytes(0) - live);
            EXPECT_OK(cuCtxDestroy_v2(second));
            EXPECT_OK(cuCtxSetCurrent(context));
            EXPECT_EQUAL(info_used(), used);
        }
        set_nvml_zero(0);
    }
    for (int round = 0; round < 2; round++) {
        set_nvml_zero(1);
        EXPECT_OK(cuModuleLoadData(&late, big));
        EXPECT_EQUAL(info_used() - used, sim.process_bytes(0) - live);
        EXPECT_OK(cuModuleUnload(late));
        EXPECT_EQUAL(info_used(), used);
        /* Filled up by what is charged at the call, then by what is measured. */
        EXPECT_OK(cuMemAlloc_v2(&block, info_free() - 32 * MIB));
        EXPECT_CODE(cuModuleLoadData(&late, big), CUDA_ERROR_OUT_OF_MEMORY);
        judge();
        EXPECT_EQUAL(info_used() - used, sim.process_bytes(0) - live);
        /* In the middle of a full budget. */
        set_nvml_zero(0);
        code = cuModuleLoadData(&late, big);
        EXPECT_EQUAL(code, CUDA_ERROR_OUT_OF_MEMORY);
        judge();
        EXPECT_EQUAL(info_used() - used, sim.process_bytes(0) - live);
        EXPECT_OK(cuMemFree_v2(block));
        EXPECT_OK(cuModuleLoadData(&late, big));
        EXPECT_EQUAL(info_used() - used, sim.process_bytes(0) - live);
        EXPECT_OK(cuModuleUnload(late));
        EXPECT_EQUAL(info_used(), used);
    }
    /* What was there before goes while the figure is 0. */
    set_nvml_zero(1);
    EXPECT_OK(cuModuleUnload(early));
    judge();
    EXPECT(info_used() >= sim.process_bytes(0));
    set_nvml_zero(0);
    EXPECT_OK(cuModuleLoadData(&early, big));
    EXPECT_OK(cuModuleUnload(early));
    EXPECT_EQUAL(info_used(), sim.process_bytes(0));
    case_end();
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "exact";

    sim_needed();
    neighbour = (__typeof__(neighbour))dlsym(RTLD_DEFAULT, "standin_neighbour");
    set_nvml_zero = (__typeof__(set_nvml_zero))dlsym(RTLD_DEFAULT, "standin_set_nvml_zero");
    context = start_device(0);
    limit = info_total();
    if (argc > 2)
        seed = strtoul(argv[2], NULL, 10) * 2654435761u + 1;
    if (strcmp(what, "exact") == 0)
        exact();
    else if (strcmp(what, "changing") == 0)
        changing();
    else if (strcmp(what, "faults") == 0)
        faults();
    else if (strcmp(what, "zero") == 0)
        zero();
    else if (strcmp(what, "free") == 0)
        printf("free %zu\n", info_free() / MIB);
    else
        fill();
    return cases_status();
}
