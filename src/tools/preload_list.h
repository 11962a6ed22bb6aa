/*
 * preload_list.h: the new value of LD_PRELOAD.
 */
#ifndef GB_TOOLS_PRELOAD_LIST_H
#define GB_TOOLS_PRELOAD_LIST_H

#include "tools/elf_file.h"

/*
 * The target's sanitizer runtimes, then `library`, then what was in `old` (NULL for nothing;
 * separated by blanks or colons) without other mentions of these. A runtime that `old` gives by
 * a path keeps it. To be freed; NULL without memory.
 */
char *gb_preload_list(const char *library, const struct gb_elf_file *target, const char *old);

#endif
