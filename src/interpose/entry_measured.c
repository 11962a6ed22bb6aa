/*
 * entry_measured.c: streams, modules, libraries, limits and green contexts: calls that take
 * memory of a size that only the card's own tools can tell, after the fact. What does not fit
 * is undone and refused as out of memory. Of code, its image tells what comes later
 * (library_use.c, local_memory.c).
 */
#include "interpose/call.h"
#include "interpose/estimated.h"
#include "interpose/handlers.h"
#include "interpose/library_use.h"
#include "interpose/local_memory.h"

#include <stddef.h>

#include "resource/capture.h"
#include "resource/limits.h"
#include "resource/resource.h"

struct measured {
    struct gb_call call;
    enum gb_measured which;
    CUresult (*take)(struct measured *measured);
    CUresult (*undo)(struct measured *measured);
    void *handle; /* the program's output: a stream, module, library or green context */
    void *before; /* as it is in the program's variable */
    /* arguments */
    const void *image;
    const char *name;
    unsigned int flags, count, library_count;
    int priority;
    void *options, *values, *library_options, *library_values;
    CUgreenCtx green;
    CUdevResourceDesc resources;
    CUdevice dev;
    CUlimit limit;
    size_t value;
    struct gb_limit_change change;
    const struct gb_image *code; /* of a module */
};

static CUresult acquire(void *arg, CUdeviceptr *pointer, size_t *bytes)
{
    struct measured *measured = arg;
    CUresult code = measured->take(measured);

    if (code == CUDA_SUCCESS) {
        *pointer = (CUdeviceptr)(uintptr_t)measured->handle;
        *bytes = 0;
    }
    return code;
}

static CUresult undo(void *arg, CUdeviceptr pointer)
{
    struct measured *measured = arg;
    const struct gb_driver_api *api = &measured->call.drv->api;
    struct gb_capture_mode saved = gb_capture_relax(api);
    CUresult code = measured->undo(measured);

    (void)pointer;
    gb_capture_restore(api, &saved);
    if (code == CUDA_SUCCESS)
        measured->handle = measured->before;
    return code;
}

/* On the device; what nothing measures there is the driver's own business. */
static CUresult take_on(struct measured *measured, struct gb_device *device, CUcontext context)
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

/* In the current context, or as the driver answers where there is none. */
static CUresult take(struct measured *measured)
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
        return take_on(measured, device, context);
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

static CUresult take_into(struct measured *measured, void **output)
{
    CUresult code;

    measured->handle = *output;
    code = take(measured);
    if (measured->call.answered)
        *output = measured->handle;
    return code;
}

/*
 * Of a module the image tells what its load brings, of both what comes later. It is read before
 * the driver has judged it, and so with care.
 */
static CUresult take_code(struct measured *measured, void **output, bool is_library)
{
    const struct gb_image image =
        measured->name ? gb_image_read_file(measured->name) : gb_image_read(measured->image);
    CUresult code;

    if (!is_library)
        measured->code = &image;
    code = take_into(measured, output);
    if (code != CUDA_SUCCESS)
        return code;
    gb_code_loaded(*output, is_library, image);
    if (is_library)
        gb_library_loaded(measured->call.drv, *output);
    return code;
}

/* Something that may have held memory is gone, if the driver did it. */
static CUresult ended(CUresult code, const struct gb_ending *ending)
{
    if (code == CUDA_SUCCESS)
        gb_local_forget();
    gb_ending_done(ending, code == CUDA_SUCCESS);
    return code;
}

static CUresult destroy_stream(struct measured *measured)
{
    return GB_REAL(measured->call.drv, cuStreamDestroy_v2)(measured->handle);
}

static CUresult create_stream(struct measured *measured)
{
    return GB_REAL(measured->call.drv, cuStreamCreate)((CUstream *)&measured->handle,
                                                       measured->flags);
}

CUresult gb_enter_cuStreamCreate(struct gb_driver *drv, CUstream *phStream, unsigned int Flags)
{
    struct measured measured = {.call = {.drv = drv, .name = "cuStreamCreate"},
                                .which = GB_MEASURED_STREAM,
                                .take = create_stream,
                                .undo = destroy_stream,
                                .flags = Flags};

    if (!phStream)
        return GB_REAL(drv, cuStreamCreate)(phStream, Flags);
    return take_into(&measured, (void **)phStream);
}

static CUresult create_stream_with_priority(struct measured *measured)
{
    return GB_REAL(measured->call.drv, cuStreamCreateWithPriority)(
        (CUstream *)&measured->handle, measured->flags, measured->priority);
}

CUresult gb_enter_cuStreamCreateWithPriority(struct gb_driver *drv, CUstream *phStream,
                                             unsigned int flags, int priority)
{
    struct measured measured = {.call = {.drv = drv, .name = "cuStreamCreate"},
                                .which = GB_MEASURED_STREAM,
                                .take = create_stream_with_priority,
                                .undo = destroy_stream,
                                .flags = flags,
                                .priority = priority};

    if (!phStream)
        return GB_REAL(drv, cuStreamCreateWithPriority)(phStream, flags, priority);
    return take_into(&measured, (void **)phStream);
}

static CUresult unload_module(struct measured *measured)
{
    return GB_REAL(measured->call.drv, cuModuleUnload)(measured->handle);
}

static CUresult load_module(struct measured *measured)
{
    return GB_REAL(measured->call.drv, cuModuleLoad)((CUmodule *)&measured->handle,
                                                     measured->name);
}

CUresult gb_enter_cuModuleLoad(struct gb_driver *drv, CUmodule *module, const char *fname)
{
    struct measured measured = {.call = {.drv = drv, .name = "cuModuleLoad"},
                                .which = GB_MEASURED_MODULE,
                                .take = load_module,
                                .undo = unload_module,
                                .name = fname};

    if (!module)
        return GB_REAL(drv, cuModuleLoad)(module, fname);
    return take_code(&measured, (void **)module, false);
}

static CUresult load_module_data(struct measured *measured)
{
    return GB_REAL(measured->call.drv, cuModuleLoadData)((CUmodule *)&measured->handle,
                                                         measured->image);
}

CUresult gb_enter_cuModuleLoadData(struct gb_driver *drv, CUmodule *module, const void *image)
{
    struct measured measured = {.call = {.drv = drv, .name = "cuModuleLoadData"},
                                .which = GB_MEASURED_MODULE,
                                .take = load_module_data,
                                .undo = unload_module,
                                .image = image};

    if (!module)
        return GB_REAL(drv, cuModuleLoadData)(module, image);
    return take_code(&measured, (void **)module, false);
}

static CUresult load_module_data_ex(struct measured *measured)
{
    return GB_REAL(measured->call.drv, cuModuleLoadDataEx)((CUmodule *)&measured->handle,
                                                           measured->image, measured->count,
                                                           measured->options, measured->values);
}

CUresult gb_enter_cuModuleLoadDataEx(struct gb_driver *drv, CUmodule *module, const void *image,
                                     unsigned int numOptions, CUjit_option *options,
                                     void **optionValues)
{
    struct measured measured = {.call = {.drv = drv, .name = "cuModuleLoadDataEx"},
                                .which = GB_MEASURED_MODULE,
                                .take = load_module_data_ex,
                                .undo = unload_module,
                                .image = image,
                                .count = numOptions,
                                .options = options,
                                .values = optionValues};

    if (!module)
        return GB_REAL(drv, cuModuleLoadDataEx)(module, image, numOptions, options,
                                                optionValues);
    return take_code(&measured, (void **)module, false);
}

static CUresult load_fat_binary(struct measured *measured)
{
    return GB_REAL(measured->call.drv, cuModuleLoadFatBinary)((CUmodule *)&measured->handle,
                                                              measured->image);
}

CUresult gb_enter_cuModuleLoadFatBinary(struct gb_driver *drv, CUmodule *module,
                                        const void *fatCubin)
{
    struct measured measured = {.call = {.drv = drv, .name = "cuModuleLoadFatBinary"},
                                .which = GB_MEASURED_MODULE,
                                .take = load_fat_binary,
                                .undo = unload_module,
                                .image = fatCubin};

    if (!module)
        return GB_REAL(drv, cuModuleLoadFatBinary)(module, fatCubin);
    return take_code(&measured, (void **)module, false);
}

CUresult gb_enter_cuModuleUnload(struct gb_driver *drv, CUmodule hmod)
{
    struct gb_ending ending = gb_ending_begins(GB_MEASURED_MODULE, hmod);
    struct gb_code *known = gb_code_take(hmod);
    CUresult code = GB_REAL(drv, cuModuleUnload)(hmod);

    gb_code_unloaded(known, code != CUDA_SUCCESS);
    return ended(code, &ending);
}

static CUresult unload_library(struct measured *measured)
{
    return GB_REAL(measured->call.drv, cuLibraryUnload)(measured->handle);
}

static CUresult load_library_data(struct measured *measured)
{
    return GB_REAL(measured->call.drv, cuLibraryLoadData)(
        (CUlibrary *)&measured->handle, measured->image, measured->options, measured->values,
        measured->count, measured->library_options, measured->library_values,
        measured->library_count);
}

CUresult gb_enter_cuLibraryLoadData(struct gb_driver *drv, CUlibrary *library, const void *code,
                                    CUjit_option *jitOptions, void **jitOptionsValues,
                                    unsigned int numJitOptions, CUlibraryOption *libraryOptions,
                                    void **libraryOptionValues, unsigned int numLibraryOptions)
{
    struct measured measured = {.call = {.drv = drv, .name = "cuLibraryLoadData"},
                                .which = GB_MEASURED_MODULE,
                                .take = load_library_data,
                                .undo = unload_library,
                                .image = code,
                                .options = jitOptions,
                                .values = jitOptionsValues,
                                .count = numJitOptions,
                                .library_options = libraryOptions,
                                .library_values = libraryOptionValues,
                                .library_count = numLibraryOptions};

    if (!library)
        return GB_REAL(drv, cuLibraryLoadData)(library, code, jitOptions, jitOptionsValues,
                                               numJitOptions, libraryOptions,
                                               libraryOptionValues, numLibraryOptions);
    return take_code(&measured, (void **)library, true);
}

static CUresult load_library_file(struct measured *measured)
{
    return GB_REAL(measured->call.drv, cuLibraryLoadFromFile)(
        (CUlibrary *)&measured->handle, measured->name, measured->options, measured->values,
        measured->count, measured->library_options, measured->library_values,
        measured->library_count);
}

CUresult gb_enter_cuLibraryLoadFromFile(struct gb_driver *drv, CUlibrary *library,
                                        const char *fileName, CUjit_option *jitOptions,
                                        void **jitOptionsValues, unsigned int numJitOptions,
                                        CUlibraryOption *libraryOptions,
                                        void **libraryOptionValues,
                                        unsigned int numLibraryOptions)
{
    struct measured measured = {.call = {.drv = drv, .name = "cuLibraryLoadFromFile"},
                                .which = GB_MEASURED_MODULE,
                                .take = load_library_file,
                                .undo = unload_library,
                                .name = fileName,
                                .options = jitOptions,
                                .values = jitOptionsValues,
                                .count = numJitOptions,
                                .library_options = libraryOptions,
                                .library_values = libraryOptionValues,
                                .library_count = numLibraryOptions};

    if (!library)
        return GB_REAL(drv, cuLibraryLoadFromFile)(
            library, fileName, jitOptions, jitOptionsValues, numJitOptions, libraryOptions,
            libraryOptionValues, numLibraryOptions);
    return take_code(&measured, (void **)library, true);
}

CUresult gb_enter_cuLibraryUnload(struct gb_driver *drv, CUlibrary library)
{
    struct gb_ending ending = gb_ending_begins(GB_MEASURED_MODULE, library);
    struct gb_code *known = gb_code_take(library);
    CUresult code = GB_REAL(drv, cuLibraryUnload)(library);

    gb_code_unloaded(known, code != CUDA_SUCCESS);
    return ended(code, &ending);
}

static CUresult set_limit(struct measured *measured)
{
    return GB_REAL(measured->call.drv, cuCtxSetLimit)(measured->limit, measured->value);
}

static CUresult restore_limit(struct measured *measured)
{
    size_t old;

    /* What it was is not known where the driver did not say. */
    if (!gb_limit_change_old(&measured->change, &old))
        return CUDA_ERROR_NOT_SUPPORTED;
    return GB_REAL(measured->call.drv, cuCtxSetLimit)(measured->limit, old);
}

CUresult gb_enter_cuCtxSetLimit(struct gb_driver *drv, CUlimit limit, size_t value)
{
    struct measured measured = {.call = {.drv = drv, .name = "cuCtxSetLimit"},
                                .which = GB_MEASURED_LIMIT,
                                .take = set_limit,
                                .undo = restore_limit,
                                .limit = limit,
                                .value = value};
    CUcontext context = NULL;
    CUresult code;

    if (drv->api.cuCtxGetCurrent(&context) != CUDA_SUCCESS)
        context = NULL;
    gb_limit_change_begins(&measured.change, &drv->api, context, limit);
    code = take(&measured);
    gb_limit_change_ends(&measured.change, code == CUDA_SUCCESS, value);
    if (code == CUDA_SUCCESS && limit == CU_LIMIT_STACK_SIZE)
        gb_local_stack_set(drv, value);
    /* Functions that were known to bring nothing may bring a larger heap. */
    if (code == CUDA_SUCCESS && limit == CU_LIMIT_MALLOC_HEAP_SIZE)
        gb_local_forget();
    return code;
}

static CUresult create_green(struct measured *measured)
{
    return GB_REAL(measured->call.drv, cuGreenCtxCreate)(
        (CUgreenCtx *)&measured->handle, measured->resources, measured->dev, measured->flags);
}

static CUresult destroy_green(struct measured *measured)
{
    return GB_REAL(measured->call.drv, cuGreenCtxDestroy)(measured->handle);
}

CUresult gb_enter_cuGreenCtxCreate(struct gb_driver *drv, CUgreenCtx *phCtx,
                                   CUdevResourceDesc desc, CUdevice dev, unsigned int flags)
{
    struct measured measured = {.call = {.drv = drv, .name = "cuGreenCtxCreate"},
                                .which = GB_MEASURED_GREEN,
                                .take = create_green,
                                .undo = destroy_green,
                                .resources = desc,
                                .dev = dev,
                                .flags = flags};
    struct gb_device *device;
    CUresult code;

    if (!phCtx)
        return GB_REAL(drv, cuGreenCtxCreate)(phCtx, desc, dev, flags);
    measured.handle = measured.before = *phCtx;
    switch (gb_process_device(drv, dev, &device)) {
    case GB_RULING_DENY:
        return CUDA_ERROR_NOT_PERMITTED;
    case GB_RULING_BUDGET:
        code = take_on(&measured, device, NULL);
        break;
    default:
        measured.call.answered = true;
        code = create_green(&measured);
        break;
    }
    if (measured.call.answered)
        *phCtx = measured.handle;
    return code;
}

static CUresult create_green_stream(struct measured *measured)
{
    return GB_REAL(measured->call.drv, cuGreenCtxStreamCreate)(
        (CUstream *)&measured->handle, measured->green, measured->flags, measured->priority);
}

CUresult gb_enter_cuGreenCtxStreamCreate(struct gb_driver *drv, CUstream *phStream,
                                         CUgreenCtx greenCtx, unsigned int flags, int priority)
{
    struct measured measured = {.call = {.drv = drv, .name = "cuGreenCtxStreamCreate"},
                                .which = GB_MEASURED_STREAM,
                                .take = create_green_stream,
                                .undo = destroy_stream,
                                .green = greenCtx,
                                .flags = flags,
                                .priority = priority};

    if (!phStream)
        return GB_REAL(drv, cuGreenCtxStreamCreate)(phStream, greenCtx, flags, priority);
    return take_into(&measured, (void **)phStream);
}
