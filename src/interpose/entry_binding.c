/*
 * entry_binding.c: physical memory bound to multicast objects and to sparse arrays.
 *
 * A binding keeps the memory alive as a mapping does. Whether a multicast object takes device
 * memory of its own was not measured; it is not charged.
 */
#include "interpose/handlers.h"
#include "interpose/process.h"

#include <stdlib.h>
#include <string.h>

#include "resource/capture.h"
#include "resource/handles.h"

/* ---- multicast ---- */

CUresult gb_enter_cuMulticastCreate(struct gb_driver *drv,
                                    CUmemGenericAllocationHandle *mcHandle,
                                    const CUmulticastObjectProp *prop)
{
    CUresult code = GB_REAL(drv, cuMulticastCreate)(mcHandle, prop);
    struct gb_memory *object;

    if (code != CUDA_SUCCESS || !mcHandle || gb_process_device_count() == 0)
        return code;
    /* Without host memory it is not known: then what is bound to it stays charged. */
    object = gb_memory_new();
    if (!object) {
        gb_handles_born(&drv->api, *mcHandle);
        return code;
    }
    if (!gb_handles_add(object, &drv->api, *mcHandle))
        gb_memory_free(object);
    return code;
}

/* What is bound, and to what, held during the call. */
struct bind {
    struct gb_memory *object;
    struct gb_held held;
    struct gb_multicast_binding *bindings;
};

static void end_bind(struct bind *bind)
{
    gb_held_drop(&bind->held);
    gb_memory_drop(bind->object);
}

/* What is to be bound is held already. False when there is no host memory; then nothing is. */
static bool begin_bind(struct bind *bind, struct gb_driver *drv,
                       CUmemGenericAllocationHandle object)
{
    bind->object = gb_handle_hold(&drv->api, object, 0);
    bind->bindings = gb_multicast_bindings_new(&bind->held);
    if (bind->bindings || bind->held.count == 0)
        return true;
    end_bind(bind);
    return false;
}

static void bound(struct bind *bind, size_t offset, size_t size, CUresult code)
{
    if (code == CUDA_SUCCESS)
        gb_multicast_bound(bind->object, &bind->held, bind->bindings, offset, size);
    else
        gb_multicast_bindings_free(bind->bindings);
    end_bind(bind);
}

CUresult gb_enter_cuMulticastBindMem(struct gb_driver *drv,
                                     CUmemGenericAllocationHandle mcHandle, size_t mcOffset,
                                     CUmemGenericAllocationHandle memHandle, size_t memOffset,
                                     size_t size, unsigned long long flags)
{
    struct bind bind;
    CUresult code;

    gb_held_set(&bind.held, gb_handle_hold(&drv->api, memHandle, 0));
    if (!begin_bind(&bind, drv, mcHandle))
        return CUDA_ERROR_OUT_OF_MEMORY;
    code =
        GB_REAL(drv, cuMulticastBindMem)(mcHandle, mcOffset, memHandle, memOffset, size, flags);
    bound(&bind, mcOffset, size, code);
    return code;
}

CUresult gb_enter_cuMulticastBindAddr(struct gb_driver *drv,
                                      CUmemGenericAllocationHandle mcHandle, size_t mcOffset,
                                      CUdeviceptr memptr, size_t size, unsigned long long flags)
{
    struct bind bind;
    CUresult code;

    if (!gb_handles_hold_range(&drv->api, memptr, size, &bind.held) ||
        !begin_bind(&bind, drv, mcHandle))
        return CUDA_ERROR_OUT_OF_MEMORY;
    code = GB_REAL(drv, cuMulticastBindAddr)(mcHandle, mcOffset, memptr, size, flags);
    bound(&bind, mcOffset, size, code);
    return code;
}

CUresult gb_enter_cuMulticastUnbind(struct gb_driver *drv,
                                    CUmemGenericAllocationHandle mcHandle, CUdevice dev,
                                    size_t mcOffset, size_t size)
{
    struct gb_memory *object = gb_handle_hold(&drv->api, mcHandle, 0);
    uint64_t moment = gb_handles_moment();
    CUresult code;

    gb_giving_begins();
    code = GB_REAL(drv, cuMulticastUnbind)(mcHandle, dev, mcOffset, size);
    if (object && code == CUDA_SUCCESS)
        gb_multicast_unbound(object, dev, mcOffset, size, moment);
    gb_memory_drop(object);
    gb_giving_ends();
    return code;
}

/* ---- sparse arrays ---- */

struct parts {
    struct gb_driver *drv;
    struct gb_array_binding *made; /* one for each mapping of known memory, in order */
    uint64_t call;
    struct gb_stream_key key;
    bool prepared; /* what the stream will unbind can be noted */
};

static void throw_away(struct gb_array_binding *made)
{
    while (made) {
        struct gb_array_binding *next = made->next;

        gb_memory_drop(made->memory);
        free(made);
        made = next;
    }
}

/* False when there is no host memory; then nothing is held. */
static bool hold_mapped(struct parts *parts, const CUarrayMapInfo *list, unsigned int count)
{
    struct gb_array_binding **at = &parts->made;

    for (unsigned int i = 0; i < count; i++) {
        struct gb_memory *memory;

        if (list[i].memOperationType != CU_MEM_OPERATION_TYPE_MAP)
            continue;
        memory = gb_handle_hold(&parts->drv->api, list[i].memHandle.memHandle, 0);
        if (!memory)
            continue;
        *at = gb_array_binding_new(memory, &list[i]);
        if (!*at) {
            gb_memory_drop(memory);
            throw_away(parts->made);
            return false;
        }
        (*at)->index = i;
        at = &(*at)->next;
    }
    return true;
}

static void prepare(struct parts *parts, CUstream stream, bool is_thread)
{
    parts->key = gb_stream_key(&parts->drv->api, stream, is_thread);
    parts->prepared = true;
    for (int i = 0; i < gb_process_device_count(); i++) {
        struct gb_device *device = gb_process_device_at(i);

        if (device && !gb_pending_prepare(&device->backend.pending, &parts->key))
            parts->prepared = false;
    }
}

/* Only an array whose memory comes as a whole, and later, has requirements. */
static bool is_deferred(const struct gb_driver_api *api, const CUarrayMapInfo *part)
{
    struct gb_capture_mode saved = gb_capture_relax(api);
    CUDA_ARRAY_MEMORY_REQUIREMENTS requirements;
    CUresult code = CUDA_ERROR_NOT_SUPPORTED;
    CUdevice dev = part->deviceBitMask ? __builtin_ctz(part->deviceBitMask) : 0;

    if (part->resourceType == CU_RESOURCE_TYPE_ARRAY && api->cuArrayGetMemoryRequirements)
        code = api->cuArrayGetMemoryRequirements(&requirements, part->resource.array, dev);
    else if (part->resourceType == CU_RESOURCE_TYPE_MIPMAPPED_ARRAY &&
             api->cuMipmappedArrayGetMemoryRequirements)
        code = api->cuMipmappedArrayGetMemoryRequirements(&requirements, part->resource.mipmap,
                                                          dev);
    gb_capture_restore(api, &saved);
    return code == CUDA_SUCCESS;
}

/* After the driver's success: the part as it understood it. Of such an array it is the whole.
 */
static CUarrayMapInfo understood(const struct gb_driver_api *api, const CUarrayMapInfo *given)
{
    CUarrayMapInfo part = *given;

    if (is_deferred(api, given)) {
        memset(&part.subresource, 0, sizeof(part.subresource));
        part.subresourceType = CU_ARRAY_SPARSE_SUBRESOURCE_TYPE_SPARSE_LEVEL;
    }
    return part;
}

/* The stream will unbind what lies in this part now, or bind something else there. */
static void unbind(const struct parts *parts, const CUarrayMapInfo *part)
{
    struct gb_array_binding *binding = gb_arrays_take(&parts->drv->api, part, parts->call);

    while (binding) {
        struct gb_array_binding *next = binding->next;
        struct gb_device *device = gb_process_device_at(binding->block.device);

        if (!device)
            gb_array_unbound(&binding->block); /* imported: nothing is charged */
        else if (parts->prepared)
            gb_pending_add(&device->backend.pending, &parts->key, NULL, binding->block.charged,
                           &binding->block);
        else
            gb_array_stays(binding);
        binding = next;
    }
}

static CUresult map_arrays(struct gb_driver *drv, CUarrayMapInfo *list, unsigned int count,
                           CUstream stream, bool is_thread, gb_fn_cuMemMapArrayAsync *real)
{
    struct parts parts = {.drv = drv};
    CUresult code;

    if (!list || !gb_handles_any())
        return real(list, count, stream);
    if (!hold_mapped(&parts, list, count))
        return CUDA_ERROR_OUT_OF_MEMORY;
    if (!parts.made && !gb_arrays_any())
        return real(list, count, stream);
    prepare(&parts, stream, is_thread);
    parts.call = gb_handles_moment();
    code = real(list, count, stream);
    if (code != CUDA_SUCCESS) {
        throw_away(parts.made);
        return code;
    }
    for (unsigned int i = 0; i < count; i++) {
        struct gb_array_binding *made = parts.made;
        const CUarrayMapInfo part = understood(&drv->api, &list[i]);

        unbind(&parts, &part);
        if (made && made->index == i) {
            parts.made = made->next;
            made->part = part;
            gb_array_bound(made, parts.call);
        }
    }
    throw_away(parts.made);
    return code;
}

CUresult gb_enter_cuMemMapArrayAsync(struct gb_driver *drv, CUarrayMapInfo *mapInfoList,
                                     unsigned int count, CUstream hStream)
{
    return map_arrays(drv, mapInfoList, count, hStream, false,
                      GB_REAL(drv, cuMemMapArrayAsync));
}

CUresult gb_enter_cuMemMapArrayAsync_ptsz(struct gb_driver *drv, CUarrayMapInfo *mapInfoList,
                                          unsigned int count, CUstream hStream)
{
    return map_arrays(drv, mapInfoList, count, hStream, true,
                      GB_REAL(drv, cuMemMapArrayAsync_ptsz));
}
