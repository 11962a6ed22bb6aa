/*
 * preload.c: what happens when the library is loaded.
 *
 * The settings are copied before the program can change its environment, and nothing else is
 * done: a process that uses no CUDA must not notice us.
 */
#define _GNU_SOURCE
#include "config/settings.h"

#include <unistd.h>

__attribute__((constructor)) static void capture_settings(void)
{
    gb_settings_capture(environ);
}
