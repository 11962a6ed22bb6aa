/*
 * attack_few.c: a libcuda.so.1 that has next to nothing, and a program (-DPROGRAM) that uses
 * it.
 */
#define _GNU_SOURCE
#include "driver/cuda_api.h"

#ifdef PROGRAM

#include <dlfcn.h>
#include <stdio.h>

#define FIND(name) __typeof__(name) *real_##name = (__typeof__(name) *)dlsym(driver, #name)

int main(int argc, char **argv)
{
    void *driver = argc == 2 ? dlopen(argv[1], RTLD_NOW) : NULL;
    CUcontext context = NULL;
    CUdeviceptr block = 0;
    size_t size, total;

    if (!driver)
        return 1;
    FIND(cuInit);
    FIND(cuDevicePrimaryCtxRetain);
    FIND(cuMemAlloc_v2);
    FIND(cuMemAllocAsync);
    FIND(cuMemFree_v2);
    FIND(cuMemFreeAsync);
    FIND(cuMemGetInfo_v2);
    FIND(cuStreamDestroy_v2);
    printf("cuInit %d\n", (int)real_cuInit(0));
    printf("retain %d\n", (int)real_cuDevicePrimaryCtxRetain(&context, 0));
    printf("alloc %d\n", (int)real_cuMemAlloc_v2(&block, 4096));
    printf("async %d\n", (int)real_cuMemAllocAsync(&block, 4096, NULL));
    printf("free %d\n", (int)real_cuMemFree_v2(0x10000));
    printf("free async %d\n", (int)real_cuMemFreeAsync(0x10000, NULL));
    printf("info %d\n", (int)real_cuMemGetInfo_v2(&size, &total));
    printf("stream %d\n", (int)real_cuStreamDestroy_v2(NULL));
    return 0;
}

#else

#define EXPORT __attribute__((visibility("default")))

EXPORT CUresult cuInit(unsigned int flags)
{
    (void)flags;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice dev)
{
    (void)dev;
    *context = (CUcontext)(uintptr_t)8;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuMemAlloc_v2(CUdeviceptr *pointer, size_t bytes)
{
    (void)bytes;
    *pointer = 0x10000;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuMemAllocAsync(CUdeviceptr *pointer, size_t bytes, CUstream stream)
{
    (void)stream;
    return cuMemAlloc_v2(pointer, bytes);
}

EXPORT CUresult cuMemFree_v2(CUdeviceptr pointer)
{
    (void)pointer;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuMemFreeAsync(CUdeviceptr pointer, CUstream stream)
{
    (void)pointer;
    (void)stream;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuMemGetInfo_v2(size_t *size, size_t *total)
{
    *size = *total = (size_t)1 << 34;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuStreamDestroy_v2(CUstream stream)
{
    (void)stream;
    return CUDA_SUCCESS;
}

#endif
