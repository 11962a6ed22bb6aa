/*
 * code.h: the modules and libraries of the process that ask for more than their load takes.
 *
 * The variables of a library come to a context with the first use of the library there, not
 * with its load, and stay until it is unloaded (docs/driver-behaviour.md). So what they need is
 * read from the image at the load, and asked of the budget before that use.
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

/* Invariant: stands in the table while its handle does and there is something to tell of it. */
struct gb_code {
    const void *handle; /* a module or a library: heap objects of the driver */
    struct gb_image image;
    bool is_library;
    uint64_t serials[GB_CODE_CONTEXTS]; /* contexts that it has come to; 0: a free place */
    unsigned int next;                  /* the place written next */
    uint64_t coming;                    /* a context that it is being brought to now, or 0 */
    UT_hash_handle hh;
};

/* Libraries with variables: what a use looks at first. */
extern atomic_int gb_code_libraries;

/* The driver has loaded it. */
void gb_code_loaded(const void *handle, bool is_library, struct gb_image image);

/*
 * Out of the table, before the driver unloads it; back when the driver refuses, or freed. NULL:
 * there was nothing to tell.
 */
struct gb_code *gb_code_take(const void *handle);
void gb_code_unloaded(struct gb_code *code, bool refused);

/* Does a function of it call malloc? */
bool gb_code_has_heap(const void *handle);

/* Variables of a library, bytes; 0: none. */
uint64_t gb_code_variables(const void *handle);

/* A library before its use in the context with that serial. */
enum gb_code_arrival {
    GB_CODE_HERE,   /* it has come, or is not known */
    GB_CODE_COMING, /* another thread is bringing it */
    GB_CODE_MINE    /* the caller is to bring it, and say gb_code_brought then */
};
enum gb_code_arrival gb_code_arrival(const void *handle, uint64_t serial);
void gb_code_brought(const void *handle, uint64_t serial, bool came);

#endif
