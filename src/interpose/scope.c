/*
 * scope.c: RTLD_NEXT and RTLD_DEFAULT of intercepted names, as if we exported nothing.
 *
 * Three sources, each exact for its part of the loader's order:
 *  - objects between the program and us (the program, earlier preloads): a walk;
 *  - the global scope behind us: the loader's own RTLD_NEXT, asked from here;
 *  - objects behind us that ask RTLD_NEXT themselves: a walk from their own place, in which
 * only objects of the global scope count, and then their own group (group.c). Walks run inside
 * dl_iterate_phdr, whose lock keeps every object in place; nothing that takes another lock of
 * the loader's is called there.
 */
#define _GNU_SOURCE
#include "interpose/scope.h"

#include "interpose/elf.h"
#include "interpose/entries.h"
#include "interpose/group.h"
#include "interpose/nvml_calls.h"
#include "interpose/real.h"
#include "interpose/text.h"

#include <dlfcn.h>
#include <link.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

/*
 * Is an object in the global scope? The loader does not say, but a function that only this
 * object has is found by RTLD_DEFAULT or is not. A few names of its own are kept to ask with.
 */
enum { PROBES = 4, PROBE_SIZE = 64 };

struct probes {
    char names[PROBES][PROBE_SIZE];
    int count;
};

/* Of such names the answer may be ours. */
static bool is_exported(const char *name)
{
    enum gb_nvml_call call;

    return gb_entry_find(name) != GB_ENTRY_NONE || gb_nvml_call_find(name, &call) ||
           gb_text_equal(name, "dlsym") || gb_text_equal(name, "dlvsym");
}

static void take_probes(struct probes *probes, const struct gb_elf *elf)
{
    const char *name;
    uint32_t cursor = 0;

    probes->count = 0;
    while (probes->count < PROBES && (name = gb_elf_next_function(elf, &cursor)) != NULL) {
        const size_t length = strlen(name);

        if (length >= PROBE_SIZE || is_exported(name))
            continue;
        memcpy(probes->names[probes->count++], name, length + 1);
    }
}

/* Without names to ask with, an object counts as global. */
static bool is_global(const struct probes *probes, const struct link_map *map)
{
    for (int i = 0; i < probes->count; i++) {
        void *address = gb_symbol(RTLD_DEFAULT, probes->names[i]);

        if (address != NULL && gb_object_of(address) == map)
            return true;
    }
    return probes->count == 0;
}

enum { CANDIDATES = 8 };

struct walk {
    const char *name, *version;
    const void *caller;
    /* found so far */
    bool met_caller, met_us;
    bool caller_behind_us;
    void *between; /* first definition after the caller and before us */
    struct probes caller_probes;
    int count; /* definitions behind a caller that is behind us */
    struct {
        void *address;
        struct probes probes;
    } candidates[CANDIDATES];
};

static int visit(struct dl_phdr_info *info, size_t size, void *arg)
{
    struct walk *walk = arg;
    struct gb_elf elf;
    bool readable = gb_elf_of_phdr(&elf, info);
    void *address;

    (void)size;
    if (gb_elf_holds(info, &visit)) {
        walk->met_us = true;
        return walk->met_caller; /* behind us the loader itself can be asked */
    }
    if (!walk->met_caller) {
        if (gb_elf_holds(info, walk->caller)) {
            walk->met_caller = true;
            walk->caller_behind_us = walk->met_us;
            if (readable)
                take_probes(&walk->caller_probes, &elf);
        }
        return 0;
    }
    address = readable ? gb_elf_symbol(&elf, walk->name, walk->version) : NULL;
    if (address == NULL)
        return 0;
    if (!walk->met_us) {
        walk->between = address;
        return 1;
    }
    walk->candidates[walk->count].address = address;
    take_probes(&walk->candidates[walk->count].probes, &elf);
    walk->count++;
    return walk->count == CANDIDATES;
}

static void *behind_us(const char *name, const char *version)
{
    return gb_symbol_version(RTLD_NEXT, name, version);
}

/* RTLD_NEXT of an object behind us. */
static void *next_of_later(const struct walk *walk, const struct link_map *caller)
{
    if (is_global(&walk->caller_probes, caller)) {
        for (int i = 0; i < walk->count; i++) {
            void *address = walk->candidates[i].address;
            const struct link_map *owner = gb_object_of(address);

            if (owner != NULL && is_global(&walk->candidates[i].probes, owner))
                return address;
        }
    }
    return gb_group_find(caller, true, walk->name, walk->version);
}

/*
 * The end of every look-up here. Found: what our own failing questions left in dlerror is
 * cleared. Not found: a question that fails for the same reason is asked last.
 */
static void *end(void *address, const struct link_map *caller, const char *name,
                 const char *version)
{
    void *handle;

    if (address != NULL) {
        dlerror();
        return address;
    }
    handle = caller == NULL || caller->l_name[0] == '\0' ? NULL : gb_object_hold(caller);
    if (handle != NULL) {
        dlclose(handle); /* the caller itself keeps its object loaded */
        address = gb_symbol_version(handle, name, version);
    } else {
        address = behind_us(name, version);
    }
    if (address != NULL) /* the caller's own definition, say: any failing question will do */
        gb_symbol(RTLD_NEXT, "a further definition of an intercepted name");
    return NULL;
}

void *gb_scope_next(const char *name, const char *version, const void *caller)
{
    const struct link_map *map = gb_object_of(caller);
    struct walk walk = {.name = name, .version = version, .caller = caller};
    void *address;

    dl_iterate_phdr(visit, &walk);
    if (!walk.met_caller || map == NULL)
        return end(NULL, NULL, name, version);
    if (walk.between != NULL)
        address = walk.between;
    else if (walk.caller_behind_us)
        address = next_of_later(&walk, map);
    else
        address = behind_us(name, version);
    return end(address, map, name, version);
}

void *gb_scope_default(const char *name, const char *version, const void *caller)
{
    const struct link_map *map = gb_object_of(caller);
    void *address = gb_symbol_version(RTLD_DEFAULT, name, version);

    if (address == NULL || gb_object_of(address) == gb_object_own())
        address = behind_us(name, version);
    if (address == NULL && map != NULL)
        address = gb_group_find(map, false, name, version);
    return end(address, map, name, version);
}

void *gb_scope_handle(void *handle, const char *name, const char *version)
{
    struct link_map *map = NULL;

    if (dlinfo(handle, RTLD_DI_LINKMAP, &map) == 0 && map == gb_object_own())
        return end(gb_symbol_version(handle, name, version), NULL, name, version);
    return end(behind_us(name, version), NULL, name, version);
}
