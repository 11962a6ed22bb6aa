/* What the library is: its names and versions, copies, forks, faults. */
#include "check_standin.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

typedef CUresult (*look_up_v2)(const char *, void **, int, cuuint64_t,
                               CUdriverProcAddressQueryResult *);
typedef CUresult (*look_up_v1)(const char *, void **, int, cuuint64_t);

static void *open_driver(const char *which)
{
    char path[4096];
    void *driver;
    snprintf(path, sizeof(path), "%s/%s/libcuda.so.1", check_folder, which);
    driver = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!driver)
        fprintf(stderr, "%s\n", dlerror());
    CHECK(driver != NULL);
    return driver;
}

/* Every row of a table: exported if and only if the driver is new enough, and handed out. */
static void rows_of(const char *table, void *driver, int version, bool export_only)
{
    char path[4096], line[512];
    FILE *file;
    look_up_v2 newer = (look_up_v2)dlsym(driver, "cuGetProcAddress_v2");
    look_up_v1 older = (look_up_v1)dlsym(driver, "cuGetProcAddress");
    snprintf(path, sizeof(path), "%s/%s", check_source, table);
    file = fopen(path, "r");
    CHECK(file != NULL);
    CHECK(older != NULL);
    while (fgets(line, sizeof(line), file)) {
        char base[128], flags[32], name[128];
        int since;
        void *address = NULL, *expected;
        cuuint64_t flag;
        if (sscanf(line, "%127s %d %31s %127s", base, &since, flags, name) != 4 ||
            base[0] == '#')
            continue;
        expected = dlsym(driver, name);
        if ((expected != NULL) != (since <= version)) {
            fprintf(stderr, "%s\n", name);
            CHECK((expected != NULL) == (since <= version));
        }
        if (export_only || !expected || strcmp(flags, "none") == 0)
            continue;
        flag = strcmp(flags, "thread") == 0 ? 2 : 0;
        /* The row's own version may be shared by a later row of the same name. */
        if ((newer ? newer(base, &address, since, flag, NULL)
                   : older(base, &address, since, flag)) != CUDA_SUCCESS ||
            address != expected) {
            fprintf(stderr, "%s %d %s\n", base, since, flags);
            CHECK(address == expected);
        }
    }
    fclose(file);
}

void check_names(void)
{
    static const struct {
        const char *folder;
        int version;
    } drivers[] = {{"11.4", 11040}, {"12.4", 12040}, {"13.0", 13000}, {"future", 14000}};
    for (size_t i = 0; i < sizeof(drivers) / sizeof(drivers[0]); i++) {
        void *driver = open_driver(drivers[i].folder);
        CUresult (*version_of)(int *) = (CUresult(*)(int *))dlsym(driver, "cuDriverGetVersion");
        int version = 0;
        OK(version_of(&version));
        EQUAL(version, drivers[i].version);
        rows_of("names.tbl", driver, version, false);
        rows_of("names-future.tbl", driver, version, false);
    }
    {
        void *old = open_driver("11.4"), *future = open_driver("future");
        look_up_v1 v1 = (look_up_v1)dlsym(old, "cuGetProcAddress");
        look_up_v2 v2 = (look_up_v2)dlsym(future, "cuGetProcAddress_v2");
        CUdriverProcAddressQueryResult status;
        void *address;
        CHECK(dlsym(old, "cuGetProcAddress_v2") == NULL);
        CHECK(dlsym(old, "cuCtxCreate_v4") == NULL && dlsym(old, "cuMemSetMemPool") == NULL);
        CHECK(dlsym(old, "cuMemAllocAsync") != NULL);
        address = &status;
        EQUAL(v1("cuStreamGetDevice", &address, 11040, 0), CUDA_ERROR_NOT_FOUND);
        CHECK(address == &status);
        EQUAL(v1("cuCtxGetDevice", &address, 11050, 0), CUDA_ERROR_INVALID_VALUE);
        CHECK(address == &status);
        OK(v1("cuCtxGetDevice", &address, 11040, 0));
        CHECK(address == dlsym(old, "cuCtxGetDevice"));
        OK(v2("cuMemAlloc", &address, 13000, 0, &status));
        CHECK(address == dlsym(future, "cuMemAlloc_v2"));
        OK(v2("cuMemAlloc", &address, 14000, 0, &status));
        CHECK(address == dlsym(future, "cuMemAlloc_v3"));
        OK(v2("cuMemBrandNew", &address, 13000, 0, &status));
        EQUAL(status, CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT);
        CHECK(address == NULL);
        address = &status;
        OK(v2("cuMemAlloc_v2", &address, 14000, 0, &status));
        EQUAL(status, CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
        CHECK(address == NULL);
        OK(v2("", &address, 14000, 0, NULL));
    }
}

struct copy {
    CUresult (*init)(unsigned);
    CUresult (*retain)(CUcontext *, CUdevice);
    CUresult (*set)(CUcontext);
    CUresult (*alloc)(CUdeviceptr *, size_t);
    CUresult (*release)(CUdeviceptr);
    uint64_t (*live)(int);
    uint64_t (*direct)(int);
};

static struct copy copy_of(void *driver)
{
    struct copy copy = {
        (CUresult(*)(unsigned))dlsym(driver, "cuInit"),
        (CUresult(*)(CUcontext *, CUdevice))dlsym(driver, "cuDevicePrimaryCtxRetain"),
        (CUresult(*)(CUcontext))dlsym(driver, "cuCtxSetCurrent"),
        (CUresult(*)(CUdeviceptr *, size_t))dlsym(driver, "cuMemAlloc_v2"),
        (CUresult(*)(CUdeviceptr))dlsym(driver, "cuMemFree_v2"),
        (uint64_t(*)(int))dlsym(driver, "standin_live_bytes"),
        (uint64_t(*)(int))dlsym(driver, "standin_direct_bytes"),
    };
    return copy;
}

/* Two drivers of different versions, and the linked one, in one process. */
void check_copies(void)
{
    struct copy one = copy_of(open_driver("12.4")), two = copy_of(open_driver("future"));
    CUcontext context;
    CUdeviceptr a, b;
    OK(one.init(0));
    OK(one.retain(&context, 0));
    OK(one.set(context));
    EQUAL(two.alloc(&b, MIB), CUDA_ERROR_NOT_INITIALIZED);
    OK(one.alloc(&a, 4 * MIB));
    EQUAL(one.direct(0), 4 * MIB);
    EQUAL(two.live(0), 0);
    OK(two.init(0));
    EQUAL(two.alloc(&b, MIB), CUDA_ERROR_INVALID_CONTEXT);
    OK(two.retain(&context, 0));
    OK(two.set(context));
    OK(two.alloc(&b, 6 * MIB));
    EQUAL(one.direct(0), 4 * MIB);
    EQUAL(two.direct(0), 6 * MIB);
    EQUAL(two.release(a), CUDA_ERROR_INVALID_VALUE);
    OK(one.release(a));
    OK(two.release(b));
    EQUAL(standin_live_bytes(0), 0);
}

static void child_expects(CUresult init, CUresult count)
{
    int status = 1, devices;
    pid_t child = fork();
    if (child == 0)
        _exit(!(cuInit(0) == init && cuDeviceGetCount(&devices) == count));
    waitpid(child, &status, 0);
    EQUAL(status, 0);
}

void check_fork_before(void)
{
    child_expects(CUDA_SUCCESS, CUDA_SUCCESS);
    check_begin();
}

void check_fork_after(void)
{
    CUdeviceptr block;
    check_begin();
    child_expects(CUDA_ERROR_NOT_INITIALIZED, CUDA_ERROR_NOT_INITIALIZED);
    OK(cuMemAlloc(&block, MIB));
}

void check_faults(void)
{
    CUdeviceptr block = 0x77;
    int failed = 0;
    check_begin();
    standin_fail("cuMemAlloc_v2", 2, CUDA_ERROR_UNKNOWN);
    OK(cuMemAlloc(&block, MIB));
    OK(cuMemFree(block));
    block = 0x77;
    EQUAL(cuMemAlloc(&block, MIB), CUDA_ERROR_UNKNOWN);
    EQUAL(block, 0x77);
    OK(cuMemAlloc(&block, MIB));
    EQUAL(standin_calls("cuMemAlloc_v2"), 3);
    EQUAL(standin_calls("cuMem*"), 4);
    standin_fail("cuMemFree*", 0, CUDA_ERROR_LAUNCH_FAILED);
    EQUAL(cuMemFree(block), CUDA_ERROR_LAUNCH_FAILED);
    EQUAL(cuMemFree(block), CUDA_ERROR_LAUNCH_FAILED);
    standin_fail_clear();
    OK(cuMemFree(block));
    standin_reset_counts();
    EQUAL(standin_calls("cuMem*"), 0);
    standin_fail_random_names("cuMemAlloc_v2");
    standin_fail_random(7, 4);
    for (int i = 0; i < 1000; i++) {
        CUresult code = cuMemAlloc(&block, MIB);
        if (code) {
            EQUAL(code, CUDA_ERROR_OUT_OF_MEMORY);
            failed++;
        } else {
            OK(cuMemFree(block));
        }
    }
    CHECK(failed > 150 && failed < 350);
    EQUAL(standin_direct_bytes(0), 0);
}

void check_arguments(void)
{
    CUmemPoolProps props;
    CUmemoryPool pool;
    unsigned char bytes[512];
    uint64_t words[2];
    check_begin();
    memset(&props, 0, sizeof(props));
    props.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    props.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    props.maxSize = 0x123456789;
    props.reserved[53] = 0xab;
    EQUAL(standin_last_args("cuMemPoolCreate", bytes, sizeof(bytes)), 0);
    OK(cuMemPoolCreate(&pool, &props));
    EQUAL(standin_last_args("cuMemPoolCreate", bytes, sizeof(bytes)), 16 + sizeof(props));
    memcpy(words, bytes, sizeof(words));
    EQUAL(words[0], (uintptr_t)&pool);
    EQUAL(words[1], (uintptr_t)&props);
    EQUAL(memcmp(bytes + 16, &props, sizeof(props)), 0);
}
