/*
 * captured.h: what the code under test writes to stderr, for the tests of its lines.
 */
#ifndef GB_TESTS_CAPTURED_H
#define GB_TESTS_CAPTURED_H

#include <check.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

struct captured {
    int saved;
    int reader;
    char text[8192];
};

static inline void captured_begin(struct captured *captured)
{
    int ends[2];
    ck_assert_int_eq(pipe(ends), 0);
    captured->saved = dup(STDERR_FILENO);
    captured->reader = ends[0];
    ck_assert_int_ge(dup2(ends[1], STDERR_FILENO), 0);
    close(ends[1]);
}

/* Everything written since captured_begin; stderr is itself again. At most a pipe full. */
static inline const char *captured_end(struct captured *captured)
{
    size_t length = 0;
    ssize_t got;
    dup2(captured->saved, STDERR_FILENO);
    close(captured->saved);
    while ((got = read(captured->reader, captured->text + length,
                       sizeof(captured->text) - 1 - length)) > 0)
        length += (size_t)got;
    captured->text[length] = '\0';
    close(captured->reader);
    return captured->text;
}

#endif
