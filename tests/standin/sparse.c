/* Arrays whose memory comes later, from handles: sparse ones tile by tile, deferred ones as a
 * whole. A binding holds its handle. Maps and unmaps take their turn in the stream; until then
 * a map does not hold its handle (measured: the memory of one that was released was gone, and
 * then the driver crashed). */
#include "array.h"

#include <stdio.h>

/* Elements of a tile by bytes of a block, as graphics interfaces define them; measured is the
 * flat one of 16 bytes. */
static const struct {
    unsigned bytes, flat[2], solid[3];
} shapes[] = {
    {1, {256, 256}, {64, 32, 32}}, {2, {256, 128}, {32, 32, 32}}, {4, {128, 128}, {32, 32, 16}},
    {8, {128, 64}, {32, 16, 16}},  {16, {64, 64}, {16, 16, 16}},
};

static bool solid(const CUDA_ARRAY3D_DESCRIPTOR *desc)
{
    return desc->Depth && !(desc->Flags & (CUDA_ARRAY3D_LAYERED | CUDA_ARRAY3D_CUBEMAP));
}

static uint64_t pieces(uint64_t size, unsigned of)
{
    return (size + of - 1) / of;
}

static bool tile_shape(const struct sim_array *array, struct sim_tiles *tiles)
{
    for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++) {
        if (array->format.planes || shapes[i].bytes != array->format.bytes)
            continue;
        if (solid(&array->desc)) {
            tiles->width = shapes[i].solid[0] * array->format.square;
            tiles->height = shapes[i].solid[1] * array->format.square;
            tiles->depth = shapes[i].solid[2];
        } else {
            tiles->width = shapes[i].flat[0] * array->format.square;
            tiles->height = shapes[i].flat[1] * array->format.square;
            tiles->depth = 1;
        }
        return true;
    }
    return false;
}

static void level_tiles(const struct sim_array *array, const struct sim_tiles *tiles,
                        unsigned level, uint64_t count[3])
{
    CUDA_ARRAY3D_DESCRIPTOR desc;
    sim_array_level(&array->desc, level, &desc);
    count[0] = pieces(desc.Width, tiles->width);
    count[1] = pieces(desc.Height, tiles->height);
    count[2] = solid(&desc) ? pieces(desc.Depth, tiles->depth) : 1;
}

static bool in_tail(const struct sim_array *array, const struct sim_tiles *tiles,
                    unsigned level)
{
    CUDA_ARRAY3D_DESCRIPTOR desc;
    sim_array_level(&array->desc, level, &desc);
    return desc.Width < tiles->width || desc.Height < tiles->height ||
           (solid(&desc) && desc.Depth < tiles->depth);
}

struct sim_tiles *sim_tiles_new(const struct sim_array *array)
{
    struct sim_tiles *tiles = sim_new(sizeof(*tiles));
    if (array->desc.Flags & CUDA_ARRAY3D_SPARSE) {
        if (!tile_shape(array, tiles)) {
            free(tiles);
            return NULL;
        }
        for (; tiles->tail_level < array->levels && !in_tail(array, tiles, tiles->tail_level);
             tiles->tail_level++) {
            uint64_t count[3];
            level_tiles(array, tiles, tiles->tail_level, count);
            tiles->level[tiles->tail_level] = tiles->layer;
            tiles->layer += count[0] * count[1] * count[2];
        }
        tiles->tail = sim_round_up(sim_array_bytes(&array->desc, &array->format,
                                                   tiles->tail_level, array->levels, false),
                                   sim_settings.profile->sparse_tile) /
                      sim_settings.profile->sparse_tile;
        tiles->layer += tiles->tail;
        tiles->count = tiles->layer * sim_array_layers(&array->desc);
    } else {
        tiles->count = 1;
    }
    tiles->at = calloc(tiles->count, sizeof(struct sim_physical *));
    if (!tiles->at)
        abort();
    return tiles;
}

static void bind_tile(struct sim_tiles *tiles, uint64_t index, struct sim_physical *physical)
{
    struct sim_physical *before = tiles->at[index];
    if (physical)
        physical->bindings++;
    tiles->at[index] = physical;
    if (before) {
        before->bindings--;
        sim_physical_check(before);
    }
}

void sim_tiles_end(struct sim_tiles *tiles)
{
    for (uint64_t i = 0; i < tiles->count; i++)
        if (tiles->at[i])
            bind_tile(tiles, i, NULL);
    free(tiles->at);
    free(tiles);
}

/* ---- what can be asked ---- */

static CUresult sparse_properties(CUDA_ARRAY_SPARSE_PROPERTIES *properties, const void *handle,
                                  enum sim_kind kind)
{
    const uint64_t tile = sim_settings.profile->sparse_tile;
    CUresult code;
    struct sim_array *array = sim_array_find(handle, kind, &code);
    if (!properties || !array || !(array->desc.Flags & CUDA_ARRAY3D_SPARSE) || array->parent)
        return CUDA_ERROR_INVALID_VALUE;
    memset(properties, 0, sizeof(*properties));
    properties->tileExtent.width = array->tiles->width;
    properties->tileExtent.height = array->tiles->height;
    properties->tileExtent.depth = array->tiles->depth;
    properties->miptailFirstLevel = kind == SIM_MIPMAP ? array->tiles->tail_level : 0;
    properties->miptailSize = array->tiles->tail * tile;
    if (kind == SIM_ARRAY && array->tiles->tail) {
        properties->miptailSize *= sim_array_layers(&array->desc);
        properties->flags = CU_ARRAY_SPARSE_PROPERTIES_SINGLE_MIPTAIL;
    }
    return CUDA_SUCCESS;
}

CUresult cuArrayGetSparseProperties(CUDA_ARRAY_SPARSE_PROPERTIES *sparseProperties,
                                    CUarray array)
{
    SIM_ENTER(cuArrayGetSparseProperties, W(sparseProperties), W(array));
    return sparse_properties(sparseProperties, array, SIM_ARRAY);
}

CUresult cuMipmappedArrayGetSparseProperties(CUDA_ARRAY_SPARSE_PROPERTIES *sparseProperties,
                                             CUmipmappedArray mipmap)
{
    SIM_ENTER(cuMipmappedArrayGetSparseProperties, W(sparseProperties), W(mipmap));
    return sparse_properties(sparseProperties, mipmap, SIM_MIPMAP);
}

static uint64_t deferred_bytes(const struct sim_array *array)
{
    return sim_round_up(array->bytes, sim_settings.profile->sparse_tile);
}

static CUresult requirements(CUDA_ARRAY_MEMORY_REQUIREMENTS *result, const void *handle,
                             enum sim_kind kind, CUdevice device)
{
    CUresult code;
    struct sim_array *array = sim_array_find(handle, kind, &code);
    if (!result || !array || array->parent || !sim_card_of(device) ||
        !(array->desc.Flags & CUDA_ARRAY3D_DEFERRED_MAPPING))
        return CUDA_ERROR_INVALID_VALUE;
    memset(result, 0, sizeof(*result));
    result->size = deferred_bytes(array);
    result->alignment = sim_settings.profile->sparse_tile;
    return CUDA_SUCCESS;
}

CUresult cuArrayGetMemoryRequirements(CUDA_ARRAY_MEMORY_REQUIREMENTS *memoryRequirements,
                                      CUarray array, CUdevice device)
{
    SIM_ENTER(cuArrayGetMemoryRequirements, W(memoryRequirements), W(array), W(device));
    return requirements(memoryRequirements, array, SIM_ARRAY, device);
}

CUresult
cuMipmappedArrayGetMemoryRequirements(CUDA_ARRAY_MEMORY_REQUIREMENTS *memoryRequirements,
                                      CUmipmappedArray mipmap, CUdevice device)
{
    SIM_ENTER(cuMipmappedArrayGetMemoryRequirements, W(memoryRequirements), W(mipmap),
              W(device));
    return requirements(memoryRequirements, mipmap, SIM_MIPMAP, device);
}

/* ---- binding ---- */

struct bind { /* one entry of a call: a box of tiles */
    struct sim_array *array;
    struct sim_physical *physical; /* NULL: unmap */
    uint64_t base;                 /* of the box's level, or of its part of the tail */
    uint64_t from[3], to[3], wide[3];
};

struct binds {
    unsigned count;
    struct bind bind[];
};

static void binds_run(void *argument)
{
    struct binds *all = argument;
    for (unsigned i = 0; i < all->count; i++) {
        struct bind *one = &all->bind[i];
        if (one->physical && !one->physical->memory) {
            fputs("standin: a map of a handle that was released before its turn\n", stderr);
            abort();
        }
        if (one->array->tiles)
            for (uint64_t z = one->from[2]; z < one->to[2]; z++)
                for (uint64_t y = one->from[1]; y < one->to[1]; y++)
                    for (uint64_t x = one->from[0]; x < one->to[0]; x++)
                        bind_tile(one->array->tiles,
                                  one->base + (z * one->wide[1] + y) * one->wide[0] + x,
                                  one->physical);
        if (one->physical)
            one->physical->queued--;
        sim_array_drop(one->array);
    }
    free(all);
}

/* One direction of a box: whole tiles, but for the rest at the level's end. */
static bool box_side(struct bind *bind, int side, uint64_t offset, uint64_t extent,
                     uint64_t size, unsigned tile)
{
    if (!size)
        size = 1;
    if (!extent || offset % tile || offset >= size ||
        extent > sim_round_up(size, tile) - offset)
        return false;
    if (extent % tile && offset + extent != size)
        return false;
    bind->from[side] = offset / tile;
    bind->to[side] = pieces(offset + extent, tile);
    bind->wide[side] = pieces(size, tile);
    return true;
}

static bool tail_box(struct bind *bind, const CUarrayMapInfo *info)
{
    const uint64_t tile = sim_settings.profile->sparse_tile;
    const struct sim_tiles *tiles = bind->array->tiles;
    const uint64_t offset = info->subresource.miptail.offset;
    const uint64_t size = info->subresource.miptail.size;
    uint64_t most = tiles->tail * tile;
    bind->base =
        tiles->layer - tiles->tail + (uint64_t)info->subresource.miptail.layer * tiles->layer;
    /* An array in one piece: its layers have no levels before the tail. */
    if (bind->array->object.kind == SIM_ARRAY)
        most *= sim_array_layers(&bind->array->desc);
    if (info->subresource.miptail.layer >= sim_array_layers(&bind->array->desc) ||
        offset % tile || size % tile || !size || offset > most || size > most - offset)
        return false;
    for (int side = 0; side < 3; side++) {
        bind->from[side] = 0;
        bind->to[side] = bind->wide[side] = 1;
    }
    bind->from[0] = offset / tile;
    bind->to[0] = bind->wide[0] = (offset + size) / tile;
    return bind->base + bind->to[0] <= tiles->count;
}

static bool level_box(struct bind *bind, const CUarrayMapInfo *info)
{
    const struct sim_tiles *tiles = bind->array->tiles;
    const unsigned level = info->subresource.sparseLevel.level;
    const unsigned layer = info->subresource.sparseLevel.layer;
    CUDA_ARRAY3D_DESCRIPTOR desc;
    if (level >= tiles->tail_level || layer >= sim_array_layers(&bind->array->desc))
        return false;
    sim_array_level(&bind->array->desc, level, &desc);
    bind->base = tiles->level[level] + layer * tiles->layer;
    return box_side(bind, 0, info->subresource.sparseLevel.offsetX,
                    info->subresource.sparseLevel.extentWidth, desc.Width, tiles->width) &&
           box_side(bind, 1, info->subresource.sparseLevel.offsetY,
                    info->subresource.sparseLevel.extentHeight, desc.Height, tiles->height) &&
           box_side(bind, 2, info->subresource.sparseLevel.offsetZ,
                    info->subresource.sparseLevel.extentDepth, solid(&desc) ? desc.Depth : 1,
                    tiles->depth);
}

static bool box(struct bind *bind, const CUarrayMapInfo *info)
{
    if (bind->array->desc.Flags & CUDA_ARRAY3D_DEFERRED_MAPPING) {
        for (int side = 0; side < 3; side++)
            bind->to[side] = bind->wide[side] = 1;
        return true;
    }
    switch (info->subresourceType) {
    case CU_ARRAY_SPARSE_SUBRESOURCE_TYPE_MIPTAIL:
        return tail_box(bind, info);
    case CU_ARRAY_SPARSE_SUBRESOURCE_TYPE_SPARSE_LEVEL:
        return level_box(bind, info);
    default:
        return false;
    }
}

static CUresult read_entry(const CUarrayMapInfo *info, const struct sim_card *card,
                           struct bind *bind)
{
    const uint64_t tile = sim_settings.profile->sparse_tile;
    uint64_t bytes;
    CUresult code = CUDA_ERROR_INVALID_VALUE;
    memset(bind, 0, sizeof(*bind));
    if (info->resourceType == CU_RESOURCE_TYPE_ARRAY)
        bind->array = sim_array_find(info->resource.array, SIM_ARRAY, &code);
    else if (info->resourceType == CU_RESOURCE_TYPE_MIPMAPPED_ARRAY)
        bind->array = sim_array_find(info->resource.mipmap, SIM_MIPMAP, &code);
    if (!bind->array)
        return code;
    if (!bind->array->tiles || info->flags || info->reserved[0] || info->reserved[1] ||
        card->ordinal >= 32 || info->deviceBitMask != 1u << card->ordinal ||
        bind->array->context->card != card || !box(bind, info))
        return CUDA_ERROR_INVALID_VALUE;
    if (info->memOperationType == CU_MEM_OPERATION_TYPE_UNMAP)
        return info->memHandle.memHandle ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
    if (info->memOperationType != CU_MEM_OPERATION_TYPE_MAP ||
        info->memHandleType != CU_MEM_HANDLE_TYPE_GENERIC)
        return CUDA_ERROR_INVALID_VALUE;
    bind->physical = sim_physical_find(info->memHandle.memHandle);
    if (!bind->physical)
        return CUDA_ERROR_INVALID_HANDLE;
    bytes = (bind->to[0] - bind->from[0]) * (bind->to[1] - bind->from[1]) *
            (bind->to[2] - bind->from[2]) * tile;
    if (bind->array->desc.Flags & CUDA_ARRAY3D_DEFERRED_MAPPING)
        bytes = deferred_bytes(bind->array);
    if (bind->physical->memory->card != card || info->offset % tile ||
        !(bind->physical->memory->props.allocFlags.usage & CU_MEM_CREATE_USAGE_TILE_POOL) ||
        info->offset > bind->physical->memory->size ||
        bytes > bind->physical->memory->size - info->offset)
        return CUDA_ERROR_INVALID_VALUE;
    return CUDA_SUCCESS;
}

/* Not measured: one wrong entry, and none of them is done; a stream that captures is spoiled.
 */
static CUresult map_arrays(const CUarrayMapInfo *list, unsigned count, CUstream hStream,
                           bool per_thread)
{
    struct sim_stream *stream;
    CUresult code = sim_stream_find(hStream, per_thread, &stream);
    struct sim_piece piece = {.work = SIM_WORK_CALL, .function = binds_run};
    struct binds *all;
    if (code)
        return code;
    if (!list || !count)
        return CUDA_ERROR_INVALID_VALUE;
    code = sim_capture_implicit(stream);
    if (code)
        return code;
    if (stream->capture) {
        sim_spoil(stream->capture);
        return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    }
    all = sim_new(sizeof(*all) + count * sizeof(all->bind[0]));
    all->count = count;
    for (unsigned i = 0; i < count && !code; i++)
        code = read_entry(&list[i], stream->context->card, &all->bind[i]);
    if (code) {
        free(all);
        return code;
    }
    for (unsigned i = 0; i < count; i++) {
        all->bind[i].array->references++;
        if (all->bind[i].physical)
            all->bind[i].physical->queued++;
    }
    piece.argument = all;
    sim_queue(stream, &piece);
    return CUDA_SUCCESS;
}

CUresult cuMemMapArrayAsync(CUarrayMapInfo *mapInfoList, unsigned int count, CUstream hStream)
{
    SIM_ENTER(cuMemMapArrayAsync, W(mapInfoList), W(count), W(hStream));
    SIM_NOTE(mapInfoList, count * sizeof(*mapInfoList));
    return map_arrays(mapInfoList, count, hStream, false);
}

CUresult cuMemMapArrayAsync_ptsz(CUarrayMapInfo *mapInfoList, unsigned int count,
                                 CUstream hStream)
{
    SIM_ENTER(cuMemMapArrayAsync_ptsz, W(mapInfoList), W(count), W(hStream));
    SIM_NOTE(mapInfoList, count * sizeof(*mapInfoList));
    return map_arrays(mapInfoList, count, hStream, true);
}
