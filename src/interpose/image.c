/*
 * image.c: cubins and fat binaries. Their layout: ELF with the machine number of CUDA; and what
 * nvcc 13.0 writes, looked at byte by byte (docs/driver-behaviour.md).
 */
#include "interpose/image.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/uio.h>
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

/*
 * An image, or a part of one. limit: its length, or more than any has where nobody tells, which
 * is so in memory. There the driver has not judged it yet, and what a damaged one says of its
 * own length may lead to where nothing is.
 */
struct source {
    const char *bytes;
    uint64_t limit;
    bool in_memory;
};

/* Pages asked about at a time. */
enum { PAGES = 64 };

/*
 * Can all of it be read? The kernel is asked for a byte of each page, which does not fault. By
 * number: glibc has had the call's name for less long than this library's oldest. Where the
 * kernel does not let us ask, the image is taken at its word.
 */
static bool readable(const char *from, uint64_t bytes)
{
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    uintptr_t at = (uintptr_t)from, end = at + bytes;
    char seen[PAGES];

    if (end < at)
        return false;
    while (at < end) {
        struct iovec there[PAGES], here = {seen, 0};
        long count;

        while (here.iov_len < PAGES && at < end) {
            there[here.iov_len++] = (struct iovec){(void *)at, 1};
            at = (at / page + 1) * page;
        }
        count = syscall(SYS_process_vm_readv, getpid(), &here, 1, there, here.iov_len, 0);
        if (count < 0 && errno != EFAULT)
            return true;
        if (count != (long)here.iov_len)
            return false;
    }
    return true;
}

static bool is_there(const struct source *image, uint64_t offset, uint64_t bytes)
{
    return offset <= image->limit && bytes <= image->limit - offset &&
           (!image->in_memory || readable(image->bytes + offset, bytes));
}

/* A part of the image that is there, with no more trust in its alignment than needed. */
static void copy(void *to, const struct source *image, uint64_t offset, size_t bytes)
{
    memcpy(to, image->bytes + offset, bytes);
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

/* In st_other of a symbol: it is a managed variable. */
#define MANAGED 4

static bool is_managed(const Elf64_Sym *symbol)
{
    return ELF64_ST_TYPE(symbol->st_info) == STT_OBJECT && (symbol->st_other & MANAGED);
}

static uint64_t sum(uint64_t a, uint64_t b)
{
    return b < MOST_BYTES - a ? a + b : MOST_BYTES;
}

/* Names of a symbol table that are defined elsewhere, and managed variables that are here. */
static void read_symbols(struct gb_image *what, const struct source *image,
                         const Elf64_Shdr *symbols, const Elf64_Shdr *names)
{
    const char *name;
    Elf64_Sym symbol;

    if (!is_there(image, symbols->sh_offset, symbols->sh_size) ||
        !is_there(image, names->sh_offset, names->sh_size))
        return;
    for (uint64_t at = 0; at + sizeof(symbol) <= symbols->sh_size; at += sizeof(symbol)) {
        copy(&symbol, image, symbols->sh_offset + at, sizeof(symbol));
        if (symbol.st_shndx != SHN_UNDEF && is_managed(&symbol))
            what->managed = sum(what->managed, symbol.st_size);
        if (symbol.st_shndx != SHN_UNDEF || symbol.st_name >= names->sh_size)
            continue;
        name = image->bytes + names->sh_offset + symbol.st_name;
        gb_image_calls(what, name, strnlen(name, names->sh_size - symbol.st_name));
    }
}

static struct gb_image read_cubin(const struct source *image)
{
    struct gb_image what = {0};
    Elf64_Shdr section, names, strings;
    Elf64_Ehdr header;
    bool named;

    if (!is_there(image, 0, sizeof(header)))
        return what;
    copy(&header, image, 0, sizeof(header));
    if (header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_ident[EI_DATA] != ELFDATA2LSB ||
        header.e_machine != MACHINE_CUDA || header.e_shentsize != sizeof(section) ||
        header.e_shstrndx >= header.e_shnum ||
        !is_there(image, header.e_shoff, (uint64_t)header.e_shnum * sizeof(section)))
        return what;
    copy(&names, image, header.e_shoff + header.e_shstrndx * sizeof(names), sizeof(names));
    named = is_there(image, names.sh_offset, names.sh_size);
    for (unsigned int i = 0; i < header.e_shnum; i++) {
        copy(&section, image, header.e_shoff + i * sizeof(section), sizeof(section));
        if (section.sh_type == SHT_SYMTAB && section.sh_link < header.e_shnum) {
            copy(&strings, image, header.e_shoff + section.sh_link * sizeof(strings),
                 sizeof(strings));
            read_symbols(&what, image, &section, &strings);
        }
        if (!(section.sh_flags & SHF_ALLOC) || !named || section.sh_name >= names.sh_size ||
            section.sh_size > MOST_BYTES)
            continue;
        if (names.sh_size - section.sh_name >= GLOBAL_PREFIX &&
            is_global(image->bytes + names.sh_offset + section.sh_name))
            what.variables = sum(what.variables, section.sh_size);
    }
    /* The sections have these, too. */
    what.variables -= what.managed < what.variables ? what.managed : what.variables;
    return what;
}

static void keep_larger(struct gb_image *most, const struct gb_image *other)
{
    if (other->variables > most->variables)
        most->variables = other->variables;
    if (other->managed > most->managed)
        most->managed = other->managed;
    if (other->frames > most->frames)
        most->frames = other->frames;
    most->has_heap |= other->has_heap;
}

static struct gb_image read_entry(const struct source *part, unsigned kind)
{
    static const struct gb_image nothing;

    if (kind == ENTRY_CUBIN)
        return read_cubin(part);
    if (kind == ENTRY_PTX && is_there(part, 0, part->limit))
        return gb_image_read_ptx(part->bytes, part->limit);
    return nothing;
}

static struct gb_image read_fat(const struct source *image)
{
    struct gb_image what = {0}, one;
    struct fat_header header;
    struct fat_entry entry;
    uint64_t at, end;

    if (!is_there(image, 0, sizeof(header)))
        return what;
    copy(&header, image, 0, sizeof(header));
    at = header.header_bytes;
    if (at > image->limit || header.bytes > image->limit - at)
        return what;
    end = at + header.bytes;
    for (int i = 0; i < MOST_ENTRIES && at < end && end - at >= sizeof(entry); i++) {
        if (!is_there(image, at, sizeof(entry)))
            break;
        copy(&entry, image, at, sizeof(entry));
        if (entry.header_bytes < sizeof(entry) || entry.header_bytes > end - at ||
            entry.bytes > end - at - entry.header_bytes)
            break;
        at += entry.header_bytes;
        if (!(entry.flags & ENTRY_COMPRESSED)) {
            const struct source part = {image->bytes + at, entry.bytes, image->in_memory};

            one = read_entry(&part, entry.kind);
            keep_larger(&what, &one);
        }
        at += entry.bytes;
    }
    return what;
}

/* Of those that say themselves how long they are. */
static struct gb_image read_binary(const struct source *image, uint32_t magic)
{
    return magic == FAT_MAGIC ? read_fat(image) : read_cubin(image);
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
    struct source source;
    uint32_t magic = 0;

    /* Byte by byte: a text may be shorter. */
    for (size_t i = 0; i < sizeof(magic); i++) {
        if (!text || text[i] == '\0')
            return nothing;
        magic |= (uint32_t)(unsigned char)text[i] << (8 * i);
    }
    source = (struct source){text, MOST_BYTES, true};
    if (magic == WRAPPER_MAGIC) {
        if (!is_there(&source, 0, sizeof(wrapper)))
            return nothing;
        copy(&wrapper, &source, 0, sizeof(wrapper));
        source.bytes = wrapper.data;
        if (!wrapper.data || !is_there(&source, 0, sizeof(magic)))
            return nothing;
        copy(&magic, &source, 0, sizeof(magic));
        return is_binary(magic) ? read_binary(&source, magic) : nothing;
    }
    if (is_binary(magic))
        return read_binary(&source, magic);
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
    struct gb_image what = {0};
    struct source source;
    int file = path ? open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK) : -1;
    uint32_t magic;
    size_t length;
    char *bytes;

    if (file < 0)
        return what;
    bytes = read_whole(file, &length);
    if (bytes && length >= sizeof(magic)) {
        memcpy(&magic, bytes, sizeof(magic));
        source = (struct source){bytes, length, false};
        what =
            is_binary(magic) ? read_binary(&source, magic) : gb_image_read_ptx(bytes, length);
    }
    free(bytes);
    close(file);
    return what;
}
