/* take_run.c: takes device memory in bites until refused, gives one back, takes one more. */
#define _GNU_SOURCE
#include "take.h"

#include <getopt.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MIB       ((size_t)1024 * 1024)
#define MOST      4096
#define ROW_BYTES MIB /* of a pitched bite */

enum kind { KIND_SYNC, KIND_ASYNC, KIND_POOL, KIND_MANAGED, KIND_PITCH };

static const char *const kind_names[] = {"sync", "async", "pool", "managed", "pitch"};

struct take {
    const struct take_driver *driver;
    enum kind kind;
    size_t bite;  /* bytes */
    size_t first; /* bytes taken by one cuMemAlloc before the bites */
    int count;
    bool hold;
    bool probe;
    bool default_stream;
    const char *via;
    CUdevice device;
    CUcontext context;
    CUstream stream;
    CUmemoryPool pool;
    CUdeviceptr block[MOST];
    int held;
};

static const char *error_name(const struct take *take, CUresult result)
{
    const char *name = NULL;
    if (take->driver->p_cuGetErrorName(result, &name) != CUDA_SUCCESS || name == NULL)
        return "an unknown error";
    return name;
}

static bool failed(const struct take *take, const char *call, CUresult result)
{
    if (result == CUDA_SUCCESS)
        return false;
    printf("%s failed: %s\n", call, error_name(take, result));
    return true;
}

static CUresult take_one(struct take *take, CUdeviceptr *block)
{
    const struct take_driver *driver = take->driver;
    size_t pitch;

    switch (take->kind) {
    case KIND_ASYNC:
        return driver->p_cuMemAllocAsync(block, take->bite, take->stream);
    case KIND_POOL:
        return driver->p_cuMemAllocFromPoolAsync(block, take->bite, take->pool, take->stream);
    case KIND_MANAGED:
        return driver->p_cuMemAllocManaged(block, take->bite, CU_MEM_ATTACH_GLOBAL);
    case KIND_PITCH:
        return driver->p_cuMemAllocPitch(block, &pitch, ROW_BYTES, take->bite / ROW_BYTES, 16);
    case KIND_SYNC:
        break;
    }
    return driver->p_cuMemAlloc(block, take->bite);
}

static CUresult free_one(struct take *take, CUdeviceptr block)
{
    if (take->kind == KIND_ASYNC || take->kind == KIND_POOL)
        return take->driver->p_cuMemFreeAsync(block, take->stream);
    return take->driver->p_cuMemFree(block);
}

static bool open_device(struct take *take)
{
    const struct take_driver *driver = take->driver;
    char name[128] = "", bus[32] = "";
    int version = 0, devices = 0;

    if (failed(take, "cuInit", driver->p_cuInit(0)) ||
        failed(take, "cuDriverGetVersion", driver->p_cuDriverGetVersion(&version)) ||
        failed(take, "cuDeviceGetCount", driver->p_cuDeviceGetCount(&devices)))
        return false;
    printf("driver: CUDA %d.%d, devices: %d\n", version / 1000, version % 1000 / 10, devices);
    if (devices == 0 || failed(take, "cuDeviceGet", driver->p_cuDeviceGet(&take->device, 0)) ||
        failed(take, "cuDeviceGetName",
               driver->p_cuDeviceGetName(name, sizeof(name), take->device)))
        return false;
    if (driver->p_cuDeviceGetPCIBusId(bus, sizeof(bus), take->device) != CUDA_SUCCESS)
        bus[0] = '\0';
    printf("device 0: %s %s\n", name, bus);
    return true;
}

static bool open_context(struct take *take)
{
    const struct take_driver *driver = take->driver;
    CUmemPoolProps props;

    if (failed(take, "cuDevicePrimaryCtxRetain",
               driver->p_cuDevicePrimaryCtxRetain(&take->context, take->device)) ||
        failed(take, "cuCtxSetCurrent", driver->p_cuCtxSetCurrent(take->context)) ||
        failed(take, "cuStreamCreate",
               take->default_stream
                   ? CUDA_SUCCESS
                   : driver->p_cuStreamCreate(&take->stream, CU_STREAM_NON_BLOCKING)))
        return false;
    if (take->kind != KIND_POOL)
        return true;
    memset(&props, 0, sizeof(props));
    props.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    props.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    props.location.id = take->device;
    return !failed(take, "cuMemPoolCreate", driver->p_cuMemPoolCreate(&take->pool, &props));
}

static bool print_memory(const struct take *take)
{
    size_t bytes_free = 0, total = 0;
    if (failed(take, "cuMemGetInfo", take->driver->p_cuMemGetInfo(&bytes_free, &total)))
        return false;
    printf("memory: %zu MiB free of %zu MiB\n", bytes_free / MIB, total / MIB);
    return true;
}

/* Someone may now look at the process from outside, until a line or the end comes on stdin. */
static void hold(void)
{
    int c;
    printf("holding, pid %d\n", (int)getpid());
    do
        c = getchar();
    while (c != EOF && c != '\n');
}

static bool take_all(struct take *take, bool *refused)
{
    *refused = false;
    for (int i = 0; i < take->count; i++) {
        CUdeviceptr block = 0;
        CUresult result = take_one(take, &block);
        if (result == CUDA_SUCCESS) {
            take->block[take->held++] = block;
            printf("bite %d: %zu MiB granted\n", i + 1, take->bite / MIB);
            continue;
        }
        printf("bite %d: %zu MiB refused: %s\n", i + 1, take->bite / MIB,
               error_name(take, result));
        *refused = true;
        if (block != 0) {
            printf("the refusal wrote into the output variable\n");
            return false;
        }
        return result == CUDA_ERROR_OUT_OF_MEMORY;
    }
    return true;
}

/* Gives the last bite back and takes it again, where there is one. */
static bool take_again(struct take *take)
{
    CUdeviceptr block = 0;
    if (take->held == 0)
        return true;
    if (failed(take, "free", free_one(take, take->block[--take->held])))
        return false;
    printf("gave one back\n");
    if (failed(take, "one more", take_one(take, &block)))
        return false;
    take->block[take->held++] = block;
    printf("one more: %zu MiB granted\n", take->bite / MIB);
    return true;
}

static bool run(struct take *take)
{
    const struct take_driver *driver = take->driver;
    CUdeviceptr first = 0;
    bool refused, good;

    if (!open_device(take))
        return false;
    if (take->probe)
        return true;
    if (!open_context(take))
        return false;
    if (take->first != 0 &&
        failed(take, "the first block", driver->p_cuMemAlloc(&first, take->first)))
        return false;
    good = take_all(take, &refused);
    if (take->hold)
        hold();
    if (good && refused)
        good = take_again(take);
    good = print_memory(take) && good;
    while (take->held > 0)
        if (failed(take, "free", free_one(take, take->block[--take->held])))
            return false;
    if (first != 0 && failed(take, "free", driver->p_cuMemFree(first)))
        return false;
    if (failed(take, "cuStreamSynchronize", driver->p_cuStreamSynchronize(take->stream)))
        return false;
    if (take->pool != NULL &&
        failed(take, "cuMemPoolDestroy", driver->p_cuMemPoolDestroy(take->pool)))
        return false;
    return !failed(take, "cuDevicePrimaryCtxRelease",
                   driver->p_cuDevicePrimaryCtxRelease(take->device)) &&
           good;
}

static const char usage_text[] =
    "Usage: take [OPTION]...\n"
    "Takes GPU memory in bites until refused, gives one back, takes one more.\n"
    "\n"
    "  --bite MIB     size of a bite (default 256)\n"
    "  --count N      at most so many bites (default 16, at most 4096)\n"
    "  --kind KIND    sync, async, pool, managed or pitch (default sync)\n"
    "  --async        the same as --kind async\n"
    "  --first MIB    one block of this size before the bites\n"
    "  --hold         then wait for a line on standard input, holding all\n"
    "  --probe        only say what driver and device there are\n"
    "  --default-stream  no stream of its own\n"
    "  --via ROUTE    take_loader only: procaddress (default), dlsym or others; asked for one\n"
    "                 that it does not know it names them\n"
    "\n"
    "The status is 0 if nothing but CUDA_ERROR_OUT_OF_MEMORY was refused.\n";

static bool read_number(const char *text, long most, long *number)
{
    char *end;
    *number = strtol(text, &end, 10);
    if (end != text && *end == '\0' && *number >= 0 && *number <= most)
        return true;
    fprintf(stderr, "take: \"%s\" is not a number from 0 to %ld\n", text, most);
    return false;
}

static bool read_kind(const char *text, enum kind *kind)
{
    for (size_t i = 0; i < sizeof(kind_names) / sizeof(kind_names[0]); i++)
        if (strcmp(text, kind_names[i]) == 0) {
            *kind = (enum kind)i;
            return true;
        }
    fprintf(stderr, "take: no kind \"%s\"\n", text);
    return false;
}

static bool read_options(struct take *take, int argc, char **argv)
{
    static const struct option options[] = {
        {"async", no_argument, NULL, 'a'},
        {"bite", required_argument, NULL, 'b'},
        {"count", required_argument, NULL, 'c'},
        {"default-stream", no_argument, NULL, 'd'},
        {"first", required_argument, NULL, 'f'},
        {"help", no_argument, NULL, 'h'},
        {"hold", no_argument, NULL, 'w'},
        {"kind", required_argument, NULL, 'k'},
        {"probe", no_argument, NULL, 'p'},
        {"via", required_argument, NULL, 'v'},
        {NULL, 0, NULL, 0},
    };
    long number;
    int c;

    while ((c = getopt_long(argc, argv, "", options, NULL)) != -1) {
        bool good = true;
        switch (c) {
        case 'a':
            take->kind = KIND_ASYNC;
            break;
        case 'b':
            good = read_number(optarg, 1 << 20, &number) && number > 0;
            take->bite = (size_t)number * MIB;
            break;
        case 'c':
            good = read_number(optarg, MOST, &number);
            take->count = (int)number;
            break;
        case 'd':
            take->default_stream = true;
            break;
        case 'f':
            good = read_number(optarg, 1 << 20, &number);
            take->first = (size_t)number * MIB;
            break;
        case 'h':
            fputs(usage_text, stdout);
            exit(0);
        case 'k':
            good = read_kind(optarg, &take->kind);
            break;
        case 'p':
            take->probe = true;
            break;
        case 'v':
            take->via = optarg;
            break;
        case 'w':
            take->hold = true;
            break;
        default:
            good = false;
        }
        if (!good)
            return false;
    }
    return optind == argc;
}

int main(int argc, char **argv)
{
    static struct take take = {.bite = 256 * MIB, .count = 16};

    if (!read_options(&take, argc, argv)) {
        fputs(usage_text, stderr);
        return 2;
    }
    setvbuf(stdout, NULL, _IOLBF, 0);
    take.driver = take_find_driver(take.via);
    return take.driver != NULL && run(&take) ? 0 : 1;
}
