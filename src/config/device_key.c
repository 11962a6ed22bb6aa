#include "config/device_key.h"

#include <string.h>

#define ORDINAL_MAX 4095u

static bool has_prefix(struct gb_piece key, const char *prefix)
{
    size_t length = strlen(prefix);
    if (key.length < length)
        return false;
    for (size_t i = 0; i < length; i++)
        if (gb_lower(key.text[i]) != gb_lower(prefix[i]))
            return false;
    return true;
}

static bool read_ordinal(struct gb_piece key, uint32_t *ordinal)
{
    uint32_t number = 0;
    for (size_t i = 0; i < key.length; i++) {
        if (!gb_is_digit(key.text[i]))
            return false;
        number = number * 10 + (uint32_t)(key.text[i] - '0');
        if (number > ORDINAL_MAX)
            return false;
    }
    *ordinal = number;
    return key.length > 0;
}

/*
 * "GPU-" or "MIG-" (also the older "MIG-GPU-UUID/GI/CI"), then at least one of the identity's
 * own characters. Written to `name` in one case, so that texts compare byte by byte.
 */
bool gb_device_key_uuid(struct gb_piece key, char *name)
{
    static const char *const heads[] = {"MIG-GPU-", "GPU-", "MIG-"};
    for (size_t i = 0; i < sizeof(heads) / sizeof(heads[0]); i++) {
        if (!has_prefix(key, heads[i]))
            continue;
        size_t head = strlen(heads[i]);
        if (key.length == head || key.length >= GB_LIMIT_NAME)
            return false;
        memcpy(name, heads[i], head);
        for (size_t at = head; at < key.length; at++) {
            char character = gb_lower(key.text[at]);
            if (gb_hex_value(character) < 0 && character != '-' && character != '/')
                return false;
            name[at] = character;
        }
        name[key.length] = '\0';
        return true;
    }
    return false;
}

/* [domain:]bus:device[.function], hexadecimal, to "00000000:65:00.0". */
bool gb_device_key_pci(struct gb_piece key, char *name)
{
    uint32_t part[4] = {0, 0, 0, 0}; /* domain, bus, device, function */
    static const uint32_t most[4] = {UINT32_MAX, 0xff, 0x1f, 7};
    size_t colons = 0;
    for (size_t i = 0; i < key.length; i++)
        colons += key.text[i] == ':';
    if (colons < 1 || colons > 2)
        return false;
    size_t index = colons == 2 ? 0 : 1;
    size_t digits = 0;
    for (size_t i = 0; i < key.length; i++) {
        char character = key.text[i];
        int value = gb_hex_value(character);
        if (value >= 0) {
            if (++digits > 8)
                return false;
            part[index] = part[index] << 4 | (uint32_t)value;
            if (part[index] > most[index])
                return false;
        } else if (digits > 0 &&
                   ((character == ':' && index < 2) || (character == '.' && index == 2))) {
            index++;
            digits = 0;
        } else {
            return false;
        }
    }
    if (digits == 0 || index < 2)
        return false;
    static const size_t width[4] = {8, 2, 2, 1};
    static const char after[4] = {':', ':', '.', '\0'};
    for (index = 0; index < 4; index++) {
        for (size_t digit = width[index]; digit > 0; digit--)
            *name++ = "0123456789abcdef"[part[index] >> (4 * (digit - 1)) & 15];
        *name++ = after[index];
    }
    return true;
}

bool gb_device_key(struct gb_piece key, struct gb_limit_entry *entry)
{
    if (key.length == 1 && key.text[0] == '*') {
        entry->key = GB_LIMIT_KEY_DEFAULT;
        return true;
    }
    if (read_ordinal(key, &entry->ordinal)) {
        entry->key = GB_LIMIT_KEY_ORDINAL;
        return true;
    }
    if (gb_device_key_uuid(key, entry->name)) {
        entry->key = GB_LIMIT_KEY_UUID;
        return true;
    }
    entry->key = GB_LIMIT_KEY_PCI;
    return gb_device_key_pci(key, entry->name);
}
