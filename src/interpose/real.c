/*
 * real.c: the loader's own dlsym and dlvsym.
 *
 * They are read from the symbol tables of libc.so.6 (glibc 2.34 and later) or libdl.so.2
 * (before). If neither exports them, which no known glibc does, our dlsym answers NULL: every
 * caller must expect that, and nothing is worse than a jump to nowhere.
 */
#define _GNU_SOURCE
#include "interpose/real.h"

#include "interpose/elf.h"
#include "interpose/text.h"

#include <dlfcn.h>
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>

static _Atomic(gb_dlsym_fn *) real_dlsym;
static _Atomic(gb_dlvsym_fn *) real_dlvsym;

/*
 * The loader's own list of objects and not dl_iterate_phdr, which a sanitizer's runtime replaces:
 * it asks us for the real one (text.h). libc and libdl are loaded for as long as we are.
 */
static void *find_real(const char *name)
{
    void *in_libdl = NULL;

    for (const struct link_map *map = _r_debug.r_map; map != NULL; map = map->l_next) {
        struct gb_elf elf;
        void *found;

        if (!gb_elf_of_map(&elf, map) || elf.soname == NULL)
            continue;
        if (gb_text_equal(elf.soname, "libc.so.6")) {
            found = gb_elf_symbol(&elf, name, NULL);
            if (found != NULL)
                return found;
        } else if (gb_text_equal(elf.soname, "libdl.so.2")) {
            in_libdl = gb_elf_symbol(&elf, name, NULL);
        }
    }
    return in_libdl;
}

gb_dlsym_fn *gb_real_dlsym(void)
{
    gb_dlsym_fn *found = atomic_load_explicit(&real_dlsym, memory_order_relaxed);

    if (found == NULL) {
        found = (gb_dlsym_fn *)find_real("dlsym");
        atomic_store_explicit(&real_dlsym, found, memory_order_relaxed);
    }
    return found;
}

gb_dlvsym_fn *gb_real_dlvsym(void)
{
    gb_dlvsym_fn *found = atomic_load_explicit(&real_dlvsym, memory_order_relaxed);

    if (found == NULL) {
        found = (gb_dlvsym_fn *)find_real("dlvsym");
        atomic_store_explicit(&real_dlvsym, found, memory_order_relaxed);
    }
    return found;
}

/*
 * The loader knows its caller by the return address, so this must be a call from here: neither
 * inlined elsewhere nor turned into a jump, which the barrier after the call prevents.
 */
__attribute__((noinline)) void *gb_symbol_version(void *handle, const char *name,
                                                  const char *version)
{
    void *address = NULL;

    if (version == NULL && gb_real_dlsym() != NULL)
        address = gb_real_dlsym()(handle, name);
    else if (version != NULL && gb_real_dlvsym() != NULL)
        address = gb_real_dlvsym()(handle, name, version);
    __asm__ volatile("" : "+r"(address));
    return address;
}

void *gb_symbol(void *handle, const char *name)
{
    return gb_symbol_version(handle, name, NULL);
}

const struct link_map *gb_object_of(const void *address)
{
    struct link_map *map = NULL;
    Dl_info info;

    if (dladdr1(address, &info, (void **)&map, RTLD_DL_LINKMAP) == 0)
        return NULL;
    return map;
}

const struct link_map *gb_object_own(void)
{
    static _Atomic(const struct link_map *) own;
    const struct link_map *map = atomic_load_explicit(&own, memory_order_relaxed);

    if (map == NULL) {
        map = gb_object_of(&own);
        atomic_store_explicit(&own, map, memory_order_relaxed);
    }
    return map;
}

bool gb_object_is_libc(const struct link_map *map)
{
    struct gb_elf elf;

    return gb_elf_of_map(&elf, map) && elf.soname != NULL &&
           (gb_text_equal(elf.soname, "libc.so.6") || gb_text_equal(elf.soname, "libdl.so.2"));
}

static bool is_handle_of(void *handle, const struct link_map *map)
{
    struct link_map *got = NULL;

    return handle != NULL && dlinfo(handle, RTLD_DI_LINKMAP, &got) == 0 && got == map;
}

void *gb_object_hold(const struct link_map *map)
{
    void *handle = dlopen(map->l_name, RTLD_LAZY | RTLD_NOLOAD);
    Lmid_t space;

    if (is_handle_of(handle, map))
        return handle;
    if (handle != NULL)
        dlclose(handle);

    /* In another namespace (dlmopen). A handle of glibc's is the link map itself. */
    if (dlinfo((void *)(uintptr_t)map, RTLD_DI_LMID, &space) != 0)
        return NULL;
    handle = dlmopen(space, map->l_name, RTLD_LAZY | RTLD_NOLOAD);
    if (is_handle_of(handle, map))
        return handle;
    if (handle != NULL)
        dlclose(handle);
    return NULL;
}
