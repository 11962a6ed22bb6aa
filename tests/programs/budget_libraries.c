/*
 * budget_libraries.c: the variables of a library are asked for before its first use in a
 * context, and a device heap that was made larger before the launch that needs it.
 *
 *     budget_libraries ROUNDS
 *
 * Runs with a limit of 1 GiB, beyond the context in footprint mode.
 */
#define _GNU_SOURCE
#include "budget_program.h"

#include <unistd.h>

#define HEAD           ".version 6.3\n.target sm_75\n.address_size 64\n"
#define KERNEL         ".visible .entry k()\n{\n\tret;\n}\n"
#define VARIABLE_BYTES (128 * MIB)

static const char big[] = HEAD ".visible .global .align 4 .b8 big[134217728];\n" KERNEL;
static const char heap[] = HEAD
    ".extern .func (.param .b64 func_retval0) malloc (.param .b64 malloc_param_0);\n" KERNEL
    ".visible .entry takes()\n{\n\t.reg .b64 %rd<3>;\n\tmov.u64 %rd1, 16;\n\t{\n"
    "\t.param .b64 param0;\n\tst.param.b64 [param0+0], %rd1;\n\t.param .b64 retval0;\n"
    "\tcall.uni (retval0), malloc, (param0);\n\tld.param.b64 %rd2, [retval0+0];\n\t}\n"
    "\tret;\n}\n";

static CUcontext context;
static bool requested;

static CUlibrary load(const char *image)
{
    CUlibrary library = NULL;

    MUST(cuLibraryLoadData(&library, image, NULL, NULL, 0, NULL, NULL, 0));
    return library;
}

static CUkernel kernel_of(CUlibrary library)
{
    CUkernel kernel = NULL;

    MUST(cuLibraryGetKernel(&kernel, library, "k"));
    return kernel;
}

static CUresult launch(const void *kernel)
{
    CUresult code =
        cuLaunchKernel((CUfunction)(uintptr_t)kernel, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL);

    return code ? code : cuCtxSynchronize();
}

/* Less than a library's variables is left. */
static CUdeviceptr fill(void)
{
    CUdeviceptr filler = 0;

    MUST(cuMemAlloc_v2(&filler, 900 * MIB));
    return filler;
}

static CUdeviceptr filled[64];
static int filled_count;

static void fill_up(void)
{
    for (size_t bytes = 64 * MIB; bytes >= 2 * MIB; bytes /= 2)
        while (cuMemAlloc_v2(&filled[filled_count], bytes) == CUDA_SUCCESS)
            filled_count++;
}

static void empty(void)
{
    while (filled_count > 0)
        MUST(cuMemFree_v2(filled[--filled_count]));
}

/* ---- every use ---- */

static CUresult by_global(CUlibrary library)
{
    CUdeviceptr pointer = SENTINEL;
    size_t bytes = 77;
    CUresult code = cuLibraryGetGlobal(&pointer, &bytes, library, "big");

    EXPECT((code == CUDA_SUCCESS) == (pointer != SENTINEL));
    EXPECT_EQUAL(bytes, code ? 77 : VARIABLE_BYTES);
    return code;
}

static CUresult by_module(CUlibrary library)
{
    CUmodule module;

    return cuLibraryGetModule(&module, library);
}

static CUresult by_function(CUlibrary library)
{
    CUfunction function;

    return cuKernelGetFunction(&function, kernel_of(library));
}

static CUresult by_launch(CUlibrary library)
{
    return launch(kernel_of(library));
}

static CUresult by_launch_ex(CUlibrary library)
{
    CUlaunchConfig config = {1, 1, 1, 1, 1, 1, 0, NULL, NULL, 0};

    return cuLaunchKernelEx(&config, (CUfunction)(void *)kernel_of(library), NULL, NULL);
}

static CUresult by_attribute(CUlibrary library)
{
    return cuKernelSetAttribute(CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT, 50,
                                kernel_of(library), 0);
}

static CUresult by_node(CUlibrary library, bool generic)
{
    CUDA_KERNEL_NODE_PARAMS_v2 params;
    CUgraphNodeParams any;
    CUgraphNode node;
    CUgraph graph;
    CUresult code;

    memset(&params, 0, sizeof(params));
    params.kern = kernel_of(library);
    params.gridDimX = params.gridDimY = params.gridDimZ = 1;
    params.blockDimX = params.blockDimY = params.blockDimZ = 1;
    MUST(cuGraphCreate(&graph, 0));
    if (generic) {
        memset(&any, 0, sizeof(any));
        any.type = CU_GRAPH_NODE_TYPE_KERNEL;
        any.kernel.kern = params.kern;
        any.kernel.gridDimX = any.kernel.gridDimY = any.kernel.gridDimZ = 1;
        any.kernel.blockDimX = any.kernel.blockDimY = any.kernel.blockDimZ = 1;
        code = cuGraphAddNode_v2(&node, graph, NULL, NULL, 0, &any);
    } else {
        code = cuGraphAddKernelNode_v2(&node, graph, NULL, 0, &params);
    }
    MUST(cuGraphDestroy(graph));
    return code;
}

static CUresult by_kernel_node(CUlibrary library)
{
    return by_node(library, false);
}

static CUresult by_any_node(CUlibrary library)
{
    return by_node(library, true);
}

static CUresult by_capture(CUlibrary library)
{
    CUkernel kernel = kernel_of(library);
    CUgraph graph = NULL;
    CUstream stream;
    CUresult code;

    MUST(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    MUST(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    code = cuLaunchKernel((CUfunction)(void *)kernel, 1, 1, 1, 1, 1, 1, 0, stream, NULL, NULL);
    /* A refusal is no error of the capture. */
    EXPECT_OK(cuStreamEndCapture(stream, &graph));
    MUST(cuGraphDestroy(graph));
    MUST(cuStreamDestroy_v2(stream));
    return code;
}

static const struct {
    const char *name;
    CUresult (*use)(CUlibrary library);
} uses[] = {
    {"get-global", by_global},       {"get-module", by_module},   {"get-function", by_function},
    {"launch", by_launch},           {"launch-ex", by_launch_ex}, {"attribute", by_attribute},
    {"kernel-node", by_kernel_node}, {"any-node", by_any_node},   {"capture", by_capture},
};

/* Refused while it does not fit, with nothing taken; then granted, once, and charged. */
static void every_use(void)
{
    for (size_t i = 0; i < sizeof(uses) / sizeof(uses[0]); i++) {
        uint64_t used, live;
        CUdeviceptr filler;
        CUlibrary library;
        CUresult code;

        case_begin("library-use-%s", uses[i].name);
        library = load(big);
        filler = fill();
        used = info_used();
        live = sim.live_bytes(0);
        if (requested) {
            EXPECT_OK(uses[i].use(library));
            EXPECT_EQUAL(info_used(), used);
        } else {
            code = uses[i].use(library);
            if (code == CUDA_ERROR_NOT_SUPPORTED || code == CUDA_ERROR_NOT_FOUND) {
                case_skipped("not in this driver");
                MUST(cuMemFree_v2(filler));
                MUST(cuLibraryUnload(library));
                continue;
            }
            EXPECT_EQUAL(code, CUDA_ERROR_OUT_OF_MEMORY);
            EXPECT_EQUAL(sim.live_bytes(0), live);
            EXPECT_EQUAL(info_used(), used);
        }
        MUST(cuMemFree_v2(filler));
        used = info_used();
        live = sim.live_bytes(0);
        EXPECT_OK(uses[i].use(library));
        EXPECT_OK(uses[i].use(library));
        EXPECT(requested || sim.live_bytes(0) >= live + VARIABLE_BYTES);
        if (!requested)
            EXPECT_EQUAL(info_used() - used, sim.live_bytes(0) - live);
        /* It is here: full as the budget may be, it is used on. */
        fill_up();
        EXPECT_OK(uses[i].use(library));
        empty();
        MUST(cuLibraryUnload(library));
        case_end();
    }
}

/* With no context current there is nothing to look at, at the load; at the use there is. */
static void loaded_late(void)
{
    CUdeviceptr filler, pointer = SENTINEL;
    uint64_t used, live;
    CUlibrary library;

    case_begin("library-loaded-with-no-context");
    MUST(cuCtxSetCurrent(NULL));
    library = load(big);
    MUST(cuCtxSetCurrent(context));
    filler = fill();
    used = info_used();
    live = sim.live_bytes(0);
    EXPECT_CODE(cuLibraryGetGlobal(&pointer, NULL, library, "big"), CUDA_ERROR_OUT_OF_MEMORY);
    EXPECT(pointer == SENTINEL);
    EXPECT_EQUAL(sim.live_bytes(0), live);
    EXPECT_EQUAL(info_used(), used);
    MUST(cuMemFree_v2(filler));
    EXPECT_OK(cuLibraryGetGlobal(&pointer, NULL, library, "big"));
    MUST(cuLibraryUnload(library));
    case_end();
}

/* By file as by image. */
static void loaded_from_file(void)
{
    char path[] = "/tmp/budget_libraries_XXXXXX";
    CUlibrary library = NULL;
    int file = mkstemp(path);
    CUdeviceptr filler;
    CUresult code;

    case_begin("library-from-file");
    EXPECT(file >= 0 && write(file, big, sizeof(big) - 1) == (ssize_t)sizeof(big) - 1);
    code = cuLibraryLoadFromFile(&library, path, NULL, NULL, 0, NULL, NULL, 0);
    close(file);
    unlink(path);
    if (code == CUDA_ERROR_NOT_SUPPORTED) {
        case_skipped("not in this driver");
        return;
    }
    EXPECT_OK(code);
    filler = fill();
    EXPECT_CODE(by_global(library), CUDA_ERROR_OUT_OF_MEMORY);
    MUST(cuMemFree_v2(filler));
    EXPECT_OK(by_global(library));
    MUST(cuLibraryUnload(library));
    case_end();
}

/* A kernel that is launched freely in one context brings its variables to the next one. */
static void every_context(void)
{
    const size_t context_bytes = sim.context_bytes(0);
    CUlibrary library = load(big);
    CUkernel kernel = kernel_of(library);
    CUcontext second;
    uint64_t used, live;
    CUdeviceptr filler;

    case_begin("library-in-every-context");
    EXPECT_OK(launch(kernel));
    EXPECT_OK(launch(kernel));
    live = sim.live_bytes(0);
    used = info_used();
    MUST(cuCtxCreate_v2(&second, 0, 0));
    MUST(cuMemAlloc_v2(&filler, GIB - VARIABLE_BYTES - context_bytes - 64 * MIB));
    EXPECT_CODE(launch(kernel), CUDA_ERROR_OUT_OF_MEMORY);
    MUST(cuMemFree_v2(filler));
    EXPECT_OK(cuCtxDestroy_v2(second));
    MUST(cuCtxSetCurrent(context));
    EXPECT_EQUAL(sim.live_bytes(0), live);
    EXPECT_EQUAL(info_used(), used);
    /* A context with the handle of the one that ended knows nothing of what came to that. */
    for (int i = 0; i < 3; i++) {
        uint64_t before;

        MUST(cuCtxCreate_v2(&second, 0, 0));
        before = sim.live_bytes(0);
        EXPECT_OK(launch(kernel));
        EXPECT(sim.live_bytes(0) >= before + VARIABLE_BYTES);
        EXPECT_EQUAL(info_used() - used, sim.live_bytes(0) - live);
        EXPECT_OK(cuCtxDestroy_v2(second));
        MUST(cuCtxSetCurrent(context));
        EXPECT_EQUAL(info_used(), used);
    }
    EXPECT_OK(launch(kernel));
    MUST(cuLibraryUnload(library));
    case_end();
}

/* Its handle may come back for another one. */
static void unloaded(void)
{
    uint64_t used = info_used();

    case_begin("library-unloaded");
    for (int i = 0; i < 50; i++) {
        CUlibrary library = load(i % 3 ? big : HEAD KERNEL);

        EXPECT_OK(launch(kernel_of(library)));
        EXPECT(i % 3 ? info_used() >= used + VARIABLE_BYTES : info_used() < used + 8 * MIB);
        EXPECT_OK(cuLibraryUnload(library));
    }
    EXPECT(cuLibraryUnload((CUlibrary)(uintptr_t)SENTINEL) != CUDA_SUCCESS);
    EXPECT_EQUAL(info_used(), used);
    case_end();
}

enum { WORKERS = 4 };

static CUlibrary shared;
static pthread_barrier_t barrier;

static void *use_at_once(void *arg)
{
    MUST(cuCtxSetCurrent(context));
    pthread_barrier_wait(&barrier);
    EXPECT_OK(launch(arg));
    return NULL;
}

/* Of threads that use it first at the same time one brings it; it fits once, and that is
 * enough.
 */
static void at_once(unsigned long rounds)
{
    uint64_t used = info_used();
    CUdeviceptr filler;

    case_begin("library-used-at-once");
    /* Room for one and a half. */
    MUST(cuMemAlloc_v2(&filler, GIB - VARIABLE_BYTES * 3 / 2));
    pthread_barrier_init(&barrier, NULL, WORKERS);
    for (unsigned long i = 0; i < rounds && !budget_cases.why[0]; i++) {
        pthread_t threads[WORKERS];
        CUkernel kernel;

        shared = load(big);
        kernel = kernel_of(shared);
        for (int j = 0; j < WORKERS; j++)
            pthread_create(&threads[j], NULL, use_at_once, kernel);
        for (int j = 0; j < WORKERS; j++)
            pthread_join(threads[j], NULL);
        MUST(cuLibraryUnload(shared));
    }
    pthread_barrier_destroy(&barrier);
    MUST(cuMemFree_v2(filler));
    EXPECT_EQUAL(info_used(), used);
    case_end();
}

/* ---- the device heap, of which there is one for each context ---- */

static CUcontext new_context(size_t heap_bytes)
{
    CUcontext made;

    MUST(cuCtxCreate_v2(&made, 0, 0));
    if (heap_bytes > 0)
        MUST(cuCtxSetLimit(CU_LIMIT_MALLOC_HEAP_SIZE, heap_bytes));
    return made;
}

static CUfunction function_of(CUmodule module, const char *name)
{
    CUfunction function = NULL;

    MUST(cuModuleGetFunction(&function, module, name));
    return function;
}

static void end_context(CUcontext made)
{
    MUST(cuCtxDestroy_v2(made));
    MUST(cuCtxSetCurrent(context));
}

static void heap_of_usual_size(void)
{
    CUcontext made = new_context(0);
    CUmodule module;

    case_begin("heap-of-usual-size");
    MUST(cuModuleLoadData(&module, heap));
    fill_up();
    /* What every context starts with comes like code does. */
    EXPECT_OK(launch(function_of(module, "k")));
    EXPECT_OK(launch(function_of(module, "takes")));
    empty();
    end_context(made);
    case_end();
}

static void heap_made_larger(void)
{
    const size_t heap_bytes = 200 * MIB;
    CUcontext made = new_context(heap_bytes);
    CUfunction takes, plain;
    uint64_t used, live;
    CUmodule module;

    case_begin("heap-made-larger");
    MUST(cuModuleLoadData(&module, heap));
    takes = function_of(module, "takes");
    plain = function_of(module, "k");
    fill_up();
    live = sim.live_bytes(0);
    used = info_used();
    EXPECT_CODE(launch(takes), CUDA_ERROR_OUT_OF_MEMORY);
    EXPECT_EQUAL(sim.live_bytes(0), live);
    EXPECT_EQUAL(info_used(), used);
    empty();
    live = sim.live_bytes(0);
    used = info_used();
    EXPECT_OK(launch(plain));
    EXPECT(sim.live_bytes(0) < live + heap_bytes);
    EXPECT_OK(launch(takes));
    EXPECT(sim.live_bytes(0) >= live + heap_bytes);
    EXPECT_EQUAL(info_used() - used, sim.live_bytes(0) - live);
    /* It is here: the budget may be full. */
    fill_up();
    EXPECT_OK(launch(takes));
    EXPECT_OK(launch(function_of(module, "takes")));
    empty();
    end_context(made);
    case_end();
}

enum place { PLAIN, BODY, CHILD_OF_BODY };

/* NULL: out of memory. */
static CUgraphExec graph_with(CUfunction function, enum place place)
{
    CUgraphConditionalHandle handle;
    CUcontext current;
    CUDA_KERNEL_NODE_PARAMS_v2 params;
    CUgraphNodeParams conditional;
    CUgraphExec executable = NULL;
    CUgraphNode node;
    CUgraph graph, to, child;

    memset(&params, 0, sizeof(params));
    params.func = function;
    params.gridDimX = params.gridDimY = params.gridDimZ = 1;
    params.blockDimX = params.blockDimY = params.blockDimZ = 1;
    MUST(cuGraphCreate(&graph, 0));
    MUST(cuGraphCreate(&child, 0));
    /* Before there is any body that it could be in. */
    if (place == CHILD_OF_BODY)
        MUST(cuGraphAddKernelNode_v2(&node, child, NULL, 0, &params));
    to = graph;
    if (place != PLAIN) {
        memset(&conditional, 0, sizeof(conditional));
        MUST(cuCtxGetCurrent(&current));
        MUST(cuGraphConditionalHandleCreate(&handle, graph, current, 1,
                                            CU_GRAPH_COND_ASSIGN_DEFAULT));
        conditional.type = CU_GRAPH_NODE_TYPE_CONDITIONAL;
        conditional.conditional.handle = handle;
        conditional.conditional.type = CU_GRAPH_COND_TYPE_IF;
        conditional.conditional.size = 1;
        MUST(cuGraphAddNode_v2(&node, graph, NULL, NULL, 0, &conditional));
        to = conditional.conditional.phGraph_out[0];
    }
    if (place == CHILD_OF_BODY)
        MUST(cuGraphAddChildGraphNode(&node, to, NULL, 0, child));
    else
        MUST(cuGraphAddKernelNode_v2(&node, to, NULL, 0, &params));
    if (cuGraphInstantiateWithFlags(&executable, graph, 0) != CUDA_SUCCESS)
        executable = NULL;
    MUST(cuGraphDestroy(graph));
    MUST(cuGraphDestroy(child));
    return executable;
}

static void graphs(void)
{
    static const char frame[] = HEAD ".visible .entry deep()\n{\n"
                                     "\t.local .align 16 .b8 depot[2048];\n\tret;\n}\n"
                                     ".visible .entry deeper()\n{\n"
                                     "\t.local .align 16 .b8 depot[2176];\n\tret;\n}\n";
    /* What a body may need is asked for by all later ones: so each needs more than the last. */
    static const struct {
        const char *name, *kernel;
        enum place place;
    } cases[] = {
        {"child-of-body-local", "deep", CHILD_OF_BODY},
        {"plain-local", "deep", PLAIN},
        {"body-local", "deeper", BODY},
        {"plain-heap", "takes", PLAIN},
        {"body-heap", "takes", BODY},
    };
    CUcontext made = new_context(64 * MIB);
    CUmodule heaps, frames;
    CUgraphExec executable;

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const char *kernel = cases[i].kernel;
        CUfunction function;
        uint64_t used, live;

        case_begin("graph-%s", cases[i].name);
        MUST(cuModuleLoadData(&heaps, heap));
        MUST(cuModuleLoadData(&frames, frame));
        function = function_of(strcmp(kernel, "takes") == 0 ? heaps : frames, kernel);
        /* The card takes both with the instantiation already. */
        fill_up();
        live = sim.live_bytes(0);
        used = info_used();
        EXPECT(graph_with(function, cases[i].place) == NULL);
        EXPECT_EQUAL(sim.live_bytes(0), live);
        EXPECT_EQUAL(info_used(), used);
        empty();
        live = sim.live_bytes(0);
        used = info_used();
        executable = graph_with(function, cases[i].place);
        EXPECT(executable != NULL);
        EXPECT_OK(cuGraphLaunch(executable, NULL));
        EXPECT_OK(cuCtxSynchronize());
        EXPECT_EQUAL(info_used() - used, sim.live_bytes(0) - live);
        EXPECT(sim.live_bytes(0) > live);
        MUST(cuGraphExecDestroy(executable));
        end_context(made);
        made = new_context(64 * MIB);
        case_end();
    }
    end_context(made);
}

int main(int argc, char **argv)
{
    unsigned long rounds = argc > 1 ? strtoul(argv[1], NULL, 10) : 20;
    CUlibrary library = NULL;

    sim_needed();
    requested = charge_is_requested();
    context = start_device(0);
    if (cuLibraryLoadData(&library, big, NULL, NULL, 0, NULL, NULL, 0) ==
        CUDA_ERROR_NOT_SUPPORTED) {
        case_begin("libraries");
        case_skipped("a driver without libraries");
        return 0;
    }
    MUST(cuLibraryUnload(library));
    every_use();
    if (requested)
        return cases_status();
    loaded_late();
    loaded_from_file();
    every_context();
    unloaded();
    at_once(rounds);
    heap_of_usual_size();
    heap_made_larger();
    graphs();
    return cases_status();
}
