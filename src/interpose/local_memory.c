/*
 * local_memory.c: what a kernel's launch makes the driver take.
 */
#include "interpose/local_memory.h"

#include <stdlib.h>

#include "interpose/call.h"
#include "interpose/executables.h"
#include "interpose/fork.h"
#include "interpose/kernel_params.h"
#include "interpose/library_use.h"
#include "resource/capture.h"
#include "resource/hash.h"
#include "resource/lock.h"
#include "resource/nap.h"
#include "resource/resource.h"

/* What every context has room for from its start: the default stack (measured). */
#define FIRST_BYTES UINT64_C(1024)

/* So long a launch that was refused waits for others that may bring what it needs, at most. */
enum { WAITS = 4000, NAP_NS = 50000 };

/* A heap of the size that every context starts with is no matter: GPUBUDGET_RESERVE has room.
 */
#define FIRST_HEAP (UINT64_C(8) << 20)

_Atomic(CUfunction) gb_local_small[GB_LOCAL_SMALL];

/*
 * What stands there for a function. Where launches are noted it is not the handle itself, so
 * that each of them is looked at and those that are not pay nothing for it: a handle is the
 * address of an object of the driver, and never odd.
 */
static CUfunction kept(CUfunction function)
{
    if (gb_settings()->stream_order != GB_STREAM_ORDER_ALL)
        return function;
    return (CUfunction)((uintptr_t)function | 1);
}

bool gb_local_is_known_small(CUfunction function)
{
    return atomic_load_explicit(&gb_local_small[gb_local_place(function)],
                                memory_order_relaxed) == kept(function);
}

struct known {
    const void *handle;
    const void *code; /* its module or library; NULL: not known */
    bool is_kernel;
    bool no_heap;   /* it was launched and brought none, or its code calls no malloc */
    bool demanding; /* a kernel that needed more on a device without a limit */
    int size;       /* local memory of a function, bytes a thread; -1: not asked yet */
    UT_hash_handle hh;
};

static struct known *table;
static struct gb_lock lock = GB_LOCK_INIT;

static void in_child(void)
{
    table = NULL;
    gb_lock_init(&lock);
}

static struct known *find(const void *handle)
{
    struct known *found;

    HASH_FIND(hh, table, &handle, sizeof(handle), found);
    return found;
}

/* Entries stay: a handle that comes back is handed out again, and overwritten. */
static void hand_out(const void *handle, bool is_kernel, const void *code)
{
    CUfunction function = (CUfunction)(uintptr_t)handle;
    bool no_heap = !gb_code_has_heap(code);
    struct known *found, *made = NULL;

    if (!handle)
        return;
    /* What is known of an earlier function with this handle is over. */
    if (gb_local_is_known_small(function))
        atomic_store(&gb_local_small[gb_local_place(function)], NULL);
    gb_kernel_params_drop(handle);
    gb_fork_on_child(in_child);
    for (;;) {
        gb_lock_take(&lock);
        found = find(handle);
        if (!found && made) {
            made->handle = handle;
            HASH_ADD(hh, table, handle, sizeof(made->handle), made);
            if (made->hh.tbl) {
                found = made;
                made = NULL;
            }
        }
        if (found) {
            found->is_kernel = is_kernel;
            found->code = code;
            found->no_heap = no_heap;
            found->demanding = false;
            found->size = -1;
        }
        gb_lock_drop(&lock);
        /* Without memory it is not asked about: what its launch takes is charged afterwards. */
        if (found || made || !(made = calloc(1, sizeof(*made))))
            break;
    }
    free(made);
}

void gb_local_function(CUfunction function, const void *code)
{
    hand_out(function, false, code);
}

void gb_local_kernel(CUkernel kernel, CUlibrary library)
{
    hand_out(kernel, true, library);
}

void gb_local_function_of(CUfunction function, CUkernel kernel)
{
    hand_out(function, false, gb_local_library_of(kernel));
}

CUlibrary gb_local_library_of(const void *kernel)
{
    const struct known *found;
    const void *library;

    gb_lock_take(&lock);
    found = find(kernel);
    library = found && found->is_kernel ? found->code : NULL;
    gb_lock_drop(&lock);
    return (CUlibrary)(uintptr_t)library;
}

enum origin { UNKNOWN, FUNCTION, KERNEL };

static enum origin origin_of(const void *handle, int *size)
{
    const struct known *found;
    enum origin origin = UNKNOWN;

    gb_lock_take(&lock);
    found = find(handle);
    if (found) {
        origin = found->is_kernel ? KERNEL : FUNCTION;
        *size = found->size;
    }
    gb_lock_drop(&lock);
    return origin;
}

bool gb_local_origin(const void *handle, bool *is_kernel)
{
    int unused;
    enum origin origin = origin_of(handle, &unused);

    *is_kernel = origin == KERNEL;
    return origin != UNKNOWN;
}

/* Of a function only: a kernel may need something else on another device. */
static void note_size(const void *handle, int size)
{
    struct known *found;

    gb_lock_take(&lock);
    found = find(handle);
    if (found && !found->is_kernel)
        found->size = size;
    gb_lock_drop(&lock);
}

static bool may_need_heap(const void *handle)
{
    const struct known *found;
    bool may;

    gb_lock_take(&lock);
    found = find(handle);
    may = found && !found->no_heap;
    gb_lock_drop(&lock);
    return may;
}

static bool is_demanding(const void *handle)
{
    const struct known *found;
    bool demanding;

    gb_lock_take(&lock);
    found = find(handle);
    demanding = found && found->demanding;
    gb_lock_drop(&lock);
    return demanding;
}

static void note_demanding(const void *handle)
{
    struct known *found;

    gb_lock_take(&lock);
    found = find(handle);
    if (found)
        found->demanding = true;
    gb_lock_drop(&lock);
}

static void note_no_heap(const void *handle)
{
    struct known *found;

    gb_lock_take(&lock);
    found = find(handle);
    if (found)
        found->no_heap = true;
    gb_lock_drop(&lock);
}

static void forget(CUfunction function)
{
    CUfunction expected = kept(function);

    atomic_compare_exchange_strong(&gb_local_small[gb_local_place(function)], &expected, NULL);
}

/*
 * Its launches are not looked at any more. A kernel that may be launched in another context, to
 * which its library or the heap has not come, is not remembered; a second context makes all
 * forgotten, and one that comes meanwhile is seen after the store.
 */
static void remember(CUfunction function)
{
    struct gb_image unused;
    bool elsewhere = may_need_heap(function) ||
                     (atomic_load_explicit(&gb_code_libraries, memory_order_relaxed) > 0 &&
                      gb_code_brings(gb_local_library_of(function), &unused));

    if (elsewhere && gb_library_contexts() > 1)
        return;
    atomic_store(&gb_local_small[gb_local_place(function)], kept(function));
    if (elsewhere && gb_library_contexts() > 1)
        forget(function);
}

void gb_local_forget(void)
{
    gb_kernel_params_forget();
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

uint64_t gb_local_frames(struct gb_driver *drv, struct gb_device *device, CUcontext context,
                         const struct gb_image *image)
{
    uint64_t held = gb_contexts_frames(&device->backend.contexts, context);

    if (image->frames <= held)
        return 0;
    return gb_round_up(image->frames * threads_of(drv, device), GB_DIRECT_STEP_BYTES) -
           gb_round_up(held * threads_of(drv, device), GB_DIRECT_STEP_BYTES);
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

/* A launch, or what brings the same. */
struct local {
    struct gb_call call;
    CUcontext context;
    uint64_t needed, heap; /* bytes a thread; bytes that may come with it */
    uint64_t besides;      /* bytes of other things that come where one of these does */
    CUfunction function;   /* whose launch it is, NULL for a graph */
    bool is_launch; /* after it all is there; else only if the driver took it now already */
    gb_launch_fn launch, otherwise; /* the latter where nothing of that comes */
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

/* What the launch adds for local memory, in whole steps of the driver. */
static uint64_t local_growth(uint64_t needed, uint64_t held, uint64_t threads)
{
    return needed > held ? gb_round_up((needed - held) * threads, GB_DIRECT_STEP_BYTES) : 0;
}

/* Local memory that the current context has by its stack limit, which grows with it (measured),
 * bytes a thread; 0: cannot tell. */
static uint64_t local_there(struct gb_driver *drv)
{
    struct gb_capture_mode saved;
    size_t bytes = 0;
    CUresult code;

    if (!drv->api.cuCtxGetLimit)
        return 0;
    saved = gb_capture_relax(&drv->api);
    code = drv->api.cuCtxGetLimit(&bytes, CU_LIMIT_STACK_SIZE);
    gb_capture_restore(&drv->api, &saved);
    return code == CUDA_SUCCESS ? bytes : 0;
}

/* The heap of the current context, where it has not come yet and is larger than usual. */
static uint64_t heap_growth(struct gb_driver *drv, struct gb_contexts *contexts,
                            CUcontext context)
{
    struct gb_capture_mode saved;
    size_t bytes = 0;
    CUresult code;

    if (!drv->api.cuCtxGetLimit || gb_contexts_has_heap(contexts, context))
        return 0;
    saved = gb_capture_relax(&drv->api);
    code = drv->api.cuCtxGetLimit(&bytes, CU_LIMIT_MALLOC_HEAP_SIZE);
    gb_capture_restore(&drv->api, &saved);
    return code == CUDA_SUCCESS && bytes > FIRST_HEAP ? gb_round_up(bytes, GB_DIRECT_STEP_BYTES)
                                                      : 0;
}

/* After a graph's: what has come. Not all its kernels need both, and those that may be in a
 * body need not be in it. */
static void note_graph(const struct local *local, uint64_t held, uint64_t threads,
                       uint64_t charged)
{
    struct gb_contexts *contexts = &local->call.device->backend.contexts;
    uint64_t there = local_there(local->call.drv);

    charged -= charged < local->besides ? charged : local->besides;
    if (there > local->needed ||
        charged >= local_growth(local->needed, held, threads) + local->heap)
        there = local->needed;
    if (there > held)
        gb_contexts_set_local(contexts, local->context, there, true);
    if (local->heap > 0 && charged >= local_growth(there, held, threads) + local->heap)
        gb_contexts_set_heap(contexts, local->context);
}

static CUresult launch_larger(struct local *local)
{
    struct gb_device *device = local->call.device;
    struct gb_contexts *contexts = &device->backend.contexts;
    uint64_t held = gb_contexts_local(contexts, local->context, FIRST_BYTES);
    uint64_t threads = threads_of(local->call.drv, device);
    gpubudget_request_t request = {.kind = GPUBUDGET_KIND_MEASURED,
                                   .tag = GB_MEASURED_LOCAL,
                                   .context = local->context,
                                   .acquire = acquire,
                                   .undo = undo,
                                   .arg = local};
    CUresult code;

    if (local->needed <= held && local->heap == 0)
        return local->otherwise(local->arg);
    request.bytes = local_growth(local->needed, held, threads) + local->heap + local->besides;
    request.most_bytes = request.bytes;
    atomic_fetch_add(&device->growing, 1);
    code = gb_call_allocate(&local->call, &request);
    if (code == CUDA_SUCCESS) {
        if (local->is_launch)
            gb_contexts_set_local(contexts, local->context, local->needed, true);
        /* Not every function of code that calls malloc does so itself. */
        if (!local->function)
            note_graph(local, held, threads, request.charged);
        else if (local->heap > 0 && request.charged >= request.bytes)
            gb_contexts_set_heap(contexts, local->context);
        else if (local->heap > 0)
            note_no_heap(local->function);
    }
    atomic_fetch_sub(&device->growing, 1);
    /* Another thread's launch may be bringing all that this one needs. */
    for (int i = 0; code != CUDA_SUCCESS && !local->call.answered && local->heap == 0; i++) {
        bool others = atomic_load(&device->growing) > 0;

        if (gb_contexts_local(contexts, local->context, held) >= local->needed)
            return local->otherwise(local->arg);
        if (!others || i == WAITS)
            break;
        gb_nap(NAP_NS);
    }
    return code;
}

struct gb_launch_need gb_local_need(struct gb_driver *drv, CUfunction function)
{
    struct gb_launch_need need = {0, false};
    uint64_t local;

    if (!function || gb_local_is_known_small(function))
        return need;
    if (local_size(drv, function, &local) && local > FIRST_BYTES)
        need.local = local;
    need.heap = may_need_heap(function);
    return need;
}

static CUresult with_need(const struct gb_launch_need *need, struct local *local)
{
    struct gb_driver *drv = local->call.drv;
    struct gb_device *device;
    CUcontext context;
    CUresult code;

    if ((need->local <= FIRST_BYTES && !need->heap) ||
        gb_process_current(drv, &device, &context, &code) != GB_RULING_BUDGET ||
        !device->backend.contexts.measure)
        return local->otherwise(local->arg);
    gb_backend_note_context(&device->backend, &drv->api, context, false);
    local->call.device = device;
    local->context = context;
    local->needed = need->local;
    local->heap = need->heap ? heap_growth(drv, &device->backend.contexts, context) : 0;
    return launch_larger(local);
}

CUresult gb_local_launch_needing(struct gb_driver *drv, const struct gb_launch_need *need,
                                 gb_launch_fn launch, void *arg, const char *call)
{
    return with_need(need, &(struct local){.call = {.drv = drv, .name = call},
                                           .is_launch = true,
                                           .launch = launch,
                                           .otherwise = launch,
                                           .arg = arg});
}

CUresult gb_local_prepare(struct gb_driver *drv, const struct gb_launch_need *need,
                          gb_launch_fn prepare, void *arg, const char *call)
{
    return gb_local_prepare_besides(drv, need, 0, prepare, prepare, arg, call);
}

CUresult gb_local_prepare_besides(struct gb_driver *drv, const struct gb_launch_need *need,
                                  uint64_t besides, gb_launch_fn prepare,
                                  gb_launch_fn otherwise, void *arg, const char *call)
{
    return with_need(need, &(struct local){.call = {.drv = drv, .name = call},
                                           .besides = besides,
                                           .launch = prepare,
                                           .otherwise = otherwise,
                                           .arg = arg});
}

/* A function is of one context. A kernel may be launched on a device with a limit next: it must
 * not bring anything there. */
static bool is_small_everywhere(struct gb_driver *drv, CUfunction function)
{
    struct gb_image unused;
    uint64_t needed;
    int size;

    if (origin_of(function, &size) != KERNEL)
        return true;
    if (is_demanding(function) || may_need_heap(function) ||
        gb_code_brings(gb_local_library_of(function), &unused) ||
        !local_size(drv, function, &needed))
        return false;
    if (needed > FIRST_BYTES)
        note_demanding(function);
    return needed <= FIRST_BYTES;
}

/* Where there is no limit; also without a context, or before the devices are known, and then
 * nothing is learned. */
static CUresult launch_unlimited(struct gb_driver *drv, CUfunction function, CUcontext context,
                                 gb_launch_fn launch, void *arg)
{
    CUresult code = launch(arg);

    /* What the driver has launched here is of this context. */
    if (code == CUDA_SUCCESS && context && gb_process_device_count() > 0 &&
        is_small_everywhere(drv, function))
        atomic_store(&gb_local_small[gb_local_place(function)], kept(function));
    return code;
}

CUresult gb_local_launch(struct gb_driver *drv, CUfunction function, CUstream stream,
                         bool is_thread, gb_launch_fn launch, void *arg, const char *call)
{
    const struct gb_stream_call on = {.stream = stream, .is_thread = is_thread};
    uint64_t needed = 0, heap = 0;
    struct gb_device *device;
    CUcontext context;
    bool is_known;
    CUresult code;

    if (gb_local_is_known_small(function))
        return launch(arg);
    switch (gb_process_current(drv, &device, &context, &code)) {
    case GB_RULING_BUDGET:
        break;
    case GB_RULING_DENY:
        return CUDA_ERROR_NOT_PERMITTED;
    case GB_RULING_FORWARD:
        return launch_unlimited(drv, function, context, launch, arg);
    default:
        return launch(arg);
    }
    if (!device->backend.contexts.measure) {
        remember(function);
        return launch(arg);
    }
    code = gb_library_bring_kernel(drv, function, call);
    if (code != CUDA_SUCCESS)
        return code;
    is_known = local_size(drv, function, &needed);
    if (may_need_heap(function)) {
        gb_backend_note_context(&device->backend, &drv->api, context, false);
        heap = heap_growth(drv, &device->backend.contexts, context);
    }
    if (heap == 0 && (!is_known || needed <= FIRST_BYTES)) {
        int unused;

        /* Of one that comes from nowhere we know nothing can be learned later either. */
        if (is_known || origin_of(function, &unused) == UNKNOWN)
            remember(function);
        return launch(arg);
    }
    /* A launch that is captured becomes a node, perhaps in a body: nothing is taken yet. */
    if (gb_process_capturing(drv, &on)) {
        gb_graph_note_kernel(drv, function);
        return launch(arg);
    }
    gb_backend_note_context(&device->backend, &drv->api, context, false);
    return launch_larger(&(struct local){.call = {.drv = drv, .device = device, .name = call},
                                         .context = context,
                                         .needed = needed,
                                         .heap = heap,
                                         .function = function,
                                         .is_launch = true,
                                         .launch = launch,
                                         .otherwise = launch,
                                         .arg = arg});
}
