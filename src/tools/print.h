/*
 * print.h: what gpubudget-run says of a run without (or before) making it.
 */
#ifndef GB_TOOLS_PRINT_H
#define GB_TOOLS_PRINT_H

#include "config/settings.h"

#include <stdio.h>

/* What would be in the environment, as lines for a shell to read. */
void gb_print_sh(FILE *out, const char *preload);

/* The same, with every setting in force and the library, as one JSON object. */
void gb_print_json(FILE *out, const char *preload, const char *library, const char *version);

/*
 * Each entry of the limit both ways, with `prefix` before each line: as it was written, and as
 * it was understood ("limit 40GB = 37.25 GiB, from --limit"). NULL: none, and no line.
 */
void gb_print_limit(FILE *out, const char *prefix, const char *what, const char *limit,
                    const char *source);

/* What is kept of it for growth that cannot be refused, in the same way. */
void gb_print_reserve(FILE *out, const char *prefix, const struct gb_settings *settings);

#endif
