/* What a program asks of a device before it has a context. */
#include "sim.h"

#include <stdio.h>
#include <stdlib.h>
#include <strings.h>

CUresult cuDeviceGet(CUdevice *device, int ordinal)
{
    SIM_ENTER(cuDeviceGet, W(device), W(ordinal));
    if (!device)
        return CUDA_ERROR_INVALID_VALUE;
    if (!sim_card_of(ordinal))
        return CUDA_ERROR_INVALID_DEVICE;
    *device = ordinal;
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetCount(int *count)
{
    SIM_ENTER(cuDeviceGetCount, W(count));
    if (!count)
        return CUDA_ERROR_INVALID_VALUE;
    *count = sim_visible_count;
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetName(char *name, int len, CUdevice dev)
{
    char text[96];
    SIM_ENTER(cuDeviceGetName, W(name), W(len), W(dev));
    struct sim_card *card = sim_card_of(dev);
    if (!name || len <= 0)
        return CUDA_ERROR_INVALID_VALUE;
    if (!card)
        return CUDA_ERROR_INVALID_DEVICE;
    sim_instance_name(&sim_settings, card->index, card->instance, text);
    snprintf(name, (size_t)len, "%s", text);
    return CUDA_SUCCESS;
}

/* The first form names the card, also where one instance of it is all that is shown. */
static CUresult get_uuid(CUuuid *uuid, CUdevice dev, bool of_instance)
{
    struct sim_card *card = sim_card_of(dev);
    if (!uuid)
        return CUDA_ERROR_INVALID_VALUE;
    if (!card)
        return CUDA_ERROR_INVALID_DEVICE;
    sim_instance_uuid(card->index, of_instance ? card->instance : 0,
                      (unsigned char *)uuid->bytes);
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetUuid(CUuuid *uuid, CUdevice dev)
{
    SIM_ENTER(cuDeviceGetUuid, W(uuid), W(dev));
    return get_uuid(uuid, dev, false);
}

CUresult cuDeviceGetUuid_v2(CUuuid *uuid, CUdevice dev)
{
    SIM_ENTER(cuDeviceGetUuid_v2, W(uuid), W(dev));
    return get_uuid(uuid, dev, true);
}

CUresult cuDeviceTotalMem(unsigned int *bytes, CUdevice dev)
{
    SIM_ENTER(cuDeviceTotalMem, W(bytes), W(dev));
    struct sim_card *card = sim_card_of(dev);
    if (!bytes)
        return CUDA_ERROR_INVALID_VALUE;
    if (!card)
        return CUDA_ERROR_INVALID_DEVICE;
    *bytes = card->total > 0xffffffffu ? 0xffffffffu : (unsigned)card->total;
    return CUDA_SUCCESS;
}

CUresult cuDeviceTotalMem_v2(size_t *bytes, CUdevice dev)
{
    SIM_ENTER(cuDeviceTotalMem_v2, W(bytes), W(dev));
    struct sim_card *card = sim_card_of(dev);
    if (!bytes)
        return CUDA_ERROR_INVALID_VALUE;
    if (!card)
        return CUDA_ERROR_INVALID_DEVICE;
    *bytes = card->total;
    return CUDA_SUCCESS;
}

static bool attribute(const struct sim_card *card, CUdevice_attribute which, int *value)
{
    const struct sim_profile *profile = sim_settings.profile;
    static const struct {
        CUdevice_attribute which;
        int value;
    } fixed[] = {
        {CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK, 1024},
        {CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X, 1024},
        {CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y, 1024},
        {CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z, 64},
        {CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X, 2147483647},
        {CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y, 65535},
        {CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z, 65535},
        {CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK, 49152},
        {CU_DEVICE_ATTRIBUTE_WARP_SIZE, 32},
        {CU_DEVICE_ATTRIBUTE_MAX_PITCH, 2147483647},
        {CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT, 512},
        {CU_DEVICE_ATTRIBUTE_TEXTURE_PITCH_ALIGNMENT, 32},
        {CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING, 1},
        {CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY, 1},
        {CU_DEVICE_ATTRIBUTE_CONCURRENT_KERNELS, 1},
        {CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT, 3},
        {CU_DEVICE_ATTRIBUTE_STREAM_PRIORITIES_SUPPORTED, 1},
        {CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY, 1},
        {CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS, 1},
        {CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED, 1},
        {CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, 1},
        {CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED, 1},
        {CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_FABRIC_SUPPORTED, 1},
        {CU_DEVICE_ATTRIBUTE_MULTICAST_SUPPORTED, 1},
        {CU_DEVICE_ATTRIBUTE_HOST_NUMA_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, 1},
        {CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED, 1},
        {CU_DEVICE_ATTRIBUTE_MEMPOOL_SUPPORTED_HANDLE_TYPES, 1},
        {CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS_V1, 1},
        {CU_DEVICE_ATTRIBUTE_CAN_USE_STREAM_WAIT_VALUE_NOR_V1, 1},
    };
    switch (which) {
    case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT:
        *value = profile->multiprocessors;
        return true;
    case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR:
        *value = profile->threads_per_multiprocessor;
        return true;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR:
        *value = profile->compute_major;
        return true;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR:
        *value = profile->compute_minor;
        return true;
    case CU_DEVICE_ATTRIBUTE_PCI_BUS_ID:
        *value = (0x0a + card->index * 0x10) & 0xff;
        return true;
    default:
        break;
    }
    for (size_t i = 0; i < sizeof(fixed) / sizeof(fixed[0]); i++)
        if (fixed[i].which == which) {
            *value = fixed[i].value;
            return true;
        }
    if (sim_array_attribute(which, value))
        return true;
    *value = 0;
    return which > 0 && which < CU_DEVICE_ATTRIBUTE_MAX;
}

CUresult cuDeviceGetAttribute(int *pi, CUdevice_attribute attrib, CUdevice dev)
{
    SIM_ENTER(cuDeviceGetAttribute, W(pi), W(attrib), W(dev));
    struct sim_card *card = sim_card_of(dev);
    int value;
    if (!pi)
        return CUDA_ERROR_INVALID_VALUE;
    if (!card)
        return CUDA_ERROR_INVALID_DEVICE;
    if (!attribute(card, attrib, &value))
        return CUDA_ERROR_INVALID_VALUE;
    *pi = value;
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetPCIBusId(char *pciBusId, int len, CUdevice dev)
{
    SIM_ENTER(cuDeviceGetPCIBusId, W(pciBusId), W(len), W(dev));
    struct sim_card *card = sim_card_of(dev);
    char text[16];
    if (!pciBusId || len <= 0)
        return CUDA_ERROR_INVALID_VALUE;
    if (!card)
        return CUDA_ERROR_INVALID_DEVICE;
    sim_card_pci_text(card->index, text);
    snprintf(pciBusId, (size_t)len, "%s", text);
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetByPCIBusId(CUdevice *dev, const char *pciBusId)
{
    SIM_ENTER(cuDeviceGetByPCIBusId, W(dev), W(pciBusId));
    if (!dev || !pciBusId)
        return CUDA_ERROR_INVALID_VALUE;
    for (int i = 0; i < sim_visible_count; i++) {
        char text[16];
        sim_card_pci_text(sim_card_of(i)->index, text);
        if (strcasecmp(text, pciBusId) == 0 || strcasecmp(text + 5, pciBusId) == 0) {
            *dev = i;
            return CUDA_SUCCESS;
        }
    }
    return CUDA_ERROR_INVALID_VALUE;
}

CUresult cuDeviceComputeCapability(int *major, int *minor, CUdevice dev)
{
    SIM_ENTER(cuDeviceComputeCapability, W(major), W(minor), W(dev));
    if (!major || !minor)
        return CUDA_ERROR_INVALID_VALUE;
    if (!sim_card_of(dev))
        return CUDA_ERROR_INVALID_DEVICE;
    *major = sim_settings.profile->compute_major;
    *minor = sim_settings.profile->compute_minor;
    return CUDA_SUCCESS;
}

CUresult cuDeviceCanAccessPeer(int *canAccessPeer, CUdevice dev, CUdevice peerDev)
{
    SIM_ENTER(cuDeviceCanAccessPeer, W(canAccessPeer), W(dev), W(peerDev));
    if (!canAccessPeer)
        return CUDA_ERROR_INVALID_VALUE;
    if (!sim_card_of(dev) || !sim_card_of(peerDev))
        return CUDA_ERROR_INVALID_DEVICE;
    *canAccessPeer = dev != peerDev;
    return CUDA_SUCCESS;
}
