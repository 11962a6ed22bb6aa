/*
 * target.h: the command, as far as it decides whether a preloaded library reaches it.
 */
#ifndef GB_TOOLS_TARGET_H
#define GB_TOOLS_TARGET_H

#include "tools/elf_file.h"

#include <limits.h>
#include <stddef.h>

enum gb_target_verdict {
    GB_TARGET_GOOD,
    GB_TARGET_DOUBTFUL,       /* the limit may not reach it: warn; refused when strict */
    GB_TARGET_HOPELESS,       /* it will not: refused unless forced */
    GB_TARGET_NOT_FOUND,      /* 127 */
    GB_TARGET_NOT_EXECUTABLE, /* 126 */
};

struct gb_target {
    char path[PATH_MAX];    /* what execvp would take */
    struct gb_elf_file elf; /* of the program, for a script of its interpreter */
};

/*
 * Looks `command` up as execvp does and judges it; a script by the interpreter of its first
 * line. `why` is one sentence, empty for GB_TARGET_GOOD.
 */
enum gb_target_verdict gb_target_check(const char *command, struct gb_target *target, char *why,
                                       size_t why_size);

#endif
