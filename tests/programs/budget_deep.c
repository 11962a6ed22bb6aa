/*
 * budget_deep.c: a library that is linked with the driver and opened with RTLD_DEEPBIND, which
 * no preload reaches (-DLIBRARY: that library). What it takes is not refused; but in footprint
 * mode it is charged once it is there, and others are granted so much less.
 *
 *     budget_deep FILE
 */
#define _GNU_SOURCE
#include "budget_program.h"

#ifdef LIBRARY

__attribute__((visibility("default"))) CUresult deep_take(CUdeviceptr *pointer, size_t bytes)
{
    return cuMemAlloc_v2(pointer, bytes);
}

__attribute__((visibility("default"))) CUresult deep_free(CUdeviceptr pointer)
{
    return cuMemFree_v2(pointer);
}

#else

int main(int argc, char **argv)
{
    void *library = argc > 1 ? dlopen(argv[1], RTLD_NOW | RTLD_DEEPBIND) : NULL;
    CUresult (*deep_take)(CUdeviceptr *, size_t);
    CUresult (*deep_free)(CUdeviceptr);
    CUdeviceptr deep, own, more = SENTINEL;
    uint64_t limit;

    if (!library)
        return 2;
    deep_take = (__typeof__(deep_take))dlsym(library, "deep_take");
    deep_free = (__typeof__(deep_free))dlsym(library, "deep_free");
    sim_needed();
    start_device(0);
    limit = info_total();
    case_begin("deep");
    EXPECT_OK(deep_take(&deep, 600 * MIB));
    EXPECT_CODE(cuMemAlloc_v2(&more, 600 * MIB), CUDA_ERROR_OUT_OF_MEMORY);
    EXPECT(more == SENTINEL);
    EXPECT_EQUAL(info_used(), sim.live_bytes(0));
    EXPECT_OK(cuMemAlloc_v2(&own, 400 * MIB));
    EXPECT_CODE(cuMemAllocAsync(&more, 64 * MIB, NULL), CUDA_ERROR_OUT_OF_MEMORY);
    EXPECT(sim.live_bytes(0) <= limit);
    /* When it has gone, there is room again. */
    EXPECT_OK(deep_free(deep));
    EXPECT_OK(cuMemAlloc_v2(&more, 600 * MIB));
    EXPECT(sim.live_bytes(0) <= limit);
    EXPECT_OK(cuMemFree_v2(more));
    EXPECT_OK(cuMemFree_v2(own));
    case_end();
    return cases_status();
}

#endif
