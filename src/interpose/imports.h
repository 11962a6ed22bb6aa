/*
 * imports.h: memory of others that a call brings into this process.
 *
 * It is never charged and never refused. But the card's own tools attribute some of it to the
 * process, and what they show less what is tracked is charged as `other`: so it has to be
 * known, and taken out. How much there is, is shown.
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

/* What an import is known by until it ends. */
enum gb_import_kind {
    GB_IMPORT_ADDRESS,  /* cuIpc: ends with its context at the latest */
    GB_IMPORT_POOL,     /* an address, too, but of a pool: outlives contexts */
    GB_IMPORT_EXTERNAL, /* the handles of each interface */
    GB_IMPORT_GRAPHICS,
    GB_IMPORT_GL_BUFFER, /* OpenGL's own number */
    GB_IMPORT_EGL
};

/* Before the driver's call; half a millisecond for each device with a budget. */
void gb_import_begin(struct gb_import *import);

/*
 * After its success: the device that the tools now show more for, and how much; NULL where they
 * show nothing. It is noted already.
 */
struct gb_device *gb_import_end(const struct gb_import *import, uint64_t *bytes);

/*
 * The same for an import that has an end: remembered until then. bytes: its size, 0 where only
 * the tools can tell. call: its name, for the line that shows it.
 */
void gb_import_remember(const struct gb_import *import, struct gb_driver *drv,
                        enum gb_import_kind kind, uint64_t value, uint64_t bytes,
                        const char *call);

/*
 * Around the call that ends it: taken before, since what it is known by may be another import's
 * right after; ended: whether the driver did it. NULL where nothing of that kind is remembered.
 */
struct gb_import_entry;
struct gb_import_entry *gb_import_take(enum gb_import_kind kind, uint64_t value);
void gb_import_taken(struct gb_import_entry *entry, bool ended);

/*
 * A context has ended, and with it what was imported in it, as far as that was there before
 * `moment`: by now another context may have the same handle.
 */
uint64_t gb_imports_moment(void);
void gb_imports_context_ended(CUcontext context, uint64_t moment);

/* Bytes of others here, as far as anything tells; none of them charged. */
uint64_t gb_imports_shown(const struct gb_device *device);

#endif
