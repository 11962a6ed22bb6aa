/*
 * settings_parse.h: from strings to settings, with what the capture knows besides.
 */
#ifndef GB_CONFIG_SETTINGS_PARSE_H
#define GB_CONFIG_SETTINGS_PARSE_H

#include "config/settings.h"

/* `overflow`: more was set than could be copied; that is an error of its own. */
void gb_settings_parse_captured(struct gb_settings *settings, const char *const *strings,
                                size_t count, bool overflow);

#endif
