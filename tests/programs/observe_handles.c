/* Physical handles: places, references, exports and imports; multicast objects on the stand-in.
 */
#include "observations.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define FD     CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR
#define FABRIC CU_MEM_HANDLE_TYPE_FABRIC

static CUmemAllocationProp props_of(CUmemLocationType type, int id, unsigned handle_types)
{
    CUmemAllocationProp props;
    memset(&props, 0, sizeof(props));
    props.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    props.location.type = type;
    props.location.id = id;
    props.requestedHandleTypes = (CUmemAllocationHandleType)handle_types;
    return props;
}

static CUresult create(CUmemGenericAllocationHandle *handle, CUmemLocationType type, int id,
                       unsigned handle_types)
{
    CUmemAllocationProp props = props_of(type, id, handle_types);
    return cuMemCreate(handle, 64 * MIB, &props, 0);
}

void observe_handle_places(void)
{
    CUmemAllocationProp props;
    CUmemGenericAllocationHandle handle = 0x77;
    CUresult code;
    uint64_t before;
    cuInit(0);
    /* Without a context. */
    observe_code(create(&handle, CU_MEM_LOCATION_TYPE_DEVICE, 0, 0), "place.no_context");
    observe_size(observe_process_bytes(), "place.no_context.process");
    /* What a context makes of it. */
    observe_begin();
    before = observe_process_bytes();
    observe_code(cuMemRelease(handle), "place.no_context.release");
    observe_size(before - observe_process_bytes(), "place.no_context.then_context");
    before = observe_process_bytes();
    handle = 0x77;
    observe_code(create(&handle, CU_MEM_LOCATION_TYPE_DEVICE, 4711, 0), "place.no_device");
    observe_fact(handle == 0x77, "place.no_device.handle_untouched");
    observe_code(create(&handle, CU_MEM_LOCATION_TYPE_INVALID, 0, 0), "place.nowhere");
    observe_code(create(&handle, CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT, 0, 0),
                 "place.numa_current");
    observe_code(create(&handle, CU_MEM_LOCATION_TYPE_HOST_NUMA, -1, 0), "place.numa_negative");
    observe_code(create(&handle, CU_MEM_LOCATION_TYPE_HOST, 0, FD), "place.host_exportable");
    code = create(&handle, CU_MEM_LOCATION_TYPE_HOST, 0, 0);
    observe_code(code, "place.host");
    if (!code) {
        observe_size(observe_process_bytes() - before, "place.host.process");
        cuMemRelease(handle);
    }
    code = create(&handle, CU_MEM_LOCATION_TYPE_HOST_NUMA, 0, 0);
    observe_code(code, "place.numa");
    if (!code) {
        observe_size(observe_process_bytes() - before, "place.numa.process");
        cuMemRelease(handle);
    }
    code = create(&handle, CU_MEM_LOCATION_TYPE_DEVICE, 0, FABRIC);
    observe_code(code, "place.fabric");
    if (!code)
        cuMemRelease(handle);
    props = props_of(CU_MEM_LOCATION_TYPE_DEVICE, 0, 0);
    props.allocFlags.compressionType = CU_MEM_ALLOCATION_COMP_GENERIC;
    before = observe_process_bytes();
    code = cuMemCreate(&handle, 64 * MIB, &props, 0);
    observe_code(code, "place.compressible");
    if (!code) {
        observe_size(observe_process_bytes() - before, "place.compressible.process");
        cuMemRelease(handle);
    }
    handle = 0x77;
    props = props_of(CU_MEM_LOCATION_TYPE_DEVICE, 0, 0);
    observe_code(cuMemCreate(&handle, (size_t)1 << 50, &props, 0), "place.more_than_there_is");
    observe_fact(handle == 0x77, "place.more_than_there_is.handle_untouched");
    observe_code(cuMemCreate(&handle, 0, &props, 0), "place.zero");
    observe_code(cuMemCreate(NULL, 64 * MIB, &props, 0), "place.null");
    observe_code(cuMemCreate(&handle, 64 * MIB, NULL, 0), "place.no_props");
    observe_code(cuMemCreate(&handle, 64 * MIB, &props, 1), "place.flags");
}

void observe_handle_references(void)
{
    CUmemGenericAllocationHandle handle = 0, again = 0;
    CUmemAccessDesc access = {{CU_MEM_LOCATION_TYPE_DEVICE, 0},
                              CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    CUdeviceptr base = 0, start = 0;
    CUcontext owner = NULL;
    size_t size = 0;
    unsigned type = 0;
    CUstream stream;
    CUgraph graph = NULL;
    CUresult code;
    uint64_t before;
    observe_begin();
    stream = observe_stream();
    before = observe_process_bytes();
    observe_code(create(&handle, CU_MEM_LOCATION_TYPE_DEVICE, 0, 0), "reference.create");
    observe_code(cuMemAddressReserve(&base, 256 * MIB, 0, 0, 0), "reference.reserve");
    observe_code(cuMemMap(base, 64 * MIB, 0, handle, 0), "reference.map");
    observe_code(cuMemMap(base + 32 * MIB, 64 * MIB, 0, handle, 0), "reference.map_over");
    observe_code(cuMemMap(base + 64 * MIB, 64 * MIB, 0, handle, 0), "reference.map_again");
    code = cuMemMap(base + 128 * MIB, 32 * MIB, 0, handle, 0);
    observe_code(code, "reference.map_part");
    if (!code)
        cuMemUnmap(base + 128 * MIB, 32 * MIB);
    code = cuMemMap(base + 128 * MIB, 32 * MIB, 32 * MIB, handle, 0);
    observe_code(code, "reference.map_offset");
    if (!code)
        cuMemUnmap(base + 128 * MIB, 32 * MIB);
    observe_code(cuMemRetainAllocationHandle(&again, (void *)(uintptr_t)(base + 70 * MIB)),
                 "reference.retain");
    observe_fact(again == handle, "reference.retain_is_same");
    observe_code(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, base),
                 "reference.pointer.type");
    observe_fact(type, "reference.pointer.type");
    observe_code(cuPointerGetAttribute(&owner, CU_POINTER_ATTRIBUTE_CONTEXT, base),
                 "reference.pointer.context");
    observe_fact(owner != NULL, "reference.pointer.has_context");
    /* Of a whole mapping: before a device has access to it, and after. */
    observe_code(cuMemGetAddressRange(&start, &size, base + 70 * MIB), "reference.range");
    observe_code(cuMemSetAccess(base, 128 * MIB, &access, 1), "reference.access");
    code = cuMemGetAddressRange(&start, &size, base + 70 * MIB);
    observe_code(code, "reference.range_accessible");
    if (!code) {
        observe_size(start - base, "reference.range_accessible.start");
        observe_size(size, "reference.range_accessible.size");
    }
    cuMemRelease(handle);
    observe_code(cuMemRelease(handle), "reference.release");
    observe_size(observe_process_bytes() - before, "reference.released.process");
    observe_code(cuMemRetainAllocationHandle(&again, (void *)(uintptr_t)base),
                 "reference.retain_released");
    observe_fact(again == handle, "reference.retain_released_is_same");
    observe_code(cuMemUnmap(base, 32 * MIB), "reference.unmap_inside");
    observe_code(cuMemUnmap(base, 128 * MIB), "reference.unmap_both");
    observe_size(observe_process_bytes() - before, "reference.unmapped.process");
    observe_code(cuMemRetainAllocationHandle(&handle, (void *)(uintptr_t)base),
                 "reference.retain_unmapped");
    observe_code(cuMemRelease(again), "reference.release_last");
    observe_size(observe_process_bytes() - before, "reference.end.process");
    /* While a stream captures, and while one is held. */
    observe_code(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL),
                 "reference.capture");
    code = create(&handle, CU_MEM_LOCATION_TYPE_DEVICE, 0, 0);
    observe_code(code, "reference.captured.create");
    if (!code)
        observe_code(cuMemMap(base, 64 * MIB, 0, handle, 0), "reference.captured.map");
    observe_code(cuStreamEndCapture(stream, &graph), "reference.captured.end");
    if (code && !create(&handle, CU_MEM_LOCATION_TYPE_DEVICE, 0, 0))
        cuMemMap(base, 64 * MIB, 0, handle, 0);
    observe_code(observe_hold(stream), "reference.hold");
    observe_code(cuMemUnmap(base, 64 * MIB), "reference.held.unmap");
    observe_fact(observe_was_blocked(), "reference.held.unmap_waits");
    observe_code(cuMemRelease(handle), "reference.held.release");
    observe_fact(observe_was_blocked(), "reference.held.release_waits");
    observe_let_go();
    cuStreamSynchronize(stream);
    observe_size(observe_process_bytes() - before, "reference.held.end.process");
    cuMemAddressFree(base, 256 * MIB);
}

/* Sizes are differences to the start: of the process's figure, and of what the card holds. */
#define BOTH(name)                                                                             \
    do {                                                                                       \
        observe_size(observe_process_bytes() - process, "share." name ".process");             \
        observe_size(observe_card_bytes() - card, "share." name ".card");                      \
    } while (0)

void observe_handle_share(void)
{
    CUmemGenericAllocationHandle handle = 0, import = 0;
    CUmemAllocationProp props;
    CUdeviceptr base = 0;
    uint64_t process, card;
    int file = -1;
    observe_begin();
    process = observe_process_bytes();
    card = observe_card_bytes();
    create(&handle, CU_MEM_LOCATION_TYPE_DEVICE, 0, 0);
    observe_code(cuMemExportToShareableHandle(&file, handle, FD, 0), "share.export_private");
    cuMemRelease(handle);
    observe_code(create(&handle, CU_MEM_LOCATION_TYPE_DEVICE, 0, FD), "share.create");
    observe_code(cuMemExportToShareableHandle(&file, handle, FD, 1), "share.export_flags");
    observe_code(cuMemExportToShareableHandle(&file, handle, FD, 0), "share.export");
    BOTH("exported");
    observe_code(cuMemRelease(handle), "share.release");
    BOTH("released");
    observe_code(cuMemImportFromShareableHandle(&import, (void *)(intptr_t)file, FD),
                 "share.import_released");
    BOTH("imported_released");
    close(file);
    BOTH("closed");
    observe_code(cuMemGetAllocationPropertiesFromHandle(&props, import), "share.properties");
    observe_fact(props.requestedHandleTypes, "share.properties.types");
    observe_code(cuMemRelease(import), "share.release_import");
    BOTH("nothing_left");
    /* While the handle is there. */
    create(&handle, CU_MEM_LOCATION_TYPE_DEVICE, 0, FD);
    cuMemExportToShareableHandle(&file, handle, FD, 0);
    observe_code(cuMemImportFromShareableHandle(&import, (void *)(intptr_t)file, FD),
                 "share.import");
    observe_fact(import == handle, "share.import_is_same");
    BOTH("imported");
    cuMemAddressReserve(&base, 64 * MIB, 0, 0, 0);
    observe_code(cuMemMap(base, 64 * MIB, 0, import, 0), "share.map_import");
    BOTH("import_mapped");
    observe_code(cuMemRelease(import), "share.release_mapped_import");
    BOTH("mapped_import_released");
    observe_code(cuMemUnmap(base, 64 * MIB), "share.unmap_import");
    BOTH("import_unmapped");
    cuMemRelease(handle);
    BOTH("descriptor_left");
    close(file);
    BOTH("end");
    observe_code(cuMemImportFromShareableHandle(&import, (void *)(intptr_t)0, FD),
                 "share.import_other_file");
    cuMemAddressFree(base, 64 * MIB);
}

/* What this says is in no profile: a multicast object that goes wrong can harm a host of shared
 * GPUs, so no real driver is asked. */
void observe_multicast(void)
{
    typedef CUmemGenericAllocationHandle handle_t;
    CUresult (*object_create)(handle_t *, const CUmulticastObjectProp *) = (CUresult(*)(
        handle_t *, const CUmulticastObjectProp *))observe_symbol("cuMulticastCreate");
    CUresult (*add)(handle_t, CUdevice) =
        (CUresult(*)(handle_t, CUdevice))observe_symbol("cuMulticastAddDevice");
    CUresult (*bind)(handle_t, size_t, handle_t, size_t, size_t, unsigned long long) =
        (CUresult(*)(handle_t, size_t, handle_t, size_t, size_t,
                     unsigned long long))observe_symbol("cuMulticastBindMem");
    CUmulticastObjectProp prop;
    handle_t object = 0, memory = 0;
    uint64_t before;
    if (!observe_symbol("standin_live_bytes") || !object_create || !add || !bind)
        return;
    observe_begin();
    before = observe_process_bytes();
    memset(&prop, 0, sizeof(prop));
    prop.numDevices = 1;
    prop.size = 64 * MIB;
    printf("# multicast: create %d\n", object_create(&object, &prop));
    printf("# multicast: add %d\n", add(object, 0));
    create(&memory, CU_MEM_LOCATION_TYPE_DEVICE, 0, 0);
    printf("# multicast: bind %d\n", bind(object, 0, memory, 0, 64 * MIB, 0));
    cuMemRelease(memory);
    printf("# multicast: bound, released: %llu bytes\n",
           (unsigned long long)(observe_process_bytes() - before));
    printf("# multicast: release %d\n", cuMemRelease(object));
    printf("# multicast: left: %llu bytes\n",
           (unsigned long long)(observe_process_bytes() - before));
}
