/*
 * handlers.h: one handler per intercepted entry point.
 *
 * gb_enter_NAME(copy of libcuda that was called, the program's own arguments). Every route of
 * the program ends here, once. A handler runs only for a name that its copy exports, so GB_REAL
 * is never NULL for the handler's own entry; for another entry it may be.
 */
#ifndef GB_INTERPOSE_HANDLERS_H
#define GB_INTERPOSE_HANDLERS_H

#include "driver/driver.h"
#include "interpose/entries.h"

#define GB_UNPAREN(...) __VA_ARGS__

#define GB_ENTRY(name, params, args)                                                           \
    CUresult gb_enter_##name(struct gb_driver *drv, GB_UNPAREN params);
#include "interpose/entries.def"
#undef GB_ENTRY

/* The copy's own function of that name, typed: GB_REAL(drv, cuMemAlloc_v2)(dptr, bytes). */
#define GB_REAL(drv, name) ((gb_fn_##name *)(drv)->real[GB_ENTRY_##name])

#endif
