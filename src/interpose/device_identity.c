/*
 * device_identity.c: what a device is called, and how much memory it has.
 */
#include "interpose/device_identity.h"

#include <string.h>

static void uuid_text(const CUuuid *uuid, const char *prefix, char *text)
{
    static const char digits[] = "0123456789abcdef";
    char *out = text;

    while (*prefix)
        *out++ = *prefix++;
    for (int i = 0; i < 16; i++) {
        unsigned char byte = (unsigned char)uuid->bytes[i];

        if (i == 4 || i == 6 || i == 8 || i == 10)
            *out++ = '-';
        *out++ = digits[byte >> 4];
        *out++ = digits[byte & 15];
    }
    *out = '\0';
}

CUresult gb_device_identify(const struct gb_driver_api *api, int ordinal,
                            struct gb_device_identity *identity)
{
    CUuuid card, instance;
    bool has_card, has_instance;
    size_t total = 0;
    CUresult code = CUDA_SUCCESS;

    memset(identity, 0, sizeof(*identity));
    identity->ordinal = (uint32_t)ordinal;
    has_card = api->cuDeviceGetUuid && api->cuDeviceGetUuid(&card, ordinal) == CUDA_SUCCESS;
    has_instance =
        api->cuDeviceGetUuid_v2 && api->cuDeviceGetUuid_v2(&instance, ordinal) == CUDA_SUCCESS;
    if (has_instance)
        uuid_text(&instance,
                  has_card && memcmp(&card, &instance, sizeof(card)) != 0 ? "MIG-" : "GPU-",
                  identity->uuid);
    else if (has_card)
        uuid_text(&card, "GPU-", identity->uuid);
    if (!api->cuDeviceGetPCIBusId ||
        api->cuDeviceGetPCIBusId(identity->pci, sizeof(identity->pci), ordinal) != CUDA_SUCCESS)
        identity->pci[0] = '\0';
    if (api->cuDeviceTotalMem_v2)
        code = api->cuDeviceTotalMem_v2(&total, ordinal);
    identity->total_bytes = total;
    return code;
}
