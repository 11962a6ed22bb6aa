/* Capture: what it forbids, to whom, and what is spoiled by it. */
#include "observations.h"

#include <pthread.h>
#include <stdio.h>

static CUstream captured, bystander;
static CUcontext shared_context;
static CUevent event;
static CUmemoryPool pool, warm;
static CUdeviceptr kept, ordered;
static CUcontext created; /* to be destroyed when the capture is over */

enum call {
    MEM_ALLOC,
    MEM_FREE,
    MEM_GET_INFO,
    EVENT_QUERY,
    EVENT_SYNCHRONIZE,
    POOL_GET_ATTRIBUTE,
    POOL_SET_ATTRIBUTE,
    POOL_TRIM,
    POOL_CREATE,
    STREAM_SYNCHRONIZE_OTHER,
    STREAM_QUERY_OTHER,
    STREAM_CREATE,
    STREAM_IS_CAPTURING,
    CONTEXT_SYNCHRONIZE,
    CONTEXT_CREATE,
    DEVICE_GET_POOL,
    MEM_HOST_ALLOC,
    MEM_ALLOC_MANAGED,
    MEM_ALLOC_ASYNC_OTHER,
    MEM_ALLOC_ASYNC_WARM, /* from a pool that need not grow */
    MEM_FREE_ASYNC_OTHER,
    EVENT_CREATE,
    EVENT_RECORD_OTHER,
    STREAM_WAIT_EVENT_OTHER,
    POINTER_ATTRIBUTE,
    CALLS
};

static const char *const call_names[CALLS] = {
    "mem_alloc",
    "mem_free",
    "mem_get_info",
    "event_query",
    "event_synchronize",
    "pool_get_attribute",
    "pool_set_attribute",
    "pool_trim",
    "pool_create",
    "stream_synchronize_other",
    "stream_query_other",
    "stream_create",
    "stream_is_capturing",
    "context_synchronize",
    "context_create",
    "device_get_pool",
    "mem_host_alloc",
    "mem_alloc_managed",
    "mem_alloc_async_other",
    "mem_alloc_async_warm",
    "mem_free_async_other",
    "event_create",
    "event_record_other",
    "stream_wait_event_other",
    "pointer_attribute",
};

static CUresult make(enum call which)
{
    CUdeviceptr pointer = 0;
    cuuint64_t value = 0;
    size_t left, total;
    void *host = NULL;
    CUstream stream = NULL;
    CUcontext context = NULL;
    CUevent other = NULL;
    CUmemoryPool another = NULL;
    CUmemPoolProps props = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                            .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}};
    CUstreamCaptureStatus status;
    switch (which) {
    case MEM_ALLOC:
        return cuMemAlloc(&pointer, 4096);
    case MEM_FREE:
        return cuMemFree(kept);
    case MEM_GET_INFO:
        return cuMemGetInfo(&left, &total);
    case EVENT_QUERY:
        return cuEventQuery(event);
    case EVENT_SYNCHRONIZE:
        return cuEventSynchronize(event);
    case POOL_GET_ATTRIBUTE:
        return cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &value);
    case POOL_SET_ATTRIBUTE:
        return cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &value);
    case POOL_TRIM:
        return cuMemPoolTrimTo(pool, 0);
    case POOL_CREATE:
        return cuMemPoolCreate(&another, &props);
    case STREAM_SYNCHRONIZE_OTHER:
        return cuStreamSynchronize(bystander);
    case STREAM_QUERY_OTHER:
        return cuStreamQuery(bystander);
    case STREAM_CREATE:
        return cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING);
    case STREAM_IS_CAPTURING:
        return cuStreamIsCapturing(bystander, &status);
    case CONTEXT_SYNCHRONIZE:
        return cuCtxSynchronize();
    case CONTEXT_CREATE: {
        CUresult code = observe_context_create(&context, 0, 0);
        created = context;
        if (!code)
            cuCtxSetCurrent(shared_context);
        return code;
    }
    case DEVICE_GET_POOL:
        return cuDeviceGetMemPool(&another, 0);
    case MEM_HOST_ALLOC:
        return cuMemHostAlloc(&host, 4096, 0);
    case MEM_ALLOC_MANAGED:
        return cuMemAllocManaged(&pointer, 4096, CU_MEM_ATTACH_GLOBAL);
    case MEM_ALLOC_ASYNC_OTHER:
        return cuMemAllocAsync(&pointer, 4096, bystander);
    case MEM_ALLOC_ASYNC_WARM:
        return cuMemAllocFromPoolAsync(&pointer, 4096, warm, bystander);
    case MEM_FREE_ASYNC_OTHER:
        return cuMemFreeAsync(ordered, bystander);
    case EVENT_CREATE:
        return cuEventCreate(&other, 0);
    case EVENT_RECORD_OTHER:
        return cuEventRecord(event, bystander);
    case STREAM_WAIT_EVENT_OTHER:
        return cuStreamWaitEvent(bystander, event, 0);
    default:
        return cuPointerGetAttribute(&value, CU_POINTER_ATTRIBUTE_BUFFER_ID, kept);
    }
}

struct question {
    enum call which;
    bool relaxed;
    CUresult code;
};

static void *ask(void *argument)
{
    struct question *question = argument;
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    cuCtxSetCurrent(shared_context);
    if (question->relaxed)
        cuThreadExchangeStreamCaptureMode(&mode);
    question->code = make(question->which);
    if (question->relaxed)
        cuThreadExchangeStreamCaptureMode(&mode);
    return NULL;
}

static void prepare(void)
{
    shared_context = observe_primary();
    captured = observe_stream();
    bystander = observe_stream();
    cuEventCreate(&event, CU_EVENT_DISABLE_TIMING);
    cuEventRecord(event, bystander);
    cuDeviceGetDefaultMemPool(&pool, 0);
    warm = observe_pool(0, UINT64_MAX);
    cuMemAllocFromPoolAsync(&ordered, MIB, warm, bystander);
    cuMemFreeAsync(ordered, bystander);
    cuCtxSynchronize();
}

/* One capture, one call in it, from this thread or another; what both answer. */
static void within(const char *mode_name, CUstreamCaptureMode mode, const char *who,
                   bool another_thread, bool relaxed)
{
    for (int i = 0; i < CALLS; i++) {
        struct question question = {.which = (enum call)i, .relaxed = relaxed};
        CUgraph graph = NULL;
        CUresult ended;
        cuMemAlloc(&kept, 4096);
        cuMemAllocFromPoolAsync(&ordered, 4096, warm, bystander);
        if (cuStreamBeginCapture(captured, mode) != CUDA_SUCCESS) {
            observe_fact(0, "capture.%s.%s.%s.begun", mode_name, who, call_names[i]);
            continue;
        }
        if (another_thread) {
            pthread_t thread;
            pthread_create(&thread, NULL, ask, &question);
            pthread_join(thread, NULL);
        } else {
            ask(&question);
        }
        ended = cuStreamEndCapture(captured, &graph);
        observe_code(question.code, "capture.%s.%s.%s", mode_name, who, call_names[i]);
        observe_code(ended, "capture.%s.%s.%s.end", mode_name, who, call_names[i]);
        if (graph)
            cuGraphDestroy(graph);
        if (created) {
            cuCtxDestroy(created);
            created = NULL;
            cuCtxSetCurrent(shared_context);
        }
        if (question.which != MEM_FREE || question.code)
            cuMemFree(kept);
        if (question.which != MEM_FREE_ASYNC_OTHER || question.code)
            cuMemFreeAsync(ordered, bystander);
    }
}

void observe_capture_global(void)
{
    prepare();
    within("global", CU_STREAM_CAPTURE_MODE_GLOBAL, "same", false, false);
    within("global", CU_STREAM_CAPTURE_MODE_GLOBAL, "other", true, false);
    within("global", CU_STREAM_CAPTURE_MODE_GLOBAL, "same_relaxed", false, true);
    within("global", CU_STREAM_CAPTURE_MODE_GLOBAL, "other_relaxed", true, true);
}

void observe_capture_other(void)
{
    CUstreamCaptureStatus status = 77;
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    CUgraph graph = (CUgraph)(uintptr_t)0x77;
    CUdeviceptr pointer = 0;
    CUstream blocking = NULL;
    uint64_t before;
    prepare();
    within("thread_local", CU_STREAM_CAPTURE_MODE_THREAD_LOCAL, "same", false, false);
    within("thread_local", CU_STREAM_CAPTURE_MODE_THREAD_LOCAL, "other", true, false);
    within("relaxed", CU_STREAM_CAPTURE_MODE_RELAXED, "same", false, false);
    observe_code(cuThreadExchangeStreamCaptureMode(&mode), "capture.exchange");
    observe_fact(mode, "capture.exchange_gives");
    cuThreadExchangeStreamCaptureMode(&mode);
    /* Not asked: the exchange without a place for the mode. The driver crashes (580). */
    observe_code(cuStreamEndCapture(captured, &graph), "capture.end_without_begin");
    observe_code(cuStreamBeginCapture(NULL, CU_STREAM_CAPTURE_MODE_GLOBAL),
                 "capture.begin_legacy");
    observe_code(cuStreamIsCapturing(NULL, &status), "capture.legacy_is_capturing_idle");
    observe_fact(status, "capture.legacy_status_idle");
    cuStreamCreate(&blocking, CU_STREAM_DEFAULT);
    cuStreamBeginCapture(blocking, CU_STREAM_CAPTURE_MODE_GLOBAL);
    observe_code(cuStreamIsCapturing(blocking, &status), "capture.is_capturing");
    observe_fact(status, "capture.status");
    observe_code(cuStreamIsCapturing(NULL, &status), "capture.legacy_is_capturing");
    observe_code(cuStreamEndCapture(blocking, &graph), "capture.end_after_legacy_question");
    cuStreamBeginCapture(blocking, CU_STREAM_CAPTURE_MODE_GLOBAL);
    observe_code(cuMemAllocAsync(&pointer, 4096, NULL), "capture.alloc_async_legacy");
    observe_code(cuStreamEndCapture(blocking, &graph), "capture.alloc_async_legacy.end");
    cuStreamBeginCapture(captured, CU_STREAM_CAPTURE_MODE_GLOBAL);
    observe_code(cuStreamIsCapturing(NULL, &status), "capture.nonblocking_legacy_is_capturing");
    observe_code(cuStreamBeginCapture(captured, CU_STREAM_CAPTURE_MODE_GLOBAL),
                 "capture.begin_twice");
    observe_code(cuStreamEndCapture(captured, &graph), "capture.begin_twice.end");
    cuStreamBeginCapture(captured, CU_STREAM_CAPTURE_MODE_GLOBAL);
    before = observe_process_bytes();
    observe_code(cuMemAllocAsync(&pointer, 64 * MIB, captured), "capture.alloc_on_captured");
    observe_size(observe_process_bytes() - before, "capture.alloc_on_captured.process");
    observe_code(cuMemFreeAsync(pointer, captured), "capture.free_on_captured");
    observe_code(cuStreamQuery(captured), "capture.query_captured");
    observe_code(cuStreamEndCapture(captured, &graph), "capture.query_captured.end");
    observe_fact(graph == NULL, "capture.spoiled_graph_is_null");
    cuMemAllocAsync(&pointer, 4096, bystander);
    cuStreamBeginCapture(captured, CU_STREAM_CAPTURE_MODE_GLOBAL);
    observe_code(cuMemFreeAsync(pointer, captured), "capture.free_of_outside_block");
    observe_code(cuStreamEndCapture(captured, &graph), "capture.free_of_outside_block.end");
}
