/* The grammar of sizes: good values, bad ones, and those at an edge. */
#include "config/size.h"
#include "report/line.h"

#include <check.h>
#include <string.h>

#define KIB ((uint64_t)1 << 10)
#define MIB ((uint64_t)1 << 20)
#define GIB ((uint64_t)1 << 30)
#define TIB ((uint64_t)1 << 40)

static bool parse(const char *text, struct gb_size *size, char *why)
{
    return gb_size_parse(text, strlen(text), size, why, GB_SIZE_WHY);
}

static const struct {
    const char *text;
    uint64_t bytes;
} good_bytes[] = {
    {"4G", 4 * GIB},
    {"4g", 4 * GIB},
    {"4Gi", 4 * GIB},
    {"4gI", 4 * GIB},
    {"4GiB", 4 * GIB},
    {"4gib", 4 * GIB},
    {"4GB", 4000000000u},
    {"40GB", 40000000000u},
    {"7kb", 7000},
    {"7K", 7 * KIB},
    {"7KiB", 7 * KIB},
    {"7M", 7 * MIB},
    {"7MB", 7000000},
    {"7mib", 7 * MIB},
    {"7T", 7 * TIB},
    {"7Ti", 7 * TIB},
    {"7TiB", 7 * TIB},
    {"7TB", 7000000000000u},
    {"512B", 512},
    {"1B", 1},
    {"08G", 8 * GIB},
    {"1.5g", GIB + GIB / 2},
    {"0.5KiB", 512},
    {"1.9B", 1},
    {"0.1KiB", 102},
    {"1048576", MIB},
    {"2147483648", 2 * GIB},
    {" 4GiB ", 4 * GIB},
    {"\t4GiB\n", 4 * GIB},
    {"8388607TiB", 8388607 * TIB},
    {"9223372036854775807", INT64_MAX},
    {"0.333333333333333333333333333333GiB", 357913941},
    {"1.000000000000000000000000000001GiB", GIB},
};

START_TEST(test_good_bytes)
{
    struct gb_size size;
    char why[GB_SIZE_WHY];
    for (size_t i = 0; i < sizeof(good_bytes) / sizeof(good_bytes[0]); i++) {
        ck_assert_msg(parse(good_bytes[i].text, &size, why), "%s: %s", good_bytes[i].text, why);
        ck_assert_int_eq(size.kind, GB_SIZE_BYTES);
        ck_assert_msg(size.bytes == good_bytes[i].bytes, "%s", good_bytes[i].text);
        ck_assert_str_eq(why, "");
    }
}
END_TEST

static const struct {
    const char *text;
    uint32_t percent;
} good_percent[] = {
    {"50%", 50000000}, {"100%", 100000000},       {"100.0%", 100000000}, {"12.5%", 12500000},
    {"0.000001%", 1},  {"33.3333339%", 33333333}, {"007%", 7000000},     {" 1% ", 1000000},
};

START_TEST(test_good_percent)
{
    struct gb_size size;
    char why[GB_SIZE_WHY];
    for (size_t i = 0; i < sizeof(good_percent) / sizeof(good_percent[0]); i++) {
        ck_assert_msg(parse(good_percent[i].text, &size, why), "%s", good_percent[i].text);
        ck_assert_int_eq(size.kind, GB_SIZE_PERCENT);
        ck_assert_uint_eq(size.percent, good_percent[i].percent);
    }
}
END_TEST

START_TEST(test_none)
{
    static const char *const texts[] = {"none", " none ", "None", "NONE"};
    struct gb_size size;
    char why[GB_SIZE_WHY];
    for (size_t i = 0; i < 4; i++) {
        ck_assert(parse(texts[i], &size, why));
        ck_assert_int_eq(size.kind, GB_SIZE_NONE);
    }
}
END_TEST

/* Each with a piece of the explanation: the value, and what would be right. */
static const struct {
    const char *text;
    const char *why;
} bad[] = {
    {"", "a size is missing"},
    {"  ", "a size is missing"},
    {"0", "\"0\" is nothing; write none"},
    {"0GiB", "write none"},
    {"0.0GiB", "write none"},
    {"0.5B", "write none"},
    {"0.0000000000009TB", "write none"},
    {"0%", "write none"},
    {"0.0%", "write none"},
    {"0.0000001%", "write none"},
    {"101%", "above 100%"},
    {"100.5%", "above 100%"},
    {"100.0000000001%", "above 100%"},
    {"100.000000000000000000000001%", "above 100%"},
    {"99999999999999999999%", "above 100%"},
    {"4096", "did you mean 4096MiB?"},
    {"4", "\"4\" without a unit is bytes, less than 1 MiB; did you mean 4GiB?"},
    {"255", "did you mean 255GiB?"},
    {"256", "did you mean 256MiB?"},
    {"4096.5", "did you mean 4096.5MiB?"},
    {"1048575", "did you mean 1048575MiB?"},
    {"1.5", "\"1.5\" has no unit; did you mean 1.5GiB?"},
    {"4 GiB", "\"4 GiB\" has a blank inside; write number and unit together: 4GiB"},
    {"4\tGiB", "\"4?GiB\" has a blank"},
    {"4 %", "blank inside"},
    {"4X", "ends in \"X\", which is no unit"},
    {"4GiBx", "ends in \"GiBx\""},
    {"4GiB 2", "\"4GiB 2\""},
    {"4iB", "no unit"},
    {"4PiB", "no unit"},
    {"4bit", "no unit"},
    {"4GiB/s", "no unit"},
    {"4,5G", "\"4,5G\" has a comma for a decimal point; write 4.5G"},
    {"4,G", "no unit"},
    {"1.2,3G", "no unit"},
    {"4.G", "no unit"},
    {"4.", "no unit"},
    {"1.2.3G", "no unit"},
    {".5G", "\".5G\" has no digit before the point; write 0.5G"},
    {".G", "is not a size"},
    {"+4G", "is not a size"},
    {"-4G", "\"-4G\" is not a size"},
    {"0x10G", "no unit"},
    {"1e9", "no unit"},
    {"G", "is not a size"},
    {"GiB", "is not a size"},
    {"%", "is not a size"},
    {"abc", "\"abc\" is not a size; write one such as 4GiB, 50% or none"},
    {"max", "is not a size"},
    {"infinity", "is not a size"},
    {"unlimited", "is not a size"},
    {"nonesuch", "is not a size"},
    {"\"4GiB\"", "is not a size"},
    {"\xe2\x80\x9c"
     "4GiB\xe2\x80\x9d",
     "\"\xe2\x80\x9c"
     "4GiB\xe2\x80\x9d\" is not a size"},
    {"4GiB\xe2\x80\x9d", "no unit"},
    {"4\xc2\xa0GiB", "no unit"},
    {"9223372036854775808", "too large"},
    {"18446744073709551616", "too large"},
    {"99999999999999999999999999", "too large"},
    {"8388608TiB", "too large"},
    {"99999999999999999999G", "too large"},
};

START_TEST(test_bad)
{
    char why[GB_SIZE_WHY];
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct gb_size size, before;
        memset(&size, 0x5a, sizeof(size));
        before = size;
        ck_assert_msg(!parse(bad[i].text, &size, why), "%s was taken", bad[i].text);
        ck_assert_msg(memcmp(&size, &before, sizeof(size)) == 0, "%s wrote", bad[i].text);
        ck_assert_msg(strstr(why, bad[i].why) != NULL, "%s: \"%s\" lacks \"%s\"", bad[i].text,
                      why, bad[i].why);
    }
}
END_TEST

START_TEST(test_length_is_honoured)
{
    struct gb_size size;
    char why[GB_SIZE_WHY];
    ck_assert(gb_size_parse("4GiB,5GiB", 4, &size, why, sizeof(why)));
    ck_assert_uint_eq(size.bytes, 4 * GIB);
    ck_assert(!gb_size_parse("4GiB\0x", 6, &size, why, sizeof(why)));
    ck_assert(
        !gb_size_parse("nonsense that is far longer than anything that can be shown whole "
                       "in a line of words",
                       84, &size, why, 12));
    ck_assert_uint_eq(strlen(why), 11);
    ck_assert(!gb_size_parse("abc", 3, &size, NULL, 0));
}
END_TEST

START_TEST(test_bytes_of)
{
    struct gb_size size = {.kind = GB_SIZE_PERCENT, .percent = 12500000};
    ck_assert_uint_eq(gb_size_bytes(&size, 800), 100);
    ck_assert_uint_eq(gb_size_bytes(&size, 807), 100);
    ck_assert_uint_eq(gb_size_bytes(&size, 0), 0);
    size.percent = GB_SIZE_PERCENT_ALL;
    ck_assert_uint_eq(gb_size_bytes(&size, UINT64_MAX), UINT64_MAX);
    size.kind = GB_SIZE_NONE;
    ck_assert_uint_eq(gb_size_bytes(&size, 5), UINT64_MAX);
}
END_TEST

START_TEST(test_formats)
{
    static const struct {
        const char *text, *canonical, *people;
    } rows[] = {
        {"40GB", "40000000000", "37.25 GiB"}, {"4GiB", "4294967296", "4 GiB"},
        {"1.5G", "1610612736", "1.5 GiB"},    {"512B", "512B", "512 B"},
        {"12.5%", "12.5%", "12.5%"},          {"50%", "50%", "50%"},
        {"0.05%", "0.05%", "0.05%"},          {"none", "none", "none"},
        {"4200MB", "4200000000", "3.91 GiB"}, {"8388607TiB", "9223370937343148032", "7.99 EiB"},
        {"1.01KiB", "1034B", "1 KiB"},        {"1.05KiB", "1075B", "1.04 KiB"},
    };
    char why[GB_SIZE_WHY], text[64];
    struct gb_size size, again;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        memset(&size, 0, sizeof(size));
        memset(&again, 0, sizeof(again));
        ck_assert(parse(rows[i].text, &size, why));
        gb_size_format(&size, text, sizeof(text));
        ck_assert_str_eq(text, rows[i].people);
        gb_size_text(&size, text, sizeof(text));
        ck_assert_str_eq(text, rows[i].canonical);
        ck_assert(parse(text, &again, why));
        ck_assert_int_eq(size.kind, again.kind);
        ck_assert_uint_eq(size.bytes, again.bytes);
        ck_assert_uint_eq(size.percent, again.percent);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("size");
    TCase *tests = tcase_create("size");
    tcase_add_test(tests, test_good_bytes);
    tcase_add_test(tests, test_good_percent);
    tcase_add_test(tests, test_none);
    tcase_add_test(tests, test_bad);
    tcase_add_test(tests, test_length_is_honoured);
    tcase_add_test(tests, test_bytes_of);
    tcase_add_test(tests, test_formats);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed > 0;
}
