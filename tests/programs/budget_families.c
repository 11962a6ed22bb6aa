/*
 * budget_families.c: a randomised run over all families of memory against a model.
 *
 *     budget_families [OPERATIONS [SEED]]
 *
 * Direct, pitched, managed and stream-ordered memory, pools of the device, of the host and of
 * managed memory, physical handles and their mappings, exports and imports of one's own,
 * arrays, sparse arrays and what is bound to their tiles, modules and libraries, also with
 * managed variables, streams, limits, green contexts, graphs with allocation nodes, captured
 * allocations, launches of kernels that need local memory, graphs of such kernels in every
 * place, and second contexts that come and go with all of that in them; on streams that are
 * held now and then, while others read and driver calls fail at random positions. At every rest
 * the ledger (as cuMemGetInfo shows it) must be what the card's tools show for the process, and
 * what the program's own model says of the rest. What is live must be within the limit, with
 * one thread after every operation.
 *
 * FAMILIES_THREADS: 4 by default. With 1 the run follows from the seed alone, clock included: a
 * mismatch is told with its seed and operation, and comes again.
 * FAMILIES_FAILURES: one driver call in so many fails (default 300; 0: none).
 * FAMILIES_EVERY: operations between two rests (default: 40 rests in all).
 * FAMILIES_WITHOUT: families to leave out, one letter each (work_once has them, and of_kind; v:
 * managed variables, x: exports, i: imports), to find what a mismatch needs.
 * FAMILIES_TRACE=1: each call on stderr.
 */
#define _GNU_SOURCE
#include "families.h"

#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

CUcontext primary;
unsigned long one_in;
unsigned worker_count;
bool requested, tracing, managed_seen;
uint64_t seed;
const char *without;
struct worker workers[WORKERS];
__typeof__(standin_process_bytes) *process_bytes;
static unsigned long operations, every;
static struct block shared[SHARED];
static pthread_mutex_t shared_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_barrier_t rest_begins, rest_ends;
static bool finished, stopping;
static unsigned exports;
static uint64_t limit_bytes;
static uint64_t gone; /* bytes of exported memory that nothing holds any more */

/*
 * Every driver call but those without which the program itself cannot go on, and the question
 * for the current context, which no driver fails to answer. Nor that for a stream's context:
 * with a second one current the library guesses then, and frees on that stream stay charged as
 * long as the guess lives.
 */
static const char may_fail[] =
    "cuMem*,cuEvent*,cuStreamIsCapturing,cuStreamDestroy*,cuStreamWait*,"
    "cuStreamCreate*,cuThreadExchange*,cuCtxGetDevice,cuCtxCreate*,cuCtxDestroy*,cuCtxPush*,"
    "cuCtxSetLimit,cuCtxGetLimit,cuPointer*,cuDeviceGet*,cuDeviceSet*,cuDeviceTotal*,"
    "cuDeviceGraph*,cuArray*,cuMipmapped*,cuModule*,cuLibrary*,cuGreenCtx*,cuGraph*,cuLaunch*,"
    "cuFuncGet*,cuKernelGet*";
_Static_assert(sizeof(may_fail) < 512, "the stand-in reads no more");

/* ---- the clock of a run that follows from its seed ---- */

static bool simulated_clock;
static uint64_t simulated_ns = 1000000000;

/* The library under test finds this one: the program comes first. */
__attribute__((visibility("default"))) int clock_gettime(clockid_t clock, struct timespec *time)
{
    if (!simulated_clock)
        return (int)syscall(SYS_clock_gettime, clock, time);
    simulated_ns += 20000;
    time->tv_sec = (time_t)(simulated_ns / 1000000000);
    time->tv_nsec = (long)(simulated_ns % 1000000000);
    return 0;
}

/* In the end more than the second after which the library looks without a hint. */
static void let_time_pass(void)
{
    if (simulated_clock)
        simulated_ns += 10000000;
    else
        usleep(1000);
}

/* ---- blocks ---- */

static struct block *empty_block(struct worker *worker)
{
    for (int tries = 0; tries < 8; tries++) {
        struct block *block = &worker->blocks[below(worker, BLOCKS)];

        if (block->kind == NONE)
            return block;
    }
    return NULL;
}

static CUresult allocate_direct(struct worker *worker, CUdeviceptr *pointer, size_t *bytes)
{
    size_t pitch = 0;
    CUresult code;

    switch (below(worker, 4)) {
    case 0:
        *bytes = 1 + below(worker, 2000);
        code = cuMemAllocPitch_v2(pointer, &pitch, 1 + below(worker, 6000), *bytes, 4);
        *bytes *= pitch;
        return code;
    case 1:
        *bytes = some_size(worker, 25);
        return cuMemAlloc_v2(pointer, *bytes);
    default:
        *bytes = some_size(worker, 20);
        return cuMemAlloc_v2(pointer, *bytes);
    }
}

static CUresult allocate_ordered(struct worker *worker, CUdeviceptr *pointer, size_t *bytes)
{
    *bytes = some_size(worker, 25);
    switch (below(worker, 5)) {
    case 0:
        return cuMemAllocAsync_ptsz(pointer, *bytes, some_stream(worker, false));
    case 1:
    case 2:
        return cuMemAllocFromPoolAsync(pointer, *bytes, worker->pools[below(worker, POOLS)],
                                       some_stream(worker, false));
    default:
        return cuMemAllocAsync(pointer, *bytes, some_stream(worker, false));
    }
}

/* Of a pool that is of no device. */
static CUresult allocate_odd(struct worker *worker, enum kind kind, CUdeviceptr *pointer,
                             size_t *bytes)
{
    CUmemoryPool pool =
        worker->odd_pools[kind == HOSTED ? 0 : 1 + below(worker, ODD_POOLS - 1)];

    *bytes = some_size(worker, kind == HOSTED ? 30 : 23);
    return cuMemAllocFromPoolAsync(pointer, *bytes, pool, some_stream(worker, false));
}

static enum kind some_kind(struct worker *worker)
{
    static const enum kind kinds[] = {DIRECT,  DIRECT,  DIRECT,  DIRECT,  DIRECT,  DIRECT,
                                      MANAGED, HOSTED,  POOLED,  ORDERED, ORDERED, ORDERED,
                                      ORDERED, ORDERED, ORDERED, ORDERED};

    return kinds[below(worker, sizeof(kinds) / sizeof(kinds[0]))];
}

static const struct {
    const char *name;
    char family;
} of_kind[] = {
    [DIRECT] = {"direct", 'd'},
    [MANAGED] = {"managed", 'm'},
    [ORDERED] = {"ordered", 'o'},
    [HOSTED] = {"of a host pool", 'q'},
    [POOLED] = {"of a managed pool", 'q'},
};

static void allocate(struct worker *worker)
{
    struct block *block = empty_block(worker);
    CUdeviceptr pointer = SENTINEL;
    enum kind kind = some_kind(worker);
    size_t bytes = 0;
    CUresult code;

    if (!block || !has(of_kind[kind].family))
        return;
    if (kind == ORDERED) {
        code = allocate_ordered(worker, &pointer, &bytes);
    } else if (kind == HOSTED || kind == POOLED) {
        code = allocate_odd(worker, kind, &pointer, &bytes);
    } else {
        open_own(worker);
        if (kind == DIRECT) {
            code = allocate_direct(worker, &pointer, &bytes);
        } else {
            bytes = some_size(worker, 23);
            code = cuMemAllocManaged(&pointer, bytes, CU_MEM_ATTACH_GLOBAL);
        }
    }
    if (!gave(worker, of_kind[kind].name, code, pointer != SENTINEL))
        return;
    if (kind == MANAGED || kind == POOLED)
        __atomic_store_n(&managed_seen, true, __ATOMIC_SEQ_CST);
    *block = (struct block){kind, pointer, bytes,
                            worker->context && (kind == DIRECT || kind == MANAGED)};
}

/* The block stays where the driver's free fails. */
static void give_back(struct worker *worker, struct block *block)
{
    CUresult code;

    if (block->kind == NONE)
        return;
    if (block->kind == MANAGED && one_of(worker, 3)) {
        /* Onto the card. */
        did(worker, "touch",
            cuMemPrefetchAsync(block->pointer, block->bytes, 0,
                               some_stream(worker, block->inner)));
        return;
    }
    /* The driver frees managed memory at once only. */
    switch (block->kind == MANAGED ? 0 : below(worker, 4)) {
    case 0:
        open_own(worker);
        code = cuMemFree_v2(block->pointer);
        break;
    case 1:
        code = cuMemFreeAsync_ptsz(block->pointer, some_stream(worker, block->inner));
        break;
    default:
        code = cuMemFreeAsync(block->pointer, some_stream(worker, block->inner));
        break;
    }
    if (did(worker, "free", code))
        *block = (struct block){0};
}

/* Blocks wander between the threads, so that one frees what another has allocated. */
static void exchange(struct worker *worker)
{
    struct block *mine = &worker->blocks[below(worker, BLOCKS)];
    struct block *theirs = &shared[below(worker, SHARED)];
    struct block held;

    if (mine->inner)
        return;
    pthread_mutex_lock(&shared_lock);
    held = *theirs;
    *theirs = *mine;
    *mine = held;
    pthread_mutex_unlock(&shared_lock);
}

static CUmemoryPool pool_of(CUmemAllocationType type, CUmemLocationType location)
{
    CUmemPoolProps properties;
    CUmemoryPool pool = NULL;

    memset(&properties, 0, sizeof(properties));
    properties.allocType = type;
    properties.location.type = location;
    while (cuMemPoolCreate(&pool, &properties) != CUDA_SUCCESS)
        ;
    return pool;
}

static CUmemoryPool pool_of_device(void)
{
    return pool_of(CU_MEM_ALLOCATION_TYPE_PINNED, CU_MEM_LOCATION_TYPE_DEVICE);
}

/* The first is the host's, the others are of managed memory. */
static CUmemoryPool odd_pool(int index)
{
    static const CUmemLocationType of_managed[] = {CU_MEM_LOCATION_TYPE_DEVICE,
                                                   CU_MEM_LOCATION_TYPE_NONE};

    if (index == 0)
        return pool_of(CU_MEM_ALLOCATION_TYPE_PINNED, CU_MEM_LOCATION_TYPE_HOST);
    return pool_of(CU_MEM_ALLOCATION_TYPE_MANAGED, of_managed[index % 2]);
}

static void change_pool(struct worker *worker)
{
    CUmemoryPool *pool = &worker->pools[below(worker, POOLS)];
    cuuint64_t threshold = below(worker, 3) * 64 * MIB;

    switch (below(worker, 8)) {
    case 0:
    case 1:
        did(worker, "current pool", cuDeviceSetMemPool(0, *pool));
        break;
    case 2:
        did(worker, "threshold",
            cuMemPoolSetAttribute(*pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &threshold));
        break;
    default:
        did(worker, "trim", cuMemPoolTrimTo(*pool, below(worker, 3) * STEP_BYTES));
        break;
    }
}

/* ---- physical handles ---- */

static bool is_held(const struct handle *handle)
{
    return handle->references || handle->mapped[0] || handle->mapped[1] || handle->imported;
}

static void begin_handle(struct worker *worker, struct handle *handle)
{
    CUmemGenericAllocationHandle value = SENTINEL;
    CUmemAllocationProp prop;
    struct handle made = {.references = 1, .file = -1};

    memset(&prop, 0, sizeof(prop));
    prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    made.shareable = one_of(worker, 4);
    made.bytes = made.shareable ? EXPORT_BYTES : (1 + below(worker, 16)) * REGION;
    if (made.shareable)
        prop.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    if (!gave(worker, "handle", cuMemCreate(&value, made.bytes, &prop, 0), value != SENTINEL))
        return;
    made.value = value;
    *handle = made;
}

static void end_handle(struct handle *handle)
{
    if (handle->exported) {
        close(handle->file);
        __atomic_fetch_add(&gone, handle->bytes, __ATOMIC_SEQ_CST);
    }
    *handle = (struct handle){0};
}

static void release_handle(struct worker *worker, struct handle *handle)
{
    if (handle->imported && one_of(worker, 2)) {
        if (did(worker, "release imported", cuMemRelease(handle->imported)))
            handle->imported = 0;
    } else if (handle->references && did(worker, "release", cuMemRelease(handle->value))) {
        handle->references--;
    }
}

static void map_handle(struct worker *worker, struct handle *handle)
{
    int place = (int)below(worker, 2);
    CUdeviceptr address =
        worker->range + ((size_t)(handle - worker->handles) * 2 + (size_t)place) * PLACE;

    if (handle->mapped[place]) {
        if (did(worker, "unmap", cuMemUnmap(address, handle->bytes)))
            handle->mapped[place] = false;
    } else if (handle->references) {
        handle->mapped[place] =
            did(worker, "map", cuMemMap(address, handle->bytes, 0, handle->value, 0));
    }
}

static void retain_handle(struct worker *worker, struct handle *handle)
{
    CUdeviceptr address = worker->range + (size_t)(handle - worker->handles) * 2 * PLACE;
    CUmemGenericAllocationHandle value = 0;

    if (handle->mapped[0] &&
        did(worker, "retain",
            cuMemRetainAllocationHandle(&value, (void *)(uintptr_t)(address + MIB)))) {
        if (value != handle->value)
            case_fails("another handle was retained");
        handle->references++;
    }
}

static void share_handle(struct worker *worker, struct handle *handle)
{
    CUmemGenericAllocationHandle value = SENTINEL;

    if (!handle->shareable || !has('x'))
        return;
    if (!handle->exported) {
        int file = -1;

        if (handle->references == 0 ||
            __atomic_fetch_add(&exports, 1, __ATOMIC_SEQ_CST) >= EXPORTS)
            return;
        if (did(worker, "export",
                cuMemExportToShareableHandle(&file, handle->value,
                                             CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0))) {
            handle->exported = true;
            handle->file = file;
        }
        /* An import is measured, and not exactly while others take or give back memory. */
    } else if (!handle->imported && has('i') && worker_count == 1 &&
               did(worker, "import",
                   cuMemImportFromShareableHandle(&value, (void *)(intptr_t)handle->file,
                                                  CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR))) {
        handle->imported = value;
    }
}

static void change_handle(struct worker *worker)
{
    struct handle *handle = &worker->handles[below(worker, HANDLES)];

    if (!handle->value) {
        begin_handle(worker, handle);
        return;
    }
    switch (below(worker, 8)) {
    case 0:
    case 1:
    case 2:
        release_handle(worker, handle);
        break;
    case 3:
        retain_handle(worker, handle);
        break;
    case 4:
        share_handle(worker, handle);
        break;
    default:
        map_handle(worker, handle);
        break;
    }
    if (!is_held(handle))
        end_handle(handle);
}

/* ---- arrays ---- */

static CUDA_ARRAY3D_DESCRIPTOR some_shape(struct worker *worker)
{
    static const struct {
        CUarray_format format;
        unsigned channels;
    } elements[] = {{CU_AD_FORMAT_UNSIGNED_INT8, 1},
                    {CU_AD_FORMAT_HALF, 2},
                    {CU_AD_FORMAT_FLOAT, 1},
                    {CU_AD_FORMAT_FLOAT, 4}};
    const uint64_t element = below(worker, 4);
    CUDA_ARRAY3D_DESCRIPTOR shape;

    memset(&shape, 0, sizeof(shape));
    shape.Format = elements[element].format;
    shape.NumChannels = elements[element].channels;
    shape.Width = some_size(worker, 10);
    shape.Height = some_size(worker, 10);
    switch (below(worker, 4)) {
    case 0:
        shape.Depth = 1 + below(worker, 16);
        break;
    case 1:
        shape.Depth = 1 + below(worker, 6);
        shape.Flags = CUDA_ARRAY3D_LAYERED;
        break;
    case 2:
        shape.Height = shape.Width;
        shape.Depth = 6;
        shape.Flags = CUDA_ARRAY3D_CUBEMAP;
        break;
    default:
        break;
    }
    return shape;
}

/* Bytes of the elements. */
static uint64_t bytes_of(const CUDA_ARRAY3D_DESCRIPTOR *shape, unsigned levels)
{
    const uint64_t element = shape->Format == CU_AD_FORMAT_UNSIGNED_INT8 ? 1
                             : shape->Format == CU_AD_FORMAT_HALF        ? 2
                                                                         : 4;
    uint64_t width = shape->Width, height = shape->Height;
    uint64_t depth = shape->Depth ? shape->Depth : 1, sum = 0;

    for (unsigned i = 0; i < levels; i++) {
        sum += width * height * depth;
        width = width > 1 ? width / 2 : 1;
        height = height > 1 ? height / 2 : 1;
        if (!shape->Flags && depth > 1)
            depth /= 2;
    }
    return sum * element * shape->NumChannels;
}

static unsigned levels_of(const CUDA_ARRAY3D_DESCRIPTOR *shape)
{
    size_t least = shape->Width < shape->Height ? shape->Width : shape->Height;
    unsigned levels = 1;

    for (; least > 1 && levels < 4; least /= 2)
        levels++;
    return levels;
}

static void begin_array(struct worker *worker, struct array *array)
{
    CUDA_ARRAY3D_DESCRIPTOR shape = some_shape(worker);
    struct array made = {.plain = UNTOUCHED, .mipmapped = UNTOUCHED};
    unsigned levels = 1;
    bool done;

    switch (below(worker, 4)) {
    case 0: {
        CUDA_ARRAY_DESCRIPTOR flat = {shape.Width, shape.Height, shape.Format,
                                      shape.NumChannels};

        shape.Depth = shape.Flags = 0;
        done = gave(worker, "array 2D", cuArrayCreate_v2(&made.plain, &flat),
                    made.plain != UNTOUCHED);
        break;
    }
    case 1:
        levels = levels_of(&shape);
        done = gave(worker, "mipmapped array",
                    cuMipmappedArrayCreate(&made.mipmapped, &shape, levels),
                    made.mipmapped != UNTOUCHED);
        break;
    default:
        done = gave(worker, "array 3D", cuArray3DCreate_v2(&made.plain, &shape),
                    made.plain != UNTOUCHED);
        break;
    }
    if (!done)
        return;
    made.bytes = bytes_of(&shape, levels);
    made.inner = worker->context != NULL;
    *array = made;
}

static void end_array(struct worker *worker, struct array *array)
{
    if (did(worker, "array destroy",
            array->plain != UNTOUCHED ? cuArrayDestroy(array->plain)
                                      : cuMipmappedArrayDestroy(array->mipmapped)))
        *array = (struct array){0};
}

static void change_array(struct worker *worker)
{
    struct array *array = &worker->arrays[below(worker, ARRAYS)];

    if (array->bytes)
        end_array(worker, array);
    else
        begin_array(worker, array);
}

/* ---- modules and libraries ---- */

#define HEAD    ".version 7.0\n.target sm_70\n.address_size 64\n"
#define KERNELS ".visible .entry plain() { ret; }\n"
#define MALLOCS                                                                                \
    ".extern .func (.param .b64 r) malloc (.param .b64 n);\n"                                  \
    ".visible .entry heap() { .reg .b64 %rd<2>; mov.u64 %rd1, 16; { .param .b64 n;\n"          \
    "st.param.b64 [n], %rd1; .param .b64 r; call (r), malloc, (n); } ret; }\n"

#define MANAGED_VARIABLE(name, bytes)                                                          \
    ".visible .global .attribute(.managed) .align 4 .b8 " name "[" bytes "];\n"

/* Those with managed variables last. */
static const struct {
    uint64_t bytes, managed;
    const char *text;
} images[] = {
    {0, 0, HEAD KERNELS},
    {100, 0, HEAD ".global .align 4 .b8 big[100];\n" KERNELS},
    {3000000, 0, HEAD ".global .align 4 .b8 big[3000000];\n" KERNELS MALLOCS},
    {9000000, 0, HEAD ".global .align 4 .b8 big[9000000];\n" KERNELS},
    {0, 5000000, HEAD MANAGED_VARIABLE("shared", "5000000") KERNELS},
    {100, 500,
     HEAD MANAGED_VARIABLE("shared", "200")
         MANAGED_VARIABLE("other", "300") ".global .align 4 .b8 big[100];\n" KERNELS},
};

static void begin_code(struct worker *worker, struct code *code)
{
    const uint64_t which = below(worker, has('v') ? 6 : 4);
    const void *text = images[which].text;
    CUlibrary library = UNTOUCHED;
    CUmodule module = UNTOUCHED;
    bool done;

    switch (below(worker, 4)) {
    case 0:
        done = gave(worker, "library",
                    cuLibraryLoadData(&library, text, NULL, NULL, 0, NULL, NULL, 0),
                    library != UNTOUCHED);
        break;
    case 1:
        done = gave(worker, "module Ex", cuModuleLoadDataEx(&module, text, 0, NULL, NULL),
                    module != UNTOUCHED);
        break;
    case 2:
        done = gave(worker, "module fat", cuModuleLoadFatBinary(&module, text),
                    module != UNTOUCHED);
        break;
    default:
        done = gave(worker, "module", cuModuleLoadData(&module, text), module != UNTOUCHED);
        break;
    }
    if (!done)
        return;
    *code = (struct code){.module = module == UNTOUCHED ? NULL : module,
                          .library = library == UNTOUCHED ? NULL : library,
                          .bytes = images[which].bytes,
                          .managed = images[which].managed,
                          .inner = worker->context && module != UNTOUCHED};
    if (code->managed)
        __atomic_store_n(&managed_seen, true, __ATOMIC_SEQ_CST);
}

/* A kernel that may call malloc; of a library, on a stream of either context. */
static void launch_code(struct worker *worker, struct code *code)
{
    const char *name = one_of(worker, 2) ? "plain" : "heap";
    bool inner = code->module ? code->inner : worker->context && one_of(worker, 2);
    CUfunction function = NULL;
    CUkernel kernel = NULL;

    if (!has('f'))
        return;
    if (code->module) {
        if (did(worker, "function", cuModuleGetFunction(&function, code->module, name)))
            launch_on(worker, function, inner);
    } else if (did(worker, "library kernel",
                   cuLibraryGetKernel(&kernel, code->library, name)) &&
               launch_on(worker, (CUfunction)(void *)kernel, inner)) {
        code->used[inner] = true;
    }
}

static void use_code(struct worker *worker, struct code *code)
{
    CUfunction function;
    CUdeviceptr pointer;
    CUmodule module;
    size_t bytes;

    switch (below(worker, 6)) {
    case 4:
        launch_code(worker, code);
        break;
    case 5:
        if (code->library && code->managed &&
            did(worker, "library managed",
                cuLibraryGetManaged(&pointer, &bytes, code->library, "shared")))
            code->used[worker->context != NULL] = true;
        break;
    case 0:
        if (!code->library)
            did(worker, "global", cuModuleGetGlobal_v2(&pointer, &bytes, code->module, "big"));
        else if (did(worker, "library global",
                     cuLibraryGetGlobal(&pointer, &bytes, code->library, "big")))
            code->used[worker->context != NULL] = true;
        break;
    case 1:
        if (code->library &&
            did(worker, "library module", cuLibraryGetModule(&module, code->library)))
            code->used[worker->context != NULL] = true;
        break;
    default:
        if (code->module)
            did(worker, "function",
                cuModuleGetFunction(&function, code->module,
                                    one_of(worker, 2) ? "plain" : "heap"));
        break;
    }
}

static void end_code(struct worker *worker, struct code *code)
{
    if (did(worker, "unload",
            code->module ? cuModuleUnload(code->module) : cuLibraryUnload(code->library)))
        *code = (struct code){0};
}

static void change_code(struct worker *worker)
{
    struct code *code = &worker->codes[below(worker, CODES)];

    if (!code->module && !code->library)
        begin_code(worker, code);
    else if (one_of(worker, 2))
        use_code(worker, code);
    else
        end_code(worker, code);
}

/* ---- streams, limits, green contexts ---- */

static void change_extra_stream(struct worker *worker)
{
    struct stream *stream = &worker->extra[below(worker, EXTRA_STREAMS)];
    CUstream made = UNTOUCHED;

    if (stream->handle) {
        if (did(worker, "stream destroy", cuStreamDestroy_v2(stream->handle)))
            *stream = (struct stream){0};
    } else if (gave(worker, "stream",
                    one_of(worker, 2)
                        ? cuStreamCreate(&made, CU_STREAM_NON_BLOCKING)
                        : cuStreamCreateWithPriority(&made, CU_STREAM_NON_BLOCKING, -1),
                    made != UNTOUCHED)) {
        *stream = (struct stream){made, worker->context != NULL};
    }
}

static void change_stream(struct worker *worker)
{
    unsigned index = (unsigned)below(worker, STREAMS);
    CUstream *stream = &worker->streams[index], made;

    switch (below(worker, 4)) {
    case 0:
        /* The new one first: with nothing left there is no other. */
        MUST(cuCtxSetCurrent(primary));
        if (did(worker, "stream", cuStreamCreate(&made, CU_STREAM_NON_BLOCKING))) {
            while (!did(worker, "stream destroy", cuStreamDestroy_v2(*stream)))
                ;
            __atomic_store_n(stream, made, __ATOMIC_SEQ_CST);
        }
        if (worker->context)
            MUST(cuCtxSetCurrent(worker->context));
        break;
    case 1:
        sim.hold(*stream);
        break;
    default:
        sim.release(*stream);
        cuStreamSynchronize(*stream);
        break;
    }
}

static void change_limit(struct worker *worker)
{
    switch (below(worker, 4)) {
    case 0: /* 264 KiB of the card for each byte */
        did(worker, "stack", cuCtxSetLimit(CU_LIMIT_STACK_SIZE, 1024 + below(worker, 4) * 64));
        break;
    case 1:
        did(worker, "heap",
            cuCtxSetLimit(CU_LIMIT_MALLOC_HEAP_SIZE,
                          (1 + below(worker, 4)) * (HEAP_BYTES / 4)));
        break;
    default:
        did(worker, "pending launches",
            cuCtxSetLimit(CU_LIMIT_DEV_RUNTIME_PENDING_LAUNCH_COUNT, 2048 << below(worker, 5)));
        break;
    }
}

static void change_green(struct worker *worker)
{
    CUgreenCtx *green = &worker->greens[below(worker, GREENS)], made = UNTOUCHED;
    CUstream stream = UNTOUCHED;
    CUdevResourceDesc description;
    CUdevResource resource;

    if (!*green) {
        if (cuDeviceGetDevResource(0, &resource, CU_DEV_RESOURCE_TYPE_SM) == CUDA_SUCCESS &&
            cuDevResourceGenerateDesc(&description, &resource, 1) == CUDA_SUCCESS &&
            gave(worker, "green",
                 cuGreenCtxCreate(&made, description, 0, CU_GREEN_CTX_DEFAULT_STREAM),
                 made != UNTOUCHED))
            *green = made;
    } else if (one_of(worker, 2)) {
        if (gave(worker, "green stream",
                 cuGreenCtxStreamCreate(&stream, *green, CU_STREAM_NON_BLOCKING, 0),
                 stream != UNTOUCHED))
            while (!did(worker, "stream destroy", cuStreamDestroy_v2(stream)))
                ;
    } else if (did(worker, "green destroy", cuGreenCtxDestroy(*green))) {
        *green = NULL;
    }
}

/* ---- graphs ---- */

/* Allocation nodes, each freed before the next or all at the end. Bytes of them, 0: it failed.
 */
static uint64_t add_nodes(struct worker *worker, CUgraph graph)
{
    const int count = 1 + (int)below(worker, 3);
    const bool in_turn = one_of(worker, 2);
    CUdeviceptr pointers[3];
    CUgraphNode last = NULL;
    uint64_t sum = 0;

    for (int i = 0; i < 2 * count; i++) {
        const bool frees = in_turn ? i % 2 : i >= count;
        const int which = in_turn ? i / 2 : i % count;
        CUDA_MEM_ALLOC_NODE_PARAMS params;
        CUgraphNode before = last;
        CUresult code;

        if (frees) {
            code = cuGraphAddMemFreeNode(&last, graph, &before, 1, pointers[which]);
        } else {
            memset(&params, 0, sizeof(params));
            params.poolProps.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
            params.poolProps.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
            params.bytesize = some_size(worker, 26);
            sum += params.bytesize;
            code = cuGraphAddMemAllocNode(&last, graph, before ? &before : NULL, before ? 1 : 0,
                                          &params);
            pointers[which] = params.dptr;
        }
        if (code != CUDA_SUCCESS)
            return 0;
    }
    return sum;
}

/* The same by a capture, which disturbs no other thread. */
static uint64_t capture_nodes(struct worker *worker, CUgraph *graph)
{
    size_t bytes = some_size(worker, 26);
    CUdeviceptr pointer = 0;
    bool done;

    if (cuStreamBeginCapture_v2(worker->capturing, CU_STREAM_CAPTURE_MODE_RELAXED) !=
        CUDA_SUCCESS)
        return 0;
    done = did(worker, "captured", cuMemAllocAsync(&pointer, bytes, worker->capturing)) &&
           did(worker, "captured free", cuMemFreeAsync(pointer, worker->capturing));
    if (cuStreamEndCapture(worker->capturing, graph) != CUDA_SUCCESS)
        *graph = NULL;
    return done && *graph ? bytes : 0;
}

static void begin_graph(struct worker *worker, struct graph *place)
{
    CUDA_GRAPH_INSTANTIATE_PARAMS params;
    CUgraphExec executable = UNTOUCHED;
    CUgraph graph = NULL;
    uint64_t bytes = 0;
    CUresult code;

    if (one_of(worker, 4))
        bytes = capture_nodes(worker, &graph);
    else if (cuGraphCreate(&graph, 0) == CUDA_SUCCESS)
        bytes = add_nodes(worker, graph);
    else
        graph = NULL;
    if (bytes > 0) {
        switch (below(worker, 3)) {
        case 0:
            memset(&params, 0, sizeof(params));
            params.flags = one_of(worker, 2) ? CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD : 0;
            params.hUploadStream = worker->streams[0];
            code = cuGraphInstantiateWithParams(&executable, graph, &params);
            break;
        case 1:
            code = cuGraphInstantiate_v2(&executable, graph, NULL, NULL, 0);
            break;
        default:
            code = cuGraphInstantiateWithFlags(&executable, graph, 0);
            break;
        }
        if (gave(worker, "instantiate", code, executable != UNTOUCHED))
            *place = (struct graph){executable, bytes};
    }
    if (graph)
        did(worker, "graph destroy", cuGraphDestroy(graph));
}

static void change_graph(struct worker *worker)
{
    struct graph *graph = &worker->graphs[below(worker, GRAPHS)];

    if (one_of(worker, 12)) {
        did(worker, "graph trim", cuDeviceGraphMemTrim(0));
        return;
    }
    if (!graph->executable) {
        begin_graph(worker, graph);
        return;
    }
    switch (below(worker, 4)) {
    case 0:
        if (did(worker, "exec destroy", cuGraphExecDestroy(graph->executable)))
            *graph = (struct graph){0};
        break;
    case 1:
        did(worker, "upload", cuGraphUpload(graph->executable, some_stream(worker, false)));
        break;
    default:
        did(worker, "launch", cuGraphLaunch(graph->executable, some_stream(worker, false)));
        break;
    }
}

/* ---- second contexts ---- */

/* All that was in it has gone with it. */
static void leave_context(struct worker *worker)
{
    const bool runs_first = one_of(worker, 2);

    open_own(worker);
    if (runs_first)
        end_inner_runs(worker);
    while (!did(worker, "context destroy", cuCtxDestroy_v2(worker->context)))
        ;
    worker->context = NULL;
    MUST(cuCtxSetCurrent(primary));
    end_inner_runs(worker);
    forget_inner_sparse(worker);
    for (int i = 0; i < FRAMES; i++)
        if (worker->frames[i].inner) {
            end_runs_of(worker, 1u << i);
            worker->frames[i] = (struct frames){0};
        }
    for (int i = 0; i < BLOCKS; i++)
        if (worker->blocks[i].inner)
            worker->blocks[i] = (struct block){0};
    for (int i = 0; i < ARRAYS; i++)
        if (worker->arrays[i].inner)
            worker->arrays[i] = (struct array){0};
    for (int i = 0; i < CODES; i++) {
        worker->codes[i].used[1] = false;
        if (worker->codes[i].inner)
            worker->codes[i] = (struct code){0};
    }
    for (int i = 0; i < EXTRA_STREAMS; i++)
        if (worker->extra[i].inner)
            worker->extra[i] = (struct stream){0};
}

static void change_context(struct worker *worker)
{
    CUcontext context = UNTOUCHED;

    if (worker->context) {
        if (one_of(worker, 4))
            leave_context(worker);
        return;
    }
    if (!one_of(worker, 4) ||
        !gave(worker, "context", cuCtxCreate_v2(&context, 0, 0), context != UNTOUCHED))
        return;
    worker->context = context;
    for (int tries = 0; tries < 20; tries++)
        if (cuStreamCreate(&worker->inner_stream, CU_STREAM_NON_BLOCKING) == CUDA_SUCCESS)
            return;
    leave_context(worker);
}

/* ---- the model ---- */

static bool is_managed(const struct block *block)
{
    return block->kind == MANAGED || block->kind == POOLED;
}

static uint64_t block_bytes(bool all)
{
    uint64_t bytes = 0;

    for (unsigned w = 0; w < worker_count; w++) {
        for (int i = 0; i < BLOCKS; i++)
            if ((all && workers[w].blocks[i].kind != HOSTED) ||
                is_managed(&workers[w].blocks[i]))
                bytes += workers[w].blocks[i].bytes;
        for (int i = 0; i < CODES; i++)
            bytes += workers[w].codes[i].managed;
    }
    for (int i = 0; i < SHARED; i++)
        if ((all && shared[i].kind != HOSTED) || is_managed(&shared[i]))
            bytes += shared[i].bytes;
    return bytes;
}

/* Requested mode: what was asked for. */
static uint64_t asked_bytes(void)
{
    uint64_t bytes = block_bytes(true) + gone;

    for (unsigned w = 0; w < worker_count; w++) {
        const struct worker *worker = &workers[w];

        for (int i = 0; i < HANDLES; i++)
            bytes += worker->handles[i].bytes;
        for (int i = 0; i < ARRAYS; i++)
            bytes += worker->arrays[i].bytes;
        for (int i = 0; i < GRAPHS; i++)
            bytes += worker->graphs[i].bytes;
        bytes += tile_bytes(worker);
    }
    return bytes;
}

/* Footprint mode: the process's own figure, and what is charged and not in it. */
static uint64_t footprint_bytes(void)
{
    return sim.live_bytes(0) - sim.managed_bytes(0) + block_bytes(false) +
           (managed_seen ? ONCE_BYTES : 0) + gone;
}

/*
 * What no call could refuse in this version, at most: variables of a library that come with its
 * use, a thread's own stream, and what a stream or a green context that was refused has taken
 * for its streams, which their end does not take back; a heap of the usual size, and what
 * kernels in bodies of conditional nodes take; of several threads, what a measurement that the
 * others disturbed has missed and they have used meanwhile. Not what code that calls malloc
 * brings: that is asked for before.
 */
static uint64_t ungated_bytes(void)
{
    uint64_t contexts = 1, bytes = 0;

    for (unsigned w = 0; w < worker_count; w++) {
        contexts += workers[w].context != NULL;
        for (int i = 0; i < CODES; i++)
            for (int k = 0; k < 2; k++)
                if (workers[w].codes[i].used[k])
                    bytes += workers[w].codes[i].bytes + REGION;
        bytes += bodies_bytes(&workers[w]);
    }
    if (worker_count > 1)
        bytes += DISTURBED_BYTES;
    return bytes + contexts * (STAYS_BYTES + USUAL_HEAP);
}

/* Exact: streams have come to their ends, and nothing is left of pools that were destroyed. */
static void compare(const char *when, bool exact)
{
    uint64_t used = 0, wanted = 0;

    /* A reader may be in the middle of asking about a stream: then that one counts as it was.
     */
    for (int tries = 0; tries < 2000; tries++) {
        let_time_pass();
        used = info_used();
        wanted = requested ? asked_bytes() : footprint_bytes();
        if (used == wanted || (!exact && used > wanted))
            return;
        /* More than the limit cannot be shown. */
        if (used < wanted && used == info_total() &&
            (!exact || one_in > 0 || wanted <= used + ungated_bytes()))
            return;
    }
    case_fails("seed %" PRIu64 " operation %lu, %s: the ledger says %" PRIu64 ", not %" PRIu64
               " (%+" PRId64 "); limit %" PRIu64 ", on the card %" PRIu64 ", managed %" PRIu64
               ", nothing could refuse %" PRIu64,
               seed, workers[0].number, when, used, wanted, (int64_t)(used - wanted),
               info_total(), sim.live_bytes(0), block_bytes(false), ungated_bytes());
}

/*
 * What the card holds for the process is within the limit. With failures the library may not
 * know all that is there.
 */
static void check_limit(void)
{
    uint64_t live = sim.live_bytes(0);

    if (requested || one_in > 0 || live <= limit_bytes || live <= limit_bytes + ungated_bytes())
        return;
    case_fails("seed %" PRIu64 " operation %lu: %" PRIu64 " bytes live, limit %" PRIu64
               ", %" PRIu64 " that no call could refuse",
               seed, workers[0].number, live, limit_bytes, ungated_bytes());
}

/*
 * Kernels are asked for before: by one operation with them the card never gets fuller than the
 * limit allows, but for the stream of a thread and what is in a body.
 */
static void check_kernels(const struct worker *worker, uint64_t before)
{
    uint64_t live = sim.live_bytes(0);

    if (worker_count > 1 || requested || one_in > 0 || live <= limit_bytes ||
        live <= before + 2 * REGION + bodies_bytes(worker))
        return;
    case_fails("seed %" PRIu64 " operation %lu: kernels took %" PRIu64 " bytes, to %" PRIu64
               ", limit %" PRIu64,
               seed, worker->number, live - before, live, limit_bytes);
}

/* ---- the run ---- */

static void work_once(struct worker *worker)
{
    static const struct {
        unsigned share; /* of a thousand */
        char family;
        bool waits;
        void (*change)(struct worker *worker);
    } rest[] = {
        {50, 'e', false, exchange},           {20, 'p', false, change_pool},
        {20, 's', true, change_stream},       {100, 'h', true, change_handle},
        {60, 'a', true, change_array},        {40, 'c', true, change_code},
        {30, 't', true, change_extra_stream}, {10, 'l', true, change_limit},
        {10, 'g', true, change_green},        {50, 'n', true, change_graph},
        {10, 'k', true, change_context},      {40, 'f', true, change_frames},
        {40, 'r', true, change_run},          {30, 'b', true, change_sparse},
    };
    uint64_t choice = below(worker, 1000), live;

    worker->number++;
    for (size_t i = 0; i < sizeof(rest) / sizeof(rest[0]); i++) {
        if (choice < rest[i].share) {
            if (!has(rest[i].family))
                return;
            if (rest[i].waits && rest[i].change != change_stream)
                open_own(worker);
            live = sim.live_bytes(0);
            rest[i].change(worker);
            if (rest[i].change == change_frames || rest[i].change == change_run)
                check_kernels(worker, live);
            return;
        }
        choice -= rest[i].share;
    }
    if (choice < 260)
        allocate(worker);
    else
        give_back(worker, &worker->blocks[below(worker, BLOCKS)]);
}

/* What a thread's own default stream has done only the thread itself can show, at its next free
 * in that context. */
static void use_own_streams(const struct worker *worker)
{
    for (int i = 0; i < 6; i++) {
        CUdeviceptr pointer;

        MUST(cuCtxSetCurrent(i < 3 && worker->context ? worker->context : primary));
        if (cuMemAllocAsync_ptsz(&pointer, 1, NULL) == CUDA_SUCCESS)
            MUST(cuMemFreeAsync_ptsz(pointer, NULL));
    }
}

static void failures(bool on, uint64_t number)
{
    static const int codes[] = {CUDA_ERROR_OUT_OF_MEMORY, CUDA_ERROR_UNKNOWN,
                                CUDA_ERROR_ILLEGAL_ADDRESS};

    if (!on || one_in == 0) {
        sim.fail_clear();
        return;
    }
    sim.fail_random_names(may_fail);
    sim.fail_random_code(codes[number % 3]);
    sim.fail_random(number, one_in);
}

/* Until the next rest. */
static void work_on(struct worker *worker)
{
    for (unsigned long i = 0; i < every / worker_count && !budget_cases.why[0]; i++) {
        work_once(worker);
        if (worker_count == 1)
            check_limit();
    }
    if (worker->context && one_of(worker, 2))
        leave_context(worker);
}

static void *work(void *arg)
{
    struct worker *worker = arg;

    MUST(cuCtxSetCurrent(primary));
    while (!__atomic_load_n(&stopping, __ATOMIC_SEQ_CST)) {
        work_on(worker);
        pthread_barrier_wait(&rest_begins);
        /* No failures from here on. */
        pthread_barrier_wait(&rest_begins);
        use_own_streams(worker);
        pthread_barrier_wait(&rest_begins);
        pthread_barrier_wait(&rest_ends);
        if (worker->context)
            MUST(cuCtxSetCurrent(worker->context));
    }
    return NULL;
}

static void open_streams(void)
{
    for (unsigned w = 0; w < worker_count; w++)
        for (int i = 0; i < STREAMS; i++)
            sim.release(__atomic_load_n(&workers[w].streams[i], __ATOMIC_SEQ_CST));
    for (unsigned w = 0; w < worker_count; w++)
        sim.release(workers[w].tiling);
}

static void *read_on(void *arg)
{
    bool opens = arg != NULL;

    MUST(cuCtxSetCurrent(primary));
    while (!__atomic_load_n(&finished, __ATOMIC_SEQ_CST)) {
        size_t left = 0, total = 0;

        if (cuMemGetInfo_v2(&left, &total) == CUDA_SUCCESS && left > total)
            case_fails("%zu bytes free of %zu", left, total);
        if (opens)
            open_streams();
        usleep(50);
    }
    return NULL;
}

/* ---- rests ---- */

static void settle_everything(void)
{
    open_streams();
    for (unsigned w = 0; w < worker_count; w++) {
        if (!workers[w].context)
            continue;
        MUST(cuCtxSetCurrent(workers[w].context));
        MUST(cuCtxSynchronize());
    }
    MUST(cuCtxSetCurrent(primary));
    MUST(cuCtxSynchronize());
}

static bool pool_lives(CUmemoryPool pool)
{
    CUmemoryPool usual = NULL;

    MUST(cuDeviceGetDefaultMemPool(&usual, 0));
    if (pool == usual)
        return true;
    for (unsigned w = 0; w < worker_count; w++) {
        for (int i = 0; i < POOLS; i++)
            if (workers[w].pools[i] == pool)
                return true;
        for (int i = 0; i < ODD_POOLS; i++)
            if (workers[w].odd_pools[i] == pool)
                return true;
    }
    return false;
}

static void free_orphan(struct block *block)
{
    CUmemoryPool pool = NULL;

    if (block->kind == NONE || block->kind == DIRECT || block->kind == MANAGED)
        return;
    MUST(cuPointerGetAttribute(&pool, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, block->pointer));
    if (pool_lives(pool))
        return;
    MUST(cuMemFree_v2(block->pointer));
    *block = (struct block){0};
}

static void free_orphans(void)
{
    for (unsigned w = 0; w < worker_count; w++)
        for (int i = 0; i < BLOCKS; i++)
            free_orphan(&workers[w].blocks[i]);
    for (int i = 0; i < SHARED; i++)
        free_orphan(&shared[i]);
}

/* Some pools end with whatever live blocks and pending frees they have; the workers go on to
 * free these. */
static void end_pools(uint64_t random)
{
    for (unsigned w = 0; w < worker_count; w++) {
        CUmemoryPool *pool = &workers[w].pools[random_next(&random) % POOLS];
        const int odd = (int)(random_next(&random) % ODD_POOLS);

        for (int i = 0; i < BLOCKS; i++)
            if (workers[w].blocks[i].kind >= ORDERED && i % 4 == 0)
                give_back(&workers[w], &workers[w].blocks[i]);
        if (has('q') && random_next(&random) % 4 == 0) {
            MUST(cuMemPoolDestroy(workers[w].odd_pools[odd]));
            workers[w].odd_pools[odd] = odd_pool(odd);
        }
        if (random_next(&random) % 2)
            continue;
        MUST(cuMemPoolDestroy(*pool));
        *pool = pool_of_device();
    }
}

/* All workers stand still, the readers go on. */
static void rest(uint64_t number)
{
    compare("with streams held", false);
    open_streams();
    free_orphans();
    settle_everything();
    compare("at rest", true);
    workers[0].digest = (workers[0].digest ^ info_used()) * UINT64_C(0x100000001b3);
    check_limit();
    end_pools(seed + number);
}

static void end_handles(struct worker *worker)
{
    for (int i = 0; i < HANDLES; i++) {
        struct handle *handle = &worker->handles[i];
        CUdeviceptr address = worker->range + (size_t)i * 2 * PLACE;

        if (!handle->value)
            continue;
        for (; handle->references; handle->references--)
            MUST(cuMemRelease(handle->value));
        if (handle->imported)
            MUST(cuMemRelease(handle->imported));
        for (int place = 0; place < 2; place++)
            if (handle->mapped[place])
                MUST(cuMemUnmap(address + (size_t)place * PLACE, handle->bytes));
        end_handle(handle);
    }
}

static void end_worker(struct worker *worker)
{
    if (worker->context) {
        MUST(cuCtxSetCurrent(worker->context));
        leave_context(worker);
    }
    for (int i = 0; i < BLOCKS; i++)
        while (worker->blocks[i].kind != NONE)
            give_back(worker, &worker->blocks[i]);
    for (int i = 0; i < ARRAYS; i++)
        if (worker->arrays[i].bytes)
            end_array(worker, &worker->arrays[i]);
    for (int i = 0; i < CODES; i++)
        if (worker->codes[i].module || worker->codes[i].library)
            end_code(worker, &worker->codes[i]);
    for (int i = 0; i < GRAPHS; i++)
        if (worker->graphs[i].executable)
            MUST(cuGraphExecDestroy(worker->graphs[i].executable));
    memset(worker->graphs, 0, sizeof(worker->graphs));
    for (int i = 0; i < RUNS; i++)
        while (worker->runs[i].executable)
            end_run(worker, &worker->runs[i]);
    for (int i = 0; i < FRAMES; i++)
        while (worker->frames[i].module || worker->frames[i].library)
            end_frames(worker, &worker->frames[i]);
    end_sparse(worker);
    for (int i = 0; i < GREENS; i++)
        if (worker->greens[i])
            MUST(cuGreenCtxDestroy(worker->greens[i]));
    for (int i = 0; i < EXTRA_STREAMS; i++)
        if (worker->extra[i].handle)
            MUST(cuStreamDestroy_v2(worker->extra[i].handle));
    end_handles(worker);
}

static void end_everything(void)
{
    for (unsigned w = 0; w < worker_count; w++)
        end_worker(&workers[w]);
    for (int i = 0; i < SHARED; i++)
        while (shared[i].kind != NONE)
            give_back(&workers[0], &shared[i]);
    settle_everything();
    MUST(cuDeviceGraphMemTrim(0));
    for (unsigned w = 0; w < worker_count; w++) {
        for (int i = 0; i < POOLS; i++)
            MUST(cuMemPoolDestroy(workers[w].pools[i]));
        for (int i = 0; i < ODD_POOLS; i++)
            MUST(cuMemPoolDestroy(workers[w].odd_pools[i]));
    }
}

static void begin_worker(unsigned number)
{
    struct worker *worker = &workers[number];

    worker->random = (seed * WORKERS + number) * UINT64_C(0x9e3779b97f4a7c15) + 1;
    for (int i = 0; i < STREAMS; i++)
        MUST(cuStreamCreate(&worker->streams[i], CU_STREAM_NON_BLOCKING));
    MUST(cuStreamCreate(&worker->capturing, CU_STREAM_NON_BLOCKING));
    for (int i = 0; i < POOLS; i++)
        worker->pools[i] = pool_of_device();
    for (int i = 0; i < ODD_POOLS; i++)
        worker->odd_pools[i] = odd_pool(i);
    MUST(cuStreamCreate(&worker->tiling, CU_STREAM_NON_BLOCKING));
    MUST(cuMemAddressReserve(&worker->range, 2 * HANDLES * PLACE, 0, 0, 0));
}

static bool is_done(uint64_t rests)
{
    return (rests + 1) * every >= operations || budget_cases.why[0];
}

static void run_alone(void)
{
    struct worker *worker = &workers[0];

    for (uint64_t i = 0; !budget_cases.why[0]; i++) {
        failures(true, seed + i);
        work_on(worker);
        failures(false, 0);
        use_own_streams(worker);
        rest(i);
        if (is_done(i))
            return;
        if (worker->context)
            MUST(cuCtxSetCurrent(worker->context));
    }
}

static void run_together(void)
{
    pthread_t readers[READERS];

    pthread_barrier_init(&rest_begins, NULL, worker_count + 1);
    pthread_barrier_init(&rest_ends, NULL, worker_count + 1);
    failures(true, seed);
    for (unsigned w = 0; w < worker_count; w++)
        pthread_create(&workers[w].thread, NULL, work, &workers[w]);
    for (int i = 0; i < READERS; i++)
        pthread_create(&readers[i], NULL, read_on, i == 0 ? primary : NULL);
    for (uint64_t i = 0; !stopping; i++) {
        pthread_barrier_wait(&rest_begins);
        failures(false, 0);
        pthread_barrier_wait(&rest_begins);
        pthread_barrier_wait(&rest_begins);
        rest(i);
        if (is_done(i))
            __atomic_store_n(&stopping, true, __ATOMIC_SEQ_CST);
        else
            failures(true, seed + i + 1);
        pthread_barrier_wait(&rest_ends);
    }
    for (unsigned w = 0; w < worker_count; w++)
        pthread_join(workers[w].thread, NULL);
    __atomic_store_n(&finished, true, __ATOMIC_SEQ_CST);
    for (int i = 0; i < READERS; i++)
        pthread_join(readers[i], NULL);
}

int main(int argc, char **argv)
{
    unsigned long granted = 0, refused = 0, failed = 0;

    seed = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;
    operations = argc > 1 ? strtoul(argv[1], NULL, 10) : 200000;
    sim_needed();
    process_bytes = (__typeof__(process_bytes))dlsym(RTLD_DEFAULT, "standin_process_bytes");
    worker_count = (unsigned)number_from("FAMILIES_THREADS", WORKERS);
    if (worker_count < 1 || worker_count > WORKERS)
        worker_count = WORKERS;
    one_in = number_from("FAMILIES_FAILURES", 300);
    every = number_from("FAMILIES_EVERY", operations / RESTS);
    every = every < worker_count ? worker_count : every;
    tracing = number_from("FAMILIES_TRACE", 0) != 0;
    without = getenv("FAMILIES_WITHOUT") ? getenv("FAMILIES_WITHOUT") : "";
    requested = charge_is_requested();
    simulated_clock = worker_count == 1;
    primary = start_device(0);
    limit_bytes = info_total();
    case_begin("families-seed-%" PRIu64, seed);
    for (unsigned w = 0; w < worker_count; w++)
        begin_worker(w);
    if (worker_count == 1)
        run_alone();
    else
        run_together();
    if (!budget_cases.why[0]) {
        end_everything();
        compare("at the end", true);
    }
    for (unsigned w = 0; w < worker_count; w++) {
        granted += workers[w].granted;
        refused += workers[w].refused;
        failed += workers[w].failed;
    }
    printf("# granted %lu, refused %lu, failed otherwise %lu, digest %" PRIx64 "\n", granted,
           refused, failed, workers[0].digest);
    /* A run that never meets the limit, or never gets anything, shows nothing. */
    if (!*without && operations >= 1000) {
        EXPECT(granted > operations / 20);
        EXPECT(operations < 20000 || refused > operations / 1000);
    }
    case_end();
    return cases_status();
}
