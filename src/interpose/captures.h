/*
 * captures.h: can any stream of this process be capturing?
 */
#ifndef GB_INTERPOSE_CAPTURES_H
#define GB_INTERPOSE_CAPTURES_H

#include "driver/driver.h"

#include <stdatomic.h>
#include <stdbool.h>

/*
 * False: no stream captures, and the driver need not be asked about one. Captures are counted
 * where they begin and end, so this costs a load; the answer is true for ever where the driver
 * may know a way to begin one that this library does not (newer than CUDA 13.0).
 */
static inline bool gb_captures_possible(struct gb_driver *drv);

/* Of captures.c, here for the inline function only. */
struct gb_captures {
    atomic_int going; /* that have begun and not ended */
    /* Of each copy, whether all its ways to begin one are known. */
    _Atomic enum { GB_CAPTURES_UNKNOWN, GB_CAPTURES_OLD, GB_CAPTURES_NEW } ages[GB_DRIVER_MAX];
};
extern struct gb_captures gb_captures;
bool gb_captures_ask(struct gb_driver *drv);

static inline bool gb_captures_possible(struct gb_driver *drv)
{
    return atomic_load_explicit(&gb_captures.going, memory_order_acquire) > 0 ||
           (atomic_load_explicit(&gb_captures.ages[drv->index], memory_order_relaxed) !=
                GB_CAPTURES_OLD &&
            gb_captures_ask(drv));
}

/* Before the driver begins a capture; failed: it did not. */
void gb_captures_begin(void);
void gb_captures_failed(void);

/* Around the driver's end of a capture: was the stream capturing, and has that ended? */
bool gb_captures_before_end(struct gb_driver *drv, CUstream stream);
void gb_captures_after_end(struct gb_driver *drv, CUstream stream, bool captured,
                           CUresult code);

#endif
