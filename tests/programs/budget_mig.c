/*
 * budget_mig.c: a program on a MIG instance, of the size that is given in MiB.
 *
 *     budget_mig driver CARD INSTANCE MIB     the simulated driver's own answers
 *     budget_mig limit CARD INSTANCE MIB      what CUDA and NVML say under a limit
 *     budget_mig hold CARD INSTANCE MIB       no more than so much can be had
 *     budget_mig devices N                    so many devices, whole or not
 *
 * Cards and instances are counted as NVML does, from 0 on.
 */
#define _GNU_SOURCE
#include "budget_program.h"
#include "nvml_program.h"

#include <unistd.h>

enum { INSTANCES = 7, RECORDS = 16, NVML_NOT_FOUND = 6 };

static void *card, *instance; /* NVML's handles of what CUDA shows */

static void find_handles(const char *card_number, const char *instance_number)
{
    unsigned int index = (unsigned int)strtoul(card_number, NULL, 10);
    unsigned int place = (unsigned int)strtoul(instance_number, NULL, 10);

    case_begin("handles");
    EXPECT_EQUAL(nvmlDeviceGetHandleByIndex_v2(index, &card), 0);
    EXPECT_EQUAL(nvmlDeviceGetMigDeviceHandleByIndex(card, place, &instance), 0);
    if (!case_end())
        exit(1);
}

static void expect_uuid(void *device, const char *head, const CUuuid *uuid)
{
    char text[96] = "", wanted[96];
    int length = snprintf(wanted, sizeof(wanted), "%s-", head);

    for (int i = 0; i < 16; i++)
        length += snprintf(wanted + length, sizeof(wanted) - (size_t)length, "%s%02x",
                           i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "",
                           (unsigned int)(unsigned char)uuid->bytes[i]);
    EXPECT_EQUAL(nvmlDeviceGetUUID(device, text, sizeof(text)), 0);
    if (strcmp(text, wanted) != 0)
        case_fails("NVML says %s, CUDA %s", text, wanted);
}

static void names(void)
{
    char bus[32], name[96], other[96];
    void *same = NULL;
    CUuuid uuid;
    int count = 0;

    case_begin("names");
    EXPECT_OK(cuDeviceGetCount(&count));
    EXPECT_EQUAL(count, 1);
    EXPECT_OK(cuDeviceGetUuid(&uuid, 0));
    expect_uuid(card, "GPU", &uuid);
    EXPECT_OK(cuDeviceGetUuid_v2(&uuid, 0));
    expect_uuid(instance, "MIG", &uuid);
    EXPECT_OK(cuDeviceGetPCIBusId(bus, sizeof(bus), 0));
    EXPECT_EQUAL(nvmlDeviceGetHandleByPciBusId_v2(bus, &same), 0);
    EXPECT(same == card);
    EXPECT_OK(cuDeviceGetName(name, sizeof(name), 0));
    EXPECT_EQUAL(nvmlDeviceGetName(instance, other, sizeof(other)), 0);
    EXPECT(strcmp(name, other) == 0 && strstr(name, " MIG "));
    EXPECT_EQUAL(nvmlDeviceGetName(card, other, sizeof(other)), 0);
    EXPECT(!strstr(other, " MIG "));
    case_end();
}

static void handles(unsigned int place)
{
    char uuid[96], serial[96];
    unsigned int now = 0, pending = 0, number = 0, count = 0;
    void *same = NULL;

    case_begin("handles-of-instances");
    EXPECT_EQUAL(nvmlDeviceGetMigMode(card, &now, &pending), 0);
    EXPECT(now == 1 && pending == 1);
    EXPECT_EQUAL(nvmlDeviceGetMaxMigDeviceCount(card, &number), 0);
    EXPECT_EQUAL(number, INSTANCES);
    while (nvmlDeviceGetMigDeviceHandleByIndex(card, count, &same) == 0)
        count++;
    EXPECT(count > place && count < INSTANCES);
    EXPECT_EQUAL(nvmlDeviceGetMigDeviceHandleByIndex(card, count, &same), NVML_NOT_FOUND);
    EXPECT_EQUAL(nvmlDeviceGetMigDeviceHandleByIndex(card, INSTANCES, &same),
                 NVML_BAD_ARGUMENT);
    EXPECT_EQUAL(nvmlDeviceIsMigDeviceHandle(card, &number), 0);
    EXPECT_EQUAL(number, 0);
    EXPECT_EQUAL(nvmlDeviceIsMigDeviceHandle(instance, &number), 0);
    EXPECT_EQUAL(number, 1);
    EXPECT_EQUAL(nvmlDeviceGetDeviceHandleFromMigDeviceHandle(instance, &same), 0);
    EXPECT(same == card);
    EXPECT(nvmlDeviceGetDeviceHandleFromMigDeviceHandle(card, &same) != 0);
    EXPECT_EQUAL(nvmlDeviceGetGpuInstanceId(instance, &number), 0);
    EXPECT_EQUAL(number, place + 1);
    EXPECT_EQUAL(nvmlDeviceGetComputeInstanceId(instance, &number), 0);
    EXPECT_EQUAL(number, 0);
    EXPECT(nvmlDeviceGetGpuInstanceId(card, &number) != 0);
    EXPECT_EQUAL(nvmlDeviceGetUUID(instance, uuid, sizeof(uuid)), 0);
    EXPECT_EQUAL(nvmlDeviceGetHandleByUUID(uuid, &same), 0);
    EXPECT(same == instance);
    EXPECT(nvmlDeviceGetSerial(instance, serial, sizeof(serial)) != 0);
    case_end();
}

/* What a list says of this process: its bytes, UINT64_MAX where it is not there. */
static uint64_t listed(void *device, unsigned int *gpu_instance)
{
    struct nvml_process records[RECORDS];
    unsigned int count = RECORDS;

    EXPECT_EQUAL(nvmlDeviceGetComputeRunningProcesses_v3(device, &count, records), 0);
    for (unsigned int i = 0; i < count && i < RECORDS; i++)
        if (records[i].pid == (unsigned int)getpid()) {
            *gpu_instance = records[i].gpu_instance;
            EXPECT_EQUAL(records[i].compute_instance, 0);
            return records[i].bytes;
        }
    return UINT64_MAX;
}

/* In its instance's list and in the card's, and in no other. */
static void processes(unsigned int place)
{
    unsigned int id = 99;
    void *one;

    EXPECT_EQUAL(listed(card, &id), sim.process_bytes(0));
    EXPECT_EQUAL(id, place + 1);
    for (unsigned int i = 0; nvmlDeviceGetMigDeviceHandleByIndex(card, i, &one) == 0; i++)
        EXPECT_EQUAL(listed(one, &id), i == place ? sim.process_bytes(0) : UINT64_MAX);
}

static struct nvml_v2 own_sizes(void *device)
{
    struct nvml_v2 memory = {.version = NVML_V2};

    EXPECT_EQUAL(nvmlDeviceGetMemoryInfo_v2(device, &memory), 0);
    return memory;
}

/* All of the instance and no byte of its neighbours'. */
static void full(uint64_t size)
{
    struct nvml_v2 before, after;
    size_t bytes = 0;
    CUdeviceptr block = SENTINEL, more = SENTINEL;

    case_begin("full");
    EXPECT_OK(cuDeviceTotalMem_v2(&bytes, 0));
    EXPECT_EQUAL(bytes, size);
    EXPECT_EQUAL(info_total(), size);
    EXPECT_EQUAL(own_sizes(instance).total, size);
    before = own_sizes(card);
    EXPECT(before.total - before.reserved > size);
    EXPECT_OK(cuMemAlloc_v2(&block, info_free() / (2 * MIB) * 2 * MIB));
    EXPECT_CODE(cuMemAlloc_v2(&more, 2 * MIB), CUDA_ERROR_OUT_OF_MEMORY);
    EXPECT_EQUAL(own_sizes(instance).free, info_free());
    after = own_sizes(card);
    EXPECT(after.free > 0);
    EXPECT_EQUAL(after.total, before.total);
    EXPECT_EQUAL(after.used - before.used, sim.live_bytes(0) - sim.context_bytes(0));
    EXPECT_OK(cuMemFree_v2(block));
    case_end();
}

static void driver(unsigned int place, uint64_t size)
{
    names();
    handles(place);
    start_device(0);
    case_begin("processes");
    processes(place);
    case_end();
    full(size);
}

static void agrees(uint64_t size)
{
    struct nvml_v2 told = sizes_of(instance);
    size_t left = 0, total = 0, bytes = 0;

    EXPECT_OK(cuMemGetInfo_v2(&left, &total));
    EXPECT_EQUAL(total, size);
    EXPECT_EQUAL(told.total, total);
    EXPECT_EQUAL(told.free, left);
    EXPECT_OK(cuDeviceTotalMem_v2(&bytes, 0));
    EXPECT_EQUAL(bytes, total);
}

/* Others on the instance, of which as much is free, or less. */
static void beside_neighbours(uint64_t size)
{
    unsigned long long left = sizes_of(instance).free;
    uint64_t whole = sim.total_bytes(0) - sim.live_bytes(0);

    sim.set_other(0, whole - left);
    EXPECT_EQUAL(sizes_of(instance).free, left);
    sim.set_other(0, whole - left + 10 * MIB);
    EXPECT_EQUAL(sizes_of(instance).free, left - 10 * MIB);
    agrees(size);
    sim.set_other(0, 0);
}

static const char module_text[] = ".version 7.0\n.target sm_70\n.address_size 64\n"
                                  ".global .align 4 .b8 big[67108864];\n";

static void limited(unsigned int place, uint64_t size)
{
    CUdeviceptr block = SENTINEL;
    CUmodule module = NULL;

    names();
    case_begin("before-a-context");
    EXPECT_EQUAL(sizes_of(instance).total, size);
    case_end();
    start_device(0);
    case_begin("agrees");
    agrees(size);
    EXPECT_OK(cuMemAlloc_v2(&block, 100 * MIB));
    agrees(size);
    EXPECT_OK(cuModuleLoadData(&module, module_text));
    agrees(size);
    processes(place);
    case_end();
    case_begin("is-measured");
    if (!charge_is_requested())
        EXPECT_EQUAL(info_used() - number_from("GPUBUDGET_RESERVE", 0) * MIB,
                     sim.live_bytes(0));
    case_end();
    case_begin("beside-neighbours");
    beside_neighbours(size);
    EXPECT_OK(cuModuleUnload(module));
    EXPECT_OK(cuMemFree_v2(block));
    agrees(size);
    case_end();
}

/* So much and nothing more. */
static void hold(uint64_t most)
{
    static CUdeviceptr blocks[8192];
    size_t count = 0;

    start_device(0);
    case_begin("hold");
    while (count < 8192 && cuMemAlloc_v2(&blocks[count], 16 * MIB) == CUDA_SUCCESS)
        count++;
    EXPECT(sim.live_bytes(0) <= most);
    EXPECT(sim.live_bytes(0) + 16 * MIB > most);
    while (count > 0)
        EXPECT_OK(cuMemFree_v2(blocks[--count]));
    case_end();
}

static void devices(int wanted)
{
    int count = 0;

    case_begin("devices");
    EXPECT_CODE(cuInit(0), wanted > 0 ? CUDA_SUCCESS : CUDA_ERROR_NO_DEVICE);
    if (wanted > 0)
        EXPECT_OK(cuDeviceGetCount(&count));
    EXPECT_EQUAL(count, wanted);
    case_end();
}

int main(int argc, char **argv)
{
    const char *mode = argc > 1 ? argv[1] : "";
    unsigned int place;
    uint64_t size;

    sim_needed();
    if (strcmp(mode, "devices") == 0 && argc == 3) {
        devices(atoi(argv[2]));
        return cases_status();
    }
    if (argc != 5)
        return 2;
    MUST(cuInit(0));
    find_nvml();
    find_handles(argv[2], argv[3]);
    place = (unsigned int)strtoul(argv[3], NULL, 10);
    size = strtoull(argv[4], NULL, 10) * MIB;
    if (strcmp(mode, "driver") == 0)
        driver(place, size);
    else if (strcmp(mode, "limit") == 0)
        limited(place, size);
    else if (strcmp(mode, "hold") == 0)
        hold(size);
    else
        return 2;
    return cases_status();
}
