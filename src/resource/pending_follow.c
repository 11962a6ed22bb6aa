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

/*
 * With the lock held: whom to wait for. Only marks are waited for: an event of now would lie
 * behind work that came after the free, which may itself wait for this request. In footprint
 * mode one block must be enough, as a pool gives out what lies in one piece: the least such.
 * Else the least that is enough, then the most there is; NULL: all together have not so much.
 */
static struct gb_pending_stream *choose(const struct follower *follower, uint64_t bytes)
{
    const bool gauged = follower->pending->gauged;
    struct gb_pending_stream *least = NULL, *most = NULL;
    uint64_t least_bytes = 0, most_bytes = 0, together = 0;
    struct cursor at = first_of(follower->pending);

    for (; at.stream; advance(&at, follower->pending)) {
        struct gb_pending_stream *stream = at.stream;
        const struct gb_pending_share *share = gb_pending_share_of(stream, follower->pool);
        uint64_t marked;

        if (!share || !is_other(follower, stream) || stream->state != GB_MARK_SET)
            continue;
        marked = gauged ? share->marked_piece : share->marked;
        together += marked;
        if (marked >= bytes && (!least || marked < least_bytes)) {
            least = stream;
            least_bytes = marked;
        }
        if (marked > most_bytes) {
            most = stream;
            most_bytes = marked;
        }
    }
    if (least || gauged || together < bytes)
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
static bool wait_for(const struct follower *follower, const struct gb_pending_stream *stream)
{
    const struct gb_driver_api *api = follower->key->api;
    struct gb_capture_mode saved = gb_capture_relax(api);
    bool pushed = false, waits = false;

    /* A default stream is that of the current context. */
    if (!follower->key->context || gb_enter(api, follower->key->context, &pushed))
        waits = api->cuStreamWaitEvent(follower->key->stream, stream->event, 0) == CUDA_SUCCESS;
    gb_leave(api, pushed);
    gb_capture_restore(api, &saved);
    return waits;
}

/* With the lock held: up to `most` marked bytes are pending on the follower's stream now,
 * behind whose wait they lie. Answers how many. */
static uint64_t move(const struct follower *follower, struct gb_pending_stream *from,
                     uint64_t most)
{
    struct gb_pending_stream *to = gb_pending_find(follower->pending, follower->key);
    struct gb_pending_share *share = gb_pending_share_of(from, follower->pool);
    uint64_t marked;

    if (!to || !share)
        return 0;
    marked = share->marked < most ? share->marked : most;
    share->marked -= marked;
    if (share->marked_piece > share->marked)
        share->marked_piece = share->marked;
    /* Should no grant take them over: the next mark there proves them. */
    if (!follower->pending->gauged) {
        from->marked -= marked;
        to->unmarked += marked;
    }
    gb_pending_share_add(to, follower->pool, marked, marked);
    return marked;
}

/* With the lock held, dropped around the driver's calls; BUSY keeps the entry and its event in
 * place. */
static bool wait_busy(const struct follower *follower, struct gb_pending_stream *stream)
{
    bool waits;

    stream->state = GB_MARK_BUSY;
    gb_lock_drop(&follower->pending->lock);
    waits = wait_for(follower, stream);
    gb_lock_take(&follower->pending->lock);
    stream->state = GB_MARK_SET;
    return waits;
}

/* With the lock held: the next stream with a mark behind frees that nobody counted. */
static struct gb_pending_stream *find_loose(const struct follower *follower,
                                            const struct gb_pending_stream *after)
{
    struct cursor at = first_of(follower->pending);
    bool passed = !after;

    for (; at.stream; advance(&at, follower->pending)) {
        struct gb_pending_stream *stream = at.stream;

        if (passed && is_other(follower, stream) && stream->loose_marked &&
            stream->state == GB_MARK_SET)
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

bool gb_pending_follow(struct gb_pending *pending, const struct gb_stream_key *key,
                       struct gb_pool *pool, uint64_t bytes)
{
    struct follower follower = {.pending = pending, .key = key, .pool = pool};
    struct gb_pending_stream *stream;

    if (!begin(&follower))
        return false;
    for (int i = 0; i < FOLLOW_MOST && bytes > 0; i++) {
        uint64_t moved = 0;

        stream = choose(&follower, bytes);
        if (!stream)
            break;
        if (wait_busy(&follower, stream))
            moved = move(&follower, stream, bytes);
        if (moved == 0)
            follower.skipped = stream; /* not asked again */
        bytes -= moved;
    }
    gb_lock_drop(&pending->lock);
    return bytes == 0;
}

bool gb_pending_follow_loose(struct gb_pending *pending, const struct gb_stream_key *key)
{
    struct follower follower = {.pending = pending, .key = key};
    struct gb_pending_stream *stream = NULL;
    bool any = false;

    if (!begin(&follower))
        return false;
    for (int i = 0; i < FOLLOW_MOST && (stream = find_loose(&follower, stream)); i++)
        any |= wait_busy(&follower, stream);
    gb_lock_drop(&pending->lock);
    return any;
}

uint64_t gb_pending_waitable(struct gb_pending *pending)
{
    struct cursor at;
    uint64_t bytes;

    if (atomic_load(&pending->entries) == 0)
        return 0;
    bytes = gb_pending_bytes(pending);
    if (!pending->gauged)
        return bytes;
    gb_lock_take(&pending->lock);
    for (at = first_of(pending); at.stream; advance(&at, pending)) {
        const struct gb_pending_stream *stream = at.stream;

        for (int i = 0; i < GB_PENDING_SHARES; i++)
            bytes += stream->shares[i].unmarked + stream->shares[i].marking +
                     stream->shares[i].marked;
        bytes += stream->slot ? gb_pending_kept(stream->slot) : 0;
    }
    gb_lock_drop(&pending->lock);
    return bytes;
}
