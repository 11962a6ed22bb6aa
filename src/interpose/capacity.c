#include "interpose/capacity.h"

static uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

bool gb_capacity_is_limit(void)
{
    return gb_settings()->capacity == GB_CAPACITY_LIMIT;
}

/* GB_JOB_NO_LIMIT without one. */
static uint64_t job_limit(const struct gb_device *device)
{
    return device->job.job ? gb_budget_limit(&device->job.budget) : GB_JOB_NO_LIMIT;
}

uint64_t gb_capacity_total(const struct gb_device *device)
{
    uint64_t told = least(device->told, job_limit(device));

    return device->identity.total_bytes > 0 ? least(told, device->identity.total_bytes) : told;
}

static uint64_t what_is_left(uint64_t of, uint64_t used)
{
    return used < of ? of - used : 0;
}

uint64_t gb_capacity_free(struct gb_device *device, uint64_t physically_free)
{
    uint64_t used = gb_budget_reserved_exactly(&device->budget), left = physically_free;
    uint64_t of_job = job_limit(device);

    if (device->limit != GB_BUDGET_NO_LIMIT)
        left = least(left, what_is_left(device->limit, used + device->reserve));
    if (of_job != GB_JOB_NO_LIMIT)
        left =
            least(left, what_is_left(of_job, gb_budget_reserved_exactly(&device->job.budget)));
    return least(left, what_is_left(device->told, used));
}
