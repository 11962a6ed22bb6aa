/*
 * entry_function.c: functions and kernels are handed out. A later launch has to know which of
 * the two a handle is, and whose.
 */
#include "interpose/handlers.h"
#include "interpose/library_use.h"
#include "interpose/functions_known.h"

CUresult gb_enter_cuModuleGetFunction(struct gb_driver *drv, CUfunction *hfunc, CUmodule hmod,
                                      const char *name)
{
    CUresult code = GB_REAL(drv, cuModuleGetFunction)(hfunc, hmod, name);

    if (code == CUDA_SUCCESS && hfunc)
        gb_known_function(*hfunc, hmod);
    return code;
}

CUresult gb_enter_cuModuleEnumerateFunctions(struct gb_driver *drv, CUfunction *functions,
                                             unsigned int numFunctions, CUmodule mod)
{
    CUresult code = GB_REAL(drv, cuModuleEnumerateFunctions)(functions, numFunctions, mod);
    unsigned int count = 0;

    if (code != CUDA_SUCCESS || !functions || !drv->api.cuModuleGetFunctionCount ||
        drv->api.cuModuleGetFunctionCount(&count, mod) != CUDA_SUCCESS)
        return code;
    for (unsigned int i = 0; i < numFunctions && i < count; i++)
        gb_known_function(functions[i], mod);
    return code;
}

CUresult gb_enter_cuKernelGetFunction(struct gb_driver *drv, CUfunction *pFunc, CUkernel kernel)
{
    CUresult code = gb_library_bring_kernel(drv, kernel, "cuKernelGetFunction");
    CUcontext context = NULL;

    if (code != CUDA_SUCCESS)
        return code;
    code = GB_REAL(drv, cuKernelGetFunction)(pFunc, kernel);
    if (code == CUDA_SUCCESS && pFunc) {
        if (drv->api.cuCtxGetCurrent(&context) != CUDA_SUCCESS)
            context = NULL;
        gb_known_function_of(*pFunc, kernel, context);
    }
    return code;
}

CUresult gb_enter_cuLibraryGetKernel(struct gb_driver *drv, CUkernel *pKernel,
                                     CUlibrary library, const char *name)
{
    CUresult code = GB_REAL(drv, cuLibraryGetKernel)(pKernel, library, name);

    if (code == CUDA_SUCCESS && pKernel)
        gb_known_kernel(*pKernel, library);
    return code;
}

CUresult gb_enter_cuLibraryEnumerateKernels(struct gb_driver *drv, CUkernel *kernels,
                                            unsigned int numKernels, CUlibrary lib)
{
    CUresult code = GB_REAL(drv, cuLibraryEnumerateKernels)(kernels, numKernels, lib);
    unsigned int count = 0;

    if (code != CUDA_SUCCESS || !kernels || !drv->api.cuLibraryGetKernelCount ||
        drv->api.cuLibraryGetKernelCount(&count, lib) != CUDA_SUCCESS)
        return code;
    for (unsigned int i = 0; i < numKernels && i < count; i++)
        gb_known_kernel(kernels[i], lib);
    return code;
}
