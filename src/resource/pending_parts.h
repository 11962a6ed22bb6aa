/*
 * pending_parts.h: what pending.c (frees come) and pending_ends.c (frees are proven, streams
 * and contexts end) share.
 */
#ifndef GB_RESOURCE_PENDING_PARTS_H
#define GB_RESOURCE_PENDING_PARTS_H

#include "resource/pending.h"

/* How often a thread yields to one that is asking the driver about the same stream ... */
enum { BUSY_TURNS = 200 };

/* ... and how long it waits for it where the stream, or its context, ends: about a second, for
 * calls that take microseconds. A mark must not be set on a stream that is gone. */
enum { END_TURNS = 20000 };

/* The last mark of a stream that ends: what it does not prove is given back too early. */
enum { LAST_MARK_TRIES = 3 };

/* With the lock held: the entry of a stream, or NULL. */
struct gb_pending_stream *gb_pending_find(struct gb_pending *pending,
                                          const struct gb_stream_key *key);

/* With the lock held: waits, for so many turns, until nobody calls the driver for the entry. */
struct gb_pending_stream *gb_pending_find_idle(struct gb_pending *pending,
                                               const struct gb_stream_key *key, int turns);

/* With the lock held, dropped around the driver: a mark behind all frees so far. */
void gb_pending_set_mark(struct gb_pending *pending, struct gb_pending_stream *stream);

/* With no lock held: gives proven bytes and blocks back. */
void gb_pending_settle(struct gb_pending *pending, uint64_t bytes, struct gb_block *blocks);

/* Does the next mark have something to prove? */
bool gb_pending_has_unmarked(const struct gb_pending_stream *stream);

/* With the lock held: marks up to that number have proven theirs; answers shared bytes that are
 * settled. */
uint64_t gb_pending_owes_no_more(struct gb_pending *pending, struct gb_pending_stream *stream,
                                 uint64_t number);

/* With the lock held: all batches of a stream, from what was freed last to what was first; NULL
 * begins and ends. */
struct gb_pending_batch *gb_pending_next_batch(struct gb_pending_stream *stream,
                                               const struct gb_pending_batch *after);

/* With the lock held: its oldest marks are no longer out, so many of them, and their nodes
 * spare. The caller has taken what was in their batches. */
void gb_pending_drop_marks(struct gb_pending_stream *stream, unsigned number);

/* pending_batch.c, with the lock held, all of these. */

void gb_batch_add_share(struct gb_pending_batch *batch, struct gb_pool *pool, uint64_t bytes,
                        uint64_t piece, uint64_t from);

/* The batch's share of the pool, or NULL. */
struct gb_pending_share *gb_batch_share_of(struct gb_pending_batch *batch,
                                           const struct gb_pool *pool);

/* Has it nothing to prove? */
bool gb_batch_is_empty(const struct gb_pending_batch *batch);

/* All of `from` stands in `to`. */
void gb_batch_merge(struct gb_pending_batch *to, struct gb_pending_batch *from);

/* Up to `most` bytes are a grant's of that pool: no share tells of more than there is, and the
 * pool's own falls first. Answers how many. */
uint64_t gb_batch_take(struct gb_pending_batch *batch, const struct gb_pool *pool,
                       uint64_t most);

/* The same of the share alone. */
uint64_t gb_batch_take_share(struct gb_pending_batch *batch, const struct gb_pool *pool,
                             uint64_t most);

/* Nobody tells its pools apart from here on. */
void gb_batch_loosen(struct gb_pending_batch *batch);

/* Where blocks of a pool begin and end. */
#define GB_POOL_BLOCK_STEP 512

/* Has the stream freed a block beside this one? */
bool gb_pending_has_neighbour(struct gb_pending_stream *stream,
                              const struct gb_pending_freed *freed);

/*
 * Footprint mode: the block is freed on the stream now. The pool joins it with its neighbours
 * that the same stream has freed, and gives nothing of the whole out but behind this free
 * (measured, docs/driver-behaviour.md). So it stands in `unmarked` with all of them, and no
 * earlier mark gives them out any more. True: there was one that had a mark.
 */
bool gb_pending_add_piece(struct gb_pending_stream *stream,
                          const struct gb_pending_freed *freed);

/* Has one of its marks a block of the pool whose address is known? */
bool gb_pending_has_pieces(struct gb_pending_stream *stream, const struct gb_pool *pool);

/* The block lies in a piece of the stream's, which is less by it from here on. */
bool gb_pending_take_piece(struct gb_pending_stream *stream, const struct gb_pool *pool,
                           uint64_t from, uint64_t bytes);

/* Of what is not known where it lies up to `most` bytes are a grant's; answers how many. */
uint64_t gb_batch_take_unplaced(struct gb_pending_batch *batch, const struct gb_pool *pool,
                                uint64_t most);

/* What all the stream's batches have of the pool. */
uint64_t gb_pending_of_pool(struct gb_pending_stream *stream, const struct gb_pool *pool);

/* Between two looks at an entry that is busy. */
void gb_pending_pause(int turn);

/* May this thread set a mark on the stream? Another's per-thread stream it cannot name. */
bool gb_pending_may_mark(const struct gb_stream_key *key);

/* Frees an entry that is in no list. */
void gb_pending_free_stream(struct gb_pending_stream *stream);

/* The entry's hash in the table. */
unsigned gb_pending_hash(const struct gb_stream_key *key);

#endif
