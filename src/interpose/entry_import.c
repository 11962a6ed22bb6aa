/*
 * entry_import.c: memory of other processes and of other interfaces. Never charged, but for
 * what is our own, never refused, passed as it is.
 */
#include "interpose/handlers.h"
#include "interpose/imports.h"
#include "interpose/own_imports.h"

#include "resource/capture.h"

static uint64_t number_of(const void *handle)
{
    return (uint64_t)(uintptr_t)handle;
}

/* How large the block is that an address belongs to; 0: the driver does not say. */
static uint64_t size_at(struct gb_driver *drv, CUdeviceptr pointer)
{
    struct gb_capture_mode saved = gb_capture_relax(&drv->api);
    CUdeviceptr base;
    size_t bytes = 0;

    if (!drv->api.cuMemGetAddressRange_v2 ||
        drv->api.cuMemGetAddressRange_v2(&base, &bytes, pointer) != CUDA_SUCCESS)
        bytes = 0;
    gb_capture_restore(&drv->api, &saved);
    return bytes;
}

static CUresult open_ipc(struct gb_driver *drv, CUdeviceptr *pdptr, CUipcMemHandle handle,
                         unsigned int flags, gb_fn_cuIpcOpenMemHandle_v2 *real)
{
    struct gb_import import;
    CUresult code;

    gb_import_begin(&import);
    code = real(pdptr, handle, flags);
    if (code == CUDA_SUCCESS && pdptr)
        gb_import_remember(&import, drv, GB_IMPORT_ADDRESS, *pdptr, size_at(drv, *pdptr),
                           "cuIpcOpenMemHandle");
    return code;
}

CUresult gb_enter_cuIpcOpenMemHandle(struct gb_driver *drv, CUdeviceptr *pdptr,
                                     CUipcMemHandle handle, unsigned int Flags)
{
    return open_ipc(drv, pdptr, handle, Flags, GB_REAL(drv, cuIpcOpenMemHandle));
}

CUresult gb_enter_cuIpcOpenMemHandle_v2(struct gb_driver *drv, CUdeviceptr *pdptr,
                                        CUipcMemHandle handle, unsigned int Flags)
{
    return open_ipc(drv, pdptr, handle, Flags, GB_REAL(drv, cuIpcOpenMemHandle_v2));
}

CUresult gb_enter_cuIpcCloseMemHandle(struct gb_driver *drv, CUdeviceptr dptr)
{
    struct gb_import_entry *entry = gb_import_take(GB_IMPORT_ADDRESS, dptr);
    CUresult code = GB_REAL(drv, cuIpcCloseMemHandle)(dptr);

    gb_import_taken(entry, code == CUDA_SUCCESS);
    return code;
}

CUresult gb_enter_cuMemPoolExportPointer(struct gb_driver *drv,
                                         CUmemPoolPtrExportData *shareData_out, CUdeviceptr ptr)
{
    CUmemPoolPtrExportData data;
    CUresult code;

    if (!shareData_out)
        return GB_REAL(drv, cuMemPoolExportPointer)(shareData_out, ptr);
    data = *shareData_out;
    code = GB_REAL(drv, cuMemPoolExportPointer)(&data, ptr);
    if (code == CUDA_SUCCESS && !gb_own_exported(drv, &data, ptr))
        return CUDA_ERROR_OUT_OF_MEMORY;
    *shareData_out = data;
    return code;
}

/* It ends by cuMemFree or cuMemFreeAsync; one of our own by the end of its pool. */
CUresult gb_enter_cuMemPoolImportPointer(struct gb_driver *drv, CUdeviceptr *ptr_out,
                                         CUmemoryPool pool, CUmemPoolPtrExportData *shareData)
{
    struct gb_own_import *own;
    struct gb_import import;
    CUresult code;

    if (ptr_out && !gb_own_import_begins(drv, pool, shareData, &own))
        return CUDA_ERROR_OUT_OF_MEMORY;
    if (ptr_out && own) {
        code = GB_REAL(drv, cuMemPoolImportPointer)(ptr_out, pool, shareData);
        gb_own_import_ends(own, code == CUDA_SUCCESS, *ptr_out);
        return code;
    }
    gb_import_begin(&import);
    code = GB_REAL(drv, cuMemPoolImportPointer)(ptr_out, pool, shareData);
    if (code == CUDA_SUCCESS && ptr_out)
        gb_import_remember(&import, drv, GB_IMPORT_POOL, *ptr_out, size_at(drv, *ptr_out),
                           "cuMemPoolImportPointer");
    return code;
}

CUresult gb_enter_cuImportExternalMemory(struct gb_driver *drv, CUexternalMemory *extMem_out,
                                         const CUDA_EXTERNAL_MEMORY_HANDLE_DESC *memHandleDesc)
{
    struct gb_import import;
    CUresult code;

    gb_import_begin(&import);
    code = GB_REAL(drv, cuImportExternalMemory)(extMem_out, memHandleDesc);
    if (code == CUDA_SUCCESS && extMem_out && memHandleDesc)
        gb_import_remember(&import, drv, GB_IMPORT_EXTERNAL, number_of(*extMem_out),
                           memHandleDesc->size, "cuImportExternalMemory");
    return code;
}

CUresult gb_enter_cuDestroyExternalMemory(struct gb_driver *drv, CUexternalMemory extMem)
{
    struct gb_import_entry *entry = gb_import_take(GB_IMPORT_EXTERNAL, number_of(extMem));
    CUresult code = GB_REAL(drv, cuDestroyExternalMemory)(extMem);

    gb_import_taken(entry, code == CUDA_SUCCESS);
    return code;
}
