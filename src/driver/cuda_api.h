/*
 * cuda_api.h: cuda.h with every exported name distinct.
 *
 * cuda.h normally maps cuMemAlloc to cuMemAlloc_v2 and so on. With its internal switch the
 * mappings are gone and the old forms are declared too, so in our own sources `cuMemAlloc` is
 * the 32-bit form of CUDA 2.0 and cuMemAlloc_v2 is the one everybody means.
 */
#ifndef GB_DRIVER_CUDA_API_H
#define GB_DRIVER_CUDA_API_H

#if defined(__cuda_cuda_h__) && !defined(__CUDA_API_VERSION_INTERNAL)
#error "include driver/cuda_api.h before anything that includes cuda.h"
#endif

#ifndef __CUDA_API_VERSION_INTERNAL
#define __CUDA_API_VERSION_INTERNAL 1
#endif
#include <cuda.h>

#endif
