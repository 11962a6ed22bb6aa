/*
 * substitute.c: from a driver's own address to our hook for it.
 */
#include "interpose/substitute.h"

#include "config/settings.h"

#include <stddef.h>

bool gb_armed(void)
{
    const struct gb_settings *settings = gb_settings();

    /* What is to be said, that there is no limit say, is said in cuInit, or when NVML tells of
     * a card. */
    return settings->verdict != GB_VERDICT_PASS || settings->message[0] ||
           settings->warning_count > 0;
}

bool gb_order_wanted(void)
{
    const struct gb_settings *settings = gb_settings();

    return settings->stream_order != GB_STREAM_ORDER_OFF &&
           settings->verdict == GB_VERDICT_LIMIT;
}

/* The entry whose real function this is; `asked` decides where two names share one address. */
static enum gb_entry entry_at(const struct gb_driver *drv, const void *address,
                              enum gb_entry asked)
{
    if (asked != GB_ENTRY_NONE && drv->real[asked] == address)
        return asked;
    for (int i = 0; i < GB_ENTRY_COUNT; i++)
        if (drv->real[i] == address)
            return i;
    return GB_ENTRY_NONE;
}

/* Does a look-up get the hook, or the driver's own function? */
static bool is_wanted(enum gb_entry entry)
{
    return !gb_entry_is_ordered(entry) || gb_order_wanted();
}

void *gb_substitute_in(struct gb_driver *drv, void *address)
{
    enum gb_entry entry = entry_at(drv, address, GB_ENTRY_NONE);

    return entry == GB_ENTRY_NONE || !is_wanted(entry) ? address : gb_thunk(drv, entry);
}

void *gb_substitute(void *address, enum gb_entry asked)
{
    struct gb_driver *drv;
    enum gb_entry entry;
    bool refused;

    if (address == NULL || !gb_armed())
        return address;
    for (int i = 0; asked != GB_ENTRY_NONE && i < GB_DRIVER_MAX; i++) {
        drv = gb_driver_at(i);
        if (drv != NULL && drv->real[asked] == address)
            return is_wanted(asked) ? gb_thunk(drv, asked)
                                    : address; /* without a look at the loader */
    }
    drv = gb_driver_of_address(address, &refused);
    if (drv == NULL)
        return refused ? NULL : address;
    entry = entry_at(drv, address, asked);
    return entry == GB_ENTRY_NONE || !is_wanted(entry) ? address : gb_thunk(drv, entry);
}
