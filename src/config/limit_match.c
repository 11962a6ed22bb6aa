#include "config/limit.h"

#include "config/characters.h"
#include "config/device_key.h"
#include "report/line.h"

#include <string.h>

#define STEP ((uint64_t)2 << 20) /* percentages are rounded down to the driver's 2 MiB */

static bool names_device(const struct gb_limit_entry *entry,
                         const struct gb_device_identity *device)
{
    char name[GB_LIMIT_NAME];
    struct gb_piece text;
    switch (entry->key) {
    case GB_LIMIT_KEY_DEFAULT:
        return false;
    case GB_LIMIT_KEY_ORDINAL:
        return entry->ordinal == device->ordinal;
    case GB_LIMIT_KEY_UUID:
        text = (struct gb_piece){device->uuid, strlen(device->uuid)};
        return gb_device_key_uuid(text, name) &&
               strncmp(name, entry->name, strlen(entry->name)) == 0;
    case GB_LIMIT_KEY_PCI:
        text = (struct gb_piece){device->pci, strlen(device->pci)};
        return gb_device_key_pci(text, name) && strcmp(name, entry->name) == 0;
    }
    return false;
}

static enum gb_limit_answer answer_of(const struct gb_limit_entry *entry,
                                      const struct gb_device_identity *device, uint64_t *bytes)
{
    uint64_t limited;

    if (!entry)
        return GB_LIMIT_MISSING;
    if (entry->size.kind == GB_SIZE_NONE)
        return GB_LIMIT_NONE;
    limited = gb_size_bytes(&entry->size, device->total_bytes);
    if (entry->size.kind == GB_SIZE_PERCENT)
        limited -= limited % STEP;
    *bytes = limited;
    return GB_LIMIT_BYTES;
}

const struct gb_limit_entry *gb_limit_entry_for_device(const struct gb_limit *limit,
                                                       const struct gb_device_identity *device)
{
    const struct gb_limit_entry *found = NULL;
    for (uint32_t i = 0; i < limit->count; i++) {
        const struct gb_limit_entry *entry = &limit->entries[i];
        if (names_device(entry, device))
            return entry;
        if (entry->key == GB_LIMIT_KEY_DEFAULT)
            found = entry;
    }
    return found;
}

enum gb_limit_answer gb_limit_for_device(const struct gb_limit *limit,
                                         const struct gb_device_identity *device,
                                         uint64_t *bytes)
{
    return answer_of(gb_limit_entry_for_device(limit, device), device, bytes);
}

enum gb_limit_answer gb_limit_smallest(const struct gb_limit *limit,
                                       const struct gb_device_identity *device, uint64_t *bytes)
{
    enum gb_limit_answer smallest = GB_LIMIT_MISSING;
    uint64_t least = 0;

    for (uint32_t i = 0; i < limit->count; i++) {
        const struct gb_limit_entry *entry = &limit->entries[i];
        enum gb_limit_answer answer;
        uint64_t here = 0;

        if (entry->key != GB_LIMIT_KEY_DEFAULT && entry->key != GB_LIMIT_KEY_ORDINAL) {
            if (names_device(entry, device))
                return answer_of(entry, device, bytes);
            continue;
        }
        answer = answer_of(entry, device, &here);
        if (answer == GB_LIMIT_BYTES && (smallest != GB_LIMIT_BYTES || here < least)) {
            smallest = answer;
            least = here;
        } else if (smallest == GB_LIMIT_MISSING) {
            smallest = answer;
        }
    }
    if (smallest == GB_LIMIT_BYTES)
        *bytes = least;
    return smallest;
}

static void add_device(struct gb_line *line, const struct gb_device_identity *device)
{
    gb_line_text(line, "GPU ");
    gb_line_number(line, device->ordinal);
    if (device->uuid[0]) {
        gb_line_text(line, " (");
        gb_line_quote(line, device->uuid, GB_LIMIT_NAME);
        gb_line_text(line, ")");
    }
}

static void add_entry_text(struct gb_line *line, const struct gb_limit_entry *entry)
{
    gb_line_text(line, "entry \"");
    gb_line_text(line, entry->written);
    gb_line_text(line, "\"");
}

/* A percentage is rounded down to STEP: less would be a limit of nothing. */
static bool check_size(const struct gb_limit *limit, const struct gb_device_identity *device,
                       struct gb_line *line)
{
    uint64_t bytes = 0;
    if (gb_limit_for_device(limit, device, &bytes) != GB_LIMIT_BYTES || bytes > 0)
        return true;
    add_entry_text(line, gb_limit_entry_for_device(limit, device));
    gb_line_text(line, " comes to less than 2 MiB of ");
    add_device(line, device);
    gb_line_text(line, "; write more, or a size such as 4GiB");
    return false;
}

/* Entries that name exactly this device: more than one contradict each other. */
static bool check_device(const struct gb_limit *limit, const struct gb_device_identity *device,
                         struct gb_line *line)
{
    const struct gb_limit_entry *found = NULL;
    bool has_default = false;
    for (uint32_t i = 0; i < limit->count; i++) {
        const struct gb_limit_entry *entry = &limit->entries[i];
        has_default |= entry->key == GB_LIMIT_KEY_DEFAULT;
        if (!names_device(entry, device))
            continue;
        if (found) {
            add_entry_text(line, found);
            gb_line_text(line, " and ");
            add_entry_text(line, entry);
            gb_line_text(line, " both name ");
            add_device(line, device);
            return false;
        }
        found = entry;
    }
    if (found || has_default)
        return check_size(limit, device, line);
    add_device(line, device);
    gb_line_text(line, " has no entry and there is no default; add *=SIZE, or *=none");
    return false;
}

/* 0, 1 or more devices that the entry names; 1 for the default. */
static size_t count_devices(const struct gb_limit_entry *entry,
                            const struct gb_device_identity *devices, size_t device_count)
{
    size_t count = 0;
    if (entry->key == GB_LIMIT_KEY_DEFAULT)
        return 1;
    for (size_t i = 0; i < device_count; i++)
        count += names_device(entry, &devices[i]);
    return count;
}

bool gb_limit_check(const struct gb_limit *limit, const struct gb_device_identity *devices,
                    size_t device_count, char *text, size_t text_size)
{
    struct gb_line line;
    const struct gb_limit_entry *unmatched = NULL;
    gb_line_begin(&line, text, text_size);
    for (uint32_t i = 0; i < limit->count; i++) {
        const struct gb_limit_entry *entry = &limit->entries[i];
        size_t count = count_devices(entry, devices, device_count);
        if (count > 1) {
            add_entry_text(&line, entry);
            gb_line_text(&line, " names ");
            gb_line_number(&line, count);
            gb_line_text(&line, " of the visible devices; write more of the UUID");
            return false;
        }
        if (count == 0 && !unmatched)
            unmatched = entry;
    }
    for (size_t i = 0; i < device_count; i++) {
        if (check_device(limit, &devices[i], &line))
            continue;
        if (unmatched) {
            gb_line_text(&line, "; ");
            add_entry_text(&line, unmatched);
            gb_line_text(&line, " names no visible device");
        }
        return false;
    }
    if (unmatched && device_count > 0) {
        add_entry_text(&line, unmatched);
        gb_line_text(&line, " names no visible device; every visible one has another");
    }
    return true;
}
