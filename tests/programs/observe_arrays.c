/* Arrays: what they take, and what becomes of them. */
#include "observations.h"

#include <string.h>

#define FLOAT CU_AD_FORMAT_FLOAT

static CUresult create(CUarray *array, size_t width, size_t height, size_t depth,
                       CUarray_format format, unsigned channels, unsigned flags)
{
    CUDA_ARRAY3D_DESCRIPTOR desc;
    memset(&desc, 0, sizeof(desc));
    desc.Width = width;
    desc.Height = height;
    desc.Depth = depth;
    desc.Format = format;
    desc.NumChannels = channels;
    desc.Flags = flags;
    return cuArray3DCreate(array, &desc);
}

/* Of drivers of CUDA 12 on: by name, so that an older one can be asked the rest. */
static CUresult requirements(CUDA_ARRAY_MEMORY_REQUIREMENTS *needs, const char *name,
                             void *array)
{
    CUresult (*ask)(CUDA_ARRAY_MEMORY_REQUIREMENTS *, void *, CUdevice) =
        (CUresult(*)(CUDA_ARRAY_MEMORY_REQUIREMENTS *, void *, CUdevice))observe_symbol(name);
    return ask ? ask(needs, array, 0) : CUDA_ERROR_NOT_FOUND;
}

static const struct {
    const char *name;
    size_t width, height, depth;
    CUarray_format format;
    unsigned channels, flags;
} shapes[] = {
    {"plain", 1000, 1000, 0, FLOAT, 4, 0},
    {"just_small", 512, 512, 0, FLOAT, 1, 0},
    {"just_large", 512, 513, 0, FLOAT, 1, 0},
    {"line", 131072, 0, 0, FLOAT, 4, 0},
    {"few_rows", 65536, 9, 0, FLOAT, 4, 0},
    {"few_columns", 9, 65536, 0, FLOAT, 4, 0},
    {"odd_rows", 4096, 1025, 0, FLOAT, 4, 0},
    {"surface", 1024, 1024, 0, FLOAT, 4, CUDA_ARRAY3D_SURFACE_LDST},
    {"gather", 1024, 1024, 0, FLOAT, 4, CUDA_ARRAY3D_TEXTURE_GATHER},
    {"solid", 256, 256, 256, FLOAT, 1, 0},
    {"solid_odd", 200, 200, 201, FLOAT, 1, 0},
    {"layers", 1000, 1000, 7, FLOAT, 1, CUDA_ARRAY3D_LAYERED},
    {"line_layers", 16384, 0, 64, FLOAT, 1, CUDA_ARRAY3D_LAYERED},
    {"cube", 512, 512, 6, FLOAT, 4, CUDA_ARRAY3D_CUBEMAP},
    {"cubes", 512, 512, 12, FLOAT, 4, CUDA_ARRAY3D_CUBEMAP | CUDA_ARRAY3D_LAYERED},
    {"bytes", 4096, 4096, 0, CU_AD_FORMAT_UNSIGNED_INT8, 1, 0},
    {"halves", 2048, 2048, 0, CU_AD_FORMAT_HALF, 4, 0},
    {"unorm8x4", 4096, 4096, 0, CU_AD_FORMAT_UNORM_INT8X4, 4, 0},
    {"rgb10a2", 4096, 4096, 0, CU_AD_FORMAT_UNORM_INT_101010_2, 4, 0},
    {"bc1", 4096, 4096, 0, CU_AD_FORMAT_BC1_UNORM, 4, 0},
    {"bc4", 4096, 4096, 0, CU_AD_FORMAT_BC4_UNORM, 1, 0},
    {"bc6h", 4096, 4096, 0, CU_AD_FORMAT_BC6H_UF16, 3, 0},
    {"bc7", 4096, 4096, 0, CU_AD_FORMAT_BC7_UNORM, 4, 0},
    {"bc7_odd", 4093, 4093, 0, CU_AD_FORMAT_BC7_UNORM, 4, 0},
    {"nv12", 4096, 4096, 0, CU_AD_FORMAT_NV12, 3, 0},
    {"p010", 4096, 4096, 0, CU_AD_FORMAT_P010, 3, 0},
    {"nv16", 4096, 4096, 0, CU_AD_FORMAT_NV16, 3, 0},
    {"p216", 4096, 4096, 0, CU_AD_FORMAT_P216, 3, 0},
    {"yuy2", 4096, 4096, 0, CU_AD_FORMAT_YUY2, 2, 0},
    {"y416", 2048, 2048, 0, CU_AD_FORMAT_Y416, 4, 0},
    {"planar444", 4096, 4096, 0, CU_AD_FORMAT_Y444_PLANAR8, 3, 0},
    {"semiplanar444", 2048, 2048, 0, CU_AD_FORMAT_YUV444_16bit_SemiPlanar, 3, 0},
};

/* Is what is refused made for video? */
static CUresult observe_video(CUarray *array, size_t i)
{
    const unsigned flags = CUDA_ARRAY3D_VIDEO_ENCODE_DECODE;
    CUresult code = create(array, shapes[i].width, shapes[i].height, shapes[i].depth,
                           shapes[i].format, shapes[i].channels, flags);
    observe_code(code, "array.%s.video", shapes[i].name);
    return code;
}

void observe_array_sizes(void)
{
    CUarray array, small[64];
    uint64_t before;
    observe_begin();
    for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++) {
        CUresult code;
        before = observe_process_bytes();
        array = NULL;
        code = create(&array, shapes[i].width, shapes[i].height, shapes[i].depth,
                      shapes[i].format, shapes[i].channels, shapes[i].flags);
        observe_code(code, "array.%s", shapes[i].name);
        if (code)
            code = observe_video(&array, i);
        if (code)
            continue;
        observe_size(observe_process_bytes() - before, "array.%s.process", shapes[i].name);
        code = cuArrayDestroy(array);
        if (code || observe_process_bytes() != before) {
            observe_code(code, "array.%s.destroy", shapes[i].name);
            observe_size(observe_process_bytes() - before, "array.%s.destroyed.process",
                         shapes[i].name);
        }
    }
    before = observe_process_bytes();
    memset(small, 0, sizeof(small));
    for (int i = 0; i < 64; i++)
        create(&small[i], 64, 64, 0, FLOAT, 1, 0);
    observe_size(observe_process_bytes() - before, "array.small.process");
    for (int i = 1; i < 64; i++)
        cuArrayDestroy(small[i]);
    observe_size(observe_process_bytes() - before, "array.small.one_left.process");
    cuArrayDestroy(small[0]);
    observe_size(observe_process_bytes() - before, "array.small.none_left.process");
}

void observe_mipmaps(void)
{
    static const struct {
        const char *name;
        CUDA_ARRAY3D_DESCRIPTOR desc;
        unsigned levels;
    } cases[] = {
        {"one", {1000, 1000, 0, FLOAT, 4, 0}, 1},
        {"five", {1000, 1000, 0, FLOAT, 4, 0}, 5},
        {"zero", {1000, 1000, 0, FLOAT, 4, 0}, 0},
        {"many", {1000, 1000, 0, FLOAT, 4, 0}, 99},
        {"solid", {256, 256, 256, FLOAT, 1, 0}, 4},
        {"layers", {512, 512, 16, FLOAT, 1, CUDA_ARRAY3D_LAYERED}, 10},
        {"bc7", {4096, 4096, 0, CU_AD_FORMAT_BC7_UNORM, 4, 0}, 13},
    };
    CUDA_ARRAY_MEMORY_REQUIREMENTS needs;
    CUmipmappedArray mipmap = NULL;
    CUarray level = NULL, again = NULL;
    uint64_t before;
    observe_begin();
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        before = observe_process_bytes();
        observe_code(cuMipmappedArrayCreate(&mipmap, &cases[i].desc, cases[i].levels),
                     "mipmap.%s", cases[i].name);
        observe_size(observe_process_bytes() - before, "mipmap.%s.process", cases[i].name);
        cuMipmappedArrayDestroy(mipmap);
    }
    before = observe_process_bytes();
    observe_code(cuMipmappedArrayCreate(&mipmap, &cases[1].desc, 5), "mipmap.create");
    observe_code(cuMipmappedArrayGetLevel(&level, mipmap, 1), "mipmap.level");
    observe_code(cuMipmappedArrayGetLevel(&again, mipmap, 1), "mipmap.level_again");
    observe_fact(level == again, "mipmap.level_is_same");
    observe_code(cuMipmappedArrayGetLevel(&again, mipmap, 5), "mipmap.level_beyond");
    observe_code(requirements(&needs, "cuMipmappedArrayGetMemoryRequirements", mipmap),
                 "mipmap.requirements");
    observe_code(cuMipmappedArrayDestroy(mipmap), "mipmap.destroy");
    observe_size(observe_process_bytes() - before, "mipmap.destroyed.process");
    observe_code(cuMipmappedArrayDestroy(NULL), "mipmap.destroy_null");
}

void observe_array_codes(void)
{
    CUDA_ARRAY_DESCRIPTOR flat = {64, 32, FLOAT, 1};
    CUDA_ARRAY3D_DESCRIPTOR desc;
    CUDA_ARRAY_MEMORY_REQUIREMENTS needs;
    CUresult (*first_form)(CUarray *, const void *) =
        (CUresult(*)(CUarray *, const void *))observe_symbol("cuArrayCreate");
    const struct {
        unsigned width, height;
        CUarray_format format;
        unsigned channels;
    } narrow = {64, 32, FLOAT, 1};
    CUarray array = NULL, plane = NULL, again = NULL;
    CUcontext context;
    CUstream stream;
    CUgraph graph = NULL;
    CUresult code;
    cuInit(0);
    observe_code(cuArrayCreate(&array, &flat), "array.no_context.create");
    observe_code(cuArrayCreate(NULL, NULL), "array.no_context.create_null");
    context = observe_primary();
    observe_code(create(&array, 0, 16, 0, FLOAT, 1, 0), "array.no_width");
    observe_fact(array == NULL, "array.no_width.handle_is_null");
    observe_code(create(&array, 16, 16, 0, FLOAT, 3, 0), "array.three_channels");
    observe_code(create(&array, 16, 16, 0, FLOAT, 0, 0), "array.no_channels");
    observe_code(create(&array, 16, 16, 0, (CUarray_format)0x77, 1, 0), "array.format");
    observe_code(create(&array, 16, 16, 0, FLOAT, 1, 0x1000), "array.flags");
    observe_code(create(&array, 16, 0, 16, FLOAT, 1, 0), "array.no_height");
    observe_code(create(&array, 16, 16, 0, FLOAT, 1, CUDA_ARRAY3D_LAYERED), "array.no_layers");
    observe_code(create(&array, 16, 16, 5, FLOAT, 1, CUDA_ARRAY3D_CUBEMAP), "array.five_faces");
    observe_code(create(&array, 131073, 16, 0, FLOAT, 1, 0), "array.too_wide");
    observe_code(create(&array, 16384, 16384, 16384, FLOAT, 4, 0), "array.more_than_there_is");
    observe_fact(array == NULL, "array.more_than_there_is.handle_is_null");
    observe_code(cuArrayCreate(NULL, &flat), "array.create_null");
    observe_code(cuArrayCreate(&array, NULL), "array.create_no_descriptor");
    code = first_form ? first_form(&array, &narrow) : CUDA_ERROR_NOT_FOUND;
    observe_code(code, "array.first_form");
    if (!code)
        cuArrayDestroy(array);
    observe_code(cuArrayCreate(&array, &flat), "array.create");
    observe_code(cuArray3DGetDescriptor(&desc, array), "array.descriptor");
    observe_fact((long long)desc.Depth, "array.descriptor.depth");
    observe_code(cuArray3DGetDescriptor(NULL, array), "array.descriptor_null");
    observe_code(requirements(&needs, "cuArrayGetMemoryRequirements", array),
                 "array.requirements");
    observe_code(cuArrayGetPlane(&plane, array, 0), "array.plane_of_plain");
    cuArrayDestroy(array);
    observe_code(create(&array, 64, 32, 0, CU_AD_FORMAT_NV12, 3, 0), "array.planar");
    observe_code(create(&array, 64, 32, 0, CU_AD_FORMAT_NV12, 1, 0),
                 "array.planar_one_channel");
    code = create(&array, 64, 32, 0, CU_AD_FORMAT_NV12, 3, CUDA_ARRAY3D_VIDEO_ENCODE_DECODE);
    observe_code(code, "array.planar_video");
    if (!code) {
        observe_code(cuArrayGetPlane(&plane, array, 1), "array.plane");
        observe_code(cuArrayGetPlane(&again, array, 1), "array.plane_again");
        observe_fact(plane == again, "array.plane_is_same");
        observe_code(cuArrayGetPlane(&again, array, 2), "array.plane_beyond");
        observe_code(cuArrayDestroy(array), "array.planar.destroy");
    }
    stream = observe_stream();
    cuArrayCreate(&array, &flat);
    observe_code(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL), "array.capture");
    observe_code(cuArrayCreate(&again, &flat), "array.captured.create");
    observe_code(cuStreamEndCapture(stream, &graph), "array.captured.end");
    /* Destroyed while a stream is held, and from no context. */
    observe_code(observe_hold(stream), "array.hold");
    observe_code(cuArrayDestroy(array), "array.held.destroy");
    observe_fact(observe_was_blocked(), "array.held.destroy_waits");
    observe_let_go();
    cuStreamSynchronize(stream);
    cuArrayCreate(&array, &flat);
    cuCtxPopCurrent(&context);
    observe_code(cuArrayDestroy(array), "array.no_context.destroy");
    cuCtxPushCurrent(context);
    observe_code(cuArrayDestroy(NULL), "array.destroy_null");
}

void observe_array_end(void)
{
    CUcontext context = NULL;
    CUarray array = NULL;
    uint64_t before;
    observe_begin();
    before = observe_process_bytes();
    observe_code(observe_context_create(&context, 0, 0), "array_end.context");
    observe_code(create(&array, 1000, 1000, 0, FLOAT, 4, 0), "array_end.create");
    observe_code(cuCtxDestroy(context), "array_end.context_destroy");
    observe_size(observe_process_bytes() - before, "array_end.process");
    /* Last, since nobody knows. */
    observe_code(cuArrayDestroy(array), "array_end.destroy");
}

static CUarrayMapInfo tile(CUarray array, unsigned width, unsigned height,
                           CUmemGenericAllocationHandle handle)
{
    CUarrayMapInfo info;
    memset(&info, 0, sizeof(info));
    info.resourceType = CU_RESOURCE_TYPE_ARRAY;
    info.resource.array = array;
    info.subresource.sparseLevel.extentWidth = width;
    info.subresource.sparseLevel.extentHeight = height;
    info.subresource.sparseLevel.extentDepth = 1;
    info.memOperationType = handle ? CU_MEM_OPERATION_TYPE_MAP : CU_MEM_OPERATION_TYPE_UNMAP;
    info.memHandle.memHandle = handle;
    info.deviceBitMask = 1;
    return info;
}

/* For handles that arrays are bound to. */
static CUmemAllocationProp tile_pool(void)
{
    CUmemAllocationProp props;
    memset(&props, 0, sizeof(props));
    props.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    props.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    props.allocFlags.usage = CU_MEM_CREATE_USAGE_TILE_POOL;
    return props;
}

void observe_deferred(void)
{
    const CUmemAllocationProp props = tile_pool();
    CUDA_ARRAY_MEMORY_REQUIREMENTS needs;
    CUmemGenericAllocationHandle handle = 0;
    CUarrayMapInfo info;
    CUarray array = NULL;
    CUstream stream;
    uint64_t before;
    observe_begin();
    stream = observe_stream();
    before = observe_process_bytes();
    observe_code(create(&array, 1000, 1000, 0, FLOAT, 4, CUDA_ARRAY3D_DEFERRED_MAPPING),
                 "deferred.create");
    if (!array)
        return;
    observe_size(observe_process_bytes() - before, "deferred.created.process");
    memset(&needs, 0, sizeof(needs));
    observe_code(requirements(&needs, "cuArrayGetMemoryRequirements", array),
                 "deferred.requirements");
    observe_size(needs.size, "deferred.requirements");
    observe_size(needs.alignment, "deferred.alignment");
    observe_code(cuMemCreate(&handle, 16 * MIB, &props, 0), "deferred.handle");
    info = tile(array, 0, 0, handle);
    observe_code(cuMemMapArrayAsync(&info, 1, stream), "deferred.map");
    observe_code(cuStreamSynchronize(stream), "deferred.synchronize");
    cuMemRelease(handle);
    observe_size(observe_process_bytes() - before, "deferred.released.process");
    observe_code(cuArrayDestroy(array), "deferred.destroy");
    observe_size(observe_process_bytes() - before, "deferred.destroyed.process");
}

void observe_sparse(void)
{
    CUDA_ARRAY_SPARSE_PROPERTIES sparse;
    CUmemGenericAllocationHandle handle = 0, plain = 0;
    CUmemAllocationProp props;
    CUarrayMapInfo info;
    CUdeviceptr address = 0;
    CUarray array = NULL;
    CUstream stream;
    CUresult code;
    uint64_t before;
    observe_begin();
    stream = observe_stream();
    memset(&props, 0, sizeof(props));
    props.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    props.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    observe_code(cuMemCreate(&plain, 2 * MIB, &props, 0), "sparse.plain_handle");
    props.allocFlags.usage = CU_MEM_CREATE_USAGE_TILE_POOL;
    before = observe_process_bytes();
    observe_code(create(&array, 1000, 1000, 0, FLOAT, 4, CUDA_ARRAY3D_SPARSE), "sparse.create");
    if (!array)
        return;
    observe_size(observe_process_bytes() - before, "sparse.created.process");
    memset(&sparse, 0, sizeof(sparse));
    observe_code(cuArrayGetSparseProperties(&sparse, array), "sparse.properties");
    observe_fact(sparse.tileExtent.width, "sparse.tile.width");
    observe_fact(sparse.tileExtent.height, "sparse.tile.height");
    observe_fact(sparse.flags, "sparse.flags");
    observe_size(sparse.miptailSize, "sparse.tail");
    observe_code(cuMemCreate(&handle, 2 * MIB, &props, 0), "sparse.handle");
    observe_size(observe_process_bytes() - before, "sparse.handle.process");
    observe_code(cuMemAddressReserve(&address, 2 * MIB, 0, 0, 0), "sparse.reserve");
    code = cuMemMap(address, 2 * MIB, 0, handle, 0);
    observe_code(code, "sparse.map_pointer");
    if (!code)
        cuMemUnmap(address, 2 * MIB);
    cuMemAddressFree(address, 2 * MIB);
    info = tile(array, sparse.tileExtent.width, sparse.tileExtent.height, plain);
    observe_code(cuMemMapArrayAsync(&info, 1, stream), "sparse.map_plain_handle");
    info.memHandle.memHandle = handle;
    info.deviceBitMask = 0;
    observe_code(cuMemMapArrayAsync(&info, 1, stream), "sparse.map_no_device");
    info.deviceBitMask = 1;
    observe_code(cuMemMapArrayAsync(&info, 0, stream), "sparse.map_none");
    /* Of a handle that is released while the map is queued, the memory is gone at once (580);
     * when the stream got there the driver crashed. Here this process ends before. */
    observe_code(observe_hold(stream), "sparse.hold");
    observe_code(cuMemMapArrayAsync(&info, 1, stream), "sparse.map");
    observe_fact(observe_was_blocked(), "sparse.map_waits");
    observe_code(cuMemRelease(handle), "sparse.release");
    observe_size(observe_process_bytes() - before, "sparse.released_before_map.process");
}

/* Bindings that the stream has come to. */
void observe_sparse_bound(void)
{
    const CUmemAllocationProp props = tile_pool();
    CUDA_ARRAY_SPARSE_PROPERTIES sparse;
    CUmemGenericAllocationHandle handle = 0;
    CUarrayMapInfo info;
    CUarray array = NULL;
    CUstream stream;
    uint64_t before;
    observe_begin();
    stream = observe_stream();
    before = observe_process_bytes();
    create(&array, 1000, 1000, 0, FLOAT, 4, CUDA_ARRAY3D_SPARSE);
    memset(&sparse, 0, sizeof(sparse));
    cuArrayGetSparseProperties(&sparse, array);
    observe_code(cuMemCreate(&handle, 2 * MIB, &props, 0), "sparse_bound.handle");
    info = tile(array, sparse.tileExtent.width, sparse.tileExtent.height, handle);
    observe_code(cuMemMapArrayAsync(&info, 1, stream), "sparse_bound.map");
    observe_code(cuStreamSynchronize(stream), "sparse_bound.synchronize");
    observe_size(observe_process_bytes() - before, "sparse_bound.mapped.process");
    observe_code(cuMemRelease(handle), "sparse_bound.release");
    observe_size(observe_process_bytes() - before, "sparse_bound.released.process");
    info = tile(array, sparse.tileExtent.width, sparse.tileExtent.height, 0);
    observe_code(cuMemMapArrayAsync(&info, 1, stream), "sparse_bound.unmap");
    cuStreamSynchronize(stream);
    observe_size(observe_process_bytes() - before, "sparse_bound.unmapped.process");
    /* A binding that is left when the array goes. */
    cuMemCreate(&handle, 2 * MIB, &props, 0);
    info = tile(array, sparse.tileExtent.width, sparse.tileExtent.height, handle);
    cuMemMapArrayAsync(&info, 1, stream);
    cuStreamSynchronize(stream);
    cuMemRelease(handle);
    observe_code(cuArrayDestroy(array), "sparse_bound.destroy");
    observe_size(observe_process_bytes() - before, "sparse_bound.destroyed.process");
}

/* Or when the array's context goes: by the card's figure, since the process's does not show
 * what only arrays have hold of. Large, and a yes or no, because others may use the card. */
void observe_sparse_context(void)
{
    const CUmemAllocationProp props = tile_pool();
    CUDA_ARRAY_SPARSE_PROPERTIES sparse;
    CUmemGenericAllocationHandle handle = 0;
    CUcontext primary = observe_primary(), context = NULL;
    CUarrayMapInfo info;
    CUarray array = NULL;
    CUstream stream;
    uint64_t before, held;
    before = observe_card_bytes();
    observe_context_create(&context, 0, 0);
    stream = observe_stream();
    create(&array, 1000, 1000, 0, FLOAT, 4, CUDA_ARRAY3D_SPARSE);
    memset(&sparse, 0, sizeof(sparse));
    cuArrayGetSparseProperties(&sparse, array);
    observe_code(cuMemCreate(&handle, GIB, &props, 0), "sparse_context.handle");
    info = tile(array, sparse.tileExtent.width, sparse.tileExtent.height, handle);
    observe_code(cuMemMapArrayAsync(&info, 1, stream), "sparse_context.map");
    cuStreamSynchronize(stream);
    observe_code(cuMemRelease(handle), "sparse_context.release");
    held = observe_card_bytes() - before;
    observe_fact(held >= GIB, "sparse_context.held");
    observe_code(cuCtxDestroy(context), "sparse_context.destroy");
    cuCtxSetCurrent(primary);
    observe_fact(observe_card_bytes() < before + GIB / 2, "sparse_context.given_back");
}
