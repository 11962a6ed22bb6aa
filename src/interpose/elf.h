/*
 * elf.h: reading the dynamic symbols of a loaded object, without the loader's help.
 *
 * Needed for two things that dlsym cannot give: dlsym itself (a versioned reference would tie
 * the library to one glibc, an unversioned one would find our own export), and what comes after
 * a given object in the link map. Everything is read in place; nothing is allocated.
 */
#ifndef GB_INTERPOSE_ELF_H
#define GB_INTERPOSE_ELF_H

#include <link.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The parts of a loaded object that look-ups read; pointers into the object. */
struct gb_elf {
    uintptr_t base; /* what is added to a symbol's value */
    const ElfW(Dyn) * dynamic;
    const ElfW(Sym) * symbols;
    const char *strings;
    const char *soname;       /* NULL where it has none */
    const uint32_t *gnu_hash; /* either hash may be NULL, not both */
    const uint32_t *sysv_hash;
    const ElfW(Half) * versym;   /* NULL where nothing is versioned */
    const ElfW(Verdef) * verdef; /* NULL where it defines no version */
    size_t verdef_count;
};

/*
 * The object must stay loaded while *elf is used: from dl_iterate_phdr, within its callback.
 * False where it has no dynamic section or no symbol table.
 */
bool gb_elf_of_phdr(struct gb_elf *elf, const struct dl_phdr_info *info);
bool gb_elf_of_map(struct gb_elf *elf, const struct link_map *map);

/* Does `address` lie in one of the object's loaded segments? */
bool gb_elf_holds(const struct dl_phdr_info *info, const void *address);

/*
 * The address of an exported definition, or NULL. Without a version: what dlsym would take (an
 * unversioned or the default definition); with one: what dlvsym would. Indirect functions and
 * thread-local variables are not found.
 */
void *gb_elf_symbol(const struct gb_elf *elf, const char *name, const char *version);

/*
 * The next exported function's name, in table order; *cursor starts at 0 and is moved on. NULL
 * at the end.
 */
const char *gb_elf_next_function(const struct gb_elf *elf, uint32_t *cursor);

/* The next DT_NEEDED name; *cursor starts at 0. NULL at the end. */
const char *gb_elf_next_needed(const struct gb_elf *elf, size_t *cursor);

#endif
