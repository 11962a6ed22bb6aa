#include "config/settings_table.h"

static const struct gb_setting table[GB_ROW_COUNT] = {
    [GB_ROW_LIMIT] = {"LIMIT", GB_SETTING_LIMIT, "[DEVICE=]SIZE,...", "", GB_CEILING_LOWER,
                      true, "what a process may take of each device"},
    [GB_ROW_REQUIRE] = {"REQUIRE", GB_SETTING_CHOICE, "0|1", "0", GB_CEILING_IGNORED, true,
                        "1: deny where no limit is set; none counts as set"},
    [GB_ROW_CHARGE] = {"CHARGE", GB_SETTING_CHOICE, "footprint|requested", "footprint",
                       GB_CEILING_IGNORED, true,
                       "count what the card really loses, or the bytes asked for"},
    [GB_ROW_MANAGED] =
        {"MANAGED", GB_SETTING_CHOICE, "charge|ignore", "charge", GB_CEILING_IGNORED, true,
         "charge managed memory in full when it is allocated or loaded, or never"},
    [GB_ROW_CAPACITY] = {"CAPACITY", GB_SETTING_CHOICE, "limit|physical", "limit",
                         GB_CEILING_FREE, true,
                         "let the program see a card of the limit's size, or the real one"},
    [GB_ROW_ON_LIMIT] = {"ON_LIMIT", GB_SETTING_CHOICE, "refuse|report", "refuse",
                         GB_CEILING_IGNORED, true,
                         "refuse what exceeds the limit, or only report it"},
    [GB_ROW_ON_ERROR] = {"ON_ERROR", GB_SETTING_CHOICE, "deny|allow", "deny",
                         GB_CEILING_IGNORED, true,
                         "what a setting that is not understood does"},
    [GB_ROW_WAIT] =
        {"WAIT", GB_SETTING_TIME, "N(ms|s)", "200ms", GB_CEILING_FREE, true,
         "longest wait of a request for others in flight and, of a synchronous one, for "
         "pending frees; 0 is never"},
    [GB_ROW_RESERVE] = {"RESERVE", GB_SETTING_SIZE, "SIZE|PERCENT", "", GB_CEILING_IGNORED,
                        true, "part of the limit kept for growth that cannot be refused"},
    [GB_ROW_LOG] = {"LOG", GB_SETTING_LOG, "quiet|error|warn|info|debug[,FILE]", "warn",
                    GB_CEILING_FREE, true, "how much is written, and where"},
    [GB_ROW_LIMIT_SOURCE] = {"LIMIT_SOURCE", GB_SETTING_TEXT, "TEXT", "GPUBUDGET_LIMIT",
                             GB_CEILING_FREE, true,
                             "where the limit came from, for messages; set by launchers"},
    [GB_ROW_DISABLE] = {"DISABLE", GB_SETTING_CHOICE, "0|1", "0", GB_CEILING_IGNORED, true,
                        "1: behave as if not loaded"},
    [GB_ROW_LIB] = {"LIB", GB_SETTING_TEXT, "FILE", "", GB_CEILING_FREE, true,
                    "the library that gpubudget-run preloads"},
    [GB_ROW_STREAM_ORDER] = {"STREAM_ORDER", GB_SETTING_CHOICE, "off|copies|all", "off",
                             GB_CEILING_FREE, true, "order frees behind uses on other streams"},
    [GB_ROW_REPORT] = {"REPORT", GB_SETTING_TEXT, "FILE|stderr", "", GB_CEILING_FREE, false,
                       "write a report when the process ends"},
    [GB_ROW_TIMELINE] = {"TIMELINE", GB_SETTING_TEXT, "FILE", "", GB_CEILING_FREE, false,
                         "write memory use over time"},
    [GB_ROW_JOB] = {"JOB", GB_SETTING_NAME, "NAME", "", GB_CEILING_IGNORED, true,
                    "the job whose processes share a budget"},
    [GB_ROW_JOB_LIMIT] = {"JOB_LIMIT", GB_SETTING_LIMIT, "[DEVICE=]SIZE,...", "",
                          GB_CEILING_LOWER, true, "what all processes of the job may take"},
    [GB_ROW_STATE_DIR] = {"STATE_DIR", GB_SETTING_PATH, "DIR", "", GB_CEILING_IGNORED, true,
                          "where the job's shared state lies"},
    [GB_ROW_COMPAT] = {"COMPAT", GB_SETTING_CHOICE, "hami", "", GB_CEILING_LOWER, false,
                       "read another tool's variables"},
    [GB_ROW_ROOT] = {"ROOT", GB_SETTING_IGNORED, "DIR", "", GB_CEILING_IGNORED, false,
                     "known, never read"},
};

const struct gb_setting *gb_settings_table(size_t *count)
{
    *count = GB_ROW_COUNT;
    return table;
}
