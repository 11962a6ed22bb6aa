#include "config/limit.h"

#include "config/characters.h"
#include "config/device_key.h"
#include "report/line.h"

#include <string.h>

#define SHOWN 48 /* longest part of a bad value that an explanation repeats */

static void quote(struct gb_line *why, struct gb_piece piece)
{
    gb_line_text(why, "\"");
    gb_line_quote(why, piece.text, piece.length < SHOWN ? piece.length : SHOWN);
    gb_line_text(why, piece.length < SHOWN ? "\"" : "...\"");
}

static bool same_key(const struct gb_limit_entry *a, const struct gb_limit_entry *b)
{
    return a->key == b->key && a->ordinal == b->ordinal && strcmp(a->name, b->name) == 0;
}

static void keep_written(struct gb_limit_entry *entry, struct gb_piece text)
{
    struct gb_line line;
    gb_line_begin(&line, entry->written, sizeof(entry->written));
    gb_line_quote(&line, text.text, text.length);
    if (line.cut)
        memcpy(entry->written + line.length - 3, "...", 3);
}

static bool parse_entry(struct gb_piece text, struct gb_limit_entry *entry, struct gb_line *why)
{
    memset(entry, 0, sizeof(*entry));
    keep_written(entry, text);
    struct gb_piece size = text;
    const char *equals = memchr(text.text, '=', text.length);
    if (equals) {
        struct gb_piece key = {text.text, (size_t)(equals - text.text)};
        key = gb_trimmed(key);
        if (!gb_device_key(key, entry)) {
            gb_line_text(why, "entry ");
            quote(why, text);
            gb_line_text(why, ": ");
            quote(why, key);
            gb_line_text(why, " is no device; use an ordinal (0), a UUID (GPU-..., MIG-...), a "
                              "PCI address (0000:65:00.0) or *");
            return false;
        }
        size.text = equals + 1;
        size.length = text.length - (size_t)(size.text - text.text);
        size = gb_trimmed(size);
    }
    char reason[GB_SIZE_WHY];
    if (gb_size_parse(size.text, size.length, &entry->size, reason, sizeof(reason)))
        return true;
    if (equals) {
        gb_line_text(why, "entry ");
        quote(why, text);
        gb_line_text(why, ": ");
    }
    gb_line_text(why, reason);
    if (!equals && memchr(text.text, ':', text.length))
        gb_line_text(why, "; a device is written before \"=\": 0=4GiB");
    return false;
}

/* Adds one entry, on a copy of the list that the caller throws away if this fails. */
static bool add_entry(struct gb_limit *limit, struct gb_piece text, struct gb_line *why)
{
    if (text.length == 0) {
        gb_line_text(why, "an entry is empty; entries are separated by single commas");
        return false;
    }
    if (limit->count == GB_LIMIT_ENTRIES) {
        gb_line_text(why, "more than ");
        gb_line_number(why, GB_LIMIT_ENTRIES);
        gb_line_text(why, " entries, from ");
        quote(why, text);
        gb_line_text(why, " on");
        return false;
    }
    struct gb_limit_entry *entry = &limit->entries[limit->count];
    if (!parse_entry(text, entry, why))
        return false;
    for (uint32_t i = 0; i < limit->count; i++) {
        if (!same_key(entry, &limit->entries[i]))
            continue;
        gb_line_text(why, "entry ");
        quote(why, text);
        gb_line_text(why, entry->key == GB_LIMIT_KEY_DEFAULT
                              ? ": there is a limit for all other devices already"
                              : ": this device has an entry already");
        return false;
    }
    limit->count++;
    return true;
}

/*
 * "4,5GiB", of which "4" is an error in any case, is taken for one entry, whose error then says
 * what was meant.
 */
static bool is_decimal_comma(struct gb_piece entry, const char *comma, size_t behind)
{
    const size_t most = 6; /* digits that are less than 1 MiB without a unit */
    const char *equals = memchr(entry.text, '=', entry.length);
    const char *number = equals ? equals + 1 : entry.text;
    size_t digits = 0;
    while (number + digits < comma && gb_is_digit(number[digits]))
        digits++;
    return digits > 0 && digits <= most && number + digits == comma && behind > 0 &&
           gb_is_digit(comma[1]) && !memchr(comma + 1, '=', behind);
}

/* The length of the entry with which the text begins, up to a comma or its end. */
static size_t entry_length(struct gb_piece rest)
{
    const char *comma = memchr(rest.text, ',', rest.length);
    if (!comma)
        return rest.length;
    struct gb_piece entry = {rest.text, (size_t)(comma - rest.text)};
    struct gb_piece next = {comma + 1, rest.length - entry.length - 1};
    const char *end = memchr(next.text, ',', next.length);
    if (end)
        next.length = (size_t)(end - next.text);
    if (is_decimal_comma(entry, comma, next.length))
        entry.length += 1 + next.length;
    return entry.length;
}

bool gb_limit_parse(struct gb_limit *limit, const char *text, size_t length, char *why,
                    size_t why_size)
{
    struct gb_line line;
    uint32_t before = limit->count;
    struct gb_piece rest = {text, length};
    gb_line_begin(&line, why, why_size);
    if (gb_trimmed(rest).length == 0) {
        gb_line_text(&line, "it is empty; write a limit such as 4GiB, or none for no limit");
        return false;
    }
    for (;;) {
        struct gb_piece entry = {rest.text, entry_length(rest)};
        if (!add_entry(limit, gb_trimmed(entry), &line)) {
            /* Entries beyond the old count go back to zero: the list is as it was. */
            memset(&limit->entries[before], 0,
                   (GB_LIMIT_ENTRIES - before) * sizeof(limit->entries[0]));
            limit->count = before;
            return false;
        }
        if (entry.length == rest.length)
            return true;
        rest.length -= entry.length + 1;
        rest.text += entry.length + 1;
    }
}

bool gb_limit_is_none(const struct gb_limit *limit)
{
    bool has_default = false;
    for (uint32_t i = 0; i < limit->count; i++) {
        if (limit->entries[i].size.kind != GB_SIZE_NONE)
            return false;
        has_default |= limit->entries[i].key == GB_LIMIT_KEY_DEFAULT;
    }
    return has_default;
}
