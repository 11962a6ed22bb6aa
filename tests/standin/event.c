/* Events: marks in streams. */
#include "sim.h"

#include <time.h>

CUresult cuEventCreate(CUevent *phEvent, unsigned int Flags)
{
    SIM_ENTER(cuEventCreate, W(phEvent), W(Flags));
    SIM_CURRENT(context);
    struct sim_event *event;
    if (!phEvent || Flags > 7)
        return CUDA_ERROR_INVALID_VALUE;
    event = sim_new(sizeof(*event));
    event->context = context;
    event->flags = Flags;
    event->next = context->events;
    if (event->next)
        event->next->prev = event;
    context->events = event;
    sim_object_add(event, SIM_EVENT);
    *phEvent = (CUevent)(void *)event;
    return CUDA_SUCCESS;
}

/* Nothing is left of it but the handle, which is still known. */
void sim_event_orphan(struct sim_event *event)
{
    if (event->prev)
        event->prev->next = event->next;
    else
        event->context->events = event->next;
    if (event->next)
        event->next->prev = event->prev;
    event->next = event->prev = NULL;
    if (event->stream)
        sim_stream_drop(event->stream);
    event->stream = NULL;
    event->context = NULL;
}

static CUresult destroy(CUevent hEvent)
{
    struct sim_event *event = sim_object_find(hEvent, SIM_EVENT);
    CUresult code = CUDA_SUCCESS;
    if (!event)
        return CUDA_ERROR_INVALID_HANDLE;
    if (event->context)
        sim_event_orphan(event);
    else
        code = CUDA_ERROR_CONTEXT_IS_DESTROYED;
    sim_object_remove(event);
    free(event);
    return code;
}

CUresult cuEventDestroy(CUevent hEvent)
{
    SIM_ENTER(cuEventDestroy, W(hEvent));
    return destroy(hEvent);
}

CUresult cuEventDestroy_v2(CUevent hEvent)
{
    SIM_ENTER(cuEventDestroy_v2, W(hEvent));
    return destroy(hEvent);
}

static CUresult record(CUevent hEvent, CUstream hStream, bool per_thread)
{
    struct sim_event *event = sim_object_find(hEvent, SIM_EVENT);
    struct sim_stream *stream;
    struct timespec now;
    CUresult code = sim_stream_find(hStream, per_thread, &stream);
    bool captured = false;
    if (code)
        return code;
    if (!event || event->context != stream->context)
        return CUDA_ERROR_INVALID_HANDLE;
    code = sim_capture_work(stream, &captured);
    if (code)
        return code;
    if (captured) {
        sim_capture_event(event, stream);
        return CUDA_SUCCESS;
    }
    event->capture_id = 0;
    sim_queue_mark(stream);
    sim_stream_keep(stream);
    if (event->stream)
        sim_stream_drop(event->stream);
    event->stream = stream;
    event->ticket = stream->asked;
    event->time = 0;
    if (!(event->flags & CU_EVENT_DISABLE_TIMING)) {
        clock_gettime(CLOCK_MONOTONIC, &now);
        event->time = (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
    }
    return CUDA_SUCCESS;
}

CUresult cuEventRecord(CUevent hEvent, CUstream hStream)
{
    SIM_ENTER(cuEventRecord, W(hEvent), W(hStream));
    return record(hEvent, hStream, false);
}

CUresult cuEventRecord_ptsz(CUevent hEvent, CUstream hStream)
{
    SIM_ENTER(cuEventRecord_ptsz, W(hEvent), W(hStream));
    return record(hEvent, hStream, true);
}

CUresult cuEventRecordWithFlags(CUevent hEvent, CUstream hStream, unsigned int flags)
{
    SIM_ENTER(cuEventRecordWithFlags, W(hEvent), W(hStream), W(flags));
    return record(hEvent, hStream, false);
}

CUresult cuEventRecordWithFlags_ptsz(CUevent hEvent, CUstream hStream, unsigned int flags)
{
    SIM_ENTER(cuEventRecordWithFlags_ptsz, W(hEvent), W(hStream), W(flags));
    return record(hEvent, hStream, true);
}

static CUresult usable(CUevent hEvent, struct sim_event **event)
{
    CUresult code;
    *event = sim_object_find(hEvent, SIM_EVENT);
    if (!*event)
        return CUDA_ERROR_INVALID_HANDLE;
    if (!(*event)->context)
        return CUDA_ERROR_CONTEXT_IS_DESTROYED;
    code = sim_unsafe();
    if (code)
        return code;
    if ((*event)->capture_id && sim_capture_find((*event)->capture_id)) {
        sim_spoil(sim_capture_find((*event)->capture_id));
        return CUDA_ERROR_CAPTURED_EVENT;
    }
    return CUDA_SUCCESS;
}

CUresult cuEventQuery(CUevent hEvent)
{
    SIM_ENTER(cuEventQuery, W(hEvent));
    struct sim_event *event;
    CUresult code = usable(hEvent, &event);
    if (code || !event->stream)
        return code;
    return event->stream->done >= event->ticket ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

CUresult cuEventSynchronize(CUevent hEvent)
{
    SIM_ENTER(cuEventSynchronize, W(hEvent));
    struct sim_event *event;
    CUresult code = usable(hEvent, &event);
    if (code || !event->stream)
        return code;
    return sim_wait_until(event->stream, event->ticket);
}

static CUresult elapsed(float *pMilliseconds, CUevent hStart, CUevent hEnd)
{
    struct sim_event *start = sim_object_find(hStart, SIM_EVENT);
    struct sim_event *end = sim_object_find(hEnd, SIM_EVENT);
    if (!pMilliseconds)
        return CUDA_ERROR_INVALID_VALUE;
    if (!start || !end || !start->stream || !end->stream || !start->time || !end->time)
        return CUDA_ERROR_INVALID_HANDLE;
    if (start->stream->done < start->ticket || end->stream->done < end->ticket)
        return CUDA_ERROR_NOT_READY;
    *pMilliseconds = (float)((double)(int64_t)(end->time - start->time) / 1e6);
    return CUDA_SUCCESS;
}

CUresult cuEventElapsedTime(float *pMilliseconds, CUevent hStart, CUevent hEnd)
{
    SIM_ENTER(cuEventElapsedTime, W(pMilliseconds), W(hStart), W(hEnd));
    return elapsed(pMilliseconds, hStart, hEnd);
}

CUresult cuEventElapsedTime_v2(float *pMilliseconds, CUevent hStart, CUevent hEnd)
{
    SIM_ENTER(cuEventElapsedTime_v2, W(pMilliseconds), W(hStart), W(hEnd));
    return elapsed(pMilliseconds, hStart, hEnd);
}
