/*
 * device_stack.c: the stack of a device with a limit, and what it is measured by.
 */
#include "interpose/device_stack.h"

#include <stdatomic.h>
#include <stdlib.h>

#include "config/mps_limit.h"
#include "driver/nvml.h"
#include "interpose/substitute.h"
#include "report/message.h"

enum { HINT_DRIVER = 1, HINT_NVML };

static bool measure_process(void *arg, uint64_t *bytes)
{
    const struct gb_device *device = arg;
    uint64_t shown;

    if (!gb_nvml_process_bytes(device->identity.uuid, device->identity.pci, &shown))
        return false;
    /* More than the card has is no figure. */
    if (device->identity.total_bytes > 0 && shown > device->identity.total_bytes)
        return false;
    *bytes = shown;
    return true;
}

/*
 * The card's free bytes, for a hint: from the driver where a context of the device is current,
 * which is cheap and allowed everywhere, else from NVML. One that has ended may still be
 * current; to ask there, or without one, would be an error that tools report to the program's
 * author.
 */
static bool hint_free(void *arg, const struct gb_driver_api *api, struct gb_hint *hint)
{
    const struct gb_device *device = arg;
    size_t bytes_free = 0, bytes_total = 0;
    CUcontext current = NULL;
    CUdevice dev;

    if (hint->source != HINT_NVML && api->cuCtxGetCurrent(&current) == CUDA_SUCCESS &&
        current && current != atomic_load(&device->backend.contexts.gone) &&
        api->cuCtxGetDevice(&dev) == CUDA_SUCCESS && dev == device->ordinal &&
        api->cuMemGetInfo_v2(&bytes_free, &bytes_total) == CUDA_SUCCESS) {
        hint->free = bytes_free;
        hint->source = HINT_DRIVER;
        return true;
    }
    if (hint->source == HINT_DRIVER)
        return false;
    hint->source = HINT_NVML;
    return gb_nvml_card_bytes(device->identity.uuid, device->identity.pci, NULL, &hint->free,
                              NULL);
}

static uint64_t reserve_of(uint64_t limit, bool tells)
{
    return limit == GB_BUDGET_NO_LIMIT ? 0 : gb_settings_reserve(gb_settings(), limit, tells);
}

bool gb_device_is_limited(const struct gb_device *device)
{
    return device->limit != GB_BUDGET_NO_LIMIT ||
           (device->job.job && gb_budget_limit(&device->job.budget) != GB_BUDGET_NO_LIMIT);
}

bool gb_device_job_may_spend(const struct gb_device *device)
{
    uint64_t limit = gb_budget_limit(&device->job.budget);

    return limit == GB_BUDGET_NO_LIMIT || gb_budget_held(&device->job.budget) <= limit;
}

/*
 * NVML tells what this process holds, or does not: then much of what is charged is an estimate,
 * and a larger part of the limit is kept for what that misses.
 */
static void note_told(void *arg, bool tells)
{
    struct gb_device *device = arg;
    uint64_t reserve = reserve_of(device->limit, tells);
    const struct gb_message_device shown = {.ordinal = device->ordinal,
                                            .uuid = device->identity.uuid};

    atomic_store(&device->reserve, reserve);
    atomic_store(&device->budget.admit, device->limit - reserve);
    if (!tells)
        gb_message_estimated(&shown, reserve);
}

/* On top of the process's own budget. The ledger is empty still. */
static void put_in_job(struct gb_device *device, const struct gb_device_limits *limits)
{
    struct gpubudget_budget *budget = &device->job.budget;

    gb_job_budget_init(&device->job, limits->job, limits->place, device->top,
                       &device->backend.ledger);
    gb_budget_stack(budget, &device->budget);
    budget->looks = device->budget.looks;
    budget->wait_ns = device->budget.wait_ns;
    budget->report_only = device->budget.report_only;
    device->top = &budget->resource;
}

struct gb_device *gb_device_make(struct gb_driver *drv,
                                 const struct gb_device_identity *identity,
                                 const struct gb_device_limits *limits,
                                 struct gb_block_table *blocks)
{
    const uint64_t limit = limits->limit;
    const struct gb_settings *settings = gb_settings();
    struct gb_device *device = calloc(1, sizeof(*device));
    const struct gb_backend_options options = {
        .device = (int)identity->ordinal,
        .charge = settings->charge == GB_CHARGE_REQUESTED ? GPUBUDGET_CHARGE_REQUESTED
                                                          : GPUBUDGET_CHARGE_FOOTPRINT,
        .charge_managed = settings->managed == GB_MANAGED_CHARGE,
        .track_ordered = gb_order_wanted(),
        .track_uses = gb_order_wanted(),
        .api = &drv->api,
        .table = blocks};

    if (!device)
        return NULL;
    device->ordinal = (int)identity->ordinal;
    device->identity = *identity;
    device->limit = limit;
    device->told = gb_mps_limit(getenv("CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"), identity, false);
    if (device->told > limit)
        device->told = limit;
    device->reserve = reserve_of(limit, true);
    gb_backend_init(&device->backend, &options);
    if (options.charge == GPUBUDGET_CHARGE_FOOTPRINT) {
        device->backend.contexts.measure = measure_process;
        device->backend.contexts.measure_arg = device;
        device->backend.other.hint = hint_free;
        device->backend.other.hint_arg = device;
        device->backend.other.told = note_told;
        device->backend.other.budget = &device->budget;
    }
    gb_budget_init(&device->budget, &device->backend.resource, limit, device->reserve);
    device->budget.looks = device->backend.contexts.measure != NULL;
    device->budget.wait_ns = settings->wait_ns;
    device->budget.report_only = settings->on_limit == GB_ON_LIMIT_REPORT;
    device->top = &device->budget.resource;
    if (limits->job)
        put_in_job(device, limits);
    return device;
}
