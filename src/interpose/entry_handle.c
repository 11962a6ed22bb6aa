/*
 * entry_handle.c: physical handles: created, shared, mapped, released.
 *
 * cuMemCreate needs no current context: the charge is that of the device it names. Host memory
 * is never charged. What else keeps the memory alive is counted in handles.c; these calls take
 * and give back nothing by themselves, so that nothing here is ever refused, but for lack of
 * host memory to count it.
 */
#include "interpose/call.h"
#include "interpose/handlers.h"
#include "interpose/imports.h"

#include <stdlib.h>

#include "resource/capture.h"
#include "resource/handles.h"

/* The granularity of every device seen; another one is asked for. */
#define USUAL_GRANULARITY (UINT64_C(2) << 20)

struct creation {
    struct gb_call call;
    size_t bytes;
    const CUmemAllocationProp *prop;
    unsigned long long flags;
    CUmemGenericAllocationHandle handle;
    CUmemGenericAllocationHandle before; /* in the program's variable */
};

static CUresult release(struct gb_driver *drv, CUmemGenericAllocationHandle handle)
{
    gb_fn_cuMemRelease *real = GB_REAL(drv, cuMemRelease);

    return real ? real(handle) : CUDA_ERROR_NOT_SUPPORTED;
}

static CUresult acquire(void *arg, CUdeviceptr *pointer, size_t *bytes)
{
    struct creation *creation = arg;
    CUresult code = GB_REAL(creation->call.drv, cuMemCreate)(&creation->handle, creation->bytes,
                                                             creation->prop, creation->flags);

    if (code == CUDA_SUCCESS) {
        *pointer = creation->handle;
        *bytes = creation->bytes;
    }
    return code;
}

/* The grant never was: what the driver leaves in the output at the next try is the program's.
 */
static CUresult undo(void *arg, CUdeviceptr pointer)
{
    struct creation *creation = arg;
    CUresult code = release(creation->call.drv, pointer);

    if (code == CUDA_SUCCESS)
        creation->handle = creation->before;
    return code;
}

/* The driver refuses sizes off its granularity, whatever the budget. */
static bool is_odd(struct gb_driver *drv, size_t bytes, const CUmemAllocationProp *prop)
{
    struct gb_capture_mode saved;
    size_t granularity = 0;
    CUresult code;

    if (bytes % USUAL_GRANULARITY == 0 || !drv->api.cuMemGetAllocationGranularity)
        return false;
    saved = gb_capture_relax(&drv->api);
    code = drv->api.cuMemGetAllocationGranularity(&granularity, prop,
                                                  CU_MEM_ALLOC_GRANULARITY_MINIMUM);
    gb_capture_restore(&drv->api, &saved);
    return code == CUDA_SUCCESS && granularity > 0 && bytes % granularity != 0;
}

/* A context that began where we could not see it is measured at its first charged call. */
static void note_current(struct gb_driver *drv, struct gb_device *device)
{
    CUcontext context = NULL;
    CUdevice dev;

    if (drv->api.cuCtxGetCurrent(&context) == CUDA_SUCCESS && context &&
        drv->api.cuCtxGetDevice(&dev) == CUDA_SUCCESS && dev == device->ordinal)
        gb_backend_note_context(&device->backend, &drv->api, context, false);
}

/* Without a charge; the value may be one that something charged has had before. */
static CUresult create_uncharged(struct gb_driver *drv, CUmemGenericAllocationHandle *handle,
                                 size_t size, const CUmemAllocationProp *prop,
                                 unsigned long long flags)
{
    CUresult code = GB_REAL(drv, cuMemCreate)(handle, size, prop, flags);

    if (code == CUDA_SUCCESS && handle)
        gb_handles_born(&drv->api, *handle);
    return code;
}

CUresult gb_enter_cuMemCreate(struct gb_driver *drv, CUmemGenericAllocationHandle *handle,
                              size_t size, const CUmemAllocationProp *prop,
                              unsigned long long flags)
{
    struct creation creation = {.call = {.drv = drv, .name = "cuMemCreate"},
                                .bytes = size,
                                .prop = prop,
                                .flags = flags};
    gpubudget_request_t request = {.bytes = size,
                                   .kind = GPUBUDGET_KIND_HANDLE,
                                   .acquire = acquire,
                                   .undo = undo,
                                   .arg = &creation};
    CUresult code;

    if (!handle || !prop || size == 0 || prop->location.type != CU_MEM_LOCATION_TYPE_DEVICE)
        return create_uncharged(drv, handle, size, prop, flags);
    switch (gb_process_device(drv, prop->location.id, &creation.call.device)) {
    case GB_RULING_DENY:
        return CUDA_ERROR_NOT_PERMITTED;
    case GB_RULING_BUDGET:
        break;
    default:
        return create_uncharged(drv, handle, size, prop, flags);
    }
    creation.handle = creation.before = *handle;
    if (is_odd(drv, size, prop)) {
        code = GB_REAL(drv, cuMemCreate)(&creation.handle, size, prop, flags);
        if (code != CUDA_SUCCESS) {
            *handle = creation.handle;
            return code;
        }
        /* It takes it after all: then as any other. */
        release(drv, creation.handle);
        creation.handle = creation.before;
    }
    note_current(drv, creation.call.device);
    code = gb_call_allocate(&creation.call, &request);
    if (creation.call.answered)
        *handle = creation.handle;
    return code;
}

CUresult gb_enter_cuMemRelease(struct gb_driver *drv, CUmemGenericAllocationHandle handle)
{
    struct gb_memory *memory = gb_handle_hold(&drv->api, handle, 0);
    CUresult code;

    gb_giving_begins();
    code = GB_REAL(drv, cuMemRelease)(handle);
    if (memory)
        gb_handle_released(memory, handle, code == CUDA_SUCCESS);
    gb_giving_ends();
    return code;
}

CUresult gb_enter_cuMemRetainAllocationHandle(struct gb_driver *drv,
                                              CUmemGenericAllocationHandle *handle, void *addr)
{
    gb_fn_cuMemRetainAllocationHandle *real = GB_REAL(drv, cuMemRetainAllocationHandle);
    CUdeviceptr address = (CUdeviceptr)(uintptr_t)addr;
    CUmemGenericAllocationHandle value;
    struct gb_memory *memory;
    struct gb_handle *spare = NULL;
    CUresult code;

    if (!handle || !gb_handles_any())
        return real(handle, addr);
    memory = gb_mapping_hold(&drv->api, address);
    if (memory)
        spare = gb_handle_new();
    if (memory && !spare && memory->charged > 0) {
        gb_memory_drop(memory);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    value = *handle;
    code = real(&value, addr);
    if (code != CUDA_SUCCESS) {
        free(spare);
        gb_memory_drop(memory);
    } else if (!gb_handle_retained(memory, spare, &drv->api, address, value)) {
        /* A reference that is not known must not be there, or must never be thought gone. */
        if (memory->charged > 0 && release(drv, value) == CUDA_SUCCESS) {
            gb_memory_drop(memory);
            return CUDA_ERROR_OUT_OF_MEMORY;
        }
        gb_memory_keep(memory);
        gb_memory_drop(memory);
    }
    *handle = value;
    return code;
}

CUresult gb_enter_cuMemMap(struct gb_driver *drv, CUdeviceptr ptr, size_t size, size_t offset,
                           CUmemGenericAllocationHandle handle, unsigned long long flags)
{
    struct gb_memory *memory = gb_handle_hold(&drv->api, handle, 0);
    struct gb_mapping *mapping = memory ? calloc(1, sizeof(*mapping)) : NULL;
    CUresult code;

    if (memory && !mapping && memory->charged > 0) {
        gb_memory_drop(memory);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    code = GB_REAL(drv, cuMemMap)(ptr, size, offset, handle, flags);
    if (code == CUDA_SUCCESS && mapping) {
        gb_memory_mapped(memory, mapping, ptr, size);
        return code;
    }
    free(mapping);
    gb_memory_drop(memory);
    return code;
}

CUresult gb_enter_cuMemUnmap(struct gb_driver *drv, CUdeviceptr ptr, size_t size)
{
    gb_fn_cuMemUnmap *real = GB_REAL(drv, cuMemUnmap);
    uint64_t moment;
    CUresult code;

    if (!gb_handles_any())
        return real(ptr, size);
    moment = gb_handles_moment();
    gb_giving_begins();
    code = real(ptr, size);
    if (code == CUDA_SUCCESS)
        gb_handles_unmapped(&drv->api, ptr, size, moment);
    gb_giving_ends();
    return code;
}

CUresult gb_enter_cuMemExportToShareableHandle(struct gb_driver *drv, void *shareableHandle,
                                               CUmemGenericAllocationHandle handle,
                                               CUmemAllocationHandleType handleType,
                                               unsigned long long flags)
{
    struct gb_memory *memory = gb_handle_hold(&drv->api, handle, 0);
    CUresult code =
        GB_REAL(drv, cuMemExportToShareableHandle)(shareableHandle, handle, handleType, flags);

    /* Whoever has it may keep the memory, and no query shows it: charged from now on. */
    if (memory && code == CUDA_SUCCESS)
        gb_memory_exported(memory, handleType == CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR
                                       ? *(const int *)shareableHandle
                                       : -1);
    gb_memory_drop(memory);
    return code;
}

/* The export as a dma-buf, by address. */
CUresult gb_enter_cuMemGetHandleForAddressRange(struct gb_driver *drv, void *handle,
                                                CUdeviceptr dptr, size_t size,
                                                CUmemRangeHandleType handleType,
                                                unsigned long long flags)
{
    struct gb_held held;
    CUresult code;

    if (!gb_handles_hold_range(&drv->api, dptr, size, &held))
        return CUDA_ERROR_OUT_OF_MEMORY;
    code = GB_REAL(drv, cuMemGetHandleForAddressRange)(handle, dptr, size, handleType, flags);
    for (size_t i = 0; i < held.count && code == CUDA_SUCCESS; i++)
        gb_memory_exported(held.list[i], -1);
    gb_held_drop(&held);
    return code;
}

/* Whose memory it is; NULL: of no device with a budget, or no memory at all (multicast). */
static struct gb_device *device_of(struct gb_driver *drv, CUmemGenericAllocationHandle handle)
{
    struct gb_capture_mode saved = gb_capture_relax(&drv->api);
    CUmemAllocationProp prop;
    CUresult code = CUDA_ERROR_NOT_SUPPORTED;

    if (drv->api.cuMemGetAllocationPropertiesFromHandle)
        code = drv->api.cuMemGetAllocationPropertiesFromHandle(&prop, handle);
    gb_capture_restore(&drv->api, &saved);
    if (code != CUDA_SUCCESS || prop.location.type != CU_MEM_LOCATION_TYPE_DEVICE)
        return NULL;
    return gb_process_device_at(prop.location.id);
}

CUresult gb_enter_cuMemImportFromShareableHandle(struct gb_driver *drv,
                                                 CUmemGenericAllocationHandle *handle,
                                                 void *osHandle,
                                                 CUmemAllocationHandleType shHandleType)
{
    struct gb_memory *memory = NULL, *ours = NULL;
    struct gb_import import;
    struct gb_device *device;
    uint64_t bytes;
    CUresult code;

    if (!handle || gb_process_device_count() == 0)
        return GB_REAL(drv, cuMemImportFromShareableHandle)(handle, osHandle, shHandleType);
    memory = gb_memory_new();
    if (shHandleType == CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
        ours = gb_handle_exported_to((int)(intptr_t)osHandle);
    /* Of our own the card's tools show nothing more (measured): charged already. */
    if (!ours)
        gb_import_begin(&import);
    else if (ours->importer)
        gb_other_look(ours->importer, 0); /* a later rise is told from what was there before */
    code = GB_REAL(drv, cuMemImportFromShareableHandle)(handle, osHandle, shHandleType);
    if (code != CUDA_SUCCESS) {
        gb_memory_free(memory);
        gb_memory_drop(ours);
        return code;
    }
    device = memory && !ours ? gb_import_end(&import, &bytes) : NULL;
    if (device) {
        memory->attributed = &device->backend.imported;
        memory->away = &device->backend.away;
        memory->attributed_bytes = bytes;
    }
    device = memory && !ours ? device_of(drv, *handle) : NULL;
    if (device)
        memory->importer = &device->backend;
    gb_handles_imported(memory, &drv->api, *handle, ours);
    return code;
}
