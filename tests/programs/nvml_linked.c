/*
 * nvml_linked.c: what a program linked with -lnvidia-ml, which has no CUDA, is told about each
 * card: by the first form and by the second, total, free, used and reserved.
 */
#include "nvml_sizes.h"

#include <stdio.h>

#define DECLARE(name, parameters) int name parameters;
NVML_FUNCTIONS(DECLARE)

int main(void)
{
    unsigned int count = 0;

    if (nvmlInit_v2() != 0 || nvmlDeviceGetCount_v2(&count) != 0)
        return 1;
    for (unsigned int i = 0; i < count; i++) {
        struct nvml_v2 second = {.version = NVML_V2};
        struct nvml_v1 first;
        void *device;

        if (nvmlDeviceGetHandleByIndex_v2(i, &device) != 0 ||
            nvmlDeviceGetMemoryInfo(device, &first) != 0 ||
            nvmlDeviceGetMemoryInfo_v2(device, &second) != 0)
            return 1;
        printf("%u: %llu %llu %llu; %llu %llu %llu %llu\n", i, first.total >> 20,
               first.free >> 20, first.used >> 20, second.total >> 20, second.free >> 20,
               second.used >> 20, second.reserved >> 20);
    }
    return 0;
}
