#include "tools/elf_file.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#if defined(__x86_64__)
#define MACHINE EM_X86_64
#elif defined(__aarch64__)
#define MACHINE EM_AARCH64
#endif
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#define BYTE_ORDER_HERE ELFDATA2LSB
#else
#define BYTE_ORDER_HERE ELFDATA2MSB
#endif

/* The whole file in memory. Every offset from it is checked: it may be cut or hostile. */
struct image {
    const unsigned char *bytes;
    uint64_t size;
};

static bool inside(const struct image *image, uint64_t offset, uint64_t size)
{
    return offset <= image->size && size <= image->size - offset;
}

static bool program_header(const struct image *image, const Elf64_Ehdr *header, unsigned index,
                           Elf64_Phdr *segment)
{
    uint64_t offset = header->e_phoff + (uint64_t)index * sizeof(*segment);
    if (!inside(image, offset, sizeof(*segment)))
        return false;
    memcpy(segment, image->bytes + offset, sizeof(*segment));
    return true;
}

/* Where in the file is this address? The image's size where it is nowhere. */
static uint64_t offset_of(const struct image *image, const Elf64_Ehdr *header, uint64_t address)
{
    Elf64_Phdr segment;
    for (unsigned i = 0; i < header->e_phnum; i++)
        if (program_header(image, header, i, &segment) && segment.p_type == PT_LOAD &&
            address >= segment.p_vaddr && address - segment.p_vaddr < segment.p_filesz)
            return segment.p_offset + (address - segment.p_vaddr);
    return image->size;
}

static bool is_runtime(const char *name)
{
    static const char *const heads[] = {
        "libasan.so",       "libtsan.so",        "libubsan.so",
        "liblsan.so",       "libhwasan.so",      "libclang_rt.asan",
        "libclang_rt.tsan", "libclang_rt.ubsan", "libclang_rt.hwasan"};
    for (size_t i = 0; i < sizeof(heads) / sizeof(heads[0]); i++)
        if (strncmp(name, heads[i], strlen(heads[i])) == 0)
            return true;
    return false;
}

static void read_needed(const struct image *image, const Elf64_Ehdr *header,
                        const Elf64_Phdr *dynamic, struct gb_elf_file *file)
{
    uint64_t count = dynamic->p_filesz / sizeof(Elf64_Dyn);
    uint64_t strings = image->size;
    Elf64_Dyn entry;
    for (int round = 0; round < 2; round++) {
        for (uint64_t i = 0; i < count; i++) {
            memcpy(&entry, image->bytes + dynamic->p_offset + i * sizeof(entry), sizeof(entry));
            if (entry.d_tag == DT_NULL)
                break;
            if (round == 0 && entry.d_tag == DT_STRTAB)
                strings = offset_of(image, header, entry.d_un.d_ptr);
            if (round == 0 || entry.d_tag != DT_NEEDED ||
                file->runtime_count == GB_ELF_RUNTIMES)
                continue;
            uint64_t offset = strings + entry.d_un.d_val;
            char *name = file->runtimes[file->runtime_count];
            size_t room = sizeof(file->runtimes[0]);
            if (!inside(image, strings, 0) || !inside(image, offset, 1))
                continue;
            if (image->size - offset < room)
                room = (size_t)(image->size - offset);
            memcpy(name, image->bytes + offset, room);
            if (memchr(name, '\0', room) && is_runtime(name))
                file->runtime_count++;
        }
    }
}

static enum gb_elf_kind read_native(const struct image *image, const Elf64_Ehdr *header,
                                    struct gb_elf_file *file)
{
    Elf64_Phdr segment;
    bool loads = false;
    if (header->e_phentsize != sizeof(segment))
        return GB_ELF_BROKEN;
    for (unsigned i = 0; i < header->e_phnum; i++) {
        if (!program_header(image, header, i, &segment))
            return GB_ELF_BROKEN;
        if (segment.p_type != PT_LOAD && segment.p_type != PT_INTERP &&
            segment.p_type != PT_DYNAMIC)
            continue;
        if (!inside(image, segment.p_offset, segment.p_filesz))
            return GB_ELF_BROKEN;
        loads |= segment.p_type == PT_LOAD;
        if (segment.p_type == PT_INTERP && segment.p_filesz > 0)
            snprintf(file->interpreter, sizeof(file->interpreter), "%.*s",
                     (int)(segment.p_filesz < 120 ? segment.p_filesz : 120),
                     (const char *)image->bytes + segment.p_offset);
        if (segment.p_type == PT_DYNAMIC)
            read_needed(image, header, &segment, file);
    }
    file->shared = header->e_type == ET_DYN;
    return loads ? GB_ELF_NATIVE : GB_ELF_BROKEN;
}

static enum gb_elf_kind read_image(const struct image *image, struct gb_elf_file *file)
{
    Elf64_Ehdr header;
    if (image->size < SELFMAG || memcmp(image->bytes, ELFMAG, SELFMAG) != 0)
        return GB_ELF_NOT;
    if (image->size < EI_NIDENT)
        return GB_ELF_BROKEN;
    if (image->bytes[EI_CLASS] != ELFCLASS64 || image->bytes[EI_DATA] != BYTE_ORDER_HERE)
        return GB_ELF_FOREIGN;
    if (image->size < sizeof(header))
        return GB_ELF_BROKEN;
    memcpy(&header, image->bytes, sizeof(header));
    if (header.e_machine != MACHINE)
        return GB_ELF_FOREIGN;
    return read_native(image, &header, file);
}

void gb_elf_file_read(const char *path, struct gb_elf_file *file)
{
    struct stat status;
    memset(file, 0, sizeof(*file));
    int handle = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (handle < 0)
        return;
    if (fstat(handle, &status) != 0) {
        int saved = errno;
        close(handle);
        errno = saved;
        return;
    }
    file->kind = GB_ELF_NOT;
    if (!S_ISREG(status.st_mode) || status.st_size <= 0) {
        close(handle);
        return;
    }
    struct image image = {.size = (uint64_t)status.st_size};
    void *bytes = mmap(NULL, (size_t)image.size, PROT_READ, MAP_PRIVATE, handle, 0);
    int saved = errno;
    close(handle);
    if (bytes == MAP_FAILED) {
        file->kind = GB_ELF_UNREADABLE;
        errno = saved;
        return;
    }
    image.bytes = bytes;
    file->kind = read_image(&image, file);
    munmap(bytes, (size_t)image.size);
}
