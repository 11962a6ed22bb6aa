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

/* A card as NVML knows it. */
struct gb_visible_card {
    uint32_t index; /* in the order of the bus */
    const char *uuid;
    /* Of a MIG instance alone: what its card is called, and the older name of itself
     * ("MIG-GPU-UUID/GI/CI"); "" where that is not known. */
    const char *card_uuid, *old_name;
};

/*
 * The number that CUDA will give the card, GB_VISIBLE_HIDDEN for none. list: the value of
 * CUDA_VISIBLE_DEVICES, NULL where it is not set. in_order: CUDA counts in the order of the bus
 * (CUDA_DEVICE_ORDER=PCI_BUS_ID, or cards of one model). Else a place in the list that is a
 * number may be any card: false, unless the UUID is there as well. So may one that is the
 * number or the UUID of a card that is divided into instances: CUDA shows the first of them.
 */
bool gb_visible_ordinal(const char *list, bool in_order, const struct gb_visible_card *card,
                        uint32_t *ordinal);

#endif
