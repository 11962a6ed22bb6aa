/*
 * nvml_program.h: what the programs share that find NVML at run time. Like budget_program.h,
 * which comes first, it is code.
 */
#ifndef NVML_PROGRAM_H
#define NVML_PROGRAM_H

#include "nvml_sizes.h"

#define DECLARE(name, parameters) static int(*name) parameters;
NVML_FUNCTIONS(DECLARE)

static inline void find_nvml(void)
{
    void *library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);

#define FIND(name, parameters) *(void **)&name = library ? dlsym(library, #name) : NULL;
    NVML_FUNCTIONS(FIND)
    if (!nvmlInit_v2 || nvmlInit_v2() != 0) {
        case_begin("everything");
        case_skipped("there is no NVML");
        exit(0);
    }
}

/* Both forms tell of one card. */
static inline struct nvml_v2 sizes_of(void *device)
{
    struct nvml_v2 second = {.version = NVML_V2};
    struct nvml_v1 first;

    EXPECT_EQUAL(nvmlDeviceGetMemoryInfo(device, &first), 0);
    EXPECT_EQUAL(nvmlDeviceGetMemoryInfo_v2(device, &second), 0);
    EXPECT_EQUAL(first.total, second.total);
    EXPECT_EQUAL(first.free, second.free);
    EXPECT_EQUAL(first.used, first.total - first.free);
    EXPECT_EQUAL(second.used, second.total - second.free);
    EXPECT_EQUAL(second.reserved, 0);
    return second;
}

#endif
