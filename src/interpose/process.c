/*
 * process.c: the budgets of this process, one stack per device.
 */
#include "interpose/process.h"

#include <stdatomic.h>
#include <string.h>
#include <strings.h>

#include "driver/nvml.h"
#include "interpose/captures.h"
#include "interpose/device_identity.h"
#include "interpose/device_stack.h"
#include "interpose/fork.h"
#include "interpose/job_of.h"
#include "interpose/twice.h"
#include "report/message.h"
#include "resource/capture.h"
#include "resource/resource.h"

enum { UNRESOLVED, RESOLVED, DENIED };

/* All zero is an empty table with free locks, so that look-ups need no set-up. */
static struct gb_block_table blocks;
static _Atomic(struct gb_device *) devices[GB_DEVICES_MAX];
static char uuids[GB_DEVICES_MAX][GB_LIMIT_NAME]; /* of the first device_count */
static _Atomic int device_count;
static _Atomic int state = UNRESOLVED;
static struct gb_lock resolve_lock = GB_LOCK_INIT;

struct gb_block_table *gb_process_blocks(void)
{
    return &blocks;
}

struct gb_device *gb_process_device_at(int ordinal)
{
    if (ordinal < 0 || ordinal >= GB_DEVICES_MAX)
        return NULL;
    return atomic_load_explicit(&devices[ordinal], memory_order_acquire);
}

struct gb_device *gb_process_only(const struct gb_driver *drv)
{
    if (atomic_load_explicit(&device_count, memory_order_acquire) != 1 || !drv->complete)
        return NULL;
    return atomic_load_explicit(&devices[0], memory_order_acquire);
}

int gb_process_device_count(void)
{
    return atomic_load(&device_count);
}

/* The child of a fork owns nothing on any device; limits and identities stay. */
static void forget_in_child(void)
{
    gb_lock_init(&resolve_lock);
    gb_block_table_forked(&blocks);
    for (int i = 0; i < GB_DEVICES_MAX; i++) {
        struct gb_device *device = gb_process_device_at(i);

        if (!device)
            continue;
        gb_backend_forked(&device->backend);
        gb_budget_forked(&device->budget);
        if (device->job.job)
            gb_budget_forked(&device->job.budget);
    }
    gb_job_of_forked();
    gb_nvml_forked();
    gb_message_forked();
}

void gb_process_start(void)
{
    static _Atomic bool added;

    gb_message_settings(gb_settings());
    if (gb_settings()->verdict != GB_VERDICT_LIMIT)
        return;
    if (!atomic_exchange(&added, true))
        gb_fork_on_child(forget_in_child);
    gb_fork_register();
}

/* Does the list make sense for the devices? False: it does not, and denies. */
static bool check(const struct gb_limit *list, const struct gb_device_identity *identities,
                  int count)
{
    char text[GB_LIMIT_WHY] = "";

    if (list->count == 0)
        return true;
    if (!gb_limit_check(list, identities, (size_t)count, text, sizeof(text)))
        return !gb_message_not_applied(gb_settings(), text);
    if (text[0] != '\0')
        gb_log_text(GB_LOG_WARN, text);
    return true;
}

/*
 * Where the device is counted, with what its job may take of it. A process without a limit for
 * its job is counted where that is possible. False: the limit cannot be kept, and denies.
 */
static bool place_in_job(const struct gb_device_identity *identity,
                         struct gb_device_limits *limits)
{
    const struct gb_settings *settings = gb_settings();
    uint64_t limit = GB_JOB_NO_LIMIT;
    bool asked =
        gb_limit_for_device(&settings->job_limit, identity, &limit) == GB_LIMIT_BYTES &&
        limit > 0;
    char text[PATH_MAX + GB_LIMIT_WHY];

    if (!asked)
        limit = GB_JOB_NO_LIMIT;
    /* Nobody has asked for anything here. */
    if (!asked && limits->limit == GB_BUDGET_NO_LIMIT && settings->job[0] == '\0')
        return true;
    limits->job = gb_job_of_process(settings, text, sizeof(text));
    if (limits->job) {
        limits->place = gb_job_of_device(limits->job, identity, limit, text, sizeof(text));
        if (limits->place >= 0)
            return true;
        limits->job = NULL;
    }
    if (asked)
        return !gb_message_not_applied(settings, text);
    gb_log_text(GB_LOG_DEBUG, text);
    return true;
}

/* What the device is held to and counted in. False: that cannot be applied, and denies. */
static bool limits_of(const struct gb_device_identity *identity,
                      struct gb_device_limits *limits)
{
    const struct gb_settings *settings = gb_settings();
    char text[GB_LIMIT_WHY];
    uint64_t limit = 0;

    *limits = (struct gb_device_limits){.limit = GB_BUDGET_NO_LIMIT};
    /* 0 is a limit that cannot be applied, and was let go. */
    if (gb_limit_for_device(&settings->limit, identity, &limit) == GB_LIMIT_BYTES &&
        limit > 0) {
        if (gb_settings_check_reserve(settings, identity, limit, text, sizeof(text)))
            limits->limit = limit;
        else if (gb_message_not_applied(settings, text))
            return false;
    }
    return place_in_job(identity, limits);
}

/*
 * With the lock held: limits of all visible devices; what cannot be applied is denied. `twice`:
 * the library is here a second time, it says so; else NULL.
 */
static int settle_limits(struct gb_driver *drv, const struct gb_device_identity *identities,
                         int count, const char *twice)
{
    const struct gb_settings *settings = gb_settings();

    if (twice)
        return gb_message_not_applied(settings, twice) ? DENIED : RESOLVED;
    if (!check(&settings->limit, identities, count) ||
        !check(&settings->job_limit, identities, count))
        return DENIED;
    for (int i = 0; i < count; i++) {
        const struct gb_message_device shown = {.ordinal = i, .uuid = identities[i].uuid};
        struct gb_device_limits limits;
        struct gb_device *device;
        bool none;

        if (!limits_of(&identities[i], &limits))
            return DENIED;
        none = limits.limit == GB_BUDGET_NO_LIMIT;
        if (none && !limits.job) {
            gb_message_in_force(settings, &shown, true, 0, 0);
            continue;
        }
        device = gb_device_make(drv, &identities[i], &limits, &blocks);
        if (!device) {
            gb_message_denied("no host memory to keep a budget");
            return DENIED;
        }
        gb_message_in_force(settings, &shown, none, none ? 0 : limits.limit, device->reserve);
        if (limits.job)
            gb_message_job_in_force(&shown, gb_job_of_text(),
                                    gb_budget_limit(&device->job.budget));
        atomic_store_explicit(&devices[i], device, memory_order_release);
    }
    for (int i = 0; i < count; i++)
        memcpy(uuids[i], identities[i].uuid, sizeof(uuids[i]));
    atomic_store(&device_count, count);
    return RESOLVED;
}

/*
 * Answers of a look-up that the call itself will get too, from the driver: it is forwarded. Any
 * other failure may be the look-up's alone, and the call would be granted uncharged.
 */
static bool is_own_answer(CUresult code)
{
    switch (code) {
    case CUDA_ERROR_INVALID_VALUE:
    case CUDA_ERROR_NOT_INITIALIZED:
    case CUDA_ERROR_DEINITIALIZED:
    case CUDA_ERROR_INVALID_CONTEXT:
    case CUDA_ERROR_INVALID_HANDLE:
    case CUDA_ERROR_CONTEXT_IS_DESTROYED:
        return true;
    default:
        return code >= CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED &&
               code <= CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
    }
}

/* UNRESOLVED: forward, the driver has an answer of its own. DENIED may be for this call only.
 */
static int resolve(struct gb_driver *drv)
{
    struct gb_device_identity identities[GB_DEVICES_MAX];
    struct gb_capture_mode saved;
    CUresult code;
    char text[512];
    bool twice;
    int count = 0;
    int now;

    /* Asked without a lock; whoever comes first settles. */
    saved = gb_capture_relax(&drv->api);
    code = drv->api.cuDeviceGetCount(&count);
    if (count > GB_DEVICES_MAX)
        count = GB_DEVICES_MAX;
    for (int i = 0; i < count && code == CUDA_SUCCESS; i++)
        code = gb_device_identify(&drv->api, i, &identities[i]);
    gb_capture_restore(&drv->api, &saved);
    if (code != CUDA_SUCCESS && code != CUDA_ERROR_NO_DEVICE && !is_own_answer(code))
        return DENIED; /* not settled: the next call asks again */
    if (code != CUDA_SUCCESS || count <= 0)
        return UNRESOLVED;

    /* Asks for the driver's version, here once and not in the middle of an allocation. */
    gb_captures_possible(drv);
    twice = gb_loaded_twice(text, sizeof(text));
    gb_lock_take(&resolve_lock);
    now = atomic_load(&state);
    if (now == UNRESOLVED) {
        now = settle_limits(drv, identities, count, twice ? text : NULL);
        atomic_store(&state, now);
    }
    gb_lock_drop(&resolve_lock);
    return now;
}

/* A libcuda without the functions that a budget needs gives out nothing. */
static bool is_lacking(const struct gb_driver *drv)
{
    if (drv->complete)
        return false;
    gb_message_denied("this libcuda lacks functions that a limit needs");
    return true;
}

enum gb_ruling gb_process_device(struct gb_driver *drv, CUdevice dev, struct gb_device **device)
{
    int now = atomic_load_explicit(&state, memory_order_acquire);
    struct gb_device *found;

    if (is_lacking(drv))
        return GB_RULING_DENY;
    if (now == UNRESOLVED) {
        const struct gb_settings *settings = gb_settings();

        if (settings->verdict == GB_VERDICT_DENY)
            return GB_RULING_DENY;
        if (settings->verdict == GB_VERDICT_PASS)
            return GB_RULING_FORWARD;
        now = resolve(drv);
    }
    if (now == DENIED)
        return GB_RULING_DENY;
    if (now == UNRESOLVED)
        return GB_RULING_FORWARD;
    /* More devices than there is room for, which no machine has: not unlimited. */
    if (dev >= GB_DEVICES_MAX && atomic_load(&device_count) == GB_DEVICES_MAX)
        return GB_RULING_DENY;
    found = gb_process_device_at(dev);
    if (!found)
        return GB_RULING_FORWARD;
    *device = found;
    return GB_RULING_BUDGET;
}

/* Denied whatever the device? Also before cuInit, where the driver has its own answer. */
static bool denied_everywhere(void)
{
    return atomic_load(&state) == DENIED || gb_settings()->verdict == GB_VERDICT_DENY;
}

enum gb_seen gb_process_by_uuid(const char *uuid, struct gb_device **device)
{
    struct gb_driver *drv = gb_driver_at(0);
    struct gb_device *found;
    int now = atomic_load(&state), count;

    /* As soon as it can be known. */
    if (now == UNRESOLVED && drv && drv->complete)
        now = resolve(drv);
    if (now == UNRESOLVED)
        return GB_SEEN_NOTHING;
    count = atomic_load(&device_count);
    if (now == DENIED || count == 0)
        return GB_SEEN_UNLIMITED;
    for (int i = 0; i < count && uuid[0]; i++)
        if (strcasecmp(uuids[i], uuid) == 0) {
            found = gb_process_device_at(i);
            if (!found || !gb_device_is_limited(found))
                return GB_SEEN_UNLIMITED;
            *device = found;
            return GB_SEEN_LIMITED;
        }
    return GB_SEEN_NOT;
}

/* What a call falls under whose device could not be learned. */
static enum gb_ruling unknown_device(CUresult code, CUresult *failure)
{
    if (denied_everywhere())
        return GB_RULING_DENY;
    if (code == CUDA_SUCCESS || is_own_answer(code) ||
        gb_settings()->verdict == GB_VERDICT_PASS)
        return GB_RULING_FORWARD;
    *failure = code;
    return GB_RULING_FAILED;
}

enum gb_ruling gb_process_current(struct gb_driver *drv, struct gb_device **device,
                                  CUcontext *context, CUresult *failure)
{
    CUresult code;
    CUdevice dev;

    *context = NULL;
    if (is_lacking(drv))
        return GB_RULING_DENY;
    code = drv->api.cuCtxGetCurrent(context);
    if (code != CUDA_SUCCESS || !*context)
        return unknown_device(code, failure);
    code = drv->api.cuCtxGetDevice(&dev);
    if (code != CUDA_SUCCESS)
        return unknown_device(code, failure);
    return gb_process_device(drv, dev, device);
}

static CUstream query_stream(const struct gb_stream_call *call)
{
    return !call->stream && call->is_thread ? CU_STREAM_PER_THREAD : call->stream;
}

/* A failure that is not the program's own matter is written and counts as no. */
static bool is_capturing(struct gb_driver *drv, const struct gb_stream_call *call,
                         CUresult *failure)
{
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    CUresult code;

    *failure = CUDA_SUCCESS;
    if (!drv->api.cuStreamIsCapturing)
        return false;
    code = drv->api.cuStreamIsCapturing(query_stream(call), &status);
    if (code == CUDA_SUCCESS)
        return status != CU_STREAM_CAPTURE_STATUS_NONE;
    if (is_own_answer(code))
        return true;
    *failure = code;
    return false;
}

bool gb_process_capturing(struct gb_driver *drv, const struct gb_stream_call *call)
{
    CUresult failure;

    return gb_captures_possible(drv) && is_capturing(drv, call, &failure);
}

static bool is_default_stream(CUstream stream)
{
    return !stream || stream == CU_STREAM_LEGACY || stream == CU_STREAM_PER_THREAD;
}

/* The device of a context that need not be current. */
static CUresult device_of_context(struct gb_driver *drv, CUcontext context, CUdevice *dev)
{
    CUcontext current = NULL;
    CUresult code;

    if (drv->api.cuCtxGetCurrent(&current) == CUDA_SUCCESS && current == context)
        return drv->api.cuCtxGetDevice(dev);
    code = drv->api.cuCtxPushCurrent_v2(context);
    if (code != CUDA_SUCCESS)
        return code;
    code = drv->api.cuCtxGetDevice(dev);
    drv->api.cuCtxPopCurrent_v2(&current);
    return code;
}

static CUresult device_of_stream(struct gb_driver *drv, const struct gb_stream_call *call,
                                 CUdevice *dev)
{
    CUcontext context = NULL;
    CUresult code;

    if (is_default_stream(call->stream))
        return drv->api.cuCtxGetDevice(dev);
    /* With one visible device there is nothing to ask; a wrong handle has shown itself when
     * the capture was looked at. */
    if (atomic_load(&device_count) == 1) {
        *dev = 0;
        return CUDA_SUCCESS;
    }
    if (drv->api.cuStreamGetDevice)
        return drv->api.cuStreamGetDevice(call->stream, dev);
    if (!drv->api.cuStreamGetCtx)
        return CUDA_ERROR_NOT_SUPPORTED;
    code = drv->api.cuStreamGetCtx(call->stream, &context);
    return code == CUDA_SUCCESS ? device_of_context(drv, context, dev) : code;
}

enum gb_ruling gb_process_stream(struct gb_driver *drv, struct gb_stream_call *call,
                                 size_t bytes, struct gb_device **device)
{
    bool ask = gb_captures_possible(drv);
    enum gb_ruling ruling;
    CUresult code;
    CUdevice dev;

    for (;;) {
        call->capturing = false;
        code = CUDA_SUCCESS;
        if (is_lacking(drv))
            return GB_RULING_DENY;
        if (ask)
            call->capturing = is_capturing(drv, call, &code);
        if (call->capturing)
            return unknown_device(CUDA_SUCCESS, &call->failure);
        if (code == CUDA_SUCCESS)
            code = device_of_stream(drv, call, &dev);
        if (code != CUDA_SUCCESS)
            return unknown_device(code, &call->failure);
        ruling = gb_process_device(drv, dev, device);
        /* The question also shows a wrong handle, for which the answer is the driver's and not
         * a full budget's. */
        if (ask || ruling != GB_RULING_BUDGET ||
            gb_budget_has_room(&(*device)->budget, gb_round_up(bytes, GB_POOL_STEP_BYTES)))
            return ruling;
        ask = true;
    }
}

void gb_process_check_other(void)
{
    int count = atomic_load(&device_count);

    for (int i = 0; i < count; i++) {
        struct gb_device *device = gb_process_device_at(i);

        if (device)
            gb_other_check(&device->backend, true);
    }
}

struct gb_device *gb_process_freeing(struct gb_driver *drv, CUdeviceptr pointer,
                                     struct gb_pending_freed *freed)
{
    struct gb_device *of = NULL;
    bool others = false;
    int count;

    *freed = (struct gb_pending_freed){.loose = true};
    /* Nobody has been near a limit so far. */
    if (!atomic_load_explicit(&gb_process_blocks()->shadows, memory_order_relaxed))
        return NULL;
    count = atomic_load(&device_count);
    for (int i = 0; i < count && !freed->pool; i++) {
        struct gb_device *device = gb_process_device_at(i);

        if (!device)
            continue;
        if (!atomic_load_explicit(&device->backend.near_limit, memory_order_relaxed)) {
            others = true;
            continue;
        }
        freed->pool =
            gb_pools_block_of(&device->backend.pools, &drv->api, pointer, &freed->bytes);
        freed->from = freed->pool ? pointer : 0;
        of = freed->pool ? device : NULL;
    }
    /* Of nobody's pool, or of one that was not asked. */
    freed->loose = !freed->pool && (others || count == 0);
    return of;
}

void gb_process_note_free(struct gb_driver *drv, const struct gb_stream_call *call,
                          struct gb_device *of, const struct gb_pending_freed *freed)
{
    struct gb_device *device = gb_process_only(drv);
    struct gb_stream_key key;
    CUdevice dev;

    /* Without a budget there is nothing to note: nobody would tell when a stream of another
     * device ends with its context ... */
    if (!device) {
        if (atomic_load(&device_count) == 0 || !drv->complete ||
            device_of_stream(drv, call, &dev) != CUDA_SUCCESS)
            return;
        device = gb_process_device_at(dev);
        if (device && of)
            device = of;
    }
    /* ... nor where every block has an entry. */
    if (!device || device->backend.options.charge == GPUBUDGET_CHARGE_REQUESTED)
        return;
    /* The usual case: nobody need be asked who the stream is, nor is there anything to do. */
    if (!freed->pool && !is_default_stream(call->stream) &&
        gb_pending_is_noted_stream(&device->backend.pending, call->stream, freed->loose))
        return;
    key = gb_stream_key(&drv->api, call->stream, call->is_thread);
    gb_pending_note(&device->backend.pending, &key, freed);
}
