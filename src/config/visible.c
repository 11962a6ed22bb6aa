#include "config/visible.h"

#include <string.h>
#include <strings.h>

static bool is_number(const char *text, size_t length, uint32_t *number)
{
    uint64_t value = 0;

    if (length == 0)
        return false;
    for (size_t i = 0; i < length; i++) {
        if (text[i] < '0' || text[i] > '9')
            return false;
        value = value * 10 + (uint64_t)(text[i] - '0');
        if (value > UINT32_MAX)
            return false;
    }
    *number = (uint32_t)value;
    return true;
}

static bool is_uuid(const char *text, size_t length)
{
    return length >= 4 &&
           (strncasecmp(text, "GPU-", 4) == 0 || strncasecmp(text, "MIG-", 4) == 0);
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
        size_t length = strcspn(list, ",");
        uint32_t number;

        if (is_uuid(list, length)) {
            if (strncasecmp(list, card->uuid, length) == 0) {
                *ordinal = place;
                return true;
            }
        } else if (!is_number(list, length, &number)) {
            break; /* the first wrong one ends the list */
        } else if (!in_order) {
            known = false;
        } else if (number == card->index) {
            *ordinal = place;
            return true;
        }
        list += length;
        list += *list == ',';
    }
    return known;
}
