/*
 * entry_library.c: the calls that use a library in a context: its variables come there with the
 * first of them (measured for each, docs/driver-behaviour.md).
 *
 * Where the variables are known from the image they are asked of the budget before the call.
 * Others cannot be undone, so they are not refused: the call is looked at, and while it stands
 * above the limit nothing is granted, no further library either.
 */
#include "interpose/estimated.h"
#include "interpose/handlers.h"
#include "interpose/library_use.h"
#include "interpose/process.h"

/* Answers out of the function where the library does not fit: what came of bringing it. */
#define BRING(brought)                                                                         \
    do {                                                                                       \
        CUresult brought_ = (brought);                                                         \
        if (brought_ != CUDA_SUCCESS)                                                          \
            return brought_;                                                                   \
    } while (0)

/* What came without our knowing of it beforehand is looked at. */
static CUresult came(CUresult code, struct gb_driver *drv, const struct gb_use *use,
                     const void *library)
{
    if (code == CUDA_SUCCESS)
        gb_use_done(drv, use, GB_MEASURED_MODULE, library);
    return code;
}

CUresult gb_enter_cuLibraryGetModule(struct gb_driver *drv, CUmodule *pMod, CUlibrary library)
{
    struct gb_use use;
    CUresult code;

    BRING(gb_library_bring(drv, library, "cuLibraryGetModule"));
    gb_use_begins(drv, &use);
    code = came(GB_REAL(drv, cuLibraryGetModule)(pMod, library), drv, &use, library);
    /* Its functions are the library's. */
    if (code == CUDA_SUCCESS && pMod)
        gb_code_loaded(drv, *pMod, false,
                       (struct gb_image){.has_heap = gb_code_has_heap(library)}, 0);
    return code;
}

CUresult gb_enter_cuLibraryGetGlobal(struct gb_driver *drv, CUdeviceptr *dptr, size_t *bytes,
                                     CUlibrary library, const char *name)
{
    struct gb_use use;

    BRING(gb_library_bring(drv, library, "cuLibraryGetGlobal"));
    gb_use_begins(drv, &use);
    return came(GB_REAL(drv, cuLibraryGetGlobal)(dptr, bytes, library, name), drv, &use,
                library);
}

CUresult gb_enter_cuLibraryGetManaged(struct gb_driver *drv, CUdeviceptr *dptr, size_t *bytes,
                                      CUlibrary library, const char *name)
{
    struct gb_use use;

    BRING(gb_library_bring(drv, library, "cuLibraryGetManaged"));
    gb_use_begins(drv, &use);
    return came(GB_REAL(drv, cuLibraryGetManaged)(dptr, bytes, library, name), drv, &use,
                library);
}

CUresult gb_enter_cuLibraryGetUnifiedFunction(struct gb_driver *drv, void **fptr,
                                              CUlibrary library, const char *symbol)
{
    struct gb_use use;

    BRING(gb_library_bring(drv, library, "cuLibraryGetUnifiedFunction"));
    gb_use_begins(drv, &use);
    return came(GB_REAL(drv, cuLibraryGetUnifiedFunction)(fptr, library, symbol), drv, &use,
                library);
}

/* It cannot be undone, like a first launch that loads it. */
CUresult gb_enter_cuFuncLoad(struct gb_driver *drv, CUfunction function)
{
    struct gb_use use;

    BRING(gb_library_bring_kernel(drv, function, "cuFuncLoad"));
    gb_use_begins(drv, &use);
    return came(GB_REAL(drv, cuFuncLoad)(function), drv, &use, function);
}

CUresult gb_enter_cuKernelSetAttribute(struct gb_driver *drv, CUfunction_attribute attrib,
                                       int val, CUkernel kernel, CUdevice dev)
{
    BRING(gb_library_bring_kernel(drv, kernel, "cuKernelSetAttribute"));
    return GB_REAL(drv, cuKernelSetAttribute)(attrib, val, kernel, dev);
}

CUresult gb_enter_cuKernelSetCacheConfig(struct gb_driver *drv, CUkernel kernel,
                                         CUfunc_cache config, CUdevice dev)
{
    BRING(gb_library_bring_kernel(drv, kernel, "cuKernelSetCacheConfig"));
    return GB_REAL(drv, cuKernelSetCacheConfig)(kernel, config, dev);
}

CUresult gb_enter_cuOccupancyMaxActiveBlocksPerMultiprocessor(struct gb_driver *drv,
                                                              int *numBlocks, CUfunction func,
                                                              int blockSize,
                                                              size_t dynamicSMemSize)
{
    BRING(gb_library_bring_kernel(drv, func, "cuOccupancyMaxActiveBlocksPerMultiprocessor"));
    return GB_REAL(drv, cuOccupancyMaxActiveBlocksPerMultiprocessor)(numBlocks, func, blockSize,
                                                                     dynamicSMemSize);
}

CUresult gb_enter_cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
    struct gb_driver *drv, int *numBlocks, CUfunction func, int blockSize,
    size_t dynamicSMemSize, unsigned int flags)
{
    BRING(gb_library_bring_kernel(drv, func,
                                  "cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags"));
    return GB_REAL(drv, cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags)(
        numBlocks, func, blockSize, dynamicSMemSize, flags);
}

CUresult gb_enter_cuOccupancyMaxPotentialBlockSize(
    struct gb_driver *drv, int *minGridSize, int *blockSize, CUfunction func,
    CUoccupancyB2DSize blockSizeToDynamicSMemSize, size_t dynamicSMemSize, int blockSizeLimit)
{
    BRING(gb_library_bring_kernel(drv, func, "cuOccupancyMaxPotentialBlockSize"));
    return GB_REAL(drv, cuOccupancyMaxPotentialBlockSize)(minGridSize, blockSize, func,
                                                          blockSizeToDynamicSMemSize,
                                                          dynamicSMemSize, blockSizeLimit);
}

CUresult gb_enter_cuOccupancyMaxPotentialBlockSizeWithFlags(
    struct gb_driver *drv, int *minGridSize, int *blockSize, CUfunction func,
    CUoccupancyB2DSize blockSizeToDynamicSMemSize, size_t dynamicSMemSize, int blockSizeLimit,
    unsigned int flags)
{
    BRING(gb_library_bring_kernel(drv, func, "cuOccupancyMaxPotentialBlockSizeWithFlags"));
    return GB_REAL(drv, cuOccupancyMaxPotentialBlockSizeWithFlags)(
        minGridSize, blockSize, func, blockSizeToDynamicSMemSize, dynamicSMemSize,
        blockSizeLimit, flags);
}

CUresult gb_enter_cuOccupancyAvailableDynamicSMemPerBlock(struct gb_driver *drv,
                                                          size_t *dynamicSmemSize,
                                                          CUfunction func, int numBlocks,
                                                          int blockSize)
{
    BRING(gb_library_bring_kernel(drv, func, "cuOccupancyAvailableDynamicSMemPerBlock"));
    return GB_REAL(drv, cuOccupancyAvailableDynamicSMemPerBlock)(dynamicSmemSize, func,
                                                                 numBlocks, blockSize);
}

CUresult gb_enter_cuOccupancyMaxPotentialClusterSize(struct gb_driver *drv, int *clusterSize,
                                                     CUfunction func,
                                                     const CUlaunchConfig *config)
{
    BRING(gb_library_bring_kernel(drv, func, "cuOccupancyMaxPotentialClusterSize"));
    return GB_REAL(drv, cuOccupancyMaxPotentialClusterSize)(clusterSize, func, config);
}

CUresult gb_enter_cuOccupancyMaxActiveClusters(struct gb_driver *drv, int *numClusters,
                                               CUfunction func, const CUlaunchConfig *config)
{
    BRING(gb_library_bring_kernel(drv, func, "cuOccupancyMaxActiveClusters"));
    return GB_REAL(drv, cuOccupancyMaxActiveClusters)(numClusters, func, config);
}
