/*
 * entry_init.c: the program starts the driver. From here on the library may speak.
 */
#include "interpose/handlers.h"
#include "interpose/process.h"

CUresult gb_enter_cuInit(struct gb_driver *drv, unsigned int Flags)
{
    gb_process_start();
    return GB_REAL(drv, cuInit)(Flags);
}
