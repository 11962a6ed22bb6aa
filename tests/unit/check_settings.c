/* The settings: values good and bad, the verdict, and the capture of the environment. */
#include "config/settings.h"
#include "config/settings_table.h"

#include <check.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define GIB ((uint64_t)1 << 30)

extern char **environ;

static struct gb_settings settings;

/* Settings of a few strings; NULL ends the list. */
static void parse(const char *const *strings)
{
    size_t count = 0;
    while (strings[count])
        count++;
    memset(&settings, 0x5a, sizeof(settings));
    gb_settings_parse(&settings, strings, count);
}
#define PARSE(...) parse((const char *const[]){__VA_ARGS__, NULL})

START_TEST(test_defaults)
{
    PARSE("PATH=/bin", "GPUBUDGET=1", "XGPUBUDGET_LIMIT=1");
    ck_assert_int_eq(settings.verdict, GB_VERDICT_PASS);
    ck_assert_str_eq(settings.message, "");
    ck_assert_uint_eq(settings.warning_count, 0);
    ck_assert(!settings.limit_set && !settings.require && !settings.disabled);
    ck_assert_str_eq(settings.limit_source, "GPUBUDGET_LIMIT");
    ck_assert_int_eq(settings.charge, GB_CHARGE_FOOTPRINT);
    ck_assert_int_eq(settings.managed, GB_MANAGED_CHARGE);
    ck_assert_int_eq(settings.capacity, GB_CAPACITY_LIMIT);
    ck_assert_int_eq(settings.on_limit, GB_ON_LIMIT_REFUSE);
    ck_assert_int_eq(settings.on_error, GB_ON_ERROR_DENY);
    ck_assert_int_eq(settings.stream_order, GB_STREAM_ORDER_OFF);
    ck_assert_uint_eq(settings.wait_ns, 200000000);
    ck_assert_int_eq(settings.log_level, GB_LOG_WARN);
    ck_assert_str_eq(settings.log_file, "");
    ck_assert_uint_eq(gb_settings_reserve(&settings, GIB, true), GIB / 64);
    ck_assert_uint_eq(gb_settings_reserve(&settings, 100 * GIB, true), GIB / 4);
    ck_assert_uint_eq(gb_settings_reserve(&settings, GIB / 1024, true), 0);
    ck_assert_uint_eq(gb_settings_reserve(&settings, GIB + 1, true), GIB / 64);
    /* Nothing is set: more where NVML does not tell, inside the limit. */
    ck_assert_uint_eq(gb_settings_reserve(&settings, GIB, false), GIB / 16);
    ck_assert_uint_eq(gb_settings_reserve(&settings, GIB / 4, false), GIB / 32);
    ck_assert_uint_eq(gb_settings_reserve(&settings, GIB / 1024, false), GIB / 1024);
    ck_assert_uint_eq(gb_settings_reserve(&settings, 100 * GIB, false), GIB / 2);
    settings.charge = GB_CHARGE_REQUESTED;
    ck_assert_uint_eq(gb_settings_reserve(&settings, GIB, false), 0);
    settings.charge = GB_CHARGE_FOOTPRINT;
    ck_assert(gb_settings_deny_errors(&settings));
}
END_TEST

START_TEST(test_values)
{
    PARSE("GPUBUDGET_LIMIT=0=2GiB,*=none", "GPUBUDGET_CHARGE=requested",
          "GPUBUDGET_MANAGED=ignore", "GPUBUDGET_CAPACITY=physical",
          "GPUBUDGET_ON_LIMIT=report", "GPUBUDGET_ON_ERROR=allow", "GPUBUDGET_WAIT=3s",
          "GPUBUDGET_RESERVE=25%", "GPUBUDGET_LOG=debug,/tmp/a,b.%p", "GPUBUDGET_REQUIRE=1",
          "GPUBUDGET_LIMIT_SOURCE=--limit", "GPUBUDGET_STREAM_ORDER=all",
          "GPUBUDGET_REPORT=stderr", "GPUBUDGET_TIMELINE=x", "GPUBUDGET_JOB=a.B-c_9",
          "GPUBUDGET_STATE_DIR=/run/x", "GPUBUDGET_COMPAT=hami", "GPUBUDGET_LIB=x.so",
          "GPUBUDGET_ROOT=", "GPUBUDGET_DISABLE=0");
    ck_assert_str_eq(settings.message, "");
    /* REPORT, TIMELINE and COMPAT have no effect yet. */
    ck_assert_uint_eq(settings.warning_count, 3);
    ck_assert_str_eq(settings.job, "a.B-c_9");
    ck_assert_str_eq(settings.state_dir, "/run/x");
    ck_assert(!gb_settings_has_job_limit(&settings));
    ck_assert_int_eq(settings.verdict, GB_VERDICT_LIMIT);
    ck_assert_uint_eq(settings.limit.count, 2);
    ck_assert_uint_eq(settings.limit.entries[0].size.bytes, 2 * GIB);
    ck_assert_int_eq(settings.charge, GB_CHARGE_REQUESTED);
    ck_assert_int_eq(settings.managed, GB_MANAGED_IGNORE);
    ck_assert_int_eq(settings.capacity, GB_CAPACITY_PHYSICAL);
    ck_assert_int_eq(settings.on_limit, GB_ON_LIMIT_REPORT);
    ck_assert_int_eq(settings.on_error, GB_ON_ERROR_ALLOW);
    ck_assert_int_eq(settings.stream_order, GB_STREAM_ORDER_ALL);
    ck_assert_uint_eq(settings.wait_ns, 3000000000u);
    ck_assert_uint_eq(gb_settings_reserve(&settings, 4 * GIB, true), GIB);
    ck_assert_int_eq(settings.log_level, GB_LOG_DEBUG);
    ck_assert_str_eq(settings.log_file, "/tmp/a,b.%p");
    ck_assert_str_eq(settings.limit_source, "--limit");
}
END_TEST

START_TEST(test_edges)
{
    PARSE("GPUBUDGET_WAIT=0");
    ck_assert_uint_eq(settings.wait_ns, 0);
    PARSE("GPUBUDGET_WAIT=0ms");
    ck_assert_uint_eq(settings.wait_ns, 0);
    PARSE("GPUBUDGET_WAIT=3600s");
    ck_assert_uint_eq(settings.wait_ns, 3600000000000u);
    PARSE("GPUBUDGET_RESERVE=0");
    ck_assert_int_eq(settings.verdict, GB_VERDICT_PASS);
    PARSE("GPUBUDGET_RESERVE=none");
    ck_assert_uint_eq(gb_settings_reserve(&settings, GIB, true), 0);
    PARSE("GPUBUDGET_RESERVE=2GiB");
    ck_assert_uint_eq(gb_settings_reserve(&settings, GIB, true), GIB);
    ck_assert_uint_eq(gb_settings_reserve(&settings, 4 * GIB, true), 2 * GIB);
    PARSE("GPUBUDGET_LOG=quiet");
    ck_assert_int_eq(settings.log_level, GB_LOG_QUIET);
    PARSE("GPUBUDGET_LIMIT=1GiB", "GPUBUDGET_LIMIT=1GiB");
    ck_assert_int_eq(settings.verdict, GB_VERDICT_LIMIT);
}
END_TEST

/* A reserve that is as large as a limit leaves nothing to admit, whatever is charged. */
START_TEST(test_reserve_beside_the_limit)
{
    PARSE("GPUBUDGET_RESERVE=1GiB", "GPUBUDGET_LIMIT=1GiB");
    ck_assert_int_eq(settings.verdict, GB_VERDICT_DENY);
    ck_assert_ptr_nonnull(
        strstr(settings.message, "leaves nothing of the limit 1GiB; write less"));
    PARSE("GPUBUDGET_LIMIT=0=8GiB,*=1GiB", "GPUBUDGET_RESERVE=2GiB",
          "GPUBUDGET_CHARGE=requested");
    ck_assert_int_eq(settings.verdict, GB_VERDICT_DENY);
    PARSE("GPUBUDGET_LIMIT=1GiB", "GPUBUDGET_RESERVE=1023MiB");
    ck_assert_int_eq(settings.verdict, GB_VERDICT_LIMIT);
    PARSE("GPUBUDGET_LIMIT=0=50%,*=1TiB", "GPUBUDGET_RESERVE=2GiB");
    ck_assert_int_eq(settings.verdict, GB_VERDICT_LIMIT);
    /* Of a percentage only the device tells. */
    struct gb_device_identity device = {.ordinal = 0};
    char text[GB_LIMIT_WHY] = "";
    ck_assert(gb_settings_check_reserve(&settings, &device, 2 * GIB + 1, text, sizeof(text)));
    ck_assert_str_eq(text, "");
    ck_assert(!gb_settings_check_reserve(&settings, &device, 2 * GIB, text, sizeof(text)));
    ck_assert_str_eq(text,
                     "GPUBUDGET_RESERVE: 2048 MiB leave nothing of the limit 0=50%, which "
                     "is 2048 MiB of GPU 0; write less, or a percentage such as 5%");
    PARSE("GPUBUDGET_LIMIT=50%", "GPUBUDGET_RESERVE=99%");
    ck_assert(gb_settings_check_reserve(&settings, &device, 2 * GIB, text, sizeof(text)));
    PARSE("GPUBUDGET_LIMIT=50%");
    ck_assert(gb_settings_check_reserve(&settings, &device, 0, text, sizeof(text)));
}
END_TEST

/* Every wrong value denies, also where the limit itself is good, and says which one it is. */
START_TEST(test_bad_values)
{
    static const struct {
        const char *string, *why;
    } rows[] = {
        {"GPUBUDGET_LIMIT=4096", "GPUBUDGET_LIMIT: \"4096\" without a unit is bytes"},
        {"GPUBUDGET_LIMIT=", "GPUBUDGET_LIMIT: is set but empty"},
        {"GPUBUDGET_LIMIT= ", "GPUBUDGET_LIMIT: it is empty"},
        {"GPUBUDGET_LIMIT=0", "write none"},
        {"GPUBUDGET_LIMIT=\xe2\x80\x9c"
         "4GiB\xe2\x80\x9d",
         "is not a size"},
        {"GPUBUDGET_LIMIT=0=1GiB,0=1GiB", "has an entry already"},
        {"GPUBUDGET_REQUIRE=yes", "GPUBUDGET_REQUIRE: \"yes\" is not one of 0|1"},
        {"GPUBUDGET_REQUIRE=", "empty"},
        {"GPUBUDGET_DISABLE=true", "is not one of 0|1"},
        {"GPUBUDGET_DISABLE=", "empty"},
        {"GPUBUDGET_DISABLE=01", "is not one of 0|1"},
        {"GPUBUDGET_CHARGE=Footprint", "is not one of footprint|requested"},
        {"GPUBUDGET_CHARGE=foot", "is not one of"},
        {"GPUBUDGET_CHARGE=footprint|requested", "is not one of"},
        {"GPUBUDGET_CHARGE=footprint ", "is not one of"},
        {"GPUBUDGET_MANAGED=no", "is not one of charge|ignore"},
        {"GPUBUDGET_CAPACITY=x", "is not one of limit|physical"},
        {"GPUBUDGET_ON_LIMIT=x", "is not one of refuse|report"},
        {"GPUBUDGET_ON_ERROR=x", "is not one of deny|allow"},
        {"GPUBUDGET_WAIT=200", "is no time; write 200ms, 2s or 0"},
        {"GPUBUDGET_WAIT=ms", "is no time"},
        {"GPUBUDGET_WAIT=-1ms", "is no time"},
        {"GPUBUDGET_WAIT=1 s", "is no time"},
        {"GPUBUDGET_WAIT=1m", "is no time"},
        {"GPUBUDGET_WAIT=3601s", "more than an hour"},
        {"GPUBUDGET_WAIT=3600001ms", "more than an hour"},
        {"GPUBUDGET_WAIT=99999999999999999999s", "is no time"},
        {"GPUBUDGET_RESERVE=100%", "leaves nothing"},
        {"GPUBUDGET_RESERVE=12", "\"12\" has no unit; write one such as 64MiB or 5%"},
        {"GPUBUDGET_LOG=loud", "does not begin with"},
        {"GPUBUDGET_LOG=warn,", "no file name"},
        {"GPUBUDGET_LOG=/tmp/x", "does not begin with"},
        {"GPUBUDGET_LOG=warn,/tmp/%j", "no other %"},
        {"GPUBUDGET_LOG=warn,/tmp/x%", "no other %"},
        {"GPUBUDGET_STREAM_ORDER=on", "is not one of off|copies|all"},
        {"GPUBUDGET_REPORT=", "empty"},
        {"GPUBUDGET_TIMELINE=", "empty"},
        {"GPUBUDGET_JOB=a/b", "is no name"},
        {"GPUBUDGET_JOB=a b", "is no name"},
        {"GPUBUDGET_JOB=..", "is no name; use one with more than dots"},
        {"GPUBUDGET_JOB=12345678901234567890123456789012345678901234567890123456789012345",
         "is no name"},
        {"GPUBUDGET_JOB_LIMIT=12", "GPUBUDGET_JOB_LIMIT: \"12\" without a unit"},
        {"GPUBUDGET_STATE_DIR=run", "no absolute path"},
        {"GPUBUDGET_COMPAT=mps", "is not one of hami"},
        {"GPUBUDGET_LIMIT_SOURCE=", "empty"},
        {"GPUBUDGET_LIB=", "empty"},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        if (strncmp(rows[i].string, "GPUBUDGET_LIMIT=", 16) == 0)
            PARSE(rows[i].string);
        else
            PARSE("GPUBUDGET_LIMIT=1GiB", rows[i].string);
        ck_assert_msg(settings.verdict == GB_VERDICT_DENY, "%s was taken", rows[i].string);
        ck_assert_msg(strstr(settings.message, rows[i].why) != NULL, "%s: \"%s\" lacks \"%s\"",
                      rows[i].string, settings.message, rows[i].why);
    }
    PARSE("GPUBUDGET_LIMIT=1GiB", "GPUBUDGET_LIMIT=2GiB");
    ck_assert_int_eq(settings.verdict, GB_VERDICT_DENY);
    ck_assert_ptr_nonnull(strstr(settings.message, "is set twice, to different values"));
    /* The first error is the one that is told. */
    PARSE("GPUBUDGET_CHARGE=x", "GPUBUDGET_LIMIT=y");
    ck_assert_ptr_nonnull(strstr(settings.message, "GPUBUDGET_CHARGE"));
}
END_TEST

START_TEST(test_file_name_too_long)
{
    char string[GB_SETTINGS_FILE + 64] = "GPUBUDGET_LOG=warn,";
    memset(string + 19, 'x', GB_SETTINGS_FILE);
    PARSE(string);
    ck_assert_int_eq(settings.verdict, GB_VERDICT_DENY);
    string[19 + GB_SETTINGS_FILE - 1] = '\0';
    PARSE(string);
    ck_assert_int_eq(settings.verdict, GB_VERDICT_PASS);
    ck_assert_uint_eq(strlen(settings.log_file), GB_SETTINGS_FILE - 1);
}
END_TEST

static void expect(enum gb_verdict verdict, const char *message)
{
    ck_assert_int_eq(settings.verdict, verdict);
    if (message[0])
        ck_assert_msg(strstr(settings.message, message) != NULL, "\"%s\" lacks \"%s\"",
                      settings.message, message);
    else
        ck_assert_str_eq(settings.message, "");
}

START_TEST(test_verdict)
{
    PARSE("GPUBUDGET_LIMIT=1GiB");
    expect(GB_VERDICT_LIMIT, "");
    PARSE("GPUBUDGET_LIMIT=none");
    expect(GB_VERDICT_PASS, "");
    ck_assert(settings.limit_set);
    PARSE("GPUBUDGET_LIMIT=none,0=1GiB");
    expect(GB_VERDICT_LIMIT, "");
    PARSE("GPUBUDGET_LIMIT=0=none"); /* says nothing of other devices: must be checked */
    expect(GB_VERDICT_LIMIT, "");

    PARSE("GPUBUDGET_REQUIRE=1");
    expect(GB_VERDICT_DENY, "GPUBUDGET_REQUIRE=1, but no limit is set");
    PARSE("GPUBUDGET_REQUIRE=1", "GPUBUDGET_LIMIT=none");
    expect(GB_VERDICT_PASS, "");
    PARSE("GPUBUDGET_REQUIRE=1", "GPUBUDGET_LIMIT=1GiB");
    expect(GB_VERDICT_LIMIT, "");
    PARSE("GPUBUDGET_REQUIRE=0");
    expect(GB_VERDICT_PASS, "");

    PARSE("GPUBUDGET_DISABLE=1", "GPUBUDGET_LIMIT=1GiB");
    expect(GB_VERDICT_PASS, "");
    PARSE("GPUBUDGET_DISABLE=1", "GPUBUDGET_LIMIT=bad", "GPUBUDGET_TYPO=1");
    expect(GB_VERDICT_PASS, "");
    ck_assert_uint_eq(settings.warning_count, 0);
    PARSE("GPUBUDGET_DISABLE=1", "GPUBUDGET_REQUIRE=1", "GPUBUDGET_LIMIT=1GiB");
    expect(GB_VERDICT_DENY, "GPUBUDGET_DISABLE=1 contradicts GPUBUDGET_REQUIRE");
    PARSE("GPUBUDGET_DISABLE=1", "GPUBUDGET_REQUIRE=");
    expect(GB_VERDICT_DENY, "GPUBUDGET_DISABLE=1 contradicts");
    PARSE("GPUBUDGET_DISABLE=0");
    expect(GB_VERDICT_PASS, "");

    PARSE("GPUBUDGET_COMPAT=hami");
    expect(GB_VERDICT_PASS, "");
    ck_assert_uint_eq(settings.warning_count, 1);
    ck_assert_str_eq(settings.warnings[0], "GPUBUDGET_COMPAT has no effect in this version");
    PARSE("GPUBUDGET_CHARGE=requested", "GPUBUDGET_LOG=info", "GPUBUDGET_JOB=x");
    expect(GB_VERDICT_PASS, "");
}
END_TEST

/* A job's limit is limit enough; its name alone is none, but beside `none` it is counted. */
START_TEST(test_jobs)
{
    PARSE("GPUBUDGET_JOB_LIMIT=0=1GiB,*=none");
    expect(GB_VERDICT_LIMIT, "");
    ck_assert(gb_settings_has_job_limit(&settings));
    ck_assert(!settings.limit_set);
    ck_assert_uint_eq(settings.job_limit.count, 2);
    ck_assert_uint_eq(settings.limit.count, 0);
    ck_assert_str_eq(settings.job, "");
    PARSE("GPUBUDGET_JOB_LIMIT=1GiB", "GPUBUDGET_REQUIRE=1");
    expect(GB_VERDICT_LIMIT, "");
    PARSE("GPUBUDGET_JOB_LIMIT=1GiB", "GPUBUDGET_LIMIT=none");
    expect(GB_VERDICT_LIMIT, "");
    PARSE("GPUBUDGET_JOB_LIMIT=1GiB", "GPUBUDGET_LIMTI=none");
    expect(GB_VERDICT_LIMIT, "");
    PARSE("GPUBUDGET_JOB_LIMIT=none");
    expect(GB_VERDICT_PASS, "");
    ck_assert(!gb_settings_has_job_limit(&settings));
    PARSE("GPUBUDGET_JOB_LIMIT=none", "GPUBUDGET_REQUIRE=1");
    expect(GB_VERDICT_PASS, "");
    PARSE("GPUBUDGET_JOB=x");
    expect(GB_VERDICT_PASS, "");
    PARSE("GPUBUDGET_JOB=x", "GPUBUDGET_REQUIRE=1");
    expect(GB_VERDICT_DENY, "GPUBUDGET_REQUIRE=1, but no limit is set");
    PARSE("GPUBUDGET_JOB=x", "GPUBUDGET_LIMIT=none");
    expect(GB_VERDICT_LIMIT, "");
    PARSE("GPUBUDGET_LIMIT=none");
    expect(GB_VERDICT_PASS, "");
    PARSE("GPUBUDGET_STATE_DIR=/x");
    expect(GB_VERDICT_PASS, "");
    PARSE("GPUBUDGET_JOB_LIMIT=1GiB", "GPUBUDGET_DISABLE=1");
    expect(GB_VERDICT_PASS, "");
}
END_TEST

START_TEST(test_unknown_names)
{
    PARSE("GPUBUDGET_LIMTI=1GiB");
    expect(GB_VERDICT_DENY, "GPUBUDGET_LIMTI is no setting");
    PARSE("GPUBUDGET_LIMTI=1GiB", "GPUBUDGET_LIMIT=1GiB");
    expect(GB_VERDICT_LIMIT, "");
    ck_assert_uint_eq(settings.warning_count, 1);
    ck_assert_str_eq(settings.warnings[0],
                     "GPUBUDGET_LIMTI is no setting of gpubudget; see gpubudget(7)");
    PARSE("GPUBUDGET_LIMTI=1GiB", "GPUBUDGET_LIMIT=none");
    expect(GB_VERDICT_PASS, "");
    PARSE("GPUBUDGET_=1");
    expect(GB_VERDICT_DENY, "GPUBUDGET_ is no setting");
    PARSE("GPUBUDGET_limit=1GiB");
    expect(GB_VERDICT_DENY, "GPUBUDGET_limit is no setting");
    PARSE("GPUBUDGET_LIMIT0=1GiB");
    expect(GB_VERDICT_DENY, "GPUBUDGET_LIMIT0 is no setting");
    PARSE("GPUBUDGET_LIMIT=1GiB", "GPUBUDGET_A=1", "GPUBUDGET_B=1", "GPUBUDGET_C=1",
          "GPUBUDGET_D=1", "GPUBUDGET_E=1", "GPUBUDGET_F=1", "GPUBUDGET_G=1", "GPUBUDGET_H=1",
          "GPUBUDGET_I=1");
    expect(GB_VERDICT_LIMIT, "");
    ck_assert_uint_eq(settings.warning_count, GB_SETTINGS_WARNINGS);
}
END_TEST

START_TEST(test_on_error_allow)
{
    PARSE("GPUBUDGET_ON_ERROR=allow", "GPUBUDGET_LIMIT=4096");
    expect(GB_VERDICT_PASS, "GPUBUDGET_LIMIT: \"4096\"");
    ck_assert(!gb_settings_deny_errors(&settings));
    PARSE("GPUBUDGET_LIMIT=4096", "GPUBUDGET_ON_ERROR=allow");
    expect(GB_VERDICT_PASS, "GPUBUDGET_LIMIT: \"4096\"");
    PARSE("GPUBUDGET_TYPO=4096", "GPUBUDGET_ON_ERROR=allow");
    expect(GB_VERDICT_PASS, "GPUBUDGET_TYPO");
    PARSE("GPUBUDGET_LIMIT=4096", "GPUBUDGET_ON_ERROR=alow");
    expect(GB_VERDICT_DENY, "GPUBUDGET_LIMIT");
    /* Whoever requires a limit does not want errors to lift it. */
    PARSE("GPUBUDGET_LIMIT=4096", "GPUBUDGET_ON_ERROR=allow", "GPUBUDGET_REQUIRE=1");
    expect(GB_VERDICT_DENY, "GPUBUDGET_LIMIT");
    ck_assert(gb_settings_deny_errors(&settings));
    PARSE("GPUBUDGET_ON_ERROR=allow", "GPUBUDGET_LIMIT=1GiB");
    expect(GB_VERDICT_LIMIT, "");
}
END_TEST

START_TEST(test_messages_are_one_line)
{
    PARSE("GPUBUDGET_LIMIT=1\n2\x1b[31m", "GPUBUDGET_A\nB=1");
    ck_assert_int_eq(settings.verdict, GB_VERDICT_DENY);
    ck_assert_ptr_null(strpbrk(settings.message, "\n\x1b"));
    ck_assert_ptr_null(strpbrk(settings.warnings[0], "\n\x1b"));
    PARSE("GPUBUDGET_LIMIT_SOURCE=a\nb");
    ck_assert_str_eq(settings.limit_source, "a?b");
}
END_TEST

/* Row order, forms and enums belong together. */
START_TEST(test_table)
{
    size_t count;
    const struct gb_setting *table = gb_settings_table(&count);
    ck_assert_uint_eq(count, GB_ROW_COUNT);
    for (size_t i = 0; i < count; i++) {
        char string[128];
        ck_assert(table[i].name && table[i].form && table[i].default_text && table[i].help);
        for (size_t other = 0; other < i; other++)
            ck_assert_str_ne(table[i].name, table[other].name);
        /* A default is a good value. */
        if (!table[i].default_text[0])
            continue;
        strcpy(string, "GPUBUDGET_");
        strcat(string, table[i].name);
        strcat(string, "=");
        strcat(string, table[i].default_text);
        PARSE(string);
        expect(GB_VERDICT_PASS, "");
    }
}
END_TEST

START_TEST(test_capture_copies)
{
    char string[] = "GPUBUDGET_LIMIT=1GiB";
    char *environment[] = {"HOME=/", string, "GPUBUDGET_CHARGE=requested", NULL};
    gb_settings_capture(environment);
    memset(string, 'x', sizeof(string) - 1);
    setenv("GPUBUDGET_LIMIT", "bad", 1); /* too late */
    gb_settings_capture(environ);
    const struct gb_settings *found = gb_settings();
    ck_assert_int_eq(found->verdict, GB_VERDICT_LIMIT);
    ck_assert_uint_eq(found->limit.entries[0].size.bytes, GIB);
    ck_assert_int_eq(found->charge, GB_CHARGE_REQUESTED);
    ck_assert_ptr_eq(found, gb_settings());
}
END_TEST

START_TEST(test_no_constructor)
{
    setenv("GPUBUDGET_LIMIT", "50%", 1);
    ck_assert_int_eq(gb_settings()->verdict, GB_VERDICT_LIMIT);
    gb_settings_capture((char *[]){"GPUBUDGET_LIMIT=bad", NULL});
    ck_assert_int_eq(gb_settings()->verdict, GB_VERDICT_LIMIT);
}
END_TEST

START_TEST(test_overflow_denies)
{
    char *big = malloc(20000);
    ck_assert_ptr_nonnull(big);
    memset(big, 'x', 19999);
    memcpy(big, "GPUBUDGET_REPORT=", 17);
    big[19999] = '\0';
    gb_settings_capture((char *[]){big, "GPUBUDGET_LIMIT=1GiB", NULL});
    free(big);
    ck_assert_int_eq(gb_settings()->verdict, GB_VERDICT_DENY);
    ck_assert_ptr_nonnull(strstr(gb_settings()->message, "too long"));
}
END_TEST

START_TEST(test_too_many_denies)
{
    static char strings[80][32];
    char *environment[81];
    for (size_t i = 0; i < 80; i++) {
        strcpy(strings[i], "GPUBUDGET_AA=1");
        strings[i][10] = (char)('A' + i / 26);
        strings[i][11] = (char)('A' + i % 26);
        environment[i] = strings[i];
    }
    environment[80] = NULL;
    gb_settings_capture(environment);
    ck_assert_int_eq(gb_settings()->verdict, GB_VERDICT_DENY);
}
END_TEST

static void *ask(void *result)
{
    *(const struct gb_settings **)result = gb_settings();
    return result;
}

START_TEST(test_threads)
{
    enum { THREADS = 16 };
    pthread_t threads[THREADS];
    const struct gb_settings *found[THREADS];
    setenv("GPUBUDGET_LIMIT", "1GiB", 1);
    for (size_t i = 0; i < THREADS; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, ask, &found[i]), 0);
    for (size_t i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        ck_assert_ptr_eq(found[i], found[0]);
        ck_assert_int_eq(found[i]->verdict, GB_VERDICT_LIMIT);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("settings");
    TCase *tests = tcase_create("settings");
    tcase_add_test(tests, test_defaults);
    tcase_add_test(tests, test_values);
    tcase_add_test(tests, test_edges);
    tcase_add_test(tests, test_bad_values);
    tcase_add_test(tests, test_reserve_beside_the_limit);
    tcase_add_test(tests, test_file_name_too_long);
    tcase_add_test(tests, test_verdict);
    tcase_add_test(tests, test_jobs);
    tcase_add_test(tests, test_unknown_names);
    tcase_add_test(tests, test_on_error_allow);
    tcase_add_test(tests, test_messages_are_one_line);
    tcase_add_test(tests, test_table);
    tcase_add_test(tests, test_capture_copies);
    tcase_add_test(tests, test_no_constructor);
    tcase_add_test(tests, test_overflow_denies);
    tcase_add_test(tests, test_too_many_denies);
    tcase_add_test(tests, test_threads);
    suite_add_tcase(suite, tests);
    /* What is captured is captured once per process. */
    SRunner *runner = srunner_create(suite);
    srunner_set_fork_status(runner, CK_FORK);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed > 0;
}
