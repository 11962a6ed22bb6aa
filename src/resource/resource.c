/*
 * resource.c: the operations of a resource, with the interface's defaults.
 */
#include "resource/resource.h"

#include <string.h>

const char *gpubudget_status_string(gpubudget_status_t status)
{
    switch (status) {
    case GPUBUDGET_OK:
        return "success";
    case GPUBUDGET_OUT_OF_BUDGET:
        return "out of budget";
    case GPUBUDGET_DRIVER:
        return "the driver refused";
    case GPUBUDGET_STREAM_MISUSE:
        return "this resource cannot track that use of a stream";
    case GPUBUDGET_USE_AFTER_FREE:
        return "no such live block";
    case GPUBUDGET_INVALID_ARGUMENT:
        return "invalid argument";
    case GPUBUDGET_OUT_OF_HOST_MEMORY:
        return "out of host memory";
    case GPUBUDGET_NO_DRIVER:
        return "no usable CUDA driver";
    }
    return "unknown status";
}

gpubudget_status_t gb_fail(gpubudget_error_t *error, gpubudget_status_t status)
{
    if (error) {
        memset(error, 0, sizeof(*error));
        error->status = status;
    }
    return status;
}

gpubudget_status_t gb_fail_driver(gpubudget_error_t *error, CUresult code)
{
    gb_fail(error, GPUBUDGET_DRIVER);
    if (error)
        error->driver_code = code;
    return GPUBUDGET_DRIVER;
}

gpubudget_status_t gpubudget_materialize(gpubudget_resource_t *resource,
                                         gpubudget_request_t *request, gpubudget_block_t *block,
                                         gpubudget_error_t *error)
{
    if (!resource || !request || !block)
        return gb_fail(error, GPUBUDGET_INVALID_ARGUMENT);
    return resource->ops->materialize(resource, request, block, error);
}

gpubudget_status_t gpubudget_allocate_with_reservation_pressure(gpubudget_resource_t *resource,
                                                                size_t bytes, uint64_t pressure,
                                                                CUstream stream, uint64_t tag,
                                                                gpubudget_block_t *block,
                                                                gpubudget_error_t *error)
{
    gpubudget_request_t request = {.bytes = bytes,
                                   .stream = stream,
                                   .tag = tag,
                                   .kind = GPUBUDGET_KIND_STREAM_ORDERED,
                                   .reservation_pressure = pressure};

    return gpubudget_materialize(resource, &request, block, error);
}

gpubudget_status_t gpubudget_allocate(gpubudget_resource_t *resource, size_t bytes,
                                      CUstream stream, uint64_t tag, gpubudget_block_t *block,
                                      gpubudget_error_t *error)
{
    return gpubudget_allocate_with_reservation_pressure(resource, bytes, 0, stream, tag, block,
                                                        error);
}

gpubudget_status_t gpubudget_deallocate(gpubudget_resource_t *resource,
                                        const gpubudget_block_t *block,
                                        const gpubudget_release_t *release,
                                        gpubudget_error_t *error)
{
    if (!resource || !block)
        return gb_fail(error, GPUBUDGET_INVALID_ARGUMENT);
    return resource->ops->deallocate(resource, block, release, error);
}

const gpubudget_accounting_t *
gpubudget_allocation_accounting(const gpubudget_resource_t *resource)
{
    return resource->ops->allocation_accounting(resource);
}

uint64_t gpubudget_bytes_outstanding(const gpubudget_resource_t *resource)
{
    return resource->ops->bytes_outstanding(resource);
}

int gpubudget_device_ordinal(const gpubudget_resource_t *resource)
{
    return resource->ops->device_ordinal(resource);
}

bool gpubudget_budget_snapshot(const gpubudget_resource_t *resource,
                               gpubudget_snapshot_t *snapshot)
{
    if (!resource->ops->budget_snapshot)
        return false;
    return resource->ops->budget_snapshot(resource, snapshot);
}

gpubudget_status_t gpubudget_reap_pending(gpubudget_resource_t *resource,
                                          gpubudget_error_t *error)
{
    if (!resource)
        return gb_fail(error, GPUBUDGET_INVALID_ARGUMENT);
    if (!resource->ops->reap_pending)
        return GPUBUDGET_OK;
    return resource->ops->reap_pending(resource, error);
}

bool gpubudget_supports_block_use_tracking(const gpubudget_resource_t *resource)
{
    if (!resource->ops->supports_block_use_tracking)
        return false;
    return resource->ops->supports_block_use_tracking(resource);
}

gpubudget_status_t gpubudget_record_block_use(gpubudget_resource_t *resource,
                                              const gpubudget_block_t *block, CUstream stream,
                                              gpubudget_error_t *error)
{
    if (!resource || !block)
        return gb_fail(error, GPUBUDGET_INVALID_ARGUMENT);
    if (!resource->ops->record_block_use)
        return gb_fail(error, GPUBUDGET_STREAM_MISUSE);
    return resource->ops->record_block_use(resource, block, stream, error);
}

gpubudget_status_t gpubudget_prepare_block_use(gpubudget_resource_t *resource,
                                               gpubudget_block_id_t id, CUstream stream,
                                               gpubudget_access_t access,
                                               gpubudget_error_t *error)
{
    if (!resource)
        return gb_fail(error, GPUBUDGET_INVALID_ARGUMENT);
    if (!resource->ops->prepare_block_use)
        return gb_fail(error, GPUBUDGET_STREAM_MISUSE);
    return resource->ops->prepare_block_use(resource, id, stream, access, error);
}

gpubudget_status_t gpubudget_finish_block_use(gpubudget_resource_t *resource,
                                              gpubudget_block_id_t id, CUstream stream,
                                              gpubudget_access_t access,
                                              gpubudget_error_t *error)
{
    if (!resource)
        return gb_fail(error, GPUBUDGET_INVALID_ARGUMENT);
    if (!resource->ops->finish_block_use)
        return gb_fail(error, GPUBUDGET_STREAM_MISUSE);
    return resource->ops->finish_block_use(resource, id, stream, access, error);
}

void gpubudget_resource_destroy(gpubudget_resource_t *resource)
{
    if (resource)
        resource->ops->destroy(resource);
}

uint64_t gb_resource_charge_bound(gpubudget_resource_t *resource,
                                  const gpubudget_request_t *request, bool least)
{
    if (!resource->ops->charge_bound)
        return request->bytes;
    return resource->ops->charge_bound(resource, request, least);
}

bool gb_resource_make_room(gpubudget_resource_t *resource, uint64_t bytes)
{
    return resource->ops->make_room && resource->ops->make_room(resource, bytes);
}

bool gb_resource_follow_frees(gpubudget_resource_t *resource,
                              const gpubudget_request_t *request, uint64_t bytes, bool grew)
{
    return resource->ops->follow_frees &&
           resource->ops->follow_frees(resource, request, bytes, grew);
}

uint64_t gb_resource_bytes_pending(gpubudget_resource_t *resource)
{
    return resource->ops->bytes_pending ? resource->ops->bytes_pending(resource) : 0;
}
