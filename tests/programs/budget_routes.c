/*
 * budget_routes.c: every route to the driver x every allocating call.
 *
 *     budget_routes BITES [managed]
 *     budget_routes list             prints the names of the routes
 *
 * The limit must leave room for BITES times 256 MiB. Each allocating call takes that many, is
 * then refused with its output untouched, and succeeds again after each kind of free. With
 * `managed` only cuMemAllocManaged, which costs more once (see the script).
 */
#define _GNU_SOURCE
#include "budget_program.h"

#define BITE (256 * MIB)
enum { MOST_BITES = 64 };

/* Of dlsym, on either processor. */
#if defined(__x86_64__)
#define LIBC_VERSION "GLIBC_2.2.5"
#else
#define LIBC_VERSION "GLIBC_2.17"
#endif

/* ---- the calls ---- */

enum form { V1, V2, PITCH_V1, PITCH_V2, MANAGED, ASYNC, FROM_POOL };

struct call {
    const char *exported, *base;
    enum form form;
    int since, before; /* versions with which cuGetProcAddress gives this form */
    bool ptsz;
    void *linked;
};

#define CALL(name, base, form, since, before, ptsz)                                            \
    {                                                                                          \
#name, base, form, since, before, ptsz, (void *)name                                   \
    }
#define FOREVER 99999

static const struct call allocators[] = {
    CALL(cuMemAlloc, "cuMemAlloc", V1, 2000, 3020, false),
    CALL(cuMemAlloc_v2, "cuMemAlloc", V2, 3020, FOREVER, false),
    CALL(cuMemAllocPitch, "cuMemAllocPitch", PITCH_V1, 2000, 3020, false),
    CALL(cuMemAllocPitch_v2, "cuMemAllocPitch", PITCH_V2, 3020, FOREVER, false),
    CALL(cuMemAllocManaged, "cuMemAllocManaged", MANAGED, 6000, FOREVER, false),
    CALL(cuMemAllocAsync, "cuMemAllocAsync", ASYNC, 11020, FOREVER, false),
    CALL(cuMemAllocAsync_ptsz, "cuMemAllocAsync", ASYNC, 11020, FOREVER, true),
    CALL(cuMemAllocFromPoolAsync, "cuMemAllocFromPoolAsync", FROM_POOL, 11020, FOREVER, false),
    CALL(cuMemAllocFromPoolAsync_ptsz, "cuMemAllocFromPoolAsync", FROM_POOL, 11020, FOREVER,
         true),
};

static const struct call frees[] = {
    CALL(cuMemFree, "cuMemFree", V1, 2000, 3020, false),
    CALL(cuMemFree_v2, "cuMemFree", V2, 3020, FOREVER, false),
    CALL(cuMemFreeAsync, "cuMemFreeAsync", ASYNC, 11020, FOREVER, false),
    CALL(cuMemFreeAsync_ptsz, "cuMemFreeAsync", ASYNC, 11020, FOREVER, true),
};

/* ---- the routes ---- */

typedef CUresult look1_fn(const char *, void **, int, cuuint64_t);
typedef CUresult look2_fn(const char *, void **, int, cuuint64_t,
                          CUdriverProcAddressQueryResult *);

static void *library;

struct route {
    const char *name;
    void *(*find)(const struct route *route, const struct call *call);
    int version;
    cuuint64_t flags;
};

static void *by_link(const struct route *route, const struct call *call)
{
    (void)route;
    return call->linked;
}

static void *by_handle(const struct route *route, const struct call *call)
{
    (void)route;
    return dlsym(library, call->exported);
}

/* Only a driver whose names have versions has them (the stand-in `versioned`). */
static void *by_version(const struct route *route, const struct call *call)
{
    (void)route;
    return dlvsym(library, call->exported, STANDIN_SYMBOL_VERSION);
}

/* What programs get by dlvsym is dlsym, past those who stand before it. */
static void *by_versioned_dlsym(const struct route *route, const struct call *call)
{
    void *(*look)(void *, const char *) =
        (void *(*)(void *, const char *))dlvsym(RTLD_DEFAULT, "dlsym", LIBC_VERSION);

    (void)route;
    return look ? look(library, call->exported) : NULL;
}

static void *by_next(const struct route *route, const struct call *call)
{
    (void)route;
    return dlsym(RTLD_NEXT, call->exported);
}

static void *by_default(const struct route *route, const struct call *call)
{
    (void)route;
    return dlsym(RTLD_DEFAULT, call->exported);
}

/* Does the route's version and flag lead to this form of the name? */
static bool is_form(const struct route *route, const struct call *call)
{
    bool per_thread = route->flags == CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM;

    return route->version >= call->since && route->version < call->before &&
           (call->form < ASYNC || per_thread == call->ptsz);
}

static void *ask1(look1_fn *look, const struct route *route, const struct call *call)
{
    void *found = NULL;

    if (!look || look(call->base, &found, route->version, route->flags) != CUDA_SUCCESS)
        return NULL;
    return found;
}

static void *ask2(look2_fn *look, const struct route *route, const struct call *call)
{
    CUdriverProcAddressQueryResult status;
    void *found = NULL;

    if (!look ||
        look(call->base, &found, route->version, route->flags, &status) != CUDA_SUCCESS)
        return NULL;
    return found;
}

static void *by_address1(const struct route *route, const struct call *call)
{
    if (!is_form(route, call))
        return NULL;
    return ask1((look1_fn *)dlsym(library, "cuGetProcAddress"), route, call);
}

static void *by_address2(const struct route *route, const struct call *call)
{
    if (!is_form(route, call))
        return NULL;
    return ask2((look2_fn *)dlsym(library, "cuGetProcAddress_v2"), route, call);
}

/* The second form by the first, which was itself got by the exported second. */
static void *by_itself(const struct route *route, const struct call *call)
{
    look2_fn *exported = (look2_fn *)dlsym(library, "cuGetProcAddress_v2");
    CUdriverProcAddressQueryResult status;
    void *first = NULL, *second = NULL;

    if (!exported || !is_form(route, call))
        return NULL;
    if (exported("cuGetProcAddress", &first, 11030, 0, &status) != CUDA_SUCCESS ||
        ((look1_fn *)first)("cuGetProcAddress", &second, 12000, 0) != CUDA_SUCCESS)
        return NULL;
    return ask2((look2_fn *)second, route, call);
}

static const struct route routes[] = {
    {"link", by_link, 0, 0},
    {"dlsym", by_handle, 0, 0},
    {"dlvsym", by_version, 0, 0},
    {"dlsym-by-dlvsym", by_versioned_dlsym, 0, 0},
    {"RTLD_NEXT", by_next, 0, 0},
    {"RTLD_DEFAULT", by_default, 0, 0},
    {"v1-2000", by_address1, 2000, 0},
    {"v1-3020", by_address1, 3020, 0},
    {"v1-11030", by_address1, 11030, 0},
    {"v1-11030-legacy", by_address1, 11030, CU_GET_PROC_ADDRESS_LEGACY_STREAM},
    {"v1-11030-thread", by_address1, 11030, CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM},
    {"v2-2000", by_address2, 2000, 0},
    {"v2-3020", by_address2, 3020, 0},
    {"v2-3020-legacy", by_address2, 3020, CU_GET_PROC_ADDRESS_LEGACY_STREAM},
    {"v2-11030", by_address2, 11030, 0},
    {"v2-11030-thread", by_address2, 11030, CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM},
    {"v2-12000", by_address2, 12000, 0},
    {"v2-12000-legacy", by_address2, 12000, CU_GET_PROC_ADDRESS_LEGACY_STREAM},
    {"v2-12000-thread", by_address2, 12000, CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM},
    {"itself-3020", by_itself, 3020, 0},
    {"itself-12000", by_itself, 12000, 0},
    {"itself-12000-thread", by_itself, 12000, CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM},
};

/* ---- taking and freeing ---- */

static CUstream stream;
static CUmemoryPool pool;

/* One bite; *pointer is written as the driver writes it. */
static CUresult take(const struct call *call, void *function, CUdeviceptr *pointer)
{
    CUdeviceptr_v1 low = (CUdeviceptr_v1)*pointer;
    unsigned int low_pitch = 77;
    size_t pitch = 77;
    CUresult code;

    switch (call->form) {
    case V1:
        code = ((__typeof__(cuMemAlloc) *)function)(&low, BITE);
        break;
    case PITCH_V1:
        code = ((__typeof__(cuMemAllocPitch) *)function)(&low, &low_pitch, 1 << 20, 256, 4);
        if (code != CUDA_SUCCESS && low_pitch != 77)
            case_fails("the pitch was written by a refused call");
        break;
    case V2:
        return ((__typeof__(cuMemAlloc_v2) *)function)(pointer, BITE);
    case PITCH_V2:
        code = ((__typeof__(cuMemAllocPitch_v2) *)function)(pointer, &pitch, 1 << 20, 256, 4);
        if (code != CUDA_SUCCESS && pitch != 77)
            case_fails("the pitch was written by a refused call");
        return code;
    case MANAGED:
        return ((__typeof__(cuMemAllocManaged) *)function)(pointer, BITE, CU_MEM_ATTACH_GLOBAL);
    case ASYNC:
        return ((__typeof__(cuMemAllocAsync) *)function)(pointer, BITE, stream);
    default:
        return ((__typeof__(cuMemAllocFromPoolAsync) *)function)(pointer, BITE, pool, stream);
    }
    if (low != (CUdeviceptr_v1)*pointer)
        *pointer = low;
    return code;
}

static CUresult give(const struct call *call, void *function, CUdeviceptr pointer)
{
    switch (call->form) {
    case V1:
        return ((__typeof__(cuMemFree) *)function)((CUdeviceptr_v1)pointer);
    case V2:
        return ((__typeof__(cuMemFree_v2) *)function)(pointer);
    default:
        return ((__typeof__(cuMemFreeAsync) *)function)(pointer, stream);
    }
}

static void expect_refusal(const struct call *call, void *function, const char *when)
{
    CUdeviceptr pointer = SENTINEL;
    CUresult code = take(call, function, &pointer);

    if (code != CUDA_ERROR_OUT_OF_MEMORY)
        case_fails("%s: %d instead of 2", when, (int)code);
    if (pointer != SENTINEL)
        case_fails("%s: the output was written", when);
}

static void run_case(const struct route *route, const struct call *call, int bites)
{
    CUdeviceptr taken[MOST_BITES];
    void *function = route->find(route, call);
    uint64_t before;

    if (!function)
        return;
    case_begin("%s-%s", route->name, call->exported);
    before = info_used();
    for (int i = 0; i < bites; i++) {
        taken[i] = SENTINEL;
        if (take(call, function, &taken[i]) != CUDA_SUCCESS || taken[i] == SENTINEL)
            case_fails("bite %d of %d was not granted", i + 1, bites);
    }
    expect_refusal(call, function, "the full budget");
    for (size_t i = 0; i < sizeof(frees) / sizeof(frees[0]); i++) {
        const struct call *how = &frees[i];
        void *free_function = route->find(route, how);

        if (!free_function || (how->form == V1 && taken[0] >> 32))
            continue;
        /* The driver frees managed memory at once only. */
        if (call->form == MANAGED && how->form == ASYNC)
            continue;
        if (give(how, free_function, taken[0]) != CUDA_SUCCESS)
            case_fails("%s fails", how->exported);
        taken[0] = SENTINEL;
        if (take(call, function, &taken[0]) != CUDA_SUCCESS)
            case_fails("no bite after %s", how->exported);
        expect_refusal(call, function, how->exported);
    }
    for (int i = 0; i < bites; i++)
        if (taken[i] != SENTINEL)
            EXPECT_OK(cuMemFree_v2(taken[i]));
    EXPECT_OK(cuCtxSynchronize());
    if (call->form == MANAGED)
        EXPECT(info_used() - before == 0 || info_used() - before == 128 * MIB);
    else
        EXPECT_EQUAL(info_used(), before);
    case_end();
}

/* Only a card of less than 4 GiB has memory that 32-bit addresses reach: a simulated one. */
static bool has_first_forms(void)
{
    return sim.total_bytes && sim.total_bytes(0) < 4 * GIB;
}

int main(int argc, char **argv)
{
    bool managed = argc > 2 && strcmp(argv[2], "managed") == 0;
    int bites = argc > 1 ? atoi(argv[1]) : 0;

    if (argc > 1 && strcmp(argv[1], "list") == 0) {
        for (size_t r = 0; r < sizeof(routes) / sizeof(routes[0]); r++)
            puts(routes[r].name);
        return 0;
    }
    if (bites < 1 || bites > MOST_BITES) {
        fprintf(stderr, "usage: budget_routes BITES [managed] | list\n");
        return 2;
    }
    library = dlopen("libcuda.so.1", RTLD_LAZY);
    if (!library)
        return 2;
    sim_find();
    if (has_first_forms()) {
        CUcontext first;

        /* They work in contexts that their own cuCtxCreate has made. */
        MUST(cuInit(0));
        MUST(cuCtxCreate(&first, 0, 0));
    } else {
        start_device(0);
    }
    MUST(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    pool = make_pool(0);
    for (size_t r = 0; r < sizeof(routes) / sizeof(routes[0]); r++) {
        for (size_t c = 0; c < sizeof(allocators) / sizeof(allocators[0]); c++) {
            const struct call *call = &allocators[c];

            if ((call->form == MANAGED) != managed)
                continue;
            if (!has_first_forms() && (call->form == V1 || call->form == PITCH_V1))
                continue;
            run_case(&routes[r], call, bites);
        }
    }
    return cases_status();
}
