/*
 * entry_measured.c: streams, modules, libraries, limits and green contexts: calls that take
 * memory of a size that only the card's own tools can tell, after the fact. What does not fit
 * is undone and refused as out of memory. Of code, its image tells what comes later
 * (library_use.c, local_memory.c).
 */
#include "interpose/estimated.h"
#include "interpose/handlers.h"
#include "interpose/library_use.h"
#include "interpose/functions_known.h"
#include "interpose/local_memory.h"
#include "interpose/managed_code.h"
#include "interpose/measured_call.h"

#include <stddef.h>

#include "resource/limits.h"
#include "resource/resource.h"

/*
 * Of a module the image tells what its load brings, of both what comes later. It is read before
 * the driver has judged it, and so with care.
 */
static CUresult take_code(struct gb_measured_call *measured, void **output, bool is_library)
{
    const struct gb_image image =
        measured->name ? gb_image_read_file(measured->name) : gb_image_read(measured->image);
    uint64_t managed;
    CUresult code = gb_managed_charge(measured->call.drv, image.managed, is_library,
                                      measured->call.name, &managed);

    if (code != CUDA_SUCCESS)
        return code;
    if (!is_library)
        measured->code = &image;
    code = gb_measured_take_into(measured, output);
    if (code != CUDA_SUCCESS) {
        gb_managed_return(managed);
        return code;
    }
    gb_code_loaded(measured->call.drv, *output, is_library, image, managed);
    if (is_library)
        gb_library_loaded(measured->call.drv, *output);
    return code;
}

/* Something that may have held memory is gone, if the driver did it. */
static CUresult ended(CUresult code, const struct gb_ending *ending)
{
    if (code == CUDA_SUCCESS)
        gb_known_forget();
    gb_ending_done(ending, code == CUDA_SUCCESS);
    return code;
}

static CUresult destroy_stream(struct gb_measured_call *measured)
{
    return GB_REAL(measured->call.drv, cuStreamDestroy_v2)(measured->handle);
}

static CUresult create_stream(struct gb_measured_call *measured)
{
    return GB_REAL(measured->call.drv, cuStreamCreate)((CUstream *)&measured->handle,
                                                       measured->flags);
}

CUresult gb_enter_cuStreamCreate(struct gb_driver *drv, CUstream *phStream, unsigned int Flags)
{
    struct gb_measured_call measured = {.call = {.drv = drv, .name = "cuStreamCreate"},
                                        .which = GB_MEASURED_STREAM,
                                        .take = create_stream,
                                        .undo = destroy_stream,
                                        .flags = Flags};

    if (!phStream)
        return GB_REAL(drv, cuStreamCreate)(phStream, Flags);
    return gb_measured_take_into(&measured, (void **)phStream);
}

static CUresult create_stream_with_priority(struct gb_measured_call *measured)
{
    return GB_REAL(measured->call.drv, cuStreamCreateWithPriority)(
        (CUstream *)&measured->handle, measured->flags, measured->priority);
}

CUresult gb_enter_cuStreamCreateWithPriority(struct gb_driver *drv, CUstream *phStream,
                                             unsigned int flags, int priority)
{
    struct gb_measured_call measured = {.call = {.drv = drv, .name = "cuStreamCreate"},
                                        .which = GB_MEASURED_STREAM,
                                        .take = create_stream_with_priority,
                                        .undo = destroy_stream,
                                        .flags = flags,
                                        .priority = priority};

    if (!phStream)
        return GB_REAL(drv, cuStreamCreateWithPriority)(phStream, flags, priority);
    return gb_measured_take_into(&measured, (void **)phStream);
}

static CUresult unload_module(struct gb_measured_call *measured)
{
    return GB_REAL(measured->call.drv, cuModuleUnload)(measured->handle);
}

static CUresult load_module(struct gb_measured_call *measured)
{
    return GB_REAL(measured->call.drv, cuModuleLoad)((CUmodule *)&measured->handle,
                                                     measured->name);
}

CUresult gb_enter_cuModuleLoad(struct gb_driver *drv, CUmodule *module, const char *fname)
{
    struct gb_measured_call measured = {.call = {.drv = drv, .name = "cuModuleLoad"},
                                        .which = GB_MEASURED_MODULE,
                                        .take = load_module,
                                        .undo = unload_module,
                                        .name = fname};

    if (!module)
        return GB_REAL(drv, cuModuleLoad)(module, fname);
    return take_code(&measured, (void **)module, false);
}

static CUresult load_module_data(struct gb_measured_call *measured)
{
    return GB_REAL(measured->call.drv, cuModuleLoadData)((CUmodule *)&measured->handle,
                                                         measured->image);
}

CUresult gb_enter_cuModuleLoadData(struct gb_driver *drv, CUmodule *module, const void *image)
{
    struct gb_measured_call measured = {.call = {.drv = drv, .name = "cuModuleLoadData"},
                                        .which = GB_MEASURED_MODULE,
                                        .take = load_module_data,
                                        .undo = unload_module,
                                        .image = image};

    if (!module)
        return GB_REAL(drv, cuModuleLoadData)(module, image);
    return take_code(&measured, (void **)module, false);
}

static CUresult load_module_data_ex(struct gb_measured_call *measured)
{
    return GB_REAL(measured->call.drv, cuModuleLoadDataEx)((CUmodule *)&measured->handle,
                                                           measured->image, measured->count,
                                                           measured->options, measured->values);
}

CUresult gb_enter_cuModuleLoadDataEx(struct gb_driver *drv, CUmodule *module, const void *image,
                                     unsigned int numOptions, CUjit_option *options,
                                     void **optionValues)
{
    struct gb_measured_call measured = {.call = {.drv = drv, .name = "cuModuleLoadDataEx"},
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

static CUresult load_fat_binary(struct gb_measured_call *measured)
{
    return GB_REAL(measured->call.drv, cuModuleLoadFatBinary)((CUmodule *)&measured->handle,
                                                              measured->image);
}

CUresult gb_enter_cuModuleLoadFatBinary(struct gb_driver *drv, CUmodule *module,
                                        const void *fatCubin)
{
    struct gb_measured_call measured = {.call = {.drv = drv, .name = "cuModuleLoadFatBinary"},
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
    const uint64_t moment = gb_known_moment();
    struct gb_code *known = gb_code_take(hmod);
    CUresult code = GB_REAL(drv, cuModuleUnload)(hmod);

    if (code == CUDA_SUCCESS)
        gb_known_code_gone(hmod, moment);
    gb_code_unloaded(known, code != CUDA_SUCCESS);
    return ended(code, &ending);
}

static CUresult unload_library(struct gb_measured_call *measured)
{
    return GB_REAL(measured->call.drv, cuLibraryUnload)(measured->handle);
}

static CUresult load_library_data(struct gb_measured_call *measured)
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
    struct gb_measured_call measured = {.call = {.drv = drv, .name = "cuLibraryLoadData"},
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

static CUresult load_library_file(struct gb_measured_call *measured)
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
    struct gb_measured_call measured = {.call = {.drv = drv, .name = "cuLibraryLoadFromFile"},
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
    const uint64_t moment = gb_known_moment();
    struct gb_code *known = gb_code_take(library);
    CUresult code = GB_REAL(drv, cuLibraryUnload)(library);

    if (code == CUDA_SUCCESS)
        gb_known_code_gone(library, moment);
    gb_code_unloaded(known, code != CUDA_SUCCESS);
    return ended(code, &ending);
}

static CUresult set_limit(struct gb_measured_call *measured)
{
    return GB_REAL(measured->call.drv, cuCtxSetLimit)(measured->limit, measured->value);
}

static CUresult restore_limit(struct gb_measured_call *measured)
{
    size_t old;

    /* What it was is not known where the driver did not say. */
    if (!gb_limit_change_old(&measured->change, &old))
        return CUDA_ERROR_NOT_SUPPORTED;
    return GB_REAL(measured->call.drv, cuCtxSetLimit)(measured->limit, old);
}

CUresult gb_enter_cuCtxSetLimit(struct gb_driver *drv, CUlimit limit, size_t value)
{
    struct gb_measured_call measured = {.call = {.drv = drv, .name = "cuCtxSetLimit"},
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
    code = gb_measured_take(&measured);
    gb_limit_change_ends(&measured.change, code == CUDA_SUCCESS, value);
    if (code == CUDA_SUCCESS && limit == CU_LIMIT_STACK_SIZE)
        gb_local_stack_set(drv, value);
    /* Functions that were known to bring nothing may bring a larger heap. */
    if (code == CUDA_SUCCESS && limit == CU_LIMIT_MALLOC_HEAP_SIZE)
        gb_known_forget();
    return code;
}

static CUresult create_green(struct gb_measured_call *measured)
{
    return GB_REAL(measured->call.drv, cuGreenCtxCreate)(
        (CUgreenCtx *)&measured->handle, measured->resources, measured->dev, measured->flags);
}

static CUresult destroy_green(struct gb_measured_call *measured)
{
    return GB_REAL(measured->call.drv, cuGreenCtxDestroy)(measured->handle);
}

CUresult gb_enter_cuGreenCtxCreate(struct gb_driver *drv, CUgreenCtx *phCtx,
                                   CUdevResourceDesc desc, CUdevice dev, unsigned int flags)
{
    struct gb_measured_call measured = {.call = {.drv = drv, .name = "cuGreenCtxCreate"},
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
        code = gb_measured_take_on(&measured, device, NULL);
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

static CUresult create_green_stream(struct gb_measured_call *measured)
{
    return GB_REAL(measured->call.drv, cuGreenCtxStreamCreate)(
        (CUstream *)&measured->handle, measured->green, measured->flags, measured->priority);
}

CUresult gb_enter_cuGreenCtxStreamCreate(struct gb_driver *drv, CUstream *phStream,
                                         CUgreenCtx greenCtx, unsigned int flags, int priority)
{
    struct gb_measured_call measured = {.call = {.drv = drv, .name = "cuGreenCtxStreamCreate"},
                                        .which = GB_MEASURED_STREAM,
                                        .take = create_green_stream,
                                        .undo = destroy_stream,
                                        .green = greenCtx,
                                        .flags = flags,
                                        .priority = priority};

    if (!phStream)
        return GB_REAL(drv, cuGreenCtxStreamCreate)(phStream, greenCtx, flags, priority);
    return gb_measured_take_into(&measured, (void **)phStream);
}
