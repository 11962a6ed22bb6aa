/*
 * budget_imports.c: imported memory is never charged, whatever the card's tools make of it.
 */
#define _GNU_SOURCE
#include "budget_program.h"

#include <unistd.h>

static const CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                         .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0},
                                         .requestedHandleTypes =
                                             CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR};

/* Something that makes the library look at what the process holds. */
static void look(void)
{
    static const char big[] = ".version 7.0\n.target sm_70\n.address_size 64\n"
                              ".global .align 4 .b8 big[4194304];\n";
    CUmodule module;

    EXPECT_OK(cuModuleLoadData(&module, big));
    EXPECT_OK(cuModuleUnload(module));
}

static void own_handle(void)
{
    CUmemGenericAllocationHandle handle = 0, imported = 0, again = 0;
    uint64_t before = info_used(), shown = sim.process_bytes(0);
    int file = -1;

    case_begin("import-of-an-own-handle");
    EXPECT_OK(cuMemCreate(&handle, 64 * MIB, &prop, 0));
    EXPECT_OK(cuMemExportToShareableHandle(&file, handle,
                                           CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
    for (int round = 0; round < 3; round++) {
        EXPECT_OK(cuMemImportFromShareableHandle(&imported, (void *)(intptr_t)file,
                                                 CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
        EXPECT_OK(cuMemImportFromShareableHandle(&again, (void *)(intptr_t)file,
                                                 CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
        EXPECT_EQUAL(info_used(), before + 64 * MIB);
        look();
        EXPECT_EQUAL(info_used(), before + 64 * MIB);
        EXPECT_OK(cuMemRelease(imported));
        look();
        EXPECT_EQUAL(info_used(), before + 64 * MIB);
        if (round == 1) {
            /* Exported, so it stays charged; only the import is left of it here. */
            EXPECT_OK(cuMemRelease(handle));
            look();
            EXPECT_EQUAL(info_used(), before + 64 * MIB);
        }
        EXPECT_OK(cuMemRelease(again));
        look();
        EXPECT_EQUAL(info_used(), before + 64 * MIB);
    }
    close(file);
    look();
    EXPECT_EQUAL(info_used(), before + 64 * MIB);
    EXPECT_EQUAL(sim.process_bytes(0), shown);
    case_end();
}

/* Only an import is left of it, and then not even the descriptor: from that moment on, which no
 * call tells, the card's tools show it for the process. */
static void own_handle_alone(void)
{
    CUmemGenericAllocationHandle handle = 0, imported = 0;
    uint64_t before = info_used(), shown = sim.process_bytes(0);
    int file = -1;

    case_begin("import-that-alone-is-left");
    for (int round = 1; round <= 2; round++) {
        EXPECT_OK(cuMemCreate(&handle, 64 * MIB, &prop, 0));
        EXPECT_OK(cuMemExportToShareableHandle(&file, handle,
                                               CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
        if (round == 1)
            EXPECT_OK(cuMemRelease(handle));
        EXPECT_OK(cuMemImportFromShareableHandle(&imported, (void *)(intptr_t)file,
                                                 CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
        if (round == 2)
            EXPECT_OK(cuMemRelease(handle));
        look();
        EXPECT_EQUAL(info_used(), before + (size_t)round * 64 * MIB);
        EXPECT_EQUAL(sim.process_bytes(0), shown);
        close(file);
        EXPECT_EQUAL(sim.process_bytes(0), shown + 64 * MIB);
        look();
        EXPECT_EQUAL(info_used(), before + (size_t)round * 64 * MIB);
        EXPECT_OK(cuMemRelease(imported));
        look();
        EXPECT_EQUAL(info_used(), before + (size_t)round * 64 * MIB);
        EXPECT_EQUAL(sim.process_bytes(0), shown);
    }
    case_end();
}

/* Filled up, an import still succeeds. */
static void with_a_full_budget(void)
{
    CUmemGenericAllocationHandle handle = 0, imported = 0;
    CUdeviceptr filler = 0;
    int file = -1;

    case_begin("import-with-a-full-budget");
    EXPECT_OK(cuMemCreate(&handle, 64 * MIB, &prop, 0));
    EXPECT_OK(cuMemExportToShareableHandle(&file, handle,
                                           CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
    EXPECT_OK(cuMemAlloc_v2(&filler, info_free() / (2 * MIB) * (2 * MIB)));
    EXPECT_OK(cuMemImportFromShareableHandle(&imported, (void *)(intptr_t)file,
                                             CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
    EXPECT_OK(cuMemRelease(imported));
    EXPECT_OK(cuMemFree_v2(filler));
    EXPECT_OK(cuMemRelease(handle));
    close(file);
    case_end();
}

int main(void)
{
    sim_needed();
    start_device(0);
    own_handle();
    own_handle_alone();
    with_a_full_budget();
    return cases_status();
}
