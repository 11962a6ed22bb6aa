/*
 * saver.c: a library that makes memory go and come behind its addresses, as inference engines
 * preload to let a model sleep. The driver's cuMemAlloc becomes physical memory of its own,
 * mapped; saver_pause lets all of it go and keeps the addresses, saver_resume brings it back.
 */
#define _GNU_SOURCE
#include "driver/cuda_api.h"

#include <pthread.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))
#define STEP   ((size_t)2 << 20)
enum { MOST = 256 };

static struct {
    CUdeviceptr range;
    size_t size;
    CUmemGenericAllocationHandle handle; /* 0 while it sleeps */
} blocks[MOST];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static CUresult wake(int i)
{
    CUmemAllocationProp prop;
    CUmemAccessDesc access;
    CUresult code;

    memset(&prop, 0, sizeof(prop));
    prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    memset(&access, 0, sizeof(access));
    access.location = prop.location;
    access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    code = cuMemCreate(&blocks[i].handle, blocks[i].size, &prop, 0);
    if (code != CUDA_SUCCESS) {
        blocks[i].handle = 0;
        return code;
    }
    code = cuMemMap(blocks[i].range, blocks[i].size, 0, blocks[i].handle, 0);
    return code ? code : cuMemSetAccess(blocks[i].range, blocks[i].size, &access, 1);
}

static void sleep_now(int i)
{
    if (!blocks[i].handle)
        return;
    cuMemUnmap(blocks[i].range, blocks[i].size);
    cuMemRelease(blocks[i].handle);
    blocks[i].handle = 0;
}

EXPORT CUresult cuMemAlloc_v2(CUdeviceptr *pointer, size_t bytes)
{
    CUresult code = CUDA_ERROR_OUT_OF_MEMORY;

    pthread_mutex_lock(&lock);
    for (int i = 0; i < MOST; i++) {
        if (blocks[i].size)
            continue;
        blocks[i].size = (bytes + STEP - 1) / STEP * STEP;
        code = cuMemAddressReserve(&blocks[i].range, blocks[i].size, 0, 0, 0);
        if (code == CUDA_SUCCESS && (code = wake(i)) != CUDA_SUCCESS)
            cuMemAddressFree(blocks[i].range, blocks[i].size);
        if (code == CUDA_SUCCESS)
            *pointer = blocks[i].range;
        else
            blocks[i].size = 0;
        break;
    }
    pthread_mutex_unlock(&lock);
    return code;
}

EXPORT CUresult cuMemFree_v2(CUdeviceptr pointer)
{
    CUresult code = CUDA_ERROR_INVALID_VALUE;

    pthread_mutex_lock(&lock);
    for (int i = 0; i < MOST; i++) {
        if (!blocks[i].size || blocks[i].range != pointer)
            continue;
        sleep_now(i);
        code = cuMemAddressFree(blocks[i].range, blocks[i].size);
        blocks[i].size = 0;
    }
    pthread_mutex_unlock(&lock);
    return code;
}

EXPORT void saver_pause(void)
{
    pthread_mutex_lock(&lock);
    for (int i = 0; i < MOST; i++)
        if (blocks[i].size)
            sleep_now(i);
    pthread_mutex_unlock(&lock);
}

/* Stops at the first that does not come back; may be called again. */
EXPORT CUresult saver_resume(void)
{
    CUresult code = CUDA_SUCCESS;

    pthread_mutex_lock(&lock);
    for (int i = 0; i < MOST && code == CUDA_SUCCESS; i++)
        if (blocks[i].size && !blocks[i].handle)
            code = wake(i);
    pthread_mutex_unlock(&lock);
    return code;
}
