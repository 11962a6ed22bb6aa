/*
 * resource.h: what the resources of the stack share beyond the public interface.
 */
#ifndef GB_RESOURCE_RESOURCE_H
#define GB_RESOURCE_RESOURCE_H

#include "driver/cuda_api.h"

#include <gpubudget/resource.h>

/* Fills *error where the caller gave a place, and returns status. */
gpubudget_status_t gb_fail(gpubudget_error_t *error, gpubudget_status_t status);
gpubudget_status_t gb_fail_driver(gpubudget_error_t *error, CUresult code);

/* The optional operations with their defaults (see gpubudget_resource_ops_t). */
uint64_t gb_resource_charge_bound(gpubudget_resource_t *resource,
                                  const gpubudget_request_t *request, bool least);
bool gb_resource_make_room(gpubudget_resource_t *resource, uint64_t bytes);
bool gb_resource_follow_frees(gpubudget_resource_t *resource,
                              const gpubudget_request_t *request, uint64_t bytes, bool grew);
uint64_t gb_resource_bytes_pending(gpubudget_resource_t *resource);

/* a + b, or UINT64_MAX where that would wrap. */
static inline uint64_t gb_add_saturated(uint64_t a, uint64_t b)
{
    return a + b < a ? UINT64_MAX : a + b;
}

/* Rounds up to a multiple of step, a power of two; saturates. */
static inline uint64_t gb_round_up(uint64_t bytes, uint64_t step)
{
    uint64_t sum = gb_add_saturated(bytes, step - 1);

    return sum == UINT64_MAX ? sum : sum & ~(step - 1);
}

#endif
