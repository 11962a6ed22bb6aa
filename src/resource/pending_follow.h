/*
 * pending_follow.h: a request's stream waits for other streams whose freed memory it needs, as
 * the card would have it do; the host does not wait.
 */
#ifndef GB_RESOURCE_PENDING_FOLLOW_H
#define GB_RESOURCE_PENDING_FOLLOW_H

#include "resource/pending.h"

/* What other streams have freed of a pool, as far as is known, and is not proven. */
struct gb_followable {
    uint64_t bytes;
    bool loose; /* and somewhere some more, of which neither pool nor size is known */
};

void gb_pending_followable(struct gb_pending *pending, const struct gb_stream_key *key,
                           const struct gb_pool *pool, struct gb_followable *found);

/*
 * Makes the stream wait for marks behind frees of `bytes` of the pool on other streams, for as
 * few of those as do; in footprint mode of one block that is large enough. Those bytes are then
 * pending on this stream, whose next work is ordered behind the frees. False: there is no such
 * mark, and the stream waits for nobody; or the driver refused.
 */
bool gb_pending_follow(struct gb_pending *pending, const struct gb_stream_key *key,
                       struct gb_pool *pool, uint64_t bytes);

/* Makes it wait for all marks behind frees of which it is not known what they are. */
bool gb_pending_follow_loose(struct gb_pending *pending, const struct gb_stream_key *key);

/* What would come back if the host waited, as far as is known. */
void gb_pending_waitable(struct gb_pending *pending, struct gb_followable *found);

#endif
