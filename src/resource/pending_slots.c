/*
 * pending_slots.c: frees and take-overs that need no lock.
 *
 * A slot's word: bytes in the low 44 bits (16 TiB), then `noted`, then `loose` as in the entry,
 * then whether its own block is lent, and above how often the slot has been given away, so that
 * a thread which comes late with a change does not change what is another stream's by now.
 */
#include "resource/pending_slots.h"

#include <stddef.h>

#include "resource/pending_parts.h"

#define BYTES UINT64_C(0xfffffffffff)
#define NOTED (BYTES + 1)
#define LOOSE (NOTED << 1)
#define LENT  (LOOSE << 1)
#define TURN  (LENT << 1)

bool gb_pending_is_noted(const struct gb_pending_slot *slot, bool loose)
{
    return (~atomic_load(&slot->word) & (loose ? NOTED | LOOSE : NOTED)) == 0;
}

/* back: LENT where the slot's own block comes back with them. */
static bool keep(struct gb_pending_slot *slot, uint64_t bytes, uint64_t back)
{
    uint64_t word = atomic_load(&slot->word);

    do {
        if (!(word & NOTED) || bytes > BYTES - (word & BYTES))
            return false;
    } while (!atomic_compare_exchange_weak(&slot->word, &word, word + bytes - back));
    return true;
}

/* Is it the pool whose bytes are there? Where no pool is known, none is told apart. */
static bool is_of(struct gb_pending_slot *slot, const struct gb_pool *pool)
{
    return atomic_load_explicit(&slot->pool, memory_order_relaxed) == pool;
}

bool gb_pending_keep(struct gb_pending_slot *slot, const struct gb_pool *pool, uint64_t bytes)
{
    return is_of(slot, pool) && keep(slot, bytes, 0);
}

bool gb_pending_keep_block(struct gb_pending_slot *slot, const struct gb_block *block)
{
    return block == &slot->block && is_of(slot, block->pool) &&
           keep(slot, block->charged, LENT);
}

void gb_pending_return_block(struct gb_block *block)
{
    char *slot = (char *)block - offsetof(struct gb_pending_slot, block);

    atomic_fetch_and(&((struct gb_pending_slot *)slot)->word, ~LENT);
}

uint64_t gb_pending_unkeep(struct gb_pending_slot *slot, uint64_t most)
{
    uint64_t word = atomic_load(&slot->word);
    uint64_t bytes;

    do {
        bytes = word & BYTES;
        if (bytes > most)
            bytes = most;
    } while (bytes > 0 && !atomic_compare_exchange_weak(&slot->word, &word, word - bytes));
    return bytes;
}

bool gb_pending_unkeep_all(struct gb_pending_slot *slot, uint64_t bytes,
                           struct gb_block **block)
{
    uint64_t word = atomic_load(&slot->word);
    uint64_t lend;

    do {
        if ((word & BYTES) < bytes)
            return false;
        lend = ~word & LENT;
    } while (!atomic_compare_exchange_weak(&slot->word, &word, word - bytes + lend));
    *block = NULL;
    if (lend) {
        slot->block.lent = true;
        *block = &slot->block;
    }
    return true;
}

uint64_t gb_pending_kept(const struct gb_pending_slot *slot)
{
    return atomic_load(&slot->word) & BYTES;
}

void gb_pending_slot_claim(struct gb_pending *pending, struct gb_pending_stream *stream)
{
    uintptr_t note = gb_pending_note_of(&stream->key);
    struct gb_pending_slot *slot;
    unsigned place;

    if (note == 0 || stream->slot)
        return;
    place = gb_pending_place_of(note);
    if (atomic_load(&pending->slots[place].stream) != 0)
        place = gb_pending_place_beside(place);
    slot = &pending->slots[place];
    if (atomic_load(&slot->stream) != 0)
        return;
    stream->slot = slot;
    atomic_store(&slot->stream, note);
}

void gb_pending_slot_note(struct gb_pending_stream *stream, struct gb_pool *pool)
{
    struct gb_pending_slot *slot = stream->slot;

    stream->noted = true;
    if (!slot)
        return;
    /* What is there already stays what it is; frees of another pool go the long way. */
    if (pool && gb_pending_kept(slot) == 0)
        atomic_store(&slot->pool, pool);
    atomic_fetch_or(&slot->word, stream->unmarked.loose ? NOTED | LOOSE : NOTED);
}

void gb_pending_slot_drain(struct gb_pending *pending, struct gb_pending_stream *stream)
{
    struct gb_pending_slot *slot = stream->slot;
    uint64_t bytes;

    stream->noted = false;
    if (!slot || (atomic_load(&slot->word) & (BYTES | NOTED)) == 0)
        return;
    bytes = atomic_fetch_and(&slot->word, ~(BYTES | NOTED | LOOSE)) & BYTES;
    /* How many blocks these are is not known. */
    gb_batch_add_share(&stream->unmarked, atomic_load(&slot->pool), bytes, 0, 0);
    if (pending->gauged)
        return;
    stream->unmarked.bytes += bytes;
    atomic_fetch_add(&pending->bytes, bytes);
}

void gb_pending_slot_release(struct gb_pending *pending, struct gb_pending_stream *stream)
{
    struct gb_pending_slot *slot = stream->slot;

    gb_pending_slot_drain(pending, stream);
    if (!slot)
        return;
    atomic_fetch_add(&slot->word, TURN);
    atomic_store(&slot->pool, NULL);
    stream->slot = NULL;
    atomic_store(&slot->stream, 0);
}
