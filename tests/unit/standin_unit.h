/*
 * standin_unit.h: unit tests on the stand-in driver, which they are linked with: the driver's
 * functions as src/ sees them, and a context to work in.
 */
#ifndef STANDIN_UNIT_H
#define STANDIN_UNIT_H

#include "driver/open.h"

#include "standin.h"
#include "unit.h"

static struct gb_driver_api api;
static CUcontext context;

/* In each test's own process. */
static inline void standin_begin(void)
{
    ck_assert_int_eq(cuInit(0), CUDA_SUCCESS);
    ck_assert(gb_driver_api_open(&api));
    ck_assert_int_eq(cuCtxCreate_v2(&context, 0, 0), CUDA_SUCCESS);
}

static inline CUstream standin_stream(void)
{
    CUstream stream = NULL;

    ck_assert_int_eq(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
    return stream;
}

static inline CUmemoryPool standin_pool(void)
{
    const CUmemPoolProps props = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                                  .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0}};
    cuuint64_t all = UINT64_MAX;
    CUmemoryPool handle = NULL;

    ck_assert_int_eq(cuMemPoolCreate(&handle, &props), CUDA_SUCCESS);
    /* It keeps what it has, so that only a trim makes it smaller. */
    ck_assert_int_eq(cuMemPoolSetAttribute(handle, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &all),
                     CUDA_SUCCESS);
    return handle;
}

/*
 * Holds a stream by its own work, which goes on to hold it after its handle is destroyed;
 * writing 1 to the word lets it go on.
 */
static inline _Atomic uint32_t *standin_gate(CUstream stream)
{
    void *word = NULL;
    CUdeviceptr address = 0;

    ck_assert_int_eq(cuMemHostAlloc(&word, sizeof(uint32_t), CU_MEMHOSTALLOC_DEVICEMAP), 0);
    *(uint32_t *)word = 0;
    ck_assert_int_eq(cuMemHostGetDevicePointer_v2(&address, word, 0), 0);
    ck_assert_int_eq(cuStreamWaitValue32_v2(stream, address, 1, CU_STREAM_WAIT_VALUE_EQ), 0);
    return word;
}

#endif
