/* Modules, libraries, kernels: variables, code, and when each is there. */
#include "check_code.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PTX_GLOBALS                                                                            \
    PTX_HEAD                                                                                   \
    ".global .align 4 .b8 big[100000000];\n.extern .global .f32 elsewhere[1000000];\n"         \
    ".visible .global .align 8 .u64 one;\n"                                                    \
    ".global .attribute(.managed) .align 4 .b8 shared[4000000];\n"                             \
    ".visible .entry first() { ret; }\n.visible .entry second() { ret; }\n"
#define GLOBALS 96 /* MiB: 100,000,256 + 8 bytes */

static void file_with(const char *text, char path[32])
{
    FILE *file;
    int descriptor;
    snprintf(path, 32, "/tmp/standin-XXXXXX");
    descriptor = mkstemp(path);
    CHECK(descriptor >= 0);
    file = fdopen(descriptor, "w");
    CHECK(file != NULL && fputs(text, file) >= 0 && fclose(file) == 0);
}

static void load_and_unload(CUmodule module)
{
    CUdeviceptr address = 0, managed = 0;
    size_t bytes = 0;
    EQUAL(standin_module_bytes(0), GLOBALS * MIB);
    OK(cuModuleGetGlobal(&address, &bytes, module, "one"));
    EQUAL(bytes, 8);
    EQUAL(cuMemFree(address), CUDA_ERROR_INVALID_VALUE);
    OK(cuModuleGetGlobal(&managed, &bytes, module, "shared"));
    EQUAL(bytes, 4000000);
    EQUAL(standin_managed_bytes(0), 0);
    EQUAL(cuModuleGetGlobal(&address, &bytes, module, "elsewhere"), CUDA_ERROR_NOT_FOUND);
    OK(cuModuleUnload(module));
    EQUAL(standin_live_bytes(0), standin_context_bytes(0));
}

void check_module_loads(void)
{
    struct {
        unsigned magic, version;
        const void *content;
        void *name;
    } fat = {0x466243b1, 1, PTX_GLOBALS, NULL};
    CUmodule module = NULL, second;
    CUlinkState state;
    CUfunction function = NULL, listed[3] = {NULL, NULL, NULL};
    CUfunctionLoadingState loading;
    CUmoduleLoadingMode mode;
    unsigned count = 0;
    void *linked;
    size_t size;
    char path[32];
    check_begin();
    OK(cuModuleGetLoadingMode(&mode));
    EQUAL(mode, CU_MODULE_LAZY_LOADING);
    OK(cuModuleLoadData(&module, PTX_GLOBALS));
    load_and_unload(module);
    OK(cuModuleLoadDataEx(&module, PTX_GLOBALS, 0, NULL, NULL));
    load_and_unload(module);
    OK(cuModuleLoadFatBinary(&module, &fat));
    load_and_unload(module);
    file_with(PTX_GLOBALS, path);
    OK(cuModuleLoad(&module, path));
    load_and_unload(module);
    unlink(path);
    EQUAL(cuModuleLoad(&module, path), CUDA_ERROR_FILE_NOT_FOUND);
    OK(cuLinkCreate(0, NULL, NULL, &state));
    OK(cuLinkAddData(state, CU_JIT_INPUT_PTX, (void *)PTX_GLOBALS, sizeof(PTX_GLOBALS), "x", 0,
                     NULL, NULL));
    OK(cuLinkComplete(state, &linked, &size));
    EQUAL(standin_live_bytes(0), standin_context_bytes(0));
    OK(cuModuleLoadData(&module, linked));
    OK(cuLinkDestroy(state));
    load_and_unload(module);
    EQUAL(cuModuleLoadData(&module, "\177ELF"), CUDA_ERROR_INVALID_IMAGE);
    EQUAL(cuModuleLoadData(&module, PTX_HEAD ".visible .entry a()\n{\n\t.reg .b64 %rd<2>;\n"
                                             "\tst.volatile.local.u64 [%rd1], %rd1;\n}\n"),
          CUDA_ERROR_INVALID_PTX);
    /* Code comes with a function, or by force; in steps of the card's memory. */
    OK(cuModuleLoadData(&module, PTX_GLOBALS));
    OK(cuModuleGetFunctionCount(&count, module));
    EQUAL(count, 2);
    OK(cuModuleEnumerateFunctions(listed, 3, module));
    CHECK(listed[0] && listed[1] && !listed[2]);
    OK(cuFuncIsLoaded(&loading, listed[0]));
    EQUAL(loading, CU_FUNCTION_LOADING_STATE_UNLOADED);
    EQUAL(standin_module_bytes(0), GLOBALS * MIB);
    OK(cuFuncLoad(listed[0]));
    OK(cuFuncIsLoaded(&loading, listed[0]));
    EQUAL(loading, CU_FUNCTION_LOADING_STATE_LOADED);
    EQUAL(standin_module_bytes(0), GLOBALS * MIB); /* a small one: nothing */
    standin_set_code_bytes(33 * MIB);
    OK(cuLaunchKernel(listed[1], 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL));
    EQUAL(standin_module_bytes(0), (GLOBALS + 34) * MIB);
    OK(cuModuleGetFunction(&function, module, "first"));
    CHECK(function == listed[0] || function == listed[1]);
    EQUAL(standin_module_bytes(0), (GLOBALS + 34) * MIB);
    /* No room for the variables; for the code. */
    standin_set_other(0, standin_free_bytes(0) - 95 * MIB);
    second = module;
    EQUAL(cuModuleLoadData(&second, PTX_GLOBALS), CUDA_ERROR_OUT_OF_MEMORY);
    CHECK(second == module);
    standin_set_other(0, 0);
    OK(cuModuleLoadData(&second, PTX_GLOBALS));
    standin_set_other(0, standin_free_bytes(0));
    EQUAL(cuModuleGetFunction(&function, second, "first"), CUDA_ERROR_OUT_OF_MEMORY);
    standin_set_other(0, 0);
    OK(cuModuleUnload(second));
    EQUAL(standin_module_bytes(0), (GLOBALS + 34) * MIB);
    OK(cuModuleUnload(module));
    EQUAL(standin_live_bytes(0), standin_context_bytes(0));
    /* Eager: the code of all functions at once. */
    setenv("CUDA_MODULE_LOADING", "EAGER", 1);
    OK(cuModuleLoadData(&module, PTX_GLOBALS));
    EQUAL(standin_module_bytes(0), (GLOBALS + 66) * MIB);
    OK(cuModuleUnload(module));
    standin_set_other(0, standin_free_bytes(0) - 100 * MIB);
    EQUAL(cuModuleLoadData(&module, PTX_GLOBALS), CUDA_ERROR_OUT_OF_MEMORY);
    EQUAL(standin_live_bytes(0), standin_context_bytes(0));
}

void check_libraries(void)
{
    CUcontext primary = check_begin(), context;
    CUlibrary library = NULL, of_kernel;
    CUkernel kernel = NULL, listed[3];
    CUfunction here, there;
    CUmodule module;
    CUdeviceptr mine = 0, its = 0, managed = 0, again = 0;
    const char *name;
    size_t bytes;
    unsigned count = 0;
    int value;
    char path[32];
    OK(cuLibraryLoadData(&library, PTX_GLOBALS, NULL, NULL, 0, NULL, NULL, 0));
    OK(cuLibraryGetKernel(&kernel, library, "first"));
    OK(cuLibraryGetKernelCount(&count, library));
    EQUAL(count, 2);
    OK(cuLibraryEnumerateKernels(listed, 2, library));
    OK(cuKernelGetName(&name, kernel));
    EQUAL(strcmp(name, "first"), 0);
    OK(cuKernelGetLibrary(&of_kernel, kernel));
    CHECK(of_kernel == library);
    OK(cuKernelGetAttribute(&value, CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES, kernel, 0));
    EQUAL(value, 0);
    EQUAL(standin_live_bytes(0), standin_context_bytes(0));
    /* The first use in a context, of each kind. */
    OK(cuLibraryGetGlobal(&mine, &bytes, library, "big"));
    EQUAL(bytes, 100000000);
    EQUAL(standin_module_bytes(0), GLOBALS * MIB);
    OK(cuKernelGetFunction(&here, kernel));
    EQUAL(standin_module_bytes(0), GLOBALS * MIB);
    OK(cuLibraryGetManaged(&managed, &bytes, library, "shared"));
    OK(cuLibraryGetGlobal(&its, &bytes, library, "shared"));
    CHECK(its == managed && bytes == 4000000);
    EQUAL(cuLibraryGetManaged(&its, &bytes, library, "big"), CUDA_ERROR_NOT_FOUND);
    OK(cuCtxCreate(&context, NULL, 0, 0));
    EQUAL(standin_module_bytes(0), GLOBALS * MIB);
    OK(cuLaunchKernel((CUfunction)kernel, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL));
    EQUAL(standin_module_bytes(0), 2 * GLOBALS * MIB);
    OK(cuKernelGetFunction(&there, kernel));
    CHECK(there != here);
    OK(cuLibraryGetGlobal(&its, &bytes, library, "big"));
    CHECK(its != mine);
    OK(cuLibraryGetManaged(&again, &bytes, library, "shared"));
    EQUAL(again, managed);
    OK(cuLibraryGetModule(&module, library));
    EQUAL(cuModuleUnload(module), CUDA_ERROR_NOT_PERMITTED);
    OK(cuCtxDestroy(context));
    EQUAL(standin_module_bytes(0), GLOBALS * MIB);
    OK(cuCtxSetCurrent(primary));
    OK(cuMemsetD8(managed, 1, 100));
    CHECK(standin_managed_bytes(0) > 0);
    OK(cuLibraryUnload(library));
    EQUAL(standin_module_bytes(0), 0);
    EQUAL(cuKernelGetFunction(&here, kernel), CUDA_ERROR_INVALID_HANDLE);
    EQUAL(cuLaunchKernel((CUfunction)kernel, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL),
          CUDA_ERROR_INVALID_HANDLE);
    /* From a file; no room at the first use. */
    file_with(PTX_GLOBALS, path);
    OK(cuLibraryLoadFromFile(&library, path, NULL, NULL, 0, NULL, NULL, 0));
    unlink(path);
    OK(cuLibraryGetKernel(&kernel, library, "second"));
    standin_set_other(0, standin_free_bytes(0) - 10 * MIB);
    EQUAL(cuLaunchKernel((CUfunction)kernel, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL),
          CUDA_ERROR_OUT_OF_MEMORY);
    EQUAL(cuLibraryGetGlobal(&mine, NULL, library, "big"), CUDA_ERROR_OUT_OF_MEMORY);
    EQUAL(standin_module_bytes(0), 0);
    standin_set_other(0, 0);
    OK(cuLibraryUnload(library));
    /* Eager: in every context there is, and in those that come. */
    setenv("CUDA_MODULE_LOADING", "EAGER", 1);
    OK(cuLibraryLoadData(&library, PTX_GLOBALS, NULL, NULL, 0, NULL, NULL, 0));
    EQUAL(standin_module_bytes(0), GLOBALS * MIB);
    OK(cuCtxCreate(&context, NULL, 0, 0));
    EQUAL(standin_module_bytes(0), 2 * GLOBALS * MIB);
    OK(cuLibraryUnload(library));
    EQUAL(standin_module_bytes(0), 0);
    OK(cuCtxDestroy(context));
}

static void parameter(CUfunction function, size_t index, size_t offset, size_t bytes)
{
    size_t at = 99, size = 99;
    OK(cuFuncGetParamInfo(function, index, &at, &size));
    EQUAL(at, offset);
    EQUAL(size, bytes);
}

void check_parameters(void)
{
    CUmodule module;
    CUlibrary library;
    CUkernel kernel;
    CUfunction function;
    size_t at, size;
    check_begin();
    OK(cuModuleLoadData(
        &module, PTX_HEAD
        ".visible .entry takes(.param .u32 n, // .param .u64 none\n"
        ".param .align 8 .b8 s[20], .param .u16 h, .param .u64 .ptr .global .align 16 p)\n"
        "{ .param .u64 inside; ret; }\n.visible .entry none() { ret; }\n"));
    OK(cuModuleGetFunction(&function, module, "takes"));
    parameter(function, 0, 0, 4);
    parameter(function, 1, 8, 20);
    parameter(function, 2, 28, 2);
    parameter(function, 3, 32, 8);
    EQUAL(cuFuncGetParamInfo(function, 4, &at, &size), CUDA_ERROR_INVALID_VALUE);
    OK(cuFuncGetParamInfo(function, 3, &at, NULL));
    OK(cuModuleGetFunction(&function, module, "none"));
    EQUAL(cuFuncGetParamInfo(function, 0, &at, &size), CUDA_ERROR_INVALID_VALUE);
    OK(cuLibraryLoadData(&library, PTX_HEAD ".visible .entry one(.param .u64 p) { ret; }\n",
                         NULL, NULL, 0, NULL, NULL, 0));
    OK(cuLibraryGetKernel(&kernel, library, "one"));
    OK(cuKernelGetParamInfo(kernel, 0, &at, &size));
    EQUAL(size, 8);
    EQUAL(cuKernelGetParamInfo(kernel, 1, &at, &size), CUDA_ERROR_INVALID_VALUE);
}
