/*
 * elf_file.h: what the launcher must know of a library or a program before it starts one.
 */
#ifndef GB_TOOLS_ELF_FILE_H
#define GB_TOOLS_ELF_FILE_H

#include <stdbool.h>

enum gb_elf_kind {
    GB_ELF_UNREADABLE, /* errno says why */
    GB_ELF_NOT,        /* some other file */
    GB_ELF_BROKEN,     /* begins as one, but is cut short or makes no sense */
    GB_ELF_FOREIGN,    /* of another class, byte order or machine than ours */
    GB_ELF_NATIVE
};

#define GB_ELF_RUNTIMES 4

struct gb_elf_file {
    enum gb_elf_kind kind;
    bool shared;           /* NATIVE: ET_DYN */
    char interpreter[128]; /* NATIVE: "" for a static program or a library */
    /* NATIVE: sanitizer runtimes among the libraries it needs, which must come first. */
    unsigned runtime_count;
    char runtimes[GB_ELF_RUNTIMES][64];
};

void gb_elf_file_read(const char *path, struct gb_elf_file *file);

#endif
