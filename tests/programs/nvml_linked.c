/*
 * nvml_linked.c: what a program linked with -lnvidia-ml is told about each card and each MIG
 * instance: by the first form and by the second, total, free, used and reserved.
 *
 *     nvml_linked          a program that has no CUDA
 *     nvml_linked cuda     one that has begun it
 *     nvml_linked before   one that begins it after that
 *     nvml_linked child    one that has asked, and whose child is to have the second card alone
 */
#include "nvml_sizes.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define DECLARE(name, parameters) int name parameters;
NVML_FUNCTIONS(DECLARE)

static int print(const char *name, void *device)
{
    struct nvml_v2 second = {.version = NVML_V2};
    struct nvml_v1 first;

    int code = nvmlDeviceGetMemoryInfo(device, &first);

    if (code != 0 || nvmlDeviceGetMemoryInfo_v2(device, &second) != code)
        return printf("%s: error %d\n", name, code) < 0;
    printf("%s: %llu %llu %llu; %llu %llu %llu %llu\n", name, first.total >> 20,
           first.free >> 20, first.used >> 20, second.total >> 20, second.free >> 20,
           second.used >> 20, second.reserved >> 20);
    return 0;
}

static int begin_cuda(void)
{
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    int (*init)(unsigned int) = NULL;

    if (library)
        *(void **)&init = dlsym(library, "cuInit");
    return init ? init(0) : 1;
}

static int print_all(void)
{
    unsigned int count = 0;

    if (nvmlInit_v2() != 0 || nvmlDeviceGetCount_v2(&count) != 0)
        return 1;
    for (unsigned int i = 0; i < count; i++) {
        char name[32];
        void *device, *instance;

        snprintf(name, sizeof(name), "%u", i);
        if (nvmlDeviceGetHandleByIndex_v2(i, &device) != 0 || print(name, device) != 0)
            return 1;
        for (unsigned int k = 0; nvmlDeviceGetMigDeviceHandleByIndex(device, k, &instance) == 0;
             k++) {
            snprintf(name, sizeof(name), "%u/%u", i, k);
            if (print(name, instance) != 0)
                return 1;
        }
    }
    return 0;
}

static int print_in_child(void)
{
    int status = print_all();
    pid_t child;

    fflush(stdout);
    child = fork();
    if (child == 0) {
        setenv("CUDA_VISIBLE_DEVICES", "1", 1);
        exit(print_all());
    }
    return child < 0 || waitpid(child, &status, 0) != child || status != 0;
}

int main(int argc, char **argv)
{
    const char *mode = argc > 1 ? argv[1] : "";

    if (strcmp(mode, "child") == 0)
        return print_in_child();
    if (strcmp(mode, "cuda") == 0 && begin_cuda() != 0)
        return 1;
    if (print_all() != 0)
        return 1;
    return strcmp(mode, "before") == 0 ? begin_cuda() : 0;
}
