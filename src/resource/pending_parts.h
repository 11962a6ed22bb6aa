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

/* With the lock held: it has proven what it owed; answers shared bytes that are settled. */
uint64_t gb_pending_owes_no_more(struct gb_pending *pending, struct gb_pending_stream *stream,
                                 bool next_too);

/* pending_shares.c: which pools' memory is pending. With the lock held, all of these. */

void gb_pending_share_add(struct gb_pending_stream *stream, struct gb_pool *pool,
                          uint64_t bytes, uint64_t piece);

/* The stream's share of the pool, or NULL. */
struct gb_pending_share *gb_pending_share_of(struct gb_pending_stream *stream,
                                             const struct gb_pool *pool);

/* A mark is being set behind all that is unmarked; then it is set, or it could not be. */
void gb_pending_shares_begin(struct gb_pending_stream *stream);
void gb_pending_shares_end(struct gb_pending_stream *stream, bool marked);

/* The mark that was out is lost: what it covered has none. */
void gb_pending_shares_lost(struct gb_pending_stream *stream);

/* The mark has been reached; or all, marked or not, has been given back. */
void gb_pending_shares_proven(struct gb_pending_stream *stream, bool unmarked_too);

/* After bytes of the stream have been taken over by a grant of that pool: no share tells of
 * more than there is, and the pool's own falls first. */
void gb_pending_shares_fit(struct gb_pending_stream *stream, struct gb_pool *pool,
                           uint64_t taken);

/* Between two looks at an entry that is busy. */
void gb_pending_pause(int turn);

/* May this thread set a mark on the stream? Another's per-thread stream it cannot name. */
bool gb_pending_may_mark(const struct gb_stream_key *key);

/* Frees an entry that is in no list. */
void gb_pending_free_stream(struct gb_pending_stream *stream);

/* The entry's hash in the table. */
unsigned gb_pending_hash(const struct gb_stream_key *key);

#endif
