/*
 * local_size.c: what a function needs for its threads, as the driver tells.
 */
#include "interpose/local_size.h"

#include "interpose/code.h"
#include "interpose/functions_known.h"
#include "resource/capture.h"

bool gb_local_size(struct gb_driver *drv, CUfunction function, uint64_t *bytes)
{
    const struct gb_driver_api *api = &drv->api;
    int size = -1;
    enum gb_origin origin = gb_known_find(function, &size);
    CUresult code = CUDA_ERROR_NOT_SUPPORTED;
    struct gb_capture_mode saved;
    CUdevice dev;

    if (size >= 0) {
        *bytes = (uint64_t)size;
        return true;
    }
    saved = gb_capture_relax(api);
    if (origin == GB_ORIGIN_FUNCTION && api->cuFuncGetAttribute)
        code = api->cuFuncGetAttribute(&size, CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES, function);
    if (origin == GB_ORIGIN_KERNEL && api->cuKernelGetAttribute &&
        api->cuCtxGetDevice(&dev) == CUDA_SUCCESS)
        code = api->cuKernelGetAttribute(&size, CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES,
                                         (CUkernel)(void *)function, dev);
    gb_capture_restore(api, &saved);
    if (code != CUDA_SUCCESS)
        return false;
    *bytes = size > 0 ? (uint64_t)size : 0;
    gb_known_note_size(function, (int)*bytes);
    return true;
}

/* Bytes for one thread of a function that is not in the table; 0: the driver does not say. */
static uint64_t unknown_size(struct gb_driver *drv, CUfunction function)
{
    struct gb_capture_mode saved;
    CUresult code;
    int size = 0;

    if (!drv->api.cuFuncGetAttribute)
        return 0;
    saved = gb_capture_relax(&drv->api);
    code = drv->api.cuFuncGetAttribute(&size, CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES, function);
    gb_capture_restore(&drv->api, &saved);
    return code == CUDA_SUCCESS && size > 0 ? (uint64_t)size : 0;
}

struct gb_launch_need gb_local_need_told(struct gb_driver *drv, CUfunction function)
{
    struct gb_launch_need need = {0, false};
    bool is_kernel;

    if (!function || gb_known_origin(function, &is_kernel))
        return gb_local_need(drv, function);
    need.local = unknown_size(drv, function);
    need.heap = gb_code_any_heap();
    return need;
}

struct gb_launch_need gb_local_need(struct gb_driver *drv, CUfunction function)
{
    struct gb_launch_need need = {0, false};
    uint64_t local;

    if (!function || gb_known_needs_nothing(function))
        return need;
    if (gb_local_size(drv, function, &local) && local > GB_LOCAL_FIRST_BYTES)
        need.local = local;
    need.heap = gb_known_may_need_heap(function);
    return need;
}
