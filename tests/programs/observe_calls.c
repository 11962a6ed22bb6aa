/* Code that calls functions of the device's own: what it brings, and whether that depends on
 * the limits. */
#include "observe_code.h"

#define HEAD ".version 6.0\n.target sm_50\n.address_size 64\n"

static const char mallocs[] =
    HEAD ".extern .func (.param .b64 func_retval0) malloc (.param .b64 malloc_param_0);\n"
         ".visible .entry takes()\n{\n\t.reg .b64 %rd<3>;\n\tmov.u64 %rd1, 16;\n\t{\n"
         "\t.param .b64 param0;\n\tst.param.b64 [param0+0], %rd1;\n\t.param .b64 retval0;\n"
         "\tcall.uni (retval0), malloc, (param0);\n\tld.param.b64 %rd2, [retval0+0];\n\t}\n"
         "\tret;\n}\n";

/* An empty text, so that nothing of it is among our output. */
static const char prints[] =
    HEAD ".extern .func (.param .b32 func_retval0) vprintf (.param .b64 vprintf_param_0, "
         ".param .b64 vprintf_param_1);\n"
         ".global .align 1 .b8 $str[1];\n"
         ".visible .entry says()\n{\n\t.reg .b64 %rd<4>;\n\t.reg .b32 %r<2>;\n"
         "\tmov.u64 %rd1, $str;\n\tcvta.global.u64 %rd2, %rd1;\n\tmov.u64 %rd3, 0;\n\t{\n"
         "\t.param .b64 param0;\n\tst.param.b64 [param0+0], %rd2;\n\t.param .b64 param1;\n"
         "\tst.param.b64 [param1+0], %rd3;\n\t.param .b32 retval0;\n"
         "\tcall.uni (retval0), vprintf, (param0, param1);\n"
         "\tld.param.b32 %r1, [retval0+0];\n\t}\n\tret;\n}\n";

#define CHANGE(name) observe_size((uint64_t)observe_change(before), name)

static CUresult run(CUfunction function)
{
    CUresult code = cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL);
    return code ? code : cuCtxSynchronize();
}

void observe_calls_malloc(void)
{
    CUcontext second = NULL;
    CUmodule module = NULL, again = NULL;
    uint64_t before;
    observe_begin();
    before = observe_process_bytes();
    observe_code(cuModuleLoadData(&module, mallocs), "calls_malloc.load");
    CHANGE("calls_malloc.load");
    observe_code(cuModuleLoadData(&again, mallocs), "calls_malloc.load_again");
    CHANGE("calls_malloc.load_again");
    cuModuleUnload(again);
    observe_code(cuModuleUnload(module), "calls_malloc.unload");
    CHANGE("calls_malloc.unload");
    cuModuleLoadData(&module, mallocs);
    CHANGE("calls_malloc.load_after");
    observe_code(run(observe_function(module, "takes")), "calls_malloc.launch");
    CHANGE("calls_malloc.launch");
    observe_code(run(observe_function(module, "takes")), "calls_malloc.launch_again");
    CHANGE("calls_malloc.launch_again");
    /* Another context has them anew. */
    observe_context_create(&second, 0, 0);
    before = observe_process_bytes();
    cuModuleLoadData(&module, mallocs);
    CHANGE("calls_malloc.second_context");
}

void observe_calls_printf(void)
{
    CUmodule module = NULL;
    uint64_t before;
    observe_begin();
    before = observe_process_bytes();
    observe_code(cuCtxSetLimit(CU_LIMIT_PRINTF_FIFO_SIZE, 64 * MIB), "calls_printf.limit");
    observe_code(cuModuleLoadData(&module, prints), "calls_printf.load");
    CHANGE("calls_printf.load");
    observe_code(cuCtxSetLimit(CU_LIMIT_PRINTF_FIFO_SIZE, 256 * MIB),
                 "calls_printf.limit_after_load");
    CHANGE("calls_printf.limit_after_load");
    observe_code(run(observe_function(module, "says")), "calls_printf.launch");
    CHANGE("calls_printf.launch");
    observe_code(cuCtxSetLimit(CU_LIMIT_PRINTF_FIFO_SIZE, 64 * MIB),
                 "calls_printf.limit_after_launch");
    CHANGE("calls_printf.limit_after_launch");
}

/* Is it local memory that comes with the load? */
void observe_calls_stack(void)
{
    CUmodule module = NULL;
    uint64_t before;
    observe_begin();
    cuCtxSetLimit(CU_LIMIT_STACK_SIZE, 8192);
    before = observe_process_bytes();
    observe_code(cuModuleLoadData(&module, mallocs), "calls_stack.load");
    CHANGE("calls_stack.load");
    observe_code(cuCtxSetLimit(CU_LIMIT_STACK_SIZE, 1024), "calls_stack.set_default");
    CHANGE("calls_stack.set_default");
}
