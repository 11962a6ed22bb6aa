/*
 * budget_hidden.c: physical memory that only an array has hold of. The card's tools show it for
 * no process, which must not hide what only they can tell.
 */
#define _GNU_SOURCE
#include "budget_program.h"

#include <unistd.h>

#define HANDLE CUmemGenericAllocationHandle
#define PART   (64 * MIB) /* the memory for the whole array of these tests, and more */

static bool requested;

/* Something that only the card's tools can tell has to be seen, and its end, too. */
static void look_at(int line)
{
    static const char big[] = ".version 7.0\n.target sm_70\n.address_size 64\n"
                              ".global .align 4 .b8 big[4194304];\n";
    uint64_t before = info_used(), more;
    CUmodule module;

    MUST(cuModuleLoadData(&module, big));
    more = info_used() - before;
    if (more != (requested ? 0 : 4 * MIB))
        case_fails("line %d: a module of 4 MiB counts %" PRIu64, line, more);
    MUST(cuModuleUnload(module));
    if (info_used() != before)
        case_fails("line %d: %" PRIu64 " in use, not %" PRIu64 " as before", line, info_used(),
                   before);
}

static uint64_t start_used, start_live;

static void begin(const char *name)
{
    case_begin("%s", name);
    start_used = info_used();
    start_live = sim.live_bytes(0);
}

/* What counts, what the card has lost, and that nothing is hidden. */
static void expect_at(int line, uint64_t used, uint64_t live)
{
    uint64_t seen = info_used() - start_used, held = sim.live_bytes(0) - start_live;

    if (seen != used)
        case_fails("line %d: the ledger says %" PRIu64 ", not %" PRIu64, line, seen, used);
    if (held != live)
        case_fails("line %d: the card has lost %" PRIu64 ", not %" PRIu64, line, held, live);
    look_at(line);
    seen = info_used() - start_used;
    if (seen != used)
        case_fails("line %d: after a look the ledger says %" PRIu64 ", not %" PRIu64, line,
                   seen, used);
}

#define EXPECT_HELD(bytes)       expect_at(__LINE__, (bytes), (bytes))
#define EXPECT_CHARGED(used, on) expect_at(__LINE__, (used), (on))

static HANDLE created(size_t bytes, CUmemAllocationHandleType types)
{
    CUmemAllocationProp prop;
    HANDLE handle;

    memset(&prop, 0, sizeof(prop));
    prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    prop.allocFlags.usage = CU_MEM_CREATE_USAGE_TILE_POOL;
    prop.requestedHandleTypes = types;
    MUST(cuMemCreate(&handle, bytes, &prop, 0));
    return handle;
}

static CUarray array_of(unsigned flags)
{
    CUDA_ARRAY3D_DESCRIPTOR desc;
    CUarray array;

    memset(&desc, 0, sizeof(desc));
    desc.Width = desc.Height = 4096;
    desc.Format = CU_AD_FORMAT_FLOAT;
    desc.NumChannels = 1;
    desc.Flags = flags;
    MUST(cuArray3DCreate_v2(&array, &desc));
    return array;
}

/* Two tiles of a sparse array, at this place; of a deferred one the whole, wherever. */
static CUarrayMapInfo part(CUarray array, unsigned place, HANDLE handle)
{
    CUDA_ARRAY_SPARSE_PROPERTIES properties;
    CUarrayMapInfo info;

    memset(&info, 0, sizeof(info));
    info.resourceType = CU_RESOURCE_TYPE_ARRAY;
    info.resource.array = array;
    info.subresourceType = CU_ARRAY_SPARSE_SUBRESOURCE_TYPE_SPARSE_LEVEL;
    if (cuArrayGetSparseProperties(&properties, array) == CUDA_SUCCESS) {
        info.subresource.sparseLevel.offsetX = place * 2 * properties.tileExtent.width;
        info.subresource.sparseLevel.extentWidth = 2 * properties.tileExtent.width;
        info.subresource.sparseLevel.extentHeight = properties.tileExtent.height;
        info.subresource.sparseLevel.extentDepth = 1;
    }
    info.memOperationType = handle ? CU_MEM_OPERATION_TYPE_MAP : CU_MEM_OPERATION_TYPE_UNMAP;
    info.memHandleType = CU_MEM_HANDLE_TYPE_GENERIC;
    info.memHandle.memHandle = handle;
    info.deviceBitMask = 1;
    return info;
}

static CUstream stream;

static void queue(CUarray array, unsigned place, HANDLE handle)
{
    CUarrayMapInfo info = part(array, place, handle);

    EXPECT_OK(cuMemMapArrayAsync(&info, 1, stream));
}

static void bind(CUarray array, unsigned place, HANDLE handle)
{
    queue(array, place, handle);
    EXPECT_OK(cuStreamSynchronize(stream));
}

/* Bound, unbound, bound anew, and at last the array goes. */
static void bound(const char *name, unsigned flags)
{
    CUarray array;
    HANDLE one, two;

    begin(name);
    array = array_of(flags);
    one = created(PART, 0);
    bind(array, 0, one);
    EXPECT_HELD(PART);
    EXPECT_OK(cuMemRelease(one));
    EXPECT_HELD(PART);
    bind(array, 0, 0);
    EXPECT_HELD(0);
    one = created(PART, 0);
    bind(array, 0, one);
    EXPECT_OK(cuMemRelease(one));
    EXPECT_HELD(PART);
    /* Another in its place. */
    two = created(2 * PART, 0);
    bind(array, 0, two);
    EXPECT_HELD(2 * PART);
    EXPECT_OK(cuMemRelease(two));
    EXPECT_HELD(2 * PART);
    /* Until the stream gets there it is bound. */
    sim.hold(stream);
    queue(array, 0, 0);
    EXPECT_EQUAL(info_used() - start_used, 2 * PART);
    EXPECT_EQUAL(sim.live_bytes(0) - start_live, 2 * PART);
    sim.release(stream);
    EXPECT_OK(cuStreamSynchronize(stream));
    EXPECT_HELD(0);
    one = created(PART, 0);
    bind(array, 0, one);
    EXPECT_OK(cuMemRelease(one));
    EXPECT_OK(cuArrayDestroy(array));
    EXPECT_HELD(0);
    case_end();
}

/* The last of several places counts, and a handle that is left. */
static void in_several_places(void)
{
    CUarray array, other;
    HANDLE one;

    begin("hidden-in-several-places");
    array = array_of(CUDA_ARRAY3D_SPARSE);
    other = array_of(CUDA_ARRAY3D_DEFERRED_MAPPING);
    one = created(PART, 0);
    for (unsigned place = 0; place < 3; place++)
        bind(array, place, one);
    bind(other, 0, one);
    bind(array, 0, 0);
    EXPECT_HELD(PART);
    EXPECT_OK(cuMemRelease(one));
    EXPECT_HELD(PART);
    bind(array, 1, 0);
    EXPECT_HELD(PART);
    EXPECT_OK(cuArrayDestroy(array));
    EXPECT_HELD(PART);
    EXPECT_OK(cuArrayDestroy(other));
    EXPECT_HELD(0);
    case_end();
}

/* Exported it stays charged; who shows it changes with what is left of it here. */
static void imported_again(void)
{
    CUarray array;
    HANDLE one, again;
    int file = -1;

    begin("hidden-and-imported-again");
    array = array_of(CUDA_ARRAY3D_SPARSE);
    one = created(PART, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
    bind(array, 0, one);
    EXPECT_OK(
        cuMemExportToShareableHandle(&file, one, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
    EXPECT_OK(cuMemRelease(one));
    EXPECT_HELD(PART);
    EXPECT_OK(cuMemImportFromShareableHandle(&again, (void *)(intptr_t)file,
                                             CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
    EXPECT_HELD(PART);
    close(file);
    EXPECT_HELD(PART);
    /* Only the import is left. */
    bind(array, 0, 0);
    EXPECT_HELD(PART);
    /* It is bound, and released: again nobody's. */
    bind(array, 1, again);
    EXPECT_HELD(PART);
    EXPECT_OK(cuMemRelease(again));
    EXPECT_HELD(PART);
    EXPECT_OK(cuArrayDestroy(array));
    EXPECT_CHARGED(PART, 0);
    case_end();
}

/* With memory that nobody shows: all that can be taken besides. */
static void filled_up(void)
{
    CUdeviceptr block;
    CUarray array;
    HANDLE one;

    case_begin("hidden-and-filled-up");
    array = array_of(CUDA_ARRAY3D_DEFERRED_MAPPING);
    one = created(256 * MIB, 0);
    bind(array, 0, one);
    EXPECT_OK(cuMemRelease(one));
    EXPECT_OK(cuCtxSetLimit(CU_LIMIT_STACK_SIZE, 2048));
    while (cuMemAlloc_v2(&block, 2 * MIB) == CUDA_SUCCESS)
        ;
    /* What was exported and is gone is charged still. */
    if (!requested)
        EXPECT_EQUAL(sim.live_bytes(0) + PART, info_total());
    case_end();
}

int main(void)
{
    sim_needed();
    requested = charge_is_requested();
    start_device(0);
    MUST(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    bound("hidden-in-a-deferred-array", CUDA_ARRAY3D_DEFERRED_MAPPING);
    bound("hidden-in-a-sparse-array", CUDA_ARRAY3D_SPARSE);
    in_several_places();
    imported_again();
    filled_up();
    return cases_status();
}
