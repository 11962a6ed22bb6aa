/* Streams as queues. There is no thread behind them: whatever can run is run at every call of
 * the driver, so the outcome is that of an infinitely fast device, and a stream that a test
 * holds (or that waits for a value in memory) stays exactly where it is. */
#include "sim.h"

#include <pthread.h>

static struct sim_stream *active;

void sim_active_add(struct sim_stream *stream)
{
    if (stream->active)
        return;
    stream->active = true;
    stream->active_prev = NULL;
    stream->active_next = active;
    if (active)
        active->active_prev = stream;
    active = stream;
}

static void active_remove(struct sim_stream *stream)
{
    stream->active = false;
    if (stream->active_prev)
        stream->active_prev->active_next = stream->active_next;
    else
        active = stream->active_next;
    if (stream->active_next)
        stream->active_next->active_prev = stream->active_prev;
}

bool sim_stream_idle(const struct sim_stream *stream)
{
    return stream->done == stream->asked;
}

/* Not for the thread sanitizer: the host writes this word as the device's counterpart, by
 * whatever means the program likes. */
__attribute__((no_sanitize("thread"), no_sanitize("address"), noinline)) static uint64_t
read_value(uint64_t address, bool wide)
{
    if (wide)
        return *(volatile uint64_t *)(uintptr_t)address;
    return *(volatile uint32_t *)(uintptr_t)address;
}

__attribute__((no_sanitize("thread"), no_sanitize("address"), noinline)) static void
write_value(uint64_t address, uint64_t value, bool wide)
{
    if (wide)
        *(volatile uint64_t *)(uintptr_t)address = value;
    else
        *(volatile uint32_t *)(uintptr_t)address = (uint32_t)value;
}

static bool value_reached(const struct sim_piece *piece)
{
    uint64_t now = read_value(piece->address, piece->wide);
    switch (piece->flags & 3) {
    case CU_STREAM_WAIT_VALUE_GEQ:
        return piece->wide ? (int64_t)(now - piece->value) >= 0
                           : (int32_t)((uint32_t)now - (uint32_t)piece->value) >= 0;
    case CU_STREAM_WAIT_VALUE_EQ:
        return now == piece->value;
    case CU_STREAM_WAIT_VALUE_AND:
        return (now & piece->value) != 0;
    default:
        return (piece->wide ? ~(now | piece->value) : (uint32_t) ~(now | piece->value)) != 0;
    }
}

static void *run_host_function(void *argument)
{
    struct sim_piece *piece = argument;
    piece->function(piece->argument);
    sim_lock();
    piece->work = SIM_WORK_NOTHING;
    sim_progress();
    sim_unlock();
    return NULL;
}

static bool runnable(struct sim_piece *piece)
{
    switch (piece->work) {
    case SIM_WORK_WAIT_STREAM:
        return piece->on->done >= piece->ticket;
    case SIM_WORK_WAIT_VALUE:
        return value_reached(piece);
    case SIM_WORK_HOST_FUNCTION: {
        /* It runs outside the lock; it has become "nothing" when it has returned. */
        pthread_t thread;
        if (!piece->running) {
            piece->running = true;
            if (pthread_create(&thread, NULL, run_host_function, piece) == 0)
                pthread_detach(thread);
            else
                piece->work = SIM_WORK_NOTHING;
        }
        return piece->work == SIM_WORK_NOTHING;
    }
    default:
        return true;
    }
}

static void execute(const struct sim_piece *piece)
{
    switch (piece->work) {
    case SIM_WORK_WRITE_VALUE:
        write_value(piece->address, piece->value, piece->wide);
        break;
    case SIM_WORK_GRAPH_FREE: {
        struct sim_graph_memory *memory = sim_graph_memory_find(piece->address);
        if (memory)
            sim_graph_memory_free(memory);
        break;
    }
    case SIM_WORK_CALL:
        piece->function(piece->argument);
        break;
    default:
        break;
    }
}

/* Pending blocks whose turn has come are free memory of their pool. */
void sim_stream_settle(struct sim_stream *stream)
{
    while (stream->pending_first && stream->pending_first->ticket <= stream->done)
        sim_pending_settle(stream->pending_first);
}

static void piece_done(struct sim_stream *stream)
{
    struct sim_piece *piece = stream->head;
    stream->head = piece->next;
    if (!stream->head)
        stream->tail = NULL;
    stream->done++;
    if (piece->work == SIM_WORK_WAIT_STREAM)
        sim_stream_drop(piece->on);
    free(piece);
    sim_stream_settle(stream);
}

static bool stream_run(struct sim_stream *stream)
{
    bool some = false;
    while (stream->head && (!stream->held || stream->allowance)) {
        if (!runnable(stream->head))
            break;
        execute(stream->head);
        if (stream->held)
            stream->allowance--;
        piece_done(stream);
        some = true;
    }
    return some;
}

void sim_progress(void)
{
    bool some = active != NULL;
    sim_orphans_settle();
    while (some) {
        some = false;
        for (struct sim_stream *stream = active, *next; stream; stream = next) {
            next = stream->active_next;
            /* Kept, so that it does not end under our hands; nor may the next one. */
            stream->references++;
            if (next)
                next->references++;
            if (stream_run(stream))
                some = true;
            if (!stream->head && !stream->held)
                active_remove(stream);
            if (next)
                next->references--;
            sim_stream_drop(stream);
        }
    }
}

static void append(struct sim_stream *stream, const struct sim_piece *piece)
{
    struct sim_piece *copy;
    stream->asked++;
    copy = sim_new(sizeof(*copy));
    *copy = *piece;
    copy->next = NULL;
    if (copy->work == SIM_WORK_WAIT_STREAM)
        sim_stream_keep(copy->on);
    if (stream->tail)
        stream->tail->next = copy;
    else
        stream->head = copy;
    stream->tail = copy;
    sim_active_add(stream);
}

static void remember(struct sim_stream *stream, const struct sim_stream *on, uint64_t ticket)
{
    for (unsigned i = 0; i < SIM_SEEN; i++)
        if (stream->seen[i].id == on->id) {
            if (stream->seen[i].ticket < ticket)
                stream->seen[i].ticket = ticket;
            return;
        }
    stream->seen[stream->seen_next].id = on->id;
    stream->seen[stream->seen_next].ticket = ticket;
    stream->seen_next = (stream->seen_next + 1) % SIM_SEEN;
}

bool sim_stream_has_seen(const struct sim_stream *stream, const struct sim_stream *other,
                         uint64_t ticket)
{
    for (unsigned i = 0; i < SIM_SEEN; i++)
        if (stream->seen[i].id == other->id && stream->seen[i].ticket >= ticket)
            return true;
    return false;
}

void sim_queue_wait(struct sim_stream *stream, struct sim_stream *on, uint64_t ticket)
{
    struct sim_piece piece = {.work = SIM_WORK_WAIT_STREAM, .on = on, .ticket = ticket};
    if (on == stream)
        return;
    remember(stream, on, ticket);
    if (on->done < ticket)
        append(stream, &piece);
}

/* What the legacy stream's rule puts before the next piece. */
static void implicit_waits(struct sim_stream *stream)
{
    if (stream->legacy) {
        for (struct sim_stream *other = stream->context->streams; other; other = other->next)
            if (other != stream && !(other->flags & CU_STREAM_NON_BLOCKING) &&
                other->done < other->asked)
                sim_queue_wait(stream, other, other->asked);
    } else if (!(stream->flags & CU_STREAM_NON_BLOCKING)) {
        struct sim_stream *legacy = stream->context->legacy;
        if (legacy && legacy->done < legacy->asked)
            sim_queue_wait(stream, legacy, legacy->asked);
    }
}

void sim_queue(struct sim_stream *stream, const struct sim_piece *piece)
{
    implicit_waits(stream);
    if (!stream->head && !stream->held && piece->work != SIM_WORK_HOST_FUNCTION &&
        runnable((struct sim_piece *)piece)) {
        stream->asked++;
        stream->done++;
        execute(piece);
        return;
    }
    append(stream, piece);
    sim_progress();
}

void sim_queue_mark(struct sim_stream *stream)
{
    static const struct sim_piece nothing = {.work = SIM_WORK_NOTHING};
    sim_queue(stream, &nothing);
}

/* The end of a context: all that is queued counts as run, whatever it waits for. */
void sim_stream_force(struct sim_stream *stream)
{
    stream->held = false;
    while (stream->head) {
        struct sim_piece *piece = stream->head;
        if (piece->work == SIM_WORK_HOST_FUNCTION) {
            runnable(piece);
            while (stream->head == piece && piece->work == SIM_WORK_HOST_FUNCTION)
                sim_pause();
            continue;
        }
        execute(piece);
        piece_done(stream);
    }
    if (stream->active)
        active_remove(stream);
}

CUresult sim_wait_until(struct sim_stream *stream, uint64_t ticket)
{
    sim_stream_keep(stream);
    sim_progress();
    while (stream->done < ticket) {
        sim_pause();
        sim_progress();
    }
    if (stream->clock->synced < ticket)
        stream->clock->synced = ticket;
    sim_stream_drop(stream);
    sim_pools_synced();
    return CUDA_SUCCESS;
}

/* The host has waited for all work of a context. */
void sim_context_synced(struct sim_context *context)
{
    for (struct sim_stream *stream = context->streams; stream; stream = stream->next)
        stream->clock->synced = stream->done;
    while (context->orphans) {
        struct sim_clock *clock = context->orphans;
        context->orphans = clock->orphan_next;
        clock->synced = UINT64_MAX;
        sim_clock_drop(clock);
    }
}

/* For what is queued now: other threads may go on queueing. */
void sim_wait_context(struct sim_context *context)
{
    struct {
        struct sim_stream *stream;
        uint64_t ticket;
    } * wait;
    size_t count = 0;
    sim_progress();
    for (struct sim_stream *stream = context->streams; stream; stream = stream->next)
        count++;
    wait = sim_new((count + 1) * sizeof(*wait));
    count = 0;
    for (struct sim_stream *stream = context->streams; stream; stream = stream->next) {
        sim_stream_keep(stream);
        wait[count].stream = stream;
        wait[count++].ticket = stream->asked;
    }
    for (size_t i = 0; i < count; i++) {
        while (wait[i].stream->done < wait[i].ticket) {
            sim_pause();
            sim_progress();
        }
        sim_stream_drop(wait[i].stream);
    }
    free(wait);
}
