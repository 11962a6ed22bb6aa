/*
 * entry_array.c: arrays and mipmapped arrays.
 *
 * Footprint mode: what they took is measured, or estimated where nothing tells, since the
 * driver's layout is its own secret; what they ask for is known, so that one which cannot fit
 * is refused without a try. Requested mode: a block of the bytes asked for, under its handle.
 */
#include "interpose/call.h"
#include "interpose/estimated.h"
#include "interpose/handlers.h"
#include "resource/array_size.h"
#include "resource/capture.h"
#include "resource/handles.h"

#include <stddef.h>

struct array {
    struct gb_call call;
    CUresult (*take)(struct array *array);
    CUresult (*destroy)(struct array *array);
    void *handle; /* the program's output */
    void *before;
    const void *descriptor; /* the program's own */
    unsigned int levels;
    uint64_t bytes;
};

static CUresult acquire(void *arg, CUdeviceptr *pointer, size_t *bytes)
{
    struct array *array = arg;
    CUresult code = array->take(array);

    if (code == CUDA_SUCCESS) {
        *pointer = (CUdeviceptr)(uintptr_t)array->handle;
        *bytes = array->bytes;
    }
    return code;
}

static CUresult undo(void *arg, CUdeviceptr pointer)
{
    struct array *array = arg;
    const struct gb_driver_api *api = &array->call.drv->api;
    struct gb_capture_mode saved = gb_capture_relax(api);
    CUresult code = array->destroy(array);

    (void)pointer;
    gb_capture_restore(api, &saved);
    if (code == CUDA_SUCCESS)
        array->handle = array->before;
    return code;
}

static CUresult take_as(struct array *array, struct gb_device *device, CUcontext context,
                        const CUDA_ARRAY3D_DESCRIPTOR *descriptor)
{
    gpubudget_request_t request = {.bytes = array->bytes,
                                   .most_bytes = gb_array_most(descriptor, array->bytes),
                                   .kind = GPUBUDGET_KIND_ARRAY,
                                   .tag = GB_MEASURED_ARRAY,
                                   .context = context,
                                   .acquire = acquire,
                                   .undo = undo,
                                   .arg = array};

    if (device->backend.contexts.measure)
        request.kind = GPUBUDGET_KIND_MEASURED;
    array->call.device = device;
    return gb_call_allocate(&array->call, &request);
}

static CUresult create(struct array *array, void **output,
                       const CUDA_ARRAY3D_DESCRIPTOR *descriptor)
{
    struct gb_device *device;
    CUcontext context;
    CUresult code;

    array->handle = array->before = *output;
    array->bytes = gb_array_bytes(descriptor, array->levels);
    switch (gb_process_current(array->call.drv, &device, &context, &code)) {
    case GB_RULING_DENY:
        return CUDA_ERROR_NOT_PERMITTED;
    case GB_RULING_FAILED:
        return code;
    case GB_RULING_BUDGET:
        gb_backend_note_context(&device->backend, &array->call.drv->api, context, false);
        code = take_as(array, device, context, descriptor);
        break;
    default:
        array->call.answered = true;
        code = array->take(array);
        break;
    }
    if (code == CUDA_SUCCESS &&
        (descriptor->Flags & (CUDA_ARRAY3D_SPARSE | CUDA_ARRAY3D_DEFERRED_MAPPING)))
        gb_array_began(&array->call.drv->api, array->handle, context);
    if (array->call.answered)
        *output = array->handle;
    return code;
}

static CUresult destroy_array(struct array *array)
{
    return GB_REAL(array->call.drv, cuArrayDestroy)(array->handle);
}

static CUresult create_array(struct array *array)
{
    return GB_REAL(array->call.drv, cuArrayCreate_v2)((CUarray *)&array->handle,
                                                      array->descriptor);
}

CUresult gb_enter_cuArrayCreate_v2(struct gb_driver *drv, CUarray *pHandle,
                                   const CUDA_ARRAY_DESCRIPTOR *pAllocateArray)
{
    struct array array = {.call = {.drv = drv, .name = "cuArrayCreate"},
                          .take = create_array,
                          .destroy = destroy_array,
                          .descriptor = pAllocateArray};
    CUDA_ARRAY3D_DESCRIPTOR descriptor;

    if (!pHandle || !pAllocateArray)
        return GB_REAL(drv, cuArrayCreate_v2)(pHandle, pAllocateArray);
    descriptor = (CUDA_ARRAY3D_DESCRIPTOR){.Width = pAllocateArray->Width,
                                           .Height = pAllocateArray->Height,
                                           .Format = pAllocateArray->Format,
                                           .NumChannels = pAllocateArray->NumChannels};
    return create(&array, (void **)pHandle, &descriptor);
}

static CUresult create_array_v1(struct array *array)
{
    return GB_REAL(array->call.drv, cuArrayCreate)((CUarray *)&array->handle,
                                                   array->descriptor);
}

CUresult gb_enter_cuArrayCreate(struct gb_driver *drv, CUarray *pHandle,
                                const CUDA_ARRAY_DESCRIPTOR_v1 *pAllocateArray)
{
    struct array array = {.call = {.drv = drv, .name = "cuArrayCreate"},
                          .take = create_array_v1,
                          .destroy = destroy_array,
                          .descriptor = pAllocateArray};
    CUDA_ARRAY3D_DESCRIPTOR descriptor;

    if (!pHandle || !pAllocateArray)
        return GB_REAL(drv, cuArrayCreate)(pHandle, pAllocateArray);
    descriptor = (CUDA_ARRAY3D_DESCRIPTOR){.Width = pAllocateArray->Width,
                                           .Height = pAllocateArray->Height,
                                           .Format = pAllocateArray->Format,
                                           .NumChannels = pAllocateArray->NumChannels};
    return create(&array, (void **)pHandle, &descriptor);
}

static CUresult create_array_3d(struct array *array)
{
    return GB_REAL(array->call.drv, cuArray3DCreate_v2)((CUarray *)&array->handle,
                                                        array->descriptor);
}

CUresult gb_enter_cuArray3DCreate_v2(struct gb_driver *drv, CUarray *pHandle,
                                     const CUDA_ARRAY3D_DESCRIPTOR *pAllocateArray)
{
    struct array array = {.call = {.drv = drv, .name = "cuArray3DCreate"},
                          .take = create_array_3d,
                          .destroy = destroy_array,
                          .descriptor = pAllocateArray};

    if (!pHandle || !pAllocateArray)
        return GB_REAL(drv, cuArray3DCreate_v2)(pHandle, pAllocateArray);
    return create(&array, (void **)pHandle, pAllocateArray);
}

static CUresult create_array_3d_v1(struct array *array)
{
    return GB_REAL(array->call.drv, cuArray3DCreate)((CUarray *)&array->handle,
                                                     array->descriptor);
}

CUresult gb_enter_cuArray3DCreate(struct gb_driver *drv, CUarray *pHandle,
                                  const CUDA_ARRAY3D_DESCRIPTOR_v1 *pAllocateArray)
{
    struct array array = {.call = {.drv = drv, .name = "cuArray3DCreate"},
                          .take = create_array_3d_v1,
                          .destroy = destroy_array,
                          .descriptor = pAllocateArray};
    CUDA_ARRAY3D_DESCRIPTOR descriptor;

    if (!pHandle || !pAllocateArray)
        return GB_REAL(drv, cuArray3DCreate)(pHandle, pAllocateArray);
    descriptor = (CUDA_ARRAY3D_DESCRIPTOR){.Width = pAllocateArray->Width,
                                           .Height = pAllocateArray->Height,
                                           .Depth = pAllocateArray->Depth,
                                           .Format = pAllocateArray->Format,
                                           .NumChannels = pAllocateArray->NumChannels,
                                           .Flags = pAllocateArray->Flags};
    return create(&array, (void **)pHandle, &descriptor);
}

static CUresult create_mipmapped(struct array *array)
{
    return GB_REAL(array->call.drv, cuMipmappedArrayCreate)((CUmipmappedArray *)&array->handle,
                                                            array->descriptor, array->levels);
}

static CUresult destroy_mipmapped(struct array *array)
{
    return GB_REAL(array->call.drv, cuMipmappedArrayDestroy)(array->handle);
}

CUresult gb_enter_cuMipmappedArrayCreate(struct gb_driver *drv, CUmipmappedArray *pHandle,
                                         const CUDA_ARRAY3D_DESCRIPTOR *pMipmappedArrayDesc,
                                         unsigned int numMipmapLevels)
{
    struct array array = {.call = {.drv = drv, .name = "cuMipmappedArrayCreate"},
                          .take = create_mipmapped,
                          .destroy = destroy_mipmapped,
                          .descriptor = pMipmappedArrayDesc,
                          .levels = numMipmapLevels};

    if (!pHandle || !pMipmappedArrayDesc)
        return GB_REAL(drv, cuMipmappedArrayCreate)(pHandle, pMipmappedArrayDesc,
                                                    numMipmapLevels);
    return create(&array, (void **)pHandle, pMipmappedArrayDesc);
}

static CUresult release_array(void *arg, CUdeviceptr pointer)
{
    return GB_REAL((struct gb_driver *)arg, cuArrayDestroy)((CUarray)(uintptr_t)pointer);
}

static CUresult release_mipmapped(void *arg, CUdeviceptr pointer)
{
    return GB_REAL((struct gb_driver *)arg,
                   cuMipmappedArrayDestroy)((CUmipmappedArray)(uintptr_t)pointer);
}

/* A tracked one through its stack; else what was measured is looked at again. */
static CUresult destroy(struct gb_driver *drv, const void *handle, gpubudget_release_fn real)
{
    gpubudget_release_t how = {.release = real, .arg = drv};
    CUdeviceptr pointer = (CUdeviceptr)(uintptr_t)handle;
    CUresult code;

    if (!gb_call_free(pointer, &how, &code)) {
        struct gb_ending ending = gb_ending_begins(GB_MEASURED_ARRAY, handle);

        code = real(drv, pointer);
        gb_ending_done(&ending, code == CUDA_SUCCESS);
    }
    /* What was bound to a sparse one. */
    if (code == CUDA_SUCCESS)
        gb_array_ended(&drv->api, handle);
    return code;
}

CUresult gb_enter_cuArrayDestroy(struct gb_driver *drv, CUarray hArray)
{
    return destroy(drv, hArray, release_array);
}

CUresult gb_enter_cuMipmappedArrayDestroy(struct gb_driver *drv,
                                          CUmipmappedArray hMipmappedArray)
{
    return destroy(drv, hMipmappedArray, release_mipmapped);
}
