/*
 * route_driver.c: a driver that looks itself up while it is being loaded and started.
 *
 * Drivers do: from their constructor and from cuInit they open libraries and look names up, so
 * our look-ups run inside the loader and inside a call of our own. This one must come up with
 * the same answers, in the same time, as without us. (soname libcuda.so.1)
 */
#define _GNU_SOURCE
#include "driver/cuda_api.h"

#include <dlfcn.h>
#include <stdio.h>

#define EXPORT __attribute__((visibility("default")))

static int found_at_load, found_at_start;

static int look_around(void)
{
    void *self = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
    int found = 0;

    found += dlsym(RTLD_DEFAULT, "cuInit") != NULL;
    found += dlsym(RTLD_NEXT, "cuInit") != NULL;
    found += self != NULL && dlsym(self, "cuInit") != NULL;
    found += self != NULL && dlsym(self, "cuMemAlloc_v2") != NULL;
    found += dlsym(RTLD_DEFAULT, "open") != NULL;
    if (self != NULL)
        dlclose(self);
    return found;
}

__attribute__((constructor)) static void load(void)
{
    found_at_load = look_around();
}

EXPORT CUresult cuInit(unsigned int flags)
{
    (void)flags;
    found_at_start = look_around();
    return CUDA_SUCCESS;
}

/* Called by the test program after cuInit. */
EXPORT void route_driver_report(void)
{
    printf("found at load %d, at start %d\n", found_at_load, found_at_start);
}
