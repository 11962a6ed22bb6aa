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
#include <sys/auxv.h>

static _Atomic(gb_dlsym_fn *) real_dlsym;
static _Atomic(gb_dlvsym_fn *) real_dlvsym;

/*
 * The first object of the loader's own list, by way of the program's dynamic section (a
 * debugger goes the same way). Not dl_iterate_phdr, which a sanitizer's runtime replaces: it
 * asks us for the real one (text.h). And not by the name _r_debug, which would make us need the
 * loader itself as a library.
 */
static const struct link_map *first_object(void)
{
    const ElfW(Phdr) *segments = (const ElfW(Phdr) *)getauxval(AT_PHDR);
    const unsigned long count = getauxval(AT_PHNUM);
    const ElfW(Dyn) *dynamic = NULL;
    uintptr_t base = 0;

    for (unsigned long i = 0; segments != NULL && i < count; i++)
        if (segments[i].p_type == PT_PHDR)
            base = (uintptr_t)segments - segments[i].p_vaddr;
    for (unsigned long i = 0; segments != NULL && i < count; i++)
        if (segments[i].p_type == PT_DYNAMIC)
            dynamic = (const ElfW(Dyn) *)(base + segments[i].p_vaddr);
    for (; dynamic != NULL && dynamic->d_tag != DT_NULL; dynamic++)
        if (dynamic->d_tag == DT_DEBUG && dynamic->d_un.d_ptr != 0)
            return ((const struct r_debug *)dynamic->d_un.d_ptr)->r_map;
    return NULL;
}

struct search {
    const char *name;
    bool met_libc;
    void *in_libc, *in_libdl;
};

static void look_into(struct search *search, const struct gb_elf *elf)
{
    if (elf->soname == NULL)
        return;
    if (gb_text_equal(elf->soname, "libc.so.6")) {
        search->met_libc = true;
        search->in_libc = gb_elf_symbol(elf, search->name, NULL);
    } else if (gb_text_equal(elf->soname, "libdl.so.2")) {
        search->in_libdl = gb_elf_symbol(elf, search->name, NULL);
    }
}

static bool is_over(const struct search *search)
{
    return search->in_libc != NULL || (search->met_libc && search->in_libdl != NULL);
}

static int look_into_visited(struct dl_phdr_info *info, size_t size, void *arg)
{
    struct gb_elf elf;

    (void)size;
    if (gb_elf_of_phdr(&elf, info))
        look_into(arg, &elf);
    return 0;
}

/* libc and libdl are loaded for as long as we are, so the list can be walked up to them. */
static void *find_real(const char *name)
{
    struct search search = {.name = name};
    const struct link_map *map = first_object();
    struct gb_elf elf;

    if (map == NULL) /* a program without that entry */
        dl_iterate_phdr(look_into_visited, &search);
    for (; map != NULL && !is_over(&search); map = map->l_next)
        if (gb_elf_of_map(&elf, map))
            look_into(&search, &elf);
    return search.in_libc != NULL ? search.in_libc : search.in_libdl;
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
