/*
 * twice.c: another copy of the library in the global scope.
 */
#define _GNU_SOURCE
#include "interpose/twice.h"

#include "interpose/elf.h"
#include "interpose/real.h"
#include "report/line.h"

#include <dlfcn.h>
#include <link.h>

enum { PATH_MOST = 200 };

/* The copy whose name a look-up from here finds first. */
static const struct link_map *copy_at(void *where)
{
    void *address = gb_symbol(where, "gpubudget_version");
    const struct link_map *map = address == NULL ? NULL : gb_object_of(address);
    struct gb_elf elf;

    if (map == NULL || map == gb_object_own() || !gb_elf_of_map(&elf, map))
        return NULL;
    /* The core library has that name too, but none of the driver's. */
    return gb_elf_symbol(&elf, "cuMemAlloc_v2", NULL) == NULL ? NULL : map;
}

bool gb_loaded_twice(char *text, size_t size)
{
    const struct link_map *first = copy_at(RTLD_DEFAULT);
    const struct link_map *second = first == NULL ? copy_at(RTLD_NEXT) : gb_object_own();
    struct gb_line line;

    dlerror(); /* nothing of this is the program's to see */
    if (first == NULL)
        first = gb_object_own();
    if (second == NULL || first == NULL)
        return false;
    /* In the same order from either copy. */
    gb_line_begin(&line, text, size);
    gb_line_text(&line, "the library is loaded twice, from ");
    gb_line_quote(&line, first->l_name, PATH_MOST);
    gb_line_text(&line, " and ");
    gb_line_quote(&line, second->l_name, PATH_MOST);
    return true;
}
