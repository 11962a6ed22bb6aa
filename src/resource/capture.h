/*
 * capture.h: the library's own driver calls beside somebody's stream capture.
 *
 * A capture in GLOBAL mode on any thread forbids unsafe calls (attribute reads, trims, event
 * queries) to every thread, and such a call spoils that capture. In RELAXED mode the same calls
 * are allowed and harm nothing (measured, docs/driver-behaviour.md). So each of our own calls
 * runs between gb_capture_relax and gb_capture_restore; the program's call never does.
 */
#ifndef GB_RESOURCE_CAPTURE_H
#define GB_RESOURCE_CAPTURE_H

#include "driver/api.h"

struct gb_capture_mode {
    CUstreamCaptureMode mode; /* the thread's own mode, to be restored */
    bool switched;
};

static inline struct gb_capture_mode gb_capture_relax(const struct gb_driver_api *api)
{
    struct gb_capture_mode saved = {CU_STREAM_CAPTURE_MODE_RELAXED, false};

    if (api->cuThreadExchangeStreamCaptureMode)
        saved.switched = api->cuThreadExchangeStreamCaptureMode(&saved.mode) == CUDA_SUCCESS;
    return saved;
}

static inline void gb_capture_restore(const struct gb_driver_api *api,
                                      struct gb_capture_mode *saved)
{
    if (saved->switched)
        api->cuThreadExchangeStreamCaptureMode(&saved->mode);
}

/* Does this stream capture? Also where the driver does not want to say. */
static inline bool gb_capture_on(const struct gb_driver_api *api, CUstream stream)
{
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;

    return api->cuStreamIsCapturing &&
           (api->cuStreamIsCapturing(stream, &status) != CUDA_SUCCESS ||
            status != CU_STREAM_CAPTURE_STATUS_NONE);
}

#endif
