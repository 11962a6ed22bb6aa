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
    struct gb_pending_stream *stream;
    uint64_t bytes = 0;

    if (atomic_load(&pending->entries) == 0)
        return 0;
    gb_lock_take(&pending->lock);
    stream = gb_pending_find(pending, key);
    if (stream)
        bytes = stream->marked + stream->unmarked +
                (stream->slot ? gb_pending_kept(stream->slot) : 0);
    gb_lock_drop(&pending->lock);
    return bytes;
}

uint64_t gb_pending_take_over(struct gb_pending *pending, const struct gb_stream_key *key,
                              struct gb_pool *pool, uint64_t most)
{
    struct gb_pending_slot *slot = gb_pending_slot_of(pending, gb_pending_note_of(key));
    uint64_t taken = slot ? gb_pending_unkeep(slot, most) : 0;
    uint64_t from_unmarked, from_marked;
    struct gb_pending_stream *stream;

    most -= taken;
    if (most == 0 || atomic_load(&pending->bytes) == 0)
        return taken;
    gb_lock_take(&pending->lock);
    stream = gb_pending_find(pending, key);
    if (!stream) {
        gb_lock_drop(&pending->lock);
        return taken;
    }
    from_unmarked = stream->unmarked < most ? stream->unmarked : most;
    stream->unmarked -= from_unmarked;
    most -= from_unmarked;
    from_marked = stream->marked < most ? stream->marked : most;
    stream->marked -= from_marked;
    gb_pending_shares_fit(stream, pool, from_unmarked + from_marked);
    gb_lock_drop(&pending->lock);
    atomic_fetch_sub(&pending->bytes, from_unmarked + from_marked);
    return taken + from_unmarked + from_marked;
}

void gb_pending_add_freed(struct gb_pending *pending, const struct gb_stream_key *key,
                          struct gb_block *block)
{
    struct gb_pending_slot *slot = gb_pending_slot_of(pending, gb_pending_note_of(key));

    if (slot && gb_pending_keep_block(slot, block))
        return;
    gb_pending_add(pending, key, block->pool, block->charged, NULL);
    gb_block_free(block);
}
