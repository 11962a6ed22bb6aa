#include "tools/print.h"

#include "config/characters.h"

#include <stdlib.h>
#include <string.h>

#define NAME_SIZE 64

static const char *full_name(const struct gb_setting *setting, char *name)
{
    snprintf(name, NAME_SIZE, "%s%s", GB_SETTINGS_PREFIX, setting->name);
    return name;
}

/* In single quotes, where only the quote itself needs help. */
static void sh_export(FILE *out, const char *name, const char *value)
{
    fprintf(out, "export %s='", name);
    for (; *value; value++) {
        if (*value == '\'')
            fputs("'\\''", out);
        else
            fputc(*value, out);
    }
    fputs("'\n", out);
}

void gb_print_sh(FILE *out, const char *preload)
{
    size_t count;
    const struct gb_setting *table = gb_settings_table(&count);
    for (size_t i = 0; i < count; i++) {
        char name[NAME_SIZE];
        const char *value = getenv(full_name(&table[i], name));
        if (value && table[i].type != GB_SETTING_IGNORED)
            sh_export(out, name, value);
    }
    sh_export(out, "LD_PRELOAD", preload);
}

static void json_string(FILE *out, const char *text)
{
    fputc('"', out);
    for (; *text; text++) {
        unsigned char character = (unsigned char)*text;
        if (character < 0x20 || character == 0x7f)
            fprintf(out, "\\u%04x", character);
        else if (character == '"' || character == '\\')
            fprintf(out, "\\%c", character);
        else
            fputc(character, out);
    }
    fputc('"', out);
}

static void json_pair(FILE *out, const char *indent, const char *name, const char *value)
{
    fputs(indent, out);
    json_string(out, name);
    fputs(": ", out);
    if (value)
        json_string(out, value);
    else
        fputs("null", out);
}

static void json_entries(FILE *out, const struct gb_limit *limit)
{
    fputs("  \"limit\": [", out);
    for (uint32_t i = 0; i < limit->count; i++) {
        const struct gb_limit_entry *entry = &limit->entries[i];
        char ordinal[16], size[64];
        const char *device = entry->name;
        if (entry->key == GB_LIMIT_KEY_DEFAULT)
            device = "*";
        if (entry->key == GB_LIMIT_KEY_ORDINAL) {
            snprintf(ordinal, sizeof(ordinal), "%u", entry->ordinal);
            device = ordinal;
        }
        fprintf(out, "%s\n    {\"device\": \"%s\", ", i > 0 ? "," : "", device);
        gb_size_text(&entry->size, size, sizeof(size));
        switch (entry->size.kind) {
        case GB_SIZE_BYTES:
            fprintf(out, "\"bytes\": %llu}", (unsigned long long)entry->size.bytes);
            break;
        case GB_SIZE_PERCENT:
            fprintf(out, "\"percent\": %.*s}", (int)strcspn(size, "%"), size);
            break;
        case GB_SIZE_NONE:
            fputs("\"bytes\": null}", out);
            break;
        }
    }
    fputs("\n  ],\n", out);
}

void gb_print_json(FILE *out, const char *preload, const char *library, const char *version)
{
    size_t count;
    const struct gb_setting *table = gb_settings_table(&count);
    char name[NAME_SIZE];
    fputs("{\n", out);
    json_entries(out, &gb_settings()->limit);
    json_pair(out, "  ", "limit_source", gb_settings()->limit_source);
    json_pair(out, ",\n  ", "library", library);
    json_pair(out, ",\n  ", "library_version", version);
    fputs(",\n  \"environment\": {\n", out);
    for (size_t i = 0; i < count; i++) {
        const char *value = getenv(full_name(&table[i], name));
        if (!value || table[i].type == GB_SETTING_IGNORED)
            continue;
        json_pair(out, "    ", name, value);
        fputs(",\n", out);
    }
    json_pair(out, "    ", "LD_PRELOAD", preload);
    fputs("\n  },\n  \"settings\": {", out);
    for (size_t i = 0; i < count; i++) {
        const char *value = getenv(full_name(&table[i], name));
        if (table[i].type == GB_SETTING_IGNORED)
            continue;
        if (!value && table[i].default_text[0])
            value = table[i].default_text;
        json_pair(out, i > 0 ? ",\n    " : "\n    ", table[i].name, value);
    }
    fputs("\n  }\n}\n", out);
}

void gb_print_limit(FILE *out, const char *prefix, const char *what, const char *limit,
                    const char *source)
{
    while (limit) {
        const char *comma = strchr(limit, ',');
        struct gb_piece written = {limit, comma ? (size_t)(comma - limit) : strlen(limit)};
        struct gb_limit one = {.count = 0};
        char why[GB_LIMIT_WHY], size[64];
        limit = comma ? comma + 1 : NULL;
        written = gb_trimmed(written);
        if (!gb_limit_parse(&one, written.text, written.length, why, sizeof(why)))
            continue; /* cannot be: the whole list was parsed before */
        gb_size_format(&one.entries[0].size, size, sizeof(size));
        fprintf(out, "%s%s %.*s", prefix, what, (int)written.length, written.text);
        switch (one.entries[0].size.kind) {
        case GB_SIZE_BYTES:
            fprintf(out, " = %s", size);
            break;
        case GB_SIZE_PERCENT:
            fputs(" of the device's memory", out);
            break;
        case GB_SIZE_NONE:
            fputs(": no limit", out);
            break;
        }
        fprintf(out, ", from %s\n", source);
    }
}

void gb_print_reserve(FILE *out, const char *prefix, const struct gb_settings *settings)
{
    char size[64];
    bool limited = false;

    for (uint32_t i = 0; i < settings->limit.count; i++)
        limited |= settings->limit.entries[i].size.kind != GB_SIZE_NONE;
    if (!limited || (settings->charge == GB_CHARGE_REQUESTED && !settings->reserve_set))
        return;
    gb_size_format(&settings->reserve, size, sizeof(size));
    fprintf(out, "%sreserve of the limit: ", prefix);
    if (!settings->reserve_set)
        fputs(GB_RESERVE_DEFAULT "\n", out);
    else
        fprintf(out, "%s, from GPUBUDGET_RESERVE\n", size);
}
