/*
 * settings_table.h: the rows of the settings table by name, for the parser.
 */
#ifndef GB_CONFIG_SETTINGS_TABLE_H
#define GB_CONFIG_SETTINGS_TABLE_H

#include "config/settings.h"

/* In the table's order; check_settings.c compares the two. */
enum gb_setting_row {
    GB_ROW_LIMIT,
    GB_ROW_REQUIRE,
    GB_ROW_CHARGE,
    GB_ROW_MANAGED,
    GB_ROW_CAPACITY,
    GB_ROW_ON_LIMIT,
    GB_ROW_ON_ERROR,
    GB_ROW_WAIT,
    GB_ROW_RESERVE,
    GB_ROW_LOG,
    GB_ROW_LIMIT_SOURCE,
    GB_ROW_DISABLE,
    GB_ROW_LIB,
    GB_ROW_STREAM_ORDER,
    GB_ROW_REPORT,
    GB_ROW_TIMELINE,
    GB_ROW_JOB,
    GB_ROW_JOB_LIMIT,
    GB_ROW_STATE_DIR,
    GB_ROW_COMPAT,
    GB_ROW_ROOT,
    GB_ROW_COUNT
};

#endif
