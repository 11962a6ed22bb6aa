/*
 * thunks.c: one function for each entry of each copy of libcuda.
 *
 * A handler must know which copy was called, and a function pointer carries nothing but its
 * address, so each copy has addresses of its own. They are hidden: what a look-up answers
 * cannot be taken over by another library's symbol of the same name.
 */
#include "interpose/handlers.h"
#include "interpose/substitute.h"

#define THUNK(copy, name, params, args)                                                        \
    static CUresult thunk_##copy##_##name params                                               \
    {                                                                                          \
        return gb_enter_##name(gb_driver_at(copy), GB_UNPAREN args);                           \
    }

#define GB_ENTRY(name, params, args)                                                           \
    THUNK(0, name, params, args)                                                               \
    THUNK(1, name, params, args)                                                               \
    THUNK(2, name, params, args)                                                               \
    THUNK(3, name, params, args)
#include "interpose/entries.def"
#undef GB_ENTRY

static void *const thunks[GB_DRIVER_MAX][GB_ENTRY_COUNT] = {
    {
#define GB_ENTRY(name, params, args) (void *)thunk_0_##name,
#include "interpose/entries.def"
#undef GB_ENTRY
    },
    {
#define GB_ENTRY(name, params, args) (void *)thunk_1_##name,
#include "interpose/entries.def"
#undef GB_ENTRY
    },
    {
#define GB_ENTRY(name, params, args) (void *)thunk_2_##name,
#include "interpose/entries.def"
#undef GB_ENTRY
    },
    {
#define GB_ENTRY(name, params, args) (void *)thunk_3_##name,
#include "interpose/entries.def"
#undef GB_ENTRY
    },
};

_Static_assert(GB_DRIVER_MAX == 4, "as many sets of thunks as copies");

void *gb_thunk(const struct gb_driver *drv, enum gb_entry entry)
{
    return thunks[drv->index][entry];
}
