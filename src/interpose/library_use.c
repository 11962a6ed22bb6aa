/*
 * library_use.c: the first use of a library in a context, with which its variables come there.
 *
 * What it brings cannot be undone but with the library. So it is brought by a call of ours
 * before the program's own, as a request whose size is known from the image: whole steps of the
 * driver, although it may find room in what was taken for another one.
 */
#include "interpose/library_use.h"

#include "interpose/call.h"
#include "interpose/functions_known.h"
#include "interpose/local_memory.h"
#include "interpose/managed_code.h"
#include "resource/capture.h"
#include "resource/nap.h"
#include "resource/resource.h"
#include "resource/enter.h"

/* Of threads that use a library first at the same time one brings it. So long the others wait
 * for that, at most; then each asks for itself. */
enum { WAITS = 20000, NAP_NS = 50000 };

struct bring {
    struct gb_call call;
    CUlibrary library;
};

static CUresult acquire(void *arg, CUdeviceptr *pointer, size_t *bytes)
{
    const struct bring *bring = arg;
    const struct gb_driver_api *api = &bring->call.drv->api;
    struct gb_capture_mode saved = gb_capture_relax(api);
    CUmodule module;
    CUresult code = api->cuLibraryGetModule(&module, bring->library);

    gb_capture_restore(api, &saved);
    if (code == CUDA_SUCCESS) {
        *pointer = (CUdeviceptr)(uintptr_t)bring->library;
        *bytes = 0;
    }
    return code;
}

/* It stays, and stays charged. */
static CUresult undo(void *arg, CUdeviceptr pointer)
{
    (void)arg;
    (void)pointer;
    return CUDA_ERROR_NOT_SUPPORTED;
}

/* In a context of a device with a budget that measures. */
static CUresult bring_to(struct gb_driver *drv, struct gb_device *device, CUcontext context,
                         CUlibrary library, const struct gb_image *image, const char *name)
{
    struct bring bring = {.call = {.drv = drv, .device = device, .name = name},
                          .library = library};
    gpubudget_request_t request = {.kind = GPUBUDGET_KIND_MEASURED,
                                   .tag = GB_MEASURED_LIBRARY,
                                   .context = context,
                                   .bytes = gb_round_up(image->variables, GB_DIRECT_STEP_BYTES),
                                   .acquire = acquire,
                                   .undo = undo,
                                   .arg = &bring};
    enum gb_code_arrival arrival;
    uint64_t serial;
    CUresult code;

    gb_backend_note_context(&device->backend, &drv->api, context, false);
    serial = gb_contexts_serial(&device->backend.contexts, context);
    if (serial == 0)
        return CUDA_SUCCESS;
    arrival = gb_code_arrival(library, serial);
    for (int i = 0; i < WAITS && arrival == GB_CODE_COMING; i++) {
        gb_nap(NAP_NS);
        arrival = gb_code_arrival(library, serial);
    }
    if (arrival == GB_CODE_HERE)
        return CUDA_SUCCESS;
    request.bytes += gb_local_frames(drv, device, context, image);
    request.most_bytes = request.bytes;
    code = gb_call_allocate(&bring.call, &request);
    gb_code_brought(library, serial, code == CUDA_SUCCESS);
    if (code == CUDA_SUCCESS)
        gb_contexts_set_frames(&device->backend.contexts, context, image->frames);
    /* What the driver itself refuses it refuses the program's own call, too. */
    return bring.call.answered ? CUDA_SUCCESS : code;
}

/* Of one that was loaded with no context current. */
static CUresult charge_managed(struct gb_driver *drv, CUlibrary library, uint64_t bytes,
                               const char *call)
{
    enum gb_code_arrival arrival = gb_code_managed_arrival(library);
    uint64_t managed;
    CUresult code;

    for (int i = 0; i < WAITS && arrival == GB_CODE_COMING; i++) {
        gb_nap(NAP_NS);
        arrival = gb_code_managed_arrival(library);
    }
    if (arrival == GB_CODE_HERE)
        return CUDA_SUCCESS;
    code = gb_managed_charge(drv, bytes, true, call, &managed);
    gb_code_managed_brought(library, managed);
    return code;
}

CUresult gb_library_bring(struct gb_driver *drv, CUlibrary library, const char *call)
{
    struct gb_device *device;
    struct gb_image image;
    CUcontext context;
    CUresult code;

    if (atomic_load_explicit(&gb_code_libraries, memory_order_relaxed) == 0 || !library ||
        !drv->api.cuLibraryGetModule)
        return CUDA_SUCCESS;
    if (!gb_code_brings(library, &image))
        return CUDA_SUCCESS;
    switch (gb_process_current(drv, &device, &context, &code)) {
    case GB_RULING_BUDGET:
        break;
    case GB_RULING_FAILED:
        return code;
    default:
        return CUDA_SUCCESS;
    }
    code = charge_managed(drv, library, image.managed, call);
    if (code != CUDA_SUCCESS || !device->backend.contexts.measure)
        return code;
    return bring_to(drv, device, context, library, &image, call);
}

CUresult gb_library_bring_kernel(struct gb_driver *drv, const void *kernel, const char *call)
{
    if (atomic_load_explicit(&gb_code_libraries, memory_order_relaxed) == 0 || !kernel)
        return CUDA_SUCCESS;
    return gb_library_bring(drv, gb_known_library(kernel), call);
}

CUresult gb_library_bring_kernel_in(struct gb_driver *drv, const void *kernel,
                                    CUcontext context, const char *call)
{
    bool pushed;
    CUresult code;

    if (!kernel || !context || !gb_enter(&drv->api, context, &pushed))
        return gb_library_bring_kernel(drv, kernel, call);
    code = gb_library_bring_kernel(drv, kernel, call);
    gb_leave(&drv->api, pushed);
    return code;
}

void gb_library_loaded(struct gb_driver *drv, CUlibrary library)
{
    struct gb_device *device;
    CUmoduleLoadingMode mode;
    struct gb_image image;
    CUcontext context;
    uint64_t serial;
    CUresult code;

    if (!gb_code_brings(library, &image) ||
        (drv->api.cuModuleGetLoadingMode &&
         (drv->api.cuModuleGetLoadingMode(&mode) != CUDA_SUCCESS ||
          mode != CU_MODULE_EAGER_LOADING)) ||
        gb_process_current(drv, &device, &context, &code) != GB_RULING_BUDGET)
        return;
    serial = gb_contexts_serial(&device->backend.contexts, context);
    if (serial != 0)
        gb_code_brought(library, serial, true);
    gb_contexts_set_frames(&device->backend.contexts, context, image.frames);
}

int gb_library_contexts(void)
{
    const int devices = gb_process_device_count();
    int count = 0;

    for (int i = 0; i < devices; i++) {
        struct gb_device *device = gb_process_device_at(i);

        if (device)
            count += atomic_load(&device->backend.contexts.count);
    }
    return count;
}
