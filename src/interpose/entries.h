/*
 * entries.h: the intercepted entry points as numbers, names and types.
 */
#ifndef GB_INTERPOSE_ENTRIES_H
#define GB_INTERPOSE_ENTRIES_H

#include "driver/cuda_api.h"

#include <stdbool.h>

/* GB_ENTRY_cuInit, ..., GB_ENTRY_COUNT */
enum gb_entry {
#define GB_ENTRY(name, params, args) GB_ENTRY_##name,
#include "interpose/entries.def"
#undef GB_ENTRY
    GB_ENTRY_COUNT,
    GB_ENTRY_NONE = -1
};

/* gb_fn_cuInit, ...: the function type of each */
#define GB_ENTRY(name, params, args) typedef CUresult gb_fn_##name params;
#include "interpose/entries.def"
#undef GB_ENTRY

/* The exported name; entry must be one of the table. */
const char *gb_entry_name(enum gb_entry entry);

/* Is it of matter with GPUBUDGET_STREAM_ORDER alone? */
bool gb_entry_is_ordered(enum gb_entry entry);

/* The entry of exactly that name, or GB_ENTRY_NONE. No allocation, no lock. */
enum gb_entry gb_entry_find(const char *name);

#endif
