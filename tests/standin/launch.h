/* Shared by the forms of a launch and by kernel nodes. */
#ifndef STANDIN_LAUNCH_H
#define STANDIN_LAUNCH_H

#include "sim.h"

/* `func` may be a CUfunction or a CUkernel; a function loaded in the context of the stream. */
CUresult sim_launch(const CUDA_KERNEL_NODE_PARAMS_v3 *what, CUstream stream, bool per_thread);
CUresult sim_launch_check(const CUDA_KERNEL_NODE_PARAMS_v3 *what);

#endif
