/*
 * take.h: the driver functions of the take programs, and what they do with them.
 *
 * Two programs of an ordinary user, which know nothing of budgets: take is linked with -lcuda,
 * take_loader finds everything at run time as the CUDA runtime does.
 */
#ifndef TAKE_H
#define TAKE_H

#include <cuda.h>

/* Name in cuda.h, and the version of the interface at which cuGetProcAddress is asked. */
#define TAKE_FUNCTIONS(X)                                                                      \
    X(cuInit, 2000)                                                                            \
    X(cuDriverGetVersion, 3020)                                                                \
    X(cuGetErrorName, 6000)                                                                    \
    X(cuDeviceGetCount, 2000)                                                                  \
    X(cuDeviceGet, 2000)                                                                       \
    X(cuDeviceGetName, 2000)                                                                   \
    X(cuDeviceGetPCIBusId, 5000)                                                               \
    X(cuDevicePrimaryCtxRetain, 7000)                                                          \
    X(cuDevicePrimaryCtxRelease, 11000)                                                        \
    X(cuCtxSetCurrent, 4000)                                                                   \
    X(cuCtxSynchronize, 2000)                                                                  \
    X(cuStreamCreate, 2000)                                                                    \
    X(cuStreamSynchronize, 7000)                                                               \
    X(cuMemAlloc, 3020)                                                                        \
    X(cuMemAllocPitch, 3020)                                                                   \
    X(cuMemAllocManaged, 6000)                                                                 \
    X(cuMemFree, 3020)                                                                         \
    X(cuMemAllocAsync, 11020)                                                                  \
    X(cuMemFreeAsync, 11020)                                                                   \
    X(cuMemAllocFromPoolAsync, 11020)                                                          \
    X(cuMemPoolCreate, 11020)                                                                  \
    X(cuMemPoolDestroy, 11020)                                                                 \
    X(cuMemGetInfo, 3020)

struct take_driver {
#define TAKE_MEMBER(name, version) __typeof__(&name) p_##name;
    TAKE_FUNCTIONS(TAKE_MEMBER)
#undef TAKE_MEMBER
};

/* Every function by its name, or NULL with a line on stderr. `where` is "--via"'s argument,
 * NULL where it was not given. */
const struct take_driver *take_find_driver(const char *where);

#endif
