/*
 * pending_ends.c: frees are proven; streams and contexts end.
 */
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "resource/marks.h"
#include "resource/pending_parts.h"

/*
 * With the lock held, dropped meanwhile: a destroyed stream whose last frees could not be
 * marked gives them back. No mark will ever prove them, and early is better than never.
 */
static void settle_unmarked(struct gb_pending *pending, struct gb_pending_stream *stream)
{
    struct gb_pending_batch batch = stream->unmarked;

    stream->dirty = false;
    stream->unmarked = (struct gb_pending_batch){.bytes = 0};
    stream->state = GB_MARK_BUSY;
    stream->settling = true;
    batch.bytes += gb_pending_owes_no_more(pending, stream, UINT64_MAX);
    gb_lock_drop(&pending->lock);
    gb_pending_settle(pending, batch.bytes, batch.blocks);
    gb_lock_take(&pending->lock);
    stream->settling = false;
    stream->state = GB_MARK_NONE;
}

/*
 * With no lock held, for the thread that has made the entry BUSY: how many of its marks, from
 * the oldest on, have been reached. Mostly that is all or none.
 */
static unsigned marks_reached(const struct gb_pending_stream *stream)
{
    unsigned number = 0;

    if (gb_mark_reached(stream, stream->marks[stream->count - 1]->event))
        return stream->count;
    while (number + 1 < stream->count && gb_mark_reached(stream, stream->marks[number]->event))
        number++;
    return number;
}

/* With the lock held, dropped meanwhile: gives back what its oldest marks prove, so many. */
static void settle_marks(struct gb_pending *pending, struct gb_pending_stream *stream,
                         unsigned number)
{
    struct gb_pending_batch batch = {.bytes = 0};

    for (unsigned i = 0; i < number; i++)
        gb_batch_merge(&batch, &stream->marks[i]->batch);
    batch.bytes += gb_pending_owes_no_more(pending, stream, stream->marks[number - 1]->number);
    gb_pending_drop_marks(stream, number);
    /* BUSY keeps the entry in place while the lock is dropped. */
    stream->settling = true;
    gb_lock_drop(&pending->lock);
    gb_pending_settle(pending, batch.bytes, batch.blocks);
    gb_lock_take(&pending->lock);
    stream->settling = false;
    stream->state = stream->count > 0 ? GB_MARK_SET : GB_MARK_NONE;
    /* Where no mark is out any more, or there is place for one, the next free sets one. */
    gb_pending_slot_drain(pending, stream);
}

/*
 * With the lock held, dropped around the driver's calls: asks for the marks, settles what they
 * prove, and sets the next one (asked for at once: an idle stream has reached it).
 */
static void reap_stream(struct gb_pending *pending, struct gb_pending_stream *stream)
{
    for (int round = 0; round < 2; round++) {
        unsigned reached;

        if (stream->closed)
            return;
        if (stream->state == GB_MARK_SET) {
            stream->state = GB_MARK_BUSY;
            gb_lock_drop(&pending->lock);
            reached = marks_reached(stream);
            gb_lock_take(&pending->lock);
            if (reached == 0) {
                stream->state = GB_MARK_SET;
                return;
            }
            settle_marks(pending, stream, reached);
        }
        if (stream->gone && stream->count == 0 && gb_pending_has_unmarked(stream))
            settle_unmarked(pending, stream);
        if (!gb_pending_has_unmarked(stream) || stream->gone || stream->closed ||
            !gb_pending_may_mark(&stream->key))
            return;
        gb_pending_set_mark(pending, stream);
        if (stream->state != GB_MARK_SET)
            return;
    }
}

/* Streams that are gone and proven leave for good. With the lock held. */
static void drop_ended(struct gb_pending *pending)
{
    struct gb_pending_stream **link = &pending->ended;
    struct gb_pending_stream *stream, *done = NULL;

    while ((stream = *link)) {
        if (stream->state == GB_MARK_NONE && !gb_pending_has_unmarked(stream) &&
            !stream->closed) {
            *link = stream->next;
            stream->next = done;
            done = stream;
        } else {
            link = &stream->next;
        }
    }
    if (!done)
        return;
    gb_lock_drop(&pending->lock);
    while ((stream = done)) {
        done = stream->next;
        gb_mark_destroy(stream);
        gb_pending_free_stream(stream);
        atomic_fetch_sub(&pending->entries, 1);
    }
    gb_lock_take(&pending->lock);
}

/* More entries than this are looked through for those of threads that may have ended. */
enum { MANY_ENTRIES = 64 };

/*
 * With the lock held: entries of other threads' default streams with nothing to prove go, since
 * nobody tells when a thread ends. One that is needed again is made again.
 */
static void drop_idle_threads(struct gb_pending *pending)
{
    struct gb_pending_stream *stream, *next;

    if (atomic_load(&pending->entries) <= MANY_ENTRIES)
        return;
    HASH_ITER(hh, pending->streams, stream, next)
    {
        if (gb_pending_may_mark(&stream->key) || stream->state != GB_MARK_NONE ||
            stream->closed || gb_pending_has_unmarked(stream) || stream->owes > 0)
            continue;
        HASH_DELETE(hh, pending->streams, stream);
        gb_pending_slot_release(pending, stream);
        stream->gone = true;
        stream->next = pending->ended;
        pending->ended = stream;
    }
}

void gb_pending_reap(struct gb_pending *pending)
{
    struct gb_pending_stream *stream;
    bool busy = true;

    if (atomic_load(&pending->entries) == 0)
        return;
    /* A stream that another thread is asking about may be settled in a moment: look again. */
    for (int turn = 0; busy && turn < BUSY_TURNS; turn++) {
        busy = false;
        gb_lock_take(&pending->lock);
        for (stream = pending->streams; stream; stream = stream->hh.next) {
            if (stream->state == GB_MARK_BUSY)
                busy = true;
            else if (!stream->closed)
                reap_stream(pending, stream);
        }
        for (stream = pending->ended; stream; stream = stream->next) {
            if (stream->state == GB_MARK_BUSY)
                busy = true;
            else if (!stream->closed)
                reap_stream(pending, stream);
        }
        drop_idle_threads(pending);
        drop_ended(pending);
        gb_lock_drop(&pending->lock);
        if (busy)
            sched_yield();
    }
}

void gb_pending_stream_ends(struct gb_pending *pending, const struct gb_stream_key *key)
{
    struct gb_pending_stream *stream;

    gb_lock_take(&pending->lock);
    /* The handle may be another stream's next. */
    stream = gb_pending_find(pending, key);
    if (stream)
        gb_pending_slot_release(pending, stream);
    stream = gb_pending_find_idle(pending, key, END_TURNS);
    if (!stream && (stream = gb_pending_find(pending, key))) {
        /* Still busy, so it cannot be moved: what is marked gone is not marked again. */
        gb_pending_slot_release(pending, stream);
        stream->gone = true;
    } else if (stream) {
        for (int i = 0; i < LAST_MARK_TRIES && gb_pending_has_unmarked(stream); i++)
            gb_pending_set_mark(pending, stream);
        HASH_DELETE(hh, pending->streams, stream);
        gb_pending_slot_release(pending, stream);
        stream->gone = true;
        stream->next = pending->ended;
        pending->ended = stream;
        drop_ended(pending);
    }
    gb_lock_drop(&pending->lock);
}

void gb_pending_stream_stays(struct gb_pending *pending, const struct gb_stream_key *key)
{
    struct gb_pending_stream **link;

    gb_lock_take(&pending->lock);
    for (link = &pending->ended; *link; link = &(*link)->next) {
        struct gb_pending_stream *stream = *link;

        if (memcmp(&stream->key, key, sizeof(*key)) != 0)
            continue;
        *link = stream->next;
        stream->gone = false;
        HASH_ADD_BYHASHVALUE(hh, pending->streams, key, sizeof(stream->key),
                             gb_pending_hash(key), stream);
        if (stream->hh.tbl) {
            /* A reap may stand on this entry and go on from it: not into the other list. */
            stream->next = NULL;
        } else {
            /* No memory: it stays with the ended ones, where its mark still proves it. */
            stream->gone = true;
            stream->next = pending->ended;
            pending->ended = stream;
        }
        break;
    }
    gb_lock_drop(&pending->lock);
}

static bool of_context(const struct gb_pending_stream *stream, const struct gb_driver_api *api,
                       CUcontext context)
{
    return stream->key.api == api && stream->context == context &&
           stream->state != GB_MARK_BUSY;
}

/* With the lock held: lets threads finish that are asking the driver about the context. */
static void await_context(struct gb_pending *pending, const struct gb_driver_api *api,
                          CUcontext context)
{
    bool busy = true;

    for (int turn = 0; busy && turn < END_TURNS; turn++) {
        struct gb_pending_stream *stream;

        busy = false;
        for (stream = pending->streams; stream && !busy; stream = stream->hh.next)
            busy = stream->state == GB_MARK_BUSY && stream->key.api == api &&
                   stream->context == context;
        for (stream = pending->ended; stream && !busy; stream = stream->next)
            busy = stream->state == GB_MARK_BUSY && stream->key.api == api &&
                   stream->context == context;
        if (busy) {
            gb_lock_drop(&pending->lock);
            gb_pending_pause(turn);
            gb_lock_take(&pending->lock);
        }
    }
}

static void set_closed(struct gb_pending *pending, const struct gb_driver_api *api,
                       CUcontext context, bool closed)
{
    struct gb_pending_stream *stream;

    for (stream = pending->streams; stream; stream = stream->hh.next)
        if (stream->key.api == api && stream->context == context) {
            stream->closed = closed;
            /* Frees that came meanwhile could not be marked: the next one is. */
            if (!closed)
                gb_pending_slot_drain(pending, stream);
        }
    for (stream = pending->ended; stream; stream = stream->next)
        if (stream->key.api == api && stream->context == context)
            stream->closed = closed;
}

void gb_pending_context_close(struct gb_pending *pending, const struct gb_driver_api *api,
                              CUcontext context)
{
    if (!context || atomic_load(&pending->entries) == 0)
        return;
    gb_lock_take(&pending->lock);
    set_closed(pending, api, context, true);
    await_context(pending, api, context);
    gb_lock_drop(&pending->lock);
}

void gb_pending_context_reopen(struct gb_pending *pending, const struct gb_driver_api *api,
                               CUcontext context)
{
    if (!context || atomic_load(&pending->entries) == 0)
        return;
    gb_lock_take(&pending->lock);
    set_closed(pending, api, context, false);
    gb_lock_drop(&pending->lock);
}

void gb_pending_context_ended(struct gb_pending *pending, const struct gb_driver_api *api,
                              CUcontext context)
{
    struct gb_pending_stream *stream, *next, *gone = NULL, **link;
    uint64_t shared = 0;

    gb_lock_take(&pending->lock);
    await_context(pending, api, context);
    HASH_ITER(hh, pending->streams, stream, next)
    {
        if (!of_context(stream, api, context))
            continue;
        HASH_DELETE(hh, pending->streams, stream);
        gb_pending_slot_release(pending, stream);
        atomic_fetch_sub(&pending->entries, 1);
        shared += gb_pending_owes_no_more(pending, stream, UINT64_MAX);
        stream->next = gone;
        gone = stream;
    }
    for (link = &pending->ended; (stream = *link);) {
        if (of_context(stream, api, context)) {
            *link = stream->next;
            atomic_fetch_sub(&pending->entries, 1);
            shared += gb_pending_owes_no_more(pending, stream, UINT64_MAX);
            stream->next = gone;
            gone = stream;
        } else {
            link = &stream->next;
        }
    }
    gb_lock_drop(&pending->lock);
    gb_pending_settle(pending, shared, NULL);
    while ((stream = gone)) {
        struct gb_pending_batch *batch = NULL;

        gone = stream->next;
        while ((batch = gb_pending_next_batch(stream, batch))) {
            gb_pending_settle(pending, batch->bytes, batch->blocks);
            batch->blocks = NULL;
        }
        gb_pending_free_stream(stream);
    }
}
