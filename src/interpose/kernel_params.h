/*
 * kernel_params.h: the pointers among a kernel's parameters.
 *
 * How a function's parameters lie the driver tells since CUDA 12.4. Frameworks pass structs
 * with pointers in them, so every 8-byte word at a multiple of 8 inside a parameter may be one.
 */
#ifndef GB_INTERPOSE_KERNEL_PARAMS_H
#define GB_INTERPOSE_KERNEL_PARAMS_H

#include "interpose/stream_order.h"

/* The driver would read further: nobody passes more than 32,764 bytes. */
enum { GB_PARAM_BYTES_MOST = 65536 };

/* The blocks that the parameters of a launch point to, in either form. */
void gb_kernel_params_touch(struct gb_order *order, CUfunction function, void **params,
                            void **extra);

/* A function or kernel has been handed out, perhaps with a handle that was another's. */
void gb_kernel_params_drop(const void *handle);

/* Functions have gone, with their module, library or context: forgets all. */
void gb_kernel_params_forget(void);

#endif
