/*
 * pending_slots.h: the usual case of a free in stream order, and of a request that takes one
 * over, without the lock and without memory that other streams' threads write.
 */
#ifndef GB_RESOURCE_PENDING_SLOTS_H
#define GB_RESOURCE_PENDING_SLOTS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "resource/block_table.h"

struct gb_pending;
struct gb_pending_stream;
struct gb_pool;
struct gb_stream_key;

enum { GB_PENDING_SLOTS = 64 };

/*
 * Belongs to one stream from the moment its entry is prepared until the stream ends; where two
 * streams' places are the same, the later one has none. Invariant: noted is set only while a
 * mark is out or being set, or its context is being ended; so a free that finds it set has
 * nothing to do but to add its bytes, and both are one word, so that none is added any more
 * once it is cleared. The bytes are memory of one pool; a thread that comes late may add those
 * of another, which makes a stream wait in vain and no figure wrong.
 */
struct gb_pending_slot {
    /* What the hot path writes lies in 16 bytes, which no cache line divides. */
    _Alignas(16) _Atomic uintptr_t stream; /* gb_pending_note_of; 0: free */
    _Atomic uint64_t word;          /* turn of the slot, lent, noted, bytes: see the .c file */
    _Atomic(struct gb_pool *) pool; /* whose memory the bytes are; NULL: nobody's yet */
    char apart[64 - 3 * sizeof(uint64_t)];
    /* The entry of one live block at a time that came from here (gb_pending_unkeep_all): a
     * stream that takes a block and frees it again needs no other. */
    struct gb_block block;
    char apart_too[64 - 2 * sizeof(uint64_t)];
};

/* The place of a stream: where that is taken by another one, it has the one beside it. */
static inline unsigned gb_pending_place_of(uintptr_t note)
{
    return (unsigned)((note >> 3) * UINT64_C(0x9e3779b97f4a7c15) >> 58);
}

static inline unsigned gb_pending_place_beside(unsigned place)
{
    return place ^ 1;
}

/* Is there nothing to do for another free of gauged memory, of which (loose) nothing is known
 * or which is no pool's here? */
bool gb_pending_is_noted(const struct gb_pending_slot *slot, bool loose);

/* Adds the bytes of a free; false where that is not all there is to do. */
bool gb_pending_keep(struct gb_pending_slot *slot, const struct gb_pool *pool, uint64_t bytes);

/* The same for the charge of the slot's own block, which is back then; false also where it is
 * another one. */
bool gb_pending_keep_block(struct gb_pending_slot *slot, const struct gb_block *block);

/* Takes up to `most` of them away; answers how many. */
uint64_t gb_pending_unkeep(struct gb_pending_slot *slot, uint64_t most);

/* Takes exactly so many, and the slot's own block as an entry for them, with what it was last
 * in it; NULL: it is lent already. False: there are less. */
bool gb_pending_unkeep_all(struct gb_pending_slot *slot, uint64_t bytes,
                           struct gb_block **block);

/* What became of it: for gb_block_free, which knows it by `lent`. */
void gb_pending_return_block(struct gb_block *block);

/* Bytes in the slot. */
uint64_t gb_pending_kept(const struct gb_pending_slot *slot);

/* With the lock held, all of these; an entry without a slot has nothing there. */

/* Gives the entry its stream's slot, if that is free. */
void gb_pending_slot_claim(struct gb_pending *pending, struct gb_pending_stream *stream);

/* A mark is out: frees of that pool need not take the lock. */
void gb_pending_slot_note(struct gb_pending_stream *stream, struct gb_pool *pool);

/* From here on they must; what the slot has becomes the entry's. */
void gb_pending_slot_drain(struct gb_pending *pending, struct gb_pending_stream *stream);

/* The same, for good. */
void gb_pending_slot_release(struct gb_pending *pending, struct gb_pending_stream *stream);

#endif
