/*
 * log.h: the one way by which the library writes a line. Never stdout, never a handle kept
 * open.
 */
#ifndef GB_REPORT_LOG_H
#define GB_REPORT_LOG_H

#include "report/line.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum gb_log_level {
    GB_LOG_QUIET = 0,
    GB_LOG_ERROR = 1,
    GB_LOG_WARN = 2, /* the default */
    GB_LOG_INFO = 3,
    GB_LOG_DEBUG = 4
};

#define GB_LOG_LINE_SIZE 1024 /* longest line, prefix and newline included */

/* One line on the writer's stack: begin, add pieces with the gb_line functions, write. */
struct gb_log_line {
    struct gb_line line;
    char buffer[GB_LOG_LINE_SIZE];
};

/* Would a line of this level be written? Ask before building a costly one. */
bool gb_log_on(enum gb_log_level level);

/* Begins with "gpubudget: ". */
void gb_log_begin(struct gb_log_line *log);

/*
 * Ends the line with a newline and writes it with one write(2), if the level is on. Keeps
 * errno, never fails visibly, takes no lock: any thread, any time, also under the library's own
 * locks.
 */
void gb_log_write(enum gb_log_level level, struct gb_log_line *log);

/* A whole line at once. */
void gb_log_text(enum gb_log_level level, const char *text);

/*
 * Level and file ("" for stderr) given by hand in place of the settings (tests, the core
 * library). The file's name may hold %p (process id), %h (host name) and %%.
 */
void gb_log_setup(enum gb_log_level level, const char *file);

#endif
