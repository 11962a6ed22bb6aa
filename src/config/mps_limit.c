#include "config/mps_limit.h"

#include <string.h>
#include <strings.h>

/* A number of digits at the start; answers how many there are. */
static size_t read_number(const char *text, size_t length, uint64_t *number)
{
    size_t digits = 0;

    for (*number = 0; digits < length && text[digits] >= '0' && text[digits] <= '9'; digits++) {
        if (*number > (UINT64_MAX - 9) / 10)
            return 0;
        *number = *number * 10 + (uint64_t)(text[digits] - '0');
    }
    return digits;
}

/* "2G", "512MB", "1024"; false where it is something else. */
static bool read_size(const char *text, size_t length, uint64_t *bytes)
{
    static const char units[] = "KMGT";
    size_t digits = read_number(text, length, bytes);
    const char *unit;
    int shift;

    if (digits == 0)
        return false;
    text += digits;
    length -= digits;
    if (length > 0 && (text[length - 1] == 'B' || text[length - 1] == 'b'))
        length--;
    if (length == 0)
        return true;
    unit = length == 1 ? strchr(units, text[0] & ~0x20) : NULL;
    if (!unit || !*unit)
        return false;
    shift = 10 * (int)(unit - units + 1);
    if (*bytes > UINT64_MAX >> shift)
        return false;
    *bytes <<= shift;
    return true;
}

static bool names(const char *key, size_t length, const struct gb_device_identity *device,
                  bool any_ordinal)
{
    uint64_t ordinal;

    if (length > 4 && strncasecmp(key, device->uuid, length) == 0)
        return true;
    return length > 0 && read_number(key, length, &ordinal) == length &&
           (any_ordinal || ordinal == device->ordinal);
}

uint64_t gb_mps_limit(const char *text, const struct gb_device_identity *device,
                      bool any_ordinal)
{
    uint64_t least = UINT64_MAX;

    while (text && *text) {
        size_t length = strcspn(text, ","), key = strcspn(text, "=,");
        uint64_t bytes;

        if (key < length && names(text, key, device, any_ordinal) &&
            read_size(text + key + 1, length - key - 1, &bytes) && bytes > 0 && bytes < least)
            least = bytes;
        text += length;
        text += *text == ',';
    }
    return least;
}
