/*
 * imports.h: memory of others that a call brings into this process.
 *
 * It is never charged. But the card's own tools attribute some of it to the process, and what
 * they show less what is tracked is charged as `other`: so it has to be known, and taken out.
 */
#ifndef GB_INTERPOSE_IMPORTS_H
#define GB_INTERPOSE_IMPORTS_H

#include "interpose/process.h"

/* Of a call in progress; which device it is about shows only afterwards. */
struct gb_import {
    int count;
    struct {
        struct gb_device *device;
        struct gb_other_reading before;
    } at[GB_DEVICES_MAX];
};

/* Before the driver's call; half a millisecond for each device with a budget. */
void gb_import_begin(struct gb_import *import);

/*
 * After its success: the device that the tools now show more for, and how much; NULL where they
 * show nothing. It is noted already.
 */
struct gb_device *gb_import_end(const struct gb_import *import, uint64_t *bytes);

/* The same for an import that ends by its handle: remembered until then. */
void gb_import_remember(const struct gb_import *import, const void *handle);
void gb_import_forget(const void *handle);

#endif
