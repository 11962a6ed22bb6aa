/*
 * families_sparse.c: sparse arrays, which take nothing themselves, and the handles whose memory
 * is bound to their tiles in the order of a stream.
 */
#include "families.h"

enum { SIDE = 1024, TILE_SIDE = 128 }; /* elements of 4 bytes */

static bool is_bound(const struct worker *worker, unsigned pool)
{
    for (int i = 0; i < SPARSE_ARRAYS; i++)
        for (int k = 0; k < TILES; k++)
            if (worker->sparse[i].tiles[k] == pool + 1)
                return true;
    return false;
}

uint64_t tile_bytes(const struct worker *worker)
{
    uint64_t bytes = 0;

    for (int i = 0; i < TILE_POOLS; i++)
        bytes += worker->tile_pools[i].bytes;
    return bytes;
}

/* Those that nothing holds any more. */
static void forget_pools(struct worker *worker)
{
    for (unsigned i = 0; i < TILE_POOLS; i++)
        if (worker->tile_pools[i].references == 0 && !is_bound(worker, i))
            worker->tile_pools[i] = (struct tile_pool){0};
}

static void settle(struct worker *worker)
{
    sim.release(worker->tiling);
    MUST(cuStreamSynchronize(worker->tiling));
    if (worker->context)
        MUST(cuStreamSynchronize(worker->inner_stream));
}

static void change_tile_pool(struct worker *worker, struct tile_pool *pool)
{
    CUmemGenericAllocationHandle value = SENTINEL;
    CUmemAllocationProp prop;
    size_t bytes = (1 + below(worker, 4)) * REGION;

    if (pool->references > 0) {
        /* A map holds it only from its turn on. */
        settle(worker);
        if (did(worker, "tiles release", cuMemRelease(pool->value)))
            pool->references--;
        forget_pools(worker);
        return;
    }
    if (pool->bytes > 0)
        return;
    memset(&prop, 0, sizeof(prop));
    prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    prop.allocFlags.usage = CU_MEM_CREATE_USAGE_TILE_POOL;
    if (gave(worker, "tiles", cuMemCreate(&value, bytes, &prop, 0), value != SENTINEL))
        *pool = (struct tile_pool){value, bytes, 1};
}

static void begin_sparse(struct worker *worker, struct sparse *sparse)
{
    CUDA_ARRAY3D_DESCRIPTOR shape;
    CUarray array = UNTOUCHED;

    memset(&shape, 0, sizeof(shape));
    shape.Width = shape.Height = SIDE;
    shape.Format = CU_AD_FORMAT_FLOAT;
    shape.NumChannels = 1;
    shape.Flags = CUDA_ARRAY3D_SPARSE;
    if (gave(worker, "sparse array", cuArray3DCreate_v2(&array, &shape), array != UNTOUCHED))
        *sparse = (struct sparse){.array = array, .inner = worker->context != NULL};
}

void end_sparse(struct worker *worker)
{
    settle(worker);
    for (int i = 0; i < SPARSE_ARRAYS; i++) {
        if (worker->sparse[i].array)
            MUST(cuArrayDestroy(worker->sparse[i].array));
        worker->sparse[i] = (struct sparse){0};
    }
    for (int i = 0; i < TILE_POOLS; i++)
        for (; worker->tile_pools[i].references > 0; worker->tile_pools[i].references--)
            MUST(cuMemRelease(worker->tile_pools[i].value));
    forget_pools(worker);
}

/* Their context has ended. */
void forget_inner_sparse(struct worker *worker)
{
    for (int i = 0; i < SPARSE_ARRAYS; i++)
        if (worker->sparse[i].inner)
            worker->sparse[i] = (struct sparse){0};
    forget_pools(worker);
}

static CUarrayMapInfo part(CUarray array, unsigned tile, CUmemGenericAllocationHandle handle)
{
    CUarrayMapInfo info;

    memset(&info, 0, sizeof(info));
    info.resourceType = CU_RESOURCE_TYPE_ARRAY;
    info.resource.array = array;
    info.subresourceType = CU_ARRAY_SPARSE_SUBRESOURCE_TYPE_SPARSE_LEVEL;
    info.subresource.sparseLevel.offsetX = tile * TILE_SIDE;
    info.subresource.sparseLevel.extentWidth = TILE_SIDE;
    info.subresource.sparseLevel.extentHeight = TILE_SIDE;
    info.subresource.sparseLevel.extentDepth = 1;
    info.memOperationType = handle ? CU_MEM_OPERATION_TYPE_MAP : CU_MEM_OPERATION_TYPE_UNMAP;
    info.memHandleType = CU_MEM_HANDLE_TYPE_GENERIC;
    info.memHandle.memHandle = handle;
    info.deviceBitMask = 1;
    return info;
}

/* One tile or more, each bound anew or not bound any more, in one call. */
static void bind_tiles(struct worker *worker, struct sparse *sparse)
{
    CUstream stream = sparse->inner ? worker->inner_stream : worker->tiling;
    struct sparse then = *sparse;
    CUarrayMapInfo list[3];
    unsigned count = 1 + (unsigned)below(worker, 3);

    for (unsigned i = 0; i < count; i++) {
        unsigned tile = (unsigned)below(worker, TILES);
        unsigned pool = (unsigned)below(worker, TILE_POOLS);
        bool binds = worker->tile_pools[pool].references > 0 && one_of(worker, 2);

        list[i] = part(sparse->array, tile, binds ? worker->tile_pools[pool].value : 0);
        then.tiles[tile] = binds ? pool + 1 : 0;
    }
    if (did(worker, "bind",
            one_of(worker, 2) ? cuMemMapArrayAsync(list, count, stream)
                              : cuMemMapArrayAsync_ptsz(list, count, stream)))
        *sparse = then;
    forget_pools(worker);
}

void change_sparse(struct worker *worker)
{
    struct sparse *sparse = &worker->sparse[below(worker, SPARSE_ARRAYS)];

    switch (below(worker, 8)) {
    case 0:
    case 1:
    case 2:
        change_tile_pool(worker, &worker->tile_pools[below(worker, TILE_POOLS)]);
        return;
    case 3:
        sim.hold(worker->tiling);
        return;
    default:
        break;
    }
    if (!sparse->array) {
        begin_sparse(worker, sparse);
        return;
    }
    if (sparse->inner != (worker->context != NULL))
        return;
    if (one_of(worker, 10)) {
        settle(worker);
        if (did(worker, "sparse destroy", cuArrayDestroy(sparse->array)))
            *sparse = (struct sparse){0};
        forget_pools(worker);
    } else {
        bind_tiles(worker, sparse);
    }
}
