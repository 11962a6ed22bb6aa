/*
 * Finding the driver and NVML, on the stand-ins of both (this program's search path leads to
 * them; it is linked with neither).
 */
#include "driver/api.h"
#include "driver/nvml.h"
#include "driver/open.h"

#include <check.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static const char *const names[] = {
#define NAME(name) #name,
    GB_DRIVER_CALLS(NAME)
#undef NAME
};
enum { COUNT = sizeof(names) / sizeof(names[0]) };

/* A driver that lacks one name; each other one has an address of its own. */
static void *look_up(void *missing, const char *name)
{
    static char places[COUNT];

    if (missing != NULL && strcmp(missing, name) == 0)
        return NULL;
    for (int i = 0; i < COUNT; i++)
        if (strcmp(names[i], name) == 0)
            return &places[i];
    return NULL;
}

static void *look_up_nothing(void *arg, const char *name)
{
    (void)arg;
    (void)name;
    return NULL;
}

START_TEST(fill_gives_each_its_own)
{
    struct gb_driver_api api;

    ck_assert(gb_driver_api_fill(&api, look_up, NULL));
#define IS_OWN(name) ck_assert_ptr_eq((void *)api.name, look_up(NULL, #name));
    GB_DRIVER_CALLS(IS_OWN)
#undef IS_OWN
}
END_TEST

START_TEST(fill_of_a_lacking_driver)
{
    static const char *const optional[] = {"cuCtxGetId", "cuStreamGetDevice",
                                           "cuDeviceGetUuid_v2"};
    static const char *const basic[] = {"cuMemAlloc_v2", "cuMemFree_v2", "cuCtxGetCurrent",
                                        "cuEventQuery"};
    struct gb_driver_api api;

    for (int i = 0; i < 3; i++)
        ck_assert(gb_driver_api_fill(&api, look_up, (void *)optional[i]));
    ck_assert_ptr_null(api.cuDeviceGetUuid_v2);
    for (int i = 0; i < 4; i++)
        ck_assert(!gb_driver_api_fill(&api, look_up, (void *)basic[i]));
    ck_assert(!gb_driver_api_fill(&api, look_up_nothing, NULL));
    ck_assert_ptr_null(api.cuMemAlloc_v2);
}
END_TEST

typedef CUresult init_fn(unsigned int flags);
typedef CUresult retain_fn(CUcontext *context, CUdevice device);

/* Texts by which the tools name device 0. */
static void device_texts(const struct gb_driver_api *api, char *uuid, char *pci)
{
    unsigned char raw[16];
    char *at = uuid;

    ck_assert_int_eq(api->cuDeviceGetUuid_v2((CUuuid *)raw, 0), CUDA_SUCCESS);
    ck_assert_int_eq(api->cuDeviceGetPCIBusId(pci, 32, 0), CUDA_SUCCESS);
    at += sprintf(at, "GPU-");
    for (int i = 0; i < 16; i++)
        at += sprintf(at, "%s%02x", i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "", raw[i]);
}

/* The few functions that the api does not have, since our own code never calls them. */
static void *other(const char *name)
{
    void *handle = dlopen("libcuda.so.1", RTLD_LAZY);
    void *address = dlsym(handle, name);

    ck_assert_ptr_nonnull(address);
    return address;
}

START_TEST(nvml_knows_this_process)
{
    struct gb_driver_api api;
    char uuid[64], pci[32];
    CUcontext context;
    uint64_t bytes = 77, total = 0, unused = 0, used = 0;
    size_t device_total = 0;

    ck_assert(gb_driver_api_open(&api));
    ck_assert_int_eq(((init_fn *)other("cuInit"))(0), CUDA_SUCCESS);
    device_texts(&api, uuid, pci);

    ck_assert(gb_nvml_process_bytes(uuid, NULL, &bytes));
    ck_assert_uint_eq(bytes, 0);
    ck_assert_int_eq(((retain_fn *)other("cuDevicePrimaryCtxRetain"))(&context, 0),
                     CUDA_SUCCESS);
    ck_assert(gb_nvml_process_bytes(uuid, NULL, &bytes));
    ck_assert_uint_gt(bytes, 1 << 20);
    used = bytes;
    ck_assert(gb_nvml_process_bytes(NULL, pci, &bytes));
    ck_assert_uint_eq(bytes, used);
    ck_assert(gb_nvml_process_bytes("GPU-nonsense", pci, &bytes));
    ck_assert_uint_eq(bytes, used);

    ck_assert_int_eq(api.cuDeviceTotalMem_v2(&device_total, 0), CUDA_SUCCESS);
    ck_assert(gb_nvml_card_bytes(uuid, pci, &total, &unused, &used));
    ck_assert_uint_eq(total, device_total);
    ck_assert_uint_ge(used, bytes);
    ck_assert_uint_le(unused, total);
    ck_assert(gb_nvml_card_bytes(uuid, pci, NULL, NULL, NULL));
}
END_TEST

START_TEST(nvml_does_not_know_other_devices)
{
    uint64_t bytes = 77, total = 77;

    ck_assert(!gb_nvml_process_bytes("GPU-nonsense", "ffff:ff:ff.0", &bytes));
    ck_assert(!gb_nvml_process_bytes(NULL, NULL, &bytes));
    ck_assert_uint_eq(bytes, 77);
    ck_assert(!gb_nvml_card_bytes("GPU-nonsense", NULL, &total, NULL, NULL));
    ck_assert_uint_eq(total, 77);
}
END_TEST

START_TEST(nvml_of_a_child)
{
    uint64_t bytes;
    int status;
    pid_t child;

    gb_nvml_process_bytes(NULL, NULL, &bytes); /* initialised, or not there, in the parent */
    child = fork();
    ck_assert_int_ge(child, 0);
    if (child == 0) {
        struct gb_driver_api api;
        char uuid[64], pci[32];

        gb_nvml_forked();
        if (!gb_driver_api_open(&api) || ((init_fn *)other("cuInit"))(0) != CUDA_SUCCESS)
            _exit(1);
        device_texts(&api, uuid, pci);
        _exit(gb_nvml_process_bytes(uuid, pci, &bytes) && bytes == 0 ? 0 : 2);
    }
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_int_eq(status, 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("driver");
    TCase *tests = tcase_create("driver");
    SRunner *runner;
    int failed;

    tcase_add_test(tests, fill_gives_each_its_own);
    tcase_add_test(tests, fill_of_a_lacking_driver);
    tcase_add_test(tests, nvml_knows_this_process);
    tcase_add_test(tests, nvml_does_not_know_other_devices);
    tcase_add_test(tests, nvml_of_a_child);
    suite_add_tcase(suite, tests);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
