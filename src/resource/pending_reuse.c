/*
 * pending_reuse.c: what is pending, requests that take it over, and entries that come back.
 */
#include <stdatomic.h>

#include "resource/pending_parts.h"

uint64_t gb_pending_bytes(struct gb_pending *pending)
{
    uint64_t bytes;

    /* With the lock, so that nothing is between a slot and its entry. */
    gb_lock_take(&pending->lock);
    bytes = atomic_load(&pending->bytes);
    for (int i = 0; i < GB_PENDING_SLOTS && !pending->gauged; i++)
        bytes += gb_pending_kept(&pending->slots[i]);
    gb_lock_drop(&pending->lock);
    return bytes;
}

uint64_t gb_pending_on_stream(struct gb_pending *pending, const struct gb_stream_key *key)
{
    struct gb_pending_batch *batch = NULL;
    struct gb_pending_stream *stream;
    uint64_t bytes = 0;

    if (atomic_load(&pending->entries) == 0)
        return 0;
    gb_lock_take(&pending->lock);
    stream = gb_pending_find(pending, key);
    while (stream && (batch = gb_pending_next_batch(stream, batch)))
        bytes += batch->bytes;
    if (stream && stream->slot)
        bytes += gb_pending_kept(stream->slot);
    gb_lock_drop(&pending->lock);
    return bytes;
}

uint64_t gb_pending_take_over(struct gb_pending *pending, const struct gb_stream_key *key,
                              struct gb_pool *pool, uint64_t most)
{
    struct gb_pending_slot *slot = gb_pending_slot_of(pending, gb_pending_note_of(key));
    uint64_t kept = slot ? gb_pending_unkeep(slot, most) : 0, taken = 0;
    struct gb_pending_batch *batch = NULL;
    struct gb_pending_stream *stream;

    most -= kept;
    if (most == 0 || atomic_load(&pending->bytes) == 0)
        return kept;
    gb_lock_take(&pending->lock);
    stream = gb_pending_find(pending, key);
    /* The pool's own first, whenever they were freed: no other pool gives them out. */
    while (pool && stream && taken < most && (batch = gb_pending_next_batch(stream, batch))) {
        const struct gb_pending_share *share = gb_batch_share_of(batch, pool);

        if (share)
            taken += gb_batch_take(batch, pool,
                                   share->bytes < most - taken ? share->bytes : most - taken);
    }
    batch = NULL;
    while (stream && taken < most && (batch = gb_pending_next_batch(stream, batch)))
        taken += gb_batch_take(batch, pool, most - taken);
    gb_lock_drop(&pending->lock);
    atomic_fetch_sub(&pending->bytes, taken);
    return kept + taken;
}

void gb_pending_add_freed(struct gb_pending *pending, const struct gb_stream_key *key,
                          struct gb_block *block)
{
    struct gb_pending_slot *slot = gb_pending_slot_of(pending, gb_pending_note_of(key));

    if (slot && !gb_pending_wants_mark(pending, block->charged) &&
        gb_pending_keep_block(slot, block))
        return;
    gb_pending_add(pending, key, block->pool, block->charged, NULL);
    gb_block_free(block);
}
