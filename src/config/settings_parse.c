#include "config/settings_parse.h"

#include "config/characters.h"
#include "config/settings_table.h"
#include "report/line.h"

#include <string.h>

#define WAIT_DEFAULT_NS 200000000u
#define WAIT_MOST_MS    3600000u
#define SHOWN           64

/* What is gathered while reading; the verdict comes at the end. */
struct reading {
    struct gb_settings *settings;
    const char *values[GB_ROW_COUNT]; /* NULL: not set */
    bool failed;                      /* settings->message holds the first error */
    bool unknown;
    char unknown_name[SHOWN + 1];
};

static void quote(struct gb_line *line, const char *text)
{
    size_t length = strlen(text);
    gb_line_text(line, "\"");
    gb_line_quote(line, text, length < SHOWN ? length : SHOWN);
    gb_line_text(line, length < SHOWN ? "\"" : "...\"");
}

/* Begins the message of an error; only the first one is kept, later ones go to `spare`. */
static void begin_error(struct reading *reading, struct gb_line *line, char *spare,
                        size_t spare_size)
{
    if (reading->failed)
        gb_line_begin(line, spare, spare_size);
    else
        gb_line_begin(line, reading->settings->message, sizeof(reading->settings->message));
    reading->failed = true;
}

/* "GPUBUDGET_NAME: "value" why" */
static void fail(struct reading *reading, const struct gb_setting *row, const char *value,
                 const char *why)
{
    struct gb_line line;
    char spare[8];
    begin_error(reading, &line, spare, sizeof(spare));
    gb_line_text(&line, GB_SETTINGS_PREFIX);
    gb_line_text(&line, row->name);
    gb_line_text(&line, ": ");
    if (value) {
        quote(&line, value);
        gb_line_text(&line, " ");
    }
    gb_line_text(&line, why);
}

static void warn(struct gb_settings *settings, const char *first, const char *name,
                 const char *last)
{
    struct gb_line line;
    if (settings->warning_count == GB_SETTINGS_WARNINGS)
        return;
    gb_line_begin(&line, settings->warnings[settings->warning_count],
                  sizeof(settings->warnings[0]));
    settings->warning_count++;
    gb_line_text(&line, first);
    gb_line_text(&line, GB_SETTINGS_PREFIX);
    gb_line_quote(&line, name, SHOWN);
    gb_line_text(&line, last);
}

static void read_limit(struct reading *reading, const struct gb_setting *row, const char *value,
                       struct gb_limit *limit)
{
    char why[GB_LIMIT_WHY];
    if (!gb_limit_parse(limit, value, strlen(value), why, sizeof(why)))
        fail(reading, row, NULL, why);
}

/* Index of the value among the row's choices; the enums of settings.h have the same order. */
static int read_choice(struct reading *reading, const struct gb_setting *row, const char *value)
{
    size_t length = strlen(value);
    int index = 0;
    for (const char *choice = row->form;; index++) {
        const char *end = strchr(choice, '|');
        size_t choice_length = end ? (size_t)(end - choice) : strlen(choice);
        if (choice_length == length && memcmp(choice, value, length) == 0)
            return index;
        if (!end)
            break;
        choice = end + 1;
    }
    struct gb_line line;
    char why[96];
    gb_line_begin(&line, why, sizeof(why));
    gb_line_text(&line, "is not one of ");
    gb_line_text(&line, row->form);
    fail(reading, row, value, why);
    return 0;
}

static void read_wait(struct reading *reading, const struct gb_setting *row, const char *value)
{
    uint64_t number = 0;
    const char *at = value;
    for (; gb_is_digit(*at) && number <= WAIT_MOST_MS; at++)
        number = number * 10 + (uint64_t)(*at - '0');
    bool seconds = strcmp(at, "s") == 0;
    bool plain_zero = *at == '\0' && number == 0;
    if (at == value || gb_is_digit(*at) || (!seconds && !plain_zero && strcmp(at, "ms") != 0)) {
        fail(reading, row, value, "is no time; write 200ms, 2s or 0");
        return;
    }
    uint64_t milliseconds = seconds ? number * 1000 : number;
    if (milliseconds > WAIT_MOST_MS) {
        fail(reading, row, value, "is more than an hour, 3600s");
        return;
    }
    reading->settings->wait_ns = milliseconds * 1000000;
}

static void read_reserve(struct reading *reading, const struct gb_setting *row,
                         const char *value)
{
    struct gb_size size;
    char why[GB_SIZE_WHY];
    reading->settings->reserve_set = true;
    if (strcmp(value, "0") == 0 || strcmp(value, "0%") == 0)
        return;
    /* Of a limit, whose words follow, a small number alone is mostly meant as GiB. */
    size_t digits = strspn(value, "0123456789");
    if (value[digits] == '\0' && digits <= 6) {
        fail(reading, row, value, "has no unit; write one such as 64MiB or 5%, or 0");
        return;
    }
    if (!gb_size_parse(value, strlen(value), &size, why, sizeof(why))) {
        fail(reading, row, NULL, why);
        return;
    }
    if (size.kind == GB_SIZE_NONE)
        return;
    if (size.kind == GB_SIZE_PERCENT && size.percent == GB_SIZE_PERCENT_ALL) {
        fail(reading, row, value, "leaves nothing of the limit; write less than 100%");
        return;
    }
    reading->settings->reserve = size;
}

static bool good_log_file(const char *file)
{
    for (; *file; file++) {
        if (*file != '%')
            continue;
        file++;
        if (*file != 'p' && *file != 'h' && *file != '%')
            return false;
    }
    return true;
}

static void read_log(struct reading *reading, const struct gb_setting *row, const char *value)
{
    static const char *const levels[] = {"quiet", "error", "warn", "info", "debug"};
    const char *comma = strchr(value, ',');
    size_t length = comma ? (size_t)(comma - value) : strlen(value);
    size_t level = 0;
    while (level < 5 &&
           (strlen(levels[level]) != length || memcmp(levels[level], value, length) != 0))
        level++;
    if (level == 5) {
        fail(reading, row, value, "does not begin with quiet, error, warn, info or debug");
        return;
    }
    if (comma && comma[1] == '\0') {
        fail(reading, row, value, "has no file name after the comma");
        return;
    }
    if (comma && strlen(comma + 1) >= sizeof(reading->settings->log_file)) {
        fail(reading, row, value, "has too long a file name");
        return;
    }
    if (comma && !good_log_file(comma + 1)) {
        fail(reading, row, value, "may have %p, %h and %% in the file name, no other %");
        return;
    }
    reading->settings->log_level = (enum gb_log_level)level;
    if (comma)
        memcpy(reading->settings->log_file, comma + 1, strlen(comma + 1) + 1);
}

static void read_name(struct reading *reading, const struct gb_setting *row, const char *value)
{
    size_t length = strlen(value);
    bool good = length <= 64;
    for (size_t i = 0; i < length && good; i++) {
        char character = gb_lower(value[i]);
        good = gb_is_digit(character) || (character >= 'a' && character <= 'z') ||
               character == '.' || character == '_' || character == '-';
    }
    if (strspn(value, ".") == length)
        fail(reading, row, value, "is no name; use one with more than dots");
    else if (!good)
        fail(reading, row, value, "is no name; use 1 to 64 of A-Z a-z 0-9 . _ -");
    else
        memcpy(reading->settings->job, value, length + 1);
}

static void read_state_dir(struct reading *reading, const struct gb_setting *row,
                           const char *value)
{
    if (value[0] != '/')
        fail(reading, row, value, "is no absolute path");
    else if (strlen(value) >= sizeof(reading->settings->state_dir))
        fail(reading, row, value, "is too long a path");
    else
        memcpy(reading->settings->state_dir, value, strlen(value) + 1);
}

static void read_source(struct gb_settings *settings, const char *value)
{
    struct gb_line line;
    gb_line_begin(&line, settings->limit_source, sizeof(settings->limit_source));
    gb_line_quote(&line, value, sizeof(settings->limit_source));
}

/* Checks by type, and keeps what has an effect in this version. */
static void read_value(struct reading *reading, enum gb_setting_row index,
                       const struct gb_setting *row, const char *value)
{
    struct gb_settings *settings = reading->settings;
    int choice = row->type == GB_SETTING_CHOICE ? read_choice(reading, row, value) : 0;
    switch (index) {
    case GB_ROW_LIMIT:
        read_limit(reading, row, value, &settings->limit);
        settings->limit_set = settings->limit.count > 0;
        break;
    case GB_ROW_REQUIRE:
        /* A value that is not understood requires: the error must not open anything. */
        settings->require = choice == 1 || strcmp(value, "0") != 0;
        break;
    case GB_ROW_CHARGE:
        settings->charge = (enum gb_charge)choice;
        break;
    case GB_ROW_MANAGED:
        settings->managed = (enum gb_managed)choice;
        break;
    case GB_ROW_CAPACITY:
        settings->capacity = (enum gb_capacity)choice;
        break;
    case GB_ROW_ON_LIMIT:
        settings->on_limit = (enum gb_on_limit)choice;
        break;
    case GB_ROW_ON_ERROR:
        settings->on_error = (enum gb_on_error)choice;
        break;
    case GB_ROW_WAIT:
        read_wait(reading, row, value);
        break;
    case GB_ROW_RESERVE:
        read_reserve(reading, row, value);
        break;
    case GB_ROW_STREAM_ORDER:
        settings->stream_order = (enum gb_stream_order)choice;
        break;
    case GB_ROW_LOG:
        read_log(reading, row, value);
        break;
    case GB_ROW_LIMIT_SOURCE:
        read_source(settings, value);
        break;
    case GB_ROW_DISABLE:
        settings->disabled = choice == 1;
        break;
    case GB_ROW_JOB:
        read_name(reading, row, value);
        break;
    case GB_ROW_JOB_LIMIT:
        read_limit(reading, row, value, &settings->job_limit);
        break;
    case GB_ROW_STATE_DIR:
        read_state_dir(reading, row, value);
        break;
    case GB_ROW_LIB:
    case GB_ROW_REPORT:
    case GB_ROW_TIMELINE:
    case GB_ROW_COMPAT:
    case GB_ROW_ROOT:
    case GB_ROW_COUNT:
        break;
    }
}

/* Finds the row of "NAME=value" after the prefix; GB_ROW_COUNT where there is none. */
static enum gb_setting_row find_row(const struct gb_setting *table, const char *name,
                                    size_t length)
{
    unsigned index = 0;
    while (index < GB_ROW_COUNT && (strlen(table[index].name) != length ||
                                    memcmp(table[index].name, name, length) != 0))
        index++;
    return (enum gb_setting_row)index;
}

static void read_string(struct reading *reading, const struct gb_setting *table,
                        const char *string)
{
    size_t prefix = strlen(GB_SETTINGS_PREFIX);
    const char *equals = strchr(string, '=');
    if (strncmp(string, GB_SETTINGS_PREFIX, prefix) != 0 || !equals)
        return;
    const char *name = string + prefix;
    size_t length = (size_t)(equals - name);
    const char *value = equals + 1;
    enum gb_setting_row index = find_row(table, name, length);
    if (index == GB_ROW_COUNT) {
        char shown[SHOWN + 1];
        size_t cut = length < SHOWN ? length : SHOWN;
        memcpy(shown, name, cut);
        shown[cut] = '\0';
        warn(reading->settings, "", shown, " is no setting of gpubudget; see gpubudget(7)");
        if (!reading->unknown)
            memcpy(reading->unknown_name, shown, sizeof(shown));
        reading->unknown = true;
        return;
    }
    const struct gb_setting *row = &table[index];
    if (row->type == GB_SETTING_IGNORED)
        return;
    if (reading->values[index]) {
        /* getenv would silently take one of them. */
        if (strcmp(reading->values[index], value) != 0)
            fail(reading, row, NULL, "is set twice, to different values");
        return;
    }
    reading->values[index] = value;
    if (value[0] == '\0') {
        fail(reading, row, NULL, "is set but empty; unset it, or give it a value");
        if (index == GB_ROW_REQUIRE)
            reading->settings->require = true;
        return;
    }
    read_value(reading, index, row, value);
    /* Said rather than dropped without a word. */
    if (!row->effective)
        warn(reading->settings, "", row->name, " has no effect in this version");
}

static void deny(struct gb_settings *settings)
{
    settings->verdict = GB_VERDICT_DENY;
    if (!gb_settings_deny_errors(settings))
        settings->verdict = GB_VERDICT_PASS;
}

static void deny_because(struct gb_settings *settings, const char *first, const char *name,
                         const char *last)
{
    struct gb_line line;
    gb_line_begin(&line, settings->message, sizeof(settings->message));
    gb_line_text(&line, first);
    gb_line_text(&line, name);
    gb_line_text(&line, last);
    deny(settings);
}

/* An entry of the limit that a reserve of so many bytes leaves nothing of; NULL: none. */
static const struct gb_limit_entry *eaten_up(const struct gb_settings *settings)
{
    if (settings->reserve.kind != GB_SIZE_BYTES)
        return NULL;
    for (uint32_t i = 0; i < settings->limit.count; i++)
        if (settings->limit.entries[i].size.kind == GB_SIZE_BYTES &&
            settings->limit.entries[i].size.bytes <= settings->reserve.bytes)
            return &settings->limit.entries[i];
    return NULL;
}

static void check_reserve(struct reading *reading, const struct gb_setting *table)
{
    const struct gb_limit_entry *entry = eaten_up(reading->settings);
    char why[GB_LIMIT_WHY];
    struct gb_line line;

    if (!entry || reading->failed)
        return;
    gb_line_begin(&line, why, sizeof(why));
    gb_line_text(&line, "leaves nothing of the limit ");
    gb_line_text(&line, entry->written);
    gb_line_text(&line, "; write less, or a percentage such as 5%");
    fail(reading, &table[GB_ROW_RESERVE], reading->values[GB_ROW_RESERVE], why);
}

bool gb_settings_check_reserve(const struct gb_settings *settings,
                               const struct gb_device_identity *device, uint64_t limit,
                               char *text, size_t text_size)
{
    const uint64_t mib = (uint64_t)1 << 20;
    const struct gb_limit_entry *entry = gb_limit_entry_for_device(&settings->limit, device);
    struct gb_line line;

    if (settings->reserve.kind != GB_SIZE_BYTES || settings->reserve.bytes == 0 ||
        settings->reserve.bytes < limit || !entry)
        return true;
    gb_line_begin(&line, text, text_size);
    gb_line_text(&line, "GPUBUDGET_RESERVE: ");
    gb_line_number(&line, (settings->reserve.bytes + mib - 1) / mib);
    gb_line_text(&line, " MiB leave nothing of the limit ");
    gb_line_text(&line, entry->written);
    gb_line_text(&line, ", which is ");
    gb_line_number(&line, limit / mib);
    gb_line_text(&line, " MiB of GPU ");
    gb_line_number(&line, device->ordinal);
    gb_line_text(&line, "; write less, or a percentage such as 5%");
    return false;
}

bool gb_settings_has_job_limit(const struct gb_settings *settings)
{
    return settings->job_limit.count > 0 && !gb_limit_is_none(&settings->job_limit);
}

/* Is anything to be held to a limit, or at least to be counted for a job that was named? */
static bool is_budgeted(const struct gb_settings *settings)
{
    if (gb_settings_has_job_limit(settings))
        return true;
    return settings->limit_set &&
           (!gb_limit_is_none(&settings->limit) || settings->job[0] != '\0');
}

static void decide(struct reading *reading)
{
    struct gb_settings *settings = reading->settings;
    bool set = settings->limit_set || settings->job_limit.count > 0;

    if (settings->disabled && settings->require) {
        deny_because(settings, "GPUBUDGET_DISABLE=1 contradicts GPUBUDGET_REQUIRE", "", "");
    } else if (settings->disabled) {
        settings->verdict = GB_VERDICT_PASS;
        settings->warning_count = 0;
        settings->message[0] = '\0';
    } else if (reading->failed) {
        deny(settings);
    } else if (reading->unknown && !set) {
        deny_because(settings, GB_SETTINGS_PREFIX, reading->unknown_name,
                     " is no setting of gpubudget, and no limit is set; see gpubudget(7)");
        settings->warning_count = 0; /* the message says it */
    } else if (settings->require && !set) {
        deny_because(settings, "GPUBUDGET_REQUIRE=1, but no limit is set; ",
                     "set GPUBUDGET_LIMIT, to none for no limit", "");
    } else {
        settings->verdict = is_budgeted(settings) ? GB_VERDICT_LIMIT : GB_VERDICT_PASS;
    }
}

void gb_settings_parse_captured(struct gb_settings *settings, const char *const *strings,
                                size_t count, bool overflow)
{
    size_t rows;
    const struct gb_setting *table = gb_settings_table(&rows);
    struct reading reading = {.settings = settings};
    memset(settings, 0, sizeof(*settings));
    settings->wait_ns = WAIT_DEFAULT_NS;
    settings->log_level = GB_LOG_WARN;
    read_source(settings, table[GB_ROW_LIMIT_SOURCE].default_text);
    if (overflow) {
        struct gb_line line;
        begin_error(&reading, &line, NULL, 0);
        gb_line_text(&line, "the GPUBUDGET_ variables are too long or too many to be read");
    }
    for (size_t i = 0; i < count; i++)
        read_string(&reading, table, strings[i]);
    check_reserve(&reading, table);
    decide(&reading);
}

void gb_settings_parse(struct gb_settings *settings, const char *const *strings, size_t count)
{
    gb_settings_parse_captured(settings, strings, count, false);
}

bool gb_settings_deny_errors(const struct gb_settings *settings)
{
    return settings->on_error == GB_ON_ERROR_DENY || settings->require;
}

/*
 * GB_RESERVE_DEFAULT says it in words. What the driver takes with launches once the budget is
 * full was 90 MiB in PyTorch with its first kernel, 66 with cuBLAS, 8 to 18 with cuDNN
 * (docs/measurements.md); a part of the limit, so that small budgets are not eaten up.
 */
static uint64_t default_reserve(const struct gb_settings *settings, uint64_t limit, bool tells)
{
    const uint64_t mib = (uint64_t)1 << 20;
    uint64_t part = limit / (tells ? 64 : 16);
    uint64_t least = tells ? 0 : 32 * mib, most = tells ? 256 * mib : 512 * mib;

    if (settings->charge == GB_CHARGE_REQUESTED)
        return 0;
    if (part < least)
        part = least;
    return (part < most ? part : most) & ~(2 * mib - 1);
}

uint64_t gb_settings_reserve(const struct gb_settings *settings, uint64_t limit, bool tells)
{
    uint64_t reserve = settings->reserve_set ? gb_size_bytes(&settings->reserve, limit)
                                             : default_reserve(settings, limit, tells);
    return reserve < limit ? reserve : limit;
}
