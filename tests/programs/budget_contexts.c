/*
 * budget_contexts.c: contexts are charged what they were measured to take. CASE is one of
 *
 *     size           prints what one takes, in bytes
 *     sizes [MIB]    every way to make one; MIB: what each is charged (estimated)
 *     small          the limit is below a context
 *     second         the limit has room for one context, not for two
 *     fits           a context and one small block, no more
 */
#define _GNU_SOURCE
#include "budget_program.h"

/* As the driver exports them; their headers need those of the graphics interfaces. */
CUresult cuGLCtxCreate(CUcontext *context, unsigned flags, CUdevice device);
CUresult cuGLCtxCreate_v2(CUcontext *context, unsigned flags, CUdevice device);
CUresult cuVDPAUCtxCreate(CUcontext *context, unsigned flags, CUdevice device, uint32_t display,
                          void *functions);
CUresult cuVDPAUCtxCreate_v2(CUcontext *context, unsigned flags, CUdevice device,
                             uint32_t display, void *functions);

static CUresult create_v1(CUcontext *context)
{
    return cuCtxCreate(context, 0, 0);
}

static CUresult create_v2(CUcontext *context)
{
    return cuCtxCreate_v2(context, 0, 0);
}

static CUresult create_v3(CUcontext *context)
{
    return cuCtxCreate_v3(context, NULL, 0, 0, 0);
}

static CUresult create_v4(CUcontext *context)
{
    return cuCtxCreate_v4(context, NULL, 0, 0);
}

static CUresult create_gl(CUcontext *context)
{
    return cuGLCtxCreate(context, 0, 0);
}

static CUresult create_gl_v2(CUcontext *context)
{
    return cuGLCtxCreate_v2(context, 0, 0);
}

static CUresult create_vdpau(CUcontext *context)
{
    return cuVDPAUCtxCreate(context, 0, 0, 0, NULL);
}

static CUresult create_vdpau_v2(CUcontext *context)
{
    return cuVDPAUCtxCreate_v2(context, 0, 0, 0, NULL);
}

static const struct {
    const char *name;
    CUresult (*create)(CUcontext *context);
    CUresult (*destroy)(CUcontext context);
} ways[] = {
    {"cuCtxCreate", create_v1, cuCtxDestroy},
    {"cuCtxCreate_v2", create_v2, cuCtxDestroy_v2},
    {"cuCtxCreate_v3", create_v3, cuCtxDestroy_v2},
    {"cuCtxCreate_v4", create_v4, cuCtxDetach},
    {"cuGLCtxCreate", create_gl, cuCtxDestroy},
    {"cuGLCtxCreate_v2", create_gl_v2, cuCtxDestroy_v2},
    {"cuVDPAUCtxCreate", create_vdpau, cuCtxDestroy},
    {"cuVDPAUCtxCreate_v2", create_vdpau_v2, cuCtxDestroy_v2},
};

/* For the script: bytes of one context. */
static void size(void)
{
    CUcontext primary;

    MUST(cuDevicePrimaryCtxRetain(&primary, 0));
    printf("%" PRIu64 "\n", sim.context_bytes(0));
}

/* estimate: what the first one is charged with where nothing can tell; 0: its size. */
static void sizes(size_t estimate)
{
    CUcontext primary, same, context;
    uint64_t each, further;

    case_begin("sizes-primary");
    MUST(cuDevicePrimaryCtxRetain(&primary, 0));
    MUST(cuCtxSetCurrent(primary));
    further = charge_is_requested() ? 0 : sim.context_bytes(0);
    each = charge_is_requested() ? 0 : estimate ? estimate : further;
    EXPECT_EQUAL(info_used(), each);
    MUST(cuDevicePrimaryCtxRetain(&same, 0));
    EXPECT(same == primary);
    EXPECT_EQUAL(info_used(), each);
    EXPECT_OK(cuDevicePrimaryCtxRelease(0));
    EXPECT_EQUAL(info_used(), each);
    case_end();
    for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++) {
        CUresult code;

        case_begin("sizes-%s", ways[i].name);
        code = ways[i].create(&context);
        if (ways[i].create == create_v1 && code == CUDA_ERROR_OUT_OF_MEMORY) {
            case_skipped(
                "the driver makes contexts of the first form on cards below 4 GiB only");
            continue;
        }
        MUST(code);
        EXPECT_EQUAL(info_used(), each + further);
        EXPECT_OK(ways[i].destroy(context));
        MUST(cuCtxSetCurrent(primary));
        EXPECT_EQUAL(info_used(), each);
        case_end();
    }
}

static unsigned long creations(void)
{
    return sim.calls("cuCtxCreate*") + sim.calls("cuGLCtxCreate*") +
           sim.calls("cuVDPAUCtxCreate*") + sim.calls("cuDevicePrimaryCtxRetain");
}

static void small(void)
{
    CUcontext context = (CUcontext)SENTINEL;
    CUdeviceptr block = SENTINEL;
    unsigned long calls;
    CUcontext current = (CUcontext)SENTINEL;

    case_begin("small");
    EXPECT_CODE(cuDevicePrimaryCtxRetain(&context, 0), CUDA_ERROR_OUT_OF_MEMORY);
    EXPECT(context == (CUcontext)SENTINEL);
    EXPECT_EQUAL(sim.live_bytes(0), 0);
    /* Now its size is known: the driver is not asked again. */
    calls = creations();
    EXPECT_CODE(cuDevicePrimaryCtxRetain(&context, 0), CUDA_ERROR_OUT_OF_MEMORY);
    for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++)
        EXPECT_CODE(ways[i].create(&context), CUDA_ERROR_OUT_OF_MEMORY);
    EXPECT_EQUAL(creations(), calls);
    EXPECT(context == (CUcontext)SENTINEL);
    EXPECT_OK(cuCtxGetCurrent(&current));
    EXPECT(current == NULL);
    EXPECT_CODE(cuMemAlloc_v2(&block, MIB), CUDA_ERROR_INVALID_CONTEXT);
    case_end();
}

static void second(void)
{
    CUcontext primary = start_device(0), context = (CUcontext)SENTINEL, current = NULL;
    unsigned long calls = creations();
    CUdeviceptr block;

    case_begin("second");
    for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++)
        EXPECT_CODE(ways[i].create(&context), CUDA_ERROR_OUT_OF_MEMORY);
    EXPECT_EQUAL(creations(), calls);
    EXPECT(context == (CUcontext)SENTINEL);
    EXPECT_OK(cuCtxGetCurrent(&current));
    EXPECT(current == primary);
    EXPECT_OK(cuMemAlloc_v2(&block, MIB));
    EXPECT_OK(cuMemFree_v2(block));
    case_end();
}

static void fits(void)
{
    CUdeviceptr block = SENTINEL, more = SENTINEL;

    case_begin("fits");
    start_device(0);
    EXPECT_OK(cuMemAlloc_v2(&block, 1000));
    EXPECT_CODE(cuMemAlloc_v2(&more, 4 * MIB), CUDA_ERROR_OUT_OF_MEMORY);
    EXPECT(more == SENTINEL);
    EXPECT_OK(cuMemFree_v2(block));
    case_end();
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";

    sim_needed();
    MUST(cuInit(0));
    if (strcmp(what, "sizes") == 0)
        sizes(argc > 2 ? strtoul(argv[2], NULL, 10) * MIB : 0);
    else if (strcmp(what, "size") == 0)
        size();
    else if (strcmp(what, "small") == 0)
        small();
    else if (strcmp(what, "second") == 0)
        second();
    else if (strcmp(what, "fits") == 0)
        fits();
    else
        return 2;
    return cases_status();
}
