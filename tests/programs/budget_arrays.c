/*
 * budget_arrays.c: arrays and mipmapped arrays under a budget.
 *
 *     budget_arrays [measured|estimated]
 *
 * Runs with a limit of 1 GiB, beyond the context in footprint mode; estimated: nothing can
 * measure.
 */
#define _GNU_SOURCE
#include "budget_program.h"

static CUcontext context;
static bool requested, estimated;

static CUarray const untouched = (CUarray)(uintptr_t)SENTINEL;

static CUDA_ARRAY3D_DESCRIPTOR shape(size_t width, size_t height, size_t depth,
                                     unsigned int flags)
{
    return (CUDA_ARRAY3D_DESCRIPTOR){.Width = width,
                                     .Height = height,
                                     .Depth = depth,
                                     .Format = CU_AD_FORMAT_FLOAT,
                                     .NumChannels = 4,
                                     .Flags = flags};
}

/* What the ledger has to show beyond `before`. */
static void compare(uint64_t before, uint64_t nominal, int line)
{
    uint64_t grown = info_used() - before;

    if (requested)
        expect_equal_at(line, grown, nominal, "the ledger");
    else if (!estimated)
        expect_equal_at(line, grown, sim.array_bytes(0), "the ledger");
    else if (grown < nominal)
        case_fails("line %d: %llu charged for %llu", line, (unsigned long long)grown,
                   (unsigned long long)nominal);
}

static void every_shape(void)
{
    static const struct {
        size_t width, height, depth;
        unsigned int flags;
    } shapes[] = {{1000, 1000, 0, 0},
                  {1000, 0, 0, 0},
                  {100, 100, 100, 0},
                  {256, 256, 6, CUDA_ARRAY3D_CUBEMAP},
                  {512, 512, 5, CUDA_ARRAY3D_LAYERED},
                  {1000, 1000, 0, CUDA_ARRAY3D_SURFACE_LDST}};
    uint64_t used = info_used();

    case_begin("array-every-shape");
    for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++) {
        CUDA_ARRAY3D_DESCRIPTOR descriptor =
            shape(shapes[i].width, shapes[i].height, shapes[i].depth, shapes[i].flags);
        uint64_t nominal = shapes[i].width * (shapes[i].height ? shapes[i].height : 1) *
                           (shapes[i].depth ? shapes[i].depth : 1) * 16;
        CUarray array = untouched;

        EXPECT_OK(cuArray3DCreate_v2(&array, &descriptor));
        compare(used, nominal, __LINE__);
        EXPECT_OK(cuArrayDestroy(array));
        EXPECT_EQUAL(info_used(), used);
    }
    {
        CUDA_ARRAY_DESCRIPTOR flat = {1000, 1000, CU_AD_FORMAT_UNSIGNED_INT8, 1};
        CUDA_ARRAY3D_DESCRIPTOR descriptor = shape(1000, 1000, 0, 0);
        CUmipmappedArray mipmapped = NULL;
        CUarray array = untouched;

        EXPECT_OK(cuArrayCreate_v2(&array, &flat));
        compare(used, 1000 * 1000, __LINE__);
        EXPECT_OK(cuArrayDestroy(array));
        EXPECT_OK(cuMipmappedArrayCreate(&mipmapped, &descriptor, 5));
        compare(used,
                (1000 * 1000 + 500 * 500 + 250 * 250 + 125 * 125 + 62 * 62) * (uint64_t)16,
                __LINE__);
        EXPECT_OK(cuMipmappedArrayDestroy(mipmapped));
        EXPECT_EQUAL(info_used(), used);
    }
    case_end();
}

static void too_large(void)
{
    CUDA_ARRAY3D_DESCRIPTOR large = shape(8192, 8192, 0, 0), huge = shape(16384, 16384, 2, 0);
    CUarray array = untouched;
    CUdeviceptr filler = 0;
    uint64_t used, live;

    case_begin("array-too-large");
    live = sim.live_bytes(0);
    sim.reset_counts();
    EXPECT_CODE(cuArray3DCreate_v2(&array, &huge), CUDA_ERROR_OUT_OF_MEMORY);
    EXPECT(array == untouched);
    EXPECT_EQUAL(sim.calls("cuArray3DCreate_v2"), 0);
    EXPECT_EQUAL(sim.live_bytes(0), live);
    /* 1,024 MiB exactly, which does not fit beside anything. */
    EXPECT_OK(cuMemAlloc_v2(&filler, 2 * MIB));
    used = info_used();
    EXPECT_CODE(cuArray3DCreate_v2(&array, &large), CUDA_ERROR_OUT_OF_MEMORY);
    EXPECT(array == untouched);
    EXPECT_EQUAL(info_used(), used);
    EXPECT_EQUAL(sim.array_bytes(0), 0);
    EXPECT_OK(cuMemFree_v2(filler));
    /* Until it is full. */
    {
        CUDA_ARRAY3D_DESCRIPTOR piece = shape(1024, 1024, 0, 0);
        CUarray pieces[70];
        int count = 0;

        while (count < 70 && cuArray3DCreate_v2(&pieces[count], &piece) == CUDA_SUCCESS)
            count++;
        EXPECT(count >= 62 && count <= 64);
        EXPECT(sim.live_bytes(0) <= live + GIB);
        while (count > 0)
            EXPECT_OK(cuArrayDestroy(pieces[--count]));
    }
    EXPECT_EQUAL(sim.live_bytes(0), live);
    case_end();
}

static void errors_are_the_drivers(void)
{
    CUDA_ARRAY3D_DESCRIPTOR bad = shape(0, 0, 0, 0), strange = shape(16, 16, 0, 0);
    CUarray array = untouched;
    uint64_t used = info_used();

    case_begin("array-errors-are-the-drivers");
    strange.Format = (CUarray_format)0x77;
    EXPECT_CODE(cuArray3DCreate_v2(&array, &bad), CUDA_ERROR_INVALID_VALUE);
    EXPECT_CODE(cuArray3DCreate_v2(&array, &strange), CUDA_ERROR_INVALID_VALUE);
    EXPECT_CODE(cuArray3DCreate_v2(NULL, &bad), CUDA_ERROR_INVALID_VALUE);
    EXPECT_CODE(cuArray3DCreate_v2(&array, NULL), CUDA_ERROR_INVALID_VALUE);
    EXPECT(array == untouched);
    EXPECT(cuArrayDestroy(NULL) != CUDA_SUCCESS);
    EXPECT_EQUAL(info_used(), used);
    case_end();
}

/* Sparse ones take nothing before handles are bound to them. */
static void sparse(void)
{
    CUDA_ARRAY3D_DESCRIPTOR descriptor = shape(16384, 16384, 0, CUDA_ARRAY3D_SPARSE);
    uint64_t used = info_used();
    CUarray array = untouched;

    case_begin("array-sparse");
    EXPECT_OK(cuArray3DCreate_v2(&array, &descriptor));
    EXPECT_EQUAL(info_used(), used);
    EXPECT_OK(cuArrayDestroy(array));
    case_end();
}

static void ends_with_its_context(void)
{
    CUDA_ARRAY3D_DESCRIPTOR descriptor = shape(1000, 1000, 0, 0);
    uint64_t used = info_used();
    CUcontext second;
    CUarray array;

    case_begin("array-ends-with-its-context");
    if (cuCtxCreate_v2(&second, 0, 0) != CUDA_SUCCESS) {
        case_skipped("no room for a second context");
        return;
    }
    EXPECT_OK(cuArray3DCreate_v2(&array, &descriptor));
    EXPECT(info_used() > used);
    EXPECT_OK(cuCtxDestroy_v2(second));
    EXPECT_OK(cuCtxSetCurrent(context));
    EXPECT_EQUAL(info_used(), used);
    case_end();
}

int main(int argc, char **argv)
{
    estimated = argc > 1 && strcmp(argv[1], "estimated") == 0;
    sim_needed();
    requested = charge_is_requested();
    context = start_device(0);
    errors_are_the_drivers();
    every_shape();
    sparse();
    too_large();
    ends_with_its_context();
    return cases_status();
}
