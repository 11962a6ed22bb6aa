/*
 * budget_faults.c: short sequences, each run once per driver call that can fail in them.
 *
 * A sequence is run once to see which driver calls it makes, the library's own included. Then,
 * for each of them, it is run again with exactly that call failing, for several codes. However
 * far it came, everything is then cleaned up, and the ledger must be what the stand-in's own
 * ledger is, and a request within the budget be granted.
 *
 *     budget_faults SEQUENCE   (or `list`, which prints their names)
 */
#define _GNU_SOURCE
#include "budget_program.h"

enum { MOST_CALLS = 12 };

static CUcontext primary;
static CUcontext context;
static CUstream stream;
static CUdeviceptr first, second;
static CUmemoryPool pool;
static bool retained, holding;

#define BYTES (3 * MIB)

/* Every step may fail; the next one then does with what there is, as a program would. */

static void direct(void)
{
    if (cuMemAlloc_v2(&first, BYTES) == CUDA_SUCCESS && cuMemFree_v2(first) == CUDA_SUCCESS)
        first = 0;
}

static void small(void)
{
    if (cuMemAlloc_v2(&first, 1000) != CUDA_SUCCESS)
        return;
    if (cuMemAlloc_v2(&second, 70000) == CUDA_SUCCESS && cuMemFree_v2(second) == CUDA_SUCCESS)
        second = 0;
    if (cuMemFree_v2(first) == CUDA_SUCCESS)
        first = 0;
}

static void direct_refused(void)
{
    CUdeviceptr unused = SENTINEL;

    if (cuMemAlloc_v2(&first, BYTES) != CUDA_SUCCESS)
        first = 0;
    if (cuMemAlloc_v2(&unused, 2 * GIB) == CUDA_SUCCESS) {
        case_fails("2 GiB were granted");
        cuMemFree_v2(unused);
    } else if (unused != SENTINEL) {
        case_fails("a refused call wrote its output");
    }
}

static void direct_freed_in_order(void)
{
    if (cuMemAlloc_v2(&first, BYTES) == CUDA_SUCCESS &&
        cuMemFreeAsync(first, stream) == CUDA_SUCCESS)
        first = 0;
    cuStreamSynchronize(stream);
}

static void ordered(void)
{
    if (cuMemAllocAsync(&first, BYTES, stream) == CUDA_SUCCESS &&
        cuMemFreeAsync(first, stream) == CUDA_SUCCESS)
        first = 0;
    cuStreamSynchronize(stream);
}

static void ordered_on_default(void)
{
    if (cuMemAllocAsync(&first, BYTES, NULL) == CUDA_SUCCESS &&
        cuMemFreeAsync_ptsz(first, NULL) == CUDA_SUCCESS)
        first = 0;
    cuCtxSynchronize();
}

/* Nearly the whole budget, twice, with the first free still pending: marks, waits, reuse. */
static void ordered_near_limit(void)
{
    sim.hold(stream);
    holding = true;
    if (cuMemAllocAsync(&first, 600 * MIB, stream) == CUDA_SUCCESS &&
        cuMemFreeAsync(first, stream) == CUDA_SUCCESS)
        first = 0;
    if (!first && cuMemAllocAsync(&first, 600 * MIB, stream) == CUDA_SUCCESS &&
        cuMemFreeAsync(first, stream) == CUDA_SUCCESS)
        first = 0;
    sim.release(stream);
    holding = false;
    if (cuMemAlloc_v2(&second, 600 * MIB) == CUDA_SUCCESS &&
        cuMemFree_v2(second) == CUDA_SUCCESS)
        second = 0;
}

static void from_pool(void)
{
    CUmemPoolProps properties;

    memset(&properties, 0, sizeof(properties));
    properties.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    if (cuMemPoolCreate(&pool, &properties) != CUDA_SUCCESS)
        return;
    if (cuMemAllocFromPoolAsync(&first, BYTES, pool, stream) == CUDA_SUCCESS &&
        cuMemFreeAsync(first, stream) == CUDA_SUCCESS)
        first = 0;
    cuStreamSynchronize(stream);
    if (cuMemPoolDestroy(pool) == CUDA_SUCCESS)
        pool = NULL;
}

/* The pool ends before its block does, and another free is still pending. */
static void pool_ends_early(void)
{
    CUmemPoolProps properties;

    memset(&properties, 0, sizeof(properties));
    properties.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    if (cuMemPoolCreate(&pool, &properties) != CUDA_SUCCESS)
        return;
    cuMemAllocFromPoolAsync(&first, BYTES, pool, stream);
    cuMemAllocFromPoolAsync(&second, BYTES, pool, stream);
    sim.hold(stream);
    holding = true;
    if (second && cuMemFreeAsync(second, stream) == CUDA_SUCCESS)
        second = 0;
    if (cuMemPoolDestroy(pool) == CUDA_SUCCESS)
        pool = NULL;
    sim.release(stream);
    holding = false;
    if (first && cuMemFreeAsync(first, stream) == CUDA_SUCCESS)
        first = 0;
    cuStreamSynchronize(stream);
}

static void pool_trimmed_and_switched(void)
{
    CUmemPoolProps properties;
    CUmemoryPool usual;
    cuuint64_t threshold = UINT64_MAX;

    memset(&properties, 0, sizeof(properties));
    properties.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    if (cuMemPoolCreate(&pool, &properties) != CUDA_SUCCESS)
        return;
    cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &threshold);
    cuDeviceSetMemPool(0, pool);
    if (cuMemAllocAsync(&first, BYTES, stream) == CUDA_SUCCESS &&
        cuMemFreeAsync(first, stream) == CUDA_SUCCESS)
        first = 0;
    cuStreamSynchronize(stream);
    cuMemPoolTrimTo(pool, 0);
    if (cuDeviceGetDefaultMemPool(&usual, 0) == CUDA_SUCCESS)
        cuDeviceSetMemPool(0, usual);
    if (cuMemPoolDestroy(pool) == CUDA_SUCCESS)
        pool = NULL;
}

static void second_context(void)
{
    CUdeviceptr lost;

    if (cuCtxCreate_v2(&context, 0, 0) != CUDA_SUCCESS)
        return;
    cuMemAlloc_v2(&lost, BYTES);
    cuMemAlloc_v2(&lost, 500);
    if (cuCtxDestroy_v2(context) == CUDA_SUCCESS)
        context = NULL;
}

static void primary_again(void)
{
    CUcontext same;

    if (cuDevicePrimaryCtxRetain(&same, 0) != CUDA_SUCCESS)
        return;
    retained = true;
    if (cuMemAlloc_v2(&first, BYTES) == CUDA_SUCCESS && cuMemFree_v2(first) == CUDA_SUCCESS)
        first = 0;
    if (cuDevicePrimaryCtxRelease_v2(0) == CUDA_SUCCESS)
        retained = false;
}

/* The primary context ends with a block in it, and begins again. */
static void primary_reset(void)
{
    CUdeviceptr lost;

    cuStreamDestroy_v2(stream);
    cuMemAlloc_v2(&lost, BYTES);
    while (cuDevicePrimaryCtxReset_v2(0) != CUDA_SUCCESS)
        ;
    while (cuDevicePrimaryCtxRetain(&primary, 0) != CUDA_SUCCESS)
        ;
    MUST(cuCtxSetCurrent(primary));
    MUST(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
}

static void stream_ends_early(void)
{
    cuMemAllocAsync(&first, BYTES, stream);
    sim.hold(stream);
    holding = true;
    if (first && cuMemFreeAsync(first, stream) == CUDA_SUCCESS)
        first = 0;
    if (cuStreamDestroy_v2(stream) != CUDA_SUCCESS) {
        sim.release(stream);
        return;
    }
    holding = false;
    MUST(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
}

static void managed(void)
{
    if (cuMemAllocManaged(&first, BYTES, CU_MEM_ATTACH_GLOBAL) == CUDA_SUCCESS &&
        cuMemFree_v2(first) == CUDA_SUCCESS)
        first = 0;
}

static void pitched(void)
{
    size_t pitch;

    if (cuMemAllocPitch_v2(&first, &pitch, 1000, 3000, 4) == CUDA_SUCCESS &&
        cuMemFree_v2(first) == CUDA_SUCCESS)
        first = 0;
}

static const struct {
    const char *name;
    void (*run)(void);
} sequences[] = {
    {"direct", direct},
    {"small", small},
    {"direct-refused", direct_refused},
    {"direct-freed-in-order", direct_freed_in_order},
    {"ordered", ordered},
    {"ordered-on-default", ordered_on_default},
    {"ordered-near-limit", ordered_near_limit},
    {"from-pool", from_pool},
    {"pool-ends-early", pool_ends_early},
    {"pool-trimmed-and-switched", pool_trimmed_and_switched},
    {"second-context", second_context},
    {"primary-again", primary_again},
    {"primary-reset", primary_reset},
    {"stream-ends-early", stream_ends_early},
    {"managed", managed},
    {"pitched", pitched},
};

/*
 * What can be made to fail. Left out: calls without which the program cannot go on, and
 * cuCtxPopCurrent, whose failure would leave a context behind that nobody can take away.
 */
static const char *const names[] = {
    "cuMemAlloc_v2",
    "cuMemAllocPitch_v2",
    "cuMemAllocManaged",
    "cuMemFree_v2",
    "cuMemAllocAsync",
    "cuMemAllocFromPoolAsync",
    "cuMemFreeAsync",
    "cuMemFreeAsync_ptsz",
    "cuMemPoolCreate",
    "cuMemPoolDestroy",
    "cuMemPoolGetAttribute",
    "cuMemPoolSetAttribute",
    "cuMemPoolTrimTo",
    "cuMemGetAddressRange_v2",
    "cuMemGetInfo_v2",
    "cuPointerGetAttribute",
    "cuDeviceGetMemPool",
    "cuDeviceSetMemPool",
    "cuDeviceGetDefaultMemPool",
    "cuDevicePrimaryCtxRetain",
    "cuDevicePrimaryCtxRelease_v2",
    "cuDevicePrimaryCtxReset_v2",
    "cuDevicePrimaryCtxGetState",
    "cuCtxCreate_v2",
    "cuCtxDestroy_v2",
    "cuCtxGetCurrent",
    "cuCtxGetDevice",
    "cuCtxGetApiVersion",
    "cuCtxPushCurrent_v2",
    "cuStreamIsCapturing",
    "cuStreamGetCtx",
    "cuStreamGetDevice",
    "cuStreamDestroy_v2",
    "cuStreamWaitEvent",
    "cuThreadExchangeStreamCaptureMode",
    "cuEventCreate",
    "cuEventRecord",
    "cuEventQuery",
    "cuEventSynchronize",
    "cuEventDestroy_v2",
};
enum { NAMES = sizeof(names) / sizeof(names[0]) };

/* Also counted, so that no call of the sequences is forgotten above. */
static const char *const not_failed[] = {
    "cuCtxSetCurrent", "cuCtxPopCurrent_v2",  "cuCtxSynchronize",
    "cuStreamCreate",  "cuStreamSynchronize",
};

static void clean_up(void)
{
    CUmemoryPool usual;

    sim.fail_clear();
    if (holding)
        sim.release(stream);
    holding = false;
    if (context)
        EXPECT_OK(cuCtxDestroy_v2(context));
    context = NULL;
    MUST(cuCtxSetCurrent(primary));
    if (first)
        EXPECT_OK(cuMemFree_v2(first));
    if (second)
        EXPECT_OK(cuMemFree_v2(second));
    first = second = 0;
    MUST(cuDeviceGetDefaultMemPool(&usual, 0));
    EXPECT_OK(cuDeviceSetMemPool(0, usual));
    if (pool)
        EXPECT_OK(cuMemPoolDestroy(pool));
    pool = NULL;
    if (retained)
        EXPECT_OK(cuDevicePrimaryCtxRelease_v2(0));
    retained = false;
    EXPECT_OK(cuCtxSynchronize());
}

static bool managed_seen;
static int64_t drift; /* of cases that have failed, so that each shows only its own */

static void look(void (*run)(void), const char *what)
{
    uint64_t wanted = charge_is_requested() ? 0 : sim.live_bytes(0) - sim.managed_bytes(0);
    CUdeviceptr pointer = 0;
    uint64_t used;

    managed_seen |= run == managed;
    used = info_used();
    /* The driver's one-time amount, charged with the first managed block that was granted. */
    if (!charge_is_requested() && managed_seen && used == wanted + 128 * MIB)
        wanted += 128 * MIB;
    if (used != wanted + (uint64_t)drift)
        case_fails("%s: the ledger says %" PRIu64 ", not %" PRIu64, what, used,
                   wanted + (uint64_t)drift);
    drift = (int64_t)(used - wanted);
    if (cuMemAlloc_v2(&pointer, 300 * MIB) != CUDA_SUCCESS)
        case_fails("%s: nothing is granted any more", what);
    else
        EXPECT_OK(cuMemFree_v2(pointer));
    if (cuMemAllocAsync(&pointer, 300 * MIB, stream) != CUDA_SUCCESS)
        case_fails("%s: nothing is granted in stream order any more", what);
    else
        EXPECT_OK(cuMemFreeAsync(pointer, stream));
    EXPECT_OK(cuCtxSynchronize());
}

static unsigned long count_of(const char *name)
{
    unsigned long count = sim.calls(name);

    return count < MOST_CALLS ? count : MOST_CALLS;
}

static void run_sequence(const char *label, void (*run)(void))
{
    static const int codes[] = {CUDA_ERROR_OUT_OF_MEMORY, CUDA_ERROR_UNKNOWN,
                                CUDA_ERROR_ILLEGAL_ADDRESS};
    unsigned long counts[NAMES], known = 0;

    case_begin("%s-alone", label);
    sim.reset_counts();
    run();
    for (int i = 0; i < NAMES; i++) {
        counts[i] = count_of(names[i]);
        known += sim.calls(names[i]);
    }
    for (size_t i = 0; i < sizeof(not_failed) / sizeof(not_failed[0]); i++)
        known += sim.calls(not_failed[i]);
    EXPECT_EQUAL(sim.calls("*"), known);
    clean_up();
    look(run, "without a failure");
    case_end();

    for (int i = 0; i < NAMES; i++) {
        if (counts[i] == 0)
            continue;
        case_begin("%s-%s", label, names[i]);
        for (unsigned long nth = 1; nth <= counts[i]; nth++) {
            for (size_t c = 0; c < sizeof(codes) / sizeof(codes[0]); c++) {
                char what[64];

                sim.fail(names[i], nth, codes[c]);
                run();
                clean_up();
                snprintf(what, sizeof(what), "call %lu fails with %d", nth, codes[c]);
                look(run, what);
            }
        }
        case_end();
    }
}

int main(int argc, char **argv)
{
    const char *wanted = argc > 1 ? argv[1] : "list";

    sim_needed();
    for (size_t i = 0; i < sizeof(sequences) / sizeof(sequences[0]); i++) {
        if (strcmp(wanted, "list") == 0)
            printf("%s\n", sequences[i].name);
        if (strcmp(wanted, sequences[i].name) != 0)
            continue;
        primary = start_device(0);
        MUST(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
        run_sequence(sequences[i].name, sequences[i].run);
    }
    return cases_status();
}
