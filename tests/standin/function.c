/* What a module gives out: functions, variables; and what can be asked of a function. */
#include "sim.h"

/* With lazy loading this is when a function's code is loaded, as the manual has it. */
CUresult cuModuleGetFunction(CUfunction *hfunc, CUmodule hmod, const char *name)
{
    SIM_ENTER(cuModuleGetFunction, W(hfunc), W(hmod), W(name));
    struct sim_module *module = sim_object_find(hmod, SIM_MODULE);
    struct sim_function *function;
    CUresult code;
    if (!hfunc || !name)
        return CUDA_ERROR_INVALID_VALUE;
    if (!module)
        return CUDA_ERROR_INVALID_HANDLE;
    function = sim_module_function(module, name);
    if (!function)
        return CUDA_ERROR_NOT_FOUND;
    code = sim_function_load(function);
    if (!code)
        *hfunc = (CUfunction)(void *)function;
    return code;
}

CUresult cuModuleGetFunctionCount(unsigned int *count, CUmodule mod)
{
    SIM_ENTER(cuModuleGetFunctionCount, W(count), W(mod));
    struct sim_module *module = sim_object_find(mod, SIM_MODULE);
    if (!count)
        return CUDA_ERROR_INVALID_VALUE;
    if (!module)
        return CUDA_ERROR_INVALID_HANDLE;
    *count = 0;
    for (struct sim_function *one = module->functions; one; one = one->next)
        ++*count;
    return CUDA_SUCCESS;
}

/* Gives handles without loading what they stand for. */
CUresult cuModuleEnumerateFunctions(CUfunction *functions, unsigned int numFunctions,
                                    CUmodule mod)
{
    SIM_ENTER(cuModuleEnumerateFunctions, W(functions), W(numFunctions), W(mod));
    struct sim_module *module = sim_object_find(mod, SIM_MODULE);
    unsigned i = 0;
    if (!functions)
        return CUDA_ERROR_INVALID_VALUE;
    if (!module)
        return CUDA_ERROR_INVALID_HANDLE;
    for (struct sim_function *one = module->functions; one && i < numFunctions; one = one->next)
        functions[i++] = (CUfunction)(void *)one;
    return CUDA_SUCCESS;
}

static CUresult get_global(CUdeviceptr *dptr, size_t *bytes, CUmodule hmod, const char *name)
{
    struct sim_module *module = sim_object_find(hmod, SIM_MODULE);
    if (!name || (!dptr && !bytes))
        return CUDA_ERROR_INVALID_VALUE;
    return module ? sim_module_variable(module, name, dptr, bytes) : CUDA_ERROR_INVALID_HANDLE;
}

CUresult cuModuleGetGlobal_v2(CUdeviceptr *dptr, size_t *bytes, CUmodule hmod, const char *name)
{
    SIM_ENTER(cuModuleGetGlobal_v2, W(dptr), W(bytes), W(hmod), W(name));
    return get_global(dptr, bytes, hmod, name);
}

CUresult sim_code_attribute(const struct sim_code *code, CUfunction_attribute which, int *value)
{
    if (!value || which >= CU_FUNC_ATTRIBUTE_MAX)
        return CUDA_ERROR_INVALID_VALUE;
    switch (which) {
    case CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
        *value = 1024;
        break;
    case CU_FUNC_ATTRIBUTE_NUM_REGS:
        *value = 16;
        break;
    case CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES:
        *value = (int)code->local;
        break;
    default:
        *value = 0;
        break;
    }
    return CUDA_SUCCESS;
}

CUresult sim_code_parameter(const struct sim_code *code, size_t index, size_t *offset,
                            size_t *bytes)
{
    if (!offset || index >= code->parameter_count)
        return CUDA_ERROR_INVALID_VALUE;
    *offset = code->parameters[index].offset;
    if (bytes)
        *bytes = code->parameters[index].bytes;
    return CUDA_SUCCESS;
}

CUresult cuFuncGetParamInfo(CUfunction func, size_t paramIndex, size_t *paramOffset,
                            size_t *paramSize)
{
    SIM_ENTER(cuFuncGetParamInfo, W(func), W(paramIndex), W(paramOffset), W(paramSize));
    const struct sim_function *found = sim_object_find(func, SIM_FUNCTION);
    if (!found)
        return CUDA_ERROR_INVALID_HANDLE;
    return sim_code_parameter(found->code, paramIndex, paramOffset, paramSize);
}

CUresult cuFuncGetAttribute(int *pi, CUfunction_attribute attrib, CUfunction hfunc)
{
    SIM_ENTER(cuFuncGetAttribute, W(pi), W(attrib), W(hfunc));
    const struct sim_function *function = sim_object_find(hfunc, SIM_FUNCTION);
    const struct sim_kernel *kernel = sim_object_find(hfunc, SIM_KERNEL);
    if (!pi || attrib >= CU_FUNC_ATTRIBUTE_MAX)
        return CUDA_ERROR_INVALID_VALUE;
    if (!function && !kernel)
        return CUDA_ERROR_INVALID_HANDLE;
    return sim_code_attribute(function ? function->code : kernel->code, attrib, pi);
}

static CUresult known(CUfunction hfunc)
{
    return sim_object_find(hfunc, SIM_FUNCTION) || sim_object_find(hfunc, SIM_KERNEL)
               ? CUDA_SUCCESS
               : CUDA_ERROR_INVALID_HANDLE;
}

CUresult cuFuncSetAttribute(CUfunction hfunc, CUfunction_attribute attrib, int value)
{
    SIM_ENTER(cuFuncSetAttribute, W(hfunc), W(attrib), W(value));
    return attrib >= CU_FUNC_ATTRIBUTE_MAX ? CUDA_ERROR_INVALID_VALUE : known(hfunc);
}

CUresult cuFuncSetCacheConfig(CUfunction hfunc, CUfunc_cache config)
{
    SIM_ENTER(cuFuncSetCacheConfig, W(hfunc), W(config));
    return known(hfunc);
}

CUresult cuFuncGetModule(CUmodule *hmod, CUfunction hfunc)
{
    SIM_ENTER(cuFuncGetModule, W(hmod), W(hfunc));
    struct sim_function *function = sim_object_find(hfunc, SIM_FUNCTION);
    if (!hmod)
        return CUDA_ERROR_INVALID_VALUE;
    if (!function)
        return CUDA_ERROR_INVALID_HANDLE;
    *hmod = (CUmodule)(void *)function->module;
    return CUDA_SUCCESS;
}

CUresult cuFuncGetName(const char **name, CUfunction hfunc)
{
    SIM_ENTER(cuFuncGetName, W(name), W(hfunc));
    const struct sim_function *function = sim_object_find(hfunc, SIM_FUNCTION);
    if (!name)
        return CUDA_ERROR_INVALID_VALUE;
    if (!function)
        return CUDA_ERROR_INVALID_HANDLE;
    *name = function->code->name;
    return CUDA_SUCCESS;
}

CUresult cuFuncIsLoaded(CUfunctionLoadingState *state, CUfunction function)
{
    SIM_ENTER(cuFuncIsLoaded, W(state), W(function));
    const struct sim_function *found = sim_object_find(function, SIM_FUNCTION);
    if (!state)
        return CUDA_ERROR_INVALID_VALUE;
    if (!found)
        return CUDA_ERROR_INVALID_HANDLE;
    *state =
        found->loaded ? CU_FUNCTION_LOADING_STATE_LOADED : CU_FUNCTION_LOADING_STATE_UNLOADED;
    return CUDA_SUCCESS;
}

CUresult cuFuncLoad(CUfunction function)
{
    SIM_ENTER(cuFuncLoad, W(function));
    struct sim_function *found = sim_object_find(function, SIM_FUNCTION);
    return found ? sim_function_load(found) : CUDA_ERROR_INVALID_HANDLE;
}
