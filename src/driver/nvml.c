/*
 * nvml.c: the NVML client.
 *
 * Initialisation takes no lock: threads that ask at the same moment each initialise
 * (NVML counts that) and publish the same addresses.
 */
#define _GNU_SOURCE
#include "driver/nvml.h"

#include "driver/nvml_types.h"
#include "driver/symbol.h"

#include <dlfcn.h>
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define NVML_UNKNOWN_BYTES UINT64_MAX /* "not available" in a process record */

/* The first form of the process list, and the longer one of _v2 and _v3. */
struct nvml_process_short {
    unsigned int pid;
    unsigned long long bytes;
};

struct nvml_process_long {
    unsigned int pid;
    unsigned long long bytes;
    unsigned int gpu_instance, compute_instance;
};

typedef int nvml_init_fn(void);
typedef int nvml_processes_fn(gb_nvml_device device, unsigned int *count, void *records);

/* Each pointer is atomic, since several threads may publish the same value at once. */
static struct {
    _Atomic(gb_nvml_by_text_fn *) by_uuid;
    _Atomic(gb_nvml_by_text_fn *) by_pci;
    _Atomic(gb_nvml_memory_v1_fn *) memory_v1;
    _Atomic(gb_nvml_memory_v2_fn *) memory_v2;
    _Atomic(nvml_processes_fn *) processes;
    atomic_size_t record_size;
} nvml;

enum state { UNTRIED, READY, MISSING };
static atomic_int nvml_state = UNTRIED;

/* The symbol of the first of the names that the library has. */
static void *first_of(void *library, const char *const *names)
{
    for (; *names != NULL; names++) {
        void *address = gb_symbol(library, *names);

        if (address != NULL)
            return address;
    }
    return NULL;
}

static bool initialise(void)
{
    static const char *const init[] = {"nvmlInit_v2", "nvmlInit", NULL};
    static const char *const by_uuid[] = {"nvmlDeviceGetHandleByUUID", NULL};
    static const char *const by_pci[] = {"nvmlDeviceGetHandleByPciBusId_v2",
                                         "nvmlDeviceGetHandleByPciBusId", NULL};
    static const char *const memory_v1[] = {"nvmlDeviceGetMemoryInfo", NULL};
    static const char *const memory_v2[] = {"nvmlDeviceGetMemoryInfo_v2", NULL};
    static const char *const long_list[] = {"nvmlDeviceGetComputeRunningProcesses_v3",
                                            "nvmlDeviceGetComputeRunningProcesses_v2", NULL};
    static const char *const short_list[] = {"nvmlDeviceGetComputeRunningProcesses", NULL};
    void *library = dlopen("libnvidia-ml.so.1", RTLD_LAZY | RTLD_LOCAL);
    nvml_init_fn *start;
    nvml_processes_fn *processes;
    size_t record_size = sizeof(struct nvml_process_long);

    if (library == NULL)
        return false;
    start = (nvml_init_fn *)first_of(library, init);
    if (start == NULL || start() != GB_NVML_OK)
        return false;
    processes = (nvml_processes_fn *)first_of(library, long_list);
    if (processes == NULL) {
        processes = (nvml_processes_fn *)first_of(library, short_list);
        record_size = sizeof(struct nvml_process_short);
    }
    nvml.by_uuid = (gb_nvml_by_text_fn *)first_of(library, by_uuid);
    nvml.by_pci = (gb_nvml_by_text_fn *)first_of(library, by_pci);
    nvml.memory_v1 = (gb_nvml_memory_v1_fn *)first_of(library, memory_v1);
    nvml.memory_v2 = (gb_nvml_memory_v2_fn *)first_of(library, memory_v2);
    nvml.processes = processes;
    nvml.record_size = record_size;
    return true;
}

static bool ready(void)
{
    int state = atomic_load(&nvml_state);

    if (state == UNTRIED) {
        state = initialise() ? READY : MISSING;
        atomic_store(&nvml_state, state);
    }
    return state == READY;
}

void gb_nvml_forked(void)
{
    atomic_store(&nvml_state, UNTRIED);
}

static bool find_device(const char *uuid_text, const char *pci_text, gb_nvml_device *device)
{
    gb_nvml_by_text_fn *by_uuid = nvml.by_uuid;
    gb_nvml_by_text_fn *by_pci = nvml.by_pci;

    if (uuid_text != NULL && by_uuid != NULL && by_uuid(uuid_text, device) == GB_NVML_OK)
        return true;
    return pci_text != NULL && by_pci != NULL && by_pci(pci_text, device) == GB_NVML_OK;
}

/*
 * Adds up this process's records (one for each instance on a MIG card). False where one of them
 * has no figure.
 */
static bool own_bytes(const unsigned char *records, size_t record_size, unsigned int count,
                      uint64_t *bytes)
{
    const unsigned int own = (unsigned int)getpid();
    uint64_t sum = 0;

    for (unsigned int i = 0; i < count; i++) {
        struct nvml_process_short record; /* both forms begin like this */

        memcpy(&record, records + i * record_size, sizeof(record));
        if (record.pid != own)
            continue;
        if (record.bytes == NVML_UNKNOWN_BYTES)
            return false;
        sum += record.bytes;
    }
    *bytes = sum;
    return true;
}

/* Few processes share a card, so a short list on the stack is tried first. */
enum { FEW_PROCESSES = 32, MANY_PROCESSES = 1024 };

bool gb_nvml_process_bytes(const char *uuid_text, const char *pci_text, uint64_t *bytes)
{
    struct nvml_process_long few[FEW_PROCESSES];
    const size_t many_size = MANY_PROCESSES * sizeof(struct nvml_process_long);
    gb_nvml_device device;
    unsigned int count = FEW_PROCESSES;
    unsigned char *many;
    bool known;
    int result;

    if (!ready() || nvml.processes == NULL || !find_device(uuid_text, pci_text, &device))
        return false;
    result = nvml.processes(device, &count, few);
    if (result == GB_NVML_OK)
        return own_bytes((unsigned char *)few, nvml.record_size,
                         count < FEW_PROCESSES ? count : FEW_PROCESSES, bytes);
    if (result != GB_NVML_INSUFFICIENT_SIZE)
        return false;

    many = mmap(NULL, many_size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (many == MAP_FAILED)
        return false;
    count = MANY_PROCESSES;
    known = nvml.processes(device, &count, many) == GB_NVML_OK && count <= MANY_PROCESSES &&
            own_bytes(many, nvml.record_size, count, bytes);
    munmap(many, many_size);
    return known;
}

bool gb_nvml_card_bytes(const char *uuid_text, const char *pci_text, uint64_t *total,
                        uint64_t *free, uint64_t *used)
{
    struct gb_nvml_memory_v2 memory;
    gb_nvml_device device;

    if (!ready() || !find_device(uuid_text, pci_text, &device))
        return false;
    memset(&memory, 0, sizeof(memory));
    memory.version = GB_NVML_MEMORY_V2;
    if (nvml.memory_v2 == NULL || nvml.memory_v2(device, &memory) != GB_NVML_OK) {
        struct gb_nvml_memory_v1 old;

        if (nvml.memory_v1 == NULL || nvml.memory_v1(device, &old) != GB_NVML_OK)
            return false;
        memory.total = old.total;
        memory.reserved = 0;
        memory.free = old.free;
        memory.used = old.used;
    }
    if (total != NULL)
        *total = memory.total - memory.reserved;
    if (free != NULL)
        *free = memory.free;
    if (used != NULL)
        *used = memory.used;
    return true;
}
