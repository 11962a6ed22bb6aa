/*
 * driver.h: the copies of libcuda in this process (preload only).
 *
 * A process may hold more than one (the system's and a forward-compatibility one). Each has its
 * own real entry points, its own thunks and its own state; pointers of two copies never mix.
 */
#ifndef GB_DRIVER_DRIVER_H
#define GB_DRIVER_DRIVER_H

#include "driver/api.h"
#include "interpose/entries.h"

#include <stdatomic.h>
#include <stdbool.h>

struct link_map;

/* Copies that get hooks. Names of a further copy answer NULL, with one line: never unlimited.
 */
enum { GB_DRIVER_MAX = 4 };

/*
 * One loaded copy. Immutable once published, never freed. `hold` is a loader reference of our
 * own, so that no dlclose of the program's leaves a stale pointer here.
 */
struct gb_driver {
    int index;                  /* 0 .. GB_DRIVER_MAX - 1 */
    const struct link_map *map; /* identity; valid because of hold */
    void *hold;                 /* loader handle */
    void *real[GB_ENTRY_COUNT]; /* the copy's own function, NULL where it exports none */
    struct gb_driver_api api;   /* what our own code calls, real functions */
    bool complete;              /* api has all that a budget needs; else memory is denied */
};

/* Of driver.c, here for the inline function only. */
extern _Atomic(struct gb_driver *) gb_drivers[GB_DRIVER_MAX];

/* The copy with that index, or NULL. Any thread, no lock. Every call begins with it. */
static inline struct gb_driver *gb_driver_at(int index)
{
    return atomic_load_explicit(&gb_drivers[index], memory_order_acquire);
}

/*
 * The copy whose object holds `address`, registered now where it is new. NULL where the address
 * lies in no libcuda. *refused (may be NULL) is set to true where it lies in a libcuda that
 * cannot be registered (too many copies, no memory): its intercepted names must answer NULL.
 * Any thread; no lock of ours is held.
 */
struct gb_driver *gb_driver_of_address(const void *address, bool *refused);

/* A registered copy, else the loaded libcuda.so.1, registered now; NULL where none is loaded.
 */
struct gb_driver *gb_driver_any(void);

#endif
