/*
 * entry_memory.c: direct memory: plain, pitched, managed.
 *
 * Arguments that the driver refuses whatever the budget (no place for the pointer, no bytes)
 * are forwarded, so that a full budget does not change the answer.
 */
#include "interpose/call.h"
#include "interpose/handlers.h"
#include "interpose/imports.h"
#include "interpose/orphans.h"
#include "interpose/own_imports.h"
#include "interpose/stream_order.h"
#include "resource/resource.h"

/* Pitches are multiples of this on every device seen (1,000 -> 1,024). */
#define PITCH_STEP UINT64_C(512)

struct outputs {
    CUdeviceptr pointer;
    size_t pitch; /* pitched only */
    /* the 32-bit forms of CUDA 2.0 */
    CUdeviceptr_v1 pointer_v1;
    unsigned int pitch_v1;
};

struct direct {
    struct gb_call call;
    size_t bytes;
    size_t width, height; /* pitched only */
    unsigned int element;
    unsigned int flags; /* managed only */
    struct outputs out;
    struct outputs before; /* as they are in the program's variables */
};

/* The grant never was: what the driver leaves in the outputs at the next try is the program's.
 */
static CUresult undo(void *arg, CUdeviceptr pointer)
{
    struct direct *direct = arg;
    CUresult code = direct->call.drv->api.cuMemFree_v2(pointer);

    if (code == CUDA_SUCCESS)
        direct->out = direct->before;
    return code;
}

static CUresult allocate(struct direct *direct, struct gb_device *device, CUcontext context,
                         gpubudget_kind_t kind, uint64_t most, gpubudget_acquire_fn acquire)
{
    gpubudget_request_t request = {.bytes = direct->bytes,
                                   .most_bytes = most,
                                   .kind = kind,
                                   .context = context,
                                   .acquire = acquire,
                                   .undo = undo,
                                   .arg = direct};

    direct->call.device = device;
    direct->before = direct->out;
    /* A context that began where we could not see it is measured at its first charged call. */
    gb_backend_note_context(&device->backend, &direct->call.drv->api, context, false);
    return gb_call_allocate(&direct->call, &request);
}

static CUresult acquire_plain(void *arg, CUdeviceptr *pointer, size_t *bytes)
{
    struct direct *direct = arg;
    CUresult code =
        GB_REAL(direct->call.drv, cuMemAlloc_v2)(&direct->out.pointer, direct->bytes);

    if (code == CUDA_SUCCESS) {
        *pointer = direct->out.pointer;
        *bytes = direct->bytes;
    }
    return code;
}

CUresult gb_enter_cuMemAlloc_v2(struct gb_driver *drv, CUdeviceptr *dptr, size_t bytesize)
{
    struct direct direct = {.call = {.drv = drv, .name = "cuMemAlloc"}, .bytes = bytesize};
    struct gb_device *device;
    CUcontext context;
    CUresult code;

    switch (gb_process_current(drv, &device, &context, &code)) {
    case GB_RULING_DENY:
        return CUDA_ERROR_NOT_PERMITTED;
    case GB_RULING_FAILED:
        return code;
    case GB_RULING_BUDGET:
        if (dptr && bytesize > 0)
            break;
        /* fall through */
    case GB_RULING_FORWARD:
        return GB_REAL(drv, cuMemAlloc_v2)(dptr, bytesize);
    }
    direct.out.pointer = *dptr;
    code = allocate(&direct, device, context, GPUBUDGET_KIND_DIRECT, 0, acquire_plain);
    if (direct.call.answered)
        *dptr = direct.out.pointer;
    return code;
}

static CUresult acquire_plain_v1(void *arg, CUdeviceptr *pointer, size_t *bytes)
{
    struct direct *direct = arg;
    CUresult code = GB_REAL(direct->call.drv, cuMemAlloc)(&direct->out.pointer_v1,
                                                          (unsigned int)direct->bytes);

    if (code == CUDA_SUCCESS) {
        *pointer = direct->out.pointer_v1;
        *bytes = direct->bytes;
    }
    return code;
}

CUresult gb_enter_cuMemAlloc(struct gb_driver *drv, CUdeviceptr_v1 *dptr, unsigned int bytesize)
{
    struct direct direct = {.call = {.drv = drv, .name = "cuMemAlloc"}, .bytes = bytesize};
    struct gb_device *device;
    CUcontext context;
    CUresult code;

    switch (gb_process_current(drv, &device, &context, &code)) {
    case GB_RULING_DENY:
        return CUDA_ERROR_NOT_PERMITTED;
    case GB_RULING_FAILED:
        return code;
    case GB_RULING_BUDGET:
        if (dptr && bytesize > 0)
            break;
        /* fall through */
    case GB_RULING_FORWARD:
        return GB_REAL(drv, cuMemAlloc)(dptr, bytesize);
    }
    direct.out.pointer_v1 = *dptr;
    code = allocate(&direct, device, context, GPUBUDGET_KIND_DIRECT, 0, acquire_plain_v1);
    if (direct.call.answered)
        *dptr = direct.out.pointer_v1;
    return code;
}

/* Rows as the driver may pad them; saturated. */
static uint64_t padded(uint64_t width, uint64_t height)
{
    uint64_t pitch = gb_round_up(width, PITCH_STEP);

    return height > 0 && pitch > UINT64_MAX / height ? UINT64_MAX : pitch * height;
}

static CUresult acquire_pitch(void *arg, CUdeviceptr *pointer, size_t *bytes)
{
    struct direct *direct = arg;
    CUresult code = GB_REAL(direct->call.drv,
                            cuMemAllocPitch_v2)(&direct->out.pointer, &direct->out.pitch,
                                                direct->width, direct->height, direct->element);

    if (code == CUDA_SUCCESS) {
        *pointer = direct->out.pointer;
        *bytes = direct->out.pitch * direct->height;
    }
    return code;
}

CUresult gb_enter_cuMemAllocPitch_v2(struct gb_driver *drv, CUdeviceptr *dptr, size_t *pPitch,
                                     size_t WidthInBytes, size_t Height,
                                     unsigned int ElementSizeBytes)
{
    struct direct direct = {.call = {.drv = drv, .name = "cuMemAllocPitch"},
                            .width = WidthInBytes,
                            .height = Height,
                            .element = ElementSizeBytes};
    struct gb_device *device;
    CUcontext context;
    CUresult code;

    switch (gb_process_current(drv, &device, &context, &code)) {
    case GB_RULING_DENY:
        return CUDA_ERROR_NOT_PERMITTED;
    case GB_RULING_FAILED:
        return code;
    case GB_RULING_BUDGET:
        if (dptr && pPitch && WidthInBytes > 0 && Height > 0 &&
            padded(WidthInBytes, Height) != UINT64_MAX)
            break;
        /* fall through */
    case GB_RULING_FORWARD:
        return GB_REAL(drv, cuMemAllocPitch_v2)(dptr, pPitch, WidthInBytes, Height,
                                                ElementSizeBytes);
    }
    direct.bytes = WidthInBytes * Height;
    direct.out.pointer = *dptr;
    direct.out.pitch = *pPitch;
    code = allocate(&direct, device, context, GPUBUDGET_KIND_PITCH,
                    padded(WidthInBytes, Height), acquire_pitch);
    if (direct.call.answered) {
        *dptr = direct.out.pointer;
        *pPitch = direct.out.pitch;
    }
    return code;
}

static CUresult acquire_pitch_v1(void *arg, CUdeviceptr *pointer, size_t *bytes)
{
    struct direct *direct = arg;
    CUresult code = GB_REAL(direct->call.drv, cuMemAllocPitch)(
        &direct->out.pointer_v1, &direct->out.pitch_v1, (unsigned int)direct->width,
        (unsigned int)direct->height, direct->element);

    if (code == CUDA_SUCCESS) {
        *pointer = direct->out.pointer_v1;
        *bytes = (size_t)direct->out.pitch_v1 * direct->height;
    }
    return code;
}

CUresult gb_enter_cuMemAllocPitch(struct gb_driver *drv, CUdeviceptr_v1 *dptr,
                                  unsigned int *pPitch, unsigned int WidthInBytes,
                                  unsigned int Height, unsigned int ElementSizeBytes)
{
    struct direct direct = {.call = {.drv = drv, .name = "cuMemAllocPitch"},
                            .bytes = (size_t)WidthInBytes * Height,
                            .width = WidthInBytes,
                            .height = Height,
                            .element = ElementSizeBytes};
    struct gb_device *device;
    CUcontext context;
    CUresult code;

    switch (gb_process_current(drv, &device, &context, &code)) {
    case GB_RULING_DENY:
        return CUDA_ERROR_NOT_PERMITTED;
    case GB_RULING_FAILED:
        return code;
    case GB_RULING_BUDGET:
        if (dptr && pPitch && WidthInBytes > 0 && Height > 0)
            break;
        /* fall through */
    case GB_RULING_FORWARD:
        return GB_REAL(drv, cuMemAllocPitch)(dptr, pPitch, WidthInBytes, Height,
                                             ElementSizeBytes);
    }
    direct.out.pointer_v1 = *dptr;
    direct.out.pitch_v1 = *pPitch;
    code = allocate(&direct, device, context, GPUBUDGET_KIND_PITCH,
                    padded(WidthInBytes, Height), acquire_pitch_v1);
    if (direct.call.answered) {
        *dptr = direct.out.pointer_v1;
        *pPitch = direct.out.pitch_v1;
    }
    return code;
}

static CUresult acquire_managed(void *arg, CUdeviceptr *pointer, size_t *bytes)
{
    struct direct *direct = arg;
    CUresult code = GB_REAL(direct->call.drv, cuMemAllocManaged)(&direct->out.pointer,
                                                                 direct->bytes, direct->flags);

    if (code == CUDA_SUCCESS) {
        *pointer = direct->out.pointer;
        *bytes = direct->bytes;
    }
    return code;
}

CUresult gb_enter_cuMemAllocManaged(struct gb_driver *drv, CUdeviceptr *dptr, size_t bytesize,
                                    unsigned int flags)
{
    struct direct direct = {
        .call = {.drv = drv, .name = "cuMemAllocManaged"}, .bytes = bytesize, .flags = flags};
    struct gb_device *device;
    CUcontext context;
    CUresult code;

    switch (gb_process_current(drv, &device, &context, &code)) {
    case GB_RULING_DENY:
        return CUDA_ERROR_NOT_PERMITTED;
    case GB_RULING_FAILED:
        return code;
    case GB_RULING_BUDGET:
        if (dptr && bytesize > 0 && gb_settings()->managed == GB_MANAGED_CHARGE)
            break;
        /* fall through */
    case GB_RULING_FORWARD:
        return GB_REAL(drv, cuMemAllocManaged)(dptr, bytesize, flags);
    }
    direct.out.pointer = *dptr;
    code = allocate(&direct, device, context, GPUBUDGET_KIND_MANAGED, 0, acquire_managed);
    if (direct.call.answered)
        *dptr = direct.out.pointer;
    return code;
}

static CUresult release(void *arg, CUdeviceptr pointer)
{
    return GB_REAL((struct gb_driver *)arg, cuMemFree_v2)(pointer);
}

CUresult gb_enter_cuMemFree_v2(struct gb_driver *drv, CUdeviceptr dptr)
{
    gpubudget_release_t how = {.release = release, .arg = drv};
    struct gb_own_import *own = NULL;
    struct gb_import_entry *import;
    struct gb_block *shadow = gb_order_take_shadow(dptr);
    struct gb_uses *uses;
    struct gb_orphan orphan;
    CUresult code;

    if (!shadow && gb_call_free(dptr, &how, &code))
        return code;
    uses = shadow ? gb_order_wait(shadow, &how) : NULL;
    gb_orphan_look_at_once(drv, dptr, &orphan);
    import = gb_import_take(GB_IMPORT_POOL, dptr);
    if (gb_own_imports_any())
        own = gb_own_free_begins(dptr);
    code = GB_REAL(drv, cuMemFree_v2)(dptr);
    gb_own_free_ends(own, code == CUDA_SUCCESS);
    gb_import_taken(import, code == CUDA_SUCCESS);
    gb_order_shadow_freed(shadow, uses, code == CUDA_SUCCESS);
    if (code == CUDA_SUCCESS)
        gb_orphan_freed(&orphan);
    return code;
}

static CUresult release_v1(void *arg, CUdeviceptr pointer)
{
    return GB_REAL((struct gb_driver *)arg, cuMemFree)((CUdeviceptr_v1)pointer);
}

CUresult gb_enter_cuMemFree(struct gb_driver *drv, CUdeviceptr_v1 dptr)
{
    gpubudget_release_t how = {.release = release_v1, .arg = drv};
    struct gb_own_import *own = NULL;
    struct gb_import_entry *import;
    struct gb_block *shadow = gb_order_take_shadow(dptr);
    struct gb_uses *uses;
    struct gb_orphan orphan;
    CUresult code;

    if (!shadow && gb_call_free(dptr, &how, &code))
        return code;
    uses = shadow ? gb_order_wait(shadow, &how) : NULL;
    gb_orphan_look(drv, dptr, &orphan);
    import = gb_import_take(GB_IMPORT_POOL, dptr);
    if (gb_own_imports_any())
        own = gb_own_free_begins(dptr);
    code = GB_REAL(drv, cuMemFree)(dptr);
    gb_own_free_ends(own, code == CUDA_SUCCESS);
    gb_import_taken(import, code == CUDA_SUCCESS);
    gb_order_shadow_freed(shadow, uses, code == CUDA_SUCCESS);
    if (code == CUDA_SUCCESS)
        gb_orphan_freed(&orphan);
    return code;
}
