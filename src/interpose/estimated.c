/*
 * estimated.c: calls that end or use something which only the card's tools can tell the size
 * of.
 */
#include "interpose/estimated.h"

#include <stdatomic.h>

struct gb_ending gb_ending_begins(enum gb_measured which, const void *handle)
{
    int count = gb_process_device_count();
    struct gb_ending ending = {NULL, NULL};

    for (int i = 0; i < count && !ending.estimate; i++) {
        ending.device = gb_process_device_at(i);
        if (ending.device)
            ending.estimate = gb_estimates_take(&ending.device->backend.estimates, which,
                                                (uint64_t)(uintptr_t)handle);
    }
    return ending;
}

void gb_ending_done(const struct gb_ending *ending, bool done)
{
    if (ending->estimate)
        gb_estimates_taken(&ending->device->backend.estimates, ending->estimate, done);
    if (done)
        gb_process_check_other();
}

void gb_use_begins(struct gb_driver *drv, struct gb_use *use)
{
    CUcontext context;
    CUresult code;

    if (gb_process_current(drv, &use->device, &context, &code) != GB_RULING_BUDGET ||
        !atomic_load(&use->device->backend.other.blind))
        use->device = NULL;
    else
        gb_card_before(&use->device->backend, &drv->api, 0, true, &use->before);
}

void gb_use_done(struct gb_driver *drv, const struct gb_use *use, enum gb_measured which,
                 const void *handle)
{
    if (use->device)
        gb_measured_note(&use->device->backend, &drv->api, &use->before, which,
                         (uint64_t)(uintptr_t)handle);
    gb_process_check_other();
}
