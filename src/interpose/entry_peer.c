/*
 * entry_peer.c: what ties devices together: peer access and the devices of multicast objects.
 * What either takes nobody has measured on a card; it is asked there, each time.
 */
#include "interpose/estimated.h"
#include "interpose/handlers.h"
#include "interpose/local_memory.h"
#include "interpose/measured_call.h"

static CUresult enable(struct gb_measured_call *measured)
{
    return GB_REAL(measured->call.drv, cuCtxEnablePeerAccess)(measured->handle,
                                                              measured->flags);
}

static CUresult disable(struct gb_measured_call *measured)
{
    return GB_REAL(measured->call.drv, cuCtxDisablePeerAccess)(measured->handle);
}

CUresult gb_enter_cuCtxEnablePeerAccess(struct gb_driver *drv, CUcontext peerContext,
                                        unsigned int Flags)
{
    struct gb_measured_call measured = {.call = {.drv = drv, .name = "cuCtxEnablePeerAccess"},
                                        .which = GB_MEASURED_PEER,
                                        .take = enable,
                                        .undo = disable,
                                        .handle = peerContext,
                                        .flags = Flags};

    return gb_measured_take(&measured);
}

CUresult gb_enter_cuCtxDisablePeerAccess(struct gb_driver *drv, CUcontext peerContext)
{
    struct gb_ending ending = gb_ending_begins(GB_MEASURED_PEER, peerContext);
    CUresult code = GB_REAL(drv, cuCtxDisablePeerAccess)(peerContext);

    gb_ending_done(&ending, code == CUDA_SUCCESS);
    return code;
}

static CUresult add_device(struct gb_measured_call *measured)
{
    return GB_REAL(measured->call.drv, cuMulticastAddDevice)(
        (CUmemGenericAllocationHandle)(uintptr_t)measured->handle, measured->dev);
}

/* A device stays with its object. What was given out and cannot be taken back is charged. */
static CUresult keep_device(struct gb_measured_call *measured)
{
    (void)measured;
    return CUDA_ERROR_NOT_SUPPORTED;
}

CUresult gb_enter_cuMulticastAddDevice(struct gb_driver *drv,
                                       CUmemGenericAllocationHandle mcHandle, CUdevice dev)
{
    struct gb_measured_call measured = {.call = {.drv = drv, .name = "cuMulticastAddDevice"},
                                        .which = GB_MEASURED_MULTICAST,
                                        .take = add_device,
                                        .undo = keep_device,
                                        .handle = (void *)(uintptr_t)mcHandle,
                                        .dev = dev};
    struct gb_device *device;

    switch (gb_process_device(drv, dev, &device)) {
    case GB_RULING_DENY:
        return CUDA_ERROR_NOT_PERMITTED;
    case GB_RULING_BUDGET:
        return gb_measured_take_on(&measured, device, NULL);
    default:
        return add_device(&measured);
    }
}
