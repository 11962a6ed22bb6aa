/*
 * budget_nvml.c: NVML tells a program of the same card as CUDA does.
 *
 *     budget_nvml before MIB...    before cuInit, by every kind of handle; the limits in MiB
 *     budget_nvml after MIB...     after it, beside CUDA's own answers
 *     budget_nvml over             more is in use than the limit (GPUBUDGET_ON_LIMIT=report)
 *     budget_nvml card             the driver's own answers
 *
 * The limits are in the order of NVML.
 */
#define _GNU_SOURCE
#include "budget_program.h"
#include "nvml_program.h"

#include <unistd.h>

static void *device_at(unsigned int index)
{
    void *device = NULL;

    EXPECT_EQUAL(nvmlDeviceGetHandleByIndex_v2(index, &device), 0);
    return device;
}

/* Whatever it was got by, it is the card of that number. */
static void by_every_handle(unsigned int index, uint64_t total)
{
    char uuid[96], serial[96], bus[32];
    void *device = device_at(index), *same = NULL;

    case_begin("device-%u", index);
    EXPECT_EQUAL(sizes_of(device).total, total);
    EXPECT_EQUAL(nvmlDeviceGetUUID(device, uuid, sizeof(uuid)), 0);
    EXPECT_EQUAL(nvmlDeviceGetHandleByUUID(uuid, &same), 0);
    EXPECT_EQUAL(sizes_of(same).total, total);
    EXPECT_EQUAL(nvmlDeviceGetSerial(device, serial, sizeof(serial)), 0);
    EXPECT_EQUAL(nvmlDeviceGetHandleBySerial(serial, &same), 0);
    EXPECT_EQUAL(sizes_of(same).total, total);
    for (int i = 0; cuDeviceGetPCIBusId(bus, sizeof(bus), i) == CUDA_SUCCESS; i++) {
        EXPECT_EQUAL(nvmlDeviceGetHandleByPciBusId_v2(bus, &same), 0);
        if (same == device)
            EXPECT_EQUAL(sizes_of(same).total, total);
    }
    case_end();
}

/* Errors are the driver's own, and nothing is written. */
static void errors(void)
{
    struct nvml_v2 second = {.version = 99, .total = 77};
    void *device = device_at(0);

    case_begin("errors");
    EXPECT_EQUAL(nvmlDeviceGetMemoryInfo_v2(device, &second), NVML_BAD_VERSION);
    EXPECT_EQUAL(second.total, 77);
    EXPECT_EQUAL(nvmlDeviceGetMemoryInfo_v2(device, NULL), NVML_BAD_ARGUMENT);
    EXPECT_EQUAL(nvmlDeviceGetMemoryInfo(device, NULL), NVML_BAD_ARGUMENT);
    second.version = NVML_V2;
    EXPECT_EQUAL(nvmlDeviceGetMemoryInfo_v2(&second, &second), NVML_BAD_ARGUMENT);
    EXPECT_EQUAL(second.total, 77);
    case_end();
}

static void before(int count, char **limits)
{
    unsigned int devices = 0;
    CUdevice device;

    EXPECT_EQUAL(nvmlDeviceGetCount_v2(&devices), 0);
    EXPECT_EQUAL(devices, (unsigned)count);
    for (int i = 0; i < count; i++)
        by_every_handle((unsigned)i, strtoul(limits[i], NULL, 10) * MIB);
    errors();
    case_begin("no-cuda-was-begun");
    EXPECT_CODE(cuDeviceGet(&device, 0), CUDA_ERROR_NOT_INITIALIZED);
    case_end();
}

/* The device of CUDA's number i is that of NVML with the same UUID. */
static void *same_device(int ordinal)
{
    char bus[32];
    void *device = NULL;

    MUST(cuDeviceGetPCIBusId(bus, sizeof(bus), ordinal));
    EXPECT_EQUAL(nvmlDeviceGetHandleByPciBusId_v2(bus, &device), 0);
    return device;
}

static void agrees(int ordinal)
{
    struct nvml_v2 told = sizes_of(same_device(ordinal));
    size_t left = 0, total = 0, bytes = 0;

    EXPECT_OK(cuMemGetInfo_v2(&left, &total));
    EXPECT_EQUAL(told.total, total);
    EXPECT_EQUAL(told.free, left);
    EXPECT_OK(cuDeviceTotalMem_v2(&bytes, ordinal));
    EXPECT_EQUAL(told.total, bytes);
}

/* The list of processes is the card's. */
static void processes_are_the_cards(int ordinal)
{
    struct nvml_process records[8];
    unsigned int count = 8;

    EXPECT_EQUAL(nvmlDeviceGetComputeRunningProcesses_v3(same_device(ordinal), &count, records),
                 0);
    for (unsigned int i = 0; i < count && i < 8; i++)
        if (records[i].pid == (unsigned)getpid())
            EXPECT_EQUAL(records[i].bytes, sim.process_bytes(ordinal));
}

/* Others take memory: what is free stays, as long as the card has as much. */
static void beside_neighbours(int ordinal)
{
    void *device = same_device(ordinal);
    unsigned long long left = sizes_of(device).free;
    uint64_t card = sim.total_bytes(ordinal) - sim.live_bytes(ordinal);

    sim.set_other(ordinal, card - left);
    EXPECT_EQUAL(sizes_of(device).free, left);
    sim.set_other(ordinal, card - left + 10 * MIB);
    EXPECT_EQUAL(sizes_of(device).free, left - 10 * MIB);
    agrees(ordinal);
    sim.set_other(ordinal, 0);
}

static void after(int count, char **limits)
{
    MUST(cuInit(0));
    for (int i = 0; i < count; i++)
        by_every_handle((unsigned)i, strtoul(limits[i], NULL, 10) * MIB);
    errors();
    for (int i = 0; i < count; i++) {
        CUdeviceptr block;

        start_device(i);
        case_begin("beside-cuda-%d", i);
        agrees(i);
        MUST(cuMemAlloc_v2(&block, 100 * MIB));
        agrees(i);
        processes_are_the_cards(i);
        beside_neighbours(i);
        MUST(cuMemFree_v2(block));
        agrees(i);
        case_end();
    }
}

static void over(void)
{
    struct nvml_v2 told;
    CUdeviceptr block;

    case_begin("over");
    start_device(0);
    told = sizes_of(same_device(0));
    MUST(cuMemAlloc_v2(&block, told.total));
    agrees(0);
    EXPECT_EQUAL(sizes_of(same_device(0)).free, 0);
    EXPECT_EQUAL(sizes_of(same_device(0)).used, told.total);
    MUST(cuMemFree_v2(block));
    agrees(0);
    case_end();
}

/* No limit, or none that is told. */
static void card(void)
{
    struct nvml_v2 second = {.version = NVML_V2};
    struct nvml_v1 first;
    void *device = device_at(0);

    case_begin("the-cards-own");
    EXPECT_EQUAL(nvmlDeviceGetMemoryInfo(device, &first), 0);
    EXPECT_EQUAL(nvmlDeviceGetMemoryInfo_v2(device, &second), 0);
    EXPECT(second.reserved > 0);
    EXPECT_EQUAL(second.total - second.reserved, sim.total_bytes(0));
    EXPECT_EQUAL(second.total, first.total);
    EXPECT_EQUAL(first.used, second.used + second.reserved);
    case_end();
}

int main(int argc, char **argv)
{
    const char *mode = argc > 1 ? argv[1] : "";

    sim_needed();
    find_nvml();
    if (strcmp(mode, "before") == 0)
        before(argc - 2, argv + 2);
    else if (strcmp(mode, "after") == 0)
        after(argc - 2, argv + 2);
    else if (strcmp(mode, "over") == 0)
        over();
    else
        card();
    return cases_status();
}
