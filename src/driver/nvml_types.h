/*
 * nvml_types.h: what we need of NVML's interface. There is no header of it to rely on: the
 * declarations are our own, named after what they hold.
 */
#ifndef GB_DRIVER_NVML_TYPES_H
#define GB_DRIVER_NVML_TYPES_H

enum { GB_NVML_OK = 0, GB_NVML_INSUFFICIENT_SIZE = 7, GB_NVML_LIBRARY_NOT_FOUND = 12 };

/* Longer than any text that NVML gives for a device. */
enum { GB_NVML_TEXT = 96 };

typedef void *gb_nvml_device;

/* Bytes, all of them. The first form counts what the driver keeps for itself as used. */
struct gb_nvml_memory_v1 {
    unsigned long long total, free, used;
};

struct gb_nvml_memory_v2 {
    unsigned int version; /* GB_NVML_MEMORY_V2, set by the caller */
    unsigned long long total, reserved, free, used;
};

#define GB_NVML_MEMORY_V2 ((unsigned int)sizeof(struct gb_nvml_memory_v2) | 2u << 24)

/* Of nvmlDeviceGetPciInfo_v3. */
struct gb_nvml_pci {
    char short_address[16];
    unsigned int domain, bus, device, ids[2];
    char address[32];
};

typedef int gb_nvml_pci_fn(gb_nvml_device device, struct gb_nvml_pci *pci);
typedef int gb_nvml_memory_v1_fn(gb_nvml_device device, struct gb_nvml_memory_v1 *memory);
typedef int gb_nvml_memory_v2_fn(gb_nvml_device device, struct gb_nvml_memory_v2 *memory);
typedef int gb_nvml_text_fn(gb_nvml_device device, char *text, unsigned int size);
typedef int gb_nvml_number_fn(gb_nvml_device device, unsigned int *number);
typedef int gb_nvml_count_fn(unsigned int *count);
typedef int gb_nvml_by_index_fn(unsigned int index, gb_nvml_device *device);
typedef int gb_nvml_device_fn(gb_nvml_device device, gb_nvml_device *other);
typedef int gb_nvml_mode_fn(gb_nvml_device device, unsigned int *now, unsigned int *pending);
typedef int gb_nvml_by_text_fn(const char *text, gb_nvml_device *device);

#endif
