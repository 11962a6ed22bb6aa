/* Answers before there is anything: no cuInit, no context, names asked for. */
#include "observations.h"

#include <string.h>

void observe_before_init(void)
{
    CUdeviceptr pointer = 0;
    CUcontext context = NULL;
    CUmemoryPool pool = NULL;
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    size_t left, total;
    int value = 0;
    observe_code(cuMemAlloc(&pointer, 4096), "before_init.mem_alloc");
    observe_code(cuMemFree(0), "before_init.mem_free_null");
    observe_code(cuMemAllocAsync(&pointer, 4096, NULL), "before_init.mem_alloc_async");
    observe_code(cuMemFreeAsync(0, NULL), "before_init.mem_free_async_null");
    observe_code(cuMemGetInfo(&left, &total), "before_init.mem_get_info");
    observe_code(cuMemGetInfo(NULL, NULL), "before_init.mem_get_info_null");
    observe_code(cuMemAlloc(NULL, 4096), "before_init.mem_alloc_null");
    observe_code(cuDeviceGetCount(&value), "before_init.device_count");
    observe_code(cuDeviceTotalMem(&total, 0), "before_init.device_total");
    observe_code(cuDevicePrimaryCtxRetain(&context, 0), "before_init.primary_retain");
    observe_code(cuDevicePrimaryCtxRelease(0), "before_init.primary_release");
    observe_code(observe_context_create(&context, 0, 0), "before_init.context_create");
    observe_code(cuCtxGetCurrent(&context), "before_init.context_current");
    observe_code(cuCtxDestroy(NULL), "before_init.context_destroy_null");
    observe_code(cuDeviceGetMemPool(&pool, 0), "before_init.device_pool");
    observe_code(cuThreadExchangeStreamCaptureMode(&mode), "before_init.capture_mode");
    observe_code(cuStreamDestroy(NULL), "before_init.stream_destroy_null");
    observe_code(cuDriverGetVersion(&value), "before_init.driver_version");
    observe_code(cuInit(1), "before_init.init_with_flags");
    observe_code(cuInit(0), "before_init.init");
    observe_code(cuInit(0), "before_init.init_again");
}

void observe_no_context(void)
{
    CUdeviceptr pointer = 0;
    CUcontext context = NULL;
    CUmemoryPool pool = NULL;
    CUstream stream = NULL;
    CUevent event = NULL;
    CUdevice device = 0;
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    void *host = NULL;
    size_t left, total, pitch;
    unsigned flags = 0;
    int active = 0, value = 0;
    cuInit(0);
    observe_code(cuMemAlloc(&pointer, 4096), "no_context.mem_alloc");
    observe_code(cuMemAlloc(NULL, 4096), "no_context.mem_alloc_null");
    observe_code(cuMemAlloc(&pointer, 0), "no_context.mem_alloc_zero");
    observe_code(cuMemAllocPitch(&pointer, &pitch, 1000, 10, 4), "no_context.mem_alloc_pitch");
    observe_code(cuMemAllocManaged(&pointer, 4096, CU_MEM_ATTACH_GLOBAL),
                 "no_context.mem_alloc_managed");
    observe_code(cuMemFree(0), "no_context.mem_free_null");
    observe_code(cuMemFree(4096), "no_context.mem_free_unknown");
    observe_code(cuMemGetInfo(&left, &total), "no_context.mem_get_info");
    observe_code(cuMemGetInfo(NULL, NULL), "no_context.mem_get_info_null");
    observe_code(cuMemAllocAsync(&pointer, 4096, NULL), "no_context.mem_alloc_async");
    observe_code(cuMemFreeAsync(0, NULL), "no_context.mem_free_async_null");
    observe_code(cuMemFreeAsync(4096, NULL), "no_context.mem_free_async_unknown");
    observe_code(cuMemHostAlloc(&host, 4096, 0), "no_context.mem_host_alloc");
    observe_code(cuCtxGetDevice(&device), "no_context.context_device");
    observe_code(cuCtxGetCurrent(&context), "no_context.context_current");
    observe_fact(context == NULL, "no_context.context_current_is_null");
    observe_code(cuCtxSynchronize(), "no_context.context_synchronize");
    observe_code(cuCtxPopCurrent(&context), "no_context.context_pop");
    observe_code(cuCtxDestroy(NULL), "no_context.context_destroy_null");
    observe_code(cuStreamCreate(&stream, 0), "no_context.stream_create");
    observe_code(cuStreamDestroy(NULL), "no_context.stream_destroy_null");
    observe_code(cuStreamGetCtx(NULL, &context), "no_context.stream_context_null");
    observe_code(cuEventCreate(&event, 0), "no_context.event_create");
    observe_code(cuDeviceGetMemPool(&pool, 0), "no_context.device_pool");
    observe_code(cuMemPoolTrimTo(pool, 0), "no_context.pool_trim");
    observe_code(cuThreadExchangeStreamCaptureMode(&mode), "no_context.capture_mode");
    observe_code(cuDevicePrimaryCtxGetState(0, &flags, &active), "no_context.primary_state");
    observe_fact(active, "no_context.primary_active");
    observe_code(cuDevicePrimaryCtxRelease(0), "no_context.primary_release_unretained");
    observe_code(cuDevicePrimaryCtxReset(0), "no_context.primary_reset_inactive");
    observe_code(cuPointerGetAttribute(&value, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, 4096),
                 "no_context.pointer_attribute_unknown");
    observe_code(cuDeviceTotalMem(&total, 99), "no_device.total");
    observe_code(cuDeviceTotalMem(NULL, 0), "no_device.total_null");
    observe_code(cuDevicePrimaryCtxRetain(&context, 99), "no_device.primary_retain");
    observe_code(cuDevicePrimaryCtxRetain(NULL, 0), "no_device.primary_retain_null");
    observe_code(cuDevicePrimaryCtxRelease(99), "no_device.primary_release");
    observe_code(cuDevicePrimaryCtxReset(99), "no_device.primary_reset");
    observe_code(cuDevicePrimaryCtxSetFlags(99, 0), "no_device.primary_set_flags");
    observe_code(observe_context_create(&context, 0, 99), "no_device.context_create");
    observe_code(observe_context_create(NULL, 0, 0), "no_device.context_create_null");
    observe_code(observe_context_create(&context, 0xffff, 0), "no_device.context_create_flags");
    observe_code(cuDeviceGetMemPool(&pool, 99), "no_device.pool");
    observe_code(cuDeviceSetMemPool(99, pool), "no_device.set_pool");
    observe_code(cuDeviceSetMemPool(0, NULL), "no_device.set_pool_null");
}

typedef CUresult (*look_up_v2)(const char *, void **, int, cuuint64_t,
                               CUdriverProcAddressQueryResult *);
typedef CUresult (*look_up_v1)(const char *, void **, int, cuuint64_t);

static void ask(const char *label, const char *symbol, int version, cuuint64_t flags,
                const char *expected)
{
    look_up_v2 look_up = (look_up_v2)observe_symbol("cuGetProcAddress_v2");
    look_up_v1 old = (look_up_v1)observe_symbol("cuGetProcAddress");
    CUdriverProcAddressQueryResult status = 77;
    void *address = &status;
    if (look_up) {
        observe_code(look_up(symbol, &address, version, flags, &status), "lookup.%s", label);
        observe_fact(status, "lookup.%s.status", label);
        observe_fact(address == NULL, "lookup.%s.null", label);
        observe_fact(address == &status, "lookup.%s.untouched", label);
        if (expected)
            observe_fact(address == observe_symbol(expected), "lookup.%s.is_%s", label,
                         expected);
        address = &status;
        observe_code(look_up(symbol, &address, version, flags, NULL), "lookup.%s.no_status",
                     label);
    }
    address = &status;
    if (old) {
        observe_code(old(symbol, &address, version, flags), "lookup.%s.first_form", label);
        observe_fact(address == NULL, "lookup.%s.first_form.null", label);
        observe_fact(address == &status, "lookup.%s.first_form.untouched", label);
    }
}

void observe_lookups(void)
{
    ask("known", "cuMemAlloc", 12000, 0, "cuMemAlloc_v2");
    ask("first_version", "cuMemAlloc", 2000, 0, "cuMemAlloc");
    ask("suffixed", "cuMemAlloc_v2", 12000, 0, NULL);
    ask("unknown", "cuMemNoSuchThing", 12000, 0, NULL);
    ask("empty", "", 12000, 0, NULL);
    ask("too_old", "cuMemAllocAsync", 11000, 0, NULL);
    ask("version_zero", "cuMemAlloc", 0, 0, NULL);
    ask("newest", "cuMemAlloc", 99000, 0, "cuMemAlloc_v2");
    ask("next_minor", "cuMemAlloc", 13010, 0, NULL);
    ask("next_major", "cuMemAlloc", 14000, 0, NULL);
    ask("per_thread", "cuMemAllocAsync", 12000, 2, "cuMemAllocAsync_ptsz");
    ask("legacy", "cuMemAllocAsync", 12000, 1, "cuMemAllocAsync");
    ask("both_flags", "cuMemAllocAsync", 12000, 3, NULL);
    ask("bad_flags", "cuMemAllocAsync", 12000, 8, NULL);
    ask("itself", "cuGetProcAddress", 12000, 0, "cuGetProcAddress_v2");
    ask("itself_first", "cuGetProcAddress", 11030, 0, "cuGetProcAddress");
    /* Not asked: no name, or no place for the answer. The driver crashes (580). */
}
