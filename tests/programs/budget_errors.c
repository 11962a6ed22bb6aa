/*
 * budget_errors.c: wrong calls, and what they answer.
 *
 * Prints one line per call: its code, and what became of its outputs. The lines must be the
 * same with and without the library, whatever the budget has left; the script compares. A line
 * `ledger` ends the program: the wrong calls have changed nothing.
 *
 *     budget_errors [full]
 *
 * `full` first takes all that the budget has: wrong calls are then answered as before.
 */
#define _GNU_SOURCE
#include "budget_program.h"

static CUdeviceptr pointer;
static size_t size, size2;

/* What the call left in its output: nothing, zero, or something. */
static const char *left(uint64_t seen, uint64_t before)
{
    return seen == before ? "untouched" : seen == 0 ? "zero" : "written";
}

#define SHOW(call)                                                                             \
    do {                                                                                       \
        CUresult code_;                                                                        \
        pointer = SENTINEL;                                                                    \
        size = size2 = 77;                                                                     \
        code_ = (call);                                                                        \
        printf("%-64s %3d pointer %s, sizes %s %s\n", #call, (int)code_,                       \
               left(pointer, SENTINEL), left(size, 77), left(size2, 77));                      \
    } while (0)

static void before_init(void)
{
    CUcontext context = (CUcontext)SENTINEL;
    CUmemoryPool pool = NULL;
    int count = 7;

    SHOW(cuMemAlloc_v2(&pointer, 4096));
    SHOW(cuMemAlloc_v2(NULL, 4096));
    SHOW(cuMemAllocPitch_v2(&pointer, &size, 100, 100, 4));
    SHOW(cuMemAllocManaged(&pointer, 4096, CU_MEM_ATTACH_GLOBAL));
    SHOW(cuMemAllocAsync(&pointer, 4096, NULL));
    SHOW(cuMemAllocAsync_ptsz(&pointer, 4096, NULL));
    SHOW(cuMemAllocFromPoolAsync(&pointer, 4096, pool, NULL));
    SHOW(cuMemFree_v2(4096));
    SHOW(cuMemFree_v2(0));
    SHOW(cuMemFreeAsync(4096, NULL));
    SHOW(cuMemGetInfo_v2(&size, &size2));
    SHOW(cuDeviceTotalMem_v2(&size, 0));
    SHOW(cuDevicePrimaryCtxRetain(&context, 0));
    SHOW(cuDevicePrimaryCtxRelease_v2(0));
    SHOW(cuDevicePrimaryCtxReset_v2(0));
    SHOW(cuCtxCreate_v2(&context, 0, 0));
    SHOW(cuCtxDestroy_v2(NULL));
    SHOW(cuMemPoolDestroy(NULL));
    SHOW(cuMemPoolTrimTo(NULL, 0));
    SHOW(cuStreamDestroy_v2(NULL));
    SHOW(cuDeviceGetCount(&count));
    printf("context %s\n", left((uintptr_t)context, SENTINEL));
}

static void without_context(void)
{
    SHOW(cuMemAlloc_v2(&pointer, 4096));
    SHOW(cuMemAlloc_v2(&pointer, (size_t)1 << 50));
    SHOW(cuMemAlloc_v2(NULL, 4096));
    SHOW(cuMemAllocPitch_v2(&pointer, &size, 100, 100, 4));
    SHOW(cuMemAllocManaged(&pointer, 4096, CU_MEM_ATTACH_GLOBAL));
    SHOW(cuMemAllocAsync(&pointer, 4096, NULL));
    SHOW(cuMemAllocAsync_ptsz(&pointer, 4096, NULL));
    SHOW(cuMemFree_v2(4096));
    SHOW(cuMemFreeAsync(4096, NULL));
    SHOW(cuMemGetInfo_v2(&size, &size2));
    SHOW(cuDevicePrimaryCtxRelease_v2(0));
    SHOW(cuDevicePrimaryCtxRetain(NULL, 0));
    SHOW(cuDevicePrimaryCtxRetain(NULL, 99));
    SHOW(cuCtxCreate_v2(NULL, 0, 0));
    SHOW(cuCtxDestroy_v2(NULL));
    SHOW(cuCtxDetach(NULL));
}

static void with_context(CUstream stream, CUmemoryPool pool)
{
    CUcontext context = NULL;
    CUdeviceptr block, ordered, managed, destroyed;
    CUmemPoolProps properties;

    memset(&properties, 0, sizeof(properties));

    /* Nowhere to write, nothing to take. */
    SHOW(cuMemAlloc_v2(NULL, 4096));
    SHOW(cuMemAlloc_v2(&pointer, 0));
    SHOW(cuMemAlloc_v2(NULL, 0));
    SHOW(cuMemAllocPitch_v2(NULL, &size, 100, 100, 4));
    SHOW(cuMemAllocPitch_v2(&pointer, NULL, 100, 100, 4));
    SHOW(cuMemAllocPitch_v2(&pointer, &size, 0, 100, 4));
    SHOW(cuMemAllocPitch_v2(&pointer, &size, 100, 0, 4));
    SHOW(cuMemAllocPitch_v2(&pointer, &size, 100, 100, 3));
    SHOW(cuMemAllocManaged(NULL, 4096, CU_MEM_ATTACH_GLOBAL));
    SHOW(cuMemAllocManaged(&pointer, 0, CU_MEM_ATTACH_GLOBAL));
    SHOW(cuMemAllocManaged(&pointer, 4096, 99));
    SHOW(cuMemAllocAsync(NULL, 4096, stream));
    SHOW(cuMemAllocAsync(NULL, 0, stream));
    SHOW(cuMemAllocAsync(&pointer, 0, stream));
    SHOW(cuMemAllocAsync_ptsz(&pointer, 0, NULL));
    SHOW(cuMemAllocFromPoolAsync(NULL, 4096, pool, stream));
    SHOW(cuMemAllocFromPoolAsync(&pointer, 0, pool, stream));
    SHOW(cuMemAllocFromPoolAsync(&pointer, 4096, NULL, stream));
    SHOW(cuMemGetInfo_v2(NULL, NULL));
    SHOW(cuDeviceTotalMem_v2(NULL, 0));
    SHOW(cuDeviceTotalMem_v2(&size, 99));
    SHOW(cuDeviceTotalMem_v2(&size, -1));
    SHOW(cuMemPoolCreate(NULL, &properties));
    SHOW(cuMemPoolCreate(&pool, NULL));
    SHOW(cuCtxCreate_v2(&context, 0xffff0000, 0));
    SHOW(cuCtxCreate_v2(&context, 0, 99));
    SHOW(cuDevicePrimaryCtxRetain(&context, 99));
    SHOW(cuDevicePrimaryCtxRelease_v2(99));
    SHOW(cuDevicePrimaryCtxSetFlags_v2(99, 0));
    SHOW(cuDeviceSetMemPool(0, NULL));

    /* Pointers that are not. */
    SHOW(cuMemFree_v2(0));
    SHOW(cuMemFreeAsync(0, stream));
    SHOW(cuMemFree_v2(12345));
    SHOW(cuMemFreeAsync(12345, stream));

    /* Twice, and beside the block; in all four ways for each family. */
    MUST(cuMemAlloc_v2(&block, 4 * MIB));
    SHOW(cuMemFree_v2(block + 512));
    SHOW(cuMemFreeAsync(block + 512, stream));
    SHOW(cuMemFree_v2(block));
    SHOW(cuMemFree_v2(block));
    SHOW(cuMemFreeAsync(block, stream));
    MUST(cuMemAlloc_v2(&block, 1000));
    SHOW(cuMemFree_v2(block));
    SHOW(cuMemFree_v2(block));
    MUST(cuMemAlloc_v2(&block, 4 * MIB));
    SHOW(cuMemFreeAsync(block, stream));
    SHOW(cuMemFreeAsync(block, stream));
    SHOW(cuMemFree_v2(block));
    MUST(cuMemAllocAsync(&ordered, 4 * MIB, stream));
    SHOW(cuMemFreeAsync(ordered, stream));
    SHOW(cuMemFreeAsync(ordered, stream));
    SHOW(cuMemFree_v2(ordered));
    MUST(cuMemAllocAsync(&ordered, 4 * MIB, stream));
    SHOW(cuMemFree_v2(ordered));
    SHOW(cuMemFree_v2(ordered));
    SHOW(cuMemFreeAsync(ordered, stream));
    MUST(cuMemAllocManaged(&managed, 4 * MIB, CU_MEM_ATTACH_GLOBAL));
    SHOW(cuMemFree_v2(managed));
    SHOW(cuMemFree_v2(managed));

    /* Of a context that is gone. */
    MUST(cuCtxCreate_v2(&context, 0, 0));
    MUST(cuMemAlloc_v2(&destroyed, 4 * MIB));
    MUST(cuCtxDestroy_v2(context));
    SHOW(cuMemFree_v2(destroyed));
    SHOW(cuMemFreeAsync(destroyed, stream));
    SHOW(cuCtxDestroy_v2(context));
    SHOW(cuCtxDetach(context));
}

int main(int argc, char **argv)
{
    bool full = argc > 1 && strcmp(argv[1], "full") == 0;
    CUdeviceptr taken[4096];
    uint64_t before, after;
    CUmemoryPool pool;
    CUcontext context;
    CUstream stream;
    int count = 0;

    /* The driver of a child that is asked before cuInit answers the same. */
    before_init();
    MUST(cuInit(0));
    without_context();
    MUST(cuDevicePrimaryCtxRetain(&context, 0));
    MUST(cuCtxSetCurrent(context));
    MUST(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    MUST(cuStreamSynchronize(CU_STREAM_PER_THREAD)); /* there from now on, and what it takes */
    pool = make_pool(0);
    if (!full) {
        /* Managed memory costs something once, and stays charged. */
        MUST(cuMemAllocManaged(&pointer, 4096, CU_MEM_ATTACH_GLOBAL));
        MUST(cuMemFree_v2(pointer));
        before = info_used();
        with_context(stream, pool);
        EXPECT_OK(cuCtxSynchronize());
        after = info_used();
        printf("ledger %s\n", before == after ? "unchanged" : "changed");
        return 0;
    }
    while (count < 4096 && cuMemAlloc_v2(&taken[count], 16 * MIB) == CUDA_SUCCESS)
        count++;
    before = info_used();
    SHOW(cuMemAlloc_v2(NULL, 64 * MIB));
    SHOW(cuMemAlloc_v2(&pointer, 0));
    SHOW(cuMemAllocPitch_v2(NULL, &size, 1 << 20, 64, 4));
    SHOW(cuMemAllocPitch_v2(&pointer, NULL, 1 << 20, 64, 4));
    SHOW(cuMemAllocPitch_v2(&pointer, &size, 1 << 20, 0, 4));
    SHOW(cuMemAllocManaged(NULL, 64 * MIB, CU_MEM_ATTACH_GLOBAL));
    SHOW(cuMemAllocManaged(&pointer, 0, CU_MEM_ATTACH_GLOBAL));
    SHOW(cuMemAllocAsync(NULL, 64 * MIB, stream));
    SHOW(cuMemAllocAsync(&pointer, 0, stream));
    SHOW(cuMemAllocFromPoolAsync(NULL, 64 * MIB, pool, stream));
    SHOW(cuMemAllocFromPoolAsync(&pointer, 64 * MIB, NULL, stream));
    SHOW(cuMemFree_v2(12345));
    SHOW(cuMemFreeAsync(12345, stream));
    SHOW(cuDevicePrimaryCtxRetain(NULL, 0));
    SHOW(cuCtxCreate_v2(NULL, 0, 0));
    SHOW(cuCtxCreate_v2(&context, 0, 99));
    printf("ledger %s\n", before == info_used() ? "unchanged" : "changed");
    while (count > 0)
        MUST(cuMemFree_v2(taken[--count]));
    return 0;
}
