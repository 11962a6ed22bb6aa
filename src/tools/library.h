/*
 * library.h: finding libgpubudget.so, and making sure that it can be preloaded.
 */
#ifndef GB_TOOLS_LIBRARY_H
#define GB_TOOLS_LIBRARY_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>

struct gb_library {
    char path[PATH_MAX]; /* absolute */
    char version[64];    /* as the library itself says */
};

/*
 * Looks at $GPUBUDGET_LIB, beside an uninstalled launcher, then at the installed place. The
 * first that exists is the one; where it cannot be used the search does not go on. false: `why`
 * says what is wrong. Loads the library into this process, to see that it can be loaded.
 */
bool gb_library_find(struct gb_library *library, char *why, size_t why_size);

/*
 * Starts this launcher once more as the command would be started, with `preload` for
 * LD_PRELOAD, and asks there whether the library of `path` is the one that has been loaded.
 */
bool gb_library_probe(const char *path, const char *preload, char *why, size_t why_size);

/* The other end of it, in the process that was started: the exit status. */
int gb_library_answer_probe(const char *path);

/* The launcher's hidden option that leads there. */
#define GB_LIBRARY_PROBE_OPTION "--answer-probe"

#endif
