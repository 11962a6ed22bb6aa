/*
 * symbol_plain.c: the look-up of the core library (the preload has its own, interpose/real.c).
 */
#include "driver/symbol.h"

#include <dlfcn.h>

void *gb_symbol(void *handle, const char *name)
{
    return dlsym(handle, name);
}
