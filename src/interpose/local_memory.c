/*
 * local_memory.c: what a kernel's launch makes the driver take.
 */
#include "interpose/local_memory.h"

#include "interpose/call.h"
#include "interpose/executables.h"
#include "interpose/functions_known.h"
#include "interpose/handlers.h"
#include "interpose/library_use.h"
#include "resource/capture.h"
#include "resource/enter.h"
#include "resource/nap.h"
#include "resource/resource.h"

/* So long a launch that was refused waits for others that may bring what it needs, at most. */
enum { WAITS = 4000, NAP_NS = 50000 };

/* A heap of the size that every context starts with is no matter: GPUBUDGET_RESERVE has room.
 */
#define FIRST_HEAP (UINT64_C(8) << 20)

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

    if (bytes < GB_LOCAL_FIRST_BYTES)
        gb_known_forget();
    if (gb_process_current(drv, &device, &context, &code) == GB_RULING_BUDGET)
        gb_contexts_set_local(&device->backend.contexts, context,
                              bytes > GB_LOCAL_FIRST_BYTES ? bytes : GB_LOCAL_FIRST_BYTES,
                              false);
}

/* A launch, or what brings the same. */
struct local {
    struct gb_call call;
    CUcontext context;
    uint64_t needed, heap; /* bytes a thread; bytes that may come with it */
    uint64_t besides;      /* bytes of other things that come where one of these does */
    uint64_t *came;        /* of them, for sure; NULL: nobody asks */
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
    uint64_t held = gb_contexts_local(contexts, local->context, GB_LOCAL_FIRST_BYTES);
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
    if (local->came && !request.guessed && request.charged > request.bytes - local->besides)
        *local->came = request.charged - (request.bytes - local->besides);
    if (code == CUDA_SUCCESS) {
        if (local->is_launch)
            gb_contexts_set_local(contexts, local->context, local->needed, true);
        /* Not every function of code that calls malloc does so itself. */
        if (!local->function)
            note_graph(local, held, threads, request.charged);
        else if (local->heap > 0 && request.charged >= request.bytes)
            gb_contexts_set_heap(contexts, local->context);
        else if (local->heap > 0)
            gb_known_note_no_heap(local->function);
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

static CUresult with_need(const struct gb_launch_need *need, struct local *local)
{
    struct gb_driver *drv = local->call.drv;
    struct gb_device *device;
    CUcontext context;
    CUresult code;

    if ((need->local <= GB_LOCAL_FIRST_BYTES && !need->heap) ||
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
    return gb_local_prepare_besides(drv, need, 0, NULL, prepare, prepare, arg, call);
}

CUresult gb_local_prepare_besides(struct gb_driver *drv, const struct gb_launch_need *need,
                                  uint64_t besides, uint64_t *came, gb_launch_fn prepare,
                                  gb_launch_fn otherwise, void *arg, const char *call)
{
    return with_need(need, &(struct local){.call = {.drv = drv, .name = call},
                                           .besides = besides,
                                           .came = came,
                                           .launch = prepare,
                                           .otherwise = otherwise,
                                           .arg = arg});
}

struct bring {
    struct gb_driver *drv;
    size_t bytes; /* a thread */
};

/* A larger stack brings as much as a kernel that needs it, and shows the same (measured). */
static CUresult set_stack(void *arg)
{
    const struct bring *bring = arg;
    struct gb_capture_mode saved;
    CUresult code;

    if (local_there(bring->drv) >= bring->bytes)
        return CUDA_SUCCESS;
    saved = gb_capture_relax(&bring->drv->api);
    code = GB_REAL(bring->drv, cuCtxSetLimit)(CU_LIMIT_STACK_SIZE, bring->bytes);
    gb_capture_restore(&bring->drv->api, &saved);
    return code;
}

static CUresult nothing(void *arg)
{
    (void)arg;
    return CUDA_SUCCESS;
}

static CUresult bring_to(struct gb_driver *drv, CUcontext context, uint64_t bytes,
                         const char *call)
{
    const struct gb_launch_need need = {.local = bytes};
    struct bring bring = {.drv = drv, .bytes = bytes};
    struct local local = {.call = {.drv = drv, .name = call},
                          .is_launch = true,
                          .launch = set_stack,
                          .otherwise = nothing,
                          .arg = &bring};
    CUresult code;
    bool pushed;

    /* Where it cannot be asked the driver will have an answer of its own. */
    if (bytes == 0 || !gb_enter(&drv->api, context, &pushed))
        return CUDA_SUCCESS;
    code = with_need(&need, &local);
    gb_leave(&drv->api, pushed);
    return code;
}

CUresult gb_local_bring(struct gb_driver *drv, const struct gb_graph_needs *needs,
                        const char *call)
{
    CUresult code = CUDA_SUCCESS;

    for (int i = 1; i < GB_GRAPH_CONTEXTS && code == CUDA_SUCCESS; i++)
        code = bring_to(drv, needs->widths.context[i], needs->elsewhere[i], call);
    return code;
}

/* A function is of one context. A kernel may be launched on a device with a limit next: it must
 * not bring anything there. */
static bool is_small_everywhere(struct gb_driver *drv, CUfunction function)
{
    struct gb_image unused;
    uint64_t needed;
    int size;

    if (gb_known_find(function, &size) != GB_ORIGIN_KERNEL)
        return true;
    if (gb_known_is_demanding(function) || gb_known_may_need_heap(function) ||
        gb_code_brings(gb_known_library(function), &unused) ||
        !gb_local_size(drv, function, &needed))
        return false;
    if (needed > GB_LOCAL_FIRST_BYTES)
        gb_known_note_demanding(function);
    return needed <= GB_LOCAL_FIRST_BYTES;
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
        gb_known_remember_here(function);
    return code;
}

/* In the current context. */
static CUresult launch_here(struct gb_driver *drv, CUfunction function,
                            const struct gb_stream_call *on, gb_launch_fn launch, void *arg,
                            const char *call)
{
    uint64_t needed = 0, heap = 0;
    struct gb_device *device;
    CUcontext context;
    bool is_known;
    CUresult code;

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
        gb_known_remember(function);
        return launch(arg);
    }
    code = gb_library_bring_kernel(drv, function, call);
    if (code != CUDA_SUCCESS)
        return code;
    is_known = gb_local_size(drv, function, &needed);
    if (gb_known_may_need_heap(function)) {
        gb_backend_note_context(&device->backend, &drv->api, context, false);
        heap = heap_growth(drv, &device->backend.contexts, context);
    }
    if (heap == 0 && (!is_known || needed <= GB_LOCAL_FIRST_BYTES)) {
        int unused;

        /* Of one that comes from nowhere we know nothing can be learned later either. */
        if (is_known || gb_known_find(function, &unused) == GB_ORIGIN_UNKNOWN)
            gb_known_remember(function);
        return launch(arg);
    }
    /* A launch that is captured becomes a node, perhaps in a body: nothing is taken yet. */
    if (gb_process_capturing(drv, on)) {
        gb_graph_note_kernel(drv, function, NULL);
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

/*
 * The context that the stream is of, where that may not be the current one, which it need not
 * be: what a launch takes comes to that context. NULL: the current one.
 */
static CUcontext context_of_stream(struct gb_driver *drv, CUstream stream)
{
    struct gb_capture_mode saved;
    CUcontext context = NULL;
    CUresult code;

    if (!stream || stream == CU_STREAM_LEGACY || stream == CU_STREAM_PER_THREAD ||
        !drv->api.cuStreamGetCtx || (gb_process_only(drv) && gb_library_contexts() <= 1))
        return NULL;
    saved = gb_capture_relax(&drv->api);
    code = drv->api.cuStreamGetCtx(stream, &context);
    gb_capture_restore(&drv->api, &saved);
    return code == CUDA_SUCCESS ? context : NULL;
}

struct elsewhere {
    struct gb_driver *drv;
    CUcontext context;
    bool is_in;
    gb_launch_fn launch;
    void *arg;
};

/* The program's own call is made in its own context. */
static CUresult launch_from_there(void *arg)
{
    struct elsewhere *elsewhere = arg;
    const struct gb_driver_api *api = &elsewhere->drv->api;
    CUresult code;

    gb_leave(api, elsewhere->is_in);
    code = elsewhere->launch(elsewhere->arg);
    gb_enter(api, elsewhere->context, &elsewhere->is_in);
    return code;
}

CUresult gb_local_launch(struct gb_driver *drv, CUfunction function, CUstream stream,
                         bool is_thread, gb_launch_fn launch, void *arg, const char *call)
{
    const struct gb_stream_call on = {.stream = stream, .is_thread = is_thread};
    struct elsewhere elsewhere = {.drv = drv, .launch = launch, .arg = arg};
    CUresult code;

    if (gb_known_needs_nothing(function))
        return launch(arg);
    elsewhere.context = context_of_stream(drv, stream);
    if (elsewhere.context)
        gb_enter(&drv->api, elsewhere.context, &elsewhere.is_in);
    if (!elsewhere.is_in)
        return launch_here(drv, function, &on, launch, arg, call);
    code = launch_here(drv, function, &on, launch_from_there, &elsewhere, call);
    gb_leave(&drv->api, elsewhere.is_in);
    return code;
}
