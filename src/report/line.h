/*
 * line.h: builds one line of text in the caller's buffer. No malloc, no printf family, no
 * locale.
 */
#ifndef GB_REPORT_LINE_H
#define GB_REPORT_LINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Invariants: text is always terminated when size > 0; length < size; what does not fit is
 * left out and cut is set. Nothing here fails: a message must not become an error.
 */
struct gb_line {
    char *text;
    size_t size;
    size_t length;
    bool cut;
};

void gb_line_begin(struct gb_line *line, char *buffer, size_t size);

void gb_line_text(struct gb_line *line, const char *text); /* NULL adds nothing */
/* At most `length` characters. Control characters become '?', so a line stays one line. */
void gb_line_quote(struct gb_line *line, const char *text, size_t length);
void gb_line_number(struct gb_line *line, uint64_t number);
void gb_line_signed(struct gb_line *line, int64_t number);
/* Bytes for people: "2.0 GiB", "120 GiB", "17 B". */
void gb_line_bytes(struct gb_line *line, uint64_t bytes);
/* The figure alone in the unit that gb_line_bytes would choose for `scale`: "2.4". */
void gb_line_scaled(struct gb_line *line, uint64_t bytes, uint64_t scale);
/* What gb_line_scaled shows, in bytes again: a reader's 2.4 GiB, rounded down to a byte. */
uint64_t gb_line_shown(uint64_t bytes, uint64_t scale);
/* The unit that gb_line_bytes would choose for `scale`: "GiB". */
const char *gb_line_unit(uint64_t scale);

#endif
