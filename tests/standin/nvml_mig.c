/* What NVML says about MIG: which cards are divided, and the handles of their instances. */
#include "nvml_types.h"

/* A card, divided or not, and a place for the answer. */
static bool asks_card(nvml_device_t device, const void *answer)
{
    return nvml_valid(device) && device->instance == 0 && answer;
}

EXPORT nvmlDeviceGetMigMode(nvml_device_t device, unsigned *current, unsigned *pending)
{
    BEGUN();
    if (!asks_card(device, current) || !pending)
        return NVML_ERROR_INVALID_ARGUMENT;
    *current = *pending = nvml_instances(device->index) > 0;
    return NVML_SUCCESS;
}

/* How many there can be. */
EXPORT nvmlDeviceGetMaxMigDeviceCount(nvml_device_t device, unsigned *count)
{
    BEGUN();
    if (!asks_card(device, count))
        return NVML_ERROR_INVALID_ARGUMENT;
    *count = nvml_instances(device->index) > 0 ? SIM_MAX_INSTANCES : 0;
    return NVML_SUCCESS;
}

EXPORT nvmlDeviceGetMigDeviceHandleByIndex(nvml_device_t device, unsigned index,
                                           nvml_device_t *instance)
{
    BEGUN();
    if (!asks_card(device, instance) || index >= SIM_MAX_INSTANCES)
        return NVML_ERROR_INVALID_ARGUMENT;
    if (nvml_instances(device->index) == 0)
        return NVML_ERROR_NOT_SUPPORTED;
    if (index >= (unsigned)nvml_instances(device->index))
        return NVML_ERROR_NOT_FOUND;
    *instance = nvml_handle(device->index, (int)index + 1);
    return NVML_SUCCESS;
}

EXPORT nvmlDeviceGetDeviceHandleFromMigDeviceHandle(nvml_device_t instance,
                                                    nvml_device_t *device)
{
    BEGUN();
    if (!nvml_valid(instance) || instance->instance == 0 || !device)
        return NVML_ERROR_INVALID_ARGUMENT;
    *device = nvml_handle(instance->index, 0);
    return NVML_SUCCESS;
}

EXPORT nvmlDeviceIsMigDeviceHandle(nvml_device_t device, unsigned *is_instance)
{
    BEGUN();
    if (!nvml_valid(device) || !is_instance)
        return NVML_ERROR_INVALID_ARGUMENT;
    *is_instance = device->instance > 0;
    return NVML_SUCCESS;
}

static int instance_id(nvml_device_t device, int (*id_of)(int instance), unsigned *id)
{
    BEGUN();
    if (!nvml_valid(device) || !id)
        return NVML_ERROR_INVALID_ARGUMENT;
    if (device->instance == 0)
        return NVML_ERROR_NOT_SUPPORTED;
    *id = (unsigned)id_of(device->instance);
    return NVML_SUCCESS;
}

EXPORT nvmlDeviceGetGpuInstanceId(nvml_device_t device, unsigned *id)
{
    return instance_id(device, sim_gpu_instance_id, id);
}

EXPORT nvmlDeviceGetComputeInstanceId(nvml_device_t device, unsigned *id)
{
    return instance_id(device, sim_compute_instance_id, id);
}
