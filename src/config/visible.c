#include "config/visible.h"

#include <string.h>
#include <strings.h>

/* As strtoul reads it, which is how CUDA does: what follows the digits is not looked at. */
static bool is_number(const char *text, size_t length, uint32_t *number)
{
    uint64_t value = 0;
    size_t digits;

    if (length > 0 && *text == '+') {
        text++;
        length--;
    }
    for (digits = 0; digits < length && text[digits] >= '0' && text[digits] <= '9'; digits++) {
        value = value * 10 + (uint64_t)(text[digits] - '0');
        if (value > UINT32_MAX)
            return false;
    }
    *number = (uint32_t)value;
    return digits > 0;
}

enum match { OTHER, THIS, MAYBE };

static bool begins(const char *text, size_t length, const char *head)
{
    size_t most = strlen(head);

    return length >= most && strncasecmp(text, head, most) == 0;
}

/* May be shortened. */
static bool is_name(const char *text, size_t length, const char *name)
{
    return strncasecmp(text, name, length) == 0;
}

static enum match match_uuid(const char *text, size_t length,
                             const struct gb_visible_card *card)
{
    if (begins(text, length, "MIG-GPU-") && card->old_name) {
        if (!card->old_name[0])
            return MAYBE;
        return length == strlen(card->old_name) && is_name(text, length, card->old_name)
                   ? THIS
                   : OTHER;
    }
    if (is_name(text, length, card->uuid))
        return THIS;
    if (begins(text, length, "GPU-") && card->card_uuid &&
        (!card->card_uuid[0] || is_name(text, length, card->card_uuid)))
        return MAYBE;
    return OTHER;
}

bool gb_visible_ordinal(const char *list, bool in_order, const struct gb_visible_card *card,
                        uint32_t *ordinal)
{
    bool known = true;

    *ordinal = GB_VISIBLE_HIDDEN;
    if (!list) {
        if (in_order)
            *ordinal = card->index;
        return in_order;
    }
    for (uint32_t place = 0; *list; place++) {
        size_t blanks = strspn(list, " \t"), length;
        uint32_t number;

        list += blanks;
        length = strcspn(list, ",");
        if (begins(list, length, "GPU-") || begins(list, length, "MIG-")) {
            enum match match = match_uuid(list, strcspn(list, ", \t"), card);

            if (match == THIS) {
                *ordinal = place;
                return true;
            }
            known = known && match != MAYBE;
        } else if (!is_number(list, length, &number)) {
            break; /* the first wrong one ends the list */
        } else if (!in_order) {
            known = false;
        } else if (number == card->index) {
            *ordinal = place;
            return true;
        }
        list += strcspn(list, ",");
        list += *list == ',';
    }
    return known;
}
