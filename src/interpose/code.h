/*
 * code.h: the modules and libraries of the process that ask for more than their load takes.
 *
 * The variables of a library come to a context with the first use of the library there, not
 * with its load, and stay until it is unloaded; with the code of a module or library comes
 * local memory for the functions of the driver that it calls, and stays with the context
 * (docs/driver-behaviour.md). So what they need is read from the image, and asked of the budget
 * before that load or use.
 *
 * Managed variables are charged as managed memory is: a module's with its load, a library's
 * once for all contexts, with its load where a context is current, else with its first use.
 */
#ifndef GB_INTERPOSE_CODE_H
#define GB_INTERPOSE_CODE_H

#include "driver/driver.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "interpose/image.h"
#include "resource/hash.h"

/* So many contexts a library's arrival is remembered of. One that is forgotten is asked for
 * again, and takes nothing. */
enum { GB_CODE_CONTEXTS = 16 };

/* Invariant: stands in the table while its handle does: each module, and each library of which
 * there is something to tell. */
struct gb_code {
    const void *handle; /* a module or a library: heap objects of the driver */
    struct gb_image image;
    CUcontext context; /* a module's */
    bool is_library;
    uint64_t serials[GB_CODE_CONTEXTS]; /* contexts that it has come to; 0: a free place */
    unsigned int next;                  /* the place written next */
    uint64_t coming;                    /* a context that it is being brought to now, or 0 */
    uint64_t managed;                   /* what its managed variables are charged as, or 0 */
    bool managed_coming;                /* a thread is having them charged */
    UT_hash_handle hh;
};

/* Libraries that bring something: what a use looks at first. */
extern atomic_int gb_code_libraries;

/*
 * The driver has loaded it; a module into the current context. managed: gb_managed_charge's
 * key, or 0; the entry's from now on.
 */
void gb_code_loaded(struct gb_driver *drv, const void *handle, bool is_library,
                    struct gb_image image, uint64_t managed);

/* The context of a module; NULL: it is not known. */
CUcontext gb_code_context(const void *handle);

/*
 * Out of the table, before the driver unloads it; back when the driver refuses, or freed. NULL:
 * there was nothing to tell.
 */
struct gb_code *gb_code_take(const void *handle);
void gb_code_unloaded(struct gb_code *code, bool refused);

/* Does a function of it call malloc? Of any code there is? */
bool gb_code_has_heap(const void *handle);
bool gb_code_any_heap(void);

/* Does a library bring something to a context with its first use there? */
bool gb_code_brings(const void *handle, struct gb_image *image);

/* A library before its use in the context with that serial. */
enum gb_code_arrival {
    GB_CODE_HERE,   /* it has come, or is not known */
    GB_CODE_COMING, /* another thread is bringing it */
    GB_CODE_MINE    /* the caller is to bring it, and say gb_code_brought then */
};
enum gb_code_arrival gb_code_arrival(const void *handle, uint64_t serial);
void gb_code_brought(const void *handle, uint64_t serial, bool came);

/* The same of the charge for a library's managed variables. */
enum gb_code_arrival gb_code_managed_arrival(const void *handle);

/* managed: as for gb_code_loaded; 0: they do not fit. */
void gb_code_managed_brought(const void *handle, uint64_t managed);

#endif
