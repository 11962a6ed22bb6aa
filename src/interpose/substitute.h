/*
 * substitute.h: from a driver's own address to our hook for it.
 */
#ifndef GB_INTERPOSE_SUBSTITUTE_H
#define GB_INTERPOSE_SUBSTITUTE_H

#include "driver/driver.h"
#include "interpose/entries.h"

#include <stdbool.h>

/*
 * What a look-up that found `address` must answer: the copy's own thunk where the address is a
 * real entry that we intercept, NULL where it is one of a copy that could not be registered,
 * and the address itself in every other case (another interposer's function, another name).
 * `asked` is the name the program asked for, or GB_ENTRY_NONE: it decides where one address has
 * two names. Any thread, no lock.
 */
void *gb_substitute(void *address, enum gb_entry asked);

/*
 * The same for an answer of drv's own cuGetProcAddress, which can only be drv's own function:
 * a comparison with the table, no look at the loader.
 */
void *gb_substitute_in(struct gb_driver *drv, void *address);

/* The hook of one entry of one copy: a hidden function with the entry's own signature. */
void *gb_thunk(const struct gb_driver *drv, enum gb_entry entry);

/*
 * False: the settings ask for nothing (or for no limit) and have nothing to tell, every look-up
 * and every twin gives the driver's own function, and no copy is registered. Fixed for the life
 * of the process.
 */
bool gb_armed(void);

/* Is the work of streams with blocks noted (GPUBUDGET_STREAM_ORDER)? Fixed likewise. */
bool gb_order_wanted(void);

#endif
