/* Shared by the parts about kernels. Names that not every driver has are looked up. */
#ifndef OBSERVE_CODE_H
#define OBSERVE_CODE_H

#include "observations.h"

#define CALL(function, ...)                                                                    \
    (observe_symbol(#function)                                                                 \
         ? ((__typeof__(&function))observe_symbol(#function))(__VA_ARGS__)                     \
         : CUDA_ERROR_NOT_FOUND)

/* frame_4k, frame_8k, frame_16k: that much local memory for each thread, which they really use;
 * nothing: none. */
extern const char observe_frames[];
extern const char observe_heap[]; /* takes: calls malloc; says: prints; plain: neither */
/* The same kernel without parameters to speak of: (a pointer, an offset into the frame). */
CUresult observe_launch_frame(CUfunction function, CUstream stream);
CUfunction observe_function(CUmodule module, const char *name);
/* How the process's figure has changed since `before`; NVML's figure, as everywhere. */
long long observe_change(uint64_t before);

#endif
