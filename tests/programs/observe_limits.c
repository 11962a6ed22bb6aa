/* Limits, streams and green contexts: what they take of the card, and when. */
#include "observe_code.h"

#include <stdlib.h>
#include <string.h>

/* `takes` calls malloc, `says` prints, `plain` does neither. */
const char observe_heap[] =
    ".version 6.0\n.target sm_50\n.address_size 64\n"
    ".extern .func (.param .b64 func_retval0) malloc (.param .b64 malloc_param_0);\n"
    ".extern .func (.param .b32 func_retval0) vprintf (.param .b64 vprintf_param_0, "
    ".param .b64 vprintf_param_1);\n"
    ".global .align 1 .b8 $str[3] = {104, 10, 0};\n"
    ".visible .entry plain()\n{\n\tret;\n}\n"
    ".visible .entry takes()\n{\n\t.reg .b64 %rd<3>;\n\tmov.u64 %rd1, 16;\n\t{\n"
    "\t.param .b64 param0;\n\tst.param.b64 [param0+0], %rd1;\n\t.param .b64 retval0;\n"
    "\tcall.uni (retval0), malloc, (param0);\n\tld.param.b64 %rd2, [retval0+0];\n\t}\n"
    "\tret;\n}\n"
    ".visible .entry says()\n{\n\t.reg .b64 %rd<4>;\n\t.reg .b32 %r<2>;\n"
    "\tmov.u64 %rd1, $str;\n\tcvta.global.u64 %rd2, %rd1;\n\tmov.u64 %rd3, 0;\n\t{\n"
    "\t.param .b64 param0;\n\tst.param.b64 [param0+0], %rd2;\n\t.param .b64 param1;\n"
    "\tst.param.b64 [param1+0], %rd3;\n\t.param .b32 retval0;\n"
    "\tcall.uni (retval0), vprintf, (param0, param1);\n\tld.param.b32 %r1, [retval0+0];\n"
    "\t}\n\tret;\n}\n";

#define CHANGE(name) observe_size((uint64_t)observe_change(before), name)

static uint64_t limit_of(CUlimit limit)
{
    size_t value = 0;
    return cuCtxGetLimit(&value, limit) ? (uint64_t)-1 : value;
}

static CUresult run(CUfunction function)
{
    CUresult code = cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL);
    return code ? code : cuCtxSynchronize();
}

void observe_limits(void)
{
    CUmodule module = NULL;
    CUfunction takes, says;
    uint64_t before;
    observe_begin();
    observe_size(limit_of(CU_LIMIT_PRINTF_FIFO_SIZE), "limit.printf_default");
    observe_size(limit_of(CU_LIMIT_MALLOC_HEAP_SIZE), "limit.heap_default");
    observe_size(limit_of(CU_LIMIT_DEV_RUNTIME_PENDING_LAUNCH_COUNT), "limit.pending_default");
    observe_size(limit_of(CU_LIMIT_DEV_RUNTIME_SYNC_DEPTH), "limit.depth_default");
    observe_size(limit_of(CU_LIMIT_MAX_L2_FETCH_GRANULARITY), "limit.l2_fetch_default");
    observe_size(limit_of(CU_LIMIT_PERSISTING_L2_CACHE_SIZE), "limit.l2_default");
    before = observe_process_bytes();
    observe_code(cuCtxSetLimit(CU_LIMIT_MALLOC_HEAP_SIZE, 512 * MIB), "limit.heap");
    observe_code(cuCtxSetLimit(CU_LIMIT_PRINTF_FIFO_SIZE, 64 * MIB), "limit.printf");
    CHANGE("limit.set");
    observe_code(cuModuleLoadData(&module, observe_heap), "limit.load");
    CHANGE("limit.load");
    observe_code(run(observe_function(module, "plain")), "limit.plain");
    CHANGE("limit.plain");
    takes = observe_function(module, "takes");
    CHANGE("limit.takes_function");
    observe_code(run(takes), "limit.takes");
    CHANGE("limit.takes");
    says = observe_function(module, "says");
    CHANGE("limit.says_function");
    /* It is not run: its output would be among ours. */
    observe_fact(says != NULL, "limit.says");
    observe_code(cuCtxSetLimit(CU_LIMIT_MALLOC_HEAP_SIZE, 16 * MIB), "limit.heap_after");
    observe_code(cuCtxSetLimit(CU_LIMIT_PRINTF_FIFO_SIZE, 16 * MIB), "limit.printf_after");
    observe_code(cuModuleUnload(module), "limit.unload");
    CHANGE("limit.unload");
    before = observe_process_bytes();
    observe_code(cuCtxSetLimit(CU_LIMIT_DEV_RUNTIME_PENDING_LAUNCH_COUNT, 65536),
                 "limit.pending");
    CHANGE("limit.pending");
    observe_code(cuCtxSetLimit(CU_LIMIT_DEV_RUNTIME_PENDING_LAUNCH_COUNT, 2048),
                 "limit.pending_back");
    CHANGE("limit.pending_back");
    before = observe_process_bytes();
    observe_code(cuCtxSetLimit(CU_LIMIT_DEV_RUNTIME_SYNC_DEPTH, 4), "limit.depth");
    observe_code(cuCtxSetLimit(CU_LIMIT_MAX_L2_FETCH_GRANULARITY, 128), "limit.l2_fetch");
    observe_code(cuCtxSetLimit(CU_LIMIT_PERSISTING_L2_CACHE_SIZE, 16 * MIB), "limit.l2");
    observe_code(cuCtxSetLimit(CU_LIMIT_SHMEM_SIZE, MIB), "limit.shmem");
    observe_code(cuCtxSetLimit((CUlimit)99, 1), "limit.unknown");
    CHANGE("limit.others");
}

void observe_streams(void)
{
    static CUstream stream[256];
    CUcontext context = NULL;
    CUevent event = NULL;
    uint64_t before;
    int made = 0;
    observe_primary();
    observe_context_create(&context, 0, 0);
    before = observe_process_bytes();
    for (int wanted = 1; wanted <= 256; wanted *= 2) {
        while (made < wanted && !cuStreamCreate(&stream[made], CU_STREAM_NON_BLOCKING))
            made++;
        observe_size((uint64_t)observe_change(before), "streams.%d", wanted);
    }
    for (int i = 0; i < 1000; i++)
        cuEventCreate(&event, CU_EVENT_DISABLE_TIMING);
    CHANGE("streams.1000_events");
    for (int i = 0; i < made; i++)
        cuStreamDestroy(stream[i]);
    CHANGE("streams.destroyed");
    for (int i = 0; i < made; i++)
        cuStreamCreateWithPriority(&stream[i], CU_STREAM_NON_BLOCKING, -1);
    CHANGE("streams.made_again");
    cuCtxDestroy(context);
    observe_size((uint64_t)(observe_change(before) < 0), "streams.context_gone");
}

void observe_green(void)
{
    CUdevResource all, part, rest;
    CUdevResourceDesc desc = NULL;
    CUgreenCtx green = NULL, second = NULL;
    CUcontext context = NULL, current = NULL;
    CUstream stream = NULL;
    CUdeviceptr block = 0;
    unsigned groups = 1;
    uint64_t before;
    observe_begin();
    observe_code(CALL(cuDeviceGetDevResource, 0, &all, CU_DEV_RESOURCE_TYPE_SM),
                 "green.resource");
    observe_code(CALL(cuDevSmResourceSplitByCount, &part, &groups, &all, &rest, 0, 16),
                 "green.split");
    observe_code(CALL(cuDevResourceGenerateDesc, &desc, &part, 1), "green.desc");
    before = observe_process_bytes();
    observe_code(CALL(cuGreenCtxCreate, &green, desc, 0, 0), "green.create_no_flags");
    observe_code(CALL(cuGreenCtxCreate, &green, desc, 0, CU_GREEN_CTX_DEFAULT_STREAM),
                 "green.create");
    CHANGE("green.create");
    observe_code(CALL(cuGreenCtxCreate, &second, desc, 0, CU_GREEN_CTX_DEFAULT_STREAM),
                 "green.create_second");
    CHANGE("green.create_second");
    if (!green)
        return;
    observe_code(CALL(cuCtxFromGreenCtx, &context, green), "green.context");
    observe_code(cuCtxSetCurrent(context), "green.set_current");
    cuCtxGetCurrent(&current);
    observe_fact(current == context, "green.is_current");
    observe_code(CALL(cuGreenCtxStreamCreate, &stream, green, CU_STREAM_NON_BLOCKING, 0),
                 "green.stream");
    CHANGE("green.stream");
    observe_code(cuMemAlloc(&block, 4 * MIB), "green.alloc");
    CHANGE("green.alloc");
    observe_code(cuStreamDestroy(stream), "green.stream_destroy");
    cuCtxSetCurrent(observe_primary());
    observe_code(cuMemFree(block), "green.free_in_primary");
    observe_code(CALL(cuGreenCtxDestroy, green), "green.destroy");
    CHANGE("green.destroy");
    observe_code(CALL(cuGreenCtxDestroy, second), "green.destroy_second");
    CHANGE("green.destroy_second");
}
