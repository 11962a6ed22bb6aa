/* Physical handles: who holds them, and what NVML shows meanwhile. */
#include "check_standin.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static CUmemAllocationProp props_of(CUmemLocationType type, int id, unsigned handle_types)
{
    CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                .location = {type, id},
                                .requestedHandleTypes =
                                    (CUmemAllocationHandleType)handle_types};
    return prop;
}

#define FD     CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR
#define FABRIC CU_MEM_HANDLE_TYPE_FABRIC

static CUmemGenericAllocationHandle handle_of(size_t bytes, int device, unsigned types)
{
    CUmemAllocationProp prop = props_of(CU_MEM_LOCATION_TYPE_DEVICE, device, types);
    CUmemGenericAllocationHandle handle = 0;
    OK(cuMemCreate(&handle, bytes, &prop, 0));
    return handle;
}

/* None of this needs a context. */
void check_handles(void)
{
    CUmemGenericAllocationHandle handle, again, host;
    CUmemAllocationProp prop;
    CUmemAccessDesc access = {{CU_MEM_LOCATION_TYPE_DEVICE, 0},
                              CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    CUdeviceptr base, start;
    size_t granularity;
    unsigned type;
    OK(cuInit(0));
    handle = handle_of(64 * MIB, 0, 0);
    EQUAL(standin_handle_bytes(0), 64 * MIB);
    EQUAL(standin_process_bytes(0), 64 * MIB);
    OK(cuMemAddressReserve(&base, 256 * MIB, 0, 0, 0));
    EQUAL(cuMemMap(base + MIB, 64 * MIB, 0, handle, 0), CUDA_ERROR_INVALID_VALUE);
    EQUAL(cuMemMap(base, 64 * MIB, 2 * MIB, handle, 0), CUDA_ERROR_INVALID_VALUE);
    OK(cuMemMap(base, 64 * MIB, 0, handle, 0));
    EQUAL(cuMemMap(base + 62 * MIB, 64 * MIB, 0, handle, 0), CUDA_ERROR_INVALID_VALUE);
    /* As a whole or not at all, and as often as one likes. */
    EQUAL(cuMemMap(base + 64 * MIB, 32 * MIB, 0, handle, 0), CUDA_ERROR_NOT_SUPPORTED);
    EQUAL(cuMemMap(base + 64 * MIB, 32 * MIB, 32 * MIB, handle, 0), CUDA_ERROR_NOT_SUPPORTED);
    OK(cuMemMap(base + 64 * MIB, 64 * MIB, 0, handle, 0));
    EQUAL(cuMemSetAccess(base, 192 * MIB, &access, 1), CUDA_ERROR_INVALID_VALUE);
    OK(cuMemSetAccess(base, 128 * MIB, &access, 1));
    OK(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, base + 70 * MIB));
    EQUAL(type, CU_MEMORYTYPE_DEVICE);
    OK(cuPointerGetAttribute(&start, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, base + 70 * MIB));
    EQUAL(start, base + 64 * MIB);
    EQUAL(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, base + 128 * MIB),
          CUDA_ERROR_INVALID_VALUE);
    OK(cuMemRelease(handle));
    EQUAL(cuMemRelease(handle), CUDA_ERROR_INVALID_VALUE);
    EQUAL(standin_handle_bytes(0), 64 * MIB);
    /* It comes to life again, twice. */
    OK(cuMemRetainAllocationHandle(&again, (void *)(uintptr_t)(base + 70 * MIB)));
    CHECK(again == handle);
    OK(cuMemRetainAllocationHandle(&again, (void *)(uintptr_t)base));
    EQUAL(cuMemUnmap(base, 32 * MIB), CUDA_ERROR_INVALID_VALUE);
    OK(cuMemUnmap(base, 128 * MIB)); /* both at once */
    EQUAL(cuMemRetainAllocationHandle(&again, (void *)(uintptr_t)base),
          CUDA_ERROR_INVALID_VALUE);
    OK(cuMemRelease(handle));
    EQUAL(standin_handle_bytes(0), 64 * MIB);
    OK(cuMemRelease(handle));
    EQUAL(standin_handle_bytes(0), 0);
    OK(cuMemAddressFree(base, 256 * MIB));
    /* Where it lies. */
    EQUAL(standin_calls("cuCtx*"), 0);
    prop = props_of(CU_MEM_LOCATION_TYPE_HOST, 7, 0);
    OK(cuMemGetAllocationGranularity(&granularity, &prop, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
    OK(cuMemCreate(&host, 64 * MIB, &prop, 0));
    OK(cuMemRelease(host));
    prop.requestedHandleTypes = FD;
    EQUAL(cuMemCreate(&host, 64 * MIB, &prop, 0), CUDA_ERROR_INVALID_VALUE);
    prop = props_of(CU_MEM_LOCATION_TYPE_HOST_NUMA, 0, FD);
    OK(cuMemCreate(&host, 64 * MIB, &prop, 0));
    EQUAL(standin_live_bytes(0), 0);
    EQUAL(standin_real_live_blocks(0), 0);
    OK(cuMemRelease(host));
    prop.location.type = CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT;
    EQUAL(cuMemCreate(&host, 64 * MIB, &prop, 0), CUDA_ERROR_INVALID_VALUE);
    prop = props_of(CU_MEM_LOCATION_TYPE_DEVICE, 99, 0);
    EQUAL(cuMemCreate(&host, 64 * MIB, &prop, 0), CUDA_ERROR_INVALID_DEVICE);
    handle = handle_of(64 * MIB, 1, 0);
    EQUAL(standin_handle_bytes(0), 0);
    EQUAL(standin_handle_bytes(1), 64 * MIB);
    OK(cuMemRelease(handle));
    EQUAL(standin_live_bytes(1), 0);
}

void check_handle_share(void)
{
    CUmemGenericAllocationHandle handle, import, other;
    CUmemFabricHandle fabric;
    CUmemAllocationProp prop;
    CUdeviceptr base;
    int file = -1, copy, unused;
    OK(cuInit(0));
    handle = handle_of(64 * MIB, 0, 0);
    EQUAL(cuMemExportToShareableHandle(&file, handle, FD, 0), CUDA_ERROR_INVALID_VALUE);
    OK(cuMemRelease(handle));
    handle = handle_of(64 * MIB, 0, FD);
    EQUAL(cuMemExportToShareableHandle(&file, handle, FD, 1), CUDA_ERROR_INVALID_VALUE);
    EQUAL(cuMemExportToShareableHandle(&fabric, handle, FABRIC, 0), CUDA_ERROR_INVALID_VALUE);
    OK(cuMemExportToShareableHandle(&file, handle, FD, 0));
    CHECK(file >= 0);
    EQUAL(standin_process_bytes(0), 64 * MIB);
    /* Released: in nobody's figure, and the card still holds it, until the last copy of the
     * descriptor is closed. */
    OK(cuMemRelease(handle));
    EQUAL(standin_process_bytes(0), 0);
    EQUAL(standin_orphaned_bytes(0), 64 * MIB);
    EQUAL(standin_handle_bytes(0), 64 * MIB);
    copy = dup(file);
    close(file);
    EQUAL(standin_handle_bytes(0), 64 * MIB);
    /* From the copy it comes back as an import, which the process is shown for when nothing
     * older has hold of it. */
    OK(cuMemImportFromShareableHandle(&import, (void *)(intptr_t)copy, FD));
    EQUAL(standin_process_bytes(0), 0);
    EQUAL(standin_orphaned_bytes(0), 64 * MIB);
    close(copy);
    EQUAL(standin_process_bytes(0), 64 * MIB);
    EQUAL(standin_handle_bytes(0), 64 * MIB);
    OK(cuMemGetAllocationPropertiesFromHandle(&prop, import));
    EQUAL(prop.location.id, 0);
    EQUAL(prop.requestedHandleTypes, 0);
    OK(cuMemAddressReserve(&base, 64 * MIB, 0, 0, 0));
    OK(cuMemMap(base, 64 * MIB, 0, import, 0));
    OK(cuMemRelease(import));
    EQUAL(standin_process_bytes(0), 64 * MIB);
    OK(cuMemUnmap(base, 64 * MIB));
    EQUAL(standin_process_bytes(0), 0);
    EQUAL(standin_live_bytes(0), 0);
    EQUAL(standin_real_live_blocks(0), 0);
    /* An import of what is still there: nothing more. */
    prop = props_of(CU_MEM_LOCATION_TYPE_DEVICE, 0, FD | FABRIC);
    EQUAL(cuMemCreate(&handle, 64 * MIB, &prop, 0), CUDA_ERROR_NOT_PERMITTED);
    standin_set_fabric(1);
    handle = handle_of(64 * MIB, 0, FD | FABRIC);
    OK(cuMemExportToShareableHandle(&file, handle, FD, 0));
    OK(cuMemImportFromShareableHandle(&import, (void *)(intptr_t)file, FD));
    close(file);
    CHECK(import != handle);
    EQUAL(standin_process_bytes(0), 64 * MIB);
    EQUAL(standin_live_bytes(0), 64 * MIB);
    OK(cuMemRelease(handle));
    EQUAL(standin_process_bytes(0), 64 * MIB);
    EQUAL(standin_live_bytes(0), 64 * MIB);
    /* A fabric handle holds nothing. */
    OK(cuMemExportToShareableHandle(&fabric, import, FABRIC, 0));
    OK(cuMemImportFromShareableHandle(&other, &fabric, FABRIC));
    EQUAL(standin_process_bytes(0), 64 * MIB);
    OK(cuMemRelease(import));
    EQUAL(standin_process_bytes(0), 64 * MIB);
    OK(cuMemRelease(other));
    EQUAL(standin_live_bytes(0), 0);
    EQUAL(standin_process_bytes(0), 0);
    EQUAL(cuMemImportFromShareableHandle(&other, &fabric, FABRIC), CUDA_ERROR_INVALID_VALUE);
    EQUAL(cuMemImportFromShareableHandle(&other, (void *)(intptr_t)0, FD),
          CUDA_ERROR_INVALID_VALUE);
    memset(&fabric, 0x11, sizeof(fabric));
    EQUAL(cuMemImportFromShareableHandle(&other, &fabric, FABRIC), CUDA_ERROR_INVALID_VALUE);
    /* A dma-buf holds the memory, too. */
    handle = handle_of(64 * MIB, 0, 0);
    OK(cuMemMap(base, 64 * MIB, 0, handle, 0));
    OK(cuMemRelease(handle));
    OK(cuMemGetHandleForAddressRange(&file, base, 64 * MIB, CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD,
                                     0));
    OK(cuMemUnmap(base, 64 * MIB));
    EQUAL(standin_orphaned_bytes(0), 64 * MIB);
    close(file);
    EQUAL(standin_live_bytes(0), 0);
    EQUAL(cuMemGetHandleForAddressRange(&unused, base, 64 * MIB,
                                        CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0),
          CUDA_ERROR_INVALID_VALUE);
    OK(cuMemAddressFree(base, 64 * MIB));
}

/* What another process exported: its bytes are that one's. */
void check_handle_import(void)
{
    CUmemGenericAllocationHandle handle;
    int way[2], file;
    char name[64];
    pid_t child;
    EQUAL(pipe(way), 0);
    child = fork();
    if (child == 0) {
        OK(cuInit(0));
        handle = handle_of(64 * MIB, 0, FD);
        OK(cuMemExportToShareableHandle(&file, handle, FD, 0));
        EQUAL(write(way[1], &file, sizeof(file)), sizeof(file));
        sleep(30);
        _exit(0);
    }
    EQUAL(read(way[0], &file, sizeof(file)), sizeof(file));
    snprintf(name, sizeof(name), "/proc/%d/fd/%d", (int)child, file);
    file = open(name, O_RDWR);
    kill(child, SIGKILL);
    CHECK(file >= 0);
    OK(cuInit(0));
    OK(cuMemImportFromShareableHandle(&handle, (void *)(intptr_t)file, FD));
    EQUAL(standin_live_bytes(0), 0);
    EQUAL(standin_process_bytes(0), 0);
    OK(cuMemRelease(handle));
    EQUAL(standin_process_bytes(0), 0);
}

static void *add_second(void *object)
{
    while (standin_calls("cuMulticastBindMem") < 6)
        usleep(1000);
    OK(cuMulticastAddDevice(*(CUmemGenericAllocationHandle *)object, 1));
    return NULL;
}

void check_multicast(void)
{
    CUmulticastObjectProp prop = {.numDevices = 2, .size = 64 * MIB};
    CUmemGenericAllocationHandle object, memory, import;
    CUdeviceptr base, object_base;
    size_t granularity;
    int file;
    OK(cuInit(0));
    OK(cuMulticastGetGranularity(&granularity, &prop, CU_MULTICAST_GRANULARITY_MINIMUM));
    EQUAL(granularity, 2 * MIB);
    EQUAL(cuMulticastCreate(NULL, &prop), CUDA_ERROR_INVALID_VALUE);
    prop.size++;
    EQUAL(cuMulticastCreate(&object, &prop), CUDA_ERROR_INVALID_VALUE);
    prop.size--;
    OK(cuMulticastCreate(&object, &prop));
    OK(cuMulticastAddDevice(object, 0));
    EQUAL(cuMulticastAddDevice(object, 0), CUDA_ERROR_INVALID_VALUE);
    EQUAL(cuMulticastAddDevice(object, 77), CUDA_ERROR_INVALID_DEVICE);
    OK(cuMulticastAddDevice(object, 1));
    EQUAL(standin_live_bytes(0), 2 * MIB); /* each device that is in it */
    EQUAL(standin_live_bytes(1), 2 * MIB);
    /* A binding keeps the memory. */
    memory = handle_of(64 * MIB, 0, 0);
    EQUAL(cuMulticastBindMem(object, MIB, memory, 0, 2 * MIB, 0), CUDA_ERROR_INVALID_VALUE);
    EQUAL(cuMulticastBindMem(object, 32 * MIB, memory, 0, 64 * MIB, 0),
          CUDA_ERROR_INVALID_VALUE);
    EQUAL(cuMulticastBindMem(memory, 0, memory, 0, 32 * MIB, 0), CUDA_ERROR_INVALID_VALUE);
    OK(cuMulticastBindMem(object, 0, memory, 32 * MIB, 32 * MIB, 0));
    EQUAL(cuMulticastBindMem(object, 0, memory, 0, 2 * MIB, 0), CUDA_ERROR_INVALID_VALUE);
    OK(cuMemRelease(memory));
    EQUAL(standin_process_bytes(0), 66 * MIB);
    EQUAL(cuMulticastUnbind(object, 1, 0, 32 * MIB), CUDA_ERROR_INVALID_VALUE);
    OK(cuMulticastUnbind(object, 0, 0, 32 * MIB));
    EQUAL(standin_live_bytes(0), 2 * MIB);
    /* A bind waits until all devices are there. */
    {
        CUmemGenericAllocationHandle late;
        pthread_t thread;
        OK(cuMulticastCreate(&late, &prop));
        OK(cuMulticastAddDevice(late, 0));
        pthread_create(&thread, NULL, add_second, &late);
        memory = handle_of(64 * MIB, 0, 0);
        OK(cuMulticastBindMem(late, 0, memory, 0, 64 * MIB, 0));
        EQUAL(standin_calls("cuMulticastAddDevice"), 6); /* the last one by the thread */
        pthread_join(thread, NULL);
        OK(cuMemRelease(late));
        OK(cuMemRelease(memory));
        EQUAL(standin_live_bytes(0), 2 * MIB);
    }
    /* By address; and the object ends with its last mapping. */
    memory = handle_of(32 * MIB, 1, 0);
    OK(cuMemAddressReserve(&base, 32 * MIB, 0, 0, 0));
    OK(cuMemAddressReserve(&object_base, 64 * MIB, 0, 0, 0));
    EQUAL(cuMulticastBindAddr(object, 0, base, 32 * MIB, 0), CUDA_ERROR_INVALID_VALUE);
    OK(cuMemMap(base, 32 * MIB, 0, memory, 0));
    OK(cuMulticastBindAddr(object, 32 * MIB, base, 32 * MIB, 0));
    OK(cuMemUnmap(base, 32 * MIB));
    OK(cuMemRelease(memory));
    OK(cuMemMap(object_base, 64 * MIB, 0, object, 0));
    OK(cuMemRelease(object));
    EQUAL(standin_handle_bytes(1), 32 * MIB);
    OK(cuMemUnmap(object_base, 64 * MIB));
    EQUAL(standin_handle_bytes(1), 0);
    /* Shared: only memory that can be shared; the object lives while a descriptor does. */
    prop.numDevices = 1;
    prop.handleTypes = FD;
    OK(cuMulticastCreate(&object, &prop));
    OK(cuMemExportToShareableHandle(&file, object, FD, 0));
    OK(cuMemImportFromShareableHandle(&import, (void *)(intptr_t)file, FD));
    OK(cuMulticastAddDevice(import, 0));
    memory = handle_of(64 * MIB, 0, 0);
    EQUAL(cuMulticastBindMem(import, 0, memory, 0, 64 * MIB, 0), CUDA_ERROR_INVALID_VALUE);
    OK(cuMemRelease(memory));
    memory = handle_of(64 * MIB, 0, FD);
    OK(cuMulticastBindMem(import, 0, memory, 0, 64 * MIB, 0));
    OK(cuMemRelease(memory));
    OK(cuMemRelease(import));
    OK(cuMemRelease(object));
    EQUAL(standin_handle_bytes(0), 64 * MIB);
    close(file);
    EQUAL(standin_handle_bytes(0), 0);
    EQUAL(standin_real_live_blocks(0), 0);
}

/* ---- random use, against a count of who holds what ---- */

#define SLOTS 40
#define PIECE (4 * MIB)

struct model { /* one piece of memory */
    CUmemGenericAllocationHandle original, import;
    unsigned references, import_references; /* of the two handles */
    unsigned mappings, import_mappings;
    int descriptor;       /* -1: none */
    bool import_is_older; /* than the descriptor */
    bool bound;           /* to the multicast object */
    CUdeviceptr mapped[4];
    bool of_import[4];
};

static bool original_held(const struct model *one)
{
    return one->references || one->mappings || one->bound;
}

static bool import_held(const struct model *one)
{
    return one->import_references || one->import_mappings;
}

static void compare(const struct model *model)
{
    uint64_t card = 0, process = 0;
    for (int i = 0; i < SLOTS; i++) {
        const struct model *one = &model[i];
        bool held = original_held(one) || import_held(one) || one->descriptor >= 0;
        card += held ? PIECE : 0;
        if (original_held(one) ||
            (import_held(one) && (one->descriptor < 0 || one->import_is_older)))
            process += PIECE;
    }
    /* The multicast object. */
    EQUAL(standin_live_bytes(0), card + 2 * MIB);
    EQUAL(standin_handle_bytes(0), card);
    EQUAL(standin_process_bytes(0), process + 2 * MIB);
}

static void map_or_unmap(struct model *one, CUdeviceptr base, int place)
{
    CUdeviceptr at = base + (size_t)place * PIECE;
    bool import = one->import_references && !one->references;
    if (one->mapped[place]) {
        OK(cuMemUnmap(at, PIECE));
        one->mapped[place] = 0;
        *(one->of_import[place] ? &one->import_mappings : &one->mappings) -= 1;
    } else if (one->references || import) {
        OK(cuMemMap(at, PIECE, 0, import ? one->import : one->original, 0));
        one->mapped[place] = at;
        one->of_import[place] = import;
        *(import ? &one->import_mappings : &one->mappings) += 1;
    }
}

static void step(struct model *one, unsigned index, CUdeviceptr base,
                 CUmemGenericAllocationHandle object, int what)
{
    CUdeviceptr mine = base + (size_t)index * 4 * PIECE;
    CUmemGenericAllocationHandle again;
    switch (what) {
    case 0:
        if (original_held(one) || import_held(one) || one->descriptor >= 0)
            break;
        one->original = handle_of(PIECE, 0, FD);
        one->references = 1;
        break;
    case 1:
        if (!one->references)
            break;
        OK(cuMemRelease(one->original));
        one->references--;
        break;
    case 2:
        if (!one->import_references)
            break;
        OK(cuMemRelease(one->import));
        one->import_references--;
        break;
    case 3:
        if (one->descriptor < 0) {
            if (!one->references)
                break;
            OK(cuMemExportToShareableHandle(&one->descriptor, one->original, FD, 0));
            one->import_is_older = import_held(one);
        } else {
            close(one->descriptor);
            one->descriptor = -1;
        }
        break;
    case 4:
        if (one->descriptor < 0 || import_held(one))
            break;
        OK(cuMemImportFromShareableHandle(&one->import, (void *)(intptr_t)one->descriptor, FD));
        one->import_references = 1;
        one->import_is_older = false;
        break;
    case 5:
        if (!one->mapped[0])
            break;
        OK(cuMemRetainAllocationHandle(&again, (void *)(uintptr_t)(mine + MIB)));
        EQUAL(again, one->of_import[0] ? one->import : one->original);
        *(one->of_import[0] ? &one->import_references : &one->references) += 1;
        break;
    case 6:
        if (one->bound)
            OK(cuMulticastUnbind(object, 0, index * PIECE, PIECE));
        else if (one->references)
            OK(cuMulticastBindMem(object, index * PIECE, one->original, 0, PIECE, 0));
        else
            break;
        one->bound = !one->bound;
        break;
    default:
        map_or_unmap(one, mine, what % 4);
    }
}

void check_handle_random(void)
{
    CUmulticastObjectProp prop = {.numDevices = 1, .size = SLOTS * PIECE};
    struct model model[SLOTS];
    CUmemGenericAllocationHandle object;
    CUdeviceptr base;
    unsigned state = 7;
    memset(model, 0, sizeof(model));
    for (int i = 0; i < SLOTS; i++)
        model[i].descriptor = -1;
    OK(cuInit(0));
    OK(cuMulticastCreate(&object, &prop));
    OK(cuMulticastAddDevice(object, 0));
    OK(cuMemAddressReserve(&base, SLOTS * 4 * PIECE, 0, 0, 0));
    for (int i = 0; i < 50000; i++) {
        unsigned index = (unsigned)rand_r(&state) % SLOTS;
        step(&model[index], index, base, object, rand_r(&state) % 12);
        if (i % 10 == 0)
            compare(model);
    }
    /* All ends with it but the bound ones, and these with the object. */
    for (unsigned i = 0; i < SLOTS; i++) {
        for (int place = 0; place < 4; place++)
            if (model[i].mapped[place])
                map_or_unmap(&model[i], base + i * 4 * PIECE, place);
        while (model[i].references)
            step(&model[i], i, base, object, 1);
        while (model[i].import_references)
            step(&model[i], i, base, object, 2);
        if (model[i].descriptor >= 0)
            step(&model[i], i, base, object, 3);
    }
    compare(model);
    CHECK(standin_live_bytes(0) > 0);
    OK(cuMemRelease(object));
    EQUAL(standin_live_bytes(0), 0);
    EQUAL(standin_process_bytes(0), 0);
    EQUAL(standin_real_live_blocks(0), 0);
    OK(cuMemAddressFree(base, SLOTS * 4 * PIECE));
}
