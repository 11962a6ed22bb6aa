/*
 * open.h: the driver for the core library, which interposes nothing.
 */
#ifndef GB_DRIVER_OPEN_H
#define GB_DRIVER_OPEN_H

#include "driver/api.h"

#include <stdbool.h>

/*
 * Opens libcuda.so.1 the ordinary way and fills *api; the library stays open. Inside a
 * preloaded process the look-ups give the preload's hooks, so that what a core backend
 * allocates is charged there, once. False, *api untouched, where there is no driver or one that
 * lacks the basics. Any thread; takes no lock.
 */
bool gb_driver_api_open(struct gb_driver_api *api);

#endif
