/*
 * local_size.h: what a function needs for its threads, as the driver tells.
 */
#ifndef GB_INTERPOSE_LOCAL_SIZE_H
#define GB_INTERPOSE_LOCAL_SIZE_H

#include "interpose/process.h"

#include <stdbool.h>
#include <stdint.h>

/* What every context has room for from its start: the default stack, for a thread (measured).
 */
#define GB_LOCAL_FIRST_BYTES UINT64_C(1024)

/* What a launch may bring. */
struct gb_launch_need {
    uint64_t local; /* bytes a thread; 0: no more than every context has */
    bool heap;      /* it may need the device heap */
};

/* Bytes for one thread; asked once. A kernel of a library may be launched by its own handle. */
bool gb_local_size(struct gb_driver *drv, CUfunction function, uint64_t *bytes);

/* What a launch of the function needs beyond what every context has. */
struct gb_launch_need gb_local_need(struct gb_driver *drv, CUfunction function);

/* The same of what the driver itself calls a function, if it is one that nobody was given. */
struct gb_launch_need gb_local_need_told(struct gb_driver *drv, CUfunction function);

#endif
