#include "interpose/capacity.h"

static uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

bool gb_capacity_is_limit(void)
{
    return gb_settings()->capacity == GB_CAPACITY_LIMIT;
}

uint64_t gb_capacity_total(const struct gb_device *device)
{
    return device->identity.total_bytes > 0 ? least(device->told, device->identity.total_bytes)
                                            : device->told;
}

static uint64_t what_is_left(uint64_t of, uint64_t used)
{
    return used < of ? of - used : 0;
}

uint64_t gb_capacity_free(struct gb_device *device, uint64_t physically_free)
{
    uint64_t used = gb_budget_reserved_exactly(&device->budget);
    uint64_t left = what_is_left(device->limit, used + device->reserve);

    return least(least(left, what_is_left(device->told, used)), physically_free);
}
