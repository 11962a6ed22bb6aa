/*
 * budget_pools.c: pools of managed and of host memory, told apart from those of a device.
 */
#define _GNU_SOURCE
#include "budget_program.h"

#define ONCE_BYTES (128 * MIB) /* with the first managed allocation, footprint mode */

static CUstream stream;
static bool ignored;

static CUmemoryPool pool_of(CUmemAllocationType type, CUmemLocationType location)
{
    CUmemPoolProps properties;
    CUmemoryPool pool = NULL;

    memset(&properties, 0, sizeof(properties));
    properties.allocType = type;
    properties.location.type = location;
    MUST(cuMemPoolCreate(&pool, &properties));
    return pool;
}

static void managed(void)
{
    static const CUmemLocationType locations[] = {
        CU_MEM_LOCATION_TYPE_NONE, CU_MEM_LOCATION_TYPE_DEVICE, CU_MEM_LOCATION_TYPE_HOST};
    uint64_t once = charge_is_requested() || ignored ? 0 : ONCE_BYTES, before = info_used();

    case_begin("pool-managed");
    for (size_t i = 0; i < sizeof(locations) / sizeof(locations[0]); i++) {
        CUmemoryPool pool = pool_of(CU_MEM_ALLOCATION_TYPE_MANAGED, locations[i]);
        CUdeviceptr blocks[3] = {0}, none = SENTINEL;

        for (int k = 0; k < 3; k++)
            EXPECT_OK(cuMemAllocFromPoolAsync(&blocks[k], 100 * MIB, pool, stream));
        EXPECT_EQUAL(info_used() - before, ignored ? 0 : once + 300 * MIB);
        if (!ignored) {
            EXPECT_CODE(cuMemAllocFromPoolAsync(&none, GIB, pool, stream),
                        CUDA_ERROR_OUT_OF_MEMORY);
            EXPECT(none == SENTINEL);
        }
        EXPECT_OK(cuMemFreeAsync(blocks[0], stream));
        EXPECT_OK(cuMemFreeAsync_ptsz(blocks[1], stream));
        EXPECT_OK(cuMemFreeAsync(blocks[2], NULL));
        EXPECT_OK(cuCtxSynchronize());
        EXPECT_EQUAL(info_used() - before, once);
        EXPECT_OK(cuMemPoolDestroy(pool));
    }
    case_end();
}

static void host(void)
{
    CUmemoryPool pool = pool_of(CU_MEM_ALLOCATION_TYPE_PINNED, CU_MEM_LOCATION_TYPE_HOST);
    uint64_t before = info_used();
    CUdeviceptr block = 0;

    case_begin("pool-host");
    EXPECT_OK(cuMemAllocFromPoolAsync(&block, 3 * GIB, pool, stream));
    EXPECT_EQUAL(info_used(), before);
    EXPECT_OK(cuMemFreeAsync(block, stream));
    EXPECT_OK(cuCtxSynchronize());
    EXPECT_OK(cuMemPoolDestroy(pool));
    case_end();
}

/* The driver's own pool of the device, by each of its names. */
static void own(void)
{
    CUmemLocation location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
    CUmemoryPool pool = NULL, same = NULL;
    uint64_t before = info_used();
    CUdeviceptr block = 0;

    case_begin("pool-of-the-driver");
    EXPECT_OK(cuMemGetDefaultMemPool(&pool, &location, CU_MEM_ALLOCATION_TYPE_PINNED));
    EXPECT_OK(cuMemGetMemPool(&same, &location, CU_MEM_ALLOCATION_TYPE_PINNED));
    EXPECT(pool == same);
    EXPECT_OK(cuMemAllocFromPoolAsync(&block, 100 * MIB, pool, stream));
    EXPECT(info_used() - before >= 100 * MIB);
    EXPECT_OK(cuMemFreeAsync(block, stream));
    EXPECT_OK(cuCtxSynchronize());
    EXPECT_EQUAL(info_used(), before);
    case_end();
}

/* What has ended is asked nothing (the driver crashes); the program gets the driver's answers,
 * whether the request would fit or not. */
static void ended(void)
{
    static const size_t sizes[] = {MIB, 2 * GIB};
    CUmemoryPool pool = pool_of(CU_MEM_ALLOCATION_TYPE_PINNED, CU_MEM_LOCATION_TYPE_DEVICE);
    uint64_t before = info_used(), full;
    CUdeviceptr block = 0, filler = 0;

    case_begin("pool-ended");
    EXPECT_OK(cuMemAllocFromPoolAsync(&block, MIB, pool, stream));
    EXPECT_OK(cuMemFreeAsync(block, stream));
    EXPECT_OK(cuStreamSynchronize(stream));
    EXPECT_OK(cuMemPoolDestroy(pool));
    for (int round = 0; round < 2; round++) {
        if (round == 1)
            EXPECT_OK(cuMemAlloc_v2(&filler, info_free() / (2 * MIB) * (2 * MIB)));
        full = info_used();
        for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
            CUresult code;

            block = SENTINEL;
            code = cuMemAllocFromPoolAsync(&block, sizes[i], pool, stream);
            /* What cannot fit may be refused before the driver sees it. */
            EXPECT(code == CUDA_ERROR_INVALID_VALUE ||
                   (code == CUDA_ERROR_OUT_OF_MEMORY && sizes[i] > info_free()));
            EXPECT_CODE(cuMemPoolTrimTo(pool, 0), CUDA_ERROR_INVALID_VALUE);
            EXPECT_CODE(cuMemPoolDestroy(pool), CUDA_ERROR_INVALID_VALUE);
            EXPECT_EQUAL(info_used(), full);
        }
    }
    EXPECT_OK(cuMemFree_v2(filler));
    EXPECT_EQUAL(info_used(), before);
    case_end();
}

int main(void)
{
    const char *setting = getenv("GPUBUDGET_MANAGED");

    sim_needed();
    ignored = setting && strcmp(setting, "ignore") == 0;
    start_device(0);
    MUST(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    own();
    host();
    managed();
    ended();
    return cases_status();
}
