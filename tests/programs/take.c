/* take.c: the driver of a program that is linked with -lcuda. */
#include "take.h"

#include <stdio.h>

const struct take_driver *take_find_driver(const char *where)
{
    static const struct take_driver driver = {
#define TAKE_LINKED(name, version) .p_##name = name,
        TAKE_FUNCTIONS(TAKE_LINKED)
#undef TAKE_LINKED
    };

    if (where != NULL) {
        fprintf(stderr, "take: --via is take_loader's; this program is linked with -lcuda\n");
        return NULL;
    }
    return &driver;
}
