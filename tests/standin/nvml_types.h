/* What NVML's callers know of it: there is no NVML header to build with. */
#ifndef STANDIN_NVML_TYPES_H
#define STANDIN_NVML_TYPES_H

#include "settings.h"

enum nvml_return {
    NVML_SUCCESS = 0,
    NVML_ERROR_UNINITIALIZED = 1,
    NVML_ERROR_INVALID_ARGUMENT = 2,
    NVML_ERROR_NOT_SUPPORTED = 3,
    NVML_ERROR_NO_PERMISSION = 4,
    NVML_ERROR_NOT_FOUND = 6,
    NVML_ERROR_INSUFFICIENT_SIZE = 7,
    NVML_ERROR_DRIVER_NOT_LOADED = 9,
    NVML_ERROR_FUNCTION_NOT_FOUND = 13,
    NVML_ERROR_ARGUMENT_VERSION_MISMATCH = 25,
    NVML_ERROR_UNKNOWN = 999
};

struct nvml_device {
    int index;
    int instance; /* of MIG, from 1 on; 0: the card */
};

typedef struct nvml_device *nvml_device_t;

struct nvml_memory {
    unsigned long long total, free, used;
};

struct nvml_memory_v2 {
    unsigned version; /* size | 2 << 24 */
    unsigned long long total, reserved, free, used;
};

struct nvml_process_v1 {
    unsigned pid;
    unsigned long long bytes;
};

struct nvml_process_v2 { /* and v3 */
    unsigned pid;
    unsigned long long bytes;
    unsigned gpu_instance, compute_instance;
};

struct nvml_pci {
    char bus_id_legacy[16];
    unsigned domain, bus, device;
    unsigned pci_device_id, pci_subsystem_id;
    char bus_id[32];
};

struct nvml_utilization {
    unsigned gpu, memory;
};

/* Shared by the files of NVML. */
extern struct sim_settings nvml_settings;
int nvml_begun(void); /* NVML_SUCCESS between init and shutdown */
int nvml_valid(nvml_device_t device);
nvml_device_t nvml_handle(int card, int instance);
int nvml_instances(int card); /* 0: it is not divided */
void nvml_serial_text(int card, char text[32]);

#define EXPORT __attribute__((visibility("default"))) int
#define BEGUN()                                                                                \
    do {                                                                                       \
        int begun_ = nvml_begun();                                                             \
        if (begun_)                                                                            \
            return begun_;                                                                     \
    } while (0)

#endif
