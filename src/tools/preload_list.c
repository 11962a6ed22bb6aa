#include "tools/preload_list.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define SEPARATORS " :" /* those of ld.so */

/* The file name at the end of an entry of `length` characters. */
static const char *base_name(const char *entry, size_t length, size_t *base_length)
{
    size_t start = length;
    while (start > 0 && entry[start - 1] != '/')
        start--;
    *base_length = length - start;
    return entry + start;
}

static bool same_base(const char *entry, size_t length, const char *other)
{
    size_t entry_length, other_length;
    const char *entry_base = base_name(entry, length, &entry_length);
    const char *other_base = base_name(other, strlen(other), &other_length);
    return entry_length == other_length && memcmp(entry_base, other_base, entry_length) == 0;
}

static bool is_runtime(const struct gb_elf_file *target, const char *entry, size_t length)
{
    for (unsigned i = 0; i < target->runtime_count; i++)
        if (same_base(entry, length, target->runtimes[i]))
            return true;
    return false;
}

static void add(char *list, const char *entry, size_t length)
{
    char *end = list + strlen(list);
    if (end > list)
        *end++ = ':';
    memcpy(end, entry, length);
    end[length] = '\0';
}

/* A runtime as the old list gives it, or by its bare name. */
static void add_runtime(char *list, const char *name, const char *old)
{
    const char *entry = old;
    while (*(entry += strspn(entry, SEPARATORS))) {
        size_t length = strcspn(entry, SEPARATORS);
        if (same_base(entry, length, name)) {
            add(list, entry, length);
            return;
        }
        entry += length;
    }
    add(list, name, strlen(name));
}

char *gb_preload_list(const char *library, const struct gb_elf_file *target, const char *old)
{
    if (!old)
        old = "";
    size_t size = strlen(library) + strlen(old) + 2 + sizeof(target->runtimes);
    char *list = malloc(size);
    if (!list)
        return NULL;
    list[0] = '\0';
    for (unsigned i = 0; i < target->runtime_count; i++)
        add_runtime(list, target->runtimes[i], old);
    add(list, library, strlen(library));
    const char *entry = old;
    while (*(entry += strspn(entry, SEPARATORS))) {
        size_t length = strcspn(entry, SEPARATORS);
        /* By file name: a second copy of the library would count everything twice. */
        if (!same_base(entry, length, library) && !is_runtime(target, entry, length))
            add(list, entry, length);
        entry += length;
    }
    return list;
}
