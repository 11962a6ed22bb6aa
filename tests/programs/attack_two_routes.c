/*
 * attack_two_routes.c: takes 128 MiB at a time by direct link until refused, then by dlsym.
 * Prints how often each was granted, and the last answer.
 */
#define _GNU_SOURCE
#include "driver/cuda_api.h"

#include <dlfcn.h>
#include <stdio.h>

enum { MOST = 64 };

int main(void)
{
    const size_t bite = (size_t)128 << 20;
    CUdeviceptr block;
    CUcontext context;
    CUresult code = CUDA_ERROR_NOT_FOUND;
    __typeof__(cuMemAlloc_v2) *found;
    int direct = 0, by_name = 0;
    void *driver;

    cuInit(0);
    code = cuDevicePrimaryCtxRetain(&context, 0);
    if (code == CUDA_SUCCESS)
        cuCtxSetCurrent(context);
    driver = dlopen("libcuda.so.1", RTLD_NOW);
    found = driver ? (__typeof__(cuMemAlloc_v2) *)dlsym(driver, "cuMemAlloc_v2") : NULL;
    if (!found)
        return 1;
    /* Each route is used once before either is full. */
    if (code == CUDA_SUCCESS)
        found(&block, 4096);
    while (direct < MOST && (code = cuMemAlloc_v2(&block, bite)) == CUDA_SUCCESS)
        direct++;
    while (by_name < MOST && (code = found(&block, bite)) == CUDA_SUCCESS)
        by_name++;
    printf("direct %d, dlsym %d, then %d\n", direct, by_name, (int)code);
    return 0;
}
