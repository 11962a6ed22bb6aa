/*
 * budget_settings.c: what a program gets under the settings of its environment.
 *
 *     budget_settings [NAME=VALUE]...
 *
 * The arguments are put into the environment after the start, where they come too late. Prints
 * what the driver answers: `init CODE`, `count N`, and for each device
 * `device N total MIB retain CODE create CODE alloc CODE async CODE taken MIB`, where taken is
 * how much it gave out in 64 MiB, and `untouched` or `written` for the outputs of refused
 * calls.
 */
#define _GNU_SOURCE
#include "budget_program.h"

enum { MOST_BITES = 512 };

static void show_device(CUdevice device)
{
    CUcontext primary = (CUcontext)SENTINEL, created = (CUcontext)SENTINEL;
    CUdeviceptr pointer = SENTINEL, ordered = SENTINEL, bites[MOST_BITES];
    CUresult retain, create, alloc, async;
    char name[64] = "";
    int taken = 0;
    size_t total = 0;
    bool touched = false;

    EXPECT_OK(cuDeviceGetName(name, sizeof(name), device));
    EXPECT(name[0] != '\0');
    EXPECT_OK(cuDeviceTotalMem_v2(&total, device));
    retain = cuDevicePrimaryCtxRetain(&primary, device);
    create = cuCtxCreate_v2(&created, 0, device);
    if (create == CUDA_SUCCESS)
        MUST(cuCtxDestroy_v2(created));
    if (retain == CUDA_SUCCESS)
        MUST(cuCtxSetCurrent(primary));
    alloc = cuMemAlloc_v2(&pointer, 64 * MIB);
    if (alloc == CUDA_SUCCESS)
        MUST(cuMemFree_v2(pointer));
    async = cuMemAllocAsync(&ordered, 64 * MIB, NULL);
    if (async == CUDA_SUCCESS) {
        MUST(cuMemFreeAsync(ordered, NULL));
        MUST(cuCtxSynchronize());
    }
    touched |= retain != CUDA_SUCCESS && primary != (CUcontext)SENTINEL;
    touched |= create != CUDA_SUCCESS && created != (CUcontext)SENTINEL;
    touched |= alloc != CUDA_SUCCESS && pointer != SENTINEL;
    touched |= async != CUDA_SUCCESS && ordered != SENTINEL;
    while (taken < MOST_BITES && cuMemAlloc_v2(&bites[taken], 64 * MIB) == CUDA_SUCCESS)
        taken++;
    printf("device %d total %zu retain %d create %d alloc %d async %d taken %d %s\n", device,
           total / MIB, (int)retain, (int)create, (int)alloc, (int)async, taken * 64,
           touched ? "written" : "untouched");
    while (taken > 0)
        MUST(cuMemFree_v2(bites[--taken]));
}

int main(int argc, char **argv)
{
    int count = 0;

    for (int i = 1; i < argc; i++)
        putenv(argv[i]);
    printf("init %d\n", (int)cuInit(0));
    EXPECT_OK(cuDeviceGetCount(&count));
    printf("count %d\n", count);
    for (int i = 0; i < count; i++)
        show_device(i);
    if (budget_cases.why[0])
        printf("%s\n", budget_cases.why);
    return budget_cases.why[0] ? 1 : 0;
}
