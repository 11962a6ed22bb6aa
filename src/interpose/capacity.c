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
    return device->identity.total_bytes > 0 ? least(device->limit, device->identity.total_bytes)
                                            : device->limit;
}

uint64_t gb_capacity_free(struct gb_device *device, uint64_t physically_free)
{
    uint64_t used = gb_budget_reserved_exactly(&device->budget) + device->reserve;

    return least(used < device->limit ? device->limit - used : 0, physically_free);
}
