/*
 * Reading symbol tables: the same answers as the loader's own look-ups. This program is linked
 * with the old hash table only, so that both kinds are read.
 */
#define _GNU_SOURCE
#include "interpose/elf.h"

#include <check.h>
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

/* Exported by this program (-rdynamic). */
int check_elf_marker(int a) __attribute__((visibility("default")));
int check_elf_marker(int a)
{
    return a + 1;
}

static void open_by_handle(struct gb_elf *elf, const char *file, void **handle)
{
    struct link_map *map = NULL;

    *handle = dlopen(file, RTLD_LAZY);
    ck_assert_ptr_nonnull(*handle);
    ck_assert_int_eq(dlinfo(*handle, RTLD_DI_LINKMAP, &map), 0);
    ck_assert(gb_elf_of_map(elf, map));
}

START_TEST(every_function_of_libc)
{
    struct gb_elf elf;
    void *handle;
    const char *name;
    uint32_t cursor = 0;
    int count = 0;

    open_by_handle(&elf, "libc.so.6", &handle);
    ck_assert_str_eq(elf.soname, "libc.so.6");
    while ((name = gb_elf_next_function(&elf, &cursor)) != NULL) {
        void *expected = dlsym(handle, name);
        void *found = gb_elf_symbol(&elf, name, NULL);

        /* Names with an indirect default and a plain old version are left to the loader. */
        ck_assert_msg(found == expected, "%s: %p, not %p", name, found, expected);
        count++;
    }
    ck_assert_int_gt(count, 1000);
    dlclose(handle);
}
END_TEST

START_TEST(versions)
{
    static const char *const names[] = {"dlsym",  "pthread_cond_wait", "realpath",
                                        "fopen",  "posix_spawn",       "glob",
                                        "fclose", "no_such_name",      "nftw"};
    static const char *const numbers[] = {
        "GLIBC_2.2.5", "GLIBC_2.3",  "GLIBC_2.3.2",   "GLIBC_2.3.3", "GLIBC_2.15", "GLIBC_2.17",
        "GLIBC_2.27",  "GLIBC_2.34", "GLIBC_PRIVATE", "NO_SUCH_1.0", "",           "libc.so.6"};
    struct gb_elf elf;
    void *handle;
    int found = 0;

    open_by_handle(&elf, "libc.so.6", &handle);
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        for (size_t j = 0; j < sizeof(numbers) / sizeof(numbers[0]); j++) {
            void *expected = dlvsym(handle, names[i], numbers[j]);
            void *got = gb_elf_symbol(&elf, names[i], numbers[j]);

            ck_assert_msg(got == expected, "%s@%s: %p, not %p", names[i], numbers[j], got,
                          expected);
            found += got != NULL;
        }
    ck_assert_int_gt(found, 6);
    dlclose(handle);
}
END_TEST

START_TEST(old_hash_table)
{
    struct gb_elf elf;
    const char *name;
    uint32_t cursor = 0;
    void *handle;
    int seen = 0;

    open_by_handle(&elf, NULL, &handle);
    ck_assert_ptr_null(elf.gnu_hash);
    ck_assert_ptr_nonnull(elf.sysv_hash);
    ck_assert_ptr_null(elf.soname);
    ck_assert_ptr_eq(gb_elf_symbol(&elf, "check_elf_marker", NULL), (void *)check_elf_marker);
    ck_assert_ptr_null(gb_elf_symbol(&elf, "check_elf_market", NULL));
    ck_assert_ptr_null(gb_elf_symbol(&elf, "malloc", NULL)); /* undefined here */
    ck_assert_ptr_null(gb_elf_symbol(&elf, "", NULL));
    /* Only its name has no version, in an object that has some. */
    ck_assert_ptr_null(gb_elf_symbol(&elf, "check_elf_marker", "GLIBC_2.2.5"));
    while ((name = gb_elf_next_function(&elf, &cursor)) != NULL)
        seen += strcmp(name, "check_elf_marker") == 0;
    ck_assert_int_eq(seen, 1);
    dlclose(handle);
}
END_TEST

START_TEST(needed)
{
    struct gb_elf elf;
    const char *name;
    size_t cursor = 0;
    void *handle;
    int libc = 0;

    open_by_handle(&elf, NULL, &handle);
    while ((name = gb_elf_next_needed(&elf, &cursor)) != NULL)
        libc += strcmp(name, "libc.so.6") == 0;
    ck_assert_int_eq(libc, 1);
    dlclose(handle);
}
END_TEST

struct all {
    int objects, readable, hold_marker, hold_stack;
    void *vdso_function;
    const int *on_stack;
};

static int visit(struct dl_phdr_info *info, size_t size, void *arg)
{
    struct all *all = arg;
    struct gb_elf elf;

    (void)size;
    all->objects++;
    all->hold_marker += gb_elf_holds(info, (void *)check_elf_marker);
    all->hold_stack += gb_elf_holds(info, all->on_stack);
    if (!gb_elf_of_phdr(&elf, info))
        return 0;
    all->readable++;
    /* The kernel's object, whose dynamic section nobody has relocated. */
    if (elf.soname != NULL && strcmp(elf.soname, "linux-vdso.so.1") == 0) {
        uint32_t cursor = 0;
        const char *name = gb_elf_next_function(&elf, &cursor);

        ck_assert_ptr_nonnull(name);
        all->vdso_function = gb_elf_symbol(&elf, name, NULL);
        ck_assert(gb_elf_holds(info, all->vdso_function));
    }
    return 0;
}

START_TEST(every_loaded_object)
{
    int on_stack = 0;
    struct all all = {.on_stack = &on_stack};

    dl_iterate_phdr(visit, &all);
    ck_assert_int_gt(all.objects, 2);
    ck_assert_int_eq(all.readable, all.objects);
    ck_assert_int_eq(all.hold_marker, 1);
    ck_assert_int_eq(all.hold_stack, 0);
}
END_TEST

START_TEST(nothing_to_read)
{
    static const ElfW(Dyn) empty[] = {{.d_tag = DT_NULL}};
    struct link_map map = {.l_ld = NULL};
    struct dl_phdr_info info = {.dlpi_phnum = 0};
    struct gb_elf elf;

    ck_assert(!gb_elf_of_map(&elf, &map));
    map.l_ld = (ElfW(Dyn) *)empty;
    ck_assert(!gb_elf_of_map(&elf, &map));
    ck_assert(!gb_elf_of_phdr(&elf, &info));
    ck_assert(!gb_elf_holds(&info, empty));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("elf");
    TCase *tests = tcase_create("elf");
    SRunner *runner;
    int failed;

    tcase_add_test(tests, every_function_of_libc);
    tcase_add_test(tests, versions);
    tcase_add_test(tests, old_hash_table);
    tcase_add_test(tests, needed);
    tcase_add_test(tests, every_loaded_object);
    tcase_add_test(tests, nothing_to_read);
    suite_add_tcase(suite, tests);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
