/* libnvidia-ml.so.1: the cards as an administrator sees them. In a process that has loaded the
 * stand-in's libcuda it shows that process's memory; elsewhere it shows idle cards. */
#include "nvml_types.h"
#include "standin.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
struct sim_settings nvml_settings;
static int started;
/* Of each card its own handle, then those of its MIG instances. */
static struct nvml_device devices[SIM_MAX_CARDS][SIM_MAX_INSTANCES + 1];

EXPORT nvmlInitWithFlags(unsigned flags)
{
    int code = NVML_SUCCESS;
    (void)flags;
    pthread_mutex_lock(&lock);
    if (!started) {
        sim_settings_read(&nvml_settings);
        for (int i = 0; i < SIM_MAX_CARDS; i++)
            for (int k = 0; k <= SIM_MAX_INSTANCES; k++)
                devices[i][k] = (struct nvml_device){i, k};
    }
    if (nvml_settings.no_nvml)
        code = NVML_ERROR_DRIVER_NOT_LOADED;
    else
        started++;
    pthread_mutex_unlock(&lock);
    return code;
}

EXPORT nvmlInit_v2(void)
{
    return nvmlInitWithFlags(0);
}

EXPORT nvmlInit(void)
{
    return nvmlInitWithFlags(0);
}

EXPORT nvmlShutdown(void)
{
    int code = NVML_SUCCESS;
    pthread_mutex_lock(&lock);
    if (started)
        started--;
    else
        code = NVML_ERROR_UNINITIALIZED;
    pthread_mutex_unlock(&lock);
    return code;
}

int nvml_begun(void)
{
    int code;
    pthread_mutex_lock(&lock);
    code = started ? NVML_SUCCESS : NVML_ERROR_UNINITIALIZED;
    pthread_mutex_unlock(&lock);
    return code;
}

int nvml_valid(nvml_device_t device)
{
    return device >= devices[0] && device < devices[nvml_settings.cards] &&
           device->instance <= nvml_instances(device->index);
}

nvml_device_t nvml_handle(int card, int instance)
{
    return &devices[card][instance];
}

int nvml_instances(int card)
{
    return nvml_settings.mig[card].count;
}

/* What the libcuda of this process says; zeros where there is none. */
static void live_view(struct standin_view *view)
{
    void *driver = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
    int (*ask)(struct standin_view *);
    memset(view, 0, sizeof(*view));
    view->size = sizeof(*view);
    ask = driver ? (int (*)(struct standin_view *))dlsym(driver, "standin_nvml_view") : NULL;
    if (!ask || ask(view) != 0)
        for (int i = 0; i < SIM_MAX_CARDS; i++)
            view->card[i].other_bytes = nvml_settings.other;
    if (driver)
        dlclose(driver);
}

static int get_count(unsigned *count)
{
    BEGUN();
    if (!count)
        return NVML_ERROR_INVALID_ARGUMENT;
    *count = (unsigned)nvml_settings.cards;
    return NVML_SUCCESS;
}

EXPORT nvmlDeviceGetCount(unsigned *count)
{
    return get_count(count);
}

EXPORT nvmlDeviceGetCount_v2(unsigned *count)
{
    return get_count(count);
}

EXPORT nvmlDeviceGetHandleByIndex_v2(unsigned index, nvml_device_t *device)
{
    BEGUN();
    if (!device || index >= (unsigned)nvml_settings.cards)
        return NVML_ERROR_INVALID_ARGUMENT;
    *device = nvml_handle((int)index, 0);
    return NVML_SUCCESS;
}

EXPORT nvmlDeviceGetHandleByIndex(unsigned index, nvml_device_t *device)
{
    return nvmlDeviceGetHandleByIndex_v2(index, device);
}

EXPORT nvmlDeviceGetHandleByUUID(const char *uuid, nvml_device_t *device)
{
    char text[41];
    BEGUN();
    if (!uuid || !device)
        return NVML_ERROR_INVALID_ARGUMENT;
    for (int i = 0; i < nvml_settings.cards; i++)
        for (int k = 0; k <= nvml_instances(i); k++) {
            sim_instance_uuid_text(i, k, text);
            if (strcasecmp(text, uuid) == 0) {
                *device = nvml_handle(i, k);
                return NVML_SUCCESS;
            }
        }
    return NVML_ERROR_NOT_FOUND;
}

/* "0000:0a:00.0", "00000000:0A:00.0" or "0a:00.0". */
EXPORT nvmlDeviceGetHandleByPciBusId_v2(const char *bus_id, nvml_device_t *device)
{
    char text[16];
    const char *tail = bus_id;
    BEGUN();
    if (!bus_id || !device)
        return NVML_ERROR_INVALID_ARGUMENT;
    if (strlen(bus_id) > 7)
        tail = bus_id + strlen(bus_id) - 7;
    for (int i = 0; i < nvml_settings.cards; i++) {
        sim_card_pci_text(i, text);
        if (strcasecmp(text + 5, tail) == 0) {
            *device = nvml_handle(i, 0);
            return NVML_SUCCESS;
        }
    }
    return NVML_ERROR_NOT_FOUND;
}

EXPORT nvmlDeviceGetHandleByPciBusId(const char *bus_id, nvml_device_t *device)
{
    return nvmlDeviceGetHandleByPciBusId_v2(bus_id, device);
}

EXPORT nvmlDeviceGetHandleBySerial(const char *serial, nvml_device_t *device)
{
    char text[32];
    BEGUN();
    if (!serial || !device)
        return NVML_ERROR_INVALID_ARGUMENT;
    for (int i = 0; i < nvml_settings.cards; i++) {
        nvml_serial_text(i, text);
        if (strcmp(text, serial) == 0) {
            *device = nvml_handle(i, 0);
            return NVML_SUCCESS;
        }
    }
    return NVML_ERROR_NOT_FOUND;
}

/* What others hold: of the instances that this process does not see each as much as the
 * settings say. */
static unsigned long long others(const struct standin_view *view, int card, int instance)
{
    return view->card[card].instance == instance ? view->card[card].other_bytes
                                                 : nvml_settings.other;
}

/* What is taken of one instance, or of a card that is not divided. */
static unsigned long long taken(const struct standin_view *view, int card, int instance)
{
    unsigned long long bytes = others(view, card, instance);
    unsigned long long size = sim_instance_bytes(&nvml_settings, card, instance);
    if (view->card[card].instance == instance)
        bytes += view->card[card].live_bytes;
    return bytes < size ? bytes : size;
}

/* An instance's memory is all for programs: what the driver keeps is not in it. */
static unsigned long long reserved(nvml_device_t device)
{
    return device->instance > 0 ? 0 : nvml_settings.profile->nvml_reserved;
}

static int card_memory(nvml_device_t device, unsigned long long *total,
                       unsigned long long *used)
{
    struct standin_view view;
    BEGUN();
    if (!nvml_valid(device))
        return NVML_ERROR_INVALID_ARGUMENT;
    if (nvml_settings.nvml_no_memory)
        return NVML_ERROR_NOT_SUPPORTED;
    live_view(&view);
    if (device->instance > 0 || nvml_instances(device->index) == 0) {
        *used = taken(&view, device->index, device->instance);
    } else {
        *used = 0;
        for (int k = 1; k <= nvml_instances(device->index); k++)
            *used += taken(&view, device->index, k);
    }
    *total =
        sim_instance_bytes(&nvml_settings, device->index, device->instance) + reserved(device);
    return NVML_SUCCESS;
}

/* The first form counts the reserved part as used, the second names it apart. */
EXPORT nvmlDeviceGetMemoryInfo(nvml_device_t device, struct nvml_memory *memory)
{
    unsigned long long total, used;
    int code = card_memory(device, &total, &used);
    if (code)
        return code;
    if (!memory)
        return NVML_ERROR_INVALID_ARGUMENT;
    memory->total = total;
    memory->used = used + reserved(device);
    memory->free = total - memory->used;
    return NVML_SUCCESS;
}

EXPORT nvmlDeviceGetMemoryInfo_v2(nvml_device_t device, struct nvml_memory_v2 *memory)
{
    unsigned long long total, used;
    int code = card_memory(device, &total, &used);
    if (code)
        return code;
    if (!memory)
        return NVML_ERROR_INVALID_ARGUMENT;
    if (memory->version != (sizeof(*memory) | 2u << 24))
        return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    memory->total = total;
    memory->reserved = reserved(device);
    memory->used = used;
    memory->free = total - memory->reserved - used;
    return NVML_SUCCESS;
}

/* Other processes are one process, of an id that is nobody's. */
#define OTHER_PID 4194303u

/* GPUSTANDIN_NVML_FAULTS, the same sequence in every run. */
static int fails(void)
{
    static unsigned long long state = 88172645463325252ull;
    unsigned long one_in =
        nvml_settings.nvml_faults ? strtoul(nvml_settings.nvml_faults, NULL, 10) : 0;
    int bad;
    pthread_mutex_lock(&lock);
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    bad = one_in && state % one_in == 0;
    pthread_mutex_unlock(&lock);
    return bad;
}

/* This process and the others, on each instance of a card. */
enum { MOST_PROCESSES = 2 * SIM_MAX_INSTANCES };

static void list(struct nvml_process_v2 *found, unsigned *count, unsigned pid,
                 unsigned long long bytes, int instance)
{
    found[*count].pid = pid;
    found[*count].bytes = bytes;
    found[*count].gpu_instance = found[*count].compute_instance = ~0u;
    if (instance > 0) {
        found[*count].gpu_instance = (unsigned)sim_gpu_instance_id(instance);
        found[*count].compute_instance = (unsigned)sim_compute_instance_id(instance);
    }
    ++*count;
}

static void processes_of(const struct standin_view *view, int card, int instance,
                         struct nvml_process_v2 *found, unsigned *count)
{
    const struct standin_view_card *own = &view->card[card];
    if (own->instance == instance && !nvml_settings.nvml_unlisted &&
        (own->process_bytes || own->has_context))
        list(found, count, (unsigned)getpid(), own->process_bytes, instance);
    if (others(view, card, instance))
        list(found, count, OTHER_PID, others(view, card, instance), instance);
}

static int processes(nvml_device_t device, unsigned *count,
                     struct nvml_process_v2 found[MOST_PROCESSES])
{
    struct standin_view view;
    BEGUN();
    if (!count || !nvml_valid(device))
        return NVML_ERROR_INVALID_ARGUMENT;
    if (nvml_settings.nvml_not_supported)
        return NVML_ERROR_NOT_SUPPORTED;
    if (fails())
        return NVML_ERROR_UNKNOWN;
    live_view(&view);
    *count = 0;
    if (device->instance > 0 || nvml_instances(device->index) == 0)
        processes_of(&view, device->index, device->instance, found, count);
    else
        for (int k = 1; k <= nvml_instances(device->index); k++)
            processes_of(&view, device->index, k, found, count);
    return NVML_SUCCESS;
}

static int room_for(unsigned room, unsigned needed, const void *infos)
{
    if (needed == 0)
        return NVML_SUCCESS;
    return room < needed || !infos ? NVML_ERROR_INSUFFICIENT_SIZE : NVML_SUCCESS;
}

EXPORT nvmlDeviceGetComputeRunningProcesses(nvml_device_t device, unsigned *count,
                                            struct nvml_process_v1 *infos)
{
    struct nvml_process_v2 found[MOST_PROCESSES];
    unsigned room = count ? *count : 0;
    int code = processes(device, count, found);
    if (!code)
        code = room_for(room, *count, infos);
    if (!code)
        for (unsigned i = 0; i < *count; i++)
            infos[i] = (struct nvml_process_v1){found[i].pid, found[i].bytes};
    return code;
}

EXPORT nvmlDeviceGetComputeRunningProcesses_v2(nvml_device_t device, unsigned *count,
                                               struct nvml_process_v2 *infos)
{
    struct nvml_process_v2 found[MOST_PROCESSES];
    unsigned room = count ? *count : 0;
    int code = processes(device, count, found);
    if (!code)
        code = room_for(room, *count, infos);
    if (!code && *count)
        memcpy(infos, found, *count * sizeof(*infos));
    return code;
}

EXPORT nvmlDeviceGetComputeRunningProcesses_v3(nvml_device_t device, unsigned *count,
                                               struct nvml_process_v2 *infos)
{
    return nvmlDeviceGetComputeRunningProcesses_v2(device, count, infos);
}

static int no_processes(nvml_device_t device, unsigned *count)
{
    BEGUN();
    if (!count || !nvml_valid(device))
        return NVML_ERROR_INVALID_ARGUMENT;
    if (nvml_settings.nvml_not_supported)
        return NVML_ERROR_NOT_SUPPORTED;
    *count = 0;
    return NVML_SUCCESS;
}

EXPORT nvmlDeviceGetGraphicsRunningProcesses(nvml_device_t device, unsigned *count,
                                             struct nvml_process_v1 *infos)
{
    (void)infos;
    return no_processes(device, count);
}

EXPORT nvmlDeviceGetGraphicsRunningProcesses_v2(nvml_device_t device, unsigned *count,
                                                struct nvml_process_v2 *infos)
{
    (void)infos;
    return no_processes(device, count);
}

EXPORT nvmlDeviceGetGraphicsRunningProcesses_v3(nvml_device_t device, unsigned *count,
                                                struct nvml_process_v2 *infos)
{
    (void)infos;
    return no_processes(device, count);
}
