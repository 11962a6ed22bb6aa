/*
 * entry_green.c: green contexts end.
 *
 * One is a part of its device's primary context and holds a reference to it, so that its end
 * may be that context's. It begins as any measured call does (entry_measured.c).
 */
#include "interpose/estimated.h"
#include "interpose/handlers.h"
#include "interpose/imports.h"
#include "interpose/process.h"

#include <stddef.h>

#include "resource/capture.h"

struct ending {
    struct gb_device *device; /* NULL: not of a device with a budget, or not to be learned */
    CUcontext own, primary;   /* NULL: not known */
    uint64_t own_serial, primary_serial;
};

/* The primary context of a device on which something holds one. */
static CUcontext primary_of(struct gb_driver *drv, CUdevice dev)
{
    CUcontext primary = NULL;

    if (!drv->api.cuDevicePrimaryCtxRelease_v2 ||
        GB_REAL(drv, cuDevicePrimaryCtxRetain)(&primary, dev) != CUDA_SUCCESS)
        return NULL;
    drv->api.cuDevicePrimaryCtxRelease_v2(dev);
    return primary;
}

static void learn(struct ending *ending, struct gb_driver *drv, CUgreenCtx green)
{
    const struct gb_driver_api *api = &drv->api;
    struct gb_capture_mode saved;
    struct gb_contexts *contexts;
    CUcontext popped;
    CUdevice dev = -1;

    if (gb_process_device_count() == 0 || !green || !api->cuCtxFromGreenCtx)
        return;
    saved = gb_capture_relax(api);
    if (api->cuCtxFromGreenCtx(&ending->own, green) == CUDA_SUCCESS &&
        api->cuCtxPushCurrent_v2(ending->own) == CUDA_SUCCESS) {
        if (api->cuCtxGetDevice(&dev) == CUDA_SUCCESS)
            ending->device = gb_process_device_at(dev);
        api->cuCtxPopCurrent_v2(&popped);
    }
    if (ending->device)
        ending->primary = primary_of(drv, dev);
    gb_capture_restore(api, &saved);
    if (!ending->device)
        return;
    contexts = &ending->device->backend.contexts;
    ending->own_serial = gb_contexts_serial(contexts, ending->own);
    ending->primary_serial = gb_contexts_serial(contexts, ending->primary);
}

static bool has_ended(const struct gb_driver_api *api, CUdevice dev)
{
    unsigned int flags;
    int active = 1;

    return api->cuDevicePrimaryCtxGetState &&
           api->cuDevicePrimaryCtxGetState(dev, &flags, &active) == CUDA_SUCCESS && !active;
}

/* Its streams, and the primary context's, may stand with any device whose memory was freed
 * there. */
static void close_on(struct gb_device *device, const struct gb_driver_api *api,
                     const struct ending *ending)
{
    if (!device)
        return;
    gb_backend_context_closes(&device->backend, api, ending->own);
    gb_backend_context_closes(&device->backend, api, ending->primary);
}

static void closed_on(struct gb_device *device, const struct gb_driver_api *api,
                      const struct ending *ending, bool ended)
{
    const bool own = device == ending->device;

    if (!device)
        return;
    if (!ended) {
        gb_backend_context_stays(&device->backend, api, ending->own);
        gb_backend_context_stays(&device->backend, api, ending->primary);
        return;
    }
    gb_backend_context_ended(&device->backend, api, ending->own, own ? ending->own_serial : 0,
                             UINT64_MAX);
    gb_backend_context_ended(&device->backend, api, ending->primary,
                             own ? ending->primary_serial : 0, UINT64_MAX);
}

CUresult gb_enter_cuGreenCtxDestroy(struct gb_driver *drv, CUgreenCtx hCtx)
{
    const struct gb_driver_api *api = &drv->api;
    struct ending ending = {.device = NULL};
    struct gb_ending taken;
    CUresult code;
    bool ended;

    learn(&ending, drv, hCtx);
    taken = gb_ending_begins(GB_MEASURED_GREEN, hCtx);
    if (!ending.device) {
        code = GB_REAL(drv, cuGreenCtxDestroy)(hCtx);
        gb_ending_done(&taken, code == CUDA_SUCCESS);
        return code;
    }
    /* As before the end of any context: nobody may be left asking about its streams. */
    for (int i = 0; i < gb_process_device_count(); i++)
        close_on(gb_process_device_at(i), api, &ending);
    code = GB_REAL(drv, cuGreenCtxDestroy)(hCtx);
    ended = code == CUDA_SUCCESS && has_ended(api, ending.device->ordinal);
    if (ended) {
        gb_imports_context_ended(ending.own, UINT64_MAX);
        gb_imports_context_ended(ending.primary, UINT64_MAX);
    }
    /* What was taken in it is else the primary context's, which is still there. */
    for (int i = 0; i < gb_process_device_count(); i++)
        closed_on(gb_process_device_at(i), api, &ending, ended);
    gb_ending_done(&taken, code == CUDA_SUCCESS);
    return code;
}
