/*
 * api.h: typed pointers to the driver functions that our own code calls.
 *
 * Any of them is NULL where the driver is too old to have it; callers check the ones that came
 * after CUDA 11.2. The names are exported names, so which variant is called is plain to see.
 */
#ifndef GB_DRIVER_API_H
#define GB_DRIVER_API_H

#include "driver/cuda_api.h"

#include <stdbool.h>

/* One line per function; a new need of our own code adds its name here and nowhere else. */
#define GB_DRIVER_CALLS(X)                                                                     \
    X(cuDriverGetVersion)                                                                      \
    X(cuDeviceGetCount)                                                                        \
    X(cuDeviceGetAttribute)                                                                    \
    X(cuFuncGetAttribute)                                                                      \
    X(cuModuleGetFunctionCount)                                                                \
    X(cuLibraryGetKernelCount)                                                                 \
    X(cuKernelGetAttribute)                                                                    \
    X(cuFuncGetParamInfo)                                                                      \
    X(cuKernelGetParamInfo)                                                                    \
    X(cuLibraryGetModule)                                                                      \
    X(cuModuleGetLoadingMode)                                                                  \
    X(cuDeviceGetName)                                                                         \
    X(cuDeviceGetUuid)                                                                         \
    X(cuDeviceGetUuid_v2)                                                                      \
    X(cuDeviceGetPCIBusId)                                                                     \
    X(cuDeviceGetGraphMemAttribute)                                                            \
    X(cuDeviceGraphMemTrim)                                                                    \
    X(cuGraphGetNodes)                                                                         \
    X(cuGraphGetEdges)                                                                         \
    X(cuGraphGetEdges_v2)                                                                      \
    X(cuGraphNodeGetType)                                                                      \
    X(cuGraphMemAllocNodeGetParams)                                                            \
    X(cuGraphKernelNodeGetParams)                                                              \
    X(cuGraphKernelNodeGetParams_v2)                                                           \
    X(cuGraphChildGraphNodeGetGraph)                                                           \
    X(cuGraphExecDestroy)                                                                      \
    X(cuGraphUpload)                                                                           \
    X(cuDeviceGetMemPool)                                                                      \
    X(cuDeviceGetDefaultMemPool)                                                               \
    X(cuDeviceTotalMem_v2)                                                                     \
    X(cuDevicePrimaryCtxGetState)                                                              \
    X(cuDevicePrimaryCtxRelease_v2)                                                            \
    X(cuCtxGetCurrent)                                                                         \
    X(cuCtxGetDevice)                                                                          \
    X(cuCtxPushCurrent_v2)                                                                     \
    X(cuCtxPopCurrent_v2)                                                                      \
    X(cuCtxGetApiVersion)                                                                      \
    X(cuCtxGetId)                                                                              \
    X(cuCtxGetLimit)                                                                           \
    X(cuCtxFromGreenCtx)                                                                       \
    X(cuCtxDestroy_v2)                                                                         \
    X(cuStreamIsCapturing)                                                                     \
    X(cuStreamCreate)                                                                          \
    X(cuStreamDestroy_v2)                                                                      \
    X(cuStreamGetId)                                                                           \
    X(cuStreamGetCtx)                                                                          \
    X(cuStreamGetDevice)                                                                       \
    X(cuStreamWaitEvent)                                                                       \
    X(cuStreamQuery)                                                                           \
    X(cuStreamSynchronize)                                                                     \
    X(cuThreadExchangeStreamCaptureMode)                                                       \
    X(cuMemPoolGetAttribute)                                                                   \
    X(cuMemPoolTrimTo)                                                                         \
    X(cuMemGetInfo_v2)                                                                         \
    X(cuMemGetAddressRange_v2)                                                                 \
    X(cuMemAllocManaged)                                                                       \
    X(cuMemCreate)                                                                             \
    X(cuMemRelease)                                                                            \
    X(cuMemGetAllocationGranularity)                                                           \
    X(cuMemGetAllocationPropertiesFromHandle)                                                  \
    X(cuArrayGetMemoryRequirements)                                                            \
    X(cuMipmappedArrayGetMemoryRequirements)                                                   \
    X(cuMemAlloc_v2)                                                                           \
    X(cuMemFree_v2)                                                                            \
    X(cuMemAllocAsync)                                                                         \
    X(cuMemAllocFromPoolAsync)                                                                 \
    X(cuMemFreeAsync)                                                                          \
    X(cuPointerGetAttribute)                                                                   \
    X(cuEventCreate)                                                                           \
    X(cuEventRecord)                                                                           \
    X(cuEventQuery)                                                                            \
    X(cuEventSynchronize)                                                                      \
    X(cuEventDestroy_v2)

struct gb_driver_api {
#define GB_DRIVER_POINTER(name) __typeof__(name) *name;
    GB_DRIVER_CALLS(GB_DRIVER_POINTER)
#undef GB_DRIVER_POINTER
};

/*
 * Fills every member from lookup(arg, name), NULL where it answers NULL. True when the
 * functions without which nothing can be done (contexts, memory, events) are all there; the
 * members are filled either way.
 */
bool gb_driver_api_fill(struct gb_driver_api *api, void *(*lookup)(void *arg, const char *name),
                        void *arg);

#endif
