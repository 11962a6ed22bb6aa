/* Local memory by every form of launch, limits, streams, green contexts. */
#define CUDA_ENABLE_DEPRECATED
#include "check_code.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

CUmodule check_module(const char *text)
{
    CUmodule module = NULL;
    OK(cuModuleLoadData(&module, text));
    return module;
}

CUfunction check_function(CUmodule module, const char *name)
{
    CUfunction function = NULL;
    OK(cuModuleGetFunction(&function, module, name));
    return function;
}

static CUresult launch(CUfunction function, CUstream stream)
{
    return cuLaunchKernel(function, 1, 1, 1, 32, 1, 1, 0, stream, NULL, NULL);
}

static int local_size(CUfunction function)
{
    int bytes = -1;
    OK(cuFuncGetAttribute(&bytes, CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES, function));
    return bytes;
}

void check_local(void)
{
    CUfunction none, some, much;
    CUcontext primary = check_begin(), context;
    CUmodule module = check_module(PTX_LOCAL), other;
    CUmemoryPool pool;
    CUstream stream = check_stream();
    CUdeviceptr block;
    cuuint64_t forever = UINT64_MAX;
    uint64_t before;
    size_t value = 0;
    none = check_function(module, "none");
    some = check_function(module, "some");
    much = check_function(module, "much");
    EQUAL(cuModuleGetFunction(&none, module, "not_this"), CUDA_ERROR_NOT_FOUND);
    EQUAL(local_size(none), 0);
    EQUAL(local_size(some), 16384);
    EQUAL(local_size(much), 65536);
    EQUAL(local_size(check_function(module, "calls")), 8192 + 2048);
    EQUAL(LOCAL_BYTES(65536), 16632 * MIB); /* as measured */
    before = standin_live_bytes(0);
    OK(launch(none, stream));
    EQUAL(standin_live_bytes(0), before);
    OK(launch(some, stream));
    EQUAL(standin_local_bytes(0), LOCAL_BYTES(16384));
    EQUAL(standin_live_bytes(0), before + LOCAL_BYTES(16384));
    OK(cuCtxGetLimit(&value, CU_LIMIT_STACK_SIZE));
    EQUAL(value, 16384);
    OK(launch(some, stream));
    OK(launch(none, stream));
    OK(launch(check_function(module, "calls"), stream));
    EQUAL(standin_local_bytes(0), LOCAL_BYTES(16384));
    /* No room: nothing happens, and all goes on. */
    EQUAL(launch(much, stream), CUDA_ERROR_OUT_OF_MEMORY);
    EQUAL(standin_local_bytes(0), LOCAL_BYTES(16384));
    OK(launch(none, stream));
    /* The limit shrinks it, and is its least. */
    OK(cuCtxSetLimit(CU_LIMIT_STACK_SIZE, 4096));
    OK(cuCtxGetLimit(&value, CU_LIMIT_STACK_SIZE));
    EQUAL(value, 4096);
    EQUAL(standin_local_bytes(0), LOCAL_BYTES(4096));
    EQUAL(cuCtxSetLimit(CU_LIMIT_STACK_SIZE, 128 * 1024), CUDA_ERROR_OUT_OF_MEMORY);
    OK(cuCtxGetLimit(&value, CU_LIMIT_STACK_SIZE));
    EQUAL(value, 4096);
    EQUAL(standin_local_bytes(0), LOCAL_BYTES(4096));
    OK(launch(none, stream));
    EQUAL(standin_local_bytes(0), LOCAL_BYTES(4096));
    OK(cuCtxSetLimit(CU_LIMIT_STACK_SIZE, 500));
    OK(cuCtxGetLimit(&value, CU_LIMIT_STACK_SIZE));
    EQUAL(value, 512);
    EQUAL(standin_live_bytes(0), before - (uint64_t)512 * 2048 * 132);
    OK(launch(check_function(module, "calls"), stream));
    EQUAL(standin_live_bytes(0), before + LOCAL_BYTES(8192 + 2048));
    OK(cuCtxSetLimit(CU_LIMIT_STACK_SIZE, 512));
    OK(cuCtxSetLimit(CU_LIMIT_STACK_SIZE, 1024));
    EQUAL(standin_live_bytes(0), before);
    /* Each context has its own, and it ends with it. A module of the one is not for the other.
     */
    OK(cuCtxCreate(&context, NULL, CU_CTX_LMEM_RESIZE_TO_MAX, 0));
    EQUAL(launch(some, NULL), CUDA_ERROR_INVALID_HANDLE);
    OK(cuModuleLoadData(&other, PTX_LOCAL));
    OK(launch(check_function(other, "some"), NULL));
    EQUAL(standin_local_bytes(0), LOCAL_BYTES(16384));
    OK(cuCtxDestroy(context));
    EQUAL(standin_live_bytes(0), before);
    /* Idle memory of a pool makes room. */
    OK(cuCtxSetCurrent(primary));
    OK(cuDeviceGetDefaultMemPool(&pool, 0));
    OK(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &forever));
    OK(cuMemAllocAsync(&block, 4 * GIB, stream));
    OK(cuMemFreeAsync(block, stream));
    OK(cuStreamSynchronize(stream));
    EQUAL(standin_pool_reserved(0), 4 * GIB);
    standin_set_other(0, standin_free_bytes(0) - GIB);
    OK(launch(some, stream));
    EQUAL(standin_pool_reserved(0), 0);
    standin_set_other(0, 0);
    EQUAL(launch(NULL, stream), CUDA_ERROR_INVALID_HANDLE);
    EQUAL(cuLaunchKernel(some, 1, 1, 1, 2000, 1, 1, 0, stream, NULL, NULL),
          CUDA_ERROR_INVALID_VALUE);
}

/* What a launch of 16 KiB must have done; undone for the next form. */
static void grown(const char *form)
{
    if (standin_local_bytes(0) != LOCAL_BYTES(16384))
        check_fail(form, 0, "local memory", (long long)standin_local_bytes(0),
                   (long long)LOCAL_BYTES(16384));
    OK(cuCtxSetLimit(CU_LIMIT_STACK_SIZE, 1024));
    EQUAL(standin_local_bytes(0), 0);
}

typedef CUresult (*kernel_form)(CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned,
                                unsigned, unsigned, CUstream, void **, void **);
typedef CUresult (*cooperative_form)(CUfunction, unsigned, unsigned, unsigned, unsigned,
                                     unsigned, unsigned, unsigned, CUstream, void **);
typedef CUresult (*config_form)(const CUlaunchConfig *, CUfunction, void **, void **);

void check_launches(void)
{
    CUlaunchConfig config = {.gridDimX = 1,
                             .gridDimY = 1,
                             .gridDimZ = 1,
                             .blockDimX = 1,
                             .blockDimY = 1,
                             .blockDimZ = 1};
    CUDA_LAUNCH_PARAMS many;
    CUlibrary library;
    CUkernel kernel;
    CUfunction some;
    CUstream stream;
    check_begin();
    stream = check_stream();
    some = check_function(check_module(PTX_LOCAL), "some");
    OK(((kernel_form)dlsym(RTLD_DEFAULT, "cuLaunchKernel_ptsz"))(some, 1, 1, 1, 1, 1, 1, 0,
                                                                 NULL, NULL, NULL));
    grown("cuLaunchKernel_ptsz");
    OK(cuLaunchKernelEx(&config, some, NULL, NULL));
    grown("cuLaunchKernelEx");
    OK(((config_form)dlsym(RTLD_DEFAULT, "cuLaunchKernelEx_ptsz"))(&config, some, NULL, NULL));
    grown("cuLaunchKernelEx_ptsz");
    OK(cuLaunchCooperativeKernel(some, 1, 1, 1, 1, 1, 1, 0, stream, NULL));
    grown("cuLaunchCooperativeKernel");
    OK(((cooperative_form)dlsym(RTLD_DEFAULT, "cuLaunchCooperativeKernel_ptsz"))(
        some, 1, 1, 1, 1, 1, 1, 0, stream, NULL));
    grown("cuLaunchCooperativeKernel_ptsz");
    memset(&many, 0, sizeof(many));
    many.function = some;
    many.gridDimX = many.gridDimY = many.gridDimZ = 1;
    many.blockDimX = many.blockDimY = many.blockDimZ = 1;
    EQUAL(cuLaunchCooperativeKernelMultiDevice(&many, 1, 0), CUDA_ERROR_INVALID_VALUE);
    many.hStream = stream;
    OK(cuLaunchCooperativeKernelMultiDevice(&many, 1, 0));
    grown("cuLaunchCooperativeKernelMultiDevice");
    OK(cuFuncSetBlockShape(some, 8, 8, 1));
    OK(cuLaunch(some));
    grown("cuLaunch");
    OK(cuLaunchGrid(some, 2, 2));
    grown("cuLaunchGrid");
    OK(cuLaunchGridAsync(some, 2, 2, stream));
    grown("cuLaunchGridAsync");
    EQUAL(cuLaunchGrid(some, 0, 2), CUDA_ERROR_INVALID_VALUE);
    OK(cuLibraryLoadData(&library, PTX_LOCAL, NULL, NULL, 0, NULL, NULL, 0));
    OK(cuLibraryGetKernel(&kernel, library, "some"));
    OK(launch((CUfunction)kernel, stream));
    grown("cuLaunchKernel of a CUkernel");
}

void check_limits(void)
{
    static const char heap[] = PTX_HEAD
        ".extern .func (.param .b64 func_retval0) malloc (.param .b64 malloc_param_0);\n"
        ".extern .func (.param .b32 r) vprintf (.param .b64 a, .param .b64 b);\n"
        ".global .align 1 .b8 $str[3] = {104, 105, 0};\n"
        ".visible .entry plain() { ret; }\n"
        ".visible .entry takes() { call.uni (retval0), malloc, (param0); ret; }\n"
        ".visible .entry says() { call.uni (retval0), vprintf, (param0, param1); ret; }\n";
    CUcontext context;
    CUmodule module, again;
    CUfunction function, says;
    CUgraph graph;
    CUgraphExec exec;
    CUgraphNode node;
    CUDA_KERNEL_NODE_PARAMS params;
    const uint64_t calls = 138 * MIB, with_heap = calls + (100 + 2) * MIB;
    size_t value;
    check_begin();
    OK(cuCtxCreate(&context, NULL, 0, 0));
    OK(cuCtxSetLimit(CU_LIMIT_MALLOC_HEAP_SIZE, 100 * MIB));
    OK(cuCtxSetLimit(CU_LIMIT_PRINTF_FIFO_SIZE, 10 * MIB));
    EQUAL(standin_limit_bytes(0), 0);
    /* What calls need comes with the load; the heap with the first launch. */
    module = check_module(heap);
    EQUAL(standin_limit_bytes(0), calls);
    again = check_module(heap);
    OK(cuModuleUnload(again));
    EQUAL(standin_limit_bytes(0), calls);
    function = check_function(module, "takes");
    says = check_function(module, "says");
    OK(launch(check_function(module, "plain"), NULL));
    EQUAL(standin_limit_bytes(0), calls);
    OK(cuCtxSetLimit(CU_LIMIT_PRINTF_FIFO_SIZE, MIB));
    OK(launch(function, NULL));
    EQUAL(standin_limit_bytes(0), with_heap);
    OK(launch(function, NULL));
    EQUAL(standin_limit_bytes(0), with_heap);
    EQUAL(cuCtxSetLimit(CU_LIMIT_MALLOC_HEAP_SIZE, MIB), CUDA_ERROR_INVALID_VALUE);
    OK(cuCtxSetLimit(CU_LIMIT_PRINTF_FIFO_SIZE, 16 * MIB));
    OK(launch(says, NULL));
    EQUAL(cuCtxSetLimit(CU_LIMIT_PRINTF_FIFO_SIZE, MIB), CUDA_ERROR_INVALID_VALUE);
    OK(cuModuleUnload(module));
    EQUAL(standin_limit_bytes(0), with_heap);
    OK(cuCtxSetLimit(CU_LIMIT_DEV_RUNTIME_PENDING_LAUNCH_COUNT, 1000));
    OK(cuCtxGetLimit(&value, CU_LIMIT_DEV_RUNTIME_PENDING_LAUNCH_COUNT));
    EQUAL(value, 1000);
    EQUAL(cuCtxSetLimit(CU_LIMIT_DEV_RUNTIME_SYNC_DEPTH, 4), CUDA_ERROR_UNSUPPORTED_LIMIT);
    EQUAL(cuCtxGetLimit(&value, CU_LIMIT_DEV_RUNTIME_SYNC_DEPTH), CUDA_ERROR_UNSUPPORTED_LIMIT);
    OK(cuCtxGetLimit(&value, CU_LIMIT_PERSISTING_L2_CACHE_SIZE));
    EQUAL(value, 11796480);
    OK(cuCtxSetLimit(CU_LIMIT_PERSISTING_L2_CACHE_SIZE, 32 * MIB));
    OK(cuCtxSetLimit(CU_LIMIT_MAX_L2_FETCH_GRANULARITY, 1000));
    OK(cuCtxGetLimit(&value, CU_LIMIT_MAX_L2_FETCH_GRANULARITY));
    EQUAL(value, 128);
    EQUAL(cuCtxSetLimit(CU_LIMIT_SHMEM_SIZE, 1), CUDA_ERROR_NOT_PERMITTED);
    EQUAL(cuCtxSetLimit((CUlimit)99, 1), CUDA_ERROR_INVALID_VALUE);
    EQUAL(standin_limit_bytes(0), with_heap);
    OK(cuCtxDestroy(context));
    EQUAL(standin_live_bytes(0), standin_context_bytes(0));
    /* A heap that the card has no room for: the code that the manual names. */
    OK(cuCtxSetLimit(CU_LIMIT_MALLOC_HEAP_SIZE, 64 * GIB));
    module = check_module(heap);
    function = check_function(module, "takes");
    EQUAL(launch(function, NULL), CUDA_ERROR_SHARED_OBJECT_INIT_FAILED);
    EQUAL(standin_limit_bytes(0), calls);
    /* A graph's kernel brings it as well, when it becomes an executable. */
    OK(cuCtxSetLimit(CU_LIMIT_MALLOC_HEAP_SIZE, 100 * MIB));
    memset(&params, 0, sizeof(params));
    params.func = function;
    params.gridDimX = params.gridDimY = params.gridDimZ = 1;
    params.blockDimX = params.blockDimY = params.blockDimZ = 1;
    OK(cuGraphCreate(&graph, 0));
    OK(cuGraphAddKernelNode(&node, graph, NULL, 0, &params));
    OK(cuGraphInstantiate(&exec, graph, 0));
    EQUAL(standin_limit_bytes(0), with_heap);
    OK(cuGraphLaunch(exec, NULL));
    EQUAL(standin_limit_bytes(0), with_heap);
    /* No room for what calls need. */
    OK(cuCtxCreate(&context, NULL, 0, 0));
    standin_set_other(0, standin_free_bytes(0) - 100 * MIB);
    EQUAL(cuModuleLoadData(&again, heap), CUDA_ERROR_SHARED_OBJECT_INIT_FAILED);
    EQUAL(standin_limit_bytes(0), with_heap);
    EQUAL(standin_module_bytes(0), 2 * MIB);
}

#define STREAMS 256

void check_stream_memory(void)
{
    CUcontext context;
    CUstream stream[STREAMS], one = (CUstream)(uintptr_t)0x77;
    CUevent event;
    check_begin();
    OK(cuCtxCreate(&context, NULL, 0, 0));
    for (int i = 0; i < STREAMS; i++) {
        OK(i % 2 ? cuStreamCreate(&stream[i], CU_STREAM_NON_BLOCKING)
                 : cuStreamCreateWithPriority(&stream[i], 0, -1));
        if (i < 4)
            EQUAL(standin_stream_bytes(0), i ? 2 * MIB : 0);
        if (i == 63)
            EQUAL(standin_stream_bytes(0), 34 * MIB);
    }
    EQUAL(standin_stream_bytes(0), 140 * MIB); /* as measured */
    for (int i = 0; i < 20000; i++)
        OK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    EQUAL(standin_live_bytes(0), standin_context_bytes(0) + 140 * MIB);
    /* Those that are gone serve later ones. */
    for (int i = 0; i < STREAMS; i++)
        OK(cuStreamDestroy(stream[i]));
    for (int i = 0; i < STREAMS; i++)
        stream[i] = check_stream();
    EQUAL(standin_stream_bytes(0), 140 * MIB);
    standin_set_other(0, standin_free_bytes(0));
    for (int i = 0; i < 3; i++) /* the last step has room for a few more */
        if (cuStreamCreate(&one, 0) == CUDA_ERROR_OUT_OF_MEMORY)
            break;
    one = (CUstream)(uintptr_t)0x77;
    EQUAL(cuStreamCreate(&one, 0), CUDA_ERROR_OUT_OF_MEMORY);
    CHECK(one == (CUstream)(uintptr_t)0x77);
    standin_set_other(0, 0);
    OK(cuCtxDestroy(context));
    EQUAL(standin_live_bytes(0), standin_context_bytes(0));
}

void check_green(void)
{
    CUdevResource all, part[2], rest, seen;
    CUdevResourceDesc desc;
    CUgreenCtx green, again;
    CUcontext context, current, of_stream;
    CUstream stream, made;
    CUdeviceptr block;
    CUdevice device = -1;
    unsigned groups = 2;
    unsigned long long id = 0;
    int active;
    unsigned flags;
    uint64_t one;
    OK(cuInit(0));
    OK(cuDeviceGetDevResource(0, &all, CU_DEV_RESOURCE_TYPE_SM));
    EQUAL(all.sm.smCount, 132);
    OK(cuDevSmResourceSplitByCount(part, &groups, &all, &rest, 0, 60));
    EQUAL(groups, 2);
    EQUAL(part[1].sm.smCount, 64);
    EQUAL(rest.sm.smCount, 4);
    OK(cuDevResourceGenerateDesc(&desc, part, 1));
    EQUAL(cuGreenCtxCreate(&green, desc, 0, 0), CUDA_ERROR_INVALID_VALUE);
    /* It brings the primary context with it. */
    OK(cuGreenCtxCreate(&green, desc, 0, CU_GREEN_CTX_DEFAULT_STREAM));
    EQUAL(standin_green_bytes(0), 6 * MIB);
    one = standin_context_bytes(0);
    CHECK(one > 0);
    OK(cuCtxGetCurrent(&current));
    CHECK(current == NULL);
    OK(cuDevicePrimaryCtxRetain(&of_stream, 0));
    OK(cuCtxFromGreenCtx(&context, green));
    OK(cuCtxSetCurrent(context));
    OK(cuCtxGetCurrent(&current));
    CHECK(current == context);
    OK(cuCtxGetDevice(&device));
    EQUAL(device, 0);
    OK(cuCtxGetDevResource(context, &seen, CU_DEV_RESOURCE_TYPE_SM));
    EQUAL(seen.sm.smCount, 64);
    EQUAL(cuCtxDestroy(context), CUDA_ERROR_INVALID_CONTEXT);
    OK(cuMemAlloc(&block, 4 * MIB));
    EQUAL(standin_direct_bytes(0), 4 * MIB);
    OK(cuGreenCtxStreamCreate(&stream, green, CU_STREAM_NON_BLOCKING, 0));
    OK(cuStreamCreate(&made, 0));
    OK(cuStreamGetGreenCtx(stream, &again));
    CHECK(again == green);
    OK(cuStreamGetCtx_v2(made, &of_stream, &again));
    CHECK(again == green && of_stream == context);
    OK(cuGreenCtxGetId(green, &id));
    CHECK(id != 0);
    /* A second one; without room for it nothing is left behind. */
    standin_set_other(0, standin_free_bytes(0));
    EQUAL(cuGreenCtxCreate(&again, desc, 0, CU_GREEN_CTX_DEFAULT_STREAM),
          CUDA_ERROR_OUT_OF_MEMORY);
    standin_set_other(0, 0);
    OK(cuGreenCtxCreate(&again, desc, 0, CU_GREEN_CTX_DEFAULT_STREAM));
    EQUAL(standin_context_bytes(0), one);
    EQUAL(standin_green_bytes(0), 10 * MIB);
    OK(cuGreenCtxDestroy(again));
    OK(cuStreamDestroy(made));
    OK(cuMemFree(block));
    OK(cuGreenCtxDestroy(green));
    EQUAL(cuGreenCtxDestroy(green), CUDA_ERROR_INVALID_CONTEXT);
    EQUAL(cuStreamDestroy(stream), CUDA_ERROR_CONTEXT_IS_DESTROYED);
    EQUAL(cuMemAlloc(&block, MIB), CUDA_ERROR_CONTEXT_IS_DESTROYED);
    /* What they took stays with the primary context. */
    EQUAL(standin_live_bytes(0), one + 10 * MIB + standin_stream_bytes(0));
    OK(cuDevicePrimaryCtxRelease(0));
    OK(cuDevicePrimaryCtxGetState(0, &flags, &active));
    EQUAL(active, 0);
    EQUAL(standin_live_bytes(0), 0);
}
