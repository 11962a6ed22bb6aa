/*
 * visible.h: which cards CUDA shows a program and how it counts them, by CUDA_VISIBLE_DEVICES:
 * for those who cannot ask CUDA, since it has not begun.
 */
#ifndef GB_CONFIG_VISIBLE_H
#define GB_CONFIG_VISIBLE_H

#include "config/limit.h"

#include <stdbool.h>
#include <stdint.h>

enum { GB_VISIBLE_MAX = 64 };

/* CUDA gives the card no number. */
#define GB_VISIBLE_HIDDEN UINT32_MAX

/* The cards of the machine in the order of the bus, as NVML knows them. */
struct gb_visible_cards {
    uint32_t count;     /* 0: they are not known */
    bool is_in_order;   /* CUDA counts them so: it was told to, or they are of one model */
    bool is_one_by_one; /* none is divided into instances, which CUDA shows in its place */
    char uuids[GB_VISIBLE_MAX][GB_LIMIT_NAME];
};

/* A card, or a MIG instance. */
struct gb_visible_card {
    const char *uuid;
    /* Of a MIG instance alone: what its card is called, and the older name of itself
     * ("MIG-GPU-UUID/GI/CI"); "" where that is not known. */
    const char *card_uuid, *old_name;
};

/*
 * The number that CUDA will give the card, GB_VISIBLE_HIDDEN for none. list: the value of
 * CUDA_VISIBLE_DEVICES, NULL where it is not set. False: it may be any. So it is where CUDA
 * counts in another order, unless the list is of UUIDs; and where the list names a card that is
 * divided into instances, by number or UUID: CUDA shows the first of them.
 */
bool gb_visible_ordinal(const char *list, const struct gb_visible_cards *cards,
                        const struct gb_visible_card *card, uint32_t *ordinal);

#endif
