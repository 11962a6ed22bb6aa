/*
 * dlsym.c: which look-ups are ours.
 */
#define _GNU_SOURCE
#include "interpose/dlsym.h"

#include "interpose/entries.h"
#include "interpose/nvml_calls.h"
#include "interpose/real.h"
#include "interpose/scope.h"
#include "interpose/substitute.h"
#include "interpose/text.h"

#include <dlfcn.h>
#include <stddef.h>
#include <string.h>

enum kind { NOT_OURS, DRIVER_NAME, NVML_NAME, DLSYM_NAME };

static enum kind kind_of(const char *name, enum gb_entry *entry, enum gb_nvml_call *call)
{
    *entry = GB_ENTRY_NONE;
    if (name == NULL)
        return NOT_OURS;
    if (name[0] == 'c' && name[1] == 'u') {
        *entry = gb_entry_find(name);
        return *entry == GB_ENTRY_NONE ? NOT_OURS : DRIVER_NAME;
    }
    if (name[0] == 'n' && name[1] == 'v')
        return gb_nvml_call_find(name, call) ? NVML_NAME : NOT_OURS;
    if (name[0] == 'd' && name[1] == 'l' &&
        (gb_text_equal(name, "dlsym") || gb_text_equal(name, "dlvsym")))
        return DLSYM_NAME;
    return NOT_OURS;
}

/* What the loader would answer if we exported no name of the driver's. */
static void *find(void *handle, const char *name, const char *version, const void *caller)
{
    void *address;

    if (handle == RTLD_NEXT)
        return gb_scope_next(name, version, caller);
    if (handle == RTLD_DEFAULT)
        return gb_scope_default(name, version, caller);
    address = gb_symbol_version(handle, name, version);
    if (address != NULL && gb_object_of(address) == gb_object_own())
        return gb_scope_handle(handle, name, version);
    return address;
}

static void *driver_name(void *address, enum gb_entry entry)
{
    void *hook = gb_substitute(address, entry);

    if (address == NULL)
        return NULL;
    if (hook != NULL)
        dlerror(); /* registering a copy asked questions of its own, some in vain */
    else
        gb_symbol(RTLD_NEXT, "gpubudget: too many copies of libcuda");
    return hook;
}

/* Who looks for the real dlsym gets ours, wherever the real one would have come. */
static void *dlsym_name(void *address, const char *name)
{
    const struct link_map *owner = address == NULL ? NULL : gb_object_of(address);

    if (owner == NULL || !gb_object_is_libc(owner))
        return address;
    return (void *)(name[2] == 's' ? gb_dlsym_export : gb_dlvsym_export);
}

static struct gb_route route(void *handle, const char *name, const char *version,
                             const void *caller, void *real)
{
    struct gb_route ours = {.jump = NULL, .answer = NULL};
    const struct gb_route not_ours = {.jump = real, .answer = NULL};
    enum gb_entry entry;
    enum gb_nvml_call call;
    enum kind kind = kind_of(name, &entry, &call);

    if (kind == NOT_OURS || real == NULL)
        return not_ours;
    /* Code of no object has no place in the link map: the loader has its own error for that. */
    if (handle == RTLD_NEXT && gb_object_of(caller) == NULL)
        return not_ours;
    if (kind == DRIVER_NAME) {
        ours.answer = driver_name(find(handle, name, version, caller), entry);
        return ours;
    }
    if (kind == NVML_NAME) {
        ours.answer = gb_nvml_substitute(find(handle, name, version, caller), call);
        return ours;
    }
    if (handle == RTLD_NEXT)
        ours.answer = gb_scope_next(name, version, caller);
    else
        ours.answer = gb_symbol_version(handle, name, version);
    ours.answer = dlsym_name(ours.answer, name);
    return ours;
}

struct gb_route gb_dlsym_route(void *handle, const char *name, const void *caller)
{
    return route(handle, name, NULL, caller, (void *)gb_real_dlsym());
}

struct gb_route gb_dlvsym_route(void *handle, const char *name, const char *version,
                                const void *caller)
{
    /* Without a version the real one fails in its own way. */
    if (version == NULL)
        return (struct gb_route){.jump = (void *)gb_real_dlvsym(), .answer = NULL};
    return route(handle, name, version, caller, (void *)gb_real_dlvsym());
}
