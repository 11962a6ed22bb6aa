#include "config/size.h"

#include "config/characters.h"
#include "report/line.h"

#include <string.h>

#define FRACTION_DIGITS 18
#define FRACTION_ONE    1000000000000000000u /* 10^18 */
#define BARE_LEAST      ((uint64_t)1 << 20)
#define BARE_GIB        256 /* below it GiB is what a number without a unit may mean, else MiB */
#define SHOWN           48  /* longest part of a bad value that an explanation repeats */

/* A number as written: digits[.digits], with the fraction as parts of 10^18. */
struct number {
    uint64_t whole;
    uint64_t fraction;
    size_t length;
    bool point;
    bool overflow;
    bool inexact; /* fraction digits beyond FRACTION_DIGITS, not all zero */
};

struct unit {
    const char *name; /* in lower case */
    uint64_t bytes;
};

static const struct unit unit_table[] = {
    {"b", 1},
    {"k", (uint64_t)1 << 10},
    {"m", (uint64_t)1 << 20},
    {"g", (uint64_t)1 << 30},
    {"t", (uint64_t)1 << 40},
    {"ki", (uint64_t)1 << 10},
    {"mi", (uint64_t)1 << 20},
    {"gi", (uint64_t)1 << 30},
    {"ti", (uint64_t)1 << 40},
    {"kib", (uint64_t)1 << 10},
    {"mib", (uint64_t)1 << 20},
    {"gib", (uint64_t)1 << 30},
    {"tib", (uint64_t)1 << 40},
    {"kb", 1000u},
    {"mb", 1000000u},
    {"gb", 1000000000u},
    {"tb", 1000000000000u},
};

/* Is text, in any case, the word (which is in lower case)? */
static bool is_word(const char *text, size_t length, const char *word)
{
    if (strlen(word) != length)
        return false;
    for (size_t i = 0; i < length; i++)
        if (gb_lower(text[i]) != word[i])
            return false;
    return true;
}

static void quote(struct gb_line *why, const char *text, size_t length)
{
    gb_line_text(why, "\"");
    gb_line_quote(why, text, length < SHOWN ? length : SHOWN);
    gb_line_text(why, length < SHOWN ? "\"" : "...\"");
}

/* Always false, so that callers can return it. */
static bool fail(struct gb_line *why, const char *text, size_t length, const char *reason)
{
    quote(why, text, length);
    gb_line_text(why, " ");
    gb_line_text(why, reason);
    return false;
}

static void read_number(const char *text, size_t length, struct number *number)
{
    size_t at = 0;
    memset(number, 0, sizeof(*number));
    for (; at < length && gb_is_digit(text[at]); at++) {
        uint64_t digit = (uint64_t)(text[at] - '0');
        if (number->whole > (UINT64_MAX - digit) / 10)
            number->overflow = true;
        else
            number->whole = number->whole * 10 + digit;
    }
    if (at > 0 && at + 1 < length && text[at] == '.' && gb_is_digit(text[at + 1])) {
        uint64_t place = FRACTION_ONE;
        number->point = true;
        for (at++; at < length && gb_is_digit(text[at]); at++) {
            place /= 10;
            number->fraction += place * (uint64_t)(text[at] - '0');
            if (place == 0 && text[at] != '0')
                number->inexact = true;
        }
    }
    number->length = at;
}

static bool finish_percent(const char *text, size_t length, const struct number *number,
                           struct gb_size *out, struct gb_line *why)
{
    uint64_t rest = number->fraction % (FRACTION_ONE / GB_SIZE_PERCENT_ONE);
    uint64_t percent = number->fraction / (FRACTION_ONE / GB_SIZE_PERCENT_ONE);
    bool beyond = rest > 0 || number->inexact;
    if (number->overflow || number->whole > 100 ||
        (number->whole == 100 && (percent > 0 || beyond)))
        return fail(why, text, length,
                    "is above 100%; a limit is at most the device's memory: 100% or less");
    percent += number->whole * GB_SIZE_PERCENT_ONE;
    if (percent == 0)
        return fail(why, text, length, "is nothing; write none for no limit");
    *out = (struct gb_size){.kind = GB_SIZE_PERCENT, .percent = (uint32_t)percent};
    return true;
}

static bool finish_bytes(const char *text, size_t length, const struct number *number,
                         uint64_t unit, struct gb_size *out, struct gb_line *why)
{
    unsigned __int128 bytes = (unsigned __int128)number->whole * unit;
    bytes += (unsigned __int128)number->fraction * unit / FRACTION_ONE;
    if (number->overflow || bytes > INT64_MAX)
        return fail(why, text, length, "is too large; at most 8388607TiB can be written");
    if (bytes == 0)
        return fail(why, text, length, "is nothing; write none for no limit");
    *out = (struct gb_size){.kind = GB_SIZE_BYTES, .bytes = (uint64_t)bytes};
    return true;
}

/* Repeats `length` characters without quotes, as a part of what should be written. */
static void show(struct gb_line *why, const char *text, size_t length)
{
    gb_line_quote(why, text, length < SHOWN ? length : SHOWN);
}

/* A number alone is bytes, but people coming from Slurm or nvidia-smi mean MiB by 4096. */
static bool finish_bare(const char *text, size_t length, const struct number *number,
                        struct gb_size *out, struct gb_line *why)
{
    bool small = !number->overflow && number->whole < BARE_LEAST;
    if (number->point || (small && number->whole > 0)) {
        fail(why, text, length,
             number->point ? "has no unit; did you mean "
                           : "without a unit is bytes, less than 1 MiB; did you mean ");
        show(why, text, length);
        gb_line_text(why, small && number->whole < BARE_GIB ? "GiB?" : "MiB?");
        return false;
    }
    return finish_bytes(text, length, number, 1, out, why);
}

/* ".5GiB" or "4,5GiB", which lack what a fraction needs here: `before` a point. */
static bool fail_fraction(const char *text, size_t length, size_t before, const char *reason,
                          struct gb_line *why)
{
    fail(why, text, length, reason);
    if (before > 0)
        show(why, text, before);
    else
        gb_line_text(why, "0");
    gb_line_text(why, ".");
    show(why, text + before + 1, length - before - 1);
    return false;
}

static bool parse(const char *text, size_t length, struct gb_size *out, struct gb_line *why)
{
    struct number number;
    if (length == 0) {
        gb_line_text(why, "a size is missing; write one such as 4GiB, 50% or none");
        return false;
    }
    if (is_word(text, length, "none")) {
        *out = (struct gb_size){.kind = GB_SIZE_NONE};
        return true;
    }
    read_number(text, length, &number);
    if (number.length == 0 && length > 1 && text[0] == '.' && gb_is_digit(text[1]))
        return fail_fraction(text, length, 0, "has no digit before the point; write ", why);
    if (number.length == 0)
        return fail(why, text, length, "is not a size; write one such as 4GiB, 50% or none");
    if (number.length == length)
        return finish_bare(text, length, &number, out, why);

    const char *rest = text + number.length;
    size_t rest_length = length - number.length;
    if (gb_is_blank(rest[0])) {
        struct gb_piece unit = gb_trimmed((struct gb_piece){rest, rest_length});

        fail(why, text, length, "has a blank inside; write number and unit together: ");
        show(why, text, number.length);
        show(why, unit.text, unit.length);
        return false;
    }
    if (!number.point && rest_length > 1 && rest[0] == ',' && gb_is_digit(rest[1]))
        return fail_fraction(text, length, number.length,
                             "has a comma for a decimal point; write ", why);
    if (rest_length == 1 && rest[0] == '%')
        return finish_percent(text, length, &number, out, why);
    for (size_t i = 0; i < sizeof(unit_table) / sizeof(unit_table[0]); i++)
        if (is_word(rest, rest_length, unit_table[i].name))
            return finish_bytes(text, length, &number, unit_table[i].bytes, out, why);
    fail(why, text, length, "ends in ");
    quote(why, rest, rest_length);
    gb_line_text(why, ", which is no unit; use B, KiB, MiB, GiB, TiB, KB, MB, GB, TB or %");
    return false;
}

bool gb_size_parse(const char *text, size_t length, struct gb_size *out, char *why,
                   size_t why_size)
{
    struct gb_line line;
    gb_line_begin(&line, why, why_size);
    struct gb_piece piece = gb_trimmed((struct gb_piece){text, length});
    return parse(piece.text, piece.length, out, &line);
}

uint64_t gb_size_bytes(const struct gb_size *size, uint64_t whole)
{
    switch (size->kind) {
    case GB_SIZE_BYTES:
        return size->bytes;
    case GB_SIZE_PERCENT:
        return (uint64_t)((unsigned __int128)whole * size->percent / GB_SIZE_PERCENT_ALL);
    case GB_SIZE_NONE:
        break;
    }
    return UINT64_MAX;
}

/* hundredths, say, as "37.25", without zeros at the end. */
static void add_decimal(struct gb_line *line, uint64_t number, uint64_t one)
{
    gb_line_number(line, number / one);
    number %= one;
    if (number == 0)
        return;
    gb_line_text(line, ".");
    for (one /= 10; number > 0; one /= 10) {
        gb_line_number(line, number / one);
        number %= one;
    }
}

void gb_size_text(const struct gb_size *size, char *text, size_t text_size)
{
    struct gb_line line;
    gb_line_begin(&line, text, text_size);
    switch (size->kind) {
    case GB_SIZE_BYTES:
        gb_line_number(&line, size->bytes);
        /* Below 1 MiB a bare number is an error. */
        gb_line_text(&line, size->bytes < BARE_LEAST ? "B" : "");
        break;
    case GB_SIZE_PERCENT:
        add_decimal(&line, size->percent, GB_SIZE_PERCENT_ONE);
        gb_line_text(&line, "%");
        break;
    case GB_SIZE_NONE:
        gb_line_text(&line, "none");
        break;
    }
}

void gb_size_format(const struct gb_size *size, char *text, size_t text_size)
{
    struct gb_line line;
    gb_line_begin(&line, text, text_size);
    if (size->kind != GB_SIZE_BYTES) {
        gb_size_text(size, text, text_size);
        return;
    }
    unsigned shift = 0;
    while (shift < 60 && size->bytes >> (shift + 10) > 0)
        shift += 10;
    /* Rounded down, as everything that is granted is. */
    unsigned __int128 hundredths = ((unsigned __int128)size->bytes * 100) >> shift;
    add_decimal(&line, (uint64_t)hundredths, 100);
    gb_line_text(&line, " ");
    gb_line_text(&line, gb_line_unit(size->bytes));
}
