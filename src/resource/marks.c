/*
 * marks.c: the driver's events that prove frees.
 */
#include "resource/marks.h"

#include "resource/capture.h"
#include "resource/enter.h"

/* In a context that is not known, what is nobody's default stream can be marked. */
static bool enter_context(const struct gb_pending_stream *stream, bool *pushed)
{
    *pushed = false;
    if (!stream->context)
        return stream->key.context == NULL && stream->key.thread == 0 &&
               stream->key.stream != CU_STREAM_LEGACY;
    return gb_enter(stream->key.api, stream->context, pushed);
}

static void drop_event(struct gb_pending_stream *stream)
{
    stream->key.api->cuEventDestroy_v2(stream->event);
    stream->event = NULL;
}

bool gb_mark_record(struct gb_pending_stream *stream)
{
    const struct gb_driver_api *api = stream->key.api;
    struct gb_capture_mode saved = gb_capture_relax(api);
    bool pushed = false, made = false, recorded = false;

    /* Nothing of ours is recorded on a stream that itself captures. */
    if (gb_capture_on(api, stream->key.stream) || !enter_context(stream, &pushed))
        goto out;
    if (!stream->event) {
        made = api->cuEventCreate(&stream->event, CU_EVENT_DISABLE_TIMING) == CUDA_SUCCESS;
        if (!made)
            stream->event = NULL;
    }
    if (stream->event)
        recorded = api->cuEventRecord(stream->event, stream->key.stream) == CUDA_SUCCESS;
    if (made && !recorded)
        drop_event(stream); /* it may be of the wrong context */
    if (recorded && gb_capture_on(api, stream->key.stream)) {
        /* Another thread has begun to capture meanwhile. To ask about an event that is part of
         * a capture would spoil it. */
        drop_event(stream);
        recorded = false;
    }
    gb_leave(api, pushed);
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
