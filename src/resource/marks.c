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

static void drop_event(const struct gb_pending_stream *stream, CUevent *event)
{
    stream->key.api->cuEventDestroy_v2(*event);
    *event = NULL;
}

bool gb_mark_record(const struct gb_pending_stream *stream, CUevent *event)
{
    const struct gb_driver_api *api = stream->key.api;
    struct gb_capture_mode saved = gb_capture_relax(api);
    bool pushed = false, made = false, recorded = false;

    /* Nothing of ours is recorded on a stream that itself captures. */
    if (gb_capture_on(api, stream->key.stream) || !enter_context(stream, &pushed))
        goto out;
    if (!*event) {
        made = api->cuEventCreate(event, CU_EVENT_DISABLE_TIMING) == CUDA_SUCCESS;
        if (!made)
            *event = NULL;
    }
    if (*event)
        recorded = api->cuEventRecord(*event, stream->key.stream) == CUDA_SUCCESS;
    if (made && !recorded)
        drop_event(stream, event); /* it may be of the wrong context */
    if (recorded && gb_capture_on(api, stream->key.stream)) {
        /* Another thread has begun to capture meanwhile. To ask about an event that is part of
         * a capture would spoil it. */
        drop_event(stream, event);
        recorded = false;
    }
    gb_leave(api, pushed);
out:
    gb_capture_restore(api, &saved);
    return recorded;
}

bool gb_mark_reached(const struct gb_pending_stream *stream, CUevent event)
{
    const struct gb_driver_api *api = stream->key.api;
    struct gb_capture_mode saved = gb_capture_relax(api);
    CUresult code = api->cuEventQuery(event);

    /* The driver gives freed memory back to the card, or lets a pool be trimmed, only when the
     * host synchronises with the stream; with an event that has been reached this waits for
     * nothing. */
    if (code == CUDA_SUCCESS)
        code = api->cuEventSynchronize(event);

    gb_capture_restore(api, &saved);
    return code == CUDA_SUCCESS;
}

void gb_mark_destroy(struct gb_pending_stream *stream)
{
    const struct gb_driver_api *api = stream->key.api;
    struct gb_capture_mode saved = gb_capture_relax(api);

    for (struct gb_pending_mark *mark = stream->spare; mark; mark = mark->next)
        if (mark->event)
            drop_event(stream, &mark->event);
    gb_capture_restore(api, &saved);
}
