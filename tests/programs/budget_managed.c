/*
 * budget_managed.c: managed variables of modules and libraries, which no tool shows.
 *
 * Runs with a limit of 1 GiB beyond the context.
 */
#define _GNU_SOURCE
#include "budget_program.h"

#define PTX_HEAD ".version 7.0\n.target sm_70\n.address_size 64\n"

static const char some[] = PTX_HEAD ".visible .global .attribute(.managed) .align 4 .b8 "
                                    "shared[104857600];\n";
static const char too_much[] = PTX_HEAD ".visible .global .attribute(.managed) .align 4 .b8 "
                                        "shared[1073741825];\n";
static const uint64_t bytes = 100 * MIB; /* of `some` */

static CUcontext context;
static uint64_t base; /* charged with no managed memory but what comes once */

static void *const untouched = (void *)(uintptr_t)SENTINEL;

static CUresult load_library(CUlibrary *library, const char *text)
{
    return cuLibraryLoadData(library, text, NULL, NULL, 0, NULL, NULL, 0);
}

/* What the driver takes once for managed memory comes with the first one, whichever it is. */
static void module_comes_and_goes(void)
{
    const uint64_t once = charge_is_requested() ? 0 : 128 * MIB, used = info_used();
    CUmodule modules[2];
    CUdeviceptr variable;
    size_t size = 0;

    case_begin("module-comes-and-goes");
    EXPECT_OK(cuModuleLoadData(&modules[0], some));
    EXPECT_EQUAL(info_used(), used + once + bytes);
    EXPECT_OK(cuModuleLoadData(&modules[1], some));
    EXPECT_EQUAL(info_used(), used + once + 2 * bytes);
    EXPECT_OK(cuModuleGetGlobal_v2(&variable, &size, modules[0], "shared"));
    EXPECT_OK(cuMemsetD8_v2(variable, 1, size));
    EXPECT(sim.managed_bytes(0) >= bytes);
    EXPECT_EQUAL(info_used(), used + once + 2 * bytes);
    /* One that the driver does not unload stays charged. */
    sim.fail("cuModuleUnload", 1, CUDA_ERROR_UNKNOWN);
    EXPECT_CODE(cuModuleUnload(modules[0]), CUDA_ERROR_UNKNOWN);
    EXPECT_EQUAL(info_used(), used + once + 2 * bytes);
    for (int i = 0; i < 2; i++)
        EXPECT_OK(cuModuleUnload(modules[i]));
    base = used + once;
    EXPECT_EQUAL(info_used(), base);
    case_end();
}

static void nothing_is_loaded(void)
{
    CUmodule module = untouched;
    CUlibrary library = untouched;
    CUdeviceptr variable;

    case_begin("nothing-is-loaded-that-does-not-fit");
    sim.reset_counts();
    EXPECT_CODE(cuModuleLoadData(&module, too_much), CUDA_ERROR_OUT_OF_MEMORY);
    EXPECT_CODE(load_library(&library, too_much), CUDA_ERROR_OUT_OF_MEMORY);
    EXPECT_EQUAL(sim.calls("cuModuleLoadData"), 0);
    EXPECT_EQUAL(sim.calls("cuLibraryLoadData"), 0);
    EXPECT(module == untouched && library == untouched);
    EXPECT_EQUAL(info_used(), base);
    /* Of one that nobody asked for at its load, the first use. */
    EXPECT_OK(cuCtxSetCurrent(NULL));
    EXPECT_OK(load_library(&library, too_much));
    EXPECT_OK(cuCtxSetCurrent(context));
    EXPECT_CODE(cuLibraryGetManaged(&variable, NULL, library, "shared"),
                CUDA_ERROR_OUT_OF_MEMORY);
    EXPECT_EQUAL(sim.calls("cuLibraryGetManaged"), 0);
    EXPECT_EQUAL(info_used(), base);
    EXPECT_OK(cuLibraryUnload(library));
    /* What the driver does not load is not charged. */
    sim.fail("cuModuleLoadData", 1, CUDA_ERROR_INVALID_PTX);
    EXPECT_CODE(cuModuleLoadData(&module, some), CUDA_ERROR_INVALID_PTX);
    sim.fail("cuLibraryLoadData", 1, CUDA_ERROR_INVALID_PTX);
    EXPECT_CODE(load_library(&library, some), CUDA_ERROR_INVALID_PTX);
    EXPECT_EQUAL(info_used(), base);
    /* Nor is anything loaded whose device cannot be learned. */
    module = untouched;
    library = untouched;
    sim.reset_counts();
    for (int i = 0; i < 2; i++) {
        sim.fail("cuCtxGetDevice", 1, CUDA_ERROR_UNKNOWN);
        EXPECT_CODE(i ? load_library(&library, some) : cuModuleLoadData(&module, some),
                    CUDA_ERROR_UNKNOWN);
    }
    EXPECT_EQUAL(sim.calls("cuModuleLoadData") + sim.calls("cuLibraryLoadData"), 0);
    EXPECT(module == untouched && library == untouched);
    EXPECT_EQUAL(info_used(), base);
    EXPECT_OK(cuCtxSetCurrent(NULL));
    EXPECT_OK(load_library(&library, some));
    EXPECT_OK(cuCtxSetCurrent(context));
    sim.reset_counts();
    sim.fail("cuCtxGetDevice", 1, CUDA_ERROR_UNKNOWN);
    EXPECT_CODE(cuLibraryGetManaged(&variable, NULL, library, "shared"), CUDA_ERROR_UNKNOWN);
    EXPECT_EQUAL(sim.calls("cuLibraryGetManaged"), 0);
    EXPECT_OK(cuLibraryUnload(library));
    EXPECT_EQUAL(info_used(), base);
    case_end();
}

static void library_once(void)
{
    CUlibrary library;
    CUdeviceptr variable;
    CUcontext second;

    case_begin("library-once-for-all-contexts");
    EXPECT_OK(load_library(&library, some));
    EXPECT_EQUAL(info_used(), base + bytes);
    EXPECT_OK(cuLibraryGetManaged(&variable, NULL, library, "shared"));
    EXPECT_EQUAL(info_used(), base + bytes);
    EXPECT_OK(cuLibraryUnload(library));
    EXPECT_EQUAL(info_used(), base);
    /* With its first use, and until its end, not the context's. */
    EXPECT_OK(cuCtxSetCurrent(NULL));
    EXPECT_OK(load_library(&library, some));
    EXPECT_OK(cuCtxSetCurrent(context));
    EXPECT_EQUAL(info_used(), base);
    EXPECT_OK(cuCtxCreate_v2(&second, 0, 0));
    EXPECT_OK(cuLibraryGetManaged(&variable, NULL, library, "shared"));
    EXPECT_OK(cuCtxDestroy_v2(second));
    EXPECT_OK(cuCtxSetCurrent(context));
    EXPECT_EQUAL(info_used(), base + bytes);
    EXPECT_OK(cuLibraryGetManaged(&variable, NULL, library, "shared"));
    EXPECT_EQUAL(info_used(), base + bytes);
    sim.fail("cuLibraryUnload", 1, CUDA_ERROR_UNKNOWN);
    EXPECT_CODE(cuLibraryUnload(library), CUDA_ERROR_UNKNOWN);
    EXPECT_EQUAL(info_used(), base + bytes);
    EXPECT_OK(cuLibraryUnload(library));
    EXPECT_EQUAL(info_used(), base);
    case_end();
}

static void ends_with_its_context(void)
{
    CUcontext second;
    CUmodule module;

    case_begin("module-ends-with-its-context");
    EXPECT_OK(cuCtxCreate_v2(&second, 0, 0));
    EXPECT_OK(cuModuleLoadData(&module, some));
    EXPECT(info_used() >= base + bytes);
    EXPECT_OK(cuCtxDestroy_v2(second));
    EXPECT_OK(cuCtxSetCurrent(context));
    EXPECT_EQUAL(info_used(), base);
    case_end();
}

int main(void)
{
    sim_needed();
    context = start_device(0);
    module_comes_and_goes();
    nothing_is_loaded();
    library_once();
    ends_with_its_context();
    return cases_status();
}
