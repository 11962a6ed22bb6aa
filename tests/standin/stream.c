/* Streams: their life and what can be asked of them. */
#include "sim.h"

static uint64_t stream_ids;

struct sim_stream *sim_stream_new(struct sim_context *context, unsigned flags, int priority)
{
    struct sim_stream *stream = sim_new(sizeof(*stream));
    stream->context = context;
    stream->flags = flags;
    stream->priority = priority;
    stream->id = ++stream_ids;
    stream->handle = (CUstream)(void *)stream;
    stream->clock = sim_new(sizeof(*stream->clock));
    stream->clock->references = 1;
    stream->next = context->streams;
    context->streams = stream;
    sim_object_add(stream, SIM_STREAM);
    return stream;
}

/* Measured up to 256, at the points of the profile; between two of them, and beyond the last
 * one, on a line. The memory of one that is gone serves later ones, and goes with the context.
 */
static uint64_t streams_take(unsigned count)
{
    const struct sim_profile *profile = sim_settings.profile;
    const unsigned last = SIM_STREAM_POINTS - 1, without = sim_settings.free_streams;
    unsigned at = 1;
    uint64_t bytes;
    if (sim_settings.strict_streams) {
        bytes = profile->streams[last].bytes;
        if (count <= without || without >= 256)
            return 0;
        return sim_round_up((count - without) * (bytes / (256 - without)), profile->big_round);
    }
    if (count <= profile->streams[0].count)
        return profile->streams[0].bytes;
    while (at < last && count > profile->streams[at].count)
        at++;
    bytes = profile->streams[at].bytes - profile->streams[at - 1].bytes;
    bytes = bytes * (count - profile->streams[at - 1].count) /
            (profile->streams[at].count - profile->streams[at - 1].count);
    return sim_round_up(profile->streams[at - 1].bytes + bytes, profile->big_round);
}

CUresult sim_stream_make(struct sim_context *context, unsigned flags, int priority,
                         struct sim_stream **stream)
{
    const unsigned count = context->stream_count + 1;
    const uint64_t wanted = streams_take(count);
    if (wanted > context->stream_bytes) {
        if (!sim_card_take_pressing(context->card, SIM_USE_STREAM,
                                    wanted - context->stream_bytes))
            return CUDA_ERROR_OUT_OF_MEMORY;
        context->stream_bytes = wanted;
    }
    context->stream_count = count;
    *stream = sim_stream_new(context, flags, priority);
    (*stream)->counted = true;
    return CUDA_SUCCESS;
}

void sim_stream_memory_end(struct sim_context *context)
{
    sim_card_give(context->card, SIM_USE_STREAM, context->stream_bytes);
    context->stream_bytes = 0;
    context->stream_count = 0;
}

void sim_stream_keep(struct sim_stream *stream)
{
    stream->references++;
}

static void check_gone(struct sim_stream *stream)
{
    /* What it took of the card is free for others when its work has run, though events may
     * still name it. */
    if (stream->ended && stream->counted && stream->context && !stream->head) {
        stream->context->stream_count--;
        stream->counted = false;
    }
    if (!stream->ended || stream->references || stream->head || stream->pending_first)
        return;
    if (stream->context) {
        struct sim_stream **at = &stream->context->streams;
        while (*at != stream)
            at = &(*at)->next;
        *at = stream->next;
        stream->clock->orphan_next = stream->context->orphans;
        stream->context->orphans = stream->clock;
    } else {
        stream->clock->synced = UINT64_MAX;
        sim_clock_drop(stream->clock);
    }
    free(stream);
}

void sim_stream_drop(struct sim_stream *stream)
{
    stream->references--;
    check_gone(stream);
}

/* Destroying a busy stream returns at once; the rest of it goes when its work has run. */
void sim_stream_end(struct sim_stream *stream, bool force)
{
    if (!stream->ended) {
        sim_capture_forget_stream(stream);
        sim_object_remove(stream);
        stream->ended = true;
    }
    stream->held = false;
    stream->references++;
    if (force) {
        struct sim_stream **at = &stream->context->streams;
        sim_stream_force(stream);
        while (*at != stream)
            at = &(*at)->next;
        *at = stream->next;
        stream->context = NULL;
    } else {
        sim_progress();
    }
    sim_stream_drop(stream);
}

CUresult sim_stream_find(CUstream handle, bool per_thread, struct sim_stream **result)
{
    struct sim_context *context;
    CUresult code;
    uint64_t thread;
    if ((uintptr_t)handle > 2) {
        *result = sim_object_find(handle, SIM_STREAM);
        if (*result && (*result)->green && (*result)->green->ended)
            return CUDA_ERROR_CONTEXT_IS_DESTROYED;
        return *result ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
    }
    code = sim_current(&context);
    if (code)
        return code;
    if (handle == CU_STREAM_LEGACY || (!handle && !per_thread)) {
        *result = context->legacy;
        return CUDA_SUCCESS;
    }
    thread = sim_thread_id();
    for (*result = context->streams; *result; *result = (*result)->next)
        if ((*result)->thread == thread)
            return CUDA_SUCCESS;
    code = sim_stream_make(context, 0, 0, result);
    if (code)
        return code;
    (*result)->thread = thread;
    (*result)->handle = CU_STREAM_PER_THREAD;
    return CUDA_SUCCESS;
}

static CUresult create(CUstream *phStream, unsigned flags, int priority)
{
    struct sim_context *context;
    struct sim_stream *stream;
    CUresult code = sim_current(&context);
    if (code)
        return code;
    if (!phStream || (flags & ~(unsigned)CU_STREAM_NON_BLOCKING))
        return CUDA_ERROR_INVALID_VALUE;
    code = sim_stream_make(context, flags, priority, &stream);
    if (code)
        return code;
    stream->green = sim_current_green();
    *phStream = stream->handle;
    return CUDA_SUCCESS;
}

CUresult cuStreamCreate(CUstream *phStream, unsigned int Flags)
{
    SIM_ENTER(cuStreamCreate, W(phStream), W(Flags));
    return create(phStream, Flags, 0);
}

CUresult cuStreamCreateWithPriority(CUstream *phStream, unsigned int flags, int priority)
{
    SIM_ENTER(cuStreamCreateWithPriority, W(phStream), W(flags), W(priority));
    if (priority > 0)
        priority = 0;
    return create(phStream, flags, priority < -5 ? -5 : priority);
}

static CUresult destroy(CUstream hStream)
{
    struct sim_stream *stream;
    if ((uintptr_t)hStream <= 2)
        return CUDA_ERROR_INVALID_HANDLE; /* also before cuInit */
    if (!sim_initialised())
        return CUDA_ERROR_NOT_INITIALIZED;
    stream = sim_object_find(hStream, SIM_STREAM);
    if (!stream)
        return CUDA_ERROR_INVALID_HANDLE;
    if (stream->green && stream->green->ended)
        return CUDA_ERROR_CONTEXT_IS_DESTROYED;
    sim_stream_end(stream, false);
    return CUDA_SUCCESS;
}

CUresult cuStreamDestroy(CUstream hStream)
{
    SIM_ENTER_ANY_TIME(cuStreamDestroy, W(hStream));
    return destroy(hStream);
}

CUresult cuStreamDestroy_v2(CUstream hStream)
{
    SIM_ENTER_ANY_TIME(cuStreamDestroy_v2, W(hStream));
    return destroy(hStream);
}

/* What a capture makes of a query or a wait: a stream that captures cannot be waited for. */
static CUresult forbidden(struct sim_stream *stream)
{
    CUresult code = sim_capture_implicit(stream);
    if (code)
        return code;
    if (stream->capture) {
        sim_spoil(stream->capture);
        return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    }
    return sim_unsafe();
}

static CUresult synchronize(CUstream hStream, bool per_thread)
{
    struct sim_stream *stream;
    CUresult code = sim_stream_find(hStream, per_thread, &stream);
    if (!code)
        code = forbidden(stream);
    if (code)
        return code;
    if (stream->legacy)
        sim_queue_mark(stream); /* waits for the blocking streams too */
    return sim_wait_until(stream, stream->asked);
}

CUresult cuStreamSynchronize(CUstream hStream)
{
    SIM_ENTER(cuStreamSynchronize, W(hStream));
    return synchronize(hStream, false);
}

CUresult cuStreamSynchronize_ptsz(CUstream hStream)
{
    SIM_ENTER(cuStreamSynchronize_ptsz, W(hStream));
    return synchronize(hStream, true);
}

static CUresult query(CUstream hStream, bool per_thread)
{
    struct sim_stream *stream;
    CUresult code = sim_stream_find(hStream, per_thread, &stream);
    if (!code)
        code = forbidden(stream);
    if (code)
        return code;
    if (stream->legacy)
        for (struct sim_stream *other = stream->context->streams; other; other = other->next)
            if (!(other->flags & CU_STREAM_NON_BLOCKING) && !sim_stream_idle(other))
                return CUDA_ERROR_NOT_READY;
    return sim_stream_idle(stream) ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

CUresult cuStreamQuery(CUstream hStream)
{
    SIM_ENTER(cuStreamQuery, W(hStream));
    return query(hStream, false);
}

CUresult cuStreamQuery_ptsz(CUstream hStream)
{
    SIM_ENTER(cuStreamQuery_ptsz, W(hStream));
    return query(hStream, true);
}

static CUresult wait_event(CUstream hStream, bool per_thread, CUevent hEvent, unsigned flags)
{
    struct sim_stream *stream;
    struct sim_event *event = sim_object_find(hEvent, SIM_EVENT);
    CUresult code = sim_stream_find(hStream, per_thread, &stream);
    bool captured = false;
    if (code)
        return code;
    if (!event)
        return CUDA_ERROR_INVALID_HANDLE;
    if (flags & ~(unsigned)CU_EVENT_WAIT_EXTERNAL)
        return CUDA_ERROR_INVALID_VALUE;
    code = sim_capture_wait(stream, event, &captured);
    if (code || captured || !event->stream)
        return code;
    sim_queue_wait(stream, event->stream, event->ticket);
    sim_progress();
    return CUDA_SUCCESS;
}

CUresult cuStreamWaitEvent(CUstream hStream, CUevent hEvent, unsigned int Flags)
{
    SIM_ENTER(cuStreamWaitEvent, W(hStream), W(hEvent), W(Flags));
    return wait_event(hStream, false, hEvent, Flags);
}

CUresult cuStreamWaitEvent_ptsz(CUstream hStream, CUevent hEvent, unsigned int Flags)
{
    SIM_ENTER(cuStreamWaitEvent_ptsz, W(hStream), W(hEvent), W(Flags));
    return wait_event(hStream, true, hEvent, Flags);
}
