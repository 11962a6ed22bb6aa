/* escape_ways.c: blocks, handles and arrays; how each piece is given back. */
#define _GNU_SOURCE
#include "escape.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MOST_PIECES 65536

static struct {
    enum escape_kind kind;
    uint64_t handle; /* an address, a handle or a pointer of the driver's */
} pieces[MOST_PIECES];

static size_t piece_count;
static CUdevice device;
static CUcontext primary;
static CUstream streams[2];

void escape_must_at(int line, CUresult code)
{
    if (code == CUDA_SUCCESS)
        return;
    printf("line %d: the driver answers %d\n", line, (int)code);
    exit(1);
}

CUresult escape_keep(enum escape_kind kind, uint64_t handle)
{
    if (piece_count == MOST_PIECES) {
        printf("too many pieces\n");
        exit(1);
    }
    pieces[piece_count].kind = kind;
    pieces[piece_count++].handle = handle;
    return CUDA_SUCCESS;
}

size_t escape_pieces(void)
{
    return piece_count;
}

bool escape_can_give(size_t piece)
{
    return pieces[piece].kind > KIND_KEPT;
}

void escape_give(size_t piece)
{
    const uint64_t handle = pieces[piece].handle;
    void *const pointer = (void *)(uintptr_t)handle;

    switch (pieces[piece].kind) {
    case KIND_GONE:
    case KIND_KEPT:
        return;
    case KIND_PLAIN:
        MUST(cuMemFree_v2(handle));
        break;
    case KIND_ORDERED:
        MUST(cuMemFreeAsync(handle, streams[0]));
        break;
    case KIND_HANDLE:
        MUST(cuMemRelease(handle));
        break;
    case KIND_ARRAY:
        MUST(cuArrayDestroy(pointer));
        break;
    case KIND_MIPMAPPED:
        MUST(cuMipmappedArrayDestroy(pointer));
        break;
    case KIND_MODULE:
        MUST(cuModuleUnload(pointer));
        break;
    case KIND_LIBRARY:
        MUST(cuLibraryUnload(pointer));
        break;
    case KIND_STREAM:
        MUST(cuStreamDestroy_v2(pointer));
        break;
    }
    pieces[piece].kind = KIND_GONE;
}

void escape_start(void)
{
    MUST(cuInit(0));
    MUST(cuDeviceGet(&device, 0));
    MUST(cuDevicePrimaryCtxRetain(&primary, device));
    MUST(cuCtxSetCurrent(primary));
    for (int i = 0; i < 2; i++)
        MUST(cuStreamCreate(&streams[i], CU_STREAM_NON_BLOCKING));
}

CUcontext escape_primary(void)
{
    return primary;
}

CUstream escape_stream(unsigned which)
{
    return streams[which % 2];
}

CUdevice escape_device(void)
{
    return device;
}

void escape_settle(void)
{
    for (int i = 0; i < 2; i++)
        MUST(cuStreamSynchronize(streams[i]));
    MUST(cuCtxSynchronize());
}

/* ---- blocks ---- */

CUresult take_direct(size_t bytes)
{
    CUdeviceptr block;
    CUresult code = cuMemAlloc_v2(&block, bytes);

    return code ? code : escape_keep(KIND_PLAIN, block);
}

CUresult take_pitched(size_t bytes)
{
    /* Rows that are rounded up, so that width x height is less than what is taken. */
    const size_t width = 1000, height = bytes > width ? bytes / width : 1;
    CUdeviceptr block;
    size_t pitch;
    CUresult code = cuMemAllocPitch_v2(&block, &pitch, width, height, 4);

    return code ? code : escape_keep(KIND_PLAIN, block);
}

CUresult take_managed(size_t bytes)
{
    CUdeviceptr block;
    CUresult code = cuMemAllocManaged(&block, bytes, CU_MEM_ATTACH_GLOBAL);

    if (code)
        return code;
    /* Only now it comes to the card. */
    MUST(cuMemPrefetchAsync(block, bytes, device, streams[0]));
    return escape_keep(KIND_PLAIN, block);
}

CUresult take_ordered(size_t bytes)
{
    CUdeviceptr block;
    CUresult code = cuMemAllocAsync(&block, bytes, streams[0]);

    return code ? code : escape_keep(KIND_ORDERED, block);
}

CUresult take_from_pool(size_t bytes)
{
    static CUmemoryPool pool;
    CUdeviceptr block;
    CUresult code;

    if (!pool) {
        CUmemPoolProps props;

        memset(&props, 0, sizeof(props));
        props.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
        props.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
        props.location.id = device;
        MUST(cuMemPoolCreate(&pool, &props));
    }
    code = cuMemAllocFromPoolAsync(&block, bytes, pool, streams[0]);
    return code ? code : escape_keep(KIND_ORDERED, block);
}

/* Of a pool that is gone the import alone holds the memory. A pool that stays was seen to give
 * the same memory out again. */
CUresult take_shared(size_t bytes)
{
    CUmemoryPool pool, imported;
    CUmemPoolPtrExportData data;
    CUdeviceptr block, again;
    CUmemPoolProps props;
    int descriptor = -1;
    CUresult code;

    memset(&props, 0, sizeof(props));
    props.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    props.handleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    props.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    props.location.id = device;
    MUST(cuMemPoolCreate(&pool, &props));
    code = cuMemAllocFromPoolAsync(&block, bytes, pool, streams[0]);
    if (code) {
        MUST(cuMemPoolDestroy(pool));
        return code;
    }
    MUST(cuStreamSynchronize(streams[0]));
    MUST(cuMemPoolExportToShareableHandle(&descriptor, pool,
                                          CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
    MUST(cuMemPoolImportFromShareableHandle(&imported, (void *)(intptr_t)descriptor,
                                            CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
    MUST(cuMemPoolExportPointer(&data, block));
    MUST(cuMemPoolImportPointer(&again, imported, &data));
    MUST(cuMemFreeAsync(block, streams[0]));
    MUST(cuStreamSynchronize(streams[0]));
    MUST(cuMemPoolDestroy(pool));
    close(descriptor);
    return escape_keep(KIND_KEPT, again);
}

/* ---- physical handles ---- */

static CUresult create(CUmemGenericAllocationHandle *handle, size_t bytes, bool shareable)
{
    CUmemAllocationProp prop;

    memset(&prop, 0, sizeof(prop));
    prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    prop.location.id = device;
    if (shareable)
        prop.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    return cuMemCreate(handle, bytes, &prop, 0);
}

CUresult take_handle(size_t bytes)
{
    CUmemGenericAllocationHandle handle;
    CUresult code = create(&handle, bytes, false);

    return code ? code : escape_keep(KIND_HANDLE, handle);
}

CUresult take_mapped(size_t bytes)
{
    CUmemGenericAllocationHandle handle;
    CUdeviceptr address;
    CUresult code = create(&handle, bytes, false);

    if (code)
        return code;
    MUST(cuMemAddressReserve(&address, bytes, 0, 0, 0));
    MUST(cuMemMap(address, bytes, 0, handle, 0));
    MUST(cuMemRelease(handle));
    return escape_keep(KIND_KEPT, address);
}

/* The descriptor alone holds the memory. */
CUresult take_exported(size_t bytes)
{
    CUmemGenericAllocationHandle handle;
    int descriptor = -1;
    CUresult code = create(&handle, bytes, true);

    if (code)
        return code;
    MUST(cuMemExportToShareableHandle(&descriptor, handle,
                                      CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
    MUST(cuMemRelease(handle));
    return escape_keep(KIND_KEPT, (uint64_t)descriptor);
}

/* What was imported of one's own alone holds the memory. */
CUresult take_imported(size_t bytes)
{
    CUmemGenericAllocationHandle handle, again;
    int descriptor = -1;
    CUresult code = create(&handle, bytes, true);

    if (code)
        return code;
    MUST(cuMemExportToShareableHandle(&descriptor, handle,
                                      CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
    MUST(cuMemImportFromShareableHandle(&again, (void *)(intptr_t)descriptor,
                                        CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
    MUST(cuMemRelease(handle));
    close(descriptor);
    return escape_keep(KIND_KEPT, again);
}

/* ---- arrays: elements of 16 bytes ---- */

/* A square of so many bytes, a power of four. */
static CUDA_ARRAY3D_DESCRIPTOR square(size_t bytes, size_t depth)
{
    size_t side = 1;

    while (side * side * 16 * (depth ? depth : 1) < bytes)
        side *= 2;
    return (CUDA_ARRAY3D_DESCRIPTOR){.Width = side,
                                     .Height = side,
                                     .Depth = depth,
                                     .Format = CU_AD_FORMAT_FLOAT,
                                     .NumChannels = 4};
}

CUresult take_array(size_t bytes)
{
    const CUDA_ARRAY3D_DESCRIPTOR of = square(bytes, 0);
    const CUDA_ARRAY_DESCRIPTOR flat = {of.Width, of.Height, of.Format, of.NumChannels};
    CUarray array;
    CUresult code = cuArrayCreate_v2(&array, &flat);

    return code ? code : KEEP_POINTER(KIND_ARRAY, array);
}

CUresult take_array_3d(size_t bytes)
{
    const CUDA_ARRAY3D_DESCRIPTOR cube = square(bytes, 16);
    CUarray array;
    CUresult code = cuArray3DCreate_v2(&array, &cube);

    return code ? code : KEEP_POINTER(KIND_ARRAY, array);
}

CUresult take_mipmapped(size_t bytes)
{
    const CUDA_ARRAY3D_DESCRIPTOR largest = square(bytes, 0);
    CUmipmappedArray array;
    CUresult code = cuMipmappedArrayCreate(&array, &largest, 5);

    return code ? code : KEEP_POINTER(KIND_MIPMAPPED, array);
}
