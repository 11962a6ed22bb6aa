/*
 * pending_shares.c: which pools' memory is pending on a stream.
 */
#include "resource/pending_parts.h"

struct gb_pending_share *gb_pending_share_of(struct gb_pending_stream *stream,
                                             const struct gb_pool *pool)
{
    for (int i = 0; i < GB_PENDING_SHARES; i++)
        if (stream->shares[i].pool == pool)
            return &stream->shares[i];
    return NULL;
}

static bool is_empty(const struct gb_pending_share *share)
{
    return share->unmarked == 0 && share->marked == 0 && share->marking == 0;
}

static uint64_t larger(uint64_t one, uint64_t other)
{
    return one > other ? one : other;
}

static uint64_t smaller(uint64_t one, uint64_t other)
{
    return one < other ? one : other;
}

void gb_pending_share_add(struct gb_pending_stream *stream, struct gb_pool *pool,
                          uint64_t bytes, uint64_t piece)
{
    struct gb_pending_share *share = pool ? gb_pending_share_of(stream, pool) : NULL;

    if (!pool || bytes == 0)
        return;
    for (int i = 0; i < GB_PENDING_SHARES && !share; i++)
        if (!stream->shares[i].pool || is_empty(&stream->shares[i]))
            share = &stream->shares[i];
    if (!share)
        return;
    if (share->pool != pool)
        *share = (struct gb_pending_share){.pool = pool};
    share->unmarked += bytes;
    share->unmarked_piece = larger(share->unmarked_piece, piece);
}

void gb_pending_shares_begin(struct gb_pending_stream *stream)
{
    for (int i = 0; i < GB_PENDING_SHARES; i++) {
        struct gb_pending_share *share = &stream->shares[i];

        share->marking = share->unmarked;
        share->marking_piece = share->unmarked_piece;
        share->unmarked = share->unmarked_piece = 0;
    }
    stream->loose_marked |= stream->loose;
    stream->loose = false;
}

void gb_pending_shares_end(struct gb_pending_stream *stream, bool marked)
{
    for (int i = 0; i < GB_PENDING_SHARES; i++) {
        struct gb_pending_share *share = &stream->shares[i];

        uint64_t *bytes = marked ? &share->marked : &share->unmarked;
        uint64_t *piece = marked ? &share->marked_piece : &share->unmarked_piece;

        *bytes += share->marking;
        *piece = larger(*piece, share->marking_piece);
        share->marking = share->marking_piece = 0;
    }
    if (!marked)
        stream->loose |= stream->loose_marked;
}

void gb_pending_shares_lost(struct gb_pending_stream *stream)
{
    for (int i = 0; i < GB_PENDING_SHARES; i++) {
        struct gb_pending_share *share = &stream->shares[i];

        share->unmarked += share->marked;
        share->unmarked_piece = larger(share->unmarked_piece, share->marked_piece);
        share->marked = share->marked_piece = 0;
    }
    stream->loose |= stream->loose_marked;
    stream->loose_marked = false;
}

void gb_pending_shares_proven(struct gb_pending_stream *stream, bool unmarked_too)
{
    for (int i = 0; i < GB_PENDING_SHARES; i++) {
        struct gb_pending_share *share = &stream->shares[i];

        share->marked = share->marked_piece = 0;
        if (unmarked_too)
            share->unmarked = share->unmarked_piece = 0;
    }
    stream->loose_marked = false;
    if (unmarked_too)
        stream->loose = false;
}

/* Takes so much away, from what is unmarked first, as a take-over does. */
static void take(struct gb_pending_share *share, uint64_t bytes)
{
    uint64_t unmarked = share->unmarked < bytes ? share->unmarked : bytes;

    share->unmarked -= unmarked;
    bytes -= unmarked;
    share->marked -= share->marked < bytes ? share->marked : bytes;
    share->unmarked_piece = smaller(share->unmarked_piece, share->unmarked);
    share->marked_piece = smaller(share->marked_piece, share->marked);
}

void gb_pending_shares_fit(struct gb_pending_stream *stream, struct gb_pool *pool,
                           uint64_t taken)
{
    uint64_t unmarked = stream->unmarked, marked = stream->marked;
    struct gb_pending_share *own = pool ? gb_pending_share_of(stream, pool) : NULL;

    if (own)
        take(own, taken);
    for (int i = 0; i < GB_PENDING_SHARES; i++) {
        struct gb_pending_share *share = &stream->shares[i];

        if (share->unmarked > unmarked)
            share->unmarked = unmarked;
        if (share->marked > marked)
            share->marked = marked;
        share->unmarked_piece = smaller(share->unmarked_piece, share->unmarked);
        share->marked_piece = smaller(share->marked_piece, share->marked);
        unmarked -= share->unmarked;
        marked -= share->marked;
    }
}

void gb_pending_reuse(struct gb_pending *pending, const struct gb_stream_key *key,
                      struct gb_pool *pool, uint64_t bytes)
{
    struct gb_pending_slot *slot = gb_pending_slot_of(pending, gb_pending_note_of(key));
    struct gb_pending_stream *stream;
    struct gb_pending_share *share;

    if (slot && atomic_load(&slot->pool) == pool)
        bytes -= gb_pending_unkeep(slot, bytes);
    if (bytes == 0 || atomic_load(&pending->entries) == 0)
        return;
    gb_lock_take(&pending->lock);
    stream = gb_pending_find(pending, key);
    share = stream ? gb_pending_share_of(stream, pool) : NULL;
    if (share)
        take(share, bytes);
    gb_lock_drop(&pending->lock);
}

static void forget(struct gb_pending_stream *stream, const struct gb_pool *pool)
{
    struct gb_pending_share *share = gb_pending_share_of(stream, pool);

    if (share)
        *share = (struct gb_pending_share){.pool = NULL};
}

void gb_pending_pool_ended(struct gb_pending *pending, const struct gb_pool *pool)
{
    struct gb_pending_stream *stream;

    if (!pool || atomic_load(&pending->entries) == 0)
        return;
    gb_lock_take(&pending->lock);
    for (stream = pending->streams; stream; stream = stream->hh.next) {
        if (stream->slot && atomic_load(&stream->slot->pool) == pool)
            atomic_store(&stream->slot->pool, NULL);
        forget(stream, pool);
    }
    for (stream = pending->ended; stream; stream = stream->next)
        forget(stream, pool);
    gb_lock_drop(&pending->lock);
}

void gb_pending_forget_shares(struct gb_pending *pending)
{
    struct gb_pending_stream *stream;

    gb_lock_take(&pending->lock);
    for (stream = pending->streams; stream; stream = stream->hh.next) {
        gb_pending_slot_drain(pending, stream);
        for (int i = 0; i < GB_PENDING_SHARES; i++) {
            stream->loose |= stream->shares[i].unmarked > 0;
            stream->loose_marked |= stream->shares[i].marked + stream->shares[i].marking > 0;
            stream->shares[i] = (struct gb_pending_share){.pool = NULL};
        }
    }
    gb_lock_drop(&pending->lock);
}
