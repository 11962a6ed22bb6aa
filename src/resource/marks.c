/*
 * marks.c: the driver's events that prove frees.
 */
#include "resource/marks.h"

#include "resource/capture.h"

bool gb_mark_record(struct gb_pending_stream *stream)
{
    const struct gb_driver_api *api = stream->key.api;
    struct gb_capture_mode saved = gb_capture_relax(api);
    CUcontext current = NULL;
    bool pushed = false, recorded = false;
    CUstreamCaptureStatus capturing = CU_STREAM_CAPTURE_STATUS_NONE;

    /* Nothing of ours is recorded on a stream that itself captures. */
    if (api->cuStreamIsCapturing &&
        (api->cuStreamIsCapturing(stream->key.stream, &capturing) != CUDA_SUCCESS ||
         capturing != CU_STREAM_CAPTURE_STATUS_NONE))
        goto out;
    if (stream->context && api->cuCtxGetCurrent(&current) == CUDA_SUCCESS &&
        current != stream->context)
        pushed = api->cuCtxPushCurrent_v2(stream->context) == CUDA_SUCCESS;
    if (!stream->event &&
        api->cuEventCreate(&stream->event, CU_EVENT_DISABLE_TIMING) != CUDA_SUCCESS)
        stream->event = NULL;
    if (stream->event)
        recorded = api->cuEventRecord(stream->event, stream->key.stream) == CUDA_SUCCESS;
    if (pushed)
        api->cuCtxPopCurrent_v2(&current);
out:
    gb_capture_restore(api, &saved);
    return recorded;
}

bool gb_mark_reached(const struct gb_pending_stream *stream)
{
    const struct gb_driver_api *api = stream->key.api;
    struct gb_capture_mode saved = gb_capture_relax(api);
    CUresult code = api->cuEventQuery(stream->event);

    /* The driver gives freed memory back to the card, or lets a pool be trimmed, only when the
     * host synchronises with the stream; with an event that has been reached this waits for
     * nothing. */
    if (code == CUDA_SUCCESS)
        code = api->cuEventSynchronize(stream->event);

    gb_capture_restore(api, &saved);
    return code == CUDA_SUCCESS;
}

void gb_mark_destroy(struct gb_pending_stream *stream)
{
    const struct gb_driver_api *api = stream->key.api;
    struct gb_capture_mode saved;

    if (!stream->event)
        return;
    saved = gb_capture_relax(api);
    api->cuEventDestroy_v2(stream->event);
    gb_capture_restore(api, &saved);
    stream->event = NULL;
}
