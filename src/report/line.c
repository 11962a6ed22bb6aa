#include "report/line.h"

static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};

static void add(struct gb_line *line, char character)
{
    if (line->length + 1 >= line->size) {
        line->cut = true;
        return;
    }
    line->text[line->length++] = character;
    line->text[line->length] = '\0';
}

void gb_line_begin(struct gb_line *line, char *buffer, size_t size)
{
    line->text = buffer;
    line->size = size;
    line->length = 0;
    line->cut = false;
    if (size > 0)
        buffer[0] = '\0';
}

void gb_line_text(struct gb_line *line, const char *text)
{
    for (; text && *text; text++)
        add(line, *text);
}

void gb_line_quote(struct gb_line *line, const char *text, size_t length)
{
    for (size_t i = 0; text && i < length && text[i]; i++) {
        unsigned char character = (unsigned char)text[i];
        /* Bytes above 127 stay: they are the curly quotes the reader must see. */
        add(line, character < 0x20 || character == 0x7f ? '?' : text[i]);
    }
}

static void add_digits(struct gb_line *line, uint64_t number)
{
    char digits[20];
    size_t count = 0;
    do {
        digits[count++] = (char)('0' + number % 10);
        number /= 10;
    } while (number > 0);
    while (count > 0)
        add(line, digits[--count]);
}

void gb_line_number(struct gb_line *line, uint64_t number)
{
    add_digits(line, number);
}

void gb_line_signed(struct gb_line *line, int64_t number)
{
    if (number < 0)
        add(line, '-');
    add_digits(line, number < 0 ? 0 - (uint64_t)number : (uint64_t)number);
}

static unsigned unit_of(uint64_t scale)
{
    const unsigned count = sizeof(units) / sizeof(units[0]);
    unsigned unit = 0;
    while (unit + 1 < count && scale >> (10 * (unit + 1)) > 0)
        unit++;
    /* 1023.96 MiB would round to "1024 MiB": it belongs to the next unit. */
    unsigned shift = 10 * unit;
    if (unit > 0 && unit + 1 < count && scale >> shift == 1023 &&
        (scale & (((uint64_t)1 << shift) - 1)) >= (uint64_t)1 << (shift - 1))
        unit++;
    return unit;
}

const char *gb_line_unit(uint64_t scale)
{
    return units[unit_of(scale)];
}

/* A figure as it is shown: whole, and so many parts of `factor` (1, 10 or 100). */
struct figure {
    uint64_t whole;
    uint64_t decimals;
    uint64_t factor;
};

/*
 * One decimal below 100, none from 100 on; two where one would show something as 0.0. Rounded
 * to nearest on the part below the unit, so that nothing can overflow.
 */
static struct figure figure_of(uint64_t bytes, unsigned shift)
{
    uint64_t one = (uint64_t)1 << shift;
    uint64_t rest = bytes & (one - 1);
    struct figure figure = {.whole = bytes >> shift, .factor = 1};
    if (shift == 0)
        return figure;
    /* rest < 2^60; keep 32 bits of it, enough for two decimals. */
    unsigned drop = shift > 32 ? shift - 32 : 0;
    uint64_t part = rest >> drop;
    uint64_t unit = one >> drop;
    if (figure.whole < 100)
        figure.factor = 10;
    if (figure.whole == 0 && bytes > 0 && part * 20 < unit)
        figure.factor = 100;
    figure.decimals = (part * figure.factor + unit / 2) / unit;
    if (figure.decimals >= figure.factor) {
        figure.decimals -= figure.factor;
        figure.whole++;
        if (figure.whole == 100)
            figure.factor = 1; /* 99.97 is 100, not 100.0 */
    }
    return figure;
}

void gb_line_scaled(struct gb_line *line, uint64_t bytes, uint64_t scale)
{
    struct figure figure = figure_of(bytes, 10 * unit_of(scale));
    add_digits(line, figure.whole);
    if (figure.factor == 1)
        return;
    add(line, '.');
    if (figure.factor == 100)
        add(line, (char)('0' + figure.decimals / 10));
    add(line, (char)('0' + figure.decimals % 10));
}

uint64_t gb_line_shown(uint64_t bytes, uint64_t scale)
{
    unsigned shift = 10 * unit_of(scale);
    struct figure figure = figure_of(bytes, shift);
    unsigned __int128 shown = (unsigned __int128)figure.whole << shift;
    shown += ((unsigned __int128)figure.decimals << shift) / figure.factor;
    return shown < UINT64_MAX ? (uint64_t)shown : UINT64_MAX;
}

void gb_line_bytes(struct gb_line *line, uint64_t bytes)
{
    gb_line_scaled(line, bytes, bytes);
    add(line, ' ');
    gb_line_text(line, gb_line_unit(bytes));
}
