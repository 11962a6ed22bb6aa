/* Lists of limits: parsing, merging, and matching them against devices. */
#include "config/limit.h"
#include "report/line.h"

#include <check.h>
#include <string.h>

#define MIB ((uint64_t)1 << 20)
#define GIB ((uint64_t)1 << 30)

static struct gb_limit limit;
static char why[GB_LIMIT_WHY];

static bool parse(const char *text)
{
    return gb_limit_parse(&limit, text, strlen(text), why, sizeof(why));
}

static bool parse_new(const char *text)
{
    memset(&limit, 0, sizeof(limit));
    return parse(text);
}

static const struct gb_device_identity devices[] = {
    {0, "GPU-45b0bc69-1111-2222-3333-444444444444", "00000000:65:00.0", 80 * GIB},
    {1, "GPU-45b0cccc-1111-2222-3333-444444444444", "0000:B3:00.0", 40 * GIB},
    {2, "MIG-9abc0000-1111-2222-3333-444444444444", "0000:c1:00.0", 10 * GIB + 1},
};

/* A list as one text that parses to the same list; false where it does not fit. */
static bool canonical_text(const struct gb_limit *list, char *text, size_t text_size)
{
    struct gb_line line;
    gb_line_begin(&line, text, text_size);
    for (uint32_t i = 0; i < list->count; i++) {
        const struct gb_limit_entry *entry = &list->entries[i];
        char size[32];
        gb_size_text(&entry->size, size, sizeof(size));
        gb_line_text(&line, i > 0 ? "," : "");
        if (entry->key == GB_LIMIT_KEY_ORDINAL)
            gb_line_number(&line, entry->ordinal);
        else
            gb_line_text(&line, entry->name);
        if (entry->key != GB_LIMIT_KEY_DEFAULT)
            gb_line_text(&line, "=");
        gb_line_text(&line, size);
    }
    return !line.cut;
}

START_TEST(test_good)
{
    static const struct {
        const char *text, *canonical;
    } rows[] = {
        {"4GiB", "4294967296"},
        {"*=4GiB", "4294967296"},
        {" * = 4GiB ", "4294967296"},
        {"none", "none"},
        {"0=2GiB,1=50%", "0=2147483648,1=50%"},
        {" 0 = 2GiB , 1 = 50% ", "0=2147483648,1=50%"},
        {"00=2GiB", "0=2147483648"},
        {"4095=none", "4095=none"},
        {"GPU-45B0=8GiB,*=none", "GPU-45b0=8589934592,none"},
        {"gpu-45b0=8GiB", "GPU-45b0=8589934592"},
        {"MIG-9abc0000-1111-2222-3333-444444444444=12.5%",
         "MIG-9abc0000-1111-2222-3333-444444444444=12.5%"},
        {"MIG-GPU-45b0/7/0=1GiB", "MIG-GPU-45b0/7/0=1073741824"},
        {"65:00.0=1GiB", "00000000:65:00.0=1073741824"},
        {"0000:B3:00.0=1GiB", "00000000:b3:00.0=1073741824"},
        {"00000000:b3:0=1GiB", "00000000:b3:00.0=1073741824"},
        {"4GiB,0=1GiB", "4294967296,0=1073741824"},
        {"0=1048576,5GiB", "0=1048576,5368709120"},
    };
    char text[1024];
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        ck_assert_msg(parse_new(rows[i].text), "%s: %s", rows[i].text, why);
        ck_assert(canonical_text(&limit, text, sizeof(text)));
        ck_assert_str_eq(text, rows[i].canonical);
        ck_assert_msg(parse_new(text), "%s again: %s", text, why);
    }
    ck_assert(!canonical_text(&limit, text, 8));
}
END_TEST

START_TEST(test_bad)
{
    static const struct {
        const char *text, *why;
    } rows[] = {
        {"", "it is empty"},
        {"  ", "it is empty"},
        {",", "an entry is empty"},
        {"4GiB,", "an entry is empty"},
        {",4GiB", "an entry is empty"},
        {"0=1GiB,,1=1GiB", "an entry is empty"},
        {"0=", "entry \"0=\": a size is missing"},
        {"=4GiB", "\"\" is no device"},
        {"x=4GiB", "entry \"x=4GiB\": \"x\" is no device; use an ordinal"},
        {"-1=4GiB", "is no device"},
        {"4096=4GiB", "\"4096\" is no device"},
        {"0 1=4GiB", "is no device"},
        {"GPU-=4GiB", "is no device"},
        {"GPU-xyz=4GiB", "is no device"},
        {"GPU=4GiB", "is no device"},
        {"MIG-GPU-=4GiB", "is no device"},
        {"65=00=1GiB", "\"00=1GiB\""},
        {"65:00:00:0=1GiB", "is no device"},
        {"65:20.0=1GiB", "is no device"},
        {"65:00.8=1GiB", "is no device"},
        {"100:00.0=1GiB", "is no device"},
        {"65:=1GiB", "is no device"},
        {":00.0=1GiB", "is no device"},
        {"65:00.=1GiB", "is no device"},
        {"0.65:00=1GiB", "is no device"},
        {"0:1G", "\"0:1G\" ends in \":1G\", which is no unit"},
        {"0:1G", "a device is written before \"=\""},
        {"0=1G,1=12X", "entry \"1=12X\": \"12X\" ends in \"X\""},
        {"0=1G,1=4096", "did you mean 4096MiB?"},
        {"4,5GiB", "\"4,5GiB\" has a comma for a decimal point; write 4.5GiB"},
        {"0=4,5GiB,1=4GiB", "entry \"0=4,5GiB\": \"4,5GiB\" has a comma for a decimal point"},
        {"4,0=5GiB", "did you mean 4GiB?"},
        {"4, 5GiB", "did you mean 4GiB?"},
        {"4,", "did you mean 4GiB?"},
        {"4096,5", "write 4096.5"},
        {"0=1G,0=2G", "entry \"0=2G\": this device has an entry already"},
        {"0=1G,00=1G", "has an entry already"},
        {"GPU-ab=1G,gpu-AB=1G", "has an entry already"},
        {"65:00.0=1G,0000:65:00=1G", "has an entry already"},
        {"1G,2G", "entry \"2G\": there is a limit for all other devices already"},
        {"1G,*=1G", "all other devices already"},
        {"\xe2\x80\x9c"
         "0=1G\xe2\x80\x9d",
         "\"\xe2\x80\x9c"
         "0\" is no device"},
        {"0=1G;1=2G", "no unit"},
        {"0=1G 1=2G", "no unit"},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct gb_limit empty;
        memset(&empty, 0, sizeof(empty));
        ck_assert_msg(!parse_new(rows[i].text), "%s was taken", rows[i].text);
        ck_assert_msg(strstr(why, rows[i].why) != NULL, "%s: \"%s\" lacks \"%s\"", rows[i].text,
                      why, rows[i].why);
        ck_assert_mem_eq(&limit, &empty, sizeof(limit));
    }
}
END_TEST

START_TEST(test_merge)
{
    struct gb_limit before;
    ck_assert(parse_new("0=1GiB"));
    ck_assert(parse("1=2GiB,*=50%"));
    ck_assert_uint_eq(limit.count, 3);
    before = limit;
    ck_assert(!parse("2=1GiB,1=2GiB"));
    ck_assert_mem_eq(&limit, &before, sizeof(limit));
    ck_assert(!parse("3GiB"));
    ck_assert_mem_eq(&limit, &before, sizeof(limit));
}
END_TEST

START_TEST(test_too_many)
{
    char text[1024] = "";
    memset(&limit, 0, sizeof(limit));
    for (unsigned i = 0; i < GB_LIMIT_ENTRIES; i++) {
        char entry[] = {(char)('0' + i / 10), (char)('0' + i % 10), '=', '1', 'G', '\0'};
        strcat(text, i > 0 ? "," : "");
        strcat(text, entry);
    }
    ck_assert_msg(parse(text), "%s", why);
    ck_assert(!parse("100=1G"));
    ck_assert_ptr_nonnull(strstr(why, "more than 64 entries, from \"100=1G\" on"));
}
END_TEST

static void expect(size_t device, enum gb_limit_answer answer, uint64_t bytes)
{
    uint64_t found = 4711;
    ck_assert_int_eq(gb_limit_for_device(&limit, &devices[device], &found), answer);
    ck_assert_uint_eq(found, answer == GB_LIMIT_BYTES ? bytes : 4711);
}

START_TEST(test_for_device)
{
    ck_assert(parse_new("3GiB"));
    expect(0, GB_LIMIT_BYTES, 3 * GIB);
    ck_assert(parse_new("1=3GiB"));
    expect(0, GB_LIMIT_MISSING, 0);
    expect(1, GB_LIMIT_BYTES, 3 * GIB);
    ck_assert(parse_new("3GiB,1=none"));
    expect(0, GB_LIMIT_BYTES, 3 * GIB);
    expect(1, GB_LIMIT_NONE, 0);
    ck_assert(parse_new("GPU-45b0b=1GiB,b3:00.0=2GiB,MIG-9abc=50%,*=none"));
    expect(0, GB_LIMIT_BYTES, GIB);
    expect(1, GB_LIMIT_BYTES, 2 * GIB);
    expect(2, GB_LIMIT_BYTES, 5 * GIB);
    ck_assert(parse_new("100%"));
    expect(2, GB_LIMIT_BYTES, 10 * GIB);
    ck_assert(parse_new("33.3%"));
    expect(0, GB_LIMIT_BYTES, 80 * GIB * 333 / 1000 / (2 * MIB) * (2 * MIB));
    /* Bytes are taken as they are, also off the 2 MiB. */
    ck_assert(parse_new("1000001B"));
    expect(0, GB_LIMIT_BYTES, 1000001);
    /* A device whose identity is not known has no entry of its own. */
    struct gb_device_identity blank = {.ordinal = 7, .total_bytes = GIB};
    uint64_t bytes;
    ck_assert(parse_new("GPU-4=1GiB,0:0=1GiB"));
    ck_assert_int_eq(gb_limit_for_device(&limit, &blank, &bytes), GB_LIMIT_MISSING);
}
END_TEST

START_TEST(test_check)
{
    static const struct {
        const char *list;
        size_t devices;
        bool good;
        const char *text; /* "" for silence */
    } rows[] = {
        {"4GiB", 3, true, ""},
        {"none", 3, true, ""},
        {"0=4GiB", 1, true, ""},
        {"0=4GiB,*=none", 3, true, ""},
        {"0=4GiB,4GiB", 3, true, ""},
        {"0=1G,1=1G,2=1G", 3, true, ""},
        {"0=1G,1=1G", 3, false,
         "GPU 2 (MIG-9abc0000-1111-2222-3333-444444444444) has no entry"},
        {"1=1G", 1, false, "GPU 0 (GPU-45b0bc69"},
        {"1=1G", 1, false, "; entry \"1=1G\" names no visible device"},
        {"0=1G,1=1G", 1, true, "entry \"1=1G\" names no visible device"},
        {"0=1G,GPU-77=1G", 1, true, "entry \"GPU-77=1G\" names no visible device"},
        {"GPU-77=1G,*=2G", 2, true, "entry \"GPU-77=1G\" names no visible device"},
        {"GPU-45b0=1G,*=2G", 1, true, ""},
        {"GPU-45b0=1G,*=2G", 2, false, "entry \"GPU-45b0=1G\" names 2 of the visible"},
        {"GPU-45b0b=1G,GPU-45b0c=2G", 2, true, ""},
        {"0=1G,GPU-45b0b=2G,*=3G", 1, false, "\"0=1G\" and entry \"GPU-45b0b=2G\" both"},
        {"0=1G,65:00.0=1G", 1, false, "both name GPU 0"},
        /* As written, in the writer's own spelling; what is too long is cut. */
        {"0=1G, GPU-45B0B = 2048MiB ,*=3G", 1, false, "entry \"GPU-45B0B = 2048MiB\" both"},
        {"0=1G,GPU-77=1.00000000000000000000000000000000000000000000000000000000000000000G", 1,
         true,
         "entry \"GPU-77=1.00000000000000000000000000000000000000000000000000000000000...\" "},
        /* Less than 2 MiB of 80 GiB. */
        {"0.001%", 1, false,
         "entry \"0.001%\" comes to less than 2 MiB of GPU 0 (GPU-45b0bc69-1111-2222-3333-"
         "444444444444); write more, or a size such as 4GiB"},
        {"0=0.0001%,4GiB", 1, false, "entry \"0=0.0001%\" comes to less than 2 MiB of GPU 0 ("},
        {"0.001%,0=4GiB", 1, true, ""},
        {"0.003%", 1, true, ""},
        {"0=1G", 0, true, ""},
        {"4GiB", 0, true, ""},
    };
    char text[GB_LIMIT_WHY];
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        ck_assert(parse_new(rows[i].list));
        bool good = gb_limit_check(&limit, devices, rows[i].devices, text, sizeof(text));
        ck_assert_msg(good == rows[i].good, "%s: %s", rows[i].list, text);
        ck_assert_msg(rows[i].text[0] ? strstr(text, rows[i].text) != NULL : text[0] == '\0',
                      "%s: \"%s\" lacks \"%s\"", rows[i].list, text, rows[i].text);
    }
}
END_TEST

START_TEST(test_is_none)
{
    ck_assert(parse_new("none"));
    ck_assert(gb_limit_is_none(&limit));
    ck_assert(parse_new("0=none,*=none"));
    ck_assert(gb_limit_is_none(&limit));
    ck_assert(parse_new("0=none"));
    ck_assert(!gb_limit_is_none(&limit));
    ck_assert(parse_new("none,0=1GiB"));
    ck_assert(!gb_limit_is_none(&limit));
    memset(&limit, 0, sizeof(limit));
    ck_assert(!gb_limit_is_none(&limit));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("limit");
    TCase *tests = tcase_create("limit");
    tcase_add_test(tests, test_good);
    tcase_add_test(tests, test_bad);
    tcase_add_test(tests, test_merge);
    tcase_add_test(tests, test_too_many);
    tcase_add_test(tests, test_for_device);
    tcase_add_test(tests, test_check);
    tcase_add_test(tests, test_is_none);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed > 0;
}
