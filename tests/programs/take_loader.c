/*
 * take_loader.c: the driver of a program that starts without one.
 *
 * As the CUDA runtime does: dlopen, one dlsym for cuGetProcAddress_v2, and everything else
 * through it. With --via dlsym every name is looked up by dlsym, as cuDNN or Python's ctypes
 * do.
 */
#define _GNU_SOURCE
#include "take.h"

#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <string.h>

#define TEXT_OF(x) #x
#define TEXT(x)    TEXT_OF(x)

typedef CUresult get_proc_address(const char *symbol, void **pfn, int version, cuuint64_t flags,
                                  CUdriverProcAddressQueryResult *status);

static struct take_driver driver;

static const struct {
    void *place;
    const char *name;     /* as cuGetProcAddress knows it */
    const char *exported; /* the symbol that cuda.h means by it */
    int version;
} functions[] = {
#define TAKE_ROW(name, version) {&driver.p_##name, #name, TEXT(name), version},
    TAKE_FUNCTIONS(TAKE_ROW)
#undef TAKE_ROW
};

#define FUNCTIONS (sizeof(functions) / sizeof(functions[0]))

static void store(size_t i, void *function)
{
    memcpy(functions[i].place, &function, sizeof(function));
}

static int by_dlsym(void *library)
{
    for (size_t i = 0; i < FUNCTIONS; i++) {
        void *function = dlsym(library, functions[i].exported);
        if (function == NULL) {
            fprintf(stderr, "take_loader: %s\n", dlerror());
            return 0;
        }
        store(i, function);
    }
    return 1;
}

static int by_proc_address(void *library)
{
    CUdriverProcAddressQueryResult status;
    void *function = dlsym(library, "cuGetProcAddress_v2");
    get_proc_address *find = (get_proc_address *)function;

    if (find == NULL) {
        fprintf(stderr, "take_loader: %s\n", dlerror());
        return 0;
    }
    if (find("cuGetProcAddress", &function, 12000, CU_GET_PROC_ADDRESS_DEFAULT, &status) == 0)
        find = (get_proc_address *)function;
    for (size_t i = 0; i < FUNCTIONS; i++) {
        CUresult result = find(functions[i].name, &function, functions[i].version,
                               CU_GET_PROC_ADDRESS_DEFAULT, &status);
        if (result != CUDA_SUCCESS || function == NULL) {
            fprintf(stderr, "take_loader: cuGetProcAddress does not know %s (error %d)\n",
                    functions[i].name, (int)result);
            return 0;
        }
        store(i, function);
    }
    return 1;
}

const struct take_driver *take_find_driver(const char *where)
{
    struct link_map *map;
    int found;
    void *library = dlopen("libcuda.so.1", RTLD_NOW);

    if (library == NULL) {
        fprintf(stderr, "take_loader: %s\n", dlerror());
        return NULL;
    }
    if (where == NULL || strcmp(where, "procaddress") == 0) {
        found = by_proc_address(library);
    } else if (strcmp(where, "dlsym") == 0) {
        found = by_dlsym(library);
    } else {
        fprintf(stderr, "take_loader: --via is procaddress or dlsym, not %s\n", where);
        found = 0;
    }
    if (!found)
        return NULL;
    if (dlinfo(library, RTLD_DI_LINKMAP, &map) == 0)
        printf("library: %s\n", map->l_name);
    return &driver;
}
