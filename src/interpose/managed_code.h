/*
 * managed_code.h: the managed variables of modules and libraries, charged as managed memory is.
 *
 * The card's own tools show managed memory for nobody, so what the driver takes for them is
 * never found afterwards. It is charged as a block whose address is a number of our own.
 */
#ifndef GB_INTERPOSE_MANAGED_CODE_H
#define GB_INTERPOSE_MANAGED_CODE_H

#include "interpose/process.h"

/*
 * Before the driver is called: so many bytes, in the current context. Of a library, whose
 * variables are one for all contexts, they outlive that. key: what to give back, later; 0 where
 * nothing is charged. CUDA_ERROR_OUT_OF_MEMORY: they do not fit.
 */
CUresult gb_managed_charge(struct gb_driver *drv, uint64_t bytes, bool is_library,
                           const char *call, uint64_t *key);

/* They are gone, or have not come. Those that have ended with their context, too; 0: none. */
void gb_managed_return(uint64_t key);

#endif
