/*
 * visible.c: the list as the driver reads it (docs/driver-behaviour.md). It is one of numbers
 * or one of UUIDs, as its first entry is; the first wrong entry ends it, and a card that is
 * named twice before that keeps CUDA from starting.
 */
#include "config/visible.h"

#include <string.h>
#include <strings.h>

#include "config/characters.h"

enum { HEAD = 4, DIGITS = 32 };

enum match {
    WRONG,   /* the list ends here */
    ANOTHER, /* card */
    THIS,
    MAYBE /* this one, or another */
};

/* What is known of the list so far. */
struct reading {
    const struct gb_visible_cards *cards;
    const struct gb_visible_card *card;
    uint64_t named; /* by number: as CUDA counts; by UUID: as on the bus */
    bool is_twice;  /* one is named twice */
};

static void note_named(struct reading *reading, uint32_t number)
{
    uint64_t bit = (uint64_t)1 << number;

    reading->is_twice = reading->is_twice || (reading->named & bit);
    reading->named |= bit;
}

/* The card's place on the bus; GB_VISIBLE_HIDDEN: it is none of those. */
static uint32_t place_of(const struct gb_visible_cards *cards, const char *uuid)
{
    for (uint32_t i = 0; i < cards->count; i++)
        if (strcasecmp(cards->uuids[i], uuid) == 0)
            return i;
    return GB_VISIBLE_HIDDEN;
}

/* ---- numbers ---- */

/* As strtoul does it: what follows the digits is not looked at. Of the value the driver takes
 * the low 32 bits. */
static bool read_number(struct gb_piece entry, uint32_t *number)
{
    uint64_t value = 0;
    bool is_negative, is_too_large = false;
    size_t i = 0, first;

    while (i < entry.length && gb_is_blank(entry.text[i]))
        i++;
    is_negative = i < entry.length && entry.text[i] == '-';
    if (is_negative || (i < entry.length && entry.text[i] == '+'))
        i++;
    for (first = i; i < entry.length && gb_is_digit(entry.text[i]); i++)
        is_too_large = is_too_large || __builtin_mul_overflow(value, 10, &value) ||
                       __builtin_add_overflow(value, entry.text[i] - '0', &value);
    if (is_too_large)
        value = UINT64_MAX;
    else if (is_negative)
        value = 0 - value;
    *number = (uint32_t)value;
    return i > first;
}

static enum match match_number(struct reading *reading, struct gb_piece entry)
{
    const struct gb_visible_cards *cards = reading->cards;
    uint32_t number;

    if (!read_number(entry, &number))
        return WRONG;
    /* Nobody knows how many CUDA counts. */
    if (!cards->is_one_by_one)
        return MAYBE;
    if (number >= cards->count)
        return WRONG;
    note_named(reading, number);
    if (!cards->is_in_order)
        return MAYBE;
    return strcasecmp(cards->uuids[number], reading->card->uuid) == 0 ? THIS : ANOTHER;
}

/* ---- UUIDs ---- */

static bool begins(struct gb_piece entry, const char *head)
{
    size_t length = strlen(head);

    return entry.length >= length && memcmp(entry.text, head, length) == 0;
}

static bool is_uuid(struct gb_piece entry)
{
    return begins(entry, "GPU-") || begins(entry, "MIG-");
}

/* The hexadecimal digits, which may be fewer than there are. */
struct digits {
    size_t count;
    int of[DIGITS];
};

/* Dashes may be anywhere, also alone, and after the last digit anything. */
static bool read_digits(struct gb_piece entry, struct digits *digits)
{
    digits->count = 0;
    for (size_t i = HEAD; i < entry.length && digits->count < DIGITS; i++) {
        int value = gb_hex_value(entry.text[i]);

        if (value >= 0)
            digits->of[digits->count++] = value;
        else if (entry.text[i] != '-')
            return false;
    }
    return entry.length > HEAD;
}

static bool is_named(const struct digits *digits, const char *uuid)
{
    size_t seen = 0;

    for (const char *c = strlen(uuid) < HEAD ? "" : uuid + HEAD; *c && seen < digits->count;
         c++) {
        if (*c == '-')
            continue;
        if (gb_hex_value(*c) != digits->of[seen++])
            return false;
    }
    return seen == digits->count;
}

/* An instance is a list's end: so is another one than this. */
static enum match match_uuid(struct reading *reading, struct gb_piece entry)
{
    const struct gb_visible_cards *cards = reading->cards;
    const struct gb_visible_card *card = reading->card;
    uint32_t found = GB_VISIBLE_HIDDEN;
    struct digits digits;

    if (card->old_name && begins(entry, "MIG-GPU-")) {
        if (!card->old_name[0])
            return MAYBE;
        return entry.length == strlen(card->old_name) &&
                       strncasecmp(entry.text, card->old_name, entry.length) == 0
                   ? THIS
                   : WRONG;
    }
    if (!is_uuid(entry) || !read_digits(entry, &digits))
        return WRONG;
    if (card->old_name && begins(entry, "MIG-") && is_named(&digits, card->uuid))
        return THIS;
    for (uint32_t i = 0; i < cards->count; i++) {
        if (!is_named(&digits, cards->uuids[i]))
            continue;
        if (found != GB_VISIBLE_HIDDEN)
            return WRONG; /* shortened so that it names two */
        found = i;
    }
    if (found == GB_VISIBLE_HIDDEN)
        return WRONG;
    note_named(reading, found);
    if (!card->old_name)
        return found == place_of(cards, card->uuid) ? THIS : ANOTHER;
    return !card->card_uuid[0] || found == place_of(cards, card->card_uuid) ? MAYBE : ANOTHER;
}

/* ---- the list ---- */

static struct gb_piece first_of(const char *list)
{
    return (struct gb_piece){list, strcspn(list, ",")};
}

bool gb_visible_ordinal(const char *list, const struct gb_visible_cards *cards,
                        const struct gb_visible_card *card, uint32_t *ordinal)
{
    struct reading reading = {.cards = cards, .card = card};
    enum match (*match_entry)(struct reading * reading, struct gb_piece entry);
    uint32_t number = GB_VISIBLE_HIDDEN;
    bool is_known = true;

    *ordinal = GB_VISIBLE_HIDDEN;
    if (cards->count == 0)
        return false;
    if (!list) {
        if (cards->is_in_order && cards->is_one_by_one)
            *ordinal = place_of(cards, card->uuid);
        return cards->is_in_order && cards->is_one_by_one;
    }
    match_entry = is_uuid(first_of(list)) ? match_uuid : match_number;
    for (uint32_t place = 0; *list; place++) {
        struct gb_piece entry = first_of(list);
        enum match match = match_entry(&reading, entry);

        if (match == WRONG)
            break;
        if (match == THIS)
            number = place;
        is_known = is_known && match != MAYBE;
        list += entry.length;
        list += *list == ',';
    }
    if (reading.is_twice)
        return true;
    *ordinal = number;
    return is_known || number != GB_VISIBLE_HIDDEN;
}
