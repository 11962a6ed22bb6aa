/* escape_work.c: graphs, code, contexts and streams. */
#define _GNU_SOURCE
#include "escape.h"

#include <stdio.h>
#include <string.h>

/* ---- graphs ---- */

/* Adds an allocation, and its free where the graph frees it itself. */
static void add_allocation(CUgraph graph, size_t bytes, bool freed)
{
    CUDA_MEM_ALLOC_NODE_PARAMS params;
    CUgraphNode node, end;

    memset(&params, 0, sizeof(params));
    params.poolProps.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    params.poolProps.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    params.poolProps.location.id = escape_device();
    params.bytesize = bytes;
    MUST(cuGraphAddMemAllocNode(&node, graph, NULL, 0, &params));
    if (freed)
        MUST(cuGraphAddMemFreeNode(&end, graph, &node, 1, params.dptr));
}

/* Ends the graph; the executable stays. */
static CUresult launch(CUgraph graph, CUstream stream)
{
    CUgraphExec executable = NULL;
    CUresult code = cuGraphInstantiateWithFlags(&executable, graph, 0);

    if (code == CUDA_SUCCESS) {
        code = cuGraphLaunch(executable, stream);
        if (code)
            MUST(cuGraphExecDestroy(executable));
    }
    MUST(cuGraphDestroy(graph));
    return code ? code : KEEP_POINTER(KIND_KEPT, executable);
}

CUresult take_node(size_t bytes)
{
    CUgraph graph;

    MUST(cuGraphCreate(&graph, 0));
    add_allocation(graph, bytes, false);
    return launch(graph, escape_stream(0));
}

/* They share their memory, as far as they do not run at the same time. */
CUresult take_executable(size_t bytes)
{
    static unsigned turn;
    CUgraph graph;

    MUST(cuGraphCreate(&graph, 0));
    add_allocation(graph, bytes, true);
    return launch(graph, escape_stream(turn++));
}

CUresult take_captured(size_t bytes)
{
    CUdeviceptr block;
    CUgraph graph = NULL;
    CUresult code;

    MUST(cuStreamBeginCapture_v2(escape_stream(0), CU_STREAM_CAPTURE_MODE_GLOBAL));
    code = cuMemAllocAsync(&block, bytes, escape_stream(0));
    MUST(cuStreamEndCapture(escape_stream(0), &graph));
    if (code) {
        MUST(cuGraphDestroy(graph));
        return code;
    }
    return launch(graph, escape_stream(0));
}

/* ---- code ---- */

#define PTX_HEAD ".version 6.0\n.target sm_50\n.address_size 64\n"

static const char *variable_of(size_t bytes)
{
    static char text[256];

    snprintf(text, sizeof(text), PTX_HEAD ".visible .global .align 4 .b8 big[%zu];\n", bytes);
    return text;
}

CUresult take_module(size_t bytes)
{
    CUmodule module;
    CUresult code = cuModuleLoadData(&module, variable_of(bytes));

    return code ? code : KEEP_POINTER(KIND_MODULE, module);
}

/* The variable comes to a context with the first use of it there, if not before. */
static CUresult library(size_t bytes, CUcontext loaded_in)
{
    CUlibrary library;
    CUdeviceptr variable;
    size_t size;
    CUresult code;

    MUST(cuCtxSetCurrent(loaded_in));
    code = cuLibraryLoadData(&library, variable_of(bytes), NULL, NULL, 0, NULL, NULL, 0);
    MUST(cuCtxSetCurrent(escape_primary()));
    if (code)
        return code;
    code = cuLibraryGetGlobal(&variable, &size, library, "big");
    if (code) {
        MUST(cuLibraryUnload(library));
        return code;
    }
    return KEEP_POINTER(KIND_LIBRARY, library);
}

CUresult take_library(size_t bytes)
{
    return library(bytes, escape_primary());
}

CUresult take_late_library(size_t bytes)
{
    return library(bytes, NULL);
}

static const char *managed_variable_of(size_t bytes)
{
    static char text[256];

    snprintf(text, sizeof(text),
             PTX_HEAD ".visible .global .attribute(.managed) .align 4 .b8 shared[%zu];\n",
             bytes);
    return text;
}

/* It comes to the card when it is touched there. */
CUresult take_managed_module(size_t bytes)
{
    CUmodule module;
    CUdeviceptr variable;
    size_t size;
    CUresult code = cuModuleLoadData(&module, managed_variable_of(bytes));

    if (code)
        return code;
    MUST(cuModuleGetGlobal_v2(&variable, &size, module, "shared"));
    MUST(cuMemPrefetchAsync(variable, size, escape_device(), escape_stream(0)));
    return KEEP_POINTER(KIND_MODULE, module);
}

/* Loaded with a context and with none, in turn. */
CUresult take_managed_library(size_t bytes)
{
    static unsigned turn;
    CUlibrary library;
    CUdeviceptr variable;
    size_t size;
    CUresult code;

    MUST(cuCtxSetCurrent(turn++ % 2 ? NULL : escape_primary()));
    code =
        cuLibraryLoadData(&library, managed_variable_of(bytes), NULL, NULL, 0, NULL, NULL, 0);
    MUST(cuCtxSetCurrent(escape_primary()));
    if (code)
        return code;
    code = cuLibraryGetManaged(&variable, &size, library, "shared");
    if (code) {
        MUST(cuLibraryUnload(library));
        return code;
    }
    MUST(cuMemPrefetchAsync(variable, size, escape_device(), escape_stream(0)));
    return KEEP_POINTER(KIND_LIBRARY, library);
}

static CUresult run(CUfunction function)
{
    static CUdeviceptr out;
    unsigned at = 64;
    void *params[] = {&out, &at};
    CUresult code;

    if (!out)
        MUST(cuMemAlloc_v2(&out, 4));
    code = cuLaunchKernel(function, 1, 1, 1, 32, 1, 1, 0, escape_stream(0), params, NULL);
    if (code == CUDA_SUCCESS)
        code = cuStreamSynchronize(escape_stream(0));
    return code;
}

/* Of a context there is one heap. It comes with the code that needs it. */
CUresult take_heap(size_t bytes)
{
    static const char text[] =
        PTX_HEAD ".extern .func (.param .b64 func_retval0) malloc (.param .b64 param_0);\n"
                 ".visible .entry takes(.param .u64 out, .param .u32 at)\n{\n"
                 "\t.reg .b64 %rd<3>;\n\tmov.u64 %rd1, 16;\n\t{\n"
                 "\t.param .b64 param0;\n\tst.param.b64 [param0+0], %rd1;\n"
                 "\t.param .b64 retval0;\n\tcall.uni (retval0), malloc, (param0);\n"
                 "\tld.param.b64 %rd2, [retval0+0];\n\t}\n\tret;\n}\n";
    CUmodule module;
    CUfunction function;
    CUresult code = cuCtxSetLimit(CU_LIMIT_MALLOC_HEAP_SIZE, bytes);

    if (code)
        return code;
    code = cuModuleLoadData(&module, text);
    if (code)
        return code;
    code = cuModuleGetFunction(&function, module, "takes");
    if (code == CUDA_SUCCESS)
        code = run(function);
    if (code) {
        MUST(cuModuleUnload(module));
        return code;
    }
    return KEEP_POINTER(KIND_KEPT, module);
}

/* bytes: of one thread. The card then has room for as many threads as it can run at once. */
CUresult take_local(size_t bytes)
{
    char text[1024];
    CUmodule module;
    CUfunction function;
    CUresult code;

    snprintf(text, sizeof(text),
             PTX_HEAD ".visible .entry frame(.param .u64 out, .param .u32 at)\n{\n"
                      "\t.local .align 16 .b8 depot[%zu];\n"
                      "\t.reg .b64 %%rd<5>;\n\t.reg .b32 %%r<3>;\n"
                      "\tld.param.u64 %%rd1, [out];\n\tld.param.u32 %%r1, [at];\n"
                      "\tcvt.u64.u32 %%rd2, %%r1;\n\tmov.u64 %%rd3, depot;\n"
                      "\tadd.s64 %%rd4, %%rd3, %%rd2;\n"
                      "\tst.local.u32 [%%rd4], %%r1;\n\tld.local.u32 %%r2, [%%rd3];\n"
                      "\tst.global.u32 [%%rd1], %%r2;\n\tret;\n}\n",
             bytes);
    code = cuModuleLoadData(&module, text);
    if (code)
        return code;
    code = cuModuleGetFunction(&function, module, "frame");
    if (code == CUDA_SUCCESS)
        code = run(function);
    if (code) {
        MUST(cuModuleUnload(module));
        return code;
    }
    return KEEP_POINTER(KIND_MODULE, module);
}

/* ---- what has a size of its own ---- */

CUresult take_context(size_t bytes)
{
    CUcontext context;
    CUresult code = cuCtxCreate_v2(&context, 0, escape_device());

    (void)bytes;
    MUST(cuCtxSetCurrent(escape_primary()));
    return code ? code : KEEP_POINTER(KIND_KEPT, context);
}

CUresult take_stream(size_t bytes)
{
    CUstream stream;
    CUresult code = cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING);

    (void)bytes;
    return code ? code : KEEP_POINTER(KIND_STREAM, stream);
}
