/*
 * api.c: filling the table of driver functions that our own code calls.
 */
#include "driver/api.h"

#include <string.h>

/* A data pointer becomes a function pointer by copying its bytes, as dlsym needs it. */
static void set_pointer(void *member, void *address)
{
    memcpy(member, &address, sizeof(address));
}

bool gb_driver_api_fill(struct gb_driver_api *api, void *(*lookup)(void *arg, const char *name),
                        void *arg)
{
#define GB_DRIVER_LOOK_UP(name) set_pointer(&api->name, lookup(arg, #name));
    GB_DRIVER_CALLS(GB_DRIVER_LOOK_UP)
#undef GB_DRIVER_LOOK_UP

    return api->cuCtxGetCurrent != NULL && api->cuCtxGetDevice != NULL &&
           api->cuDeviceGetCount != NULL && api->cuDeviceTotalMem_v2 != NULL &&
           api->cuMemAlloc_v2 != NULL && api->cuMemFree_v2 != NULL &&
           api->cuEventCreate != NULL && api->cuEventRecord != NULL &&
           api->cuEventQuery != NULL && api->cuEventSynchronize != NULL &&
           api->cuEventDestroy_v2 != NULL && api->cuCtxPushCurrent_v2 != NULL &&
           api->cuCtxPopCurrent_v2 != NULL && api->cuMemGetInfo_v2 != NULL;
}
