/* Libraries belong to no context: each context that needs one gets a module of it, with
 * variables of its own, at the first use there: a launch, a function, asking for a variable.
 * (With eager loading: at once, in every context there is or comes to be; the manual says so,
 * nobody measured it.) */
#include "sim.h"

static struct sim_library *libraries;

CUresult sim_library_in(struct sim_library *library, struct sim_context *context,
                        struct sim_module **module)
{
    CUresult code;
    for (*module = context->modules; *module; *module = (*module)->next)
        if ((*module)->library == library)
            return CUDA_SUCCESS;
    if (!library->managed) {
        code = sim_managed_variables_new(context, library->image, NULL, &library->managed);
        if (code)
            return code;
    }
    library->image->references++;
    return sim_module_new(context, library->image, library, module);
}

CUresult sim_libraries_start(struct sim_context *context)
{
    CUresult code = CUDA_SUCCESS;
    struct sim_module *module;
    if (sim_lazy())
        return CUDA_SUCCESS;
    for (struct sim_library *one = libraries; one && !code; one = one->next)
        code = sim_library_in(one, context, &module);
    return code;
}

CUresult sim_function_find(const void *handle, struct sim_context *context,
                           struct sim_function **function)
{
    struct sim_kernel *kernel = sim_object_find(handle, SIM_KERNEL);
    struct sim_module *module;
    CUresult code;
    if (kernel) {
        code = sim_library_in(kernel->library, context, &module);
        if (code)
            return code;
        *function = sim_module_function(module, kernel->code->name);
    } else {
        *function = sim_object_find(handle, SIM_FUNCTION);
    }
    if (!*function || (*function)->module->context != context)
        return CUDA_ERROR_INVALID_HANDLE;
    return sim_function_load(*function);
}

static void end(struct sim_library *library)
{
    struct sim_library **at = &libraries;
    for (struct sim_context *context = sim_contexts(); context; context = context->next)
        for (struct sim_module *module = context->modules, *next; module; module = next) {
            next = module->next;
            if (module->library == library)
                sim_module_end(module);
        }
    sim_managed_variables_end(&library->managed);
    while (library->kernels) {
        struct sim_kernel *kernel = library->kernels;
        library->kernels = kernel->next;
        sim_object_remove(kernel);
        free(kernel);
    }
    while (*at != library)
        at = &(*at)->next;
    *at = library->next;
    sim_object_remove(library);
    sim_image_drop(library->image);
    free(library);
}

static CUresult load(CUlibrary *result, const void *data)
{
    struct sim_library *library;
    struct sim_image *image;
    CUresult code;
    if (!result || !data)
        return CUDA_ERROR_INVALID_VALUE;
    SIM_UNSAFE();
    code = sim_image_read(data, &image);
    if (code)
        return code;
    library = sim_new(sizeof(*library));
    library->image = image;
    for (const struct sim_code *one = image->codes; one; one = one->next) {
        struct sim_kernel *kernel;
        if (!one->entry)
            continue;
        kernel = sim_new(sizeof(*kernel));
        kernel->library = library;
        kernel->code = one;
        kernel->next = library->kernels;
        library->kernels = kernel;
        sim_object_add(kernel, SIM_KERNEL);
    }
    library->next = libraries;
    libraries = library;
    sim_object_add(library, SIM_LIBRARY);
    if (!sim_lazy())
        for (struct sim_context *context = sim_contexts(); context && !code;
             context = context->next) {
            struct sim_module *module;
            if (!context->ended && !context->green)
                code = sim_library_in(library, context, &module);
        }
    if (code)
        end(library);
    else
        *result = (CUlibrary)(void *)library;
    return code;
}

CUresult cuLibraryLoadData(CUlibrary *library, const void *code, CUjit_option *jitOptions,
                           void **jitOptionsValues, unsigned int numJitOptions,
                           CUlibraryOption *libraryOptions, void **libraryOptionValues,
                           unsigned int numLibraryOptions)
{
    SIM_ENTER(cuLibraryLoadData, W(library), W(code), W(jitOptions), W(jitOptionsValues),
              W(numJitOptions), W(libraryOptions), W(libraryOptionValues),
              W(numLibraryOptions));
    return load(library, code);
}

CUresult cuLibraryLoadFromFile(CUlibrary *library, const char *fileName,
                               CUjit_option *jitOptions, void **jitOptionsValues,
                               unsigned int numJitOptions, CUlibraryOption *libraryOptions,
                               void **libraryOptionValues, unsigned int numLibraryOptions)
{
    SIM_ENTER(cuLibraryLoadFromFile, W(library), W(fileName), W(jitOptions),
              W(jitOptionsValues), W(numJitOptions), W(libraryOptions), W(libraryOptionValues),
              W(numLibraryOptions));
    void *text;
    CUresult code;
    if (!library || !fileName)
        return CUDA_ERROR_INVALID_VALUE;
    text = sim_file_read(fileName);
    if (!text)
        return CUDA_ERROR_FILE_NOT_FOUND;
    code = load(library, text);
    free(text);
    return code;
}

CUresult cuLibraryUnload(CUlibrary library)
{
    SIM_ENTER(cuLibraryUnload, W(library));
    struct sim_library *found = sim_object_find(library, SIM_LIBRARY);
    if (!found)
        return CUDA_ERROR_INVALID_HANDLE;
    SIM_UNSAFE();
    end(found);
    return CUDA_SUCCESS;
}

CUresult cuLibraryGetModule(CUmodule *pMod, CUlibrary library)
{
    SIM_ENTER(cuLibraryGetModule, W(pMod), W(library));
    struct sim_library *found = sim_object_find(library, SIM_LIBRARY);
    struct sim_module *module;
    CUresult code;
    if (!pMod)
        return CUDA_ERROR_INVALID_VALUE;
    if (!found)
        return CUDA_ERROR_INVALID_HANDLE;
    SIM_CURRENT(context);
    code = sim_library_in(found, context, &module);
    if (!code)
        *pMod = (CUmodule)(void *)module;
    return code;
}

CUresult cuLibraryGetGlobal(CUdeviceptr *dptr, size_t *bytes, CUlibrary library,
                            const char *name)
{
    SIM_ENTER(cuLibraryGetGlobal, W(dptr), W(bytes), W(library), W(name));
    struct sim_library *found = sim_object_find(library, SIM_LIBRARY);
    struct sim_module *module;
    CUresult code;
    if (!name || (!dptr && !bytes))
        return CUDA_ERROR_INVALID_VALUE;
    if (!found)
        return CUDA_ERROR_INVALID_HANDLE;
    SIM_CURRENT(context);
    /* A managed one is found, too (measured). */
    if (!sim_image_variable(found->image, name))
        return CUDA_ERROR_NOT_FOUND;
    code = sim_library_in(found, context, &module);
    return code ? code : sim_module_variable(module, name, dptr, bytes);
}

/* One for all contexts and devices; it is there from the first context on that has a module of
 * the library, or else from here on, of the current one. */
CUresult cuLibraryGetManaged(CUdeviceptr *dptr, size_t *bytes, CUlibrary library,
                             const char *name)
{
    SIM_ENTER(cuLibraryGetManaged, W(dptr), W(bytes), W(library), W(name));
    struct sim_library *found = sim_object_find(library, SIM_LIBRARY);
    const struct sim_managed_variable *managed;
    const struct sim_variable *variable;
    struct sim_context *context;
    struct sim_module *module;
    CUresult code = CUDA_SUCCESS;
    if (!name || (!dptr && !bytes))
        return CUDA_ERROR_INVALID_VALUE;
    if (!found)
        return CUDA_ERROR_INVALID_HANDLE;
    variable = sim_image_variable(found->image, name);
    if (!variable || !variable->managed)
        return CUDA_ERROR_NOT_FOUND;
    if (!found->managed)
        code = sim_current(&context) ? CUDA_ERROR_NOT_FOUND
                                     : sim_library_in(found, context, &module);
    if (code)
        return code;
    managed = found->managed;
    while (managed->variable != variable)
        managed = managed->next;
    if (dptr)
        *dptr = managed->range->base;
    if (bytes)
        *bytes = variable->bytes;
    return CUDA_SUCCESS;
}
