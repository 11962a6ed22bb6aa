/*
 * device_stack.h: the stack of a device with a limit, and what it is measured by: NVML's figure
 * of this process, and the free bytes of the card as a hint.
 */
#ifndef GB_INTERPOSE_DEVICE_STACK_H
#define GB_INTERPOSE_DEVICE_STACK_H

#include "interpose/process.h"

/* What a device is held to, in bytes, and where it is counted. */
struct gb_device_limits {
    uint64_t limit;     /* of this process, or GB_BUDGET_NO_LIMIT */
    struct gb_job *job; /* NULL: in none */
    int place;          /* of the device in the job */
};

/* A device's stack, NULL where there is no memory for it. */
struct gb_device *gb_device_make(struct gb_driver *drv,
                                 const struct gb_device_identity *identity,
                                 const struct gb_device_limits *limits,
                                 struct gb_block_table *blocks);

#endif
