/*
 * entry_context.c: contexts begin and end.
 *
 * A context is charged as the card's own tools measure it at its creation; one that does not
 * fit is undone and refused as out of memory.
 */
#include "interpose/call.h"
#include "interpose/handlers.h"
#include "interpose/imports.h"
#include "interpose/functions_known.h"
#include "resource/handles.h"

#include <stdatomic.h>
#include <stddef.h>

enum { PRIMARY, GL = 101, GL_V2, VDPAU, VDPAU_V2 };

struct creation {
    struct gb_call call;
    CUcontext context;
    CUdevice dev;
    unsigned int flags;
    int version; /* of cuCtxCreate, or one of those below */
    cuuint32_t vdp_device;
    void *vdp_functions;
    CUexecAffinityParam *affinity;
    int affinity_count;
    CUctxCreateParams *params;
};

static CUresult create(void *arg, CUdeviceptr *pointer, size_t *bytes)
{
    struct creation *creation = arg;
    struct gb_driver *drv = creation->call.drv;
    CUcontext *context = &creation->context;
    CUresult code;

    switch (creation->version) {
    case PRIMARY:
        code = GB_REAL(drv, cuDevicePrimaryCtxRetain)(context, creation->dev);
        break;
    case 1:
        code = GB_REAL(drv, cuCtxCreate)(context, creation->flags, creation->dev);
        break;
    case 2:
        code = GB_REAL(drv, cuCtxCreate_v2)(context, creation->flags, creation->dev);
        break;
    case 3:
        code =
            GB_REAL(drv, cuCtxCreate_v3)(context, creation->affinity, creation->affinity_count,
                                         creation->flags, creation->dev);
        break;
    case GL:
        code = GB_REAL(drv, cuGLCtxCreate)(context, creation->flags, creation->dev);
        break;
    case GL_V2:
        code = GB_REAL(drv, cuGLCtxCreate_v2)(context, creation->flags, creation->dev);
        break;
    case VDPAU:
        code = GB_REAL(drv, cuVDPAUCtxCreate)(context, creation->flags, creation->dev,
                                              creation->vdp_device, creation->vdp_functions);
        break;
    case VDPAU_V2:
        code = GB_REAL(drv, cuVDPAUCtxCreate_v2)(context, creation->flags, creation->dev,
                                                 creation->vdp_device, creation->vdp_functions);
        break;
    default:
        code = GB_REAL(drv, cuCtxCreate_v4)(context, creation->params, creation->flags,
                                            creation->dev);
        break;
    }
    if (code == CUDA_SUCCESS) {
        *pointer = (CUdeviceptr)(uintptr_t)creation->context;
        *bytes = 0;
    }
    return code;
}

static CUresult undo(void *arg, CUdeviceptr pointer)
{
    struct creation *creation = arg;
    struct gb_driver *drv = creation->call.drv;

    if (creation->version != PRIMARY)
        return drv->api.cuCtxDestroy_v2((CUcontext)(uintptr_t)pointer);
    if (GB_REAL(drv, cuDevicePrimaryCtxRelease_v2))
        return GB_REAL(drv, cuDevicePrimaryCtxRelease_v2)(creation->dev);
    return GB_REAL(drv, cuDevicePrimaryCtxRelease)(creation->dev);
}

/* A context that may come into being, through the device's stack. */
static CUresult begin(struct creation *creation, CUcontext *pctx)
{
    gpubudget_request_t request = {.kind = GPUBUDGET_KIND_CONTEXT,
                                   .tag = creation->version == PRIMARY ? GB_CONTEXT_PRIMARY : 0,
                                   .acquire = create,
                                   .undo = undo,
                                   .arg = creation};
    CUdeviceptr handle;
    size_t bytes;
    CUresult code;

    creation->context = *pctx;
    switch (gb_process_device(creation->call.drv, creation->dev, &creation->call.device)) {
    case GB_RULING_DENY:
        return CUDA_ERROR_NOT_PERMITTED;
    case GB_RULING_BUDGET:
        code = gb_call_allocate(&creation->call, &request);
        if (creation->call.answered)
            *pctx = creation->context;
        /* What launches bring, they bring once to each context. */
        if (code == CUDA_SUCCESS)
            gb_known_forget();
        return code;
    default:
        break;
    }
    code = create(creation, &handle, &bytes);
    *pctx = creation->context;
    return code;
}

enum primary_state { PRIMARY_ENDED, PRIMARY_ACTIVE, PRIMARY_UNKNOWN };

static enum primary_state primary_state(struct gb_driver *drv, CUdevice dev)
{
    unsigned int flags;
    int active = 0;

    if (!drv->api.cuDevicePrimaryCtxGetState ||
        drv->api.cuDevicePrimaryCtxGetState(dev, &flags, &active) != CUDA_SUCCESS)
        return PRIMARY_UNKNOWN;
    return active ? PRIMARY_ACTIVE : PRIMARY_ENDED;
}

/* Whether the primary context really ended is asked, not counted: others may hold it. */
static void note_primary_end(struct gb_driver *drv, CUdevice dev)
{
    struct gb_device *device = gb_process_device_at(dev);
    CUcontext primary;

    if (!device)
        return;
    primary = gb_contexts_primary(&device->backend.contexts, &drv->api);
    if (primary && primary_state(drv, dev) == PRIMARY_ENDED) {
        gb_imports_context_ended(primary, UINT64_MAX);
        gb_backend_context_ended(&device->backend, &drv->api, primary,
                                 gb_contexts_serial(&device->backend.contexts, primary),
                                 UINT64_MAX);
    }
}

CUresult gb_enter_cuDevicePrimaryCtxRetain(struct gb_driver *drv, CUcontext *pctx, CUdevice dev)
{
    struct creation creation = {.call = {.drv = drv, .name = "cuDevicePrimaryCtxRetain"},
                                .dev = dev};
    struct gb_device *device;
    CUresult code;

    if (!pctx)
        return GB_REAL(drv, cuDevicePrimaryCtxRetain)(pctx, dev);
    if (primary_state(drv, dev) != PRIMARY_ACTIVE) {
        /* It may have ended without our learning of it; the new one has the same handle. */
        note_primary_end(drv, dev);
        return begin(&creation, pctx);
    }
    switch (gb_process_device(drv, dev, &device)) {
    case GB_RULING_DENY:
        return CUDA_ERROR_NOT_PERMITTED;
    case GB_RULING_BUDGET:
        /* One more reference. A context begun where we could not see it is measured now. */
        code = GB_REAL(drv, cuDevicePrimaryCtxRetain)(pctx, dev);
        if (code == CUDA_SUCCESS)
            gb_backend_note_context(&device->backend, &drv->api, *pctx, true);
        return code;
    default:
        break;
    }
    return GB_REAL(drv, cuDevicePrimaryCtxRetain)(pctx, dev);
}

CUresult gb_enter_cuCtxCreate(struct gb_driver *drv, CUcontext *pctx, unsigned int flags,
                              CUdevice dev)
{
    struct creation creation = {
        .call = {.drv = drv, .name = "cuCtxCreate"}, .dev = dev, .flags = flags, .version = 1};

    if (!pctx)
        return GB_REAL(drv, cuCtxCreate)(pctx, flags, dev);
    return begin(&creation, pctx);
}

CUresult gb_enter_cuCtxCreate_v2(struct gb_driver *drv, CUcontext *pctx, unsigned int flags,
                                 CUdevice dev)
{
    struct creation creation = {
        .call = {.drv = drv, .name = "cuCtxCreate"}, .dev = dev, .flags = flags, .version = 2};

    if (!pctx)
        return GB_REAL(drv, cuCtxCreate_v2)(pctx, flags, dev);
    return begin(&creation, pctx);
}

CUresult gb_enter_cuCtxCreate_v3(struct gb_driver *drv, CUcontext *pctx,
                                 CUexecAffinityParam *paramsArray, int numParams,
                                 unsigned int flags, CUdevice dev)
{
    struct creation creation = {.call = {.drv = drv, .name = "cuCtxCreate"},
                                .dev = dev,
                                .flags = flags,
                                .version = 3,
                                .affinity = paramsArray,
                                .affinity_count = numParams};

    if (!pctx)
        return GB_REAL(drv, cuCtxCreate_v3)(pctx, paramsArray, numParams, flags, dev);
    return begin(&creation, pctx);
}

CUresult gb_enter_cuCtxCreate_v4(struct gb_driver *drv, CUcontext *pctx,
                                 CUctxCreateParams *ctxCreateParams, unsigned int flags,
                                 CUdevice dev)
{
    struct creation creation = {.call = {.drv = drv, .name = "cuCtxCreate"},
                                .dev = dev,
                                .flags = flags,
                                .version = 4,
                                .params = ctxCreateParams};

    if (!pctx)
        return GB_REAL(drv, cuCtxCreate_v4)(pctx, ctxCreateParams, flags, dev);
    return begin(&creation, pctx);
}

static CUresult begin_gl(struct gb_driver *drv, CUcontext *pctx, unsigned int flags,
                         CUdevice dev, int version)
{
    struct creation creation = {.call = {.drv = drv, .name = "cuGLCtxCreate"},
                                .dev = dev,
                                .flags = flags,
                                .version = version};

    return begin(&creation, pctx);
}

CUresult gb_enter_cuGLCtxCreate(struct gb_driver *drv, CUcontext *pCtx, unsigned int Flags,
                                CUdevice device)
{
    return pCtx ? begin_gl(drv, pCtx, Flags, device, GL)
                : GB_REAL(drv, cuGLCtxCreate)(pCtx, Flags, device);
}

CUresult gb_enter_cuGLCtxCreate_v2(struct gb_driver *drv, CUcontext *pCtx, unsigned int Flags,
                                   CUdevice device)
{
    return pCtx ? begin_gl(drv, pCtx, Flags, device, GL_V2)
                : GB_REAL(drv, cuGLCtxCreate_v2)(pCtx, Flags, device);
}

static CUresult begin_vdpau(struct gb_driver *drv, CUcontext *pctx, unsigned int flags,
                            CUdevice dev, cuuint32_t vdp_device, void *functions, int version)
{
    struct creation creation = {.call = {.drv = drv, .name = "cuVDPAUCtxCreate"},
                                .dev = dev,
                                .flags = flags,
                                .version = version,
                                .vdp_device = vdp_device,
                                .vdp_functions = functions};

    return begin(&creation, pctx);
}

CUresult gb_enter_cuVDPAUCtxCreate(struct gb_driver *drv, CUcontext *pCtx, unsigned int flags,
                                   CUdevice device, cuuint32_t vdpDevice,
                                   void *vdpGetProcAddress)
{
    return pCtx ? begin_vdpau(drv, pCtx, flags, device, vdpDevice, vdpGetProcAddress, VDPAU)
                : GB_REAL(drv, cuVDPAUCtxCreate)(pCtx, flags, device, vdpDevice,
                                                 vdpGetProcAddress);
}

CUresult gb_enter_cuVDPAUCtxCreate_v2(struct gb_driver *drv, CUcontext *pCtx,
                                      unsigned int flags, CUdevice device, cuuint32_t vdpDevice,
                                      void *vdpGetProcAddress)
{
    return pCtx ? begin_vdpau(drv, pCtx, flags, device, vdpDevice, vdpGetProcAddress, VDPAU_V2)
                : GB_REAL(drv, cuVDPAUCtxCreate_v2)(pCtx, flags, device, vdpDevice,
                                                    vdpGetProcAddress);
}

/*
 * Around every driver call that may end a context. Before it, no other thread of ours may be
 * left asking about the context's streams, whose handles are about to die; the driver does not
 * survive that. A created context belongs to one device; the others know nothing of it. close
 * answers the serial under which it is noted.
 */
struct closed {
    uint64_t serial;     /* under which the context is noted; 0: it is not */
    uint64_t generation; /* of the latest block that can be one of its own */
    uint64_t imports;    /* the same of imports */
    uint64_t functions;  /* the same of functions */
    uint64_t arrays;     /* the same of arrays whose memory comes later */
};

static struct closed close_context(struct gb_driver *drv, CUcontext ctx)
{
    struct closed closed = {0, gb_block_table_mark(gb_process_blocks()), gb_imports_moment(),
                            gb_known_moment(), gb_handles_moment()};

    for (int i = 0; i < gb_process_device_count(); i++) {
        struct gb_device *device = gb_process_device_at(i);

        if (!device)
            continue;
        gb_backend_context_closes(&device->backend, &drv->api, ctx);
        if (closed.serial == 0)
            closed.serial = gb_contexts_serial(&device->backend.contexts, ctx);
    }
    return closed;
}

static void after_close(struct gb_driver *drv, CUcontext ctx, struct closed closed, bool ended)
{
    if (ended) {
        gb_known_forget();
        gb_known_context_gone(ctx, closed.functions);
        gb_arrays_context_ended(&drv->api, ctx, closed.arrays);
        gb_imports_context_ended(ctx, closed.imports);
    }
    for (int i = 0; i < gb_process_device_count(); i++) {
        struct gb_device *device = gb_process_device_at(i);

        if (device && ended)
            gb_backend_context_ended(&device->backend, &drv->api, ctx, closed.serial,
                                     closed.generation);
        else if (device)
            gb_backend_context_stays(&device->backend, &drv->api, ctx);
    }
}

typedef CUresult end_primary_fn(CUdevice dev);

static CUresult end_primary(struct gb_driver *drv, CUdevice dev, end_primary_fn *real)
{
    struct gb_device *device = gb_process_device_at(dev);
    CUcontext primary =
        device ? gb_contexts_primary(&device->backend.contexts, &drv->api) : NULL;
    struct closed closed;
    CUresult code;

    if (!primary)
        return real(dev);
    closed = close_context(drv, primary);
    code = real(dev);
    /* Asked, not counted: others may hold it. */
    after_close(drv, primary, closed,
                code == CUDA_SUCCESS && primary_state(drv, dev) == PRIMARY_ENDED);
    return code;
}

CUresult gb_enter_cuDevicePrimaryCtxRelease(struct gb_driver *drv, CUdevice dev)
{
    return end_primary(drv, dev, GB_REAL(drv, cuDevicePrimaryCtxRelease));
}

CUresult gb_enter_cuDevicePrimaryCtxRelease_v2(struct gb_driver *drv, CUdevice dev)
{
    return end_primary(drv, dev, GB_REAL(drv, cuDevicePrimaryCtxRelease_v2));
}

CUresult gb_enter_cuDevicePrimaryCtxReset(struct gb_driver *drv, CUdevice dev)
{
    return end_primary(drv, dev, GB_REAL(drv, cuDevicePrimaryCtxReset));
}

CUresult gb_enter_cuDevicePrimaryCtxReset_v2(struct gb_driver *drv, CUdevice dev)
{
    return end_primary(drv, dev, GB_REAL(drv, cuDevicePrimaryCtxReset_v2));
}

CUresult gb_enter_cuDevicePrimaryCtxSetFlags(struct gb_driver *drv, CUdevice dev,
                                             unsigned int flags)
{
    return GB_REAL(drv, cuDevicePrimaryCtxSetFlags)(dev, flags);
}

CUresult gb_enter_cuDevicePrimaryCtxSetFlags_v2(struct gb_driver *drv, CUdevice dev,
                                                unsigned int flags)
{
    return GB_REAL(drv, cuDevicePrimaryCtxSetFlags_v2)(dev, flags);
}

static CUresult destroy(struct gb_driver *drv, CUcontext ctx, gb_fn_cuCtxDestroy_v2 *real)
{
    struct closed closed = close_context(drv, ctx);
    CUresult code = real(ctx);

    after_close(drv, ctx, closed, code == CUDA_SUCCESS);
    return code;
}

CUresult gb_enter_cuCtxDestroy(struct gb_driver *drv, CUcontext ctx)
{
    return destroy(drv, ctx, GB_REAL(drv, cuCtxDestroy));
}

CUresult gb_enter_cuCtxDestroy_v2(struct gb_driver *drv, CUcontext ctx)
{
    return destroy(drv, ctx, GB_REAL(drv, cuCtxDestroy_v2));
}

CUresult gb_enter_cuCtxDetach(struct gb_driver *drv, CUcontext ctx)
{
    struct closed closed = close_context(drv, ctx);
    CUresult code = GB_REAL(drv, cuCtxDetach)(ctx);
    unsigned int version;

    /* One reference less; the context has ended when the driver no longer knows it. */
    after_close(drv, ctx, closed,
                code == CUDA_SUCCESS && drv->api.cuCtxGetApiVersion &&
                    drv->api.cuCtxGetApiVersion(ctx, &version) != CUDA_SUCCESS);
    return code;
}
