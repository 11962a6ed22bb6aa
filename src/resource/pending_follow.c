/*
 * pending_follow.c: streams that wait for the frees of others.
 */
#include "resource/pending_follow.h"

#include "resource/capture.h"
#include "resource/enter.h"
#include "resource/pending_parts.h"

/* A request for one block needs a few streams' frees, not thousands. */
enum { FOLLOW_MOST = 64 };

/* How often it looks for a stream that another thread is asking the driver about: about a tenth
 * of a second in all. */
enum { GATHER_TURNS = 2000 };

/* The stream that is to wait, and for what. */
struct follower {
    struct gb_pending *pending;
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

/* A mark of a stream, and what comes back with it, earlier marks' frees included: in footprint
 * mode the largest block. */
struct choice {
    struct gb_pending_stream *stream;
    unsigned place;
    uint64_t bytes;
};

/* With the lock held: the earliest mark of the stream that is enough, else the last one. */
static struct choice choose_of(const struct follower *follower,
                               struct gb_pending_stream *stream, uint64_t bytes)
{
    struct choice choice = {.stream = stream};

    for (unsigned i = 0; i < stream->count && choice.bytes < bytes; i++) {
        const struct gb_pending_share *share =
            gb_batch_share_of(&stream->marks[i]->batch, follower->pool);

        if (!share || share->bytes == 0)
            continue;
        if (!follower->pending->gauged)
            choice.bytes += share->bytes;
        else if (share->piece > choice.bytes)
            choice.bytes = share->piece;
        else
            continue;
        choice.place = i;
    }
    return choice;
}

/*
 * With the lock held: what to wait for. Only marks are waited for: an event of now would lie
 * behind work that came after the free, which may itself wait for this request. In footprint
 * mode one block must be enough, as a pool gives out what lies in one piece: the least such.
 * Else the least that is enough, then the most there is; no stream: all together have not so
 * much.
 */
static struct choice choose(const struct follower *follower, uint64_t bytes)
{
    struct choice least = {.stream = NULL}, most = {.stream = NULL};
    struct cursor at = first_of(follower->pending);
    uint64_t together = 0;

    for (; at.stream; advance(&at, follower->pending)) {
        struct choice choice;

        if (!is_other(follower, at.stream) || at.stream->state != GB_MARK_SET)
            continue;
        choice = choose_of(follower, at.stream, bytes);
        together += choice.bytes;
        if (choice.bytes >= bytes && (!least.stream || choice.bytes < least.bytes))
            least = choice;
        if (choice.bytes > most.bytes)
            most = choice;
    }
    if (least.stream || follower->pending->gauged || together < bytes)
        return least;
    return most;
}

/* With the lock held, dropped meanwhile: nobody is asking the driver about another stream, and
 * what lies in slots is in the entries. */
static void gather(const struct follower *follower)
{
    struct gb_pending *pending = follower->pending;
    bool busy = true;

    for (int turn = 0; busy && turn < GATHER_TURNS; turn++) {
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
static bool wait_for(const struct follower *follower, CUevent event)
{
    const struct gb_driver_api *api = follower->key->api;
    struct gb_capture_mode saved = gb_capture_relax(api);
    bool pushed = false, waits = false;

    /* A default stream is that of the current context. */
    if (!follower->key->context || gb_enter(api, follower->key->context, &pushed))
        waits = api->cuStreamWaitEvent(follower->key->stream, event, 0) == CUDA_SUCCESS;
    gb_leave(api, pushed);
    gb_capture_restore(api, &saved);
    return waits;
}

/*
 * With the lock held: up to `most` bytes of the mark that was chosen, and of earlier ones, are
 * pending on the follower's stream now, behind whose wait they lie. Answers how many. Of the
 * latest mark first: the earlier ones prove what is left of theirs sooner.
 */
static uint64_t move(const struct follower *follower, const struct choice *from, uint64_t most)
{
    struct gb_pending_stream *to = gb_pending_find(follower->pending, follower->key);
    uint64_t moved = 0;

    for (unsigned i = from->place + 1; to && i-- > 0 && moved < most;) {
        struct gb_pending_batch *batch = &from->stream->marks[i]->batch;
        uint64_t bytes = gb_batch_take_share(batch, follower->pool, most - moved);

        /* Should no grant take them over: the next mark there proves them. */
        if (!follower->pending->gauged) {
            batch->bytes -= bytes;
            to->unmarked.bytes += bytes;
        }
        moved += bytes;
    }
    if (to && moved > 0) {
        gb_batch_add_share(&to->unmarked, follower->pool, moved, moved, 0);
        to->dirty = true;
    }
    return moved;
}

/* With the lock held, dropped around the driver's calls; BUSY keeps the entry and its marks in
 * place. */
static bool wait_busy(const struct follower *follower, struct gb_pending_stream *stream,
                      unsigned place)
{
    bool waits;

    stream->state = GB_MARK_BUSY;
    gb_lock_drop(&follower->pending->lock);
    waits = wait_for(follower, stream->marks[place]->event);
    gb_lock_take(&follower->pending->lock);
    stream->state = GB_MARK_SET;
    return waits;
}

/* With the lock held: its last mark behind frees that nobody counted. */
static bool last_loose(const struct gb_pending_stream *stream, unsigned *place)
{
    for (*place = stream->count; *place > 0;)
        if (stream->marks[--*place]->batch.loose)
            return true;
    return false;
}

/* With the lock held: the next stream with a mark behind frees that nobody counted. */
static struct gb_pending_stream *find_loose(const struct follower *follower,
                                            const struct gb_pending_stream *after,
                                            unsigned *place)
{
    struct cursor at = first_of(follower->pending);
    bool passed = !after;

    for (; at.stream; advance(&at, follower->pending)) {
        struct gb_pending_stream *stream = at.stream;

        if (passed && is_other(follower, stream) && stream->state == GB_MARK_SET &&
            last_loose(stream, place))
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
        struct gb_pending_stream *stream = at.stream;
        struct gb_pending_batch *batch = NULL;

        if (!is_other(&follower, stream))
            continue;
        found->bytes += gb_pending_of_pool(stream, pool);
        if (stream->slot && atomic_load(&stream->slot->pool) == pool)
            found->bytes += gb_pending_kept(stream->slot);
        while ((batch = gb_pending_next_batch(stream, batch)))
            found->loose |= batch->loose;
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

bool gb_pending_follow(struct gb_pending *pending, const struct gb_stream_key *key,
                       struct gb_pool *pool, uint64_t bytes)
{
    struct follower follower = {.pending = pending, .key = key, .pool = pool};

    if (!begin(&follower))
        return false;
    for (int i = 0; i < FOLLOW_MOST && bytes > 0; i++) {
        const struct choice choice = choose(&follower, bytes);
        uint64_t moved = 0;

        if (!choice.stream)
            break;
        if (wait_busy(&follower, choice.stream, choice.place))
            moved = move(&follower, &choice, bytes);
        if (moved == 0)
            follower.skipped = choice.stream; /* not asked again */
        bytes -= moved;
    }
    gb_lock_drop(&pending->lock);
    return bytes == 0;
}

bool gb_pending_follow_loose(struct gb_pending *pending, const struct gb_stream_key *key)
{
    struct follower follower = {.pending = pending, .key = key};
    struct gb_pending_stream *stream = NULL;
    unsigned place = 0;
    bool any = false;

    if (!begin(&follower))
        return false;
    for (int i = 0; i < FOLLOW_MOST && (stream = find_loose(&follower, stream, &place)); i++)
        any |= wait_busy(&follower, stream, place);
    gb_lock_drop(&pending->lock);
    return any;
}

void gb_pending_waitable(struct gb_pending *pending, struct gb_followable *found)
{
    struct cursor at;

    *found = (struct gb_followable){.bytes = 0};
    if (atomic_load(&pending->entries) == 0)
        return;
    found->bytes = gb_pending_bytes(pending);
    if (!pending->gauged)
        return;
    gb_lock_take(&pending->lock);
    for (at = first_of(pending); at.stream; advance(&at, pending)) {
        struct gb_pending_stream *stream = at.stream;
        struct gb_pending_batch *batch = NULL;

        while ((batch = gb_pending_next_batch(stream, batch))) {
            for (int i = 0; i < GB_PENDING_SHARES; i++)
                found->bytes += batch->shares[i].bytes;
            found->loose |= batch->loose;
        }
        found->bytes += stream->slot ? gb_pending_kept(stream->slot) : 0;
    }
    gb_lock_drop(&pending->lock);
}
