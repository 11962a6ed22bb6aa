/*
 * entry_init.c: the program starts the driver. Once it has started the library may speak: where
 * there is no GPU, a wrong setting is nobody's business.
 */
#include "interpose/handlers.h"
#include "interpose/process.h"
#include "interpose/stream_order.h"

CUresult gb_enter_cuInit(struct gb_driver *drv, unsigned int Flags)
{
    CUresult code = GB_REAL(drv, cuInit)(Flags);

    if (code == CUDA_SUCCESS)
        gb_process_start();
    if (code == CUDA_SUCCESS)
        gb_order_start(drv);
    return code;
}
