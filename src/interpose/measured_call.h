/*
 * measured_call.h: a call that takes memory of a size that only the card's own tools can tell,
 * after the fact. What does not fit is undone and refused as out of memory.
 */
#ifndef GB_INTERPOSE_MEASURED_CALL_H
#define GB_INTERPOSE_MEASURED_CALL_H

#include "interpose/call.h"

#include <stddef.h>

#include "resource/limits.h"

struct gb_image;

struct gb_measured_call {
    struct gb_call call;
    enum gb_measured which;
    CUresult (*take)(struct gb_measured_call *measured);
    CUresult (*undo)(struct gb_measured_call *measured);
    void *handle; /* the program's output: a stream, module, library or green context */
    void *before; /* as it is in the program's variable */
    /* arguments */
    const void *image;
    const char *name;
    unsigned int flags, count, library_count;
    int priority;
    void *options, *values, *library_options, *library_values;
    CUgreenCtx green;
    CUdevResourceDesc resources;
    CUdevice dev;
    CUlimit limit;
    size_t value;
    struct gb_limit_change change;
    const struct gb_image *code; /* of a module */
};

/* On the device; what nothing measures there is the driver's own business. */
CUresult gb_measured_take_on(struct gb_measured_call *measured, struct gb_device *device,
                             CUcontext context);

/* In the current context, or as the driver answers where there is none. */
CUresult gb_measured_take(struct gb_measured_call *measured);

/* The same, for one with an output, which is written when the driver's answer stands. */
CUresult gb_measured_take_into(struct gb_measured_call *measured, void **output);

#endif
