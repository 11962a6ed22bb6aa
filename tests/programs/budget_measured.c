/*
 * budget_measured.c: what only the card's own tools can tell: modules and their globals.
 *
 *     budget_measured ROUNDS [green]
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

/* The frame of a fat binary: the library reads no text in it, the simulated driver does. */
static const struct {
    unsigned int magic, version;
    const char *content;
} unread = {0x466243b1u, 1, big};

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

/*
 * Its variables come with the load already, where they can be refused, and not a second time.
 */
static void library_at_once(void)
{
    CUlibrary const untouched = (CUlibrary)(uintptr_t)SENTINEL;
    uint64_t used = info_used(), live = sim.live_bytes(0);
    CUlibrary library = untouched;
    CUdeviceptr filler, global = 0;
    CUstream stream;
    CUgraph graph;
    CUresult code = cuLibraryLoadData(&library, big, NULL, NULL, 0, NULL, NULL, 0);

    case_begin("library-at-its-first-use");
    if (code == CUDA_ERROR_NOT_SUPPORTED) {
        case_skipped("a driver without libraries");
        return;
    }
    EXPECT_OK(code);
    EXPECT_OK(cuLibraryGetGlobal(&global, NULL, library, "big"));
    EXPECT_EQUAL(info_used() - used, measured(GLOBAL_BYTES));
    EXPECT_OK(cuLibraryUnload(library));
    EXPECT_EQUAL(info_used(), used);
    EXPECT_EQUAL(sim.live_bytes(0), live);
    /* Of this one nothing can be read beforehand. So beyond the limit it stays, and nothing
     * else is granted until it goes. */
    EXPECT_OK(cuMemAlloc_v2(&filler, 1000 * MIB));
    EXPECT_OK(cuLibraryLoadData(&library, &unread, NULL, NULL, 0, NULL, NULL, 0));
    EXPECT_OK(cuLibraryGetGlobal(&global, NULL, library, "big"));
    if (!requested) {
        CUlibrary further = untouched;

        EXPECT_CODE(cuLibraryLoadData(&further, big, NULL, NULL, 0, NULL, NULL, 0),
                    CUDA_ERROR_OUT_OF_MEMORY);
        EXPECT(further == untouched);
        EXPECT_CODE(cuModuleLoadData((CUmodule *)&further, small), CUDA_ERROR_OUT_OF_MEMORY);
        EXPECT_CODE(cuMemAlloc_v2(&global, 1), CUDA_ERROR_OUT_OF_MEMORY);
    }
    EXPECT_OK(cuLibraryUnload(library));
    EXPECT_OK(cuMemFree_v2(filler));
    EXPECT_EQUAL(info_used(), used);
    /* A capture in another mode is not spoiled by the looks. */
    EXPECT_OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    EXPECT_OK(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    EXPECT_OK(cuLibraryLoadData(&library, big, NULL, NULL, 0, NULL, NULL, 0));
    EXPECT_OK(cuLibraryUnload(library));
    EXPECT_OK(cuStreamEndCapture(stream, &graph));
    EXPECT_OK(cuGraphDestroy(graph));
    EXPECT_OK(cuStreamDestroy_v2(stream));
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

static void *allocate_slowly(void *arg)
{
    (void)arg;
    MUST(cuCtxSetCurrent(context));
    while (!__atomic_load_n(&finished, __ATOMIC_SEQ_CST)) {
        CUdeviceptr pointer = 0;

        /* Enough to hide what the case looks for; so little that the loads fit, however many of
         * these a slow look may have missed. */
        if (cuMemAlloc_v2(&pointer, 24 * MIB) == CUDA_SUCCESS)
            EXPECT_OK(cuMemFree_v2(pointer));
    }
    return NULL;
}

/* A measurement that others disturb misses some: that is found before it would be given out. */
static void hidden_by_others(void)
{
    uint64_t used = info_used(), live = sim.live_bytes(0), limit = info_total();
    CUmodule modules[3];
    pthread_t thread;

    case_begin("module-hidden-by-others");
    if (requested) {
        case_skipped("nothing is measured");
        return;
    }
    for (int round = 0; round < 8; round++) {
        CUdeviceptr pointer = 0;

        __atomic_store_n(&finished, false, __ATOMIC_SEQ_CST);
        /* Almost always in the driver. */
        sim.delay("cuMemAlloc_v2", 3000);
        pthread_create(&thread, NULL, allocate_slowly, NULL);
        for (int i = 0; i < 3; i++)
            EXPECT_OK(cuModuleLoadData(&modules[i], big));
        __atomic_store_n(&finished, true, __ATOMIC_SEQ_CST);
        pthread_join(thread, NULL);
        sim.delay("cuMemAlloc_v2", 0);
        /* A little more than there is room for, before anything else looks. */
        EXPECT_CODE(cuMemAlloc_v2(&pointer, limit - sim.live_bytes(0) + 8 * MIB),
                    CUDA_ERROR_OUT_OF_MEMORY);
        EXPECT_EQUAL(info_used() - used, sim.live_bytes(0) - live);
        for (int i = 0; i < 3; i++)
            EXPECT_OK(cuModuleUnload(modules[i]));
        EXPECT_EQUAL(info_used(), used);
        if (budget_cases.why[0])
            break;
    }
    case_end();
}

/* ---- faults ---- */

static void *taken;
static const CUDA_ARRAY_DESCRIPTOR flat = {1024, 4096, CU_AD_FORMAT_FLOAT, 1};
static const CUDA_ARRAY3D_DESCRIPTOR levels = {1024, 4096, 0, CU_AD_FORMAT_FLOAT, 4, 0};

static CUresult take_module(void)
{
    return cuModuleLoadData((CUmodule *)&taken, big);
}

static CUresult end_module(void)
{
    return cuModuleUnload(taken);
}

static CUresult take_stream(void)
{
    return cuStreamCreate((CUstream *)&taken, 0);
}

static CUresult end_stream(void)
{
    return cuStreamDestroy_v2(taken);
}

static CUresult take_limit(void)
{
    return cuCtxSetLimit(CU_LIMIT_DEV_RUNTIME_PENDING_LAUNCH_COUNT, 400000);
}

static CUresult end_limit(void)
{
    return cuCtxSetLimit(CU_LIMIT_DEV_RUNTIME_PENDING_LAUNCH_COUNT, 2048);
}

static CUresult take_array(void)
{
    return cuArrayCreate_v2((CUarray *)&taken, &flat);
}

static CUresult end_array(void)
{
    return cuArrayDestroy(taken);
}

static CUresult take_mipmapped(void)
{
    return cuMipmappedArrayCreate((CUmipmappedArray *)&taken, &levels, 3);
}

static CUresult end_mipmapped(void)
{
    return cuMipmappedArrayDestroy(taken);
}

static const struct {
    const char *name;
    CUresult (*take)(void), (*end)(void);
} operations[] = {{"module", take_module, end_module},
                  {"stream", take_stream, end_stream},
                  {"limit", take_limit, end_limit},
                  {"array", take_array, end_array},
                  {"mipmapped", take_mipmapped, end_mipmapped}};

static uint64_t in_ledger(void)
{
    uint64_t used = info_used();

    /* What a fault has hidden is asked for again a moment later. */
    if (used != sim.process_bytes(0)) {
        usleep(10000);
        used = info_used();
    }
    return used;
}

/* Each driver call of each operation, and of its end, fails once. */
static void faults(void)
{
    static const int codes[] = {CUDA_ERROR_OUT_OF_MEMORY, CUDA_ERROR_UNKNOWN};
    enum { POSITIONS = 30 };
    uint64_t used = info_used();

    for (size_t i = 0; i < sizeof(operations) / sizeof(operations[0]); i++) {
        case_begin("fault-%s", operations[i].name);
        for (unsigned long n = 0; n < 2 * POSITIONS && !budget_cases.why[0]; n++) {
            CUresult code;

            sim.fail("*", n / 2 + 1, codes[n % 2]);
            code = operations[i].take();
            sim.fail_clear();
            if (!requested)
                EXPECT_EQUAL(in_ledger(), sim.process_bytes(0));
            if (code == CUDA_SUCCESS) {
                sim.fail("*", n / 2 + 1, codes[n % 2]);
                code = operations[i].end();
                sim.fail_clear();
                if (code != CUDA_SUCCESS)
                    EXPECT_OK(operations[i].end());
            }
            if (requested)
                EXPECT_EQUAL(info_used(), used);
            else
                EXPECT_EQUAL(in_ledger(), sim.process_bytes(0));
            if (budget_cases.why[0])
                case_fails("position %lu", n / 2 + 1);
        }
        case_end();
    }
}

/* Where the driver fails to name the device nothing is given out, as by any other call. */
static void unknown_device(void)
{
    void *const untouched = (void *)(uintptr_t)SENTINEL;
    CUmodule module = untouched;

    case_begin("module-of-an-unknown-device");
    sim.fail("cuCtxGetCurrent", 1, CUDA_ERROR_UNKNOWN);
    EXPECT_CODE(cuModuleLoadData(&module, big), CUDA_ERROR_UNKNOWN);
    EXPECT(module == untouched);
    sim.fail_clear();
    case_end();
}

/* A green context that held the only reference to its primary context ends that with it. */
static void green_ends_the_primary(void)
{
    CUdevResourceDesc description;
    CUdevResource resource;
    CUcontext as_context;

    case_begin("green-ends-the-primary");
    MUST(cuInit(0));
    MUST(cuDeviceGetDevResource(0, &resource, CU_DEV_RESOURCE_TYPE_SM));
    MUST(cuDevResourceGenerateDesc(&description, &resource, 1));
    for (int i = 0; i < 3; i++) {
        CUdeviceptr direct, ordered;
        CUstream stream;
        CUgreenCtx green;
        CUmodule module;

        MUST(cuGreenCtxCreate(&green, description, 0, CU_GREEN_CTX_DEFAULT_STREAM));
        MUST(cuCtxFromGreenCtx(&as_context, green));
        MUST(cuCtxSetCurrent(as_context));
        MUST(cuMemAlloc_v2(&direct, 100 * MIB));
        MUST(cuModuleLoadData(&module, big));
        MUST(cuGreenCtxStreamCreate(&stream, green, CU_STREAM_NON_BLOCKING, 0));
        MUST(cuMemAllocAsync(&ordered, 100 * MIB, stream));
        MUST(cuMemFreeAsync(ordered, stream));
        EXPECT_OK(cuGreenCtxDestroy(green));
        context = start_device(0);
        EXPECT_EQUAL(info_used(), requested ? 0 : sim.process_bytes(0));
        EXPECT_OK(cuCtxSetCurrent(NULL));
        EXPECT_OK(cuDevicePrimaryCtxRelease_v2(0));
    }
    EXPECT(cuGreenCtxDestroy(NULL) != CUDA_SUCCESS);
    case_end();
}

/* What a refused green context has taken stays with the primary context, so that the next one
 * would take nothing: of many, only the first may leave something, in the reserve. */
static void refused_again_and_again(void)
{
    CUdevResourceDesc description;
    CUdevResource resource;
    CUdeviceptr filler;

    case_begin("refused-again-and-again");
    MUST(cuDeviceGetDevResource(0, &resource, CU_DEV_RESOURCE_TYPE_SM));
    MUST(cuDevResourceGenerateDesc(&description, &resource, 1));
    MUST(cuMemAlloc_v2(&filler, info_free()));
    for (int i = 0; i < 100; i++) {
        CUgreenCtx green;

        EXPECT_CODE(cuGreenCtxCreate(&green, description, 0, CU_GREEN_CTX_DEFAULT_STREAM),
                    CUDA_ERROR_OUT_OF_MEMORY);
    }
    EXPECT(sim.process_bytes(0) <= info_total());
    /* With room again it is made. */
    MUST(cuMemFree_v2(filler));
    for (int i = 0; i < 3; i++) {
        CUgreenCtx green;

        EXPECT_OK(cuGreenCtxCreate(&green, description, 0, CU_GREEN_CTX_DEFAULT_STREAM));
    }
    case_end();
}

/* A refused call that left nothing is no reason to refuse others, which take nothing, while a
 * part of the reserve is in use. */
static void refused_without_a_trace(void)
{
    CUdeviceptr filler;
    CUgraphExec executable;
    CUgraph graph;
    CUmodule module;
    CUstream streams[12];

    case_begin("refused-without-a-trace");
    MUST(cuMemAlloc_v2(&filler, info_free()));
    for (int i = 0; i < 12; i++)
        MUST(cuStreamCreate(&streams[i], CU_STREAM_NON_BLOCKING));
    EXPECT(sim.process_bytes(0) > info_total() - 16 * MIB);
    EXPECT_CODE(cuModuleLoadData(&module, big), CUDA_ERROR_OUT_OF_MEMORY);
    MUST(cuGraphCreate(&graph, 0));
    EXPECT_OK(cuGraphInstantiateWithFlags(&executable, graph, 0));
    EXPECT(sim.process_bytes(0) <= info_total());
    for (int i = 0; i < 12; i++)
        MUST(cuStreamDestroy_v2(streams[i]));
    MUST(cuGraphExecDestroy(executable));
    MUST(cuGraphDestroy(graph));
    MUST(cuMemFree_v2(filler));
    case_end();
}

/* Nothing can help a request that is larger than the whole limit: the driver is not asked for
 * more than which device it is for. */
static void larger_than_the_limit(void)
{
    const size_t bytes = info_total() + MIB;
    CUdeviceptr pointer = SENTINEL, warm;
    unsigned long before;

    case_begin("larger-than-the-limit");
    EXPECT_CODE(cuMemAlloc_v2(&pointer, bytes), CUDA_ERROR_OUT_OF_MEMORY);
    before = sim.calls("*");
    EXPECT_CODE(cuMemAlloc_v2(&pointer, bytes), CUDA_ERROR_OUT_OF_MEMORY);
    EXPECT(sim.calls("*") - before <= 2);
    /* The device's current pool is known from the first one on. */
    MUST(cuMemAllocAsync(&warm, MIB, NULL));
    MUST(cuMemFreeAsync(warm, NULL));
    before = sim.calls("*");
    /* Does the stream capture, and whose default stream is it: two more. */
    EXPECT_CODE(cuMemAllocAsync(&pointer, bytes, NULL), CUDA_ERROR_OUT_OF_MEMORY);
    EXPECT(sim.calls("*") - before <= 4);
    EXPECT(pointer == SENTINEL);
    case_end();
}

int main(int argc, char **argv)
{
    rounds = argc > 1 ? strtoul(argv[1], NULL, 10) : 200;
    sim_needed();
    requested = charge_is_requested();
    if (argc > 2 && strcmp(argv[2], "leftovers") == 0) {
        context = start_device(0);
        refused_without_a_trace();
        refused_again_and_again();
        return cases_status();
    }
    if (argc > 2) {
        green_ends_the_primary();
        return cases_status();
    }
    context = start_device(0);
    loaded_and_unloaded();
    too_large();
    library_at_once();
    driver_errors();
    ends_with_its_context();
    beside_others();
    hidden_by_others();
    unknown_device();
    larger_than_the_limit();
    faults();
    return cases_status();
}
