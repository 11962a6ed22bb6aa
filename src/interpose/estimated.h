/*
 * estimated.h: calls that end or use something which only the card's tools can tell the size
 * of, where they may not tell.
 */
#ifndef GB_INTERPOSE_ESTIMATED_H
#define GB_INTERPOSE_ESTIMATED_H

#include "interpose/process.h"

/*
 * Around a call that ends something which only the card's tools can tell the size of. Before
 * it, what stands for it as an estimate is taken; done: the call has succeeded.
 */
struct gb_ending {
    struct gb_device *device; /* NULL: there is no estimate */
    struct gb_estimate *estimate;
};
struct gb_ending gb_ending_begins(enum gb_measured which, const void *handle);
void gb_ending_done(const struct gb_ending *ending, bool done);

/*
 * Around a call in the current context that may take memory, is not refused and cannot be
 * undone. Where the tools do not tell, what the card lost is charged to the handle.
 */
struct gb_use {
    struct gb_device *device; /* NULL: nothing to note */
    struct gb_card before;
};
void gb_use_begins(struct gb_driver *drv, struct gb_use *use);
void gb_use_done(struct gb_driver *drv, const struct gb_use *use, enum gb_measured which,
                 const void *handle);

#endif
