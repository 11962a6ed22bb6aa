/*
 * take_loader.c: the driver of a program that starts without one.
 *
 * As the CUDA runtime does: dlopen, one dlsym for cuGetProcAddress_v2, and everything else
 * through it. --via has other ways to the same functions: by their names, as cuDNN or Python's
 * ctypes look them up, by the older cuGetProcAddress, and to their twins for the default stream
 * of each thread.
 */
#define _GNU_SOURCE
#include "take.h"

#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <string.h>

#define TEXT_OF(x) #x
#define TEXT(x)    TEXT_OF(x)

#ifdef __x86_64__
#define DLSYM_VERSION "GLIBC_2.2.5"
#else
#define DLSYM_VERSION "GLIBC_2.17"
#endif

typedef void *look_up(void *handle, const char *name);
typedef CUresult first_form(const char *symbol, void **pfn, int version, cuuint64_t flags);
typedef CUresult second_form(const char *symbol, void **pfn, int version, cuuint64_t flags,
                             CUdriverProcAddressQueryResult *status);

/* How every function is found: by its name, or by a cuGetProcAddress that comes from dlsym or
 * from itself. */
enum way { BY_NAME, BY_VERSION, BY_NEXT, BY_DEFAULT, BY_FIRST, BY_SECOND };

static const struct route {
    const char *name;
    enum way way;
    int itself;
    int per_thread;
} routes[] = {
    {"procaddress", BY_SECOND, 1, 0},
    {"procaddress-v2", BY_SECOND, 0, 0},
    {"procaddress-ptsz", BY_SECOND, 1, 1},
    {"procaddress-11.3", BY_FIRST, 0, 0},
    {"procaddress-11.3-itself", BY_FIRST, 1, 0},
    {"procaddress-11.3-ptsz", BY_FIRST, 0, 1},
    {"dlsym", BY_NAME, 0, 0},
    {"dlsym-ptsz", BY_NAME, 0, 1},
    {"dlvsym", BY_VERSION, 0, 0},
    {"RTLD_NEXT", BY_NEXT, 0, 0},
    {"RTLD_DEFAULT", BY_DEFAULT, 0, 0},
};

#define ROUTES (sizeof(routes) / sizeof(routes[0]))

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

/* The driver's names have no versions, so dlvsym does not know them; what programs get by it is
 * dlsym, past those who stand before it. */
static look_up *versioned_dlsym(void)
{
    void *function = dlvsym(RTLD_DEFAULT, "dlsym", DLSYM_VERSION);
    look_up *found;

    memcpy(&found, &function, sizeof(found));
    return found;
}

static int by_name(void *library, const struct route *route)
{
    look_up *look = route->way == BY_VERSION ? versioned_dlsym() : dlsym;
    void *handle = library;

    if (look == NULL) {
        fprintf(stderr, "take_loader: %s\n", dlerror());
        return 0;
    }
    if (route->way == BY_NEXT)
        handle = RTLD_NEXT;
    else if (route->way == BY_DEFAULT)
        handle = RTLD_DEFAULT;
    for (size_t i = 0; i < FUNCTIONS; i++) {
        void *function = NULL;
        char twin[64];

        snprintf(twin, sizeof(twin), "%s_ptsz", functions[i].exported);
        if (route->per_thread)
            function = look(handle, twin);
        if (function == NULL)
            function = look(handle, functions[i].exported);
        if (function == NULL) {
            fprintf(stderr, "take_loader: %s\n", dlerror());
            return 0;
        }
        store(i, function);
    }
    return 1;
}

/* cuGetProcAddress in either form, asked for one name. */
static CUresult ask(const struct route *route, void *form, const char *name, int version,
                    cuuint64_t flags, void **function)
{
    CUdriverProcAddressQueryResult status;

    if (route->way == BY_FIRST)
        return ((first_form *)form)(name, function, version, flags);
    return ((second_form *)form)(name, function, version, flags, &status);
}

static int by_proc_address(void *library, const struct route *route)
{
    const int first = route->way == BY_FIRST;
    cuuint64_t flags = CU_GET_PROC_ADDRESS_DEFAULT;
    void *form = dlsym(library, first ? "cuGetProcAddress" : "cuGetProcAddress_v2");
    void *function = NULL;
    CUresult result;

    if (form == NULL) {
        fprintf(stderr, "take_loader: %s\n", dlerror());
        return 0;
    }
    if (route->itself) {
        result = ask(route, form, "cuGetProcAddress", first ? 11030 : 12000, flags, &function);
        if (result != CUDA_SUCCESS || function == NULL) {
            fprintf(stderr, "take_loader: cuGetProcAddress does not know itself (error %d)\n",
                    (int)result);
            return 0;
        }
        form = function;
    }
    if (route->per_thread)
        flags = CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM;
    for (size_t i = 0; i < FUNCTIONS; i++) {
        result = ask(route, form, functions[i].name, functions[i].version, flags, &function);
        if (result != CUDA_SUCCESS || function == NULL) {
            fprintf(stderr, "take_loader: cuGetProcAddress does not know %s (error %d)\n",
                    functions[i].name, (int)result);
            return 0;
        }
        store(i, function);
    }
    return 1;
}

static const struct route *route_of(const char *where)
{
    for (size_t i = 0; i < ROUTES; i++)
        if (where == NULL || strcmp(where, routes[i].name) == 0)
            return &routes[i];
    fprintf(stderr, "take_loader: --via is none of these: %s;", where);
    for (size_t i = 0; i < ROUTES; i++)
        fprintf(stderr, " %s", routes[i].name);
    fputc('\n', stderr);
    return NULL;
}

const struct take_driver *take_find_driver(const char *where)
{
    const struct route *route = route_of(where);
    struct link_map *map;
    void *library;
    int global, found;

    if (route == NULL)
        return NULL;
    global = route->way == BY_NEXT || route->way == BY_DEFAULT;
    library = dlopen("libcuda.so.1", RTLD_NOW | (global ? RTLD_GLOBAL : RTLD_LOCAL));
    if (library == NULL) {
        fprintf(stderr, "take_loader: %s\n", dlerror());
        return NULL;
    }
    found = route->way == BY_FIRST || route->way == BY_SECOND ? by_proc_address(library, route)
                                                              : by_name(library, route);
    if (!found)
        return NULL;
    if (dlinfo(library, RTLD_DI_LINKMAP, &map) == 0)
        printf("library: %s\n", map->l_name);
    return &driver;
}
