/*
 * real.h: the loader's own dlsym and dlvsym, behind those that we export.
 */
#ifndef GB_INTERPOSE_REAL_H
#define GB_INTERPOSE_REAL_H

#include "driver/symbol.h"

#include <stdbool.h>

struct link_map;

typedef void *gb_dlsym_fn(void *handle, const char *name);
typedef void *gb_dlvsym_fn(void *handle, const char *name, const char *version);

/* NULL only in a process whose libc exports none. Found at first use; any thread, any time. */
gb_dlsym_fn *gb_real_dlsym(void);
gb_dlvsym_fn *gb_real_dlvsym(void);

/*
 * As gb_symbol, with a version where it is not NULL. Both call the loader as if from an object
 * at our place in the link map: RTLD_NEXT means "after libgpubudget.so".
 */
void *gb_symbol_version(void *handle, const char *name, const char *version);

/* The loaded object that holds the address, or NULL. */
const struct link_map *gb_object_of(const void *address);

/* libgpubudget.so's own object. */
const struct link_map *gb_object_own(void);

/* Is it one of libc's own objects that have dlsym? */
bool gb_object_is_libc(const struct link_map *map);

/*
 * A loader reference on the object, so that it stays; NULL where it cannot be had. Given back
 * with dlclose.
 */
void *gb_object_hold(const struct link_map *map);

#endif
