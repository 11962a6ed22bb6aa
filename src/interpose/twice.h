/*
 * twice.h: is the library in this process a second time, from another file?
 *
 * The loader takes the same file once. Of two copies each would keep a budget of its own, and a
 * program that reaches the driver by two routes would get both.
 */
#ifndef GB_INTERPOSE_TWICE_H
#define GB_INTERPOSE_TWICE_H

#include <stdbool.h>
#include <stddef.h>

/* Writes a sentence that names both files where there is another copy. Any thread, no lock. */
bool gb_loaded_twice(char *text, size_t size);

#endif
