/*
 * elf.c: reading the dynamic symbols of a loaded object.
 */
#define _GNU_SOURCE
#include "interpose/elf.h"

#include "interpose/text.h"

#include <string.h>

#define VERSION_HIDDEN 0x8000
#define VERSION_INDEX  0x7fff

/*
 * glibc has already added the load address to the pointers in most dynamic sections, but not in
 * those that are read-only (the vdso). A value below the base cannot be an address within.
 */
static uintptr_t absolute(uintptr_t base, uintptr_t value)
{
    return value < base ? base + value : value;
}

static bool read_dynamic(struct gb_elf *elf, uintptr_t base, const ElfW(Dyn) * dynamic)
{
    uintptr_t soname = 0;
    bool named = false;

    *elf = (struct gb_elf){.base = base, .dynamic = dynamic}; /* inline: no call, see text.h */
    if (dynamic == NULL)
        return false;
    for (; dynamic->d_tag != DT_NULL; dynamic++) {
        uintptr_t at = absolute(base, dynamic->d_un.d_ptr);

        switch (dynamic->d_tag) {
        case DT_SYMTAB:
            elf->symbols = (const ElfW(Sym) *)at;
            break;
        case DT_STRTAB:
            elf->strings = (const char *)at;
            break;
        case DT_HASH:
            elf->sysv_hash = (const uint32_t *)at;
            break;
        case DT_GNU_HASH:
            elf->gnu_hash = (const uint32_t *)at;
            break;
        case DT_VERSYM:
            elf->versym = (const ElfW(Half) *)at;
            break;
        case DT_VERDEF:
            elf->verdef = (const ElfW(Verdef) *)at;
            break;
        case DT_VERDEFNUM:
            elf->verdef_count = dynamic->d_un.d_val;
            break;
        case DT_SONAME:
            soname = dynamic->d_un.d_val;
            named = true;
            break;
        default:
            break;
        }
    }
    if (elf->symbols == NULL || elf->strings == NULL ||
        (elf->gnu_hash == NULL && elf->sysv_hash == NULL))
        return false;
    if (named)
        elf->soname = elf->strings + soname;
    return true;
}

bool gb_elf_of_phdr(struct gb_elf *elf, const struct dl_phdr_info *info)
{
    for (ElfW(Half) i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *segment = &info->dlpi_phdr[i];

        if (segment->p_type == PT_DYNAMIC)
            return read_dynamic(elf, info->dlpi_addr,
                                (const ElfW(Dyn) *)(info->dlpi_addr + segment->p_vaddr));
    }
    return false;
}

bool gb_elf_of_map(struct gb_elf *elf, const struct link_map *map)
{
    return read_dynamic(elf, map->l_addr, map->l_ld);
}

bool gb_elf_holds(const struct dl_phdr_info *info, const void *address)
{
    const uintptr_t offset = (uintptr_t)address - info->dlpi_addr;

    for (ElfW(Half) i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *segment = &info->dlpi_phdr[i];

        if (segment->p_type == PT_LOAD && offset - segment->p_vaddr < segment->p_memsz)
            return true;
    }
    return false;
}

/* Can other objects bind to it at all? */
static bool is_export(const ElfW(Sym) * symbol)
{
    const unsigned int type = ELF64_ST_TYPE(symbol->st_info);
    const unsigned int bind = ELF64_ST_BIND(symbol->st_info);
    const unsigned int visibility = ELF64_ST_VISIBILITY(symbol->st_other);

    return symbol->st_shndx != SHN_UNDEF && symbol->st_value != 0 &&
           (type == STT_FUNC || type == STT_OBJECT || type == STT_NOTYPE) &&
           (bind == STB_GLOBAL || bind == STB_WEAK || bind == STB_GNU_UNIQUE) &&
           (visibility == STV_DEFAULT || visibility == STV_PROTECTED);
}

/* Does the version definition with this index have this name? */
static bool version_is(const struct gb_elf *elf, unsigned int index, const char *version)
{
    const char *at = (const char *)elf->verdef;

    for (size_t i = 0; at != NULL && i < elf->verdef_count; i++) {
        const ElfW(Verdef) *definition = (const ElfW(Verdef) *)at;
        const ElfW(Verdaux) *name = (const ElfW(Verdaux) *)(at + definition->vd_aux);

        if (definition->vd_ndx == index)
            return gb_text_equal(elf->strings + name->vda_name, version);
        if (definition->vd_next == 0)
            return false;
        at += definition->vd_next;
    }
    return false;
}

static bool version_fits(const struct gb_elf *elf, uint32_t index, const char *version)
{
    ElfW(Half) versym;

    if (elf->versym == NULL)
        return true;
    versym = elf->versym[index];
    if (version == NULL)
        return (versym & VERSION_INDEX) < 2 || (versym & VERSION_HIDDEN) == 0;
    /* An unversioned definition in an object that has versions (of what it needs, say) does not
       match: so does dlvsym. */
    return version_is(elf, versym & VERSION_INDEX, version);
}

static bool fits(const struct gb_elf *elf, uint32_t index, const char *name,
                 const char *version)
{
    const ElfW(Sym) *symbol = &elf->symbols[index];

    return is_export(symbol) && gb_text_equal(elf->strings + symbol->st_name, name) &&
           version_fits(elf, index, version);
}

static uint32_t gnu_hash_of(const char *name)
{
    uint32_t hash = 5381;

    for (; *name != '\0'; name++)
        hash = hash * 33 + (unsigned char)*name;
    return hash;
}

static uint32_t sysv_hash_of(const char *name)
{
    uint32_t hash = 0;

    for (; *name != '\0'; name++) {
        hash = (hash << 4) + (unsigned char)*name;
        hash = (hash ^ (hash >> 24 & 0xf0)) & 0x0fffffff;
    }
    return hash;
}

/* A GNU hash table: header, bloom words, buckets, then one hash word for each symbol. */
struct gnu_table {
    uint32_t bucket_count, first_symbol;
    const uint32_t *buckets, *hashes;
};

static struct gnu_table gnu_table_of(const struct gb_elf *elf)
{
    const uint32_t *head = elf->gnu_hash;
    const ElfW(Addr) *bloom = (const ElfW(Addr) *)(head + 4);
    struct gnu_table table = {.bucket_count = head[0], .first_symbol = head[1]};

    table.buckets = (const uint32_t *)(bloom + head[2]);
    table.hashes = table.buckets + table.bucket_count;
    return table;
}

static const ElfW(Sym) *
    find_gnu(const struct gb_elf *elf, const char *name, const char *version)
{
    const struct gnu_table table = gnu_table_of(elf);
    const uint32_t hash = gnu_hash_of(name);
    uint32_t index;

    if (table.bucket_count == 0)
        return NULL;
    index = table.buckets[hash % table.bucket_count];
    if (index < table.first_symbol)
        return NULL;
    for (;; index++) {
        const uint32_t word = table.hashes[index - table.first_symbol];

        if ((word | 1) == (hash | 1) && fits(elf, index, name, version))
            return &elf->symbols[index];
        if (word & 1) /* the chain's last */
            return NULL;
    }
}

static const ElfW(Sym) *
    find_sysv(const struct gb_elf *elf, const char *name, const char *version)
{
    const uint32_t bucket_count = elf->sysv_hash[0];
    const uint32_t symbol_count = elf->sysv_hash[1];
    const uint32_t *buckets = elf->sysv_hash + 2;
    const uint32_t *chain = buckets + bucket_count;
    uint32_t index;

    if (bucket_count == 0)
        return NULL;
    index = buckets[sysv_hash_of(name) % bucket_count];
    /* A chain never has more links than there are symbols. */
    for (uint32_t i = 0; index != STN_UNDEF && index < symbol_count && i < symbol_count; i++) {
        if (fits(elf, index, name, version))
            return &elf->symbols[index];
        index = chain[index];
    }
    return NULL;
}

void *gb_elf_symbol(const struct gb_elf *elf, const char *name, const char *version)
{
    const ElfW(Sym) *symbol =
        elf->gnu_hash != NULL ? find_gnu(elf, name, version) : find_sysv(elf, name, version);

    return symbol == NULL ? NULL : (void *)(elf->base + symbol->st_value);
}

/* One past the last symbol of the table. */
static uint32_t symbol_end(const struct gb_elf *elf)
{
    struct gnu_table table;
    uint32_t last = 0;

    if (elf->gnu_hash == NULL)
        return elf->sysv_hash[1];
    table = gnu_table_of(elf);
    for (uint32_t i = 0; i < table.bucket_count; i++)
        if (table.buckets[i] > last)
            last = table.buckets[i];
    if (last < table.first_symbol)
        return 0;
    while ((table.hashes[last - table.first_symbol] & 1) == 0)
        last++;
    return last + 1;
}

const char *gb_elf_next_function(const struct gb_elf *elf, uint32_t *cursor)
{
    const uint32_t end = symbol_end(elf);

    if (*cursor == 0 && elf->gnu_hash != NULL)
        *cursor = gnu_table_of(elf).first_symbol;
    while (*cursor < end) {
        const uint32_t index = (*cursor)++;
        const ElfW(Sym) *symbol = &elf->symbols[index];

        if (is_export(symbol) && ELF64_ST_TYPE(symbol->st_info) == STT_FUNC &&
            version_fits(elf, index, NULL))
            return elf->strings + symbol->st_name;
    }
    return NULL;
}

const char *gb_elf_next_needed(const struct gb_elf *elf, size_t *cursor)
{
    for (; elf->dynamic[*cursor].d_tag != DT_NULL; (*cursor)++) {
        if (elf->dynamic[*cursor].d_tag == DT_NEEDED)
            return elf->strings + elf->dynamic[(*cursor)++].d_un.d_val;
    }
    return NULL;
}
