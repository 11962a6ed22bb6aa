/*
 * route_calls.c: calls the driver by one route and counts what reaches it.
 *
 *     route_calls ROUTE
 *
 * ROUTE is link, handle, default, next, procaddress (the ABI of 12.0), procaddress1 (that of
 * 11.3), or self (a cuGetProcAddress that was itself got through cuGetProcAddress). One line
 * per call: its code, and how many calls of that exported name the stand-in saw. Same lines
 * with and without the preload: nothing lost, nothing twice. Linked with -lcuda.
 */
#define _GNU_SOURCE
#include "driver/cuda_api.h"
#include "../standin/standin.h"
#include "route_report.h"

#include <stdlib.h>

static CUcontext context, second;
static CUdeviceptr pointer;
static CUstream stream;
static CUmemoryPool pool;

/* What is called, in this order: exported name, name and version for cuGetProcAddress. */
struct step {
    const char *name, *base;
    int version;
    cuuint64_t flags;
    void *linked;
    CUresult (*run)(void *function);
};

#define RUN(name, ...)                                                                         \
    static CUresult run_##name(void *function)                                                 \
    {                                                                                          \
        __typeof__(name) *call = (__typeof__(name) *)function;                                 \
                                                                                               \
        return call(__VA_ARGS__);                                                              \
    }

static unsigned int low, low2;
static size_t size, size2;

RUN(cuInit, 0)
RUN(cuDevicePrimaryCtxRetain, &context, 0)
RUN(cuDevicePrimaryCtxRelease_v2, 0)
RUN(cuDevicePrimaryCtxRelease, 0)
RUN(cuCtxCreate_v2, &second, 0, 0)
RUN(cuCtxCreate_v3, &second, NULL, 0, 0, 0)
RUN(cuCtxDestroy_v2, second)
RUN(cuMemAlloc_v2, &pointer, 1 << 20)
RUN(cuMemAlloc, &low, 1 << 20)
RUN(cuMemAllocPitch_v2, &pointer, &size, 1000, 100, 4)
RUN(cuMemAllocManaged, &pointer, 1 << 20, CU_MEM_ATTACH_GLOBAL)
RUN(cuMemFree_v2, pointer)
RUN(cuMemFree, 0)
RUN(cuMemAllocAsync, &pointer, 1 << 20, stream)
RUN(cuMemAllocAsync_ptsz, &pointer, 1 << 20, stream)
RUN(cuMemFreeAsync, pointer, stream)
RUN(cuMemFreeAsync_ptsz, pointer, stream)
RUN(cuMemAllocFromPoolAsync, &pointer, 1 << 20, pool, stream)
RUN(cuMemAllocFromPoolAsync_ptsz, &pointer, 1 << 20, pool, stream)
RUN(cuMemPoolDestroy, pool)
RUN(cuMemGetInfo, &low, &low2)
RUN(cuMemGetInfo_v2, &size, &size2)
RUN(cuDeviceTotalMem, &low, 0)
RUN(cuDeviceTotalMem_v2, &size, 0)

static CUresult run_cuMemPoolCreate(void *function)
{
    __typeof__(cuMemPoolCreate) *call = (__typeof__(cuMemPoolCreate) *)function;
    CUmemPoolProps properties;

    memset(&properties, 0, sizeof(properties));
    properties.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    return call(&pool, &properties);
}

#define STEP(name, base, version, flags)                                                       \
    {                                                                                          \
#name, #base, version, flags, (void *)name, run_##name                                 \
    }
#define PTSZ CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM

static const struct step steps[] = {
    STEP(cuInit, cuInit, 2000, 0),
    STEP(cuDevicePrimaryCtxRetain, cuDevicePrimaryCtxRetain, 7000, 0),
    STEP(cuMemAlloc_v2, cuMemAlloc, 3020, 0),
    STEP(cuMemFree_v2, cuMemFree, 3020, 0),
    STEP(cuMemAllocPitch_v2, cuMemAllocPitch, 3020, 0),
    STEP(cuMemFree_v2, cuMemFree, 3020, 0),
    STEP(cuMemAllocManaged, cuMemAllocManaged, 6000, 0),
    STEP(cuMemFree_v2, cuMemFree, 12000, 0),
    STEP(cuMemAllocAsync, cuMemAllocAsync, 11020, 0),
    STEP(cuMemFreeAsync, cuMemFreeAsync, 11020, 0),
    STEP(cuMemAllocAsync_ptsz, cuMemAllocAsync, 11020, PTSZ),
    STEP(cuMemFreeAsync_ptsz, cuMemFreeAsync, 11020, PTSZ),
    STEP(cuMemPoolCreate, cuMemPoolCreate, 11020, 0),
    STEP(cuMemAllocFromPoolAsync, cuMemAllocFromPoolAsync, 11020, 0),
    STEP(cuMemFreeAsync, cuMemFreeAsync, 11020, 0),
    STEP(cuMemAllocFromPoolAsync_ptsz, cuMemAllocFromPoolAsync, 11020, PTSZ),
    STEP(cuMemFreeAsync_ptsz, cuMemFreeAsync, 11020, PTSZ),
    STEP(cuMemPoolDestroy, cuMemPoolDestroy, 11020, 0),
    STEP(cuMemAlloc, cuMemAlloc, 2000, 0),
    STEP(cuMemFree, cuMemFree, 2000, 0),
    STEP(cuMemGetInfo, cuMemGetInfo, 2000, 0),
    STEP(cuMemGetInfo_v2, cuMemGetInfo, 3020, 0),
    STEP(cuDeviceTotalMem, cuDeviceTotalMem, 2000, 0),
    STEP(cuDeviceTotalMem_v2, cuDeviceTotalMem, 3020, 0),
    STEP(cuCtxCreate_v2, cuCtxCreate, 3020, 0),
    STEP(cuCtxDestroy_v2, cuCtxDestroy, 4000, 0),
    STEP(cuCtxCreate_v3, cuCtxCreate, 11040, 0),
    STEP(cuCtxDestroy_v2, cuCtxDestroy, 4000, 0),
    STEP(cuDevicePrimaryCtxRelease, cuDevicePrimaryCtxRelease, 7000, 0),
    STEP(cuDevicePrimaryCtxRelease_v2, cuDevicePrimaryCtxRelease, 11000, 0),
};

/*
 * The answers of these are the library's own matter once a limit is set (it asks the driver
 * when it likes), so only their codes are printed.
 */
static int is_counted(const char *name)
{
    return strncmp(name, "cuMemGetInfo", 12) != 0 &&
           strncmp(name, "cuDeviceTotalMem", 16) != 0 &&
           strncmp(name, "cuDevicePrimaryCtxRelease", 25) != 0 &&
           strncmp(name, "cuCtxDestroy", 12) != 0;
}

static void *library;

static void *by_procaddress(const struct step *step)
{
    CUresult (*look)(const char *, void **, int, cuuint64_t, CUdriverProcAddressQueryResult *);
    CUdriverProcAddressQueryResult status;
    void *found = NULL;

    look = (__typeof__(look))dlsym(library, "cuGetProcAddress_v2");
    if (look == NULL || look(step->base, &found, step->version, step->flags, &status) != 0)
        return NULL;
    return found;
}

static void *by_procaddress1(const struct step *step)
{
    CUresult (*look)(const char *, void **, int, cuuint64_t);
    void *found = NULL;

    look = (__typeof__(look))dlsym(library, "cuGetProcAddress");
    if (look == NULL || look(step->base, &found, step->version, step->flags) != 0)
        return NULL;
    return found;
}

static void *by_self(const struct step *step)
{
    const struct step first = {.base = "cuGetProcAddress", .version = 11030};
    const struct step second_form = {.base = "cuGetProcAddress", .version = 12000};
    CUresult (*look1)(const char *, void **, int, cuuint64_t);
    CUresult (*look2)(const char *, void **, int, cuuint64_t, CUdriverProcAddressQueryResult *);
    CUdriverProcAddressQueryResult status;
    void *found = NULL;

    look1 = (__typeof__(look1))by_procaddress(&first);
    if (look1 == NULL ||
        look1(second_form.base, (void **)&look2, second_form.version, 0) != CUDA_SUCCESS ||
        look2(step->base, &found, step->version, step->flags, &status) != CUDA_SUCCESS)
        return NULL;
    return found;
}

static void *find(const char *route, const struct step *step)
{
    if (strcmp(route, "link") == 0)
        return step->linked;
    if (strcmp(route, "handle") == 0)
        return dlsym(library, step->name);
    if (strcmp(route, "default") == 0)
        return dlsym(RTLD_DEFAULT, step->name);
    if (strcmp(route, "next") == 0)
        return dlsym(RTLD_NEXT, step->name);
    if (strcmp(route, "procaddress") == 0)
        return by_procaddress(step);
    if (strcmp(route, "procaddress1") == 0)
        return by_procaddress1(step);
    if (strcmp(route, "self") == 0)
        return by_self(step);
    fprintf(stderr, "route_calls: what is %s?\n", route);
    exit(2);
}

/* Plain functions of the driver that are not under test. */
static void arrange(const struct step *next)
{
    CUresult (*set_current)(CUcontext) =
        (__typeof__(set_current))dlsym(library, "cuCtxSetCurrent");
    CUresult (*create)(CUstream *, unsigned int) =
        (__typeof__(create))dlsym(library, "cuStreamCreate");

    if (strcmp(next->name, "cuDevicePrimaryCtxRetain") == 0 || set_current == NULL)
        return;
    if (context != NULL && second == NULL)
        set_current(context);
    if (context != NULL && stream == NULL && create != NULL)
        create(&stream, CU_STREAM_NON_BLOCKING);
}

int main(int argc, char **argv)
{
    unsigned long (*calls)(const char *);

    if (argc != 2)
        return 2;
    library = dlopen("libcuda.so.1", RTLD_LAZY);
    if (library == NULL) {
        fprintf(stderr, "route_calls: %s\n", dlerror());
        return 1;
    }
    calls = (__typeof__(calls))dlsym(library, "standin_calls");
    for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
        const struct step *step = &steps[i];
        void *function = find(argv[1], step);
        unsigned long before;
        CUresult code;

        if (function == NULL) {
            printf("%s -> NULL\n", step->name);
            continue;
        }
        if (strcmp(argv[1], "link") != 0)
            route_line("calls", argv[1], step->name, function);
        arrange(step);
        before = calls == NULL ? 0 : calls(step->name);
        code = step->run(function);
        printf("%s -> code %d", step->name, (int)code);
        if (calls != NULL && is_counted(step->name))
            printf(" calls %lu", calls(step->name) - before);
        printf("\n");
    }
    return 0;
}
