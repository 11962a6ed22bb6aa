/*
 * route_root.c: two small plug-ins.
 *
 * libroute_root: its dependencies are another library, which reports, and the driver, which
 * that library sees only through this one. libroute_origin (ROUTE_ORIGIN): opens a library that
 * only its own search path ($ORIGIN/sub) leads to.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>

#define EXPORT __attribute__((visibility("default")))

#ifdef ROUTE_ORIGIN
EXPORT void route_plugin_report(void *late)
{
    (void)late;
    printf("only here: %s\n",
           dlopen("libroute_only_here.so", RTLD_LAZY) != NULL ? "found" : dlerror());
}
#else
EXPORT int route_root_marker(void)
{
    return 1;
}
#endif
