/* What code asks for, read from its image. */
#include "interpose/image.h"

#include <elf.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "unit.h"

#define HEAD ".version 6.0\n.target sm_50\n.address_size 64\n"

static uint64_t variables(const char *text)
{
    return gb_image_read(text).variables;
}

START_TEST(test_text_sizes)
{
    static const struct {
        const char *text;
        uint64_t bytes;
    } cases[] = {
        {HEAD ".visible .global .align 4 .b8 big[134217728];\n", 134217728},
        {HEAD ".global .u32 one;", 4},
        {HEAD ".global .u32 one, two[3];", 16},
        {HEAD ".weak .global .align 16 .v4 .f32 four[10];", 160},
        {HEAD ".global .v2 .f64 pair;", 16},
        {HEAD ".global .u64 matrix[0x10][010];", 8 * 16 * 8},
        {HEAD ".global .b16 from[] = {1, 2, 3};", 6},
        {HEAD ".global .s32 nested[] = { {1, 2}, {3, 4} };", 16},
        {HEAD ".global .f32 value = 0f3F800000;", 4},
        {HEAD ".global .b128 wide;", 16},
        {HEAD ".global .f16x2 halves[2];", 8},
        {HEAD ".global .bf16 small[4];", 8},
        {HEAD ".global .align 8 .u64 to[1] = {other};", 8},
        {HEAD "/* .global .u32 no; */ // .global .u32 nor;\n.global .u8 yes;", 1},
        {HEAD ".file 1 \"a;{.global .u32 no;\"\n.global .u8 yes;", 1},
        {HEAD ".extern .global .u32 elsewhere[100];", 0},
        {HEAD ".extern .global .u32 elsewhere;.global .u32 here;", 4},
        {HEAD ".global .attribute(.managed) .align 4 .b8 shared[4096];.global .u32 one;", 4},
        {HEAD ".const .u32 table[100];", 0},
        {HEAD ".visible .entry k() {\n.reg .b64 %rd<3>;\nld.global.u32 %r1, [%rd1];\n"
              ".global .u32 no[5];\n}\n.global .u32 after;",
         4},
        {HEAD ".section .debug_str { .b8 1,2,3 }\n.global .u32 after;", 4},
        {HEAD ".global .texref old;", 0},
        {HEAD ".global .b8 huge[1099511627776];", UINT64_C(1) << 40},
        /* Cut off, or nonsense. */
        {HEAD ".global .b8 open[", 0},
        {HEAD ".global", 0},
        {HEAD ".global .u32 x = {", 0},
        {HEAD "/* .global .u32 x;", 0},
        {HEAD "\" .global .u32 x;", 0},
        {HEAD "}}}.global .u32 x;", 4},
        {"", 0},
        {".", 0},
        {"hello", 0},
        {".global .u32 x;", 0},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        ck_assert_msg(variables(cases[i].text) == cases[i].bytes, "%s: %llu, not %llu",
                      cases[i].text, (unsigned long long)variables(cases[i].text),
                      (unsigned long long)cases[i].bytes);
}
END_TEST

START_TEST(test_text_managed)
{
    static const struct {
        const char *text;
        uint64_t bytes;
    } cases[] = {
        {HEAD ".visible .global .attribute(.managed) .align 4 .b8 shared[4096];", 4096},
        {HEAD ".global .attribute(.managed, .unified(1, 2)) .u32 one, two[3];.global .u8 no;",
         16},
        {HEAD ".global .attribute(.managed) .u32 a;.global .attribute(.managed) .u64 b;", 12},
        {HEAD ".extern .global .attribute(.managed) .u32 elsewhere[100];", 0},
        {HEAD ".global .u32 plain;", 0},
        {HEAD ".global .attribute(.managed) .b8 huge[1099511627776];", UINT64_C(1) << 40},
    };

    for (size_t i = 0; i < COUNT_OF(cases); i++)
        ck_assert_msg(gb_image_read(cases[i].text).managed == cases[i].bytes, "%s",
                      cases[i].text);
}
END_TEST

START_TEST(test_text_calls)
{
    static const struct {
        const char *text;
        uint64_t frames;
        bool has_heap;
    } cases[] = {
        {HEAD ".extern .func (.param .b64 r) malloc\n(\n.param .b64 p\n)\n;\n", 535, true},
        {HEAD ".extern .func free (.param .b64 x);", 535, true},
        {HEAD ".extern .func (.param .b32 r) vprintf (.param .b64 p, .param .b64 q);", 240,
         false},
        {HEAD
         ".extern .func __assertfail (.param .b64 p);.extern .func vprintf (.param .b64 p);",
         349, false},
        {HEAD ".extern .func vprintf (.param .b64 p);.extern .func free (.param .b64 p);", 535,
         true},
        {HEAD ".func malloc (.param .b64 x) {}", 0, false},
        {HEAD ".extern .func f (.param .b64 x); .global .u8 malloc;", 0, false},
        {HEAD ".extern .func mallocs (.param .b64 x);", 0, false},
    };

    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        ck_assert_msg(gb_image_read(cases[i].text).frames == cases[i].frames, "%s",
                      cases[i].text);
        ck_assert_msg(gb_image_read(cases[i].text).has_heap == cases[i].has_heap, "%s",
                      cases[i].text);
    }
}
END_TEST

/* A cubin with one section and one symbol. */
struct cubin {
    Elf64_Ehdr header;
    Elf64_Shdr sections[5];
    Elf64_Sym symbols[2];
    char strings[64];
};

static void make_cubin(struct cubin *cubin, const char *section, uint64_t bytes,
                       const char *symbol)
{
    char *names = cubin->strings;

    memset(cubin, 0, sizeof(*cubin));
    memcpy(cubin->header.e_ident, ELFMAG, SELFMAG);
    cubin->header.e_ident[EI_CLASS] = ELFCLASS64;
    cubin->header.e_ident[EI_DATA] = ELFDATA2LSB;
    cubin->header.e_machine = 190;
    cubin->header.e_shoff = offsetof(struct cubin, sections);
    cubin->header.e_shentsize = sizeof(Elf64_Shdr);
    cubin->header.e_shnum = 5;
    cubin->header.e_shstrndx = 1;
    strcpy(names + 1, section);
    strcpy(names + 32, symbol);
    cubin->sections[1] = (Elf64_Shdr){.sh_type = SHT_STRTAB,
                                      .sh_offset = offsetof(struct cubin, strings),
                                      .sh_size = sizeof(cubin->strings)};
    cubin->sections[2] = (Elf64_Shdr){
        .sh_name = 1, .sh_type = SHT_NOBITS, .sh_flags = SHF_ALLOC, .sh_size = bytes};
    cubin->sections[3] = (Elf64_Shdr){.sh_type = SHT_SYMTAB,
                                      .sh_link = 1,
                                      .sh_offset = offsetof(struct cubin, symbols),
                                      .sh_size = sizeof(cubin->symbols)};
    cubin->sections[4] = (Elf64_Shdr){
        .sh_name = 1, .sh_type = SHT_PROGBITS, .sh_flags = SHF_ALLOC, .sh_size = 100};
    cubin->symbols[1].st_name = 32;
}

START_TEST(test_cubin)
{
    struct cubin cubin;

    make_cubin(&cubin, ".nv.global", 300 * MIB, "malloc");
    ck_assert_uint_eq(gb_image_read(&cubin).variables, 300 * MIB + 100);
    ck_assert(gb_image_read(&cubin).has_heap);
    ck_assert_uint_eq(gb_image_read(&cubin).frames, 535);
    /* Its own malloc is no heap. */
    cubin.symbols[1].st_shndx = 2;
    ck_assert(!gb_image_read(&cubin).has_heap);
    cubin.sections[2].sh_flags = 0;
    ck_assert_uint_eq(gb_image_read(&cubin).variables, 100);
    make_cubin(&cubin, ".nv.global.init", 4 * MIB, "vprintf");
    ck_assert_uint_eq(gb_image_read(&cubin).variables, 4 * MIB + 100);
    ck_assert(!gb_image_read(&cubin).has_heap);
    ck_assert_uint_eq(gb_image_read(&cubin).frames, 240);
    make_cubin(&cubin, ".nv.constant0", 4 * MIB, "free");
    ck_assert_uint_eq(gb_image_read(&cubin).variables, 0);
    /* Not for a GPU, or not to be understood. */
    make_cubin(&cubin, ".nv.global", 4 * MIB, "free");
    cubin.header.e_machine = EM_X86_64;
    ck_assert_uint_eq(gb_image_read(&cubin).variables, 0);
    make_cubin(&cubin, ".nv.global", 4 * MIB, "free");
    cubin.header.e_shstrndx = 7;
    ck_assert_uint_eq(gb_image_read(&cubin).variables, 0);
}
END_TEST

/* In the same sections as the others, told by their symbols only. */
START_TEST(test_cubin_managed)
{
    struct cubin cubin;

    make_cubin(&cubin, ".nv.global", 300 * MIB, "shared");
    cubin.symbols[1].st_info = ELF64_ST_INFO(STB_LOCAL, STT_OBJECT);
    cubin.symbols[1].st_shndx = 2;
    cubin.symbols[1].st_size = 200 * MIB;
    ck_assert_uint_eq(gb_image_read(&cubin).managed, 0);
    ck_assert_uint_eq(gb_image_read(&cubin).variables, 300 * MIB + 100);
    cubin.symbols[1].st_other = 4;
    ck_assert_uint_eq(gb_image_read(&cubin).managed, 200 * MIB);
    ck_assert_uint_eq(gb_image_read(&cubin).variables, 100 * MIB + 100);
    /* More than the sections have, or than anything has. */
    cubin.symbols[1].st_size = 400 * MIB;
    ck_assert_uint_eq(gb_image_read(&cubin).variables, 0);
    cubin.symbols[1].st_size = UINT64_MAX;
    ck_assert_uint_eq(gb_image_read(&cubin).managed, UINT64_C(1) << 40);
    /* A function, or one that is elsewhere. */
    cubin.symbols[1].st_info = ELF64_ST_INFO(STB_LOCAL, STT_FUNC);
    ck_assert_uint_eq(gb_image_read(&cubin).managed, 0);
    cubin.symbols[1].st_info = ELF64_ST_INFO(STB_LOCAL, STT_OBJECT);
    cubin.symbols[1].st_shndx = SHN_UNDEF;
    ck_assert_uint_eq(gb_image_read(&cubin).managed, 0);
}
END_TEST

struct fat {
    uint32_t magic;
    uint16_t version, header_bytes;
    uint64_t bytes;
    struct {
        uint16_t kind, version;
        uint32_t header_bytes;
        uint64_t bytes;
        uint32_t unused[6];
        uint64_t flags;
        struct cubin cubin;
    } entry[2];
};

static void make_fat(struct fat *fat)
{
    memset(fat, 0, sizeof(*fat));
    fat->magic = 0xba55ed50u;
    fat->version = 1;
    fat->header_bytes = 16;
    fat->bytes = sizeof(fat->entry);
    for (int i = 0; i < 2; i++) {
        fat->entry[i].kind = 2;
        fat->entry[i].header_bytes = offsetof(struct fat, entry[0].cubin) - 16;
        fat->entry[i].bytes = sizeof(struct cubin);
        fat->entry[i].flags = 0x11;
        make_cubin(&fat->entry[i].cubin, ".nv.global", (uint64_t)(i + 1) * MIB, "free");
    }
}

START_TEST(test_fat)
{
    struct {
        uint32_t magic, version;
        const void *data;
    } wrapper = {0x466243b1u, 1, NULL};
    struct fat fat;

    make_fat(&fat);
    /* Which one the driver takes is not known: the larger counts. */
    ck_assert_uint_eq(gb_image_read(&fat).variables, 2 * MIB + 100);
    wrapper.data = &fat;
    ck_assert_uint_eq(gb_image_read(&wrapper).variables, 2 * MIB + 100);
    wrapper.data = NULL;
    ck_assert_uint_eq(gb_image_read(&wrapper).variables, 0);
    /* Compressed, in either way. */
    fat.entry[1].flags = 0x8011;
    ck_assert_uint_eq(gb_image_read(&fat).variables, MIB + 100);
    fat.entry[0].flags = 0x2011;
    ck_assert_uint_eq(gb_image_read(&fat).variables, 0);
    make_fat(&fat);
    fat.entry[0].kind = 9;
    fat.entry[1].kind = 1;
    memset(&fat.entry[1].cubin, ' ', sizeof(fat.entry[1].cubin));
    memcpy(&fat.entry[1].cubin, HEAD ".global .u32 x[9];",
           sizeof(HEAD ".global .u32 x[9];") - 1);
    ck_assert_uint_eq(gb_image_read(&fat).variables, 36);
    /* An entry that says more than the whole. */
    make_fat(&fat);
    fat.entry[1].bytes = UINT64_MAX - 8;
    ck_assert_uint_eq(gb_image_read(&fat).variables, MIB + 100);
    fat.entry[0].header_bytes = 4;
    ck_assert_uint_eq(gb_image_read(&fat).variables, 0);
}
END_TEST

/* In memory nobody says how long an image is, and a damaged one may say anything. */
START_TEST(test_not_all_of_it_is_there)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    char *pages =
        mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    struct cubin cubin;
    struct fat fat;

    ck_assert_ptr_ne(pages, MAP_FAILED);
    ck_assert_int_eq(mprotect(pages + page, page, PROT_NONE), 0);
    make_cubin(&cubin, ".nv.global", 4 * MIB, "free");
    for (size_t there = 8; there <= sizeof(cubin); there += 4) {
        memcpy(pages + page - there, &cubin, there);
        ck_assert_uint_eq(gb_image_read(pages + page - there).variables,
                          there == sizeof(cubin) ? 4 * MIB + 100 : 0);
    }
    make_fat(&fat);
    for (size_t there = 8; there <= sizeof(fat); there += 4) {
        memcpy(pages + page - there, &fat, there);
        ck_assert_uint_le(gb_image_read(pages + page - there).variables, 2 * MIB + 100);
    }
    ck_assert_uint_eq(gb_image_read(pages + page - sizeof(fat)).variables, 2 * MIB + 100);
    cubin.header.e_shoff = UINT64_C(1) << 39;
    ck_assert_uint_eq(gb_image_read(&cubin).variables, 0);
    munmap(pages, 2 * page);
}
END_TEST

START_TEST(test_file)
{
    char path[] = "/tmp/check_image.XXXXXX";
    int file = mkstemp(path);
    struct fat fat;

    ck_assert_int_ge(file, 0);
    ck_assert_uint_eq(gb_image_read_file(path).variables, 0);
    make_fat(&fat);
    ck_assert_int_eq(write(file, &fat, sizeof(fat)), sizeof(fat));
    ck_assert_uint_eq(gb_image_read_file(path).variables, 2 * MIB + 100);
    /* Cut off anywhere it is read as far as it goes. */
    for (off_t length = sizeof(fat); length >= 0; length -= 7) {
        ck_assert_int_eq(ftruncate(file, length), 0);
        ck_assert_uint_le(gb_image_read_file(path).variables, 2 * MIB + 100);
    }
    ck_assert_int_eq(ftruncate(file, 0), 0);
    ck_assert_int_eq(
        pwrite(file, HEAD ".global .u32 x[9];", sizeof(HEAD ".global .u32 x[9];") - 1, 0),
        sizeof(HEAD ".global .u32 x[9];") - 1);
    ck_assert_uint_eq(gb_image_read_file(path).variables, 36);
    close(file);
    unlink(path);
    ck_assert_uint_eq(gb_image_read_file(path).variables, 0);
    ck_assert_uint_eq(gb_image_read_file("/").variables, 0);
    ck_assert_uint_eq(gb_image_read_file(NULL).variables, 0);
    ck_assert_uint_eq(gb_image_read(NULL).variables, 0);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {test_text_sizes,
                                  test_text_managed,
                                  test_text_calls,
                                  test_cubin,
                                  test_cubin_managed,
                                  test_fat,
                                  test_not_all_of_it_is_there,
                                  test_file};

    return unit_run("image", tests, COUNT_OF(tests));
}
