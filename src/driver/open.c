/*
 * open.c: the driver for the core library.
 */
#include "driver/open.h"

#include <dlfcn.h>

static void *look_up(void *arg, const char *name)
{
    /* dlsym itself, not gb_symbol: under the preload this is what gives the hooks. */
    return dlsym(arg, name);
}

bool gb_driver_api_open(struct gb_driver_api *api)
{
    struct gb_driver_api found;
    void *handle = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL);

    if (handle == NULL)
        return false;
    if (!gb_driver_api_fill(&found, look_up, handle)) {
        dlclose(handle);
        return false;
    }
    *api = found;
    return true;
}
