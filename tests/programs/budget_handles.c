/*
 * budget_handles.c: physical handles, as programs and frameworks use them.
 *
 *     budget_handles cases | shared | patterns | full | devices | report | denied
 *     budget_handles race ROUNDS
 *     budget_handles random OPERATIONS [SEED]
 *
 * The limit leaves 1 GiB for the program. After each step the ledger (as cuMemGetInfo shows it)
 * is compared with what the program holds, and with what the stand-in holds. HANDLE_FAILURES:
 * in `random` one driver call in so many fails (default 200; 0: none).
 */
#define _GNU_SOURCE
#include "budget_program.h"

#include <unistd.h>

#define STEP   (2 * MIB)
#define HANDLE CUmemGenericAllocationHandle

static __typeof__(standin_handle_bytes) *handle_bytes;
static CUcontext primary;
static uint64_t base; /* what the ledger says with no handles */

/* bytes: what the program's handles should be charged with. */
static void expect_used_at(int line, uint64_t bytes)
{
    uint64_t used = info_used() - base;

    if (used != bytes)
        case_fails("line %d: the ledger says %" PRIu64 ", not %" PRIu64, line, used, bytes);
}

/* The same, and that is what the card has lost. */
static void expect_ledger_at(int line, uint64_t bytes)
{
    uint64_t held = handle_bytes(0);

    expect_used_at(line, bytes);
    if (held != bytes)
        case_fails("line %d: the card has lost %" PRIu64 ", not %" PRIu64, line, held, bytes);
}

/* After many threads: what the driver itself holds is looked at again a moment later. */
static void let_ledger_settle(uint64_t bytes)
{
    for (int tries = 0; tries < 2000 && info_used() - base != bytes; tries++)
        usleep(1000);
}

#define EXPECT_USED(bytes)   expect_used_at(__LINE__, (bytes))
#define EXPECT_LEDGER(bytes) expect_ledger_at(__LINE__, (bytes))

static CUmemAllocationProp device_prop(int device)
{
    CUmemAllocationProp prop;

    memset(&prop, 0, sizeof(prop));
    prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    prop.location.id = device;
    return prop;
}

static CUresult create(HANDLE *handle, size_t bytes)
{
    const CUmemAllocationProp prop = device_prop(0);

    return cuMemCreate(handle, bytes, &prop, 0);
}

static HANDLE created(size_t bytes)
{
    HANDLE handle = 0;

    EXPECT_OK(create(&handle, bytes));
    return handle;
}

/* With a descriptor to give away. */
static HANDLE shareable(size_t bytes)
{
    CUmemAllocationProp prop = device_prop(0);
    HANDLE handle = 0;

    prop.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    EXPECT_OK(cuMemCreate(&handle, bytes, &prop, 0));
    return handle;
}

static CUdeviceptr reserved(size_t bytes)
{
    CUdeviceptr address = 0;

    EXPECT_OK(cuMemAddressReserve(&address, bytes, 0, 0, 0));
    return address;
}

static void allow(CUdeviceptr address, size_t bytes)
{
    CUmemAccessDesc desc;

    memset(&desc, 0, sizeof(desc));
    desc.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    desc.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    EXPECT_OK(cuMemSetAccess(address, bytes, &desc, 1));
}

/* ---- one by one ---- */

static void refused(void)
{
    HANDLE one, two, three = SENTINEL;
    size_t half = info_free() / 2 / STEP * STEP;
    CUdeviceptr range;

    case_begin("refused");
    one = created(half);
    two = created(half);
    EXPECT_LEDGER(2 * half);
    EXPECT_CODE(create(&three, half), CUDA_ERROR_OUT_OF_MEMORY);
    EXPECT_EQUAL(three, SENTINEL);
    EXPECT_LEDGER(2 * half);
    /* Addresses cost nothing. */
    range = reserved(32 * GIB);
    EXPECT_OK(cuMemAddressFree(range, 32 * GIB));
    EXPECT_OK(cuMemRelease(two));
    three = created(half);
    EXPECT_OK(cuMemRelease(one));
    EXPECT_OK(cuMemRelease(three));
    EXPECT_LEDGER(0);
    case_end();
}

/* To the last step of the granularity. */
static void fill(void)
{
    size_t left = info_free() / STEP;
    HANDLE *handles = calloc(left, sizeof(*handles));
    HANDLE more = SENTINEL;

    case_begin("fill");
    for (size_t i = 0; i < left; i++)
        handles[i] = created(STEP);
    EXPECT_LEDGER(left * STEP);
    EXPECT(info_free() < STEP);
    EXPECT_CODE(create(&more, STEP), CUDA_ERROR_OUT_OF_MEMORY);
    for (size_t i = 0; i < left; i++)
        EXPECT_OK(cuMemRelease(handles[i]));
    EXPECT_LEDGER(0);
    free(handles);
    case_end();
}

static void released_while_mapped(void)
{
    CUdeviceptr range = reserved(64 * MIB);
    HANDLE one;

    case_begin("released-while-mapped");
    one = created(64 * MIB);
    EXPECT_OK(cuMemMap(range, 64 * MIB, 0, one, 0));
    EXPECT_OK(cuMemRelease(one));
    EXPECT_LEDGER(64 * MIB);
    EXPECT_OK(cuMemUnmap(range, 64 * MIB));
    EXPECT_LEDGER(0);
    EXPECT_OK(cuMemAddressFree(range, 64 * MIB));
    case_end();
}

static void several_at_once(void)
{
    CUdeviceptr range = reserved(40 * MIB);
    HANDLE handles[3];

    case_begin("several-at-once");
    for (int i = 0; i < 3; i++) {
        handles[i] = created(10 * MIB);
        EXPECT_OK(cuMemMap(range + (size_t)i * 10 * MIB, 10 * MIB, 0, handles[i], 0));
    }
    EXPECT_OK(cuMemMap(range + 30 * MIB, 10 * MIB, 0, handles[0], 0));
    for (int i = 0; i < 2; i++)
        EXPECT_OK(cuMemRelease(handles[i]));
    EXPECT_LEDGER(30 * MIB);
    EXPECT(cuMemUnmap(range, 5 * MIB) != CUDA_SUCCESS);
    EXPECT_LEDGER(30 * MIB);
    EXPECT_OK(cuMemUnmap(range, 30 * MIB));
    EXPECT_LEDGER(20 * MIB);
    EXPECT_OK(cuMemUnmap(range + 30 * MIB, 10 * MIB));
    EXPECT_LEDGER(10 * MIB);
    EXPECT_OK(cuMemRelease(handles[2]));
    EXPECT_LEDGER(0);
    EXPECT_OK(cuMemAddressFree(range, 40 * MIB));
    case_end();
}

/* By any address of a mapping, as often as one likes, also after its last release. */
static void retained(void)
{
    CUdeviceptr range = reserved(10 * MIB);
    HANDLE one, again = 0, third = 0;

    case_begin("retained");
    one = created(10 * MIB);
    EXPECT_OK(cuMemMap(range, 10 * MIB, 0, one, 0));
    EXPECT_OK(cuMemRelease(one));
    EXPECT_OK(cuMemRetainAllocationHandle(&again, (void *)(uintptr_t)(range + 9 * MIB)));
    EXPECT_OK(cuMemRetainAllocationHandle(&third, (void *)(uintptr_t)range));
    EXPECT_EQUAL(again, one);
    EXPECT_OK(cuMemUnmap(range, 10 * MIB));
    EXPECT_LEDGER(10 * MIB);
    EXPECT_OK(cuMemRelease(again));
    EXPECT_LEDGER(10 * MIB);
    EXPECT_OK(cuMemRelease(third));
    EXPECT_LEDGER(0);
    EXPECT(cuMemRetainAllocationHandle(&again, (void *)(uintptr_t)range) != CUDA_SUCCESS);
    EXPECT_EQUAL(again, one);
    EXPECT_OK(cuMemAddressFree(range, 10 * MIB));
    case_end();
}

/* Whatever the budget has left, a call that is wrong gets the driver's own answer. */
static void wrong_calls(const char *name)
{
    CUmemAllocationProp prop = device_prop(0);
    HANDLE handle = SENTINEL;

    case_begin("%s", name);
    EXPECT_CODE(cuMemCreate(&handle, 0, &prop, 0), CUDA_ERROR_INVALID_VALUE);
    EXPECT_CODE(cuMemCreate(&handle, STEP + 1, &prop, 0), CUDA_ERROR_INVALID_VALUE);
    EXPECT_CODE(cuMemCreate(&handle, MIB, &prop, 0), CUDA_ERROR_INVALID_VALUE);
    EXPECT_CODE(cuMemCreate(NULL, STEP, &prop, 0), CUDA_ERROR_INVALID_VALUE);
    EXPECT_CODE(cuMemCreate(&handle, STEP, NULL, 0), CUDA_ERROR_INVALID_VALUE);
    prop.location.id = 99;
    EXPECT_CODE(cuMemCreate(&handle, STEP, &prop, 0), CUDA_ERROR_INVALID_DEVICE);
    prop.location.id = -1;
    EXPECT_CODE(cuMemCreate(&handle, STEP, &prop, 0), CUDA_ERROR_INVALID_DEVICE);
    prop.location.type = CU_MEM_LOCATION_TYPE_INVALID;
    EXPECT_CODE(cuMemCreate(&handle, STEP, &prop, 0), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQUAL(handle, SENTINEL);
    EXPECT_CODE(cuMemRelease(SENTINEL), CUDA_ERROR_INVALID_VALUE);
    EXPECT_CODE(cuMemRetainAllocationHandle(NULL, NULL), CUDA_ERROR_INVALID_VALUE);
    case_end();
}

/* The driver says no: what it did not do has not happened. */
static void driver_says_no(void)
{
    CUdeviceptr range = reserved(10 * MIB);
    HANDLE one, other = SENTINEL;

    case_begin("driver-says-no");
    one = created(10 * MIB);
    sim.fail("cuMemMap", 1, CUDA_ERROR_UNKNOWN);
    EXPECT_CODE(cuMemMap(range, 10 * MIB, 0, one, 0), CUDA_ERROR_UNKNOWN);
    EXPECT_OK(cuMemMap(range, 10 * MIB, 0, one, 0));
    sim.fail("cuMemRelease", 1, CUDA_ERROR_UNKNOWN);
    EXPECT_CODE(cuMemRelease(one), CUDA_ERROR_UNKNOWN);
    sim.fail("cuMemUnmap", 1, CUDA_ERROR_UNKNOWN);
    EXPECT_CODE(cuMemUnmap(range, 10 * MIB), CUDA_ERROR_UNKNOWN);
    sim.fail("cuMemRetainAllocationHandle", 1, CUDA_ERROR_UNKNOWN);
    EXPECT_CODE(cuMemRetainAllocationHandle(&other, (void *)(uintptr_t)range),
                CUDA_ERROR_UNKNOWN);
    sim.fail("cuMemCreate", 1, CUDA_ERROR_OUT_OF_MEMORY);
    EXPECT_CODE(create(&other, STEP), CUDA_ERROR_OUT_OF_MEMORY);
    EXPECT_EQUAL(other, SENTINEL);
    sim.fail_clear();
    EXPECT_LEDGER(10 * MIB);
    EXPECT_OK(cuMemRelease(one));
    EXPECT_LEDGER(10 * MIB);
    EXPECT_OK(cuMemUnmap(range, 10 * MIB));
    EXPECT_LEDGER(0);
    EXPECT_OK(cuMemAddressFree(range, 10 * MIB));
    case_end();
}

static void *without_context(void *arg)
{
    CUcontext context = (CUcontext)1;
    CUdeviceptr pointer = SENTINEL;
    HANDLE *handle = arg;

    EXPECT_OK(cuCtxGetCurrent(&context));
    EXPECT(!context);
    *handle = created(10 * MIB);
    EXPECT_CODE(cuMemAlloc_v2(&pointer, MIB), CUDA_ERROR_INVALID_CONTEXT);
    return NULL;
}

static void no_context(void)
{
    pthread_t thread;
    HANDLE handle = 0;

    case_begin("no-context");
    pthread_create(&thread, NULL, without_context, &handle);
    pthread_join(thread, NULL);
    EXPECT_LEDGER(10 * MIB);
    EXPECT_OK(cuMemRelease(handle));
    EXPECT_LEDGER(0);
    case_end();
}

/* A context takes its blocks along when it ends, but no handle and no mapping. */
static void context_ends(void)
{
    CUdeviceptr range = reserved(10 * MIB);
    CUcontext context;
    HANDLE one, two;

    case_begin("context-ends");
    MUST(cuCtxCreate_v2(&context, 0, 0));
    one = created(10 * MIB);
    two = created(4 * MIB);
    EXPECT_OK(cuMemMap(range, 10 * MIB, 0, one, 0));
    EXPECT_OK(cuMemRelease(one));
    EXPECT_OK(cuCtxDestroy_v2(context));
    MUST(cuCtxSetCurrent(primary));
    EXPECT_LEDGER(14 * MIB);
    EXPECT_OK(cuMemUnmap(range, 10 * MIB));
    EXPECT_OK(cuMemRelease(two));
    EXPECT_LEDGER(0);
    EXPECT_OK(cuMemAddressFree(range, 10 * MIB));
    case_end();
}

/* Our own calls beside somebody's capture do it no harm. */
static void beside_capture(void)
{
    CUmemAllocationProp prop = device_prop(0);
    HANDLE handle = 0, odd = SENTINEL;
    CUstream stream;
    CUgraph graph = NULL;

    case_begin("beside-capture");
    MUST(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    EXPECT_OK(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    EXPECT_OK(create(&handle, STEP));
    EXPECT_CODE(cuMemCreate(&odd, STEP + 1, &prop, 0), CUDA_ERROR_INVALID_VALUE);
    EXPECT_CODE(create(&odd, info_free() + STEP), CUDA_ERROR_OUT_OF_MEMORY);
    EXPECT_OK(cuMemRelease(handle));
    EXPECT_OK(cuStreamEndCapture(stream, &graph));
    if (graph)
        EXPECT_OK(cuGraphDestroy(graph));
    EXPECT_OK(cuStreamDestroy_v2(stream));
    EXPECT_LEDGER(0);
    case_end();
}

/* ---- with nothing left ---- */

/* NCCL asks for host memory of a NUMA node at its start and falls back where that fails. */
static void host_memory(void)
{
    static const CUmemLocationType types[] = {CU_MEM_LOCATION_TYPE_HOST,
                                              CU_MEM_LOCATION_TYPE_HOST_NUMA};
    CUmemAllocationProp prop = device_prop(0);

    case_begin("host-memory");
    for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
        CUdeviceptr range = reserved(STEP);
        uint64_t before = info_used();
        HANDLE handle = 0;

        prop.location.type = types[i];
        EXPECT_OK(cuMemCreate(&handle, STEP, &prop, 0));
        EXPECT_OK(cuMemMap(range, STEP, 0, handle, 0));
        EXPECT_EQUAL(info_used(), before);
        EXPECT_OK(cuMemRelease(handle));
        EXPECT_OK(cuMemUnmap(range, STEP));
        EXPECT_OK(cuMemAddressFree(range, STEP));
        EXPECT_EQUAL(info_used(), before);
    }
    case_end();
}

/* A refusal asks the driver for nothing but what the card has free. */
static void refused_quietly(void)
{
    HANDLE handle = SENTINEL;

    case_begin("refused-quietly");
    sim.reset_counts();
    EXPECT_CODE(create(&handle, 100 * MIB), CUDA_ERROR_OUT_OF_MEMORY);
    EXPECT_EQUAL(sim.calls("cuMem*") - sim.calls("cuMemGetInfo_v2"), 0);
    EXPECT_EQUAL(handle, SENTINEL);
    case_end();
}

static void full(void)
{
    HANDLE all;

    case_begin("full");
    all = created(info_free() / STEP * STEP);
    case_end();
    wrong_calls("wrong-calls-when-full");
    host_memory();
    refused_quietly();
    MUST(cuMemRelease(all));
}

/* ---- shared ---- */

static int export(HANDLE handle)
{
    int file = -1;

    EXPECT_OK(cuMemExportToShareableHandle(&file, handle,
                                           CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
    return file;
}

static HANDLE import(int file)
{
    HANDLE handle = 0;

    EXPECT_OK(cuMemImportFromShareableHandle(&handle, (void *)(intptr_t)file,
                                             CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
    return handle;
}

/* What was exported once is charged until the process ends: `gone` in all so far. */
static uint64_t gone;

static void exported(void)
{
    CUdeviceptr range = reserved(10 * MIB);
    CUcontext context;
    uint64_t before;
    HANDLE one;
    int file;

    case_begin("exported");
    one = shareable(10 * MIB);
    sim.fail("cuMemExportToShareableHandle", 1, CUDA_ERROR_NOT_SUPPORTED);
    EXPECT_CODE(
        cuMemExportToShareableHandle(&file, one, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0),
        CUDA_ERROR_NOT_SUPPORTED);
    sim.fail_clear();
    EXPECT_OK(cuMemRelease(one));
    EXPECT_LEDGER(0);
    one = shareable(10 * MIB);
    EXPECT_OK(cuMemMap(range, 10 * MIB, 0, one, 0));
    file = export(one);
    gone += 10 * MIB;
    EXPECT_OK(cuMemRelease(one));
    EXPECT_OK(cuMemUnmap(range, 10 * MIB));
    /* Whoever has the descriptor has the memory; NVML shows it for nobody. */
    EXPECT_LEDGER(gone);
    /* So a context that begins now is measured as large as it is. */
    before = info_used();
    MUST(cuCtxCreate_v2(&context, 0, 0));
    EXPECT_EQUAL(info_used() - before, charge_is_requested() ? 0 : sim.context_bytes(0) / 2);
    EXPECT_OK(cuCtxDestroy_v2(context));
    MUST(cuCtxSetCurrent(primary));
    EXPECT_EQUAL(info_used(), before);
    close(file);
    EXPECT_USED(gone);
    EXPECT_OK(cuMemAddressFree(range, 10 * MIB));
    case_end();
}

static void imported_own(void)
{
    CUdeviceptr range = reserved(20 * MIB);
    HANDLE one, again;
    int file;

    case_begin("imported-own");
    one = shareable(10 * MIB);
    file = export(one);
    gone += 10 * MIB;
    again = import(file);
    EXPECT_USED(gone);
    EXPECT_OK(cuMemMap(range, 10 * MIB, 0, one, 0));
    EXPECT_OK(cuMemMap(range + 10 * MIB, 10 * MIB, 0, again, 0));
    EXPECT_OK(cuMemRelease(again));
    EXPECT_OK(cuMemUnmap(range + 10 * MIB, 10 * MIB));
    EXPECT_USED(gone);
    again = import(file);
    EXPECT_OK(cuMemUnmap(range, 10 * MIB));
    EXPECT_OK(cuMemRelease(one));
    EXPECT_USED(gone);
    EXPECT_OK(cuMemRelease(again));
    EXPECT_USED(gone);
    close(file);
    EXPECT_OK(cuMemAddressFree(range, 20 * MIB));
    case_end();
}

/* Never refused: the exporter has paid for it. */
static void imported_when_full(void)
{
    HANDLE one, all, more = SENTINEL, again;
    int file;

    case_begin("imported-when-full");
    one = shareable(10 * MIB);
    file = export(one);
    gone += 10 * MIB;
    all = created(info_free() / STEP * STEP);
    EXPECT_CODE(create(&more, STEP), CUDA_ERROR_OUT_OF_MEMORY);
    again = import(file);
    EXPECT_OK(cuMemRelease(again));
    EXPECT_OK(cuMemRelease(all));
    EXPECT_OK(cuMemRelease(one));
    close(file);
    EXPECT_USED(gone);
    case_end();
}

/* As a dma-buf, by address: an export too. */
static void dma_buf(void)
{
    CUdeviceptr range = reserved(10 * MIB);
    HANDLE one = created(10 * MIB);
    int file = -1;

    case_begin("dma-buf");
    EXPECT_OK(cuMemMap(range, 10 * MIB, 0, one, 0));
    EXPECT_OK(cuMemRelease(one));
    sim.fail("cuMemGetHandleForAddressRange", 1, CUDA_ERROR_NOT_SUPPORTED);
    EXPECT_CODE(cuMemGetHandleForAddressRange(&file, range, STEP,
                                              CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0),
                CUDA_ERROR_NOT_SUPPORTED);
    sim.fail_clear();
    EXPECT_OK(cuMemUnmap(range, 10 * MIB));
    EXPECT_USED(gone);
    one = created(10 * MIB);
    EXPECT_OK(cuMemMap(range, 10 * MIB, 0, one, 0));
    EXPECT_OK(cuMemGetHandleForAddressRange(&file, range + STEP, STEP,
                                            CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0));
    gone += 10 * MIB;
    EXPECT_OK(cuMemUnmap(range, 10 * MIB));
    EXPECT_OK(cuMemRelease(one));
    EXPECT_USED(gone);
    close(file);
    EXPECT_OK(cuMemAddressFree(range, 10 * MIB));
    case_end();
}

/* A device takes something for each object that it is in (how much was not measured). */
#define IN_OBJECT (2 * MIB)

static void add_device(HANDLE object)
{
    uint64_t live = sim.live_bytes(0);

    MUST(cuMulticastAddDevice(object, 0));
    EXPECT_EQUAL(sim.live_bytes(0) - live, IN_OBJECT);
    base += charge_is_requested() ? 0 : IN_OBJECT;
}

/* Which is found by the next call that looks. */
static void object_ended(void)
{
    static const char text[] = ".version 7.0\n.target sm_70\n.address_size 64\n";
    CUmodule module;

    MUST(cuModuleLoadData(&module, text));
    EXPECT_OK(cuModuleUnload(module));
    base -= charge_is_requested() ? 0 : IN_OBJECT;
}

/* Bound to a multicast object, by handle and by address. Never on a real card. */
static void multicast(void)
{
    CUdeviceptr range = reserved(20 * MIB);
    CUmulticastObjectProp prop;
    HANDLE object = 0, one, two;

    case_begin("multicast");
    memset(&prop, 0, sizeof(prop));
    prop.numDevices = 1;
    prop.size = 20 * MIB;
    EXPECT_OK(cuMulticastCreate(&object, &prop));
    EXPECT_USED(gone);
    add_device(object);
    EXPECT_USED(gone);
    one = created(10 * MIB);
    two = created(10 * MIB);
    EXPECT_OK(cuMulticastBindMem(object, 0, one, 0, 10 * MIB, 0));
    EXPECT(cuMulticastBindMem(object, 0, two, 0, 10 * MIB, 0) != CUDA_SUCCESS);
    EXPECT_OK(cuMemMap(range, 10 * MIB, 0, two, 0));
    EXPECT_OK(cuMulticastBindAddr(object, 10 * MIB, range, 10 * MIB, 0));
    EXPECT_OK(cuMemRelease(one));
    EXPECT_OK(cuMemRelease(two));
    EXPECT_OK(cuMemUnmap(range, 10 * MIB));
    EXPECT_USED(gone + 20 * MIB);
    EXPECT_OK(cuMulticastUnbind(object, 0, 0, 10 * MIB));
    EXPECT_USED(gone + 10 * MIB);
    /* The object ends with its mapping, and with it the binding. */
    EXPECT_OK(cuMemMap(range, 20 * MIB, 0, object, 0));
    EXPECT_OK(cuMemRelease(object));
    EXPECT_USED(gone + 10 * MIB);
    EXPECT_OK(cuMemUnmap(range, 20 * MIB));
    object_ended();
    EXPECT_USED(gone);
    EXPECT_OK(cuMemAddressFree(range, 20 * MIB));
    case_end();
}

/* What it takes cannot be given back: where as much does not fit it is not tried. */
static void multicast_when_full(void)
{
    CUmulticastObjectProp prop;
    HANDLE object = 0, all;
    unsigned long calls;

    case_begin("multicast-when-full");
    if (charge_is_requested()) {
        case_skipped("nothing is measured");
        return;
    }
    memset(&prop, 0, sizeof(prop));
    prop.numDevices = 1;
    prop.size = 20 * MIB;
    all = created(info_free() / STEP * STEP);
    MUST(cuMulticastCreate(&object, &prop));
    calls = sim.calls("cuMulticastAddDevice");
    EXPECT_CODE(cuMulticastAddDevice(object, 0), CUDA_ERROR_OUT_OF_MEMORY);
    EXPECT_EQUAL(sim.calls("cuMulticastAddDevice"), calls);
    EXPECT_OK(cuMemRelease(all));
    add_device(object);
    EXPECT_OK(cuMemRelease(object));
    object_ended();
    EXPECT_USED(gone);
    case_end();
}

/* The part of a sparse array that lies under one handle of 2 MiB, so many tiles along. */
static CUarrayMapInfo tiles(CUarray array, unsigned first, unsigned count, HANDLE handle)
{
    CUDA_ARRAY_SPARSE_PROPERTIES properties;
    CUarrayMapInfo info;

    MUST(cuArrayGetSparseProperties(&properties, array));
    memset(&info, 0, sizeof(info));
    info.resourceType = CU_RESOURCE_TYPE_ARRAY;
    info.resource.array = array;
    info.subresourceType = CU_ARRAY_SPARSE_SUBRESOURCE_TYPE_SPARSE_LEVEL;
    info.subresource.sparseLevel.offsetX = first * properties.tileExtent.width;
    info.subresource.sparseLevel.extentWidth = count * properties.tileExtent.width;
    info.subresource.sparseLevel.extentHeight = properties.tileExtent.height;
    info.subresource.sparseLevel.extentDepth = 1;
    info.memOperationType = handle ? CU_MEM_OPERATION_TYPE_MAP : CU_MEM_OPERATION_TYPE_UNMAP;
    info.memHandleType = CU_MEM_HANDLE_TYPE_GENERIC;
    info.memHandle.memHandle = handle;
    info.deviceBitMask = 1;
    return info;
}

static HANDLE tile_pool(size_t bytes)
{
    CUmemAllocationProp prop = device_prop(0);
    HANDLE handle = 0;

    prop.allocFlags.usage = CU_MEM_CREATE_USAGE_TILE_POOL;
    EXPECT_OK(cuMemCreate(&handle, bytes, &prop, 0));
    return handle;
}

static void sparse_array(void)
{
    CUDA_ARRAY3D_DESCRIPTOR desc;
    CUarrayMapInfo list[2];
    CUarray array;
    CUstream stream;
    HANDLE one, two;

    case_begin("sparse-array");
    memset(&desc, 0, sizeof(desc));
    desc.Width = desc.Height = 4096;
    desc.Format = CU_AD_FORMAT_FLOAT;
    desc.NumChannels = 1;
    desc.Flags = CUDA_ARRAY3D_SPARSE;
    MUST(cuArray3DCreate_v2(&array, &desc));
    MUST(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    one = tile_pool(2 * MIB);
    two = tile_pool(4 * MIB);
    list[0] = tiles(array, 0, 2, one);
    list[1] = tiles(array, 2, 2, two);
    sim.fail("cuMemMapArrayAsync", 1, CUDA_ERROR_UNKNOWN);
    EXPECT_CODE(cuMemMapArrayAsync(list, 2, stream), CUDA_ERROR_UNKNOWN);
    sim.fail_clear();
    EXPECT_OK(cuMemMapArrayAsync(list, 2, stream));
    EXPECT_OK(cuStreamSynchronize(stream));
    EXPECT_OK(cuMemRelease(one));
    EXPECT_OK(cuMemRelease(two));
    EXPECT_USED(gone + 6 * MIB);
    /* The stream unbinds when it gets there. */
    sim.hold(stream);
    list[0] = tiles(array, 0, 2, 0);
    EXPECT_OK(cuMemMapArrayAsync(list, 1, stream));
    EXPECT_USED(gone + 6 * MIB);
    sim.release(stream);
    EXPECT_OK(cuStreamSynchronize(stream));
    EXPECT_USED(gone + 4 * MIB);
    /* Something else in the same place takes its place; by the thread's own stream here. */
    one = tile_pool(2 * MIB);
    list[0] = tiles(array, 2, 2, one);
    EXPECT_OK(cuMemMapArrayAsync_ptsz(list, 1, NULL));
    EXPECT_OK(cuMemRelease(one));
    EXPECT_OK(cuStreamSynchronize(CU_STREAM_PER_THREAD));
    EXPECT_USED(gone + 2 * MIB);
    /* Tile by tile; the last one of a handle ends it. */
    for (unsigned i = 0; i < 4; i++) {
        EXPECT_USED(gone + 2 * MIB);
        list[0] = tiles(array, i, 1, 0);
        EXPECT_OK(cuMemMapArrayAsync(list, 1, stream));
        EXPECT_OK(cuStreamSynchronize(stream));
    }
    EXPECT_USED(gone);
    EXPECT_OK(cuStreamDestroy_v2(stream));
    EXPECT_OK(cuArrayDestroy(array));
    case_end();
}

/* What is bound to an array ends with the array's context. */
static void sparse_array_of_a_context(void)
{
    CUDA_ARRAY3D_DESCRIPTOR desc;
    CUarrayMapInfo list;
    CUcontext before, context;
    CUarray array;
    CUstream stream;
    HANDLE one;

    case_begin("sparse-array-of-a-context");
    MUST(cuCtxGetCurrent(&before));
    memset(&desc, 0, sizeof(desc));
    desc.Width = desc.Height = 4096;
    desc.Format = CU_AD_FORMAT_FLOAT;
    desc.NumChannels = 1;
    desc.Flags = CUDA_ARRAY3D_SPARSE;
    for (int released = 0; released < 2; released++) {
        MUST(cuCtxCreate_v4(&context, NULL, 0, 0));
        MUST(cuArray3DCreate_v2(&array, &desc));
        MUST(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
        one = tile_pool(2 * MIB);
        list = tiles(array, 0, 2, one);
        EXPECT_OK(cuMemMapArrayAsync(&list, 1, stream));
        EXPECT_OK(cuStreamSynchronize(stream));
        if (released)
            EXPECT_OK(cuMemRelease(one));
        MUST(cuCtxDestroy_v2(context));
        MUST(cuCtxSetCurrent(before));
        EXPECT_USED(gone + (released ? 0 : 2 * MIB));
        if (!released)
            EXPECT_OK(cuMemRelease(one));
        EXPECT_USED(gone);
    }
    case_end();
}

/* Of an array whose memory comes later, but as a whole, the driver ignores the part. */
static void deferred_array(void)
{
    CUDA_ARRAY_MEMORY_REQUIREMENTS requirements;
    CUDA_ARRAY3D_DESCRIPTOR desc;
    CUarrayMapInfo info;
    CUarray array;
    CUstream stream;
    HANDLE one;

    case_begin("deferred-array");
    memset(&desc, 0, sizeof(desc));
    desc.Width = desc.Height = 1024;
    desc.Format = CU_AD_FORMAT_FLOAT;
    desc.NumChannels = 1;
    desc.Flags = CUDA_ARRAY3D_DEFERRED_MAPPING;
    MUST(cuArray3DCreate_v2(&array, &desc));
    MUST(cuArrayGetMemoryRequirements(&requirements, array, 0));
    MUST(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    one = tile_pool(requirements.size);
    memset(&info, 0, sizeof(info));
    info.resourceType = CU_RESOURCE_TYPE_ARRAY;
    info.resource.array = array;
    info.subresource.sparseLevel.offsetX = 77;
    info.memOperationType = CU_MEM_OPERATION_TYPE_MAP;
    info.memHandleType = CU_MEM_HANDLE_TYPE_GENERIC;
    info.memHandle.memHandle = one;
    info.deviceBitMask = 1;
    EXPECT_OK(cuMemMapArrayAsync(&info, 1, stream));
    EXPECT_OK(cuMemRelease(one));
    EXPECT_USED(gone + requirements.size);
    info.subresourceType = CU_ARRAY_SPARSE_SUBRESOURCE_TYPE_MIPTAIL;
    info.memOperationType = CU_MEM_OPERATION_TYPE_UNMAP;
    info.memHandle.memHandle = 0;
    EXPECT_OK(cuMemMapArrayAsync(&info, 1, stream));
    EXPECT_OK(cuStreamSynchronize(stream));
    EXPECT_USED(gone);
    EXPECT_OK(cuStreamDestroy_v2(stream));
    EXPECT_OK(cuArrayDestroy(array));
    case_end();
}

/* ---- as frameworks do it ---- */

/* llama.cpp: one large range, grown at its end; each handle is released once it is mapped. */
static void llama_pool(void)
{
    const size_t most = 32 * GIB;
    CUdeviceptr range = reserved(most);
    size_t size = 0;
    unsigned grown = 0;
    HANDLE handle;
    CUresult code;

    case_begin("llama-pool");
    do {
        size_t wanted = (1 + grown % 5) * 16 * MIB;

        code = create(&handle, wanted);
        if (code != CUDA_SUCCESS)
            break;
        EXPECT_OK(cuMemMap(range + size, wanted, 0, handle, 0));
        EXPECT_OK(cuMemRelease(handle));
        allow(range + size, wanted);
        size += wanted;
        grown++;
        EXPECT_LEDGER(size);
    } while (grown < 1000);
    EXPECT_CODE(code, CUDA_ERROR_OUT_OF_MEMORY);
    EXPECT(size > 900 * MIB);
    EXPECT_OK(cuMemUnmap(range, size));
    EXPECT_OK(cuMemAddressFree(range, most));
    EXPECT_LEDGER(0);
    case_end();
}

/*
 * PyTorch with expandable segments: a range larger than the card, handles of 20 MiB that stay
 * open while they are mapped. Out of memory: what is cached goes, then once more.
 */
static void expandable_segments(void)
{
    enum { PIECES = 40 };
    const size_t piece = 20 * MIB;
    size_t most = info_total() / 8 * 9 / STEP * STEP;
    CUdeviceptr range = reserved(most);
    HANDLE handles[PIECES] = {0}, other[PIECES] = {0}, more = SENTINEL;
    CUdeviceptr second = reserved(most);
    int fitting = 0;

    case_begin("expandable-segments");
    for (int i = 0; i < PIECES; i++) {
        handles[i] = created(piece);
        EXPECT_OK(cuMemMap(range + (size_t)i * piece, piece, 0, handles[i], 0));
        allow(range + (size_t)i * piece, piece);
    }
    EXPECT_LEDGER(PIECES * piece);
    while (fitting < PIECES && create(&other[fitting], piece) == CUDA_SUCCESS)
        fitting++;
    EXPECT(fitting < PIECES);
    EXPECT_CODE(create(&more, piece), CUDA_ERROR_OUT_OF_MEMORY);
    for (int i = 10; i < 20; i++) { /* from the middle */
        EXPECT_OK(cuMemUnmap(range + (size_t)i * piece, piece));
        EXPECT_OK(cuMemRelease(handles[i]));
    }
    EXPECT_LEDGER((size_t)(PIECES - 10 + fitting) * piece);
    for (int i = 0; i < 10; i++) {
        handles[10 + i] = created(piece);
        EXPECT_OK(cuMemMap(second + (size_t)i * piece, piece, 0, handles[10 + i], 0));
    }
    EXPECT_CODE(create(&more, piece), CUDA_ERROR_OUT_OF_MEMORY);
    for (int i = 0; i < fitting; i++)
        EXPECT_OK(cuMemRelease(other[i]));
    for (int i = 0; i < PIECES; i++)
        EXPECT_OK(cuMemRelease(handles[i]));
    EXPECT_LEDGER(PIECES * piece);
    for (int i = 0; i < PIECES; i++)
        EXPECT_OK(cuMemUnmap(
            (i >= 10 && i < 20 ? second - 10 * piece : range) + (size_t)i * piece, piece));
    EXPECT_LEDGER(0);
    EXPECT_OK(cuMemAddressFree(range, most));
    EXPECT_OK(cuMemAddressFree(second, most));
    case_end();
}

/* Sleep and wake of an inference engine: the memory goes and comes behind the same addresses.
 */
static void sleep_and_wake(void)
{
    const size_t sizes[] = {200 * MIB, 64 * MIB, 2 * MIB, 500 * MIB};
    CUdeviceptr ranges[4];
    HANDLE handles[4], other;

    case_begin("sleep-and-wake");
    for (int i = 0; i < 4; i++)
        ranges[i] = reserved(sizes[i]);
    for (int round = 0; round < 20; round++) {
        for (int i = 0; i < 4; i++) {
            handles[i] = created(sizes[i]);
            EXPECT_OK(cuMemMap(ranges[i], sizes[i], 0, handles[i], 0));
            allow(ranges[i], sizes[i]);
        }
        EXPECT_LEDGER(766 * MIB);
        for (int i = 0; i < 4; i++) {
            EXPECT_OK(cuMemUnmap(ranges[i], sizes[i]));
            EXPECT_OK(cuMemRelease(handles[i]));
        }
        EXPECT_LEDGER(0);
        other = created(1000 * MIB); /* asleep, all of it is another's */
        EXPECT_CODE(create(&handles[0], sizes[0]), CUDA_ERROR_OUT_OF_MEMORY);
        EXPECT_OK(cuMemRelease(other));
    }
    for (int i = 0; i < 4; i++)
        EXPECT_OK(cuMemAddressFree(ranges[i], sizes[i]));
    case_end();
}

struct peer {
    int file;
    size_t bytes;
};

/* A rank on a thread without a context: imports, maps, lets go. */
static void *peer(void *arg)
{
    const struct peer *rank = arg;
    CUdeviceptr range = reserved(rank->bytes);
    HANDLE handle = import(rank->file), again = 0;

    EXPECT_OK(cuMemMap(range, rank->bytes, 0, handle, 0));
    allow(range, rank->bytes);
    EXPECT_OK(cuMemRetainAllocationHandle(&again, (void *)(uintptr_t)range));
    EXPECT_OK(cuMemRelease(again));
    EXPECT_OK(cuMemUnmap(range, rank->bytes));
    EXPECT_OK(cuMemRelease(handle));
    EXPECT_OK(cuMemAddressFree(range, rank->bytes));
    return NULL;
}

/* NCCL: host memory is probed for, buffers are created, mapped, exported to each peer. */
static void *rank(void *arg)
{
    CUmemAllocationProp prop = device_prop(0);
    CUdeviceptr range = reserved(4 * MIB);
    struct peer other = {-1, 4 * MIB};
    HANDLE host = 0, handle, again = 0;
    pthread_t thread;

    (void)arg;
    prop.location.type = CU_MEM_LOCATION_TYPE_HOST_NUMA;
    EXPECT_OK(cuMemCreate(&host, STEP, &prop, 0));
    EXPECT_OK(cuMemRelease(host));
    handle = shareable(4 * MIB);
    EXPECT_OK(cuMemMap(range, 4 * MIB, 0, handle, 0));
    allow(range, 4 * MIB);
    /* It forgets the handle and finds it again by the address. */
    EXPECT_OK(cuMemRetainAllocationHandle(&again, (void *)(uintptr_t)range));
    other.file = export(again);
    pthread_create(&thread, NULL, peer, &other);
    pthread_join(thread, NULL);
    close(other.file);
    EXPECT_OK(cuMemRelease(again));
    EXPECT_OK(cuMemUnmap(range, 4 * MIB));
    EXPECT_OK(cuMemRelease(handle));
    EXPECT_OK(cuMemAddressFree(range, 4 * MIB));
    return NULL;
}

static void nccl(void)
{
    pthread_t threads[8];

    case_begin("nccl");
    for (int i = 0; i < 8; i++)
        pthread_create(&threads[i], NULL, rank, NULL);
    for (int i = 0; i < 8; i++)
        pthread_join(threads[i], NULL);
    gone += 8 * 4 * MIB; /* no query shows that the descriptors are closed */
    EXPECT_USED(gone);
    case_end();
}

/* ---- two devices; a budget that only reports ---- */

static uint64_t used_of(int device)
{
    CUcontext context, popped;
    uint64_t used;

    MUST(cuDevicePrimaryCtxRetain(&context, device));
    MUST(cuCtxPushCurrent_v2(context));
    used = info_used();
    MUST(cuCtxPopCurrent_v2(&popped));
    MUST(cuDevicePrimaryCtxRelease_v2(device));
    return used;
}

static void devices(void)
{
    CUmemAllocationProp there = device_prop(1);
    CUdeviceptr range = reserved(4 * MIB);
    CUcontext kept;
    HANDLE one = 0, two = 0, more = SENTINEL;
    uint64_t before[2];

    case_begin("devices");
    MUST(cuDevicePrimaryCtxRetain(&kept, 1));
    for (int i = 0; i < 2; i++)
        before[i] = used_of(i);
    /* Whatever is current, the device that is named is charged. */
    EXPECT_OK(cuMemCreate(&one, 4 * MIB, &there, 0));
    EXPECT_OK(create(&two, 6 * MIB));
    EXPECT_EQUAL(used_of(0) - before[0], 6 * MIB);
    EXPECT_EQUAL(used_of(1) - before[1], 4 * MIB);
    EXPECT_OK(cuMemMap(range, 4 * MIB, 0, one, 0));
    EXPECT_OK(cuMemRelease(one));
    EXPECT_EQUAL(used_of(1) - before[1], 4 * MIB);
    EXPECT_OK(cuMemUnmap(range, 4 * MIB));
    EXPECT_EQUAL(used_of(1), before[1]);
    EXPECT_OK(cuMemRelease(two));
    EXPECT_EQUAL(used_of(0), before[0]);
    /* Each has its own limit. */
    EXPECT_CODE(create(&more, 3 * GIB), CUDA_ERROR_OUT_OF_MEMORY);
    EXPECT_OK(cuMemCreate(&one, 3 * GIB, &there, 0));
    EXPECT_OK(cuMemRelease(one));
    EXPECT_OK(cuMemAddressFree(range, 4 * MIB));
    case_end();
}

static void report_only(void)
{
    HANDLE one = 0, two = 0;
    size_t bytes = info_free() / STEP * STEP;

    case_begin("report-only");
    EXPECT_OK(create(&one, bytes));
    EXPECT_OK(create(&two, bytes));
    EXPECT_EQUAL(handle_bytes(0), 2 * bytes);
    EXPECT_EQUAL(info_free(), 0);
    EXPECT_OK(cuMemRelease(one));
    EXPECT_OK(cuMemRelease(two));
    EXPECT_LEDGER(0);
    case_end();
}

/* With settings that cannot be understood. */
static void denied(void)
{
    CUmemAllocationProp prop = device_prop(0);
    HANDLE handle = SENTINEL;

    case_begin("denied");
    EXPECT_CODE(cuMemCreate(&handle, STEP, &prop, 0), CUDA_ERROR_NOT_PERMITTED);
    EXPECT_EQUAL(handle, SENTINEL);
    prop.location.type = CU_MEM_LOCATION_TYPE_HOST_NUMA;
    EXPECT_OK(cuMemCreate(&handle, STEP, &prop, 0));
    EXPECT_OK(cuMemRelease(handle));
    case_end();
}

/* ---- a race ---- */

enum { RACERS = 16, FITTING = 5 };
static pthread_barrier_t start, done;
static unsigned long rounds;
static int successes;

static void *racer(void *arg)
{
    (void)arg;
    for (unsigned long round = 0; round < rounds; round++) {
        HANDLE handle = SENTINEL;
        CUresult code;

        pthread_barrier_wait(&start);
        code = create(&handle, 10 * MIB);
        if (code == CUDA_SUCCESS)
            __atomic_fetch_add(&successes, 1, __ATOMIC_SEQ_CST);
        else if (code != CUDA_ERROR_OUT_OF_MEMORY || handle != SENTINEL)
            case_fails("round %lu: code %d", round, (int)code);
        pthread_barrier_wait(&done);
        pthread_barrier_wait(&start);
        if (code == CUDA_SUCCESS)
            EXPECT_OK(cuMemRelease(handle));
        pthread_barrier_wait(&done);
    }
    return NULL;
}

/* Of sixteen that want the last bytes exactly as many get them as fit. */
static void race(void)
{
    pthread_t threads[RACERS];
    HANDLE filler;

    case_begin("race");
    pthread_barrier_init(&start, NULL, RACERS + 1);
    pthread_barrier_init(&done, NULL, RACERS + 1);
    filler = created((info_free() - (FITTING * 10 + 8) * MIB) / STEP * STEP);
    for (int i = 0; i < RACERS; i++)
        pthread_create(&threads[i], NULL, racer, NULL);
    for (unsigned long round = 0; round < rounds; round++) {
        successes = 0;
        pthread_barrier_wait(&start);
        pthread_barrier_wait(&done);
        if (successes != FITTING)
            case_fails("round %lu: %d were granted, not %d", round, successes, FITTING);
        pthread_barrier_wait(&start);
        pthread_barrier_wait(&done);
    }
    for (int i = 0; i < RACERS; i++)
        pthread_join(threads[i], NULL);
    EXPECT_OK(cuMemRelease(filler));
    EXPECT_LEDGER(0);
    case_end();
}

/* ---- at random ---- */

enum { WORKERS = 4, SLOTS = 12, RESTS = 20 };

/* One handle, some references to it, some places where it is mapped or bound. */
struct slot {
    HANDLE handle;
    size_t bytes;
    unsigned references;
    CUdeviceptr at[2]; /* 0: not mapped there */
    bool bound;
};

struct worker {
    pthread_t thread;
    uint64_t random;
    struct slot slots[SLOTS];
    CUdeviceptr range; /* two places for each slot */
    HANDLE object;
    unsigned long granted, refused, failed;
};

#define PLACE (64 * MIB)

static struct worker workers[WORKERS];
static unsigned long operations, one_in;
static pthread_barrier_t rest_begins, rest_ends;

static uint64_t below(struct worker *worker, uint64_t bound)
{
    return (random_next(&worker->random) >> 7) % bound;
}

static bool answered(struct worker *worker, CUresult code)
{
    worker->failed += code != CUDA_SUCCESS;
    return code == CUDA_SUCCESS;
}

static void begin_slot(struct worker *worker, struct slot *slot)
{
    HANDLE handle = SENTINEL;
    size_t bytes = (1 + below(worker, 32)) * STEP;
    CUresult code = create(&handle, bytes);

    if (code == CUDA_SUCCESS) {
        *slot = (struct slot){.handle = handle, .bytes = bytes, .references = 1};
        worker->granted++;
        return;
    }
    if (handle != SENTINEL)
        case_fails("a call that failed with %d wrote its output", (int)code);
    worker->refused += code == CUDA_ERROR_OUT_OF_MEMORY;
}

static void change_mapping(struct worker *worker, struct slot *slot, int place)
{
    CUdeviceptr address =
        worker->range + ((size_t)(slot - worker->slots) * 2 + (size_t)place) * PLACE;

    if (slot->at[place]) {
        if (answered(worker, cuMemUnmap(address, slot->bytes)))
            slot->at[place] = 0;
    } else if (slot->references &&
               answered(worker, cuMemMap(address, slot->bytes, 0, slot->handle, 0))) {
        slot->at[place] = address;
    }
}

static void change_binding(struct worker *worker, struct slot *slot)
{
    size_t offset = (size_t)(slot - worker->slots) * PLACE;

    if (slot->bound) {
        if (answered(worker, cuMulticastUnbind(worker->object, 0, offset, slot->bytes)))
            slot->bound = false;
    } else if (slot->references) {
        slot->bound = answered(worker, cuMulticastBindMem(worker->object, offset, slot->handle,
                                                          0, slot->bytes, 0));
    }
}

/* Both places at once, where both are full. */
static void unmap_both(struct worker *worker, struct slot *slot)
{
    if (!slot->at[0] || !slot->at[1] || slot->bytes != PLACE)
        return;
    if (answered(worker, cuMemUnmap(slot->at[0], 2 * PLACE)))
        slot->at[0] = slot->at[1] = 0;
}

static void work_once(struct worker *worker)
{
    struct slot *slot = &worker->slots[below(worker, SLOTS)];
    HANDLE handle = 0;

    if (!slot->references && !slot->at[0] && !slot->at[1] && !slot->bound)
        *slot = (struct slot){0};
    if (!slot->handle) {
        begin_slot(worker, slot);
        return;
    }
    switch (below(worker, 8)) {
    case 0:
    case 1:
    case 2:
        if (slot->references && answered(worker, cuMemRelease(slot->handle)))
            slot->references--;
        break;
    case 3:
        if (slot->at[0] &&
            answered(worker, cuMemRetainAllocationHandle(
                                 &handle, (void *)(uintptr_t)(slot->at[0] + MIB)))) {
            if (handle != slot->handle)
                case_fails("another handle was retained");
            slot->references++;
        }
        break;
    case 4:
        change_binding(worker, slot);
        break;
    case 5:
        unmap_both(worker, slot);
        break;
    default:
        change_mapping(worker, slot, (int)below(worker, 2));
        break;
    }
}

static void *work(void *arg)
{
    struct worker *worker = arg;

    for (int rest = 0; rest < RESTS; rest++) {
        for (unsigned long i = 0; i < operations / WORKERS / RESTS; i++)
            work_once(worker);
        pthread_barrier_wait(&rest_begins);
        pthread_barrier_wait(&rest_ends);
    }
    return NULL;
}

static uint64_t model_bytes(void)
{
    uint64_t bytes = 0;

    for (int w = 0; w < WORKERS; w++)
        for (int i = 0; i < SLOTS; i++) {
            const struct slot *slot = &workers[w].slots[i];

            if (slot->references || slot->at[0] || slot->at[1] || slot->bound)
                bytes += slot->bytes;
        }
    return bytes;
}

static void failures(bool on, uint64_t seed)
{
    if (!on || one_in == 0) {
        sim.fail_clear();
        return;
    }
    sim.fail_random_names("cuMemCreate,cuMemMap,cuMemUnmap,cuMemRelease,cuMemRetain*,"
                          "cuMulticast*,cuCtxGet*,cuMemGetAllocation*");
    sim.fail_random_code(CUDA_ERROR_UNKNOWN);
    sim.fail_random(seed, one_in);
}

static void let_go(struct worker *worker)
{
    for (int i = 0; i < SLOTS; i++) {
        struct slot *slot = &worker->slots[i];

        if (slot->bound)
            change_binding(worker, slot);
        for (int place = 0; place < 2; place++)
            if (slot->at[place])
                change_mapping(worker, slot, place);
        for (; slot->references; slot->references--)
            EXPECT_OK(cuMemRelease(slot->handle));
    }
    EXPECT_OK(cuMemRelease(worker->object));
    EXPECT_OK(cuMemAddressFree(worker->range, 2 * SLOTS * PLACE));
}

static void at_random(unsigned long seed)
{
    CUmulticastObjectProp prop;
    unsigned long granted = 0, refusals = 0;

    case_begin("random-seed-%lu", seed);
    memset(&prop, 0, sizeof(prop));
    prop.numDevices = 1;
    prop.size = SLOTS * PLACE;
    one_in = number_from("HANDLE_FAILURES", 200);
    pthread_barrier_init(&rest_begins, NULL, WORKERS + 1);
    pthread_barrier_init(&rest_ends, NULL, WORKERS + 1);
    for (int w = 0; w < WORKERS; w++) {
        MUST(cuMulticastCreate(&workers[w].object, &prop));
        add_device(workers[w].object);
    }
    failures(true, seed);
    for (int w = 0; w < WORKERS; w++) {
        struct worker *worker = &workers[w];

        worker->random = seed * 1000003 + (uint64_t)w + 1;
        worker->range = reserved(2 * SLOTS * PLACE);
        pthread_create(&worker->thread, NULL, work, worker);
    }
    for (unsigned long rest = 0; rest < RESTS; rest++) {
        pthread_barrier_wait(&rest_begins);
        failures(false, 0);
        let_ledger_settle(model_bytes());
        EXPECT_LEDGER(model_bytes());
        failures(true, seed + rest + 1);
        pthread_barrier_wait(&rest_ends);
    }
    failures(false, 0);
    for (int w = 0; w < WORKERS; w++) {
        pthread_join(workers[w].thread, NULL);
        granted += workers[w].granted;
        refusals += workers[w].refused;
        let_go(&workers[w]);
        object_ended();
    }
    let_ledger_settle(0);
    EXPECT_LEDGER(0);
    if (operations > 1000 && (granted == 0 || refusals == 0))
        case_fails("%lu granted, %lu refused: the limit does not lie between", granted,
                   refusals);
    case_end();
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";
    unsigned long number = argc > 2 ? strtoul(argv[2], NULL, 10) : 0;

    sim_needed();
    handle_bytes = (__typeof__(handle_bytes))dlsym(RTLD_DEFAULT, "standin_handle_bytes");
    if (strcmp(what, "denied") == 0) {
        MUST(cuInit(0));
        denied();
        return cases_status();
    }
    primary = start_device(0);
    warm_streams(8);
    base = info_used();
    if (strcmp(what, "cases") == 0) {
        refused();
        fill();
        released_while_mapped();
        several_at_once();
        retained();
        wrong_calls("wrong-calls");
        driver_says_no();
        no_context();
        beside_capture();
    } else if (strcmp(what, "shared") == 0) {
        context_ends();
        exported();
        imported_own();
        imported_when_full();
        dma_buf();
        multicast();
        multicast_when_full();
        sparse_array();
        sparse_array_of_a_context();
        deferred_array();
    } else if (strcmp(what, "patterns") == 0) {
        llama_pool();
        expandable_segments();
        sleep_and_wake();
        nccl();
    } else if (strcmp(what, "full") == 0) {
        full();
    } else if (strcmp(what, "devices") == 0) {
        devices();
    } else if (strcmp(what, "report") == 0) {
        report_only();
    } else if (strcmp(what, "race") == 0 && number > 0) {
        rounds = number;
        race();
    } else if (strcmp(what, "random") == 0 && number > 0) {
        operations = number;
        at_random(argc > 3 ? strtoul(argv[3], NULL, 10) : 1);
    } else {
        fprintf(stderr,
                "usage: budget_handles cases|shared|patterns|full|devices|report|denied|"
                "race ROUNDS|random OPERATIONS [SEED]\n");
        return 2;
    }
    return cases_status();
}
