/*
 * nvml_calls.c: the hooks of NVML's functions, how they are found, and the functions that are
 * exported for programs linked with -lnvidia-ml.
 */
#define _GNU_SOURCE
#include "interpose/nvml_calls.h"

#include <dlfcn.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "interpose/nvml_answer.h"
#include "interpose/real.h"
#include "interpose/substitute.h"
#include "interpose/text.h"

enum { COPIES = 4 };

static _Atomic(struct gb_nvml_copy *) copies[COPIES]; /* never freed */

static const char *const names[GB_NVML_CALLS] = {
    [GB_NVML_MEMORY_INFO] = "nvmlDeviceGetMemoryInfo",
    [GB_NVML_MEMORY_INFO_V2] = "nvmlDeviceGetMemoryInfo_v2"};

bool gb_nvml_call_find(const char *name, enum gb_nvml_call *call)
{
    for (int i = 0; i < GB_NVML_CALLS; i++)
        if (gb_text_equal(name, names[i])) {
            *call = (enum gb_nvml_call)i;
            return true;
        }
    return false;
}

/* ---- the hooks ---- */

static int memory_info(int number, gb_nvml_device device, struct gb_nvml_memory_v1 *memory)
{
    const struct gb_nvml_copy *copy = atomic_load(&copies[number]);
    int code = ((gb_nvml_memory_v1_fn *)copy->real[GB_NVML_MEMORY_INFO])(device, memory);
    struct gb_nvml_size size;

    if (code != GB_NVML_OK || !memory)
        return code;
    size = (struct gb_nvml_size){memory->total, memory->free};
    if (gb_nvml_answer(copy, device, &size)) {
        memory->total = size.total;
        memory->free = size.free;
        memory->used = size.total - size.free;
    }
    return code;
}

static int memory_info_v2(int number, gb_nvml_device device, struct gb_nvml_memory_v2 *memory)
{
    const struct gb_nvml_copy *copy = atomic_load(&copies[number]);
    int code = ((gb_nvml_memory_v2_fn *)copy->real[GB_NVML_MEMORY_INFO_V2])(device, memory);
    struct gb_nvml_size size;

    /* The driver has accepted the version; one that is not known here may be longer. */
    if (code != GB_NVML_OK || !memory || memory->version != GB_NVML_MEMORY_V2)
        return code;
    size = (struct gb_nvml_size){gb_nvml_usable(memory), memory->free};
    if (gb_nvml_answer(copy, device, &size)) {
        memory->total = size.total;
        memory->reserved = 0;
        memory->free = size.free;
        memory->used = size.total - size.free;
    }
    return code;
}

#define HOOKS(number)                                                                          \
    static int memory_info_##number(gb_nvml_device device, struct gb_nvml_memory_v1 *memory)   \
    {                                                                                          \
        return memory_info(number, device, memory);                                            \
    }                                                                                          \
    static int memory_info_v2_##number(gb_nvml_device device,                                  \
                                       struct gb_nvml_memory_v2 *memory)                       \
    {                                                                                          \
        return memory_info_v2(number, device, memory);                                         \
    }
HOOKS(0)
HOOKS(1)
HOOKS(2)
HOOKS(3)

static void *const hooks[COPIES][GB_NVML_CALLS] = {
    {(void *)memory_info_0, (void *)memory_info_v2_0},
    {(void *)memory_info_1, (void *)memory_info_v2_1},
    {(void *)memory_info_2, (void *)memory_info_v2_2},
    {(void *)memory_info_3, (void *)memory_info_v2_3}};

/* ---- copies ---- */

/* From the copy itself, or where it is only a part, another interposer say, from the driver's.
 */
static void *helper(void *handle, void *driver, const char *name)
{
    void *address = gb_symbol(handle, name);

    return address || !driver ? address : gb_symbol(driver, name);
}

/* NULL: there is no memory, or nothing tells its cards apart. */
static struct gb_nvml_copy *new_copy(const struct link_map *object)
{
    struct gb_nvml_copy *copy = calloc(1, sizeof(*copy));
    void *handle = copy ? gb_object_hold(object) : NULL;
    void *driver = handle ? dlopen("libnvidia-ml.so.1", RTLD_LAZY | RTLD_NOLOAD) : NULL;

    if (!handle) {
        free(copy);
        return NULL;
    }
    copy->object = object;
    for (int i = 0; i < GB_NVML_CALLS; i++)
        copy->real[i] = gb_symbol(handle, names[i]);
    copy->card_memory =
        (gb_nvml_memory_v2_fn *)(driver ? gb_symbol(driver, names[GB_NVML_MEMORY_INFO_V2])
                                        : copy->real[GB_NVML_MEMORY_INFO_V2]);
    copy->uuid = (gb_nvml_text_fn *)helper(handle, driver, "nvmlDeviceGetUUID");
    copy->name = (gb_nvml_text_fn *)helper(handle, driver, "nvmlDeviceGetName");
    copy->pci = (gb_nvml_pci_fn *)helper(handle, driver, "nvmlDeviceGetPciInfo_v3");
    copy->count = (gb_nvml_count_fn *)helper(handle, driver, "nvmlDeviceGetCount_v2");
    copy->by_index =
        (gb_nvml_by_index_fn *)helper(handle, driver, "nvmlDeviceGetHandleByIndex_v2");
    copy->mig_mode = (gb_nvml_mode_fn *)helper(handle, driver, "nvmlDeviceGetMigMode");
    copy->card_of = (gb_nvml_device_fn *)helper(handle, driver,
                                                "nvmlDeviceGetDeviceHandleFromMigDeviceHandle");
    copy->gpu_instance =
        (gb_nvml_number_fn *)helper(handle, driver, "nvmlDeviceGetGpuInstanceId");
    copy->compute_instance =
        (gb_nvml_number_fn *)helper(handle, driver, "nvmlDeviceGetComputeInstanceId");
    if (copy->uuid)
        return copy; /* both references stay with it */
    if (driver)
        dlclose(driver);
    dlclose(handle);
    free(copy);
    return NULL;
}

/* The number of the copy in that object, -1 where there is no room for one more. */
static int number_of(const struct link_map *object)
{
    struct gb_nvml_copy *made = NULL, *there;

    for (int i = 0; i < COPIES; i++) {
        there = atomic_load(&copies[i]);
        if (!there) {
            if (!made && !(made = new_copy(object)))
                return -1;
            if (atomic_compare_exchange_strong(&copies[i], &there, made))
                return i;
        }
        if (there->object == object) {
            free(made);
            return i;
        }
    }
    free(made);
    return -1;
}

void *gb_nvml_substitute(void *address, enum gb_nvml_call call)
{
    const struct link_map *object;
    int number;

    if (!address || !gb_armed())
        return address;
    object = gb_object_of(address);
    number = object ? number_of(object) : -1;
    dlerror(); /* that was none of the program's questions */
    /* What another interposer has put before it in the same object is called as it is. */
    if (number < 0 || atomic_load(&copies[number])->real[call] != address)
        return address;
    return hooks[number][call];
}

/* ---- for programs linked with it ---- */

/* What the two functions below call, once it is found. The reference on its object stays. */
static _Atomic(void *) targets[GB_NVML_CALLS];

static void *find_target(enum gb_nvml_call call)
{
    void *target = atomic_load(&targets[call]), *address, *handle;
    const struct link_map *owner;

    if (target)
        return target;
    address = gb_symbol(RTLD_NEXT, names[call]);
    owner = address ? gb_object_of(address) : NULL;
    if (owner)
        gb_object_hold(owner);
    else if ((handle = dlopen("libnvidia-ml.so.1", RTLD_LAZY | RTLD_NOLOAD)))
        address = gb_symbol(handle, names[call]);
    target = gb_nvml_substitute(address, call);
    dlerror(); /* nothing of this is the program's to see */
    if (target)
        atomic_store(&targets[call], target);
    return target;
}

__attribute__((visibility("default"))) int
nvmlDeviceGetMemoryInfo(gb_nvml_device device, struct gb_nvml_memory_v1 *memory)
{
    gb_nvml_memory_v1_fn *real = (gb_nvml_memory_v1_fn *)find_target(GB_NVML_MEMORY_INFO);

    return real ? real(device, memory) : GB_NVML_LIBRARY_NOT_FOUND;
}

__attribute__((visibility("default"))) int
nvmlDeviceGetMemoryInfo_v2(gb_nvml_device device, struct gb_nvml_memory_v2 *memory)
{
    gb_nvml_memory_v2_fn *real = (gb_nvml_memory_v2_fn *)find_target(GB_NVML_MEMORY_INFO_V2);

    return real ? real(device, memory) : GB_NVML_LIBRARY_NOT_FOUND;
}
