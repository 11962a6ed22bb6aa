/*
 * budget_saver.c: a program under the budget and under another library that replaces its
 * allocations (saver.c), wherever that stands. Pausing gives the budget back, resuming takes
 * it.
 *
 *     budget_saver ROUNDS
 */
#define _GNU_SOURCE
#include "budget_program.h"

enum { BLOCKS = 9 };
#define BLOCK (100 * MIB)

static void (*saver_pause)(void);
static CUresult (*saver_resume)(void);
static uint64_t start;

/* The ledger beyond the start; in footprint mode it is the card's own, too. */
static void expect_used_at(int line, uint64_t bytes)
{
    uint64_t used = info_used() - start;

    if (used != bytes)
        case_fails("line %d: %" PRIu64 " MiB are charged, not %" PRIu64, line, used / MIB,
                   bytes / MIB);
    if (!charge_is_requested() && sim.live_bytes(0) != start + used)
        case_fails("line %d: the card holds something else", line);
}

#define EXPECT_USED(bytes) expect_used_at(__LINE__, (bytes))

int main(int argc, char **argv)
{
    unsigned long rounds = argc > 1 ? strtoul(argv[1], NULL, 10) : 100;
    __typeof__(standin_handle_bytes) *handle_bytes;
    CUdeviceptr blocks[BLOCKS], more = SENTINEL, others[8];

    sim_needed();
    saver_pause = (__typeof__(saver_pause))dlsym(RTLD_DEFAULT, "saver_pause");
    saver_resume = (__typeof__(saver_resume))dlsym(RTLD_DEFAULT, "saver_resume");
    handle_bytes = (__typeof__(handle_bytes))dlsym(RTLD_DEFAULT, "standin_handle_bytes");
    if (!saver_pause || !saver_resume || !handle_bytes)
        return 2;
    start_device(0);
    MUST(cuStreamSynchronize(CU_STREAM_PER_THREAD)); /* there from now on, and what it takes */
    start = info_used();

    case_begin("replaced");
    for (int i = 0; i < BLOCKS; i++)
        EXPECT_OK(cuMemAlloc_v2(&blocks[i], BLOCK));
    EXPECT_EQUAL(handle_bytes(0), BLOCKS * BLOCK); /* once each, and by the other library */
    EXPECT_USED(BLOCKS * BLOCK);
    EXPECT_CODE(cuMemAlloc_v2(&more, 200 * MIB), CUDA_ERROR_OUT_OF_MEMORY);
    EXPECT(more == SENTINEL);
    EXPECT_USED(BLOCKS * BLOCK);
    case_end();

    case_begin("paused");
    saver_pause();
    EXPECT_USED(0);
    for (int i = 0; i < 8; i++) /* what sleeps is another's meanwhile */
        EXPECT_OK(cuMemAllocAsync(&others[i], 96 * MIB, CU_STREAM_PER_THREAD));
    EXPECT_USED(768 * MIB);
    EXPECT_CODE(saver_resume(), CUDA_ERROR_OUT_OF_MEMORY);
    EXPECT_USED(768 * MIB + 2 * BLOCK);
    for (int i = 0; i < 8; i++)
        EXPECT_OK(cuMemFreeAsync(others[i], CU_STREAM_PER_THREAD));
    EXPECT_OK(cuStreamSynchronize(CU_STREAM_PER_THREAD));
    EXPECT_OK(saver_resume());
    EXPECT_USED(BLOCKS * BLOCK);
    case_end();

    case_begin("again-and-again");
    for (unsigned long i = 0; i < rounds; i++) {
        saver_pause();
        EXPECT_USED(0);
        EXPECT_OK(saver_resume());
        EXPECT_USED(BLOCKS * BLOCK);
    }
    EXPECT_CODE(cuMemAlloc_v2(&more, 200 * MIB), CUDA_ERROR_OUT_OF_MEMORY);
    for (int i = 0; i < BLOCKS; i++)
        EXPECT_OK(cuMemFree_v2(blocks[i]));
    EXPECT_USED(0);
    EXPECT_EQUAL(handle_bytes(0), 0);
    case_end();
    return cases_status();
}
