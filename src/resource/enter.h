/*
 * enter.h: another context for a moment. Events, and default streams, are those of the current
 * context: in another one they would prove nothing.
 */
#ifndef GB_RESOURCE_ENTER_H
#define GB_RESOURCE_ENTER_H

#include <stdbool.h>

#include "driver/api.h"

/* Makes the context current, unless it is; gb_leave takes it back. False: it cannot be. */
static inline bool gb_enter(const struct gb_driver_api *api, CUcontext context, bool *pushed)
{
    CUcontext current = NULL;

    *pushed = false;
    if (api->cuCtxGetCurrent(&current) != CUDA_SUCCESS)
        return false;
    if (current == context)
        return true;
    *pushed = api->cuCtxPushCurrent_v2(context) == CUDA_SUCCESS;
    return *pushed;
}

static inline void gb_leave(const struct gb_driver_api *api, bool pushed)
{
    CUcontext popped;

    if (pushed)
        api->cuCtxPopCurrent_v2(&popped);
}

#endif
