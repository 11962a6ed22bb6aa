/*
 * pending_follow.c: streams that wait for the frees of others.
 */
#include "resource/pending_follow.h"

#include "resource/capture.h"
#include "resource/enter.h"
#include "resource/pending_parts.h"

/* A request for one block needs a few streams' frees, not thousands. */
enum { FOLLOW_MOST = 64 };

/* The stream that is to wait, and for what. */
struct follower {
    struct gb_pending *pending;
    struct gb_events *events;
    const struct gb_stream_key *key;
    struct gb_pool *pool;
    struct gb_pending_stream *skipped; /* the driver would not */
};

/* All streams, those that have ended last. With the lock held. */
struct cursor {
    struct gb_pending_stream *stream;
    bool ended;
};

static void settle_on(struct cursor *at, const struct gb_pending *pending)
{
    if (at->stream || at->ended)
        return;
    at->stream = pending->ended;
    at->ended = true;
}

static struct cursor first_of(const struct gb_pending *pending)
{
    struct cursor at = {.stream = pending->streams};

    settle_on(&at, pending);
    return at;
}

static void advance(struct cursor *at, const struct gb_pending *pending)
{
    at->stream = at->ended ? at->stream->next : at->stream->hh.next;
    settle_on(at, pending);
}

static bool is_other(const struct follower *follower, const struct gb_pending_stream *stream)
{
    return !gb_stream_is(&stream->key, follower->key) && !stream->closed &&
           stream->key.api == follower->key->api && stream != follower->skipped;
}

/* Can an event be recorded on it by this thread? */
static bool may_record(const struct gb_pending_stream *stream)
{
    return !stream->gone && gb_pending_may_mark(&stream->key);
}

/* What the stream can give: behind its mark, and with what has come since. */
static uint64_t behind_mark(const struct gb_pending_stream *stream,
                            const struct gb_pending_share *share)
{
    return stream->state == GB_MARK_SET ? share->marked : 0;
}

static uint64_t in_all(const struct gb_pending_stream *stream,
                       const struct gb_pending_share *share)
{
    return behind_mark(stream, share) + (may_record(stream) ? share->unmarked : 0);
}

/*
 * With the lock held: whom to wait for. Best is the least that is enough behind a mark, then
 * the least that is enough in all, then the most there is. NULL: all together have not so much.
 */
static struct gb_pending_stream *choose(const struct follower *follower, uint64_t bytes)
{
    struct gb_pending_stream *by_mark = NULL, *whole = NULL, *most = NULL;
    uint64_t mark_bytes = 0, whole_bytes = 0, most_bytes = 0, together = 0;
    struct cursor at = first_of(follower->pending);

    for (; at.stream; advance(&at, follower->pending)) {
        struct gb_pending_stream *stream = at.stream;
        const struct gb_pending_share *share = gb_pending_share_of(stream, follower->pool);
        uint64_t marked, all;

        if (!share || !is_other(follower, stream))
            continue;
        marked = behind_mark(stream, share);
        all = in_all(stream, share);
        together += all;
        if (marked >= bytes && (!by_mark || marked < mark_bytes)) {
            by_mark = stream;
            mark_bytes = marked;
        }
        if (all >= bytes && (!whole || all < whole_bytes)) {
            whole = stream;
            whole_bytes = all;
        }
        if (all > most_bytes) {
            most = stream;
            most_bytes = all;
        }
    }
    if (together < bytes)
        return NULL;
    return by_mark ? by_mark : whole ? whole : most;
}

/* With the lock held, dropped meanwhile: nobody is asking the driver about another stream, and
 * what lies in slots is in the entries. */
static void gather(const struct follower *follower)
{
    struct gb_pending *pending = follower->pending;
    bool busy = true;

    for (int turn = 0; busy && turn < BUSY_TURNS; turn++) {
        struct cursor at = first_of(pending);

        busy = false;
        for (; at.stream; advance(&at, pending)) {
            busy |= at.stream->state == GB_MARK_BUSY;
            if (at.stream->state != GB_MARK_BUSY && is_other(follower, at.stream))
                gb_pending_slot_drain(pending, at.stream);
        }
        if (busy) {
            gb_lock_drop(&pending->lock);
            gb_pending_pause(turn);
            gb_lock_take(&pending->lock);
        }
    }
}

/* With no lock: the driver's part. */
static bool wait_for(const struct follower *follower, const struct gb_pending_stream *stream,
                     bool by_mark)
{
    const struct gb_driver_api *api = follower->key->api;
    struct gb_capture_mode saved;
    struct gb_event *event = NULL;
    bool pushed = false, waits = false;
    CUresult code;

    if (!by_mark &&
        gb_events_record(follower->events, &stream->key, true, &event, &code) != GPUBUDGET_OK)
        return false;
    saved = gb_capture_relax(api);
    /* A default stream is that of the current context. */
    if (!follower->key->context || gb_enter(api, follower->key->context, &pushed)) {
        if (event)
            code = gb_event_wait_on(follower->events, event, follower->key->stream);
        else
            code = api->cuStreamWaitEvent(follower->key->stream, stream->event, 0);
        waits = code == CUDA_SUCCESS;
    }
    gb_leave(api, pushed);
    gb_capture_restore(api, &saved);
    if (event)
        gb_event_drop(follower->events, event);
    return waits;
}

/* With the lock held: up to `most` bytes of the share are pending on the follower's stream now,
 * behind whose wait they lie. Answers how many. */
static uint64_t move(const struct follower *follower, struct gb_pending_stream *from,
                     uint64_t most, bool marked_only)
{
    struct gb_pending_stream *to = gb_pending_find(follower->pending, follower->key);
    struct gb_pending_share *share = gb_pending_share_of(from, follower->pool);
    uint64_t marked, unmarked;

    if (!to || !share)
        return 0;
    marked = share->marked < most ? share->marked : most;
    most -= marked;
    unmarked = marked_only ? 0 : share->unmarked < most ? share->unmarked : most;
    share->marked -= marked;
    share->unmarked -= unmarked;
    /* Should no grant take them over: the next mark there proves them. */
    if (follower->pending->gauged) {
        to->dirty = true;
    } else {
        from->marked -= marked;
        from->unmarked -= unmarked;
        to->unmarked += marked + unmarked;
    }
    gb_pending_share_add(to, follower->pool, marked + unmarked);
    return marked + unmarked;
}

/* With the lock held, dropped around the driver's calls; BUSY keeps the entry and its event in
 * place. */
static bool wait_busy(const struct follower *follower, struct gb_pending_stream *stream,
                      bool by_mark)
{
    enum gb_mark_state before = stream->state;
    bool waits;

    stream->state = GB_MARK_BUSY;
    gb_lock_drop(&follower->pending->lock);
    waits = wait_for(follower, stream, by_mark);
    gb_lock_take(&follower->pending->lock);
    stream->state = before;
    return waits;
}

/* As wait_busy. Answers the bytes that are moved. */
static uint64_t follow_one(struct follower *follower, struct gb_pending_stream *stream,
                           uint64_t bytes)
{
    const struct gb_pending_share *share = gb_pending_share_of(stream, follower->pool);
    uint64_t marked = behind_mark(stream, share), all = in_all(stream, share);
    bool by_mark = marked >= bytes || all == marked;
    uint64_t most = by_mark ? marked : all, moved = 0;

    if (wait_busy(follower, stream, by_mark))
        moved = move(follower, stream, most < bytes ? most : bytes, by_mark);
    /* Not asked again. */
    if (moved == 0)
        follower->skipped = stream;
    return moved;
}

/* With the lock held: a stream with frees that nobody counted, marked or not. */
static struct gb_pending_stream *find_loose(const struct follower *follower,
                                            const struct gb_pending_stream *after)
{
    struct cursor at = first_of(follower->pending);
    bool passed = !after;

    for (; at.stream; advance(&at, follower->pending)) {
        struct gb_pending_stream *stream = at.stream;

        if (passed && is_other(follower, stream) && stream->state != GB_MARK_BUSY &&
            ((stream->loose_marked && stream->state == GB_MARK_SET) ||
             (stream->loose && may_record(stream))))
            return stream;
        passed |= stream == after;
    }
    return NULL;
}

void gb_pending_followable(struct gb_pending *pending, const struct gb_stream_key *key,
                           const struct gb_pool *pool, struct gb_followable *found)
{
    const struct follower follower = {.pending = pending, .key = key};
    struct cursor at;

    *found = (struct gb_followable){.bytes = 0};
    if (!pool || atomic_load(&pending->entries) == 0)
        return;
    gb_lock_take(&pending->lock);
    for (at = first_of(pending); at.stream; advance(&at, pending)) {
        const struct gb_pending_stream *stream = at.stream;
        const struct gb_pending_share *share = gb_pending_share_of(at.stream, pool);

        if (!is_other(&follower, stream))
            continue;
        if (share)
            found->bytes += share->marked + share->unmarked + share->marking;
        if (stream->slot && atomic_load(&stream->slot->pool) == pool)
            found->bytes += gb_pending_kept(stream->slot);
        found->loose |= stream->loose || stream->loose_marked;
    }
    gb_lock_drop(&pending->lock);
}

/* Then the lock is held. */
static bool begin(const struct follower *follower)
{
    struct gb_pending *pending = follower->pending;

    if (atomic_load(&pending->entries) == 0 ||
        gb_capture_on(follower->key->api, follower->key->stream) ||
        !gb_pending_prepare(pending, follower->key))
        return false;
    gb_lock_take(&pending->lock);
    gather(follower);
    return true;
}

bool gb_pending_follow(struct gb_pending *pending, struct gb_events *events,
                       const struct gb_stream_key *key, struct gb_pool *pool, uint64_t bytes)
{
    struct follower follower = {.pending = pending, .events = events, .key = key, .pool = pool};
    struct gb_pending_stream *stream;

    if (!begin(&follower))
        return false;
    for (int i = 0; i < FOLLOW_MOST && bytes > 0; i++) {
        stream = choose(&follower, bytes);
        if (!stream || stream->state == GB_MARK_BUSY)
            break;
        bytes -= follow_one(&follower, stream, bytes);
    }
    gb_lock_drop(&pending->lock);
    return bytes == 0;
}

bool gb_pending_follow_loose(struct gb_pending *pending, struct gb_events *events,
                             const struct gb_stream_key *key)
{
    struct follower follower = {.pending = pending, .events = events, .key = key};
    struct gb_pending_stream *stream = NULL;
    bool any = false;

    if (!begin(&follower))
        return false;
    for (int i = 0; i < FOLLOW_MOST && (stream = find_loose(&follower, stream)); i++) {
        bool by_mark = !(stream->loose && may_record(stream));

        any |= wait_busy(&follower, stream, by_mark);
    }
    gb_lock_drop(&pending->lock);
    return any;
}

uint64_t gb_pending_waitable(struct gb_pending *pending, bool *loose)
{
    struct cursor at;
    uint64_t bytes;

    *loose = false;
    if (atomic_load(&pending->entries) == 0)
        return 0;
    bytes = gb_pending_bytes(pending);
    gb_lock_take(&pending->lock);
    for (at = first_of(pending); at.stream; advance(&at, pending)) {
        const struct gb_pending_stream *stream = at.stream;

        if (stream->state == GB_MARK_NONE && !gb_pending_has_unmarked(stream))
            continue;
        *loose |= stream->loose || stream->loose_marked;
        if (!pending->gauged)
            continue;
        for (int i = 0; i < GB_PENDING_SHARES; i++)
            bytes += stream->shares[i].unmarked + stream->shares[i].marking +
                     stream->shares[i].marked;
        bytes += stream->slot ? gb_pending_kept(stream->slot) : 0;
    }
    gb_lock_drop(&pending->lock);
    return bytes;
}
