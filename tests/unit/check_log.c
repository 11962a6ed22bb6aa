/* The line builder and the one way by which lines are written. */
#include "report/log.h"

#include "captured.h"

#include <check.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

static char folder[] = "/tmp/check_log.XXXXXX";

static const char *bytes_text(uint64_t bytes)
{
    static char text[64];
    struct gb_line line;
    gb_line_begin(&line, text, sizeof(text));
    gb_line_bytes(&line, bytes);
    return text;
}

START_TEST(test_bytes)
{
    static const struct {
        uint64_t bytes;
        const char *text;
    } rows[] = {
        {0, "0 B"},
        {1, "1 B"},
        {1023, "1023 B"},
        {1024, "1.0 KiB"},
        {1536, "1.5 KiB"},
        {(uint64_t)2 << 30, "2.0 GiB"},
        {((uint64_t)2 << 30) - 1, "2.0 GiB"},
        {(uint64_t)120 << 30, "120 GiB"},
        {((uint64_t)99 << 30) + ((uint64_t)97 << 30) / 100, "100 GiB"},
        {(uint64_t)512 << 20, "512 MiB"},
        {549034394, "524 MiB"},
        {(uint64_t)1 << 40, "1.0 TiB"},
        {((uint64_t)1 << 40) - 1, "1.0 TiB"},
        {((uint64_t)1023 << 20) + ((uint64_t)1 << 19) - 1, "1023 MiB"},
        {((uint64_t)1023 << 20) + ((uint64_t)1 << 19), "1.0 GiB"},
        {UINT64_MAX, "16.0 EiB"},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        ck_assert_str_eq(bytes_text(rows[i].bytes), rows[i].text);
}
END_TEST

START_TEST(test_scaled)
{
    const uint64_t gib = (uint64_t)1 << 30;
    static char text[64];
    struct gb_line line;
    gb_line_begin(&line, text, sizeof(text));
    gb_line_scaled(&line, 0, gib);
    gb_line_text(&line, " ");
    gb_line_scaled(&line, gib / 2, gib);
    gb_line_text(&line, " ");
    gb_line_scaled(&line, gib / 50, gib); /* not 0.0 */
    gb_line_text(&line, " ");
    gb_line_scaled(&line, 1, gib);
    gb_line_text(&line, " ");
    gb_line_scaled(&line, 5000 * gib, gib);
    gb_line_text(&line, " ");
    gb_line_scaled(&line, 17, 900);
    ck_assert_str_eq(text, "0.0 0.5 0.02 0.00 5000 17");
}
END_TEST

START_TEST(test_pieces)
{
    char text[96];
    struct gb_line line;
    gb_line_begin(&line, text, sizeof(text));
    gb_line_signed(&line, INT64_MIN);
    gb_line_text(&line, NULL);
    gb_line_text(&line, " ");
    gb_line_number(&line, UINT64_MAX);
    gb_line_quote(&line, " a\nb\033\x7f\xe2\x80\x9c!", 9);
    ck_assert_str_eq(text, "-9223372036854775808 18446744073709551615 a?b??"
                           "\xe2\x80\x9c");
    ck_assert(!line.cut);
}
END_TEST

START_TEST(test_cut)
{
    char text[8] = "xxxxxxx";
    struct gb_line line;
    gb_line_begin(&line, text, 5);
    gb_line_text(&line, "abcdef");
    ck_assert(line.cut);
    ck_assert_str_eq(text, "abcd");
    ck_assert_int_eq(text[5], 'x');
    gb_line_begin(&line, NULL, 0);
    gb_line_number(&line, 17);
    ck_assert(line.cut);
}
END_TEST

START_TEST(test_levels)
{
    struct captured captured;
    captured_begin(&captured);
    gb_log_setup(GB_LOG_WARN, "");
    gb_log_text(GB_LOG_ERROR, "e");
    gb_log_text(GB_LOG_WARN, "w");
    gb_log_text(GB_LOG_INFO, "i");
    gb_log_setup(GB_LOG_QUIET, "");
    gb_log_text(GB_LOG_ERROR, "e2");
    gb_log_setup(GB_LOG_DEBUG, "");
    gb_log_text(GB_LOG_DEBUG, "d2");
    gb_log_text(GB_LOG_QUIET, "never");
    ck_assert_str_eq(captured_end(&captured), "gpubudget: e\ngpubudget: w\ngpubudget: d2\n");
}
END_TEST

START_TEST(test_errno_and_stdout_are_left)
{
    struct captured captured;
    captured_begin(&captured);
    int saved = dup(STDOUT_FILENO);
    int full = open("/dev/full", O_WRONLY); /* a write to stdout would show in errno */
    dup2(full, STDOUT_FILENO);
    gb_log_setup(GB_LOG_WARN, "/nonexistent/folder/file");
    errno = 4711;
    gb_log_text(GB_LOG_WARN, "one");
    gb_log_text(GB_LOG_WARN, "two");
    int kept = errno;
    dup2(saved, STDOUT_FILENO);
    const char *text = captured_end(&captured);
    ck_assert_int_eq(kept, 4711);
    ck_assert_str_eq(text, "gpubudget: cannot open the log file \"/nonexistent/folder/file\": "
                           "No such file or directory; writing to stderr\ngpubudget: one\n"
                           "gpubudget: two\n");
}
END_TEST

START_TEST(test_long_line)
{
    struct captured captured;
    struct gb_log_line log;
    captured_begin(&captured);
    gb_log_setup(GB_LOG_WARN, "");
    gb_log_begin(&log);
    for (int i = 0; i < 2000; i++)
        gb_line_text(&log.line, "x");
    gb_log_write(GB_LOG_WARN, &log);
    const char *text = captured_end(&captured);
    ck_assert_uint_eq(strlen(text), GB_LOG_LINE_SIZE - 1);
    ck_assert_str_eq(text + strlen(text) - 5, "x...\n");
}
END_TEST

static const char *file_text(const char *path)
{
    static char text[4096];
    FILE *file = fopen(path, "r");
    ck_assert_msg(file != NULL, "%s", path);
    text[fread(text, 1, sizeof(text) - 1, file)] = '\0';
    fclose(file);
    return text;
}

static int open_handles(void)
{
    int count = 0;
    for (int handle = 0; handle < 256; handle++)
        count += fcntl(handle, F_GETFD) >= 0;
    return count;
}

START_TEST(test_file)
{
    struct captured captured;
    struct stat status;
    char path[256], pattern[256];
    int before = open_handles();
    captured_begin(&captured);
    snprintf(pattern, sizeof(pattern), "%s/log.%%p.%%%%", folder);
    snprintf(path, sizeof(path), "%s/log.%d.%%", folder, (int)getpid());
    gb_log_setup(GB_LOG_INFO, pattern);
    gb_log_text(GB_LOG_INFO, "first");
    gb_log_text(GB_LOG_INFO, "second");
    ck_assert_str_eq(captured_end(&captured), "");
    ck_assert_str_eq(file_text(path), "gpubudget: first\ngpubudget: second\n");
    ck_assert_int_eq(stat(path, &status), 0);
    ck_assert_uint_eq(status.st_mode & 0777, 0600);
    unlink(path);
    /* No handle is kept: it might one day be the program's own file. */
    ck_assert_int_eq(open_handles(), before);
}
END_TEST

START_TEST(test_host_name_in_file)
{
    char path[512], pattern[256], host[65] = "";
    gethostname(host, sizeof(host) - 1);
    snprintf(pattern, sizeof(pattern), "%s/%%h", folder);
    snprintf(path, sizeof(path), "%s/%s", folder, host);
    gb_log_setup(GB_LOG_INFO, pattern);
    gb_log_text(GB_LOG_INFO, "here");
    ck_assert_str_eq(file_text(path), "gpubudget: here\n");
    unlink(path);
}
END_TEST

/* A FIFO that nobody reads must not hold the program. */
START_TEST(test_fifo)
{
    struct captured captured;
    char path[256];
    snprintf(path, sizeof(path), "%s/fifo", folder);
    ck_assert_int_eq(mkfifo(path, 0600), 0);
    captured_begin(&captured);
    gb_log_setup(GB_LOG_WARN, path);
    gb_log_text(GB_LOG_WARN, "still here");
    ck_assert_ptr_nonnull(strstr(captured_end(&captured), "gpubudget: still here\n"));
    unlink(path);
}
END_TEST

/* A reader that has gone: no signal, neither now nor later, and one of the program's stays. */
START_TEST(test_broken_pipe)
{
    struct captured captured;
    sigset_t pipe_only, pending;
    captured_begin(&captured);
    close(captured.reader);
    gb_log_setup(GB_LOG_WARN, "");
    gb_log_text(GB_LOG_WARN, "to nobody");
    sigpending(&pending);
    ck_assert(!sigismember(&pending, SIGPIPE));

    sigemptyset(&pipe_only);
    sigaddset(&pipe_only, SIGPIPE);
    sigprocmask(SIG_BLOCK, &pipe_only, NULL);
    raise(SIGPIPE);
    gb_log_text(GB_LOG_WARN, "to nobody");
    sigpending(&pending);
    ck_assert(sigismember(&pending, SIGPIPE));
    dup2(captured.saved, STDERR_FILENO);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("log");
    TCase *tests = tcase_create("log");
    if (!mkdtemp(folder))
        return 1;
    tcase_add_test(tests, test_bytes);
    tcase_add_test(tests, test_scaled);
    tcase_add_test(tests, test_pieces);
    tcase_add_test(tests, test_cut);
    tcase_add_test(tests, test_levels);
    tcase_add_test(tests, test_errno_and_stdout_are_left);
    tcase_add_test(tests, test_long_line);
    tcase_add_test(tests, test_file);
    tcase_add_test(tests, test_host_name_in_file);
    tcase_add_test(tests, test_fifo);
    tcase_add_test(tests, test_broken_pipe);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_set_fork_status(runner, CK_FORK);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    rmdir(folder);
    return failed > 0;
}
