/*
 * entry_lookup.c: cuGetProcAddress, the way of the CUDA runtime.
 *
 * The driver answers the program's own question, with its own version and flags; only then its
 * answer is replaced, by address. So each caller gets the hook of exactly the variant that it
 * would have got, the hooks of these two functions included, and errors, status words and
 * unknown names are the driver's own.
 */
#include "interpose/handlers.h"
#include "interpose/substitute.h"

CUresult gb_enter_cuGetProcAddress(struct gb_driver *drv, const char *symbol, void **pfn,
                                   int cudaVersion, cuuint64_t flags)
{
    CUresult result = GB_REAL(drv, cuGetProcAddress)(symbol, pfn, cudaVersion, flags);

    if (result == CUDA_SUCCESS && pfn != NULL && *pfn != NULL)
        *pfn = gb_substitute_in(drv, *pfn);
    return result;
}

CUresult gb_enter_cuGetProcAddress_v2(struct gb_driver *drv, const char *symbol, void **pfn,
                                      int cudaVersion, cuuint64_t flags,
                                      CUdriverProcAddressQueryResult *symbolStatus)
{
    CUresult result =
        GB_REAL(drv, cuGetProcAddress_v2)(symbol, pfn, cudaVersion, flags, symbolStatus);

    if (result == CUDA_SUCCESS && pfn != NULL && *pfn != NULL)
        *pfn = gb_substitute_in(drv, *pfn);
    return result;
}
