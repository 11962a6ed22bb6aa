/*
 * budget_info.c: what a program is told about the size of its cards.
 *
 *     budget_info agree MIB...     every answer, on every device; the limits in MiB
 *     budget_info first MIB        the 32-bit forms, on a card of less than 4 GiB
 *     budget_info green            a green context answers for its device
 *     budget_info told             all that is said to be free can be had, at any filling
 *     budget_info over             more is in use than the limit (GPUBUDGET_ON_LIMIT=report)
 *     budget_info neighbours       other processes come and go; the limit is small
 *     budget_info card             the limit is larger than the card; others hold most of it
 *     budget_info physical         the driver's own answers
 */
#define _GNU_SOURCE
#include "budget_program.h"

enum { DEVICES = 4 };

static unsigned int clamped(uint64_t bytes)
{
    return bytes > UINT32_MAX ? UINT32_MAX : (unsigned int)bytes;
}

static void agree(int count, char **limits)
{
    CUcontext contexts[DEVICES], popped;
    CUdeviceptr blocks[DEVICES];
    size_t left = 77, total = 77, bytes;
    unsigned int narrow;
    int devices = 0;

    case_begin("no-context");
    EXPECT_CODE(cuMemGetInfo_v2(&left, &total), CUDA_ERROR_INVALID_CONTEXT);
    EXPECT_OK(cuDeviceGetCount(&devices));
    EXPECT_EQUAL(devices, count);
    case_end();

    for (int i = 0; i < count; i++) {
        size_t limit = strtoul(limits[i], NULL, 10) * MIB;

        case_begin("device-%d", i);
        EXPECT_OK(cuDeviceTotalMem_v2(&bytes, i));
        EXPECT_EQUAL(bytes, limit);
        EXPECT_OK(cuDeviceTotalMem(&narrow, i));
        EXPECT_EQUAL(narrow, clamped(limit));
        MUST(cuDevicePrimaryCtxRetain(&contexts[i], i));
        MUST(cuCtxPushCurrent_v2(contexts[i]));
        EXPECT_OK(cuMemAlloc_v2(&blocks[i], (size_t)(i + 1) * 10 * MIB));
        EXPECT_OK(cuCtxPopCurrent_v2(&popped));
        case_end();
    }
    /* Each context answers for its own device, whatever was current before. */
    for (int round = 0; round < 2; round++)
        for (int i = count - 1; i >= 0; i--) {
            size_t limit = strtoul(limits[i], NULL, 10) * MIB;
            uint64_t used = (uint64_t)(i + 1) * 10 * MIB;

            case_begin("context-of-device-%d", i);
            if (!charge_is_requested())
                used = sim.live_bytes(i);
            MUST(cuCtxPushCurrent_v2(contexts[i]));
            EXPECT_OK(cuMemGetInfo_v2(&left, &total));
            EXPECT_EQUAL(total, limit);
            EXPECT_EQUAL(left, limit - used);
            left = total = 77;
            EXPECT_OK(cuMemGetInfo_v2(&left, NULL));
            EXPECT_EQUAL(left, limit - used);
            EXPECT_OK(cuMemGetInfo_v2(NULL, &total));
            EXPECT_EQUAL(total, limit);
            EXPECT_OK(cuMemGetInfo_v2(NULL, NULL));
            EXPECT_OK(cuDeviceTotalMem_v2(&bytes, i));
            EXPECT_EQUAL(bytes, limit);
            MUST(cuCtxPopCurrent_v2(&popped));
            case_end();
        }
    for (int i = 0; i < count; i++) {
        MUST(cuCtxPushCurrent_v2(contexts[i]));
        MUST(cuMemFree_v2(blocks[i]));
        MUST(cuCtxPopCurrent_v2(&popped));
    }
}

/* The 32-bit forms, in a context of their time and in one of today. */
static void first_forms(size_t limit)
{
    unsigned int left = 77, total = 77;
    CUcontext context;

    case_begin("first-forms");
    start_device(0);
    EXPECT_CODE(cuMemGetInfo(&left, &total), CUDA_ERROR_INVALID_CONTEXT);
    MUST(cuCtxCreate(&context, 0, 0));
    EXPECT_OK(cuMemGetInfo(&left, &total));
    EXPECT_EQUAL(total, clamped(limit));
    EXPECT_EQUAL(left, clamped(limit - info_used()));
    EXPECT_OK(cuMemGetInfo(NULL, &total));
    EXPECT_OK(cuMemGetInfo(&left, NULL));
    EXPECT_EQUAL(left, clamped(limit - info_used()));
    MUST(cuCtxDestroy(context));
    case_end();
}

static void over(void)
{
    size_t left = 77, total = 77, limit;
    CUdeviceptr block;

    case_begin("over");
    start_device(0);
    limit = info_total();
    EXPECT_OK(cuMemAlloc_v2(&block, limit));
    EXPECT_OK(cuMemGetInfo_v2(&left, &total));
    EXPECT_EQUAL(left, 0);
    EXPECT_EQUAL(total, limit);
    EXPECT_OK(cuMemFree_v2(block));
    EXPECT(info_free() > 0);
    case_end();
}

/* One of the second device, of its processors only a part; the first device is current before.
 */
static void green(void)
{
    CUdevResourceDesc description;
    CUdevResource resource;
    CUcontext as_context;
    CUdeviceptr block;
    CUgreenCtx context;
    size_t total, bytes;

    case_begin("green");
    start_device(0);
    EXPECT_OK(cuDeviceTotalMem_v2(&bytes, 1));
    EXPECT(info_total() != bytes);
    MUST(cuDeviceGetDevResource(1, &resource, CU_DEV_RESOURCE_TYPE_SM));
    MUST(cuDevResourceGenerateDesc(&description, &resource, 1));
    MUST(cuGreenCtxCreate(&context, description, 1, CU_GREEN_CTX_DEFAULT_STREAM));
    MUST(cuCtxFromGreenCtx(&as_context, context));
    MUST(cuCtxSetCurrent(as_context));
    total = info_total();
    EXPECT_EQUAL(total, bytes);
    EXPECT_OK(cuMemAlloc_v2(&block, 10 * MIB));
    EXPECT_EQUAL(info_used(), charge_is_requested() ? 10 * MIB : sim.live_bytes(1));
    EXPECT_OK(cuMemFree_v2(block));
    EXPECT_OK(cuGreenCtxDestroy(context));
    case_end();
}

/*
 * As pools do that begin with a share of what is free and grow by what is left of it: what they
 * were told is granted, by each kind of call.
 */
static void told(void)
{
    static const unsigned shares[] = {2, 3, 1};
    CUdeviceptr blocks[3], more = SENTINEL;
    CUmemoryPool usual;
    uint64_t before;

    start_device(0);
    MUST(cuDeviceGetDefaultMemPool(&usual, 0));
    keep_pool_memory(usual);
    MUST(cuStreamSynchronize(CU_STREAM_PER_THREAD)); /* there from now on, and what it takes */
    for (int ordered = 0; ordered < 2; ordered++) {
        /* What one more step of a pool would take is left to no pool. */
        size_t step = ordered ? 32 * MIB : 2 * MIB;

        case_begin("told-%s", ordered ? "ordered" : "direct");
        before = info_used();
        for (int i = 0; i < 3; i++) {
            size_t bytes = info_free() / shares[i] / step * step;

            EXPECT(bytes >= step);
            EXPECT_OK(ordered ? cuMemAllocAsync(&blocks[i], bytes, CU_STREAM_PER_THREAD)
                              : cuMemAlloc_v2(&blocks[i], bytes));
        }
        EXPECT(info_free() < step);
        EXPECT_CODE(ordered ? cuMemAllocAsync(&more, 2 * step, CU_STREAM_PER_THREAD)
                            : cuMemAlloc_v2(&more, 2 * step),
                    CUDA_ERROR_OUT_OF_MEMORY);
        EXPECT(more == SENTINEL);
        for (int i = 0; i < 3; i++)
            EXPECT_OK(ordered ? cuMemFreeAsync(blocks[i], CU_STREAM_PER_THREAD)
                              : cuMemFree_v2(blocks[i]));
        EXPECT_OK(cuCtxSynchronize());
        EXPECT_OK(cuMemPoolTrimTo(usual, 0));
        EXPECT_EQUAL(info_used(), before);
        case_end();
    }
}

static void neighbours(void)
{
    size_t before, after;

    case_begin("neighbours");
    start_device(0);
    before = info_free();
    EXPECT(before > 0);
    for (int i = 0; i < 20; i++) {
        sim.set_other(0, i % 2 ? 0 : 8 * GIB);
        EXPECT_EQUAL(info_free(), before);
    }
    /* Only when the card itself is short of it. */
    sim.set_other(0, 15 * GIB);
    after = info_free();
    EXPECT(after < before);
    EXPECT_EQUAL(after, 16 * GIB - 15 * GIB - sim.live_bytes(0));
    sim.set_other(0, 0);
    EXPECT_EQUAL(info_free(), before);
    case_end();
}

static void card(void)
{
    case_begin("card");
    start_device(0);
    EXPECT_EQUAL(info_total(), 16 * GIB);
    EXPECT_EQUAL(info_free(), 6 * GIB - sim.live_bytes(0));
    sim.set_other(0, 0);
    EXPECT_EQUAL(info_free(), 16 * GIB - info_used());
    case_end();
}

static void physical(void)
{
    size_t bytes = 0;

    case_begin("physical");
    start_device(0);
    EXPECT_EQUAL(info_total(), 16 * GIB);
    EXPECT_EQUAL(info_free(), 16 * GIB - sim.live_bytes(0));
    EXPECT_OK(cuDeviceTotalMem_v2(&bytes, 0));
    EXPECT_EQUAL(bytes, 16 * GIB);
    case_end();
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";

    sim_needed();
    MUST(cuInit(0));
    if (strcmp(what, "agree") == 0 && argc > 2 && argc - 2 <= DEVICES) {
        agree(argc - 2, argv + 2);
    } else if (strcmp(what, "first") == 0 && argc > 2) {
        first_forms(strtoul(argv[2], NULL, 10) * MIB);
    } else if (strcmp(what, "green") == 0) {
        green();
    } else if (strcmp(what, "told") == 0) {
        told();
    } else if (strcmp(what, "over") == 0) {
        over();
    } else if (strcmp(what, "neighbours") == 0) {
        neighbours();
    } else if (strcmp(what, "card") == 0) {
        card();
    } else if (strcmp(what, "physical") == 0) {
        physical();
    } else {
        return 2;
    }
    return cases_status();
}
