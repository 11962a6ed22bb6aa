/*
 * budget_loop.c: patterns that must never be refused, nor made to wait.
 *
 *     budget_loop PATTERN [COUNT]
 *
 * `order`: asynchronous allocate and free of 60 % of the limit, again and again, on a stream of
 * which nothing has run: whoever waited for it would wait for ever. `order-idle`: on an idle
 * one. `small`: ten thousand small blocks freed all but one per 2 MiB region, then a large
 * request. `halve`: the request is halved until it fits, as frameworks do that want most of the
 * card.
 */
#define _GNU_SOURCE
#include "budget_program.h"

static unsigned long count_of_waits(void)
{
    return sim.calls("cuStreamWaitEvent*") + sim.calls("cuStreamSynchronize*") +
           sim.calls("cuCtxSynchronize*");
}

static void order(unsigned long count, bool held)
{
    size_t bytes = info_free() / 5 * 3;
    unsigned long waits, refused = 0;
    CUmemoryPool usual;
    CUdeviceptr pointer;
    CUstream stream;

    case_begin(held ? "order" : "order-idle");
    MUST(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    MUST(cuDeviceGetDefaultMemPool(&usual, 0));
    keep_pool_memory(usual);
    if (held)
        sim.hold(stream);
    waits = count_of_waits();
    for (unsigned long i = 0; i < count; i++) {
        if (cuMemAllocAsync(&pointer, bytes, stream) != CUDA_SUCCESS) {
            refused++;
            continue;
        }
        MUST(cuMemFreeAsync(pointer, stream));
    }
    EXPECT_EQUAL(refused, 0);
    EXPECT_EQUAL(count_of_waits() - waits, 0);
    if (held)
        sim.release(stream);
    EXPECT_OK(cuStreamSynchronize(stream));
    MUST(cuMemPoolTrimTo(usual, 0));
    case_end();
}

/* Regions are 2 MiB-aligned: one block of each stays. */
static void small(size_t bytes)
{
    enum { COUNT = 10000 };
    static CUdeviceptr blocks[COUNT];
    uint64_t limit = info_total(), before = info_used();
    CUdeviceptr kept_region = 0, large = 0;
    unsigned long granted = 0, kept = 0;
    size_t left;

    case_begin("small-%zu", bytes);
    sim.reset_peak(0);
    for (int i = 0; i < COUNT; i++) {
        blocks[i] = 0;
        if (cuMemAlloc_v2(&blocks[i], bytes) == CUDA_SUCCESS)
            granted++;
        else
            blocks[i] = 0;
    }
    EXPECT(granted > 0);
    if (!charge_is_requested())
        EXPECT(sim.live_bytes(0) <= limit);
    for (int i = 0; i < COUNT; i++) {
        if (!blocks[i])
            continue;
        if (blocks[i] >> 21 != kept_region) {
            kept_region = blocks[i] >> 21;
            kept++;
            continue;
        }
        EXPECT_OK(cuMemFree_v2(blocks[i]));
        blocks[i] = 0;
    }
    EXPECT(kept > 0);
    if (!charge_is_requested())
        EXPECT_EQUAL(info_used(), sim.live_bytes(0));
    left = info_free();
    if (!charge_is_requested()) {
        /* What is left is known to the byte, and no more than that is given. */
        EXPECT_CODE(cuMemAlloc_v2(&large, left / (2 * MIB) * (2 * MIB) + 2 * MIB),
                    CUDA_ERROR_OUT_OF_MEMORY);
        if (left >= 2 * MIB)
            EXPECT_OK(cuMemAlloc_v2(&large, left / (2 * MIB) * (2 * MIB)));
        EXPECT(sim.live_bytes(0) <= limit);
        /* In flight: one region that turned out not to fit, given back at once. */
        EXPECT(sim.peak_bytes(0) <= limit + 2 * MIB);
    } else {
        EXPECT_CODE(cuMemAlloc_v2(&large, left + 1), CUDA_ERROR_OUT_OF_MEMORY);
        EXPECT_OK(cuMemAlloc_v2(&large, left));
    }
    if (large)
        EXPECT_OK(cuMemFree_v2(large));
    for (int i = 0; i < COUNT; i++)
        if (blocks[i])
            EXPECT_OK(cuMemFree_v2(blocks[i]));
    EXPECT_EQUAL(info_used(), before);
    case_end();
}

static void halve(bool ordered)
{
    size_t total = info_total(), left = info_free(), bytes;
    unsigned long calls, tries = 0;
    CUdeviceptr pointer = SENTINEL;
    CUresult code;

    case_begin(ordered ? "halve-ordered" : "halve");
    /* Larger than the limit: refused without asking the driver for memory. */
    calls = sim.calls("cuMemAlloc*") + sim.calls("cuMemFree*") + sim.calls("cuMemPoolTrimTo");
    bytes = 16 * total;
    do {
        code =
            ordered ? cuMemAllocAsync(&pointer, bytes, NULL) : cuMemAlloc_v2(&pointer, bytes);
        tries++;
        if (code != CUDA_SUCCESS) {
            if (code != CUDA_ERROR_OUT_OF_MEMORY || pointer != SENTINEL)
                case_fails("code %d", (int)code);
            if (bytes > total && sim.calls("cuMemAlloc*") + sim.calls("cuMemFree*") +
                                         sim.calls("cuMemPoolTrimTo") !=
                                     calls)
                case_fails("the driver was called for %zu bytes", bytes);
            bytes /= 2;
        }
    } while (code != CUDA_SUCCESS && bytes > 0);
    EXPECT(bytes > left / 2 - 32 * MIB);
    EXPECT(tries > 4);
    if (bytes > 0)
        EXPECT_OK(cuMemFree_v2(pointer));

    /* 75 % and 90 % of what is shown as free can be had in one piece. */
    EXPECT_OK(cuMemAlloc_v2(&pointer, left / 4 * 3));
    EXPECT_OK(cuMemFree_v2(pointer));
    EXPECT_OK(cuMemAlloc_v2(&pointer, left / 10 * 9));
    EXPECT_OK(cuMemFree_v2(pointer));
    case_end();
}

int main(int argc, char **argv)
{
    const char *pattern = argc > 1 ? argv[1] : "";
    unsigned long count = argc > 2 ? strtoul(argv[2], NULL, 10) : 100000;

    sim_needed();
    start_device(0);
    if (strcmp(pattern, "order") == 0) {
        order(count, true);
    } else if (strcmp(pattern, "order-idle") == 0) {
        order(count, false);
    } else if (strcmp(pattern, "small") == 0) {
        small(64 * KIB);
        small(KIB);
        small(300000);
    } else if (strcmp(pattern, "halve") == 0) {
        halve(false);
        halve(true);
    } else {
        fprintf(stderr, "usage: budget_loop order|order-idle|small|halve [COUNT]\n");
        return 2;
    }
    return cases_status();
}
