/*
 * local_memory.c: the local memory that a kernel's launch makes the driver take.
 */
#include "interpose/local_memory.h"

#include <stdlib.h>

#include "interpose/call.h"
#include "interpose/fork.h"
#include "resource/capture.h"
#include "resource/hash.h"
#include "resource/lock.h"
#include "resource/resource.h"

/* What every context has room for from its start: the default stack (measured). */
#define FIRST_BYTES UINT64_C(1024)

_Atomic(CUfunction) gb_local_small[GB_LOCAL_SMALL];

struct known {
    const void *handle;
    bool is_kernel;
    int size; /* local memory of a function, bytes a thread; -1: not asked yet */
    UT_hash_handle hh;
};

static struct known *table;
static struct gb_lock lock = GB_LOCK_INIT;

static void in_child(void)
{
    table = NULL;
    gb_lock_init(&lock);
}

/* Entries stay: a handle that comes back is handed out again, and overwritten. */
static void hand_out(const void *handle, bool is_kernel)
{
    CUfunction function = (CUfunction)(uintptr_t)handle;
    struct known *found, *made;

    if (!handle)
        return;
    /* What is known of an earlier function with this handle is over. */
    if (gb_local_is_small(function))
        atomic_store(&gb_local_small[gb_local_place(function)], NULL);
    gb_fork_on_child(in_child);
    gb_lock_take(&lock);
    HASH_FIND(hh, table, &handle, sizeof(handle), found);
    if (found) {
        found->is_kernel = is_kernel;
        found->size = -1;
    }
    gb_lock_drop(&lock);
    if (found)
        return;
    made = calloc(1, sizeof(*made));
    if (!made)
        return; /* not asked about then: what its launch takes is charged afterwards */
    made->handle = handle;
    made->is_kernel = is_kernel;
    made->size = -1;
    gb_lock_take(&lock);
    HASH_FIND(hh, table, &handle, sizeof(handle), found);
    if (!found) {
        HASH_ADD(hh, table, handle, sizeof(made->handle), made);
        if (made->hh.tbl)
            made = NULL;
    }
    gb_lock_drop(&lock);
    free(made);
}

void gb_local_function(CUfunction function)
{
    hand_out(function, false);
}

void gb_local_kernel(CUkernel kernel)
{
    hand_out(kernel, true);
}

enum origin { UNKNOWN, FUNCTION, KERNEL };

static enum origin origin_of(const void *handle, int *size)
{
    const struct known *found;
    enum origin origin = UNKNOWN;

    gb_lock_take(&lock);
    HASH_FIND(hh, table, &handle, sizeof(handle), found);
    if (found) {
        origin = found->is_kernel ? KERNEL : FUNCTION;
        *size = found->size;
    }
    gb_lock_drop(&lock);
    return origin;
}

/* Of a function only: a kernel may need something else on another device. */
static void note_size(const void *handle, int size)
{
    struct known *found;

    gb_lock_take(&lock);
    HASH_FIND(hh, table, &handle, sizeof(handle), found);
    if (found && !found->is_kernel)
        found->size = size;
    gb_lock_drop(&lock);
}

static void remember(CUfunction function)
{
    atomic_store_explicit(&gb_local_small[gb_local_place(function)], function,
                          memory_order_relaxed);
}

void gb_local_forget(void)
{
    for (int i = 0; i < GB_LOCAL_SMALL; i++)
        atomic_store_explicit(&gb_local_small[i], NULL, memory_order_relaxed);
}

/* Bytes for one thread. A kernel of a library may be launched by its own handle. */
static bool local_size(struct gb_driver *drv, CUfunction function, uint64_t *bytes)
{
    const struct gb_driver_api *api = &drv->api;
    int size = -1;
    enum origin origin = origin_of(function, &size);
    CUresult code = CUDA_ERROR_NOT_SUPPORTED;
    struct gb_capture_mode saved;
    CUdevice dev;

    if (size >= 0) {
        *bytes = (uint64_t)size;
        return true;
    }
    saved = gb_capture_relax(api);
    if (origin == FUNCTION && api->cuFuncGetAttribute)
        code = api->cuFuncGetAttribute(&size, CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES, function);
    if (origin == KERNEL && api->cuKernelGetAttribute &&
        api->cuCtxGetDevice(&dev) == CUDA_SUCCESS)
        code = api->cuKernelGetAttribute(&size, CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES,
                                         (CUkernel)(void *)function, dev);
    gb_capture_restore(api, &saved);
    if (code != CUDA_SUCCESS)
        return false;
    *bytes = size > 0 ? (uint64_t)size : 0;
    note_size(function, (int)*bytes);
    return true;
}

/* How many threads of the device can run at once; asked once. */
static uint64_t threads_of(struct gb_driver *drv, struct gb_device *device)
{
    uint64_t threads = atomic_load(&device->threads);
    int processors = 0, each = 0;

    if (threads > 0 || !drv->api.cuDeviceGetAttribute)
        return threads;
    if (drv->api.cuDeviceGetAttribute(&processors, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT,
                                      device->ordinal) != CUDA_SUCCESS ||
        drv->api.cuDeviceGetAttribute(&each, CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR,
                                      device->ordinal) != CUDA_SUCCESS ||
        processors <= 0 || each <= 0)
        return 0;
    threads = (uint64_t)processors * (uint64_t)each;
    atomic_store(&device->threads, threads);
    return threads;
}

void gb_local_stack_set(struct gb_driver *drv, size_t bytes)
{
    struct gb_device *device;
    CUcontext context;
    CUresult code;

    if (bytes < FIRST_BYTES)
        gb_local_forget();
    if (gb_process_current(drv, &device, &context, &code) == GB_RULING_BUDGET)
        gb_contexts_set_local(&device->backend.contexts, context,
                              bytes > FIRST_BYTES ? bytes : FIRST_BYTES, false);
}

struct local {
    struct gb_call call;
    gb_launch_fn launch;
    void *arg;
};

static CUresult acquire(void *arg, CUdeviceptr *pointer, size_t *bytes)
{
    struct local *local = arg;
    CUresult code = local->launch(local->arg);

    if (code == CUDA_SUCCESS) {
        *pointer = 0;
        *bytes = 0;
    }
    return code;
}

/* What runs, runs: it stays charged. */
static CUresult undo(void *arg, CUdeviceptr pointer)
{
    (void)arg;
    (void)pointer;
    return CUDA_ERROR_NOT_SUPPORTED;
}

/* What the launch adds, in whole steps of the driver. */
static uint64_t growth(uint64_t needed, uint64_t held, uint64_t threads)
{
    return gb_round_up((needed - held) * threads, GB_DIRECT_STEP_BYTES);
}

static CUresult launch_larger(struct gb_driver *drv, struct gb_device *device,
                              CUcontext context, uint64_t needed, gb_launch_fn launch,
                              void *arg, const char *call)
{
    struct gb_contexts *contexts = &device->backend.contexts;
    struct local local = {
        .call = {.drv = drv, .device = device, .name = call}, .launch = launch, .arg = arg};
    uint64_t held = gb_contexts_local(contexts, context, FIRST_BYTES);
    uint64_t threads = threads_of(drv, device);
    gpubudget_request_t request = {.kind = GPUBUDGET_KIND_MEASURED,
                                   .tag = GB_MEASURED_LOCAL,
                                   .context = context,
                                   .acquire = acquire,
                                   .undo = undo,
                                   .arg = &local};
    CUresult code;

    if (needed <= held)
        return launch(arg);
    request.bytes = request.most_bytes = growth(needed, held, threads);
    code = gb_call_allocate(&local.call, &request);
    if (code == CUDA_SUCCESS)
        gb_contexts_set_local(contexts, context, needed, true);
    /* Another thread's launch may have brought all that this one needs meanwhile. */
    else if (!local.call.answered && gb_contexts_local(contexts, context, held) >= needed)
        return launch(arg);
    return code;
}

uint64_t gb_local_need(struct gb_driver *drv, CUfunction function)
{
    uint64_t needed;

    if (!function || gb_local_is_small(function) || !local_size(drv, function, &needed) ||
        needed <= FIRST_BYTES)
        return 0;
    return needed;
}

CUresult gb_local_launch_needing(struct gb_driver *drv, uint64_t needed, gb_launch_fn launch,
                                 void *arg, const char *call)
{
    struct gb_device *device;
    CUcontext context;
    CUresult code;

    if (needed <= FIRST_BYTES ||
        gb_process_current(drv, &device, &context, &code) != GB_RULING_BUDGET ||
        !device->backend.contexts.measure)
        return launch(arg);
    gb_backend_note_context(&device->backend, &drv->api, context, false);
    return launch_larger(drv, device, context, needed, launch, arg, call);
}

CUresult gb_local_launch(struct gb_driver *drv, CUfunction function, CUstream stream,
                         bool is_thread, gb_launch_fn launch, void *arg, const char *call)
{
    const struct gb_stream_call on = {.stream = stream, .is_thread = is_thread};
    struct gb_device *device;
    CUcontext context;
    uint64_t needed;
    CUresult code;

    switch (gb_process_current(drv, &device, &context, &code)) {
    case GB_RULING_BUDGET:
        break;
    case GB_RULING_DENY:
        return CUDA_ERROR_NOT_PERMITTED;
    default:
        return launch(arg);
    }
    if (!device->backend.contexts.measure) {
        remember(function);
        return launch(arg);
    }
    if (!local_size(drv, function, &needed)) {
        /* Of one that comes from nowhere we know nothing can be learned later either. */
        int unused;

        if (origin_of(function, &unused) == UNKNOWN)
            remember(function);
        return launch(arg);
    }
    if (needed <= FIRST_BYTES) {
        remember(function);
        return launch(arg);
    }
    /* A launch that is captured becomes a node: nothing is taken yet. */
    if (gb_process_capturing(drv, &on))
        return launch(arg);
    gb_backend_note_context(&device->backend, &drv->api, context, false);
    return launch_larger(drv, device, context, needed, launch, arg, call);
}
