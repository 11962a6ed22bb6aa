/* Copies and fills that wait, the 32-bit forms of the first driver included. */
#include "copy.h"

#define H true
#define D false
#define COPY(name, to_type, to_host, from_type, from_host, size_type)                          \
    CUresult name(to_type to, from_type from, size_type bytes)                                 \
    {                                                                                          \
        SIM_ENTER(name, W(to), W(from), W(bytes));                                             \
        return sim_copy(W(to), to_host, W(from), from_host, bytes, NULL, false, true);         \
    }
#define COPY_PTDS(name, to_type, to_host, from_type, from_host, size_type)                     \
    CUresult name(to_type to, from_type from, size_type bytes)                                 \
    {                                                                                          \
        SIM_ENTER(name, W(to), W(from), W(bytes));                                             \
        return sim_copy(W(to), to_host, W(from), from_host, bytes, NULL, true, true);          \
    }

COPY(cuMemcpyHtoD_v2, CUdeviceptr, D, const void *, H, size_t)
COPY(cuMemcpyDtoH_v2, void *, H, CUdeviceptr, D, size_t)
COPY(cuMemcpyDtoD_v2, CUdeviceptr, D, CUdeviceptr, D, size_t)
COPY_PTDS(cuMemcpyHtoD_v2_ptds, CUdeviceptr, D, const void *, H, size_t)
COPY_PTDS(cuMemcpyDtoH_v2_ptds, void *, H, CUdeviceptr, D, size_t)
COPY_PTDS(cuMemcpyDtoD_v2_ptds, CUdeviceptr, D, CUdeviceptr, D, size_t)
COPY(cuMemcpyHtoD, CUdeviceptr_v1, D, const void *, H, unsigned int)
COPY(cuMemcpyDtoH, void *, H, CUdeviceptr_v1, D, unsigned int)
COPY(cuMemcpyDtoD, CUdeviceptr_v1, D, CUdeviceptr_v1, D, unsigned int)

#define FILL(name, address_type, type, width, size_type, per_thread)                           \
    CUresult name(address_type to, type value, size_type count)                                \
    {                                                                                          \
        SIM_ENTER(name, W(to), W(value), W(count));                                            \
        return sim_fill(to, value, width, count, NULL, per_thread, true);                      \
    }

FILL(cuMemsetD8_v2, CUdeviceptr, unsigned char, 1, size_t, false)
FILL(cuMemsetD16_v2, CUdeviceptr, unsigned short, 2, size_t, false)
FILL(cuMemsetD32_v2, CUdeviceptr, unsigned int, 4, size_t, false)
FILL(cuMemsetD8_v2_ptds, CUdeviceptr, unsigned char, 1, size_t, true)
FILL(cuMemsetD16_v2_ptds, CUdeviceptr, unsigned short, 2, size_t, true)
FILL(cuMemsetD32_v2_ptds, CUdeviceptr, unsigned int, 4, size_t, true)
FILL(cuMemsetD8, CUdeviceptr_v1, unsigned char, 1, unsigned int, false)
FILL(cuMemsetD16, CUdeviceptr_v1, unsigned short, 2, unsigned int, false)
FILL(cuMemsetD32, CUdeviceptr_v1, unsigned int, 4, unsigned int, false)
