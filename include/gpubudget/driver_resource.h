/*
 * driver_resource.h: DriverMemoryResource, the terminal backend that calls the CUDA driver.
 */
#ifndef GPUBUDGET_DRIVER_RESOURCE_H
#define GPUBUDGET_DRIVER_RESOURCE_H

#include <gpubudget/resource.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

/* How bytes are charged. */
typedef enum gpubudget_charge {
    GPUBUDGET_CHARGE_FOOTPRINT = 0, /* what the card loses: rounding, regions, pool growth */
    GPUBUDGET_CHARGE_REQUESTED = 1  /* live bytes as asked plus frees not proven yet */
} gpubudget_charge_t;

/*
 * A backend for one CUDA device ordinal. The program must have called cuInit; a context of the
 * device must be current in threads that allocate. The driver is found at run time
 * (libcuda.so.1); without one, GPUBUDGET_NO_DRIVER. In a process under the preloaded
 * libgpubudget.so the driver's functions are the preload's, so what this backend takes is
 * charged to that process's budget, once. Writes *resource on success, which belongs to the
 * caller; end it with gpubudget_resource_destroy. Fails with GPUBUDGET_NO_DRIVER,
 * GPUBUDGET_INVALID_ARGUMENT (no such device, an unknown charge, a NULL) or
 * GPUBUDGET_OUT_OF_HOST_MEMORY. From any thread.
 */
gpubudget_status_t gpubudget_driver_resource_new(int device_ordinal, gpubudget_charge_t charge,
                                                 gpubudget_resource_t **resource);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
