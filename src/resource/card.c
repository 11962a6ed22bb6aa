/*
 * card.c: what a call took by the free memory of the whole card.
 */
#include "resource/card.h"

#include <stdatomic.h>

#include "resource/backend.h"
#include "resource/nap.h"
#include "resource/resource.h"

/* A restless card is looked at so often, and so long in between. */
enum { LOOKS = 8, NAP_NS = 500000 };

static bool look(struct gb_backend *backend, const struct gb_driver_api *api, uint64_t own,
                 struct gb_card *card)
{
    struct gb_hint hint = {.source = card->source};

    /* The card carries out a free in stream order at any time. */
    card->still = gb_giving_count(&card->given) && gb_pending_bytes(&backend->pending) == 0;
    /* What gauges charge by a bound would seem to be taken; what a pool has let go of is not
     * charged any more. */
    gb_other_refresh_gauges(backend);
    card->known = gb_other_level(backend, api, &hint, &card->level);
    card->free = hint.free;
    card->source = hint.source;
    /* What others have taken and not posted yet shows as untracked. */
    card->calm = gb_other_in_flight(backend) <= own;
    return card->known;
}

/* Until two looks in a row see the same. */
static bool rests(struct gb_backend *backend, const struct gb_driver_api *api, uint64_t own,
                  struct gb_card *card)
{
    for (int i = 0; i < LOOKS; i++) {
        uint64_t level = card->level;
        bool calm = card->calm;

        gb_nap(NAP_NS);
        if (!look(backend, api, own, card))
            return false;
        if (calm && card->calm && card->level == level)
            return true;
    }
    return false;
}

void gb_card_before(struct gb_backend *backend, const struct gb_driver_api *api, uint64_t own,
                    bool closely, struct gb_card *card)
{
    struct gb_other *other = &backend->other;

    *card = (struct gb_card){.known = false};
    if (!look(backend, api, own, card))
        return;
    if (!closely) {
        card->calm = false;
        return;
    }
    /* Since the call before it nothing has moved: so it rests. */
    if (card->calm && card->level == atomic_load(&other->rested) &&
        card->source == atomic_load(&other->rested_source))
        return;
    card->calm = rests(backend, api, own, card);
}

bool gb_card_after(struct gb_backend *backend, const struct gb_driver_api *api, uint64_t own,
                   const struct gb_card *before, int64_t *lost, bool *calm)
{
    struct gb_card after = {.source = before->source};

    if (!before->known)
        return false;
    if (!look(backend, api, own, &after))
        return false;
    *lost = (int64_t)(before->level - after.level);
    *calm = before->calm && after.calm;
    /* Where nothing has moved at all there is nothing to wait for. */
    if (*lost != 0 && before->calm) {
        uint64_t level = after.level;

        gb_nap(NAP_NS);
        *calm = *calm && look(backend, api, own, &after) && after.calm && after.level == level;
    }
    if (*calm) {
        atomic_store(&backend->other.rested, after.level);
        atomic_store(&backend->other.rested_source, after.source);
    }
    return true;
}

bool gb_card_rests(struct gb_backend *backend, const struct gb_driver_api *api,
                   const struct gb_card *before)
{
    struct gb_card now = {.source = before->source};
    uint64_t given;

    return before->known && before->still && look(backend, api, 0, &now) && now.still &&
           now.free == before->free && now.level == before->level && gb_giving_count(&given) &&
           given == before->given;
}
