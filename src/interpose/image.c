/*
 * image.c: cubins and fat binaries. Their layout: ELF with the machine number of CUDA; and what
 * nvcc 13.0 writes, looked at byte by byte (docs/driver-behaviour.md).
 */
#include "interpose/image.h"

#include <elf.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MACHINE_CUDA  190

#define WRAPPER_MAGIC 0x466243b1u
#define FAT_MAGIC     0xba55ed50u

enum { ENTRY_PTX = 1, ENTRY_CUBIN = 2 };

/* Either way of compressing: what is in there is not read. */
#define ENTRY_COMPRESSED (UINT64_C(0x8000) | UINT64_C(0x2000))

/* More is no image, but something misread. */
#define MOST_BYTES   (UINT64_C(1) << 40)
#define MOST_ENTRIES 4096

/* Larger files are not read: no code is. */
#define MOST_FILE_BYTES ((off_t)1 << 32)

struct wrapper {
    uint32_t magic, version;
    const void *data;
};

struct fat_header {
    uint32_t magic;
    uint16_t version, header_bytes;
    uint64_t bytes; /* of all entries */
};

struct fat_entry {
    uint16_t kind, version;
    uint32_t header_bytes;
    uint64_t bytes;
    uint32_t unused[6];
    uint64_t flags;
};

/* A part of the image at an offset, with no more trust in its alignment than needed. */
static void copy(void *to, const char *image, uint64_t offset, size_t bytes)
{
    memcpy(to, image + offset, bytes);
}

/* Bytes of ".nv.global", with which the names of these sections begin. */
enum { GLOBAL_PREFIX = 10 };

static bool is_global(const char *name)
{
    return memcmp(name, ".nv.global", GLOBAL_PREFIX) == 0;
}

/*
 * Functions of the driver that need local memory for every thread, which comes with the code,
 * once for each context, and stays (measured on an H200: 62, 90, 138 and 138 MiB for its
 * 270,336 threads, of several the most; these are the most bytes a thread that make so much).
 */
static const struct {
    const char *name;
    uint64_t frame;
    bool heap;
} driver_functions[] = {
    {"vprintf", 240, false},
    {"__assertfail", 349, false},
    {"malloc", 535, true},
    {"free", 535, true},
};

void gb_image_calls(struct gb_image *image, const char *name, size_t length)
{
    for (size_t i = 0; i < sizeof(driver_functions) / sizeof(driver_functions[0]); i++) {
        if (strlen(driver_functions[i].name) != length ||
            memcmp(driver_functions[i].name, name, length) != 0)
            continue;
        if (driver_functions[i].frame > image->frames)
            image->frames = driver_functions[i].frame;
        image->has_heap |= driver_functions[i].heap;
    }
}

/* Names of a symbol table that are defined elsewhere. */
static void read_symbols(struct gb_image *what, const char *image, const Elf64_Shdr *symbols,
                         const Elf64_Shdr *names)
{
    const char *name;
    Elf64_Sym symbol;

    for (uint64_t at = 0; at + sizeof(symbol) <= symbols->sh_size; at += sizeof(symbol)) {
        copy(&symbol, image, symbols->sh_offset + at, sizeof(symbol));
        if (symbol.st_shndx != SHN_UNDEF || symbol.st_name >= names->sh_size)
            continue;
        name = image + names->sh_offset + symbol.st_name;
        gb_image_calls(what, name, strnlen(name, names->sh_size - symbol.st_name));
    }
}

/* limit: bytes that are surely there; of an image in memory, whose length nobody tells, no
 * bound. */
static struct gb_image read_cubin(const char *image, uint64_t limit)
{
    struct gb_image what = {0, 0, false};
    Elf64_Shdr section, names, strings;
    Elf64_Ehdr header;

    if (limit < sizeof(header))
        return what;
    copy(&header, image, 0, sizeof(header));
    if (header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_ident[EI_DATA] != ELFDATA2LSB ||
        header.e_machine != MACHINE_CUDA || header.e_shentsize != sizeof(section) ||
        header.e_shstrndx >= header.e_shnum || header.e_shoff > limit ||
        limit - header.e_shoff < (uint64_t)header.e_shnum * sizeof(section))
        return what;
    copy(&names, image, header.e_shoff + header.e_shstrndx * sizeof(names), sizeof(names));
    for (unsigned int i = 0; i < header.e_shnum; i++) {
        copy(&section, image, header.e_shoff + i * sizeof(section), sizeof(section));
        if (section.sh_type == SHT_SYMTAB && section.sh_link < header.e_shnum) {
            copy(&strings, image, header.e_shoff + section.sh_link * sizeof(strings),
                 sizeof(strings));
            if (section.sh_offset < limit && section.sh_size <= limit - section.sh_offset &&
                strings.sh_offset < limit && strings.sh_size <= limit - strings.sh_offset)
                read_symbols(&what, image, &section, &strings);
        }
        if (!(section.sh_flags & SHF_ALLOC) || section.sh_name >= names.sh_size ||
            names.sh_offset >= limit || names.sh_size > limit - names.sh_offset ||
            section.sh_size > MOST_BYTES)
            continue;
        if (names.sh_size - section.sh_name >= GLOBAL_PREFIX &&
            is_global(image + names.sh_offset + section.sh_name))
            what.variables += section.sh_size;
    }
    return what;
}

static void keep_larger(struct gb_image *most, const struct gb_image *other)
{
    if (other->variables > most->variables)
        most->variables = other->variables;
    if (other->frames > most->frames)
        most->frames = other->frames;
    most->has_heap |= other->has_heap;
}

static struct gb_image read_fat(const char *image, uint64_t limit)
{
    struct gb_image what = {0, 0, false}, one;
    struct fat_header header;
    struct fat_entry entry;
    uint64_t at, end;

    if (limit < sizeof(header))
        return what;
    copy(&header, image, 0, sizeof(header));
    at = header.header_bytes;
    if (at > limit || header.bytes > limit - at)
        return what;
    end = at + header.bytes;
    for (int i = 0; i < MOST_ENTRIES && at < end && end - at >= sizeof(entry); i++) {
        copy(&entry, image, at, sizeof(entry));
        if (entry.header_bytes < sizeof(entry) || entry.header_bytes > end - at ||
            entry.bytes > end - at - entry.header_bytes)
            break;
        at += entry.header_bytes;
        if (entry.kind == ENTRY_CUBIN && !(entry.flags & ENTRY_COMPRESSED)) {
            one = read_cubin(image + at, entry.bytes);
            keep_larger(&what, &one);
        } else if (entry.kind == ENTRY_PTX && !(entry.flags & ENTRY_COMPRESSED)) {
            one = gb_image_read_ptx(image + at, entry.bytes);
            keep_larger(&what, &one);
        }
        at += entry.bytes;
    }
    return what;
}

/* Of those that say themselves how long they are. */
static struct gb_image read_binary(const char *image, uint32_t magic, uint64_t limit)
{
    if (magic == FAT_MAGIC)
        return read_fat(image, limit);
    return read_cubin(image, limit);
}

static bool is_binary(uint32_t magic)
{
    return magic == FAT_MAGIC || memcmp(&magic, ELFMAG, SELFMAG) == 0;
}

struct gb_image gb_image_read(const void *image)
{
    static const struct gb_image nothing;
    struct wrapper wrapper;
    const char *text = image;
    uint32_t magic = 0;

    /* Byte by byte: a text may be shorter. */
    for (size_t i = 0; i < sizeof(magic); i++) {
        if (!text || text[i] == '\0')
            return nothing;
        magic |= (uint32_t)(unsigned char)text[i] << (8 * i);
    }
    if (magic == WRAPPER_MAGIC) {
        memcpy(&wrapper, image, sizeof(wrapper));
        if (!wrapper.data)
            return nothing;
        memcpy(&magic, wrapper.data, sizeof(magic));
        return is_binary(magic) ? read_binary(wrapper.data, magic, MOST_BYTES) : nothing;
    }
    if (is_binary(magic))
        return read_binary(image, magic, MOST_BYTES);
    return gb_image_read_ptx(text, strlen(text));
}

/* All of it: a file that somebody cuts off meanwhile must not end the program. */
static char *read_whole(int file, size_t *length)
{
    off_t size = lseek(file, 0, SEEK_END);
    char *bytes = size > 0 && size <= MOST_FILE_BYTES ? malloc((size_t)size) : NULL;
    ssize_t count = 1;

    *length = 0;
    while (bytes && count > 0 && *length < (size_t)size) {
        count = pread(file, bytes + *length, (size_t)size - *length, (off_t)*length);
        if (count > 0)
            *length += (size_t)count;
    }
    return bytes;
}

struct gb_image gb_image_read_file(const char *path)
{
    struct gb_image what = {0, 0, false};
    int file = path ? open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK) : -1;
    uint32_t magic;
    size_t length;
    char *bytes;

    if (file < 0)
        return what;
    bytes = read_whole(file, &length);
    if (bytes && length >= sizeof(magic)) {
        memcpy(&magic, bytes, sizeof(magic));
        what = is_binary(magic) ? read_binary(bytes, magic, length)
                                : gb_image_read_ptx(bytes, length);
    }
    free(bytes);
    close(file);
    return what;
}
