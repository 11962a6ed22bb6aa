/*
 * managed_code.c: the managed variables of modules and libraries, charged as managed memory is.
 */
#include "interpose/managed_code.h"

#include <stdatomic.h>
#include <stddef.h>

#include "interpose/call.h"

/* Higher than any address. They go up, and so are never used twice. */
#define FIRST_KEY (UINT64_C(0xfff) << 52)

static _Atomic uint64_t keys;

struct taking {
    uint64_t bytes, key;
};

static CUresult acquire(void *arg, CUdeviceptr *pointer, size_t *bytes)
{
    struct taking *taking = arg;

    taking->key = FIRST_KEY + atomic_fetch_add(&keys, 1);
    *pointer = taking->key;
    *bytes = taking->bytes;
    return CUDA_SUCCESS;
}

/* The driver has nothing of it. */
static CUresult nothing(void *arg, CUdeviceptr pointer)
{
    (void)arg;
    (void)pointer;
    return CUDA_SUCCESS;
}

CUresult gb_managed_charge(struct gb_driver *drv, uint64_t bytes, bool is_library,
                           const char *call, uint64_t *key)
{
    struct taking taking = {.bytes = bytes};
    struct gb_call charge = {.drv = drv, .name = call};
    gpubudget_request_t request = {.bytes = bytes,
                                   .kind = GPUBUDGET_KIND_MANAGED,
                                   .acquire = acquire,
                                   .undo = nothing,
                                   .arg = &taking};
    CUcontext context;
    CUresult code;

    *key = 0;
    if (bytes == 0 || gb_settings()->managed != GB_MANAGED_CHARGE)
        return CUDA_SUCCESS;
    switch (gb_process_current(drv, &charge.device, &context, &code)) {
    case GB_RULING_BUDGET:
        break;
    case GB_RULING_FAILED: /* nothing would find them later */
        return code;
    default:
        return CUDA_SUCCESS;
    }
    request.context = is_library ? NULL : context;
    gb_backend_note_context(&charge.device->backend, &drv->api, context, false);
    code = gb_call_allocate(&charge, &request);
    if (code == CUDA_SUCCESS)
        *key = taking.key;
    return code;
}

void gb_managed_return(uint64_t key)
{
    gpubudget_release_t how = {.release = nothing};
    CUresult answer;

    if (key != 0)
        gb_call_free(key, &how, &answer);
}
