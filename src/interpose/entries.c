/*
 * entries.c: names of the intercepted entry points, and finding one.
 */
#include "interpose/entries.h"

#include <stdint.h>
#include <string.h>

static const char *const names[GB_ENTRY_COUNT] = {
#define GB_ENTRY(name, params, args) #name,
#include "interpose/entries.def"
#undef GB_ENTRY
};

const char *gb_entry_name(enum gb_entry entry)
{
    return names[entry];
}

bool gb_entry_is_ordered(enum gb_entry entry)
{
    static const bool ordered[GB_ENTRY_COUNT] = {
#define GB_ENTRY(name, params, args)         false,
#define GB_ENTRY_ORDERED(name, params, args) true,
#include "interpose/entries.def"
#undef GB_ENTRY
    };

    return ordered[entry];
}

/* Hundreds of names pass here at a program's start; most are turned away by their length. */
enum gb_entry gb_entry_find(const char *name)
{
    static const uint8_t lengths[GB_ENTRY_COUNT] = {
#define GB_ENTRY(name, params, args) sizeof(#name) - 1,
#include "interpose/entries.def"
#undef GB_ENTRY
    };
    size_t length;

    if (name[0] != 'c' || name[1] != 'u')
        return GB_ENTRY_NONE;
    length = strlen(name);
    for (int i = 0; i < GB_ENTRY_COUNT; i++)
        if (lengths[i] == length && memcmp(names[i], name, length) == 0)
            return i;
    return GB_ENTRY_NONE;
}
