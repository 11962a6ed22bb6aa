/* Streams, events, threads, several devices. */
#include "check_standin.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static uint64_t reserved(CUmemoryPool pool)
{
    cuuint64_t value = 0;
    OK(cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, &value));
    return value;
}

void check_hold(void)
{
    CUstream stream;
    CUevent first, second;
    CUdeviceptr block, gate;
    void *memory;
    check_begin();
    stream = check_stream();
    OK(cuEventCreate(&first, 0));
    OK(cuEventCreate(&second, 0));
    EQUAL(standin_hold(stream), 0);
    OK(cuEventRecord(first, stream));
    OK(cuEventRecord(second, stream));
    EQUAL(standin_queued(stream), 2);
    EQUAL(cuEventQuery(first), CUDA_ERROR_NOT_READY);
    EQUAL(standin_run(stream, 1), 0);
    OK(cuEventQuery(first));
    EQUAL(cuEventQuery(second), CUDA_ERROR_NOT_READY);
    EQUAL(cuStreamQuery(stream), CUDA_ERROR_NOT_READY);
    EQUAL(standin_release(stream), 0);
    OK(cuStreamQuery(stream));
    /* A value in memory does the same, and a free behind it waits. */
    OK(cuMemHostAlloc(&memory, 4096, 0));
    OK(cuMemHostGetDevicePointer(&gate, memory, 0));
    OK(cuMemAllocAsync(&block, 64 * MIB, stream));
    OK(cuStreamWaitValue32(stream, gate, 1, CU_STREAM_WAIT_VALUE_GEQ));
    OK(cuMemFreeAsync(block, stream));
    EQUAL(standin_pending_bytes(0), 64 * MIB);
    EQUAL(standin_pool_used(0), 0);
    *(volatile uint32_t *)memory = 1;
    OK(cuStreamQuery(stream));
    EQUAL(standin_pending_bytes(0), 0);
    OK(cuStreamSynchronize(stream));
    EQUAL(standin_pool_reserved(0), 0);
    OK(cuStreamWriteValue32(stream, gate, 9, 0));
    EQUAL(*(volatile uint32_t *)memory, 9);
    /* A destroyed stream finishes what it had. */
    OK(cuMemAllocAsync(&block, 64 * MIB, stream));
    OK(cuStreamWaitValue32(stream, gate, 10, CU_STREAM_WAIT_VALUE_EQ));
    OK(cuMemFreeAsync(block, stream));
    OK(cuStreamDestroy(stream));
    EQUAL(standin_pending_bytes(0), 64 * MIB);
    *(volatile uint32_t *)memory = 10;
    EQUAL(standin_pending_bytes(0), 0);
    EQUAL(cuStreamQuery(stream), CUDA_ERROR_INVALID_HANDLE);
}

void check_events(void)
{
    CUstream one, two;
    CUevent event, mark;
    float elapsed;
    check_begin();
    one = check_stream();
    two = check_stream();
    OK(cuEventCreate(&event, 0));
    OK(cuEventCreate(&mark, 0));
    OK(cuEventQuery(event));
    standin_hold(one);
    OK(cuEventRecord(event, one));
    OK(cuStreamWaitEvent(two, event, 0));
    OK(cuEventRecord(mark, two));
    EQUAL(cuEventQuery(mark), CUDA_ERROR_NOT_READY);
    EQUAL(cuEventElapsedTime(&elapsed, event, mark), CUDA_ERROR_NOT_READY);
    OK(cuEventDestroy(event));
    EQUAL(cuEventQuery(mark), CUDA_ERROR_NOT_READY);
    standin_release(one);
    OK(cuEventQuery(mark));
    EQUAL(cuEventQuery(event), CUDA_ERROR_INVALID_HANDLE);
    OK(cuStreamDestroy(one));
    OK(cuEventSynchronize(mark));
}

void check_legacy(void)
{
    CUstream blocking, non_blocking;
    check_begin();
    OK(cuStreamCreate(&blocking, CU_STREAM_DEFAULT));
    non_blocking = check_stream();
    standin_hold(blocking);
    OK(cuMemsetD8Async(0, 0, 0, NULL));
    {
        CUdeviceptr block;
        OK(cuMemAllocAsync(&block, MIB, blocking));
        OK(cuMemFreeAsync(block, blocking));
        OK(cuMemAllocAsync(&block, MIB, NULL));
        OK(cuMemFreeAsync(block, NULL));
        OK(cuMemAllocAsync(&block, MIB, non_blocking));
        OK(cuMemFreeAsync(block, non_blocking));
    }
    EQUAL(cuStreamQuery(NULL), CUDA_ERROR_NOT_READY);
    EQUAL(cuStreamQuery(CU_STREAM_LEGACY), CUDA_ERROR_NOT_READY);
    OK(cuStreamQuery(non_blocking));
    standin_release(blocking);
    OK(cuStreamQuery(NULL));
    /* And the other way round. */
    standin_hold(CU_STREAM_LEGACY);
    {
        CUdeviceptr block;
        OK(cuMemAllocAsync(&block, MIB, NULL));
        OK(cuMemAllocAsync(&block, MIB, blocking));
        OK(cuMemAllocAsync(&block, MIB, CU_STREAM_PER_THREAD));
    }
    EQUAL(cuStreamQuery(blocking), CUDA_ERROR_NOT_READY);
    EQUAL(cuStreamQuery(CU_STREAM_PER_THREAD), CUDA_ERROR_NOT_READY);
    OK(cuStreamQuery(non_blocking));
    standin_release(CU_STREAM_LEGACY);
    OK(cuStreamQuery(blocking));
}

static int called;

static void CUDA_CB host_function(void *argument)
{
    __atomic_store_n((int *)argument, 1, __ATOMIC_RELEASE);
}

void check_host_function(void)
{
    CUstream stream;
    check_begin();
    stream = check_stream();
    standin_hold(stream);
    OK(cuLaunchHostFunc(stream, host_function, &called));
    usleep(1000);
    EQUAL(__atomic_load_n(&called, __ATOMIC_ACQUIRE), 0);
    standin_release(stream);
    OK(cuStreamSynchronize(stream));
    EQUAL(__atomic_load_n(&called, __ATOMIC_ACQUIRE), 1);
}

static CUcontext shared;

static void *free_in_thread(void *block)
{
    OK(cuCtxSetCurrent(shared));
    OK(cuMemFree((CUdeviceptr)(uintptr_t)block));
    return NULL;
}

static void *destroy_in_thread(void *context)
{
    OK(cuCtxDestroy((CUcontext)context));
    return NULL;
}

/* Starts the thread and returns when its call of that name is under way. */
static pthread_t waiting(const char *name, void *(*body)(void *), void *argument)
{
    pthread_t thread;
    standin_reset_counts();
    pthread_create(&thread, NULL, body, argument);
    while (standin_calls(name) == 0)
        usleep(100);
    return thread;
}

/* The free of a direct block and the end of a context wait for what was queued before. */
void check_waits(void)
{
    CUstream one, two;
    CUevent mark;
    CUdeviceptr block;
    CUcontext context;
    pthread_t thread;
    shared = check_begin();
    one = check_stream();
    two = check_stream();
    OK(cuEventCreate(&mark, 0));
    OK(cuMemAlloc(&block, 64 * MIB));
    standin_hold(one);
    OK(cuEventRecord(mark, one));
    thread = waiting("cuMemFree_v2", free_in_thread, (void *)(uintptr_t)block);
    standin_hold(two);
    OK(cuEventRecord(mark, two));
    EQUAL(standin_direct_bytes(0), 64 * MIB);
    standin_release(one);
    pthread_join(thread, NULL);
    EQUAL(standin_direct_bytes(0), 0);
    EQUAL(standin_queued(two), 1);
    standin_release(two);

    OK(cuCtxCreate(&context, NULL, 0, 0));
    OK(cuMemAlloc(&block, 64 * MIB));
    one = check_stream();
    OK(cuEventCreate(&mark, 0));
    standin_hold(one);
    OK(cuEventRecord(mark, one));
    thread = waiting("cuCtxDestroy_v2", destroy_in_thread, context);
    EQUAL(standin_direct_bytes(0), 64 * MIB);
    standin_release(one);
    pthread_join(thread, NULL);
    EQUAL(standin_direct_bytes(0), 0);
    /* The handles are still known: what uses them answers that their context has ended. */
    EQUAL(cuEventQuery(mark), CUDA_ERROR_CONTEXT_IS_DESTROYED);
    EQUAL(cuEventDestroy(mark), CUDA_ERROR_CONTEXT_IS_DESTROYED);
    OK(cuCtxSetCurrent(context));
    EQUAL(cuMemAlloc(&block, MIB), CUDA_ERROR_CONTEXT_IS_DESTROYED);
}

static void *in_thread(void *argument)
{
    CUcontext context = (CUcontext)argument;
    CUdeviceptr block;
    CUstream own;
    OK(cuCtxGetCurrent(&context));
    CHECK(context == NULL);
    EQUAL(cuMemAlloc(&block, MIB), CUDA_ERROR_INVALID_CONTEXT);
    OK(cuCtxPushCurrent(shared));
    OK(cuMemAlloc(&block, MIB));
    OK(cuMemFree(block));
    OK(cuStreamCreate(&own, 0));
    OK(cuCtxPopCurrent(&context));
    CHECK(context == shared);
    EQUAL(cuMemAlloc(&block, MIB), CUDA_ERROR_INVALID_CONTEXT);
    return NULL;
}

void check_threads(void)
{
    pthread_t thread;
    shared = check_begin();
    pthread_create(&thread, NULL, in_thread, NULL);
    pthread_join(thread, NULL);
}

void check_devices(void)
{
    CUcontext contexts[2], found;
    CUstream streams[2];
    CUdevice device;
    CUdeviceptr block;
    CUmemoryPool pools[2];
    CUuuid uuids[2];
    int ordinal = -1;
    setenv("CUDA_VISIBLE_DEVICES", "2,0,99,1", 1);
    OK(cuInit(0));
    OK(cuDeviceGetCount(&ordinal));
    EQUAL(ordinal, 2);
    for (int i = 0; i < 2; i++) {
        OK(cuDevicePrimaryCtxRetain(&contexts[i], i));
        OK(cuCtxSetCurrent(contexts[i]));
        OK(cuStreamCreate(&streams[i], 0));
        OK(cuDeviceGetDefaultMemPool(&pools[i], i));
        OK(cuDeviceGetUuid(&uuids[i], i));
    }
    EQUAL((unsigned char)uuids[0].bytes[15], 2);
    EQUAL((unsigned char)uuids[1].bytes[15], 0);
    /* Device 1 is current; the stream decides. */
    OK(cuMemAllocAsync(&block, MIB, streams[0]));
    EQUAL(reserved(pools[1]), 0);
    EQUAL(standin_pool_used(0), MIB);
    OK(cuStreamGetCtx(streams[0], &found));
    CHECK(found == contexts[0]);
    OK(cuStreamGetDevice(streams[0], &device));
    EQUAL(device, 0);
    OK(cuStreamGetDevice(NULL, &device));
    EQUAL(device, 1);
    OK(cuPointerGetAttribute(&ordinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, block));
    EQUAL(ordinal, 0);
    OK(cuMemFreeAsync(block, streams[0]));
    OK(cuMemAlloc(&block, 4 * MIB));
    EQUAL(standin_direct_bytes(0), 0);
    EQUAL(standin_direct_bytes(1), 4 * MIB);
    OK(cuDevicePrimaryCtxReset(1));
    EQUAL(standin_live_bytes(1), 0);
    CHECK(standin_live_bytes(0) > 0);
}

/* The last of three cards is the fastest; CUDA_VISIBLE_DEVICES counts as CUDA does. */
static void device_order(const char *order, const char *visible, const int cards[3])
{
    CUuuid uuid;
    char bus[16];
    int count, value;
    setenv("GPUSTANDIN_FASTEST", "2", 1);
    if (order)
        setenv("CUDA_DEVICE_ORDER", order, 1);
    else
        unsetenv("CUDA_DEVICE_ORDER");
    if (visible)
        setenv("CUDA_VISIBLE_DEVICES", visible, 1);
    OK(cuInit(0));
    OK(cuDeviceGetCount(&count));
    EQUAL(count, visible ? 2 : 3);
    for (int i = 0; i < count; i++) {
        OK(cuDeviceGetUuid(&uuid, i));
        EQUAL((unsigned char)uuid.bytes[15], cards[i]);
        OK(cuDeviceGetPCIBusId(bus, sizeof(bus), i));
        OK(cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_PCI_BUS_ID, i));
        EQUAL(value, 0x0a + cards[i] * 0x10);
        EQUAL(strtol(bus + 5, NULL, 16), value);
    }
}

void check_order_fastest_first(void)
{
    device_order(NULL, NULL, (const int[]){2, 0, 1});
}

void check_order_fastest_visible(void)
{
    device_order("FASTEST_FIRST", "2,0", (const int[]){1, 2, 0});
}

void check_order_by_bus(void)
{
    device_order("PCI_BUS_ID", "2,0", (const int[]){2, 0, 1});
}

/* Copies of all shapes take their turn, and look at the addresses of the card. */
void check_copies_in_order(void)
{
    CUstream stream;
    CUcontext context;
    CUdeviceptr block, wrong = 64;
    CUDA_MEMCPY2D flat = {.srcMemoryType = CU_MEMORYTYPE_DEVICE,
                          .srcPitch = 512,
                          .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                          .dstPitch = 512,
                          .WidthInBytes = 64,
                          .Height = 2};
    CUmemcpyAttributes how = {.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM};
    size_t bytes = 64, first = 0;
    check_begin();
    stream = check_stream();
    OK(cuCtxGetCurrent(&context));
    OK(cuMemAlloc(&block, 4 * MIB));
    flat.srcDevice = flat.dstDevice = block;
    standin_hold(stream);
    OK(cuMemcpyPeerAsync(block, context, block + MIB, context, 64, stream));
    EQUAL(standin_queued(stream), 1);
    OK(cuMemcpy2DAsync(&flat, stream));
    EQUAL(standin_queued(stream), 2);
    OK(cuMemcpyBatchAsync(&block, &block, &bytes, 1, &how, &first, 1, stream));
    EQUAL(standin_queued(stream), 3);
    EQUAL(cuMemcpyPeerAsync(wrong, context, block, context, 64, stream),
          CUDA_ERROR_INVALID_VALUE);
    EQUAL(cuMemcpyBatchAsync(&wrong, &block, &bytes, 1, &how, &first, 1, stream),
          CUDA_ERROR_INVALID_VALUE);
    flat.srcDevice = wrong;
    EQUAL(cuMemcpy2DAsync(&flat, stream), CUDA_ERROR_INVALID_VALUE);
    EQUAL(standin_queued(stream), 3);
    standin_release(stream);
    EQUAL(standin_queued(stream), 0);
    OK(cuMemFree(block));
}
