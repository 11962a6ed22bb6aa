/*
 * nvml_sizes.h: NVML's functions for test programs, by whatever route the including program
 * has them: found in the library (NVML_BY_LOOK_UP), or linked.
 */
#ifndef NVML_SIZES_H
#define NVML_SIZES_H

#include <stddef.h>

struct nvml_v1 {
    unsigned long long total, free, used;
};

struct nvml_v2 {
    unsigned int version;
    unsigned long long total, reserved, free, used;
};

#define NVML_V2 ((unsigned int)sizeof(struct nvml_v2) | 2u << 24)

/* Of the third form of the process list. */
struct nvml_process {
    unsigned int pid;
    unsigned long long bytes;
    unsigned int gpu_instance, compute_instance;
};

enum { NVML_BAD_ARGUMENT = 2, NVML_BAD_VERSION = 25 };

/* X(name, parameters) */
#define NVML_FUNCTIONS(X)                                                                      \
    X(nvmlInit_v2, (void))                                                                     \
    X(nvmlDeviceGetCount_v2, (unsigned int *count))                                            \
    X(nvmlDeviceGetHandleByIndex_v2, (unsigned int index, void **device))                      \
    X(nvmlDeviceGetHandleByUUID, (const char *uuid, void **device))                            \
    X(nvmlDeviceGetHandleBySerial, (const char *serial, void **device))                        \
    X(nvmlDeviceGetHandleByPciBusId_v2, (const char *bus, void **device))                      \
    X(nvmlDeviceGetUUID, (void *device, char *uuid, unsigned int size))                        \
    X(nvmlDeviceGetSerial, (void *device, char *serial, unsigned int size))                    \
    X(nvmlDeviceGetMemoryInfo, (void *device, struct nvml_v1 *memory))                         \
    X(nvmlDeviceGetMemoryInfo_v2, (void *device, struct nvml_v2 *memory))                      \
    X(nvmlDeviceGetComputeRunningProcesses_v3,                                                 \
      (void *device, unsigned int *count, void *records))                                      \
    X(nvmlDeviceGetName, (void *device, char *name, unsigned int size))                        \
    X(nvmlDeviceGetMigMode, (void *device, unsigned int *now, unsigned int *pending))          \
    X(nvmlDeviceGetMaxMigDeviceCount, (void *device, unsigned int *count))                     \
    X(nvmlDeviceGetMigDeviceHandleByIndex,                                                     \
      (void *device, unsigned int index, void **instance))                                     \
    X(nvmlDeviceGetDeviceHandleFromMigDeviceHandle, (void *instance, void **device))           \
    X(nvmlDeviceIsMigDeviceHandle, (void *device, unsigned int *is_instance))                  \
    X(nvmlDeviceGetGpuInstanceId, (void *device, unsigned int *id))                            \
    X(nvmlDeviceGetComputeInstanceId, (void *device, unsigned int *id))

#endif
