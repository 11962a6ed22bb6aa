/*
 * route_report.h: what each kind of look-up answers, seen from the object that includes this.
 *
 * It is code in a header on purpose: the loader looks at the caller's object, so every object
 * that wants to know must ask for itself. One line per question:
 *
 *     WHO HANDLE NAME -> OWNER [error]
 *
 * OWNER is the file name of the object that has the answer, `hook` for a hidden function of the
 * preload, `twin` for one of its exports, or NULL; `error` says that dlerror had something.
 */
#ifndef ROUTE_REPORT_H
#define ROUTE_REPORT_H

#ifndef _GNU_SOURCE
#error "define _GNU_SOURCE first"
#endif

#include "../standin/standin.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#define ROUTE_EXPORT __attribute__((visibility("default")))

/* Names that the preload intercepts, and others that only look like it. */
static const char *const route_names[] = {
#define GB_ENTRY(name, params, args) #name,
#include "interpose/entries.def"
#undef GB_ENTRY
    "cuDriverGetVersion",
    "cuDeviceGet",
    "cuMemAlloc_v3",
    "cuMem",
    "cu",
    "cuMemBrandNew",
    "cublasCreate_v2",
    "curl_easy_init",
    "malloc",
    "dlopen",
    "dlsym",
    "dlvsym",
    "",
    NULL,
};

static inline const char *route_owner(void *address)
{
    const char *slash;
    Dl_info info;

    if (address == NULL)
        return "NULL";
    if (dladdr(address, &info) == 0)
        return "nowhere";
    slash = strrchr(info.dli_fname, '/');
    if (strcmp(slash == NULL ? info.dli_fname : slash + 1, "libgpubudget.so") == 0)
        return info.dli_saddr == address ? "twin" : "hook";
    return slash == NULL ? info.dli_fname : slash + 1;
}

static inline void route_line(const char *who, const char *handle_name, const char *name,
                              void *address)
{
    const char *error = dlerror();

    printf("%s %s %s -> %s%s\n", who, handle_name, name, route_owner(address),
           error == NULL ? "" : " error");
}

/*
 * `late` was opened by the program, or is NULL. Before each question dlerror is left with an
 * old error now and then, which a successful look-up clears.
 */
static inline void route_report(const char *who, void *late)
{
    void *main_program = dlopen(NULL, RTLD_LAZY);
    const struct {
        const char *name;
        void *handle;
    } handles[] = {
        {"default", RTLD_DEFAULT}, {"next", RTLD_NEXT}, {"main", main_program}, {"late", late}};

    for (size_t h = 0; h < sizeof(handles) / sizeof(handles[0]); h++) {
        if (h == 3 && late == NULL)
            continue;
        for (int i = 0; route_names[i] != NULL; i++) {
            void *address;

            dlerror();
            if (i % 2 == 0) /* an error that costs nothing, also where dlopen costs a lot */
                dlinfo(main_program, -1, &address);
            address = dlsym(handles[h].handle, route_names[i]);
            route_line(who, handles[h].name, route_names[i], address);
        }
        /* With a version: libc's, which the driver's names do not have, and one that they have
         * in the stand-in `versioned` alone. */
        for (int i = 0; route_names[i] != NULL; i++) {
            char label[32];

            snprintf(label, sizeof(label), "%s/version", handles[h].name);
            route_line(who, label, route_names[i],
                       dlvsym(handles[h].handle, route_names[i], "GLIBC_2.2.5"));
            snprintf(label, sizeof(label), "%s/driver-version", handles[h].name);
            route_line(who, label, route_names[i],
                       dlvsym(handles[h].handle, route_names[i], STANDIN_SYMBOL_VERSION));
        }
    }
    dlclose(main_program);
    fflush(stdout);
}

#endif
