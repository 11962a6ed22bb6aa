/* Kernels: the functions of a library, good for every context. */
#include "sim.h"

CUresult cuLibraryGetKernel(CUkernel *pKernel, CUlibrary library, const char *name)
{
    SIM_ENTER(cuLibraryGetKernel, W(pKernel), W(library), W(name));
    struct sim_library *found = sim_object_find(library, SIM_LIBRARY);
    struct sim_kernel *kernel;
    if (!pKernel || !name)
        return CUDA_ERROR_INVALID_VALUE;
    if (!found)
        return CUDA_ERROR_INVALID_HANDLE;
    kernel = found->kernels;
    while (kernel && strcmp(kernel->code->name, name) != 0)
        kernel = kernel->next;
    if (!kernel)
        return CUDA_ERROR_NOT_FOUND;
    *pKernel = (CUkernel)(void *)kernel;
    return CUDA_SUCCESS;
}

CUresult cuLibraryGetKernelCount(unsigned int *count, CUlibrary lib)
{
    SIM_ENTER(cuLibraryGetKernelCount, W(count), W(lib));
    struct sim_library *found = sim_object_find(lib, SIM_LIBRARY);
    if (!count)
        return CUDA_ERROR_INVALID_VALUE;
    if (!found)
        return CUDA_ERROR_INVALID_HANDLE;
    *count = 0;
    for (struct sim_kernel *one = found->kernels; one; one = one->next)
        ++*count;
    return CUDA_SUCCESS;
}

CUresult cuLibraryEnumerateKernels(CUkernel *kernels, unsigned int numKernels, CUlibrary lib)
{
    SIM_ENTER(cuLibraryEnumerateKernels, W(kernels), W(numKernels), W(lib));
    struct sim_library *found = sim_object_find(lib, SIM_LIBRARY);
    unsigned i = 0;
    if (!kernels)
        return CUDA_ERROR_INVALID_VALUE;
    if (!found)
        return CUDA_ERROR_INVALID_HANDLE;
    for (struct sim_kernel *one = found->kernels; one && i < numKernels; one = one->next)
        kernels[i++] = (CUkernel)(void *)one;
    return CUDA_SUCCESS;
}

CUresult cuKernelGetFunction(CUfunction *pFunc, CUkernel kernel)
{
    SIM_ENTER(cuKernelGetFunction, W(pFunc), W(kernel));
    struct sim_function *function;
    CUresult code;
    if (!pFunc)
        return CUDA_ERROR_INVALID_VALUE;
    if (!sim_object_find(kernel, SIM_KERNEL))
        return CUDA_ERROR_INVALID_HANDLE;
    SIM_CURRENT(context);
    code = sim_function_find(kernel, context, &function);
    if (!code)
        *pFunc = (CUfunction)(void *)function;
    return code;
}

CUresult cuKernelGetLibrary(CUlibrary *pLib, CUkernel kernel)
{
    SIM_ENTER(cuKernelGetLibrary, W(pLib), W(kernel));
    const struct sim_kernel *found = sim_object_find(kernel, SIM_KERNEL);
    if (!pLib)
        return CUDA_ERROR_INVALID_VALUE;
    if (!found)
        return CUDA_ERROR_INVALID_HANDLE;
    *pLib = (CUlibrary)(void *)found->library;
    return CUDA_SUCCESS;
}

CUresult cuKernelGetName(const char **name, CUkernel hfunc)
{
    SIM_ENTER(cuKernelGetName, W(name), W(hfunc));
    const struct sim_kernel *found = sim_object_find(hfunc, SIM_KERNEL);
    if (!name)
        return CUDA_ERROR_INVALID_VALUE;
    if (!found)
        return CUDA_ERROR_INVALID_HANDLE;
    *name = found->code->name;
    return CUDA_SUCCESS;
}

CUresult cuKernelGetAttribute(int *pi, CUfunction_attribute attrib, CUkernel kernel,
                              CUdevice dev)
{
    SIM_ENTER(cuKernelGetAttribute, W(pi), W(attrib), W(kernel), W(dev));
    const struct sim_kernel *found = sim_object_find(kernel, SIM_KERNEL);
    if (!pi || attrib >= CU_FUNC_ATTRIBUTE_MAX)
        return CUDA_ERROR_INVALID_VALUE;
    if (!found)
        return CUDA_ERROR_INVALID_HANDLE;
    if (!sim_card_of(dev))
        return CUDA_ERROR_INVALID_DEVICE;
    return sim_code_attribute(found->code, attrib, pi);
}

CUresult cuKernelSetAttribute(CUfunction_attribute attrib, int val, CUkernel kernel,
                              CUdevice dev)
{
    SIM_ENTER(cuKernelSetAttribute, W(attrib), W(val), W(kernel), W(dev));
    if (attrib >= CU_FUNC_ATTRIBUTE_MAX)
        return CUDA_ERROR_INVALID_VALUE;
    if (!sim_object_find(kernel, SIM_KERNEL))
        return CUDA_ERROR_INVALID_HANDLE;
    return sim_card_of(dev) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

CUresult cuKernelGetParamInfo(CUkernel kernel, size_t paramIndex, size_t *paramOffset,
                              size_t *paramSize)
{
    SIM_ENTER(cuKernelGetParamInfo, W(kernel), W(paramIndex), W(paramOffset), W(paramSize));
    const struct sim_kernel *found = sim_object_find(kernel, SIM_KERNEL);
    if (!found)
        return CUDA_ERROR_INVALID_HANDLE;
    return sim_code_parameter(found->code, paramIndex, paramOffset, paramSize);
}
