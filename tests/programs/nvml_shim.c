/*
 * nvml_shim.c: another interposer of NVML, behind us, which exports the one name and finds the
 * next by RTLD_NEXT. It adds nothing, so what it hands on is what a program is told.
 */
#define _GNU_SOURCE
#include "nvml_sizes.h"

#include <dlfcn.h>

__attribute__((visibility("default"))) int nvmlDeviceGetMemoryInfo(void *device,
                                                                   struct nvml_v1 *memory);

int nvmlDeviceGetMemoryInfo(void *device, struct nvml_v1 *memory)
{
    int (*next)(void *, struct nvml_v1 *) =
        (int (*)(void *, struct nvml_v1 *))dlsym(RTLD_NEXT, "nvmlDeviceGetMemoryInfo");

    return next ? next(device, memory) : 13; /* function not found */
}
