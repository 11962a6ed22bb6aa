/* Modules and libraries: when their variables and their code are on the card. */
#include "observe_code.h"

#include <stdio.h>
#include <string.h>

#define TEXT                                                                                   \
    ".version 6.0\n.target sm_50\n.address_size 64\n"                                          \
    ".visible .global .align 4 .b8 big[134217728];\n"                                          \
    ".visible .global .attribute(.managed) .align 4 .b8 shared[4194304];\n"                    \
    ".visible .entry first()\n{\n\tret;\n}\n.visible .entry second()\n{\n\tret;\n}\n"

#define CHANGE(name) observe_size((uint64_t)observe_change(before), name)

void observe_module_life(void)
{
    CUmoduleLoadingMode mode = 0;
    CUmodule module = NULL, untouched = (CUmodule)(uintptr_t)0x77;
    CUfunction function = NULL;
    CUfunctionLoadingState loading = 0;
    CUdeviceptr address = 0;
    size_t bytes = 0;
    unsigned count = 0;
    uint64_t before;
    observe_begin();
    observe_code(CALL(cuModuleGetLoadingMode, &mode), "module_life.mode");
    observe_fact(mode, "module_life.mode");
    before = observe_process_bytes();
    observe_code(cuModuleLoadData(&module, TEXT), "module_life.load");
    CHANGE("module_life.load");
    observe_code(CALL(cuModuleGetFunctionCount, &count, module), "module_life.count");
    observe_fact(count, "module_life.count");
    observe_code(CALL(cuModuleEnumerateFunctions, &function, 1, module),
                 "module_life.enumerate");
    if (function) {
        observe_code(CALL(cuFuncIsLoaded, &loading, function), "module_life.is_loaded");
        observe_fact(loading, "module_life.loaded_at_first");
    }
    observe_code(cuModuleGetFunction(&function, module, "first"), "module_life.function");
    observe_code(CALL(cuFuncIsLoaded, &loading, function), "module_life.is_loaded_after");
    observe_fact(loading, "module_life.loaded_by_function");
    CHANGE("module_life.function");
    observe_code(CALL(cuFuncLoad, function), "module_life.func_load");
    CHANGE("module_life.func_load");
    cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL);
    cuCtxSynchronize();
    CHANGE("module_life.launched");
    observe_code(cuModuleGetGlobal(&address, &bytes, module, "shared"), "module_life.managed");
    observe_code(cuModuleUnload(module), "module_life.unload");
    CHANGE("module_life.unload");
    observe_code(cuModuleLoadData(&untouched, "this is no program"), "module_life.bad_text");
    observe_fact(untouched == (CUmodule)(uintptr_t)0x77, "module_life.bad_text_untouched");
    observe_code(cuModuleLoad(&untouched, "/nonexistent/file"), "module_life.no_file");
}

void observe_library(void)
{
    CUcontext primary = observe_primary(), context = NULL;
    CUlibrary library = NULL;
    CUkernel kernel = NULL;
    CUfunction function = NULL;
    CUmodule module = NULL;
    CUdeviceptr address = 0, other = 0, managed = 0;
    size_t bytes = 0;
    uint64_t before = observe_process_bytes();
    observe_code(CALL(cuLibraryLoadData, &library, TEXT, NULL, NULL, 0, NULL, NULL, 0),
                 "library.load");
    CHANGE("library.load");
    if (!library)
        return;
    observe_code(CALL(cuLibraryGetKernel, &kernel, library, "first"), "library.kernel");
    CHANGE("library.kernel");
    observe_code(CALL(cuLibraryGetKernel, &kernel, library, "missing"),
                 "library.kernel_missing");
    observe_code(CALL(cuLibraryGetGlobal, &address, &bytes, library, "big"), "library.global");
    CHANGE("library.global");
    observe_code(CALL(cuLibraryGetManaged, &managed, &bytes, library, "shared"),
                 "library.managed");
    observe_code(CALL(cuLibraryGetManaged, &other, &bytes, library, "big"),
                 "library.managed_of_global");
    observe_code(CALL(cuLibraryGetGlobal, &other, &bytes, library, "shared"),
                 "library.global_of_managed");
    observe_code(CALL(cuKernelGetFunction, &function, kernel), "library.function");
    CHANGE("library.function");
    observe_code(CALL(cuLibraryGetModule, &module, library), "library.module");
    /* Another context. */
    observe_context_create(&context, 0, 0);
    before = observe_process_bytes();
    observe_code(cuLaunchKernel((CUfunction)kernel, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL),
                 "library.launch");
    cuCtxSynchronize();
    CHANGE("library.launch");
    observe_code(CALL(cuLibraryGetGlobal, &other, &bytes, library, "big"),
                 "library.global_elsewhere");
    observe_fact(other != address, "library.global_differs");
    CHANGE("library.global_elsewhere");
    cuCtxDestroy(context);
    cuCtxSetCurrent(primary);
    before = observe_process_bytes();
    observe_code(CALL(cuLibraryUnload, library), "library.unload");
    observe_size((uint64_t)-observe_change(before), "library.unload");
}

/* Apart: who knows what it does. */
void observe_library_module(void)
{
    CUlibrary library = NULL;
    CUmodule module = NULL;
    CUdeviceptr address = 0;
    size_t bytes = 0;
    observe_begin();
    CALL(cuLibraryLoadData, &library, TEXT, NULL, NULL, 0, NULL, NULL, 0);
    CALL(cuLibraryGetModule, &module, library);
    observe_code(cuModuleUnload(module), "library_module.unload");
    observe_code(CALL(cuLibraryGetGlobal, &address, &bytes, library, "big"),
                 "library_module.global_after");
}
