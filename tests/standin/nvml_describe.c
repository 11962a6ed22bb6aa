/* What NVML says about a card besides its memory: names, numbers, versions, texts of codes. */
#include "nvml_types.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

void nvml_serial_text(int card, char text[32])
{
    snprintf(text, 32, "16520000000%02d", card);
}

/* What NVML tells of the card alone is refused for an instance. That it is so on a card is not
 * known: whoever asks must be able to do without. */
static int of_card(nvml_device_t device)
{
    if (!nvml_valid(device))
        return NVML_ERROR_INVALID_ARGUMENT;
    return device->instance > 0 ? NVML_ERROR_NOT_SUPPORTED : NVML_SUCCESS;
}

static int give_text(const char *text, char *buffer, unsigned length)
{
    if (!buffer)
        return NVML_ERROR_INVALID_ARGUMENT;
    if (strlen(text) >= length)
        return NVML_ERROR_INSUFFICIENT_SIZE;
    strcpy(buffer, text);
    return NVML_SUCCESS;
}

EXPORT nvmlDeviceGetName(nvml_device_t device, char *name, unsigned length)
{
    char text[96];
    BEGUN();
    if (!nvml_valid(device))
        return NVML_ERROR_INVALID_ARGUMENT;
    sim_instance_name(&nvml_settings, device->index, device->instance, text);
    return give_text(text, name, length);
}

EXPORT nvmlDeviceGetUUID(nvml_device_t device, char *uuid, unsigned length)
{
    char text[41];
    BEGUN();
    if (!nvml_valid(device))
        return NVML_ERROR_INVALID_ARGUMENT;
    sim_instance_uuid_text(device->index, device->instance, text);
    return give_text(text, uuid, length);
}

EXPORT nvmlDeviceGetSerial(nvml_device_t device, char *serial, unsigned length)
{
    char text[32];
    int code;
    BEGUN();
    code = of_card(device);
    if (code)
        return code;
    nvml_serial_text(device->index, text);
    return give_text(text, serial, length);
}

EXPORT nvmlDeviceGetIndex(nvml_device_t device, unsigned *index)
{
    BEGUN();
    if (!index || !nvml_valid(device))
        return NVML_ERROR_INVALID_ARGUMENT;
    /* Of an instance: its place on its card. */
    *index = (unsigned)(device->instance > 0 ? device->instance - 1 : device->index);
    return NVML_SUCCESS;
}

EXPORT nvmlDeviceGetMinorNumber(nvml_device_t device, unsigned *minor)
{
    int code;
    BEGUN();
    code = of_card(device);
    return code ? code : nvmlDeviceGetIndex(device, minor);
}

EXPORT nvmlDeviceGetPciInfo_v3(nvml_device_t device, struct nvml_pci *pci)
{
    char text[16];
    int code;
    BEGUN();
    code = pci ? of_card(device) : NVML_ERROR_INVALID_ARGUMENT;
    if (code)
        return code;
    memset(pci, 0, sizeof(*pci));
    sim_card_pci_text(device->index, text);
    snprintf(pci->bus_id_legacy, sizeof(pci->bus_id_legacy), "%s", text);
    snprintf(pci->bus_id, sizeof(pci->bus_id), "0000%s", text);
    sscanf(text + 5, "%x", &pci->bus);
    pci->pci_device_id = 0x233510de;
    return NVML_SUCCESS;
}

EXPORT nvmlDeviceGetPciInfo_v2(nvml_device_t device, struct nvml_pci *pci)
{
    return nvmlDeviceGetPciInfo_v3(device, pci);
}

EXPORT nvmlDeviceGetUtilizationRates(nvml_device_t device, struct nvml_utilization *rates)
{
    BEGUN();
    if (!rates || !nvml_valid(device))
        return NVML_ERROR_INVALID_ARGUMENT;
    if (nvml_instances(device->index) > 0)
        return NVML_ERROR_NOT_SUPPORTED;
    rates->gpu = rates->memory = 0;
    return NVML_SUCCESS;
}

EXPORT nvmlSystemGetDriverVersion(char *version, unsigned length)
{
    BEGUN();
    return give_text(nvml_settings.profile->driver_text, version, length);
}

/* The libcuda of the process knows which driver this is. */
EXPORT nvmlSystemGetCudaDriverVersion_v2(int *version)
{
    void *driver;
    int (*ask)(int *);
    int code = NVML_ERROR_UNKNOWN;
    BEGUN();
    if (!version)
        return NVML_ERROR_INVALID_ARGUMENT;
    driver = dlopen("libcuda.so.1", RTLD_LAZY);
    ask = driver ? (int (*)(int *))dlsym(driver, "cuDriverGetVersion") : NULL;
    if (ask && ask(version) == 0)
        code = NVML_SUCCESS;
    if (driver)
        dlclose(driver);
    return code;
}

EXPORT nvmlSystemGetCudaDriverVersion(int *version)
{
    return nvmlSystemGetCudaDriverVersion_v2(version);
}

EXPORT nvmlSystemGetNVMLVersion(char *version, unsigned length)
{
    BEGUN();
    return give_text("13.580.159.04", version, length);
}

__attribute__((visibility("default"))) const char *nvmlErrorString(int code)
{
    switch (code) {
    case NVML_SUCCESS:
        return "Success";
    case NVML_ERROR_UNINITIALIZED:
        return "Uninitialized";
    case NVML_ERROR_INVALID_ARGUMENT:
        return "Invalid Argument";
    case NVML_ERROR_NOT_SUPPORTED:
        return "Not Supported";
    case NVML_ERROR_NO_PERMISSION:
        return "Insufficient Permissions";
    case NVML_ERROR_NOT_FOUND:
        return "Not Found";
    case NVML_ERROR_INSUFFICIENT_SIZE:
        return "Insufficient Size";
    case NVML_ERROR_DRIVER_NOT_LOADED:
        return "Driver Not Loaded";
    case NVML_ERROR_FUNCTION_NOT_FOUND:
        return "Function Not Found";
    case NVML_ERROR_ARGUMENT_VERSION_MISMATCH:
        return "Argument Version Mismatch";
    default:
        return "Unknown Error";
    }
}
