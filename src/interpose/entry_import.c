/*
 * entry_import.c: memory of other interfaces. Never charged, never refused, passed as it is.
 */
#include "interpose/handlers.h"
#include "interpose/imports.h"

CUresult gb_enter_cuImportExternalMemory(struct gb_driver *drv, CUexternalMemory *extMem_out,
                                         const CUDA_EXTERNAL_MEMORY_HANDLE_DESC *memHandleDesc)
{
    struct gb_import import;
    CUresult code;

    gb_import_begin(&import);
    code = GB_REAL(drv, cuImportExternalMemory)(extMem_out, memHandleDesc);
    if (code == CUDA_SUCCESS && extMem_out)
        gb_import_remember(&import, *extMem_out);
    return code;
}

CUresult gb_enter_cuDestroyExternalMemory(struct gb_driver *drv, CUexternalMemory extMem)
{
    CUresult code = GB_REAL(drv, cuDestroyExternalMemory)(extMem);

    if (code == CUDA_SUCCESS)
        gb_import_forget(extMem);
    return code;
}
