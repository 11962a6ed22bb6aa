/*
 * hash.h: uthash as this library uses it: out of memory undoes the insert and marks the element
 * (hh.tbl NULL), instead of ending the process. Every element names its handle hh.
 */
#ifndef GB_RESOURCE_HASH_H
#define GB_RESOURCE_HASH_H

#define HASH_NONFATAL_OOM            1
#define uthash_nonfatal_oom(element) ((element)->hh.tbl = NULL)
#include <uthash.h>

#endif
