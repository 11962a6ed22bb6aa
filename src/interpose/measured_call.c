/*
 * measured_call.c: a call that takes memory of a size that only the card's own tools can tell.
 */
#include "interpose/measured_call.h"

#include "interpose/local_memory.h"

#include "resource/capture.h"
#include "resource/resource.h"

static CUresult acquire(void *arg, CUdeviceptr *pointer, size_t *bytes)
{
    struct gb_measured_call *measured = arg;
    CUresult code = measured->take(measured);

    if (code == CUDA_SUCCESS) {
        *pointer = (CUdeviceptr)(uintptr_t)measured->handle;
        *bytes = 0;
    }
    return code;
}

static CUresult undo(void *arg, CUdeviceptr pointer)
{
    struct gb_measured_call *measured = arg;
    const struct gb_driver_api *api = &measured->call.drv->api;
    struct gb_capture_mode saved = gb_capture_relax(api);
    CUresult code = measured->undo(measured);

    (void)pointer;
    gb_capture_restore(api, &saved);
    if (code == CUDA_SUCCESS)
        measured->handle = measured->before;
    return code;
}

CUresult gb_measured_take_on(struct gb_measured_call *measured, struct gb_device *device,
                             CUcontext context)
{
    struct gb_contexts *contexts = &device->backend.contexts;
    gpubudget_request_t request = {.kind = GPUBUDGET_KIND_MEASURED,
                                   .tag = measured->which,
                                   .acquire = acquire,
                                   .undo = undo,
                                   .arg = measured};
    CUresult code;

    if (!device->backend.contexts.measure) {
        measured->call.answered = true;
        return measured->take(measured);
    }
    measured->call.device = device;
    /* What stays when the module is unloaded again cannot be tried: it is asked for before,
     * with all else that is known. */
    if (measured->code)
        request.bytes = gb_local_frames(measured->call.drv, device, context, measured->code);
    if (request.bytes > 0) {
        request.bytes += gb_round_up(measured->code->variables, GB_DIRECT_STEP_BYTES);
        request.most_bytes = request.bytes;
    }
    code = gb_call_allocate(&measured->call, &request);
    if (measured->code && (code == CUDA_SUCCESS || request.charged > 0))
        gb_contexts_set_frames(contexts, context, measured->code->frames);
    return code;
}

CUresult gb_measured_take(struct gb_measured_call *measured)
{
    struct gb_device *device;
    CUcontext context;
    CUresult code;

    measured->before = measured->handle;
    switch (gb_process_current(measured->call.drv, &device, &context, &code)) {
    case GB_RULING_DENY:
        return CUDA_ERROR_NOT_PERMITTED;
    case GB_RULING_BUDGET:
        gb_backend_note_context(&device->backend, &measured->call.drv->api, context, false);
        return gb_measured_take_on(measured, device, context);
    case GB_RULING_FAILED:
        /* A stream takes little, which a later look finds; a module may take anything. */
        if (measured->which != GB_MEASURED_STREAM)
            return code;
        /* fallthrough */
    default:
        measured->call.answered = true;
        return measured->take(measured);
    }
}

CUresult gb_measured_take_into(struct gb_measured_call *measured, void **output)
{
    CUresult code;

    measured->handle = *output;
    code = gb_measured_take(measured);
    if (measured->call.answered)
        *output = measured->handle;
    return code;
}
