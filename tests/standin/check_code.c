/* Random use of modules, libraries, launches, limits, streams and graphs in several contexts,
 * on a card that is nearly full: in the end nothing is left of it. */
#include "check_code.h"

#include <stdlib.h>
#include <string.h>

#define CONTEXTS 3
#define SLOTS    6

static const char text[] =
    PTX_HEAD ".extern .func (.param .b64 r) malloc (.param .b64 p);\n"
             ".global .align 4 .b8 big[30000000];\n"
             ".global .attribute(.managed) .align 4 .b8 shared[3000000];\n"
             ".visible .entry none() { ret; }\n"
             ".visible .entry some() { .local .align 8 .b8 frame[2048]; ret; }\n"
             ".visible .entry takes() { .local .align 8 .b8 frame[3072]; call malloc; ret; }\n";
static const char *const kernels[] = {"none", "some", "takes"};

struct place {
    CUcontext context;
    CUmodule module[SLOTS];
    CUstream stream[SLOTS];
    CUgraphExec exec[SLOTS];
};

static unsigned state = 3;

static int any(int below)
{
    return rand_r(&state) % below;
}

/* What a nearly full card may say. */
static bool went(CUresult code)
{
    CHECK(code == CUDA_SUCCESS || code == CUDA_ERROR_OUT_OF_MEMORY ||
          code == CUDA_ERROR_SHARED_OBJECT_INIT_FAILED);
    return code == CUDA_SUCCESS;
}

static CUgraph graph_of(CUfunction function)
{
    CUDA_KERNEL_NODE_PARAMS params;
    CUDA_MEM_ALLOC_NODE_PARAMS alloc;
    CUgraph graph = NULL;
    CUgraphNode node = NULL;
    OK(cuGraphCreate(&graph, 0));
    memset(&params, 0, sizeof(params));
    params.func = function;
    params.gridDimX = params.gridDimY = params.gridDimZ = 1;
    params.blockDimX = params.blockDimY = params.blockDimZ = 1;
    OK(cuGraphAddKernelNode(&node, graph, NULL, 0, &params));
    if (any(2)) {
        memset(&alloc, 0, sizeof(alloc));
        alloc.poolProps.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
        alloc.poolProps.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
        alloc.bytesize = (size_t)(1 + any(100)) * MIB;
        OK(cuGraphAddMemAllocNode(&node, graph, &node, 1, &alloc));
        OK(cuGraphAddMemFreeNode(&node, graph, &node, 1, alloc.dptr));
    }
    return graph;
}

static void with_module(struct place *place, int slot, const CUkernel kernel[3])
{
    CUfunction function = NULL;
    if (!place->module[slot]) {
        if (!went(cuModuleLoadData(&place->module[slot], text)))
            place->module[slot] = NULL;
        return;
    }
    if (any(8) == 0) {
        OK(cuModuleUnload(place->module[slot]));
        place->module[slot] = NULL;
        return;
    }
    if (any(4) == 0)
        function = (CUfunction)kernel[any(3)];
    else if (!went(cuModuleGetFunction(&function, place->module[slot], kernels[any(3)])))
        return;
    if (any(3)) {
        went(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, place->stream[any(SLOTS)], NULL,
                            NULL));
    } else if (!place->exec[slot]) {
        CUfunction own = NULL;
        if (went(cuModuleGetFunction(&own, place->module[slot], kernels[any(3)]))) {
            CUgraph graph = graph_of(own);
            if (!went(cuGraphInstantiate(&place->exec[slot], graph, 0)))
                place->exec[slot] = NULL;
            OK(cuGraphDestroy(graph));
        }
    } else if (any(3)) {
        went(cuGraphLaunch(place->exec[slot], NULL));
    } else {
        OK(cuGraphExecDestroy(place->exec[slot]));
        place->exec[slot] = NULL;
    }
}

static void step(struct place *place, const CUkernel kernel[3])
{
    const int slot = any(SLOTS);
    CUcontext popped;
    CUdeviceptr address;
    if (!place->context) {
        if (!went(cuCtxCreate(&place->context, NULL, CU_CTX_LMEM_RESIZE_TO_MAX, 0)))
            place->context = NULL;
        else
            OK(cuCtxPopCurrent(&popped));
        return;
    }
    OK(cuCtxPushCurrent(place->context));
    switch (any(20)) {
    case 0:
        for (int i = 0; i < SLOTS; i++)
            if (place->exec[i])
                OK(cuGraphExecDestroy(place->exec[i]));
        OK(cuCtxDestroy(place->context));
        memset(place, 0, sizeof(*place));
        return;
    case 1:
        went(cuCtxSetLimit(CU_LIMIT_STACK_SIZE, (size_t)any(5) * 700));
        break;
    case 2:
        went(cuCtxSetLimit(CU_LIMIT_DEV_RUNTIME_PENDING_LAUNCH_COUNT, (size_t)any(40000)));
        break;
    case 3:
        OK(cuDeviceGraphMemTrim(0));
        break;
    case 4:
    case 5:
        if (place->stream[slot]) {
            OK(cuStreamDestroy(place->stream[slot]));
            place->stream[slot] = NULL;
        } else if (!went(cuStreamCreate(&place->stream[slot], CU_STREAM_NON_BLOCKING))) {
            place->stream[slot] = NULL;
        }
        break;
    case 6:
        if (place->module[slot] &&
            !cuModuleGetGlobal(&address, NULL, place->module[slot], "shared"))
            OK(cuMemsetD8(address, 1, 4096));
        break;
    default:
        with_module(place, slot, kernel);
        break;
    }
    OK(cuCtxPopCurrent(&popped));
}

void check_code_random(void)
{
    struct place place[CONTEXTS];
    CUcontext primary = check_begin();
    CUlibrary library;
    CUkernel kernel[3];
    memset(place, 0, sizeof(place));
    OK(cuCtxSetCurrent(primary));
    standin_set_other(0, standin_free_bytes(0) - 4 * GIB);
    standin_set_code_bytes(3 * MIB);
    OK(cuLibraryLoadData(&library, text, NULL, NULL, 0, NULL, NULL, 0));
    for (int i = 0; i < 3; i++)
        OK(cuLibraryGetKernel(&kernel[i], library, kernels[i]));
    for (int i = 0; i < 20000; i++)
        step(&place[any(CONTEXTS)], kernel);
    for (int i = 0; i < CONTEXTS; i++) {
        if (!place[i].context)
            continue;
        for (int e = 0; e < SLOTS; e++)
            if (place[i].exec[e])
                OK(cuGraphExecDestroy(place[i].exec[e]));
        OK(cuCtxDestroy(place[i].context));
    }
    OK(cuLibraryUnload(library));
    OK(cuDeviceGraphMemTrim(0));
    EQUAL(standin_live_bytes(0) - standin_managed_bytes(0), standin_context_bytes(0));
    EQUAL(standin_module_bytes(0), 0);
    EQUAL(standin_local_bytes(0), 0);
    EQUAL(standin_limit_bytes(0), 0);
    EQUAL(standin_stream_bytes(0), 0);
    EQUAL(standin_real_live_blocks(0), 0);
    /* What the first touch of managed memory took besides, less what later ones used of it. */
    CHECK(standin_managed_bytes(0) <= 64 * MIB);
    OK(cuDevicePrimaryCtxRelease(0));
    EQUAL(standin_live_bytes(0), standin_managed_bytes(0));
}
