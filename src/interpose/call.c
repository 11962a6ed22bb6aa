/*
 * call.c: from a handler's request to the driver's answer, or the budget's.
 */
#include "interpose/call.h"

#include <stdatomic.h>

#include "driver/nvml.h"
#include "interpose/imports.h"
#include "interpose/job_of.h"
#include "interpose/stream_order.h"
#include "report/message.h"
#include "resource/nap.h"

/* Between two tries while a killed process's memory is on its way back to the card. */
enum { CARD_NAP_NS = 5000000, CARD_TRIES = 200 };

static struct gb_message_device shown(const struct gb_device *device)
{
    return (struct gb_message_device){.ordinal = device->ordinal,
                                      .uuid = device->identity.uuid};
}

/* What a refusal names: what was asked for or, where that is not known, what it took. */
static uint64_t asked_for(const struct gb_call *call, const gpubudget_request_t *request)
{
    if (request->kind == GPUBUDGET_KIND_GRAPH)
        return request->most_bytes;
    if (request->kind != GPUBUDGET_KIND_MEASURED || request->bytes > 0)
        return request->bytes;
    return request->charged > 0 ? request->charged
                                : atomic_load(&call->device->backend.learned[request->tag]);
}

/* The smallest limit whose own reserve leaves so much: that may be a part of the limit. */
static uint64_t smallest_limit(const struct gb_device *device, uint64_t bytes)
{
    bool tells = !atomic_load(&device->backend.other.blind);
    uint64_t limit = bytes;

    for (int i = 0; i < 64; i++) {
        uint64_t needed = bytes + gb_settings_reserve(gb_settings(), limit, tells);

        if (needed <= limit)
            break;
        limit = needed;
    }
    return limit;
}

static uint64_t kept_by(const struct gb_device *device)
{
    uint64_t admit = atomic_load(&device->budget.admit);

    return device->budget.limit > admit ? device->budget.limit - admit : 0;
}

/* The job's name where its budget refused, else NULL: this process's did. */
static const char *refusing_job(const struct gb_call *call, const gpubudget_request_t *request)
{
    const struct gb_device *device = call->device;

    return device->job.job && request->refused_by == &device->job.budget ? gb_job_of_text()
                                                                         : NULL;
}

static void say_refused(const struct gb_call *call, const gpubudget_request_t *request,
                        const gpubudget_error_t *error)
{
    struct gb_contexts *contexts = &call->device->backend.contexts;
    uint64_t context = atomic_load(&contexts->charged);
    uint64_t estimated = atomic_load(&call->device->backend.estimates.charged);
    uint64_t other = atomic_load(&call->device->backend.other.posted) + estimated;
    uint64_t asked = asked_for(call, request);
    const char *job = refusing_job(call, request);
    uint64_t own = error->current;

    if (job && gb_job_is_gone(call->device->job.job)) {
        gb_message_job_gone(
            &(const struct gb_message_device){.ordinal = call->device->ordinal,
                                              .uuid = call->device->identity.uuid},
            job, call->device->job.job->file.path);
        return;
    }
    if (job)
        own = gpubudget_bytes_outstanding(call->device->top);
    if (request->kind == GPUBUDGET_KIND_CONTEXT) {
        uint64_t size = gb_contexts_expected(contexts);
        const struct gb_message_context refusal = {
            .device = shown(call->device),
            .call = call->name,
            .job = job,
            .context = size,
            .used = error->current,
            .limit = error->limit,
            .kept = job ? 0 : kept_by(call->device),
            .smallest =
                job ? error->current + size + GB_REGION_BYTES
                    : smallest_limit(call->device, error->current + size + GB_REGION_BYTES)};

        gb_message_context_refused(gb_settings(), &refusal);
        return;
    }
    gb_message_refused(gb_settings(),
                       &(const struct gb_message_refusal){
                           .device = shown(call->device),
                           .call = call->name,
                           .job = job,
                           .asked = asked,
                           .used = error->current,
                           .kept = job ? 0 : kept_by(call->device),
                           .limit = error->limit,
                           .breakdown = true,
                           .program = own > context + other ? own - context - other : 0,
                           .context = context,
                           .other = other,
                           .imported = gb_imports_shown(call->device),
                           .estimated = estimated > 0 || atomic_load(&contexts->estimated),
                           .managed = request->kind == GPUBUDGET_KIND_MANAGED});
}

/*
 * What the card has, free and in all. Of the driver only a call that is safe everywhere
 * (cuMemGetInfo, also during a capture), and only where the context that is current is the
 * device's; else NVML.
 */
static bool card_figures(const struct gb_call *call, uint64_t *free, uint64_t *total)
{
    const struct gb_driver_api *api = &call->drv->api;
    const struct gb_device_identity *identity = &call->device->identity;
    size_t bytes_free = 0, bytes_total = 0;
    CUdevice dev;

    if (api->cuCtxGetDevice(&dev) == CUDA_SUCCESS && dev == call->device->ordinal &&
        api->cuMemGetInfo_v2(&bytes_free, &bytes_total) == CUDA_SUCCESS) {
        *free = bytes_free;
        *total = bytes_total;
        return true;
    }
    return gb_nvml_card_bytes(identity->uuid, identity->pci, total, free, NULL);
}

/* GPUBUDGET_ON_LIMIT=report: what would have been refused. */
static void say_over(const struct gb_call *call, const gpubudget_request_t *request)
{
    gb_message_over(gb_settings(),
                    &(const struct gb_message_refusal){
                        .device = shown(call->device),
                        .call = call->name,
                        .asked = request->bytes > 0 ? request->bytes : request->charged,
                        .used = gpubudget_budget_reserved_bytes(&call->device->budget),
                        .kept = kept_by(call->device),
                        .limit = call->device->limit});
}

/*
 * The driver is out of memory while the budget has room. Not a word where the card has room
 * too: then it was something else, a pool's own maximum for instance.
 */
void gb_call_card_full(const struct gb_call *call, const gpubudget_request_t *request)
{
    const struct gb_device *device = call->device;
    uint64_t left = gpubudget_budget_remaining(&device->budget), kept = kept_by(device);
    struct gb_message_card_full full = {.device = shown(device),
                                        .asked = request->bytes,
                                        .budget_left = left > kept ? left - kept : 0};
    uint64_t own = gpubudget_bytes_outstanding(device->top);
    uint64_t total = 0;

    /* Without any limit nobody expects another answer. */
    if (!gb_device_is_limited(device))
        return;
    if (device->job.job) {
        left = gpubudget_budget_remaining(&device->job.budget);
        if (left < full.budget_left)
            full.budget_left = left;
    }

    if (request->kind == GPUBUDGET_KIND_CONTEXT) {
        full.asked = gb_contexts_expected(&call->device->backend.contexts);
        if (full.asked == 0)
            full.asked = GB_CONTEXT_ESTIMATE;
    }
    /* Later ones are only counted. */
    if (gb_message_card_fulls(device->ordinal) == 0 &&
        card_figures(call, &full.card_free, &total)) {
        if (full.card_free >= full.asked)
            return;
        /* The ledger knows no contexts in requested mode. */
        gb_nvml_process_bytes(device->identity.uuid, device->identity.pci, &own);
        full.card_known = true;
        full.others = total > full.card_free + own ? total - full.card_free - own : 0;
    }
    gb_message_card_full(gb_settings(), &full);
}

/* Growth that nothing could refuse has taken room: once, before what it is refused for. */
static void say_overshoot(const struct gb_call *call)
{
    uint64_t over = gpubudget_budget_overshoot(&call->device->budget);

    if (over > 0)
        gb_message_overshoot(&(const struct gb_message_overshoot){
            .device = shown(call->device), .over = over, .limit = call->device->limit});
}

/* CUDA does not survive a fork, and the job's slot is the parent's: the driver's own answer. */
static bool is_fork_child(const struct gb_call *call)
{
    return call->device->job.job && !call->device->job.job->slot;
}

static CUresult driver_in_child(const struct gb_call *call)
{
    int count;
    CUresult code = call->drv->api.cuDeviceGetCount(&count);

    return code == CUDA_SUCCESS ? CUDA_ERROR_OUT_OF_MEMORY : code;
}

/*
 * A killed process of the job is gone from the ledger before the driver has its memory: what
 * the card lacks comes in a moment.
 */
static bool may_come(const struct gb_call *call, gpubudget_status_t status,
                     const gpubudget_error_t *error)
{
    struct gb_job *job = call->device->job.job;

    if (status != GPUBUDGET_DRIVER || error->driver_code != CUDA_ERROR_OUT_OF_MEMORY || !job ||
        !job->slot)
        return false;
    gb_job_reap(job);
    return gb_job_reaped_lately(job);
}

static gpubudget_status_t materialize(const struct gb_call *call, gpubudget_request_t *request,
                                      gpubudget_error_t *error)
{
    const gpubudget_request_t first = *request;
    gpubudget_block_t block;
    gpubudget_status_t status;

    for (int tries = 1;; tries++) {
        status = gpubudget_materialize(call->device->top, request, &block, error);
        if (tries == CARD_TRIES || !may_come(call, status, error))
            return status;
        gb_nap(CARD_NAP_NS);
        *request = first;
    }
}

CUresult gb_call_allocate(struct gb_call *call, gpubudget_request_t *request)
{
    gpubudget_error_t error;

    request->driver = &call->drv->api;
    switch (materialize(call, request, &error)) {
    case GPUBUDGET_OK:
        call->answered = true;
        if (request->over_limit)
            say_over(call, request);
        return CUDA_SUCCESS;
    case GPUBUDGET_DRIVER:
        call->answered = true;
        /* What a context lacks is not known, and need not be device memory. */
        if (error.driver_code == CUDA_ERROR_OUT_OF_MEMORY &&
            request->kind != GPUBUDGET_KIND_CONTEXT)
            gb_call_card_full(call, request);
        return error.driver_code;
    case GPUBUDGET_OUT_OF_BUDGET:
        if (is_fork_child(call))
            return driver_in_child(call);
        say_overshoot(call);
        say_refused(call, request, &error);
        return CUDA_ERROR_OUT_OF_MEMORY;
    default:
        /* No host memory for the bookkeeping: what is not recorded is not given out. */
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
}

CUresult gb_call_free_taken(struct gb_block *entry, gpubudget_release_t *release)
{
    /* A block stands in the table only while its device has a stack, which is never freed. */
    struct gb_device *device = gb_process_device_at(entry->device);
    const gpubudget_block_t block = {.id = {entry->pointer, entry->generation},
                                     .bytes = entry->charged,
                                     .requested = entry->requested,
                                     .device = entry->device,
                                     .stream = entry->stream,
                                     .kind = entry->kind,
                                     .state = GPUBUDGET_BLOCK_LIVE};
    struct gb_uses *uses = entry->uses ? gb_order_wait(entry, release) : NULL;
    gpubudget_error_t error;
    gpubudget_status_t status;

    release->taken = entry;
    status = gpubudget_deallocate(device->top, &block, release, &error);
    if (uses)
        gb_order_waited(uses, block.id, status == GPUBUDGET_OK);
    return status == GPUBUDGET_OK ? CUDA_SUCCESS : error.driver_code;
}

bool gb_call_free(CUdeviceptr pointer, gpubudget_release_t *release, CUresult *answer)
{
    struct gb_block *entry = gb_block_table_take(gb_process_blocks(), pointer, 0);

    if (!entry)
        return false;
    *answer = gb_call_free_taken(entry, release);
    return true;
}
