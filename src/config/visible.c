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
        size_t blanks = strspn(list, " \t"), length;
        uint32_t number;

        list += blanks;
        length = strcspn(list, ",");
        if (length >= 8 && strncasecmp(list, "MIG-GPU-", 8) == 0) {
            known = false; /* the old name of an instance, which NVML does not have */
        } else if (is_uuid(list, length)) {
            length = strcspn(list, ", \t");
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
        list += strcspn(list, ",");
        list += *list == ',';
    }
    return known;
}
