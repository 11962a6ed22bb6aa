/*
 * entry_stream.c: streams end.
 */
#include "interpose/handlers.h"
#include "interpose/process.h"

#include <stdatomic.h>

/*
 * Before a stream goes, a mark is set behind its frees: their bytes stay pending until the work
 * has run, which the driver lets it do after the handle is gone.
 */
static CUresult destroy(struct gb_driver *drv, CUstream stream, gb_fn_cuStreamDestroy_v2 *real)
{
    struct gb_stream_key key;
    int count = drv->complete ? gb_process_device_count() : 0;
    bool marked = false;
    CUresult code;

    for (int i = 0; i < count; i++) {
        struct gb_device *device = gb_process_device_at(i);

        if (!device || atomic_load(&device->backend.pending.entries) == 0)
            continue;
        if (!marked)
            key = gb_stream_key(&drv->api, stream, false);
        marked = true;
        gb_pending_stream_ends(&device->backend.pending, &key);
    }
    code = real(stream);
    if (code == CUDA_SUCCESS)
        gb_process_check_other();
    if (code == CUDA_SUCCESS || !marked)
        return code;
    for (int i = 0; i < count; i++) {
        struct gb_device *device = gb_process_device_at(i);

        if (device)
            gb_pending_stream_stays(&device->backend.pending, &key);
    }
    return code;
}

CUresult gb_enter_cuStreamDestroy(struct gb_driver *drv, CUstream hStream)
{
    return destroy(drv, hStream, GB_REAL(drv, cuStreamDestroy));
}

CUresult gb_enter_cuStreamDestroy_v2(struct gb_driver *drv, CUstream hStream)
{
    return destroy(drv, hStream, GB_REAL(drv, cuStreamDestroy_v2));
}
