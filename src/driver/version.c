/*
 * version.c: the library's version, the same in both faces.
 */
#include "config.h"

#include <gpubudget/gpubudget.h>

const char *gpubudget_version(void)
{
    return PACKAGE_VERSION;
}
