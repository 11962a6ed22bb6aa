/*
 * attack_calls.c: odd arguments in every intercepted call, in every phase of a program's life.
 * Prints the driver's answer and which outputs it wrote, so that two runs can be compared:
 * without the library, and under a limit that nothing here comes near.
 */
#include "driver/cuda_api.h"

#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#define SENTINEL ((uint64_t)0x5e4711e15e4711e0u)
#define BAD(n)   ((void *)(uintptr_t)(n))

/* Outputs; each call begins with the sentinel in all of them. */
static CUdeviceptr pointer;
static size_t size, other_size;
static CUdeviceptr_v1 pointer_v1;
static unsigned int size_v1;
static void *handle;

static void call_begin(void)
{
    pointer = SENTINEL;
    size = other_size = SENTINEL;
    pointer_v1 = size_v1 = (unsigned int)SENTINEL;
    handle = BAD(SENTINEL);
}

static void call_end(const char *text, CUresult code)
{
    printf("%s: %d, wrote %d%d%d%d%d%d\n", text, (int)code, pointer != SENTINEL,
           size != SENTINEL, other_size != SENTINEL, pointer_v1 != (unsigned int)SENTINEL,
           size_v1 != (unsigned int)SENTINEL, handle != BAD(SENTINEL));
}

#define TRY(call)                                                                              \
    do {                                                                                       \
        call_begin();                                                                          \
        call_end(#call, call);                                                                 \
    } while (0)

/* What was granted is given back. */
#define TAKE(call)                                                                             \
    do {                                                                                       \
        CUresult take_;                                                                        \
        call_begin();                                                                          \
        take_ = call;                                                                          \
        call_end(#call, take_);                                                                \
        if (take_ == CUDA_SUCCESS)                                                             \
            cuMemFree_v2(pointer != SENTINEL ? pointer : pointer_v1);                          \
    } while (0)

static void sizes_of_memory(void)
{
    /* Twice the last, for two rows, is still below the largest limit, 2^63 less 1 TiB. */
    static const size_t sizes[] = {
        0, 1, 511, (size_t)1 << 21, ((size_t)1 << 32) + 1, (size_t)1 << 36, (size_t)1 << 61};

    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        size_t n = sizes[i];
        unsigned int short_n = (unsigned int)n;

        printf("-- %zu bytes\n", n);
        TAKE(cuMemAlloc_v2(&pointer, n));
        TAKE(cuMemAllocManaged(&pointer, n, CU_MEM_ATTACH_GLOBAL));
        TAKE(cuMemAllocManaged(&pointer, n, CU_MEM_ATTACH_HOST));
        TAKE(cuMemAllocManaged(&pointer, n, 99));
        TAKE(cuMemAllocAsync(&pointer, n, NULL));
        TAKE(cuMemAllocAsync_ptsz(&pointer, n, NULL));
        TAKE(cuMemAllocAsync(&pointer, n, CU_STREAM_PER_THREAD));
        TAKE(cuMemAllocFromPoolAsync(&pointer, n, NULL, NULL));
        TAKE(cuMemAllocPitch_v2(&pointer, &size, n, 1, 4));
        TAKE(cuMemAllocPitch_v2(&pointer, &size, 1, n, 4));
        TAKE(cuMemAllocPitch_v2(&pointer, &size, n, n, 4));
        TAKE(cuMemAllocPitch_v2(&pointer, &size, n, 2, 3));
        TRY(cuMemAllocPitch_v2(NULL, &size, n, 2, 4));
        TRY(cuMemAllocPitch_v2(&pointer, NULL, n, 2, 4));
        TAKE(cuMemAlloc(&pointer_v1, short_n));
        TAKE(cuMemAllocPitch(&pointer_v1, &size_v1, short_n, short_n, 4));
    }
    TAKE(cuMemAllocPitch_v2(&pointer, &size, SIZE_MAX, SIZE_MAX, 4));
    TAKE(cuMemAllocPitch_v2(&pointer, &size, SIZE_MAX / 2, 3, 4));
    TAKE(cuMemAllocPitch_v2(&pointer, &size, 3, SIZE_MAX / 3 + 1, 4));
    TRY(cuMemAlloc_v2(NULL, 10));
    TRY(cuMemAlloc(NULL, 10));
    TRY(cuMemAllocManaged(NULL, 10, CU_MEM_ATTACH_GLOBAL));
    TRY(cuMemAllocAsync(NULL, 10, NULL));
    TRY(cuMemAllocFromPoolAsync(NULL, 10, NULL, NULL));
}

static void pointers_that_are_none(void)
{
    static const CUdeviceptr pointers[] = {0, 1, SENTINEL, UINT64_MAX, 0x700000000000u};

    for (size_t i = 0; i < sizeof(pointers) / sizeof(pointers[0]); i++) {
        CUdeviceptr p = pointers[i];

        TRY(cuMemFree_v2(p));
        TRY(cuMemFree((CUdeviceptr_v1)p));
        TRY(cuMemFreeAsync(p, NULL));
        TRY(cuMemFreeAsync_ptsz(p, NULL));
        TRY(cuCtxEnablePeerAccess((CUcontext)(uintptr_t)p, 0));
        TRY(cuCtxDisablePeerAccess((CUcontext)(uintptr_t)p));
        TRY(cuMulticastAddDevice((CUmemGenericAllocationHandle)p, 0));
    }
}

static void devices_that_are_none(void)
{
    static const int ordinals[] = {-1, 1, 16, 64, 99, INT_MAX, INT_MIN};

    for (size_t i = 0; i < sizeof(ordinals) / sizeof(ordinals[0]); i++) {
        CUdevice dev = ordinals[i];

        TRY(cuDevicePrimaryCtxRetain((CUcontext *)&handle, dev));
        TRY(cuDevicePrimaryCtxRetain(NULL, dev));
        TRY(cuDevicePrimaryCtxRelease(dev));
        TRY(cuDevicePrimaryCtxRelease_v2(dev));
        TRY(cuDevicePrimaryCtxReset(dev));
        TRY(cuDevicePrimaryCtxReset_v2(dev));
        TRY(cuDevicePrimaryCtxSetFlags(dev, 0));
        TRY(cuDevicePrimaryCtxSetFlags_v2(dev, 0));
        TRY(cuCtxCreate((CUcontext *)&handle, 0, dev));
        TRY(cuCtxCreate_v2((CUcontext *)&handle, 0, dev));
        TRY(cuCtxCreate_v3((CUcontext *)&handle, NULL, 0, 0, dev));
        TRY(cuCtxCreate_v4((CUcontext *)&handle, NULL, 0, dev));
        TRY(cuMulticastAddDevice(0, dev));
        TRY(cuCtxCreate_v2(NULL, 0, dev));
        TRY(cuDeviceTotalMem_v2(&size, dev));
        TRY(cuDeviceTotalMem(&size_v1, dev));
        TRY(cuDeviceTotalMem_v2(NULL, dev));
        TRY(cuDeviceSetMemPool(dev, NULL));
    }
    TRY(cuCtxCreate_v3((CUcontext *)&handle, NULL, 5, 0, 0));
    TRY(cuCtxCreate_v3((CUcontext *)&handle, NULL, -5, 0, 0));
}

static void handles_that_are_none(void)
{
    CUmemPoolProps properties;
    CUmemLocation location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 99};

    TRY(cuCtxDestroy_v2(NULL));
    TRY(cuCtxDestroy(NULL));
    TRY(cuCtxDetach(NULL));
    TRY(cuStreamDestroy_v2(NULL));
    TRY(cuStreamDestroy(NULL));
    TRY(cuStreamDestroy_v2(CU_STREAM_LEGACY));
    TRY(cuStreamDestroy_v2(CU_STREAM_PER_THREAD));
    TRY(cuMemPoolDestroy(NULL));
    TRY(cuMemPoolTrimTo(NULL, 0));
    TRY(cuMemPoolSetAttribute(NULL, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &pointer));
    TRY(cuMemPoolCreate(NULL, NULL));
    TRY(cuMemPoolCreate((CUmemoryPool *)&handle, NULL));
    memset(&properties, 0, sizeof(properties));
    TRY(cuMemPoolCreate((CUmemoryPool *)&handle, &properties));
    properties.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties.location = location;
    TRY(cuMemPoolCreate((CUmemoryPool *)&handle, &properties));
    TRY(cuMemPoolImportFromShareableHandle(NULL, NULL, 0, 0));
    TRY(cuMemPoolImportFromShareableHandle((CUmemoryPool *)&handle, NULL, 1, 0));
    TRY(cuMemSetMemPool(NULL, 0, NULL));
    TRY(cuMemSetMemPool(&location, CU_MEM_ALLOCATION_TYPE_PINNED, NULL));
    TRY(cuMemGetInfo_v2(NULL, NULL));
    TRY(cuMemGetInfo_v2(&size, NULL));
    TRY(cuMemGetInfo_v2(NULL, &size));
    TRY(cuMemGetInfo_v2(&size, &other_size));
    TRY(cuMemGetInfo(NULL, NULL));
    TRY(cuMemGetInfo(&size_v1, NULL));
    TRY(cuDeviceTotalMem_v2(NULL, 0));
    TRY(cuDeviceTotalMem(NULL, 0));
    TRY(cuGetProcAddress_v2(NULL, &handle, 12000, 0, NULL));
    TRY(cuGetProcAddress_v2("", &handle, 12000, 0, NULL));
    TRY(cuGetProcAddress_v2("cuMemAlloc", NULL, 12000, 0, NULL));
    TRY(cuGetProcAddress_v2("cuMemAlloc", &handle, -1, 0, NULL));
    TRY(cuGetProcAddress_v2("cuMemAlloc", &handle, INT_MAX, 0, NULL));
    TRY(cuGetProcAddress_v2("cuMemAlloc", &handle, 12000, ~(cuuint64_t)0, NULL));
    TRY(cuInit(1));
    TRY(cuInit(~0u));
}

static void everything(const char *phase)
{
    printf("== %s\n", phase);
    sizes_of_memory();
    pointers_that_are_none();
    devices_that_are_none();
    handles_that_are_none();
}

static void blocks_in_wrong_order(void)
{
    CUdeviceptr a = 0, b = 0;
    CUstream stream = NULL;

    TRY(cuMemAlloc_v2(&a, 1 << 20));
    TRY(cuMemFree_v2(a + 1));
    TRY(cuMemFree_v2(a + 512));
    TRY(cuMemFreeAsync(a + 256, NULL));
    TRY(cuMemFree_v2(a));
    TRY(cuMemFree_v2(a));
    TRY(cuMemFreeAsync(a, NULL));
    TRY(cuMemAllocAsync(&b, 1 << 20, NULL));
    TRY(cuMemFreeAsync(b + 16, NULL));
    TRY(cuMemFree_v2(b));
    TRY(cuMemFree_v2(b));
    TRY(cuMemFreeAsync(b, NULL));

    TRY(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    TRY(cuMemAllocAsync(&b, 1 << 20, stream));
    TRY(cuStreamDestroy_v2(stream));
    TRY(cuStreamDestroy_v2(stream));
    TRY(cuMemAllocAsync(&pointer, 1 << 20, stream));
    TRY(cuMemFreeAsync(b, stream));
    TRY(cuMemFreeAsync(b, NULL));
    TRY(cuMemAllocAsync(&pointer, 100, BAD(0x1234)));
    TRY(cuMemAllocAsync_ptsz(&pointer, 100, BAD(UINTPTR_MAX)));
    TRY(cuMemFreeAsync(b, BAD(0x1234)));
}

static void pools_in_wrong_order(void)
{
    CUmemPoolProps properties;
    CUmemoryPool pool = NULL;
    CUdeviceptr a = 0, b = 0;

    memset(&properties, 0, sizeof(properties));
    properties.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    TRY(cuMemPoolCreate(&pool, &properties));
    TRY(cuMemAllocFromPoolAsync(&b, 1 << 20, pool, NULL));
    TRY(cuMemPoolDestroy(pool));
    TRY(cuMemPoolDestroy(pool));
    TRY(cuMemAllocFromPoolAsync(&pointer, 1 << 20, pool, NULL));
    TRY(cuMemPoolTrimTo(pool, 0));
    TRY(cuMemFreeAsync(b, NULL));
    TRY(cuDeviceSetMemPool(0, pool));
    TRY(cuMemAllocFromPoolAsync(&pointer, 1 << 20, BAD(8), NULL));
    TRY(cuMemPoolCreate(&pool, &properties));
    TRY(cuMemPoolSetAttribute(pool, 99, &pointer));
    TRY(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, NULL));
    TRY(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, &pointer));
    TRY(cuMemPoolTrimTo(pool, SIZE_MAX));
    TRY(cuDeviceSetMemPool(0, pool));
    TRY(cuMemAllocAsync(&b, 1 << 20, NULL));
    TRY(cuMemPoolDestroy(pool));
    TRY(cuMemAllocAsync(&a, 1 << 20, NULL));
    TRY(cuMemFreeAsync(b, NULL));
    TRY(cuMemFreeAsync(a, NULL));
}

int main(void)
{
    CUcontext context = NULL;
    CUdeviceptr a = 0;

    everything("before cuInit");
    TRY(cuInit(0));
    everything("no context");
    TRY(cuDevicePrimaryCtxRetain(&context, 0));
    TRY(cuCtxSetCurrent(context));
    everything("primary context");
    blocks_in_wrong_order();
    pools_in_wrong_order();
    TRY(cuMemAlloc_v2(&a, 1 << 20));
    TRY(cuDevicePrimaryCtxReset_v2(0));
    everything("after a reset");
    TRY(cuMemFree_v2(a));
    TRY(cuDevicePrimaryCtxRetain(&context, 0));
    TRY(cuCtxSetCurrent(context));
    TAKE(cuMemAlloc_v2(&pointer, 1 << 20));
    for (int i = 0; i < 4; i++)
        TRY(cuDevicePrimaryCtxRelease_v2(0));
    everything("after the last release");
    TRY(cuCtxCreate_v2(&context, 0, 0));
    TRY(cuMemAlloc_v2(&a, 3 << 20));
    TRY(cuCtxDestroy_v2(context));
    TRY(cuCtxDestroy_v2(context));
    TRY(cuCtxDetach(context));
    TRY(cuMemFree_v2(a));
    everything("after the context's end");
    return 0;
}
