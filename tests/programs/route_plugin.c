/*
 * route_plugin.c: a library that reports its own look-ups, and wraps a libc function.
 *
 * Built as a plug-in without a driver (libroute_plugin), one linked with -lcuda
 * (libroute_cuda_plugin), and one that is a mere dependency of another (libroute_dependency).
 */
#define _GNU_SOURCE
#include "route_report.h"

#include <time.h>

typedef struct tm *localtime_r_fn(const time_t *time, struct tm *out);

/* Wrapped by way of RTLD_NEXT, as tracing libraries do; must end in libc's. */
ROUTE_EXPORT struct tm *localtime_r(const time_t *time, struct tm *out)
{
    static __thread int depth;
    localtime_r_fn *next = (localtime_r_fn *)dlsym(RTLD_NEXT, "localtime_r");
    struct tm *result;

    if (next == NULL || depth > 3) {
        printf("localtime_r: %s\n", next == NULL ? "no next" : "it calls itself");
        return NULL;
    }
    depth++;
    result = next(time, out);
    depth--;
    return result;
}

ROUTE_EXPORT void route_plugin_report(void *late)
{
    time_t zero = 0;
    struct tm out;

    printf("plugin localtime_r %s\n", localtime_r(&zero, &out) == &out ? "right" : "wrong");
    route_report("plugin", late);
}
