/* Arrays and mipmapped arrays: what they take and give back, and their odd questions. */
#include "check_standin.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static CUarray array_of(size_t width, size_t height, size_t depth, CUarray_format format,
                        unsigned channels, unsigned flags)
{
    CUDA_ARRAY3D_DESCRIPTOR desc = {width, height, depth, format, channels, flags};
    CUarray array = NULL;
    OK(cuArray3DCreate(&array, &desc));
    CHECK(array != NULL);
    return array;
}

/* What one array of its own takes; it is destroyed again. */
static uint64_t taken(size_t width, size_t height, size_t depth, CUarray_format format,
                      unsigned channels, unsigned flags)
{
    uint64_t before = standin_array_bytes(0), bytes;
    CUarray array = array_of(width, height, depth, format, channels, flags);
    bytes = standin_array_bytes(0) - before;
    EQUAL(standin_live_bytes(0), standin_context_bytes(0) + before + bytes);
    EQUAL(standin_process_bytes(0), standin_live_bytes(0));
    EQUAL(standin_real_live_blocks(0), 1);
    OK(cuArrayDestroy(array));
    EQUAL(standin_array_bytes(0), before);
    EQUAL(standin_real_live_blocks(0), 0);
    return bytes;
}

#define FLOAT CU_AD_FORMAT_FLOAT
#define VIDEO CUDA_ARRAY3D_VIDEO_ENCODE_DECODE
#define BYTE  CU_AD_FORMAT_UNSIGNED_INT8

void check_arrays(void)
{
    CUDA_ARRAY_DESCRIPTOR plain = {1000, 1000, FLOAT, 4};
    CUarray small[64], array;
    CUcontext primary = check_begin(), context;
    OK(cuArrayCreate(&array, &plain));
    EQUAL(standin_array_bytes(0), 16 * MIB); /* as measured */
    OK(cuArrayDestroy(array));
    EQUAL(taken(1000, 1000, 0, FLOAT, 4, 0), 16 * MIB);
    /* Shapes: each direction counts. */
    EQUAL(taken(131072, 0, 0, FLOAT, 4, 0), 16 * MIB);
    EQUAL(taken(1024, 1024, 0, FLOAT, 1, CUDA_ARRAY3D_SURFACE_LDST), 4 * MIB);
    EQUAL(taken(1024, 1024, 0, FLOAT, 1, CUDA_ARRAY3D_TEXTURE_GATHER), 4 * MIB);
    EQUAL(taken(256, 256, 256, FLOAT, 1, 0), 64 * MIB);
    EQUAL(taken(200, 200, 201, FLOAT, 1, 0), 34 * MIB);
    EQUAL(taken(1024, 1024, 5, FLOAT, 1, CUDA_ARRAY3D_LAYERED), 20 * MIB);
    EQUAL(taken(16384, 0, 64, FLOAT, 1, CUDA_ARRAY3D_LAYERED), 32 * MIB);
    EQUAL(taken(1024, 1024, 6, FLOAT, 1, CUDA_ARRAY3D_CUBEMAP), 24 * MIB);
    EQUAL(taken(1024, 1024, 12, FLOAT, 1, CUDA_ARRAY3D_CUBEMAP | CUDA_ARRAY3D_LAYERED),
          48 * MIB);
    /* Formats. */
    EQUAL(taken(4096, 4096, 0, BYTE, 1, 0), 16 * MIB);
    EQUAL(taken(4096, 4096, 0, CU_AD_FORMAT_HALF, 4, 0), 128 * MIB);
    EQUAL(taken(4096, 4096, 0, CU_AD_FORMAT_UNORM_INT8X4, 4, 0), 64 * MIB);
    EQUAL(taken(4096, 4096, 0, CU_AD_FORMAT_SNORM_INT16X2, 2, 0), 64 * MIB);
    EQUAL(taken(4096, 4096, 0, CU_AD_FORMAT_UNORM_INT_101010_2, 4, 0), 64 * MIB);
    EQUAL(taken(4096, 4096, 0, CU_AD_FORMAT_BC1_UNORM, 4, 0), 8 * MIB);
    EQUAL(taken(4096, 4096, 0, CU_AD_FORMAT_BC4_SNORM, 1, 0), 8 * MIB);
    EQUAL(taken(4096, 4096, 0, CU_AD_FORMAT_BC5_UNORM, 2, 0), 16 * MIB);
    EQUAL(taken(4096, 4096, 0, CU_AD_FORMAT_BC6H_SF16, 3, 0), 16 * MIB);
    EQUAL(taken(4096, 4096, 0, CU_AD_FORMAT_BC7_UNORM_SRGB, 4, 0), 16 * MIB);
    EQUAL(taken(4096, 4096, 0, CU_AD_FORMAT_NV12, 3, VIDEO), 24 * MIB);
    EQUAL(taken(4096, 4096, 0, CU_AD_FORMAT_P016, 3, VIDEO), 48 * MIB);
    EQUAL(taken(4096, 4096, 0, CU_AD_FORMAT_NV16, 3, VIDEO), 32 * MIB);
    EQUAL(taken(4096, 4096, 0, CU_AD_FORMAT_Y444_PLANAR8, 3, VIDEO), 48 * MIB);
    EQUAL(taken(4096, 4096, 0, CU_AD_FORMAT_YUV444_16bit_SemiPlanar, 3, VIDEO), 96 * MIB);
    EQUAL(taken(4096, 4096, 0, CU_AD_FORMAT_Y416, 4, VIDEO), 128 * MIB);
    /* Small ones share regions. */
    for (int i = 0; i < 64; i++)
        small[i] = array_of(64, 64, 0, FLOAT, 1, 0);
    EQUAL(standin_array_bytes(0), 2 * MIB);
    EQUAL(standin_real_live_blocks(0), 64);
    for (int i = 0; i < 63; i++)
        OK(cuArrayDestroy(small[i]));
    EQUAL(standin_array_bytes(0), 2 * MIB);
    OK(cuArrayDestroy(small[63]));
    EQUAL(standin_array_bytes(0), 0);
    /* A full card. */
    standin_set_other(0, standin_free_bytes(0) - 4 * MIB);
    array = (CUarray)&plain;
    EQUAL(cuArrayCreate(&array, &plain), CUDA_ERROR_OUT_OF_MEMORY);
    CHECK(array == (CUarray)&plain);
    standin_set_other(0, 0);
    /* They end with their context. */
    OK(cuCtxCreate(&context, NULL, 0, 0));
    array = array_of(1000, 1000, 0, FLOAT, 4, 0);
    small[0] = array_of(64, 64, 0, FLOAT, 1, 0);
    EQUAL(standin_array_bytes(0), 18 * MIB);
    OK(cuCtxDestroy(context));
    EQUAL(standin_array_bytes(0), 0);
    EQUAL(standin_real_live_blocks(0), 0);
    EQUAL(cuArrayDestroy(array), CUDA_ERROR_CONTEXT_IS_DESTROYED);
    /* From another context, and from none. */
    OK(cuCtxCreate(&context, NULL, 0, 0));
    array = array_of(1000, 1000, 0, FLOAT, 4, 0);
    OK(cuCtxSetCurrent(primary));
    OK(cuArrayDestroy(array));
    OK(cuCtxPushCurrent(context));
    array = array_of(1000, 1000, 0, FLOAT, 4, 0);
    while (cuCtxPopCurrent(&context) == CUDA_SUCCESS)
        ;
    OK(cuArrayDestroy(array));
    EQUAL(standin_array_bytes(0), 0);
}

void check_array_codes(void)
{
    CUDA_ARRAY3D_DESCRIPTOR got, bad[] = {
                                     {0, 16, 0, FLOAT, 1, 0},
                                     {16, 16, 0, FLOAT, 3, 0},
                                     {16, 16, 0, FLOAT, 0, 0},
                                     {16, 16, 0, (CUarray_format)0x77, 1, 0},
                                     {16, 16, 0, FLOAT, 1, 0x1000},
                                     {16, 0, 16, FLOAT, 1, 0},
                                     {16, 16, 0, FLOAT, 1, CUDA_ARRAY3D_LAYERED},
                                     {16, 16, 5, FLOAT, 1, CUDA_ARRAY3D_CUBEMAP},
                                     {16, 17, 6, FLOAT, 1, CUDA_ARRAY3D_CUBEMAP},
                                     {16, 16, 4, FLOAT, 1, CUDA_ARRAY3D_TEXTURE_GATHER},
                                     {16, 0, 0, FLOAT, 1, CUDA_ARRAY3D_SPARSE},
                                     {131073, 16, 0, FLOAT, 1, 0},
                                     {15, 16, 0, CU_AD_FORMAT_NV12, 3, VIDEO},
                                     {16, 16, 0, CU_AD_FORMAT_NV12, 3, 0},
                                     {16, 16, 0, CU_AD_FORMAT_YUY2, 2, VIDEO},
                                     {16, 16, 0, CU_AD_FORMAT_UNORM_INT8X4, 1, 0},
                                 };
    CUDA_ARRAY3D_DESCRIPTOR whole = {64, 32, 4, CU_AD_FORMAT_HALF, 2, CUDA_ARRAY3D_LAYERED};
    CUDA_ARRAY_DESCRIPTOR flat = {64, 32, FLOAT, 1};
    CUDA_ARRAY_MEMORY_REQUIREMENTS needs;
    CUarray array = NULL, plane, again;
    CUstream stream;
    CUgraph graph = NULL;
    OK(cuInit(0));
    EQUAL(cuArrayCreate(&array, &flat), CUDA_ERROR_INVALID_CONTEXT);
    EQUAL(cuArrayDestroy(NULL), CUDA_ERROR_INVALID_HANDLE);
    check_begin();
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        EQUAL(cuArray3DCreate(&array, &bad[i]), CUDA_ERROR_INVALID_VALUE);
    CHECK(array == NULL);
    EQUAL(cuArray3DCreate(NULL, &whole), CUDA_ERROR_INVALID_VALUE);
    EQUAL(cuArray3DCreate(&array, NULL), CUDA_ERROR_INVALID_VALUE);
    EQUAL(cuArrayCreate(NULL, &flat), CUDA_ERROR_INVALID_VALUE);
    EQUAL(standin_live_bytes(0), standin_context_bytes(0));
    /* 64 TiB are allowed and not to be had. */
    bad[0] = (CUDA_ARRAY3D_DESCRIPTOR){16384, 16384, 16384, FLOAT, 4, 0};
    EQUAL(cuArray3DCreate(&array, &bad[0]), CUDA_ERROR_OUT_OF_MEMORY);
    OK(cuArray3DCreate(&array, &whole));
    {
        unsigned char args[16 + sizeof(whole)];
        EQUAL(standin_last_args("cuArray3DCreate_v2", args, sizeof(args)), sizeof(args));
        CHECK(memcmp(args + 16, &whole, offsetof(CUDA_ARRAY3D_DESCRIPTOR, Flags) + 4) == 0);
    }
    OK(cuArray3DGetDescriptor(&got, array));
    EQUAL(got.Width, 64);
    EQUAL(got.Height, 32);
    EQUAL(got.Depth, 4);
    EQUAL(got.NumChannels, 2);
    EQUAL(got.Format, CU_AD_FORMAT_HALF);
    EQUAL(got.Flags, CUDA_ARRAY3D_LAYERED);
    EQUAL(cuArray3DGetDescriptor(NULL, array), CUDA_ERROR_INVALID_VALUE);
    EQUAL(cuArray3DGetDescriptor(&got, (CUarray)&got), CUDA_ERROR_INVALID_HANDLE);
    EQUAL(cuArrayGetMemoryRequirements(&needs, array, 0), CUDA_ERROR_INVALID_VALUE);
    EQUAL(cuArrayGetPlane(&plane, array, 0), CUDA_ERROR_INVALID_VALUE);
    OK(cuArrayDestroy(array));
    EQUAL(cuArrayDestroy(array), CUDA_ERROR_INVALID_HANDLE);
    /* Planes belong to the array. */
    array = array_of(64, 32, 0, CU_AD_FORMAT_NV12, 3, VIDEO);
    OK(cuArrayGetPlane(&plane, array, 1));
    OK(cuArrayGetPlane(&again, array, 1));
    CHECK(plane == again);
    OK(cuArrayGetDescriptor(&flat, plane));
    EQUAL(flat.Width, 32);
    EQUAL(flat.Height, 16);
    EQUAL(flat.NumChannels, 2);
    EQUAL(flat.Format, BYTE);
    EQUAL(cuArrayGetPlane(&plane, array, 2), CUDA_ERROR_INVALID_VALUE);
    EQUAL(cuArrayDestroy(plane), CUDA_ERROR_INVALID_HANDLE);
    OK(cuArrayDestroy(array));
    EQUAL(cuArrayGetDescriptor(&flat, plane), CUDA_ERROR_INVALID_HANDLE);
    /* A capture forbids them. */
    stream = check_stream();
    OK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    EQUAL(cuArray3DCreate(&array, &whole), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    EQUAL(cuStreamEndCapture(stream, &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    /* Faults. */
    standin_fail("cuArray3DCreate_v2", 1, CUDA_ERROR_OUT_OF_MEMORY);
    EQUAL(cuArray3DCreate(&array, &whole), CUDA_ERROR_OUT_OF_MEMORY);
    EQUAL(standin_live_bytes(0), standin_context_bytes(0));
}

static uint64_t mipmap_taken(const CUDA_ARRAY3D_DESCRIPTOR *desc, unsigned levels)
{
    CUmipmappedArray mipmap;
    uint64_t bytes;
    OK(cuMipmappedArrayCreate(&mipmap, desc, levels));
    bytes = standin_array_bytes(0);
    OK(cuMipmappedArrayDestroy(mipmap));
    EQUAL(standin_array_bytes(0), 0);
    return bytes;
}

void check_mipmaps(void)
{
    CUDA_ARRAY3D_DESCRIPTOR desc = {1000, 1000, 0, FLOAT, 4, 0}, got;
    CUDA_ARRAY3D_DESCRIPTOR solid = {256, 256, 256, FLOAT, 1, 0};
    CUDA_ARRAY_MEMORY_REQUIREMENTS needs;
    CUmipmappedArray mipmap;
    CUarray level, again;
    CUcontext context;
    check_begin();
    EQUAL(mipmap_taken(&desc, 5), 22 * MIB); /* as measured */
    EQUAL(mipmap_taken(&desc, 1), 16 * MIB);
    EQUAL(mipmap_taken(&desc, 0), 16 * MIB);
    EQUAL(mipmap_taken(&desc, 99), mipmap_taken(&desc, 10));
    /* 64, 8, 1, and small ones: a level of a solid is an eighth of the one before. */
    EQUAL(mipmap_taken(&solid, 3), 74 * MIB);
    solid.Flags = CUDA_ARRAY3D_LAYERED;
    EQUAL(mipmap_taken(&solid, 2), 80 * MIB);
    OK(cuMipmappedArrayCreate(&mipmap, &desc, 5));
    OK(cuMipmappedArrayGetLevel(&level, mipmap, 3));
    OK(cuMipmappedArrayGetLevel(&again, mipmap, 3));
    CHECK(level == again);
    OK(cuArray3DGetDescriptor(&got, level));
    EQUAL(got.Width, 125);
    EQUAL(got.Depth, 0);
    EQUAL(cuMipmappedArrayGetLevel(&level, mipmap, 5), CUDA_ERROR_INVALID_VALUE);
    EQUAL(cuArrayDestroy(again), CUDA_ERROR_INVALID_HANDLE);
    EQUAL(cuArrayDestroy((CUarray)mipmap), CUDA_ERROR_INVALID_HANDLE);
    EQUAL(cuMipmappedArrayGetMemoryRequirements(&needs, mipmap, 0), CUDA_ERROR_INVALID_VALUE);
    EQUAL(standin_array_bytes(0), 22 * MIB);
    OK(cuMipmappedArrayDestroy(mipmap));
    EQUAL(cuMipmappedArrayDestroy(mipmap), CUDA_ERROR_INVALID_HANDLE);
    desc.Width = 0;
    EQUAL(cuMipmappedArrayCreate(&mipmap, &desc, 5), CUDA_ERROR_INVALID_VALUE);
    EQUAL(cuMipmappedArrayCreate(NULL, &desc, 5), CUDA_ERROR_INVALID_VALUE);
    /* The end of the context. */
    desc.Width = 1000;
    OK(cuCtxCreate(&context, NULL, 0, 0));
    OK(cuMipmappedArrayCreate(&mipmap, &desc, 5));
    OK(cuMipmappedArrayGetLevel(&level, mipmap, 1));
    OK(cuCtxDestroy(context));
    EQUAL(standin_array_bytes(0), 0);
    EQUAL(cuMipmappedArrayDestroy(mipmap), CUDA_ERROR_CONTEXT_IS_DESTROYED);
    EQUAL(standin_live_bytes(0), standin_context_bytes(0));
}

/* ---- sparse and deferred ones ---- */

static CUmemGenericAllocationHandle tiles_of(size_t bytes)
{
    CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0},
                                .allocFlags.usage = CU_MEM_CREATE_USAGE_TILE_POOL};
    CUmemGenericAllocationHandle handle;
    OK(cuMemCreate(&handle, bytes, &prop, 0));
    return handle;
}

static CUarrayMapInfo box_of(CUarray array, unsigned x, unsigned y, unsigned width,
                             unsigned height, CUmemGenericAllocationHandle handle)
{
    CUarrayMapInfo info;
    memset(&info, 0, sizeof(info));
    info.resourceType = CU_RESOURCE_TYPE_ARRAY;
    info.resource.array = array;
    info.subresource.sparseLevel.offsetX = x;
    info.subresource.sparseLevel.offsetY = y;
    info.subresource.sparseLevel.extentWidth = width;
    info.subresource.sparseLevel.extentHeight = height;
    info.subresource.sparseLevel.extentDepth = 1;
    info.memOperationType = handle ? CU_MEM_OPERATION_TYPE_MAP : CU_MEM_OPERATION_TYPE_UNMAP;
    info.memHandle.memHandle = handle;
    info.deviceBitMask = 1;
    return info;
}

static bool crashes(CUstream stream)
{
    int status = 0;
    pid_t child;
    fflush(stderr);
    child = fork();
    if (child == 0) {
        close(STDERR_FILENO);
        standin_release(stream);
        _exit(0);
    }
    return waitpid(child, &status, 0) == child && WIFSIGNALED(status);
}

void check_sparse(void)
{
    CUDA_ARRAY_SPARSE_PROPERTIES properties;
    CUmemGenericAllocationHandle first, second;
    CUarrayMapInfo info, two[2];
    CUcontext primary = check_begin(), context;
    CUarray array = array_of(1000, 1000, 0, FLOAT, 4, CUDA_ARRAY3D_SPARSE);
    CUarray plain = array_of(64, 64, 0, FLOAT, 4, 0);
    CUstream stream = check_stream(), other;
    OK(cuArrayDestroy(plain));
    EQUAL(cuArrayGetSparseProperties(&properties, plain), CUDA_ERROR_INVALID_VALUE);
    EQUAL(standin_live_bytes(0), standin_context_bytes(0));
    OK(cuArrayGetSparseProperties(&properties, array));
    EQUAL(properties.tileExtent.width, 64);
    EQUAL(properties.tileExtent.height, 64);
    EQUAL(properties.tileExtent.depth, 1);
    EQUAL(properties.miptailSize, 0);
    /* A binding keeps the memory, but NVML shows it for the process only with the handle. */
    first = tiles_of(2 * MIB);
    info = box_of(array, 0, 0, 128, 64, first);
    OK(cuMemMapArrayAsync(&info, 1, stream));
    EQUAL(standin_process_bytes(0), standin_context_bytes(0) + 2 * MIB);
    OK(cuMemRelease(first));
    EQUAL(cuMemRelease(first), CUDA_ERROR_INVALID_VALUE);
    EQUAL(standin_handle_bytes(0), 2 * MIB);
    EQUAL(standin_process_bytes(0), standin_context_bytes(0));
    EQUAL(standin_orphaned_bytes(0), 2 * MIB);
    /* Half of it unmapped, the other half mapped to another one. */
    info = box_of(array, 0, 0, 64, 64, 0);
    OK(cuMemMapArrayAsync(&info, 1, stream));
    EQUAL(standin_handle_bytes(0), 2 * MIB);
    second = tiles_of(4 * MIB);
    info = box_of(array, 64, 0, 64, 64, second);
    OK(cuMemMapArrayAsync(&info, 1, stream));
    EQUAL(standin_handle_bytes(0), 4 * MIB);
    /* Unmaps take their turn. */
    OK(cuMemRelease(second));
    EQUAL(standin_hold(stream), 0);
    info = box_of(array, 64, 0, 64, 64, 0);
    OK(cuMemMapArrayAsync(&info, 1, stream));
    EQUAL(standin_handle_bytes(0), 4 * MIB);
    standin_release(stream);
    EQUAL(standin_handle_bytes(0), 0);
    /* Wrong entries, and then none of the call is done. */
    first = tiles_of(2 * MIB);
    two[0] = box_of(array, 0, 0, 64, 64, first);
    two[1] = box_of(array, 32, 0, 64, 64, first);
    EQUAL(cuMemMapArrayAsync(two, 2, stream), CUDA_ERROR_INVALID_VALUE);
    two[1] = box_of(array, 0, 0, 512, 512, first); /* 64 tiles are 4 MiB */
    EQUAL(cuMemMapArrayAsync(two, 2, stream), CUDA_ERROR_INVALID_VALUE);
    two[1] = box_of(array, 0, 960, 64, 128, first);
    EQUAL(cuMemMapArrayAsync(two, 2, stream), CUDA_ERROR_INVALID_VALUE);
    two[1] = box_of(array, 0, 0, 64, 64, first);
    two[1].deviceBitMask = 2;
    EQUAL(cuMemMapArrayAsync(two, 2, stream), CUDA_ERROR_INVALID_VALUE);
    two[1] = box_of(array, 960, 960, 40, 40, first); /* the rest at the edge is a tile */
    EQUAL(cuMemMapArrayAsync(two, 0, stream), CUDA_ERROR_INVALID_VALUE);
    OK(cuMemMapArrayAsync(two, 2, stream));
    OK(cuMemRelease(first));
    EQUAL(standin_handle_bytes(0), 2 * MIB);
    OK(cuArrayDestroy(array));
    EQUAL(standin_handle_bytes(0), 0);
    /* Memory of another card; a stream that captures. */
    {
        CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                    .location = {CU_MEM_LOCATION_TYPE_DEVICE, 1},
                                    .allocFlags.usage = CU_MEM_CREATE_USAGE_TILE_POOL};
        CUgraph graph = NULL;
        array = array_of(64, 64, 0, FLOAT, 4, CUDA_ARRAY3D_SPARSE);
        OK(cuMemCreate(&second, 2 * MIB, &prop, 0));
        info = box_of(array, 0, 0, 64, 64, second);
        EQUAL(cuMemMapArrayAsync(&info, 1, stream), CUDA_ERROR_INVALID_VALUE);
        OK(cuMemRelease(second));
        EQUAL(standin_handle_bytes(1), 0);
        first = tiles_of(2 * MIB);
        info = box_of(array, 0, 0, 64, 64, first);
        OK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
        EQUAL(cuMemMapArrayAsync(&info, 1, stream), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
        EQUAL(cuStreamEndCapture(stream, &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
        OK(cuArrayDestroy(array));
    }
    /* One that is smaller than a tile is all tail, its layers one after the other. */
    array = array_of(16, 16, 3, FLOAT, 4, CUDA_ARRAY3D_SPARSE | CUDA_ARRAY3D_LAYERED);
    OK(cuArrayGetSparseProperties(&properties, array));
    EQUAL(properties.flags, CU_ARRAY_SPARSE_PROPERTIES_SINGLE_MIPTAIL);
    EQUAL(properties.miptailSize, 3 * 65536);
    info = box_of(array, 0, 0, 16, 16, first);
    EQUAL(cuMemMapArrayAsync(&info, 1, stream), CUDA_ERROR_INVALID_VALUE);
    memset(&info.subresource, 0, sizeof(info.subresource));
    info.subresourceType = CU_ARRAY_SPARSE_SUBRESOURCE_TYPE_MIPTAIL;
    info.subresource.miptail.size = 4 * 65536;
    EQUAL(cuMemMapArrayAsync(&info, 1, stream), CUDA_ERROR_INVALID_VALUE);
    info.subresource.miptail.size = 3 * 65536;
    OK(cuMemMapArrayAsync(&info, 1, stream));
    OK(cuMemRelease(first));
    EQUAL(standin_handle_bytes(0), 2 * MIB);
    OK(cuArrayDestroy(array));
    EQUAL(standin_handle_bytes(0), 0);
    /* The context's end unbinds. */
    OK(cuCtxCreate(&context, NULL, 0, 0));
    array = array_of(64, 64, 8, FLOAT, 4, CUDA_ARRAY3D_SPARSE | CUDA_ARRAY3D_LAYERED);
    first = tiles_of(2 * MIB);
    info = box_of(array, 0, 0, 64, 64, first);
    info.subresource.sparseLevel.layer = 7;
    stream = check_stream();
    OK(cuMemMapArrayAsync(&info, 1, stream));
    OK(cuMemRelease(first));
    OK(cuCtxSetCurrent(primary));
    EQUAL(standin_handle_bytes(0), 2 * MIB);
    /* A map that the stream has not reached does not. */
    other = check_stream();
    plain = array_of(64, 64, 0, FLOAT, 4, CUDA_ARRAY3D_SPARSE);
    first = tiles_of(2 * MIB);
    info = box_of(plain, 0, 0, 64, 64, first);
    EQUAL(standin_hold(other), 0);
    OK(cuMemMapArrayAsync(&info, 1, other));
    OK(cuMemRelease(first));
    EQUAL(standin_handle_bytes(0), 2 * MIB);
    CHECK(crashes(other));
    OK(cuCtxDestroy(context));
    EQUAL(standin_handle_bytes(0), 0);
    EQUAL(standin_live_bytes(0), standin_context_bytes(0) + standin_stream_bytes(0));
    EQUAL(standin_real_live_blocks(0), 0);
}

void check_sparse_mipmaps(void)
{
    CUDA_ARRAY3D_DESCRIPTOR desc = {1024, 1024, 0, FLOAT, 1, CUDA_ARRAY3D_SPARSE};
    CUDA_ARRAY_SPARSE_PROPERTIES properties;
    CUDA_ARRAY_MEMORY_REQUIREMENTS needs;
    CUmemGenericAllocationHandle handle;
    CUmipmappedArray mipmap;
    CUarray level;
    CUarrayMapInfo info;
    CUstream stream;
    check_begin();
    stream = check_stream();
    OK(cuMipmappedArrayCreate(&mipmap, &desc, 11));
    EQUAL(standin_array_bytes(0), 0);
    OK(cuMipmappedArrayGetSparseProperties(&properties, mipmap));
    EQUAL(properties.tileExtent.width, 128);
    EQUAL(properties.miptailFirstLevel, 4);
    EQUAL(properties.miptailSize, 65536);
    OK(cuMipmappedArrayGetLevel(&level, mipmap, 0));
    EQUAL(cuArrayGetSparseProperties(&properties, level), CUDA_ERROR_INVALID_VALUE);
    handle = tiles_of(2 * MIB);
    info = box_of(level, 0, 0, 128, 128, handle);
    EQUAL(cuMemMapArrayAsync(&info, 1, stream), CUDA_ERROR_INVALID_VALUE);
    info.resourceType = CU_RESOURCE_TYPE_MIPMAPPED_ARRAY;
    info.resource.mipmap = mipmap;
    info.subresource.sparseLevel.level = 3;
    OK(cuMemMapArrayAsync(&info, 1, stream));
    info.subresource.sparseLevel.level = 4; /* in the tail */
    EQUAL(cuMemMapArrayAsync(&info, 1, stream), CUDA_ERROR_INVALID_VALUE);
    memset(&info.subresource, 0, sizeof(info.subresource));
    info.subresourceType = CU_ARRAY_SPARSE_SUBRESOURCE_TYPE_MIPTAIL;
    info.subresource.miptail.size = 65536;
    info.offset = 65536;
    OK(cuMemMapArrayAsync(&info, 1, stream));
    OK(cuMemRelease(handle));
    /* One after the other is unmapped. */
    info.memOperationType = CU_MEM_OPERATION_TYPE_UNMAP;
    info.memHandle.memHandle = 0;
    OK(cuMemMapArrayAsync(&info, 1, stream));
    EQUAL(standin_handle_bytes(0), 2 * MIB);
    OK(cuMipmappedArrayDestroy(mipmap));
    EQUAL(standin_handle_bytes(0), 0);
    /* Deferred: as a whole, from one handle. */
    desc.Flags = CUDA_ARRAY3D_DEFERRED_MAPPING;
    OK(cuArray3DCreate(&level, &desc));
    OK(cuArrayGetMemoryRequirements(&needs, level, 0));
    EQUAL(needs.size, 4 * MIB);
    EQUAL(cuArrayGetMemoryRequirements(&needs, level, 7), CUDA_ERROR_INVALID_VALUE);
    EQUAL(standin_live_bytes(0), standin_context_bytes(0));
    handle = tiles_of(2 * MIB);
    info = box_of(level, 0, 0, 0, 0, handle);
    EQUAL(cuMemMapArrayAsync(&info, 1, stream), CUDA_ERROR_INVALID_VALUE);
    OK(cuMemRelease(handle));
    handle = tiles_of(4 * MIB);
    info = box_of(level, 0, 0, 0, 0, handle);
    OK(cuMemMapArrayAsync(&info, 1, stream));
    OK(cuMemRelease(handle));
    EQUAL(standin_handle_bytes(0), 4 * MIB);
    OK(cuArrayDestroy(level));
    OK(cuMipmappedArrayCreate(&mipmap, &desc, 2));
    OK(cuMipmappedArrayGetMemoryRequirements(&needs, mipmap, 0));
    EQUAL(needs.size, 5 * MIB);
    OK(cuMipmappedArrayDestroy(mipmap));
    EQUAL(standin_live_bytes(0), standin_context_bytes(0));
}
