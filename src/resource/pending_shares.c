/*
 * pending_shares.c: which pools' memory is pending, for all streams.
 */
#include <stdatomic.h>

#include "resource/pending_parts.h"

/* With the lock held: it lies in a piece that some stream has freed. */
static bool take_placed(struct gb_pending *pending, const struct gb_pool *pool, uint64_t from,
                        uint64_t bytes)
{
    struct gb_pending_stream *stream;

    for (stream = pending->streams; stream; stream = stream->hh.next)
        if (gb_pending_take_piece(stream, pool, from, bytes))
            return true;
    for (stream = pending->ended; stream; stream = stream->next)
        if (gb_pending_take_piece(stream, pool, from, bytes))
            return true;
    return false;
}

bool gb_pending_reuse_placed(struct gb_pending *pending, const struct gb_pool *pool,
                             uint64_t from, uint64_t bytes)
{
    bool found;

    if (from == 0 || atomic_load(&pending->entries) == 0)
        return false;
    gb_lock_take(&pending->lock);
    found = take_placed(pending, pool, from, bytes);
    gb_lock_drop(&pending->lock);
    return found;
}

void gb_pending_reuse(struct gb_pending *pending, const struct gb_stream_key *key,
                      struct gb_pool *pool, uint64_t from, uint64_t bytes)
{
    struct gb_pending_slot *slot = gb_pending_slot_of(pending, gb_pending_note_of(key));
    struct gb_pending_batch *batch = NULL;
    struct gb_pending_stream *stream;

    if (gb_pending_reuse_placed(pending, pool, from, bytes))
        return;
    if (slot && atomic_load(&slot->pool) == pool)
        bytes -= gb_pending_unkeep(slot, bytes);
    if (bytes == 0 || atomic_load(&pending->entries) == 0)
        return;
    gb_lock_take(&pending->lock);
    stream = gb_pending_find(pending, key);
    while (stream && bytes > 0 && (batch = gb_pending_next_batch(stream, batch)))
        bytes -= gb_batch_take_unplaced(batch, pool, bytes);
    gb_lock_drop(&pending->lock);
}

static void forget(struct gb_pending_stream *stream, const struct gb_pool *pool)
{
    struct gb_pending_batch *batch = NULL;

    while ((batch = gb_pending_next_batch(stream, batch))) {
        struct gb_pending_share *share = gb_batch_share_of(batch, pool);

        if (share)
            *share = (struct gb_pending_share){.pool = NULL};
    }
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
        struct gb_pending_batch *batch = NULL;

        gb_pending_slot_drain(pending, stream);
        while ((batch = gb_pending_next_batch(stream, batch)))
            gb_batch_loosen(batch);
    }
    gb_lock_drop(&pending->lock);
}
