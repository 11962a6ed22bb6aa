/*
 * library_use.h: the first use of a library in a context, with which its variables come there.
 */
#ifndef GB_INTERPOSE_LIBRARY_USE_H
#define GB_INTERPOSE_LIBRARY_USE_H

#include "interpose/code.h"

/*
 * Before a call that uses a library in the current context: brings its variables there, as a
 * request of the device's stack. CUDA_ERROR_OUT_OF_MEMORY: they do not fit, and the call must
 * not be made. CUDA_SUCCESS: it may be made; also where the driver did not bring them, which it
 * will say again. `call` names it for messages.
 */
CUresult gb_library_bring(struct gb_driver *drv, CUlibrary library, const char *call);

/*
 * The same before a use of a library's kernel by its own handle. For a function nothing is
 * done: one of a module needs no library, and the call that gave one of a kernel has brought
 * the library to its context.
 */
CUresult gb_library_bring_kernel(struct gb_driver *drv, const void *kernel, const char *call);

/* The same of a kernel that is for a context, whichever is current; NULL: the current one. */
CUresult gb_library_bring_kernel_in(struct gb_driver *drv, const void *kernel,
                                    CUcontext context, const char *call);

/* After its load: where the driver does not put off what it can, it has come already. */
void gb_library_loaded(struct gb_driver *drv, CUlibrary library);

/* Contexts of the process that are known: with one, what has come has come everywhere. */
int gb_library_contexts(void);

#endif
