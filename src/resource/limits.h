/*
 * limits.h: what a limit of a context was before it is being set.
 *
 * A limit that took more than fits is put back. What the driver tells then, or told before, may
 * be what another thread has set in the meantime and is about to put back itself: with that the
 * refused memory would stay. So of threads that set the same limit at the same time all know
 * what it was before the first of them, or what has been granted since.
 */
#ifndef GB_RESOURCE_LIMITS_H
#define GB_RESOURCE_LIMITS_H

#include "driver/api.h"

#include <stdbool.h>
#include <stddef.h>

/* One call that sets a limit. */
struct gb_limit_change {
    const struct gb_driver_api *api;
    CUlimit limit;
    struct gb_limit_shared *shared; /* NULL: too many at once, so it is on its own */
    bool known;                     /* without the others */
    size_t value;
};

/* Before it is set, in the current context `context`. */
void gb_limit_change_begins(struct gb_limit_change *change, const struct gb_driver_api *api,
                            CUcontext context, CUlimit limit);

/* What it has to be put back to. False: the driver did not say. */
bool gb_limit_change_old(const struct gb_limit_change *change, size_t *value);

/* After it, also where it has been put back. granted: it stands, with that value. */
void gb_limit_change_ends(struct gb_limit_change *change, bool granted, size_t value);

/* In the child of a fork: no call is going on. */
void gb_limits_forked(void);

#endif
