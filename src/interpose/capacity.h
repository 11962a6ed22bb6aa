/*
 * capacity.h: the size of a card as a program is to see it, the same in every answer: a card of
 * the size of its limit.
 */
#ifndef GB_INTERPOSE_CAPACITY_H
#define GB_INTERPOSE_CAPACITY_H

#include "interpose/process.h"

/* Is a program told the limit, or the card (GPUBUDGET_CAPACITY)? */
bool gb_capacity_is_limit(void);

/* A device with a budget: the smallest of its limit, its job's, the card, and what MPS allows.
 */
uint64_t gb_capacity_total(const struct gb_device *device);

/*
 * What its budget and its job's have left, the reserve not counted, and not more than the card
 * has; frees that are done count as free. Neighbours that take memory do not change it while
 * the card has as much.
 */
uint64_t gb_capacity_free(struct gb_device *device, uint64_t physically_free);

#endif
