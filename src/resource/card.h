/*
 * card.h: what a call took by the free memory of the whole card: asked before and after it.
 */
#ifndef GB_RESOURCE_CARD_H
#define GB_RESOURCE_CARD_H

#include "driver/api.h"

#include <stdbool.h>
#include <stdint.h>

struct gb_backend;

/* One look at the card. */
struct gb_card {
    uint64_t free;  /* bytes; as the card says */
    uint64_t level; /* the same plus all that is tracked here: see other.h */
    unsigned source;
    bool known;
    bool calm;      /* nothing untracked has moved of late, here or at a neighbour */
    uint64_t given; /* how often memory had been given back ... */
    bool still;     /* ... and none was on its way: the ledger is as the card is */
};

/*
 * Before the call. closely: the answer matters, since nothing better tells; then a card that
 * has moved since it was looked at last is watched for some milliseconds, until it rests. own:
 * bytes in flight of the caller.
 */
void gb_card_before(struct gb_backend *backend, const struct gb_driver_api *api, uint64_t own,
                    bool closely, struct gb_card *card);

/*
 * After it: how much the card has lost and nothing tracked accounts for; negative: it has more.
 * *calm: it rested before and rests after, so that it is the call's own doing, as far as that
 * can be seen. False: not known.
 */
bool gb_card_after(struct gb_backend *backend, const struct gb_driver_api *api, uint64_t own,
                   const struct gb_card *before, int64_t *lost, bool *calm);

/*
 * Has it exactly what it had before, and that is no coincidence? What a call takes does not
 * show in the card's free bytes where as much of another thread's goes just then; that shows in
 * the ledger, or is still on its way there.
 */
bool gb_card_rests(struct gb_backend *backend, const struct gb_driver_api *api,
                   const struct gb_card *before);

#endif
