/*
 * thunks.c: one function for each entry of each copy of libcuda.
 *
 * A handler must know which copy was called, and a function pointer carries nothing but its
 * address, so each copy has addresses of its own. They are hidden: what a look-up answers
 * cannot be taken over by another library's symbol of the same name.
 */
#include "interpose/executables.h"
#include "interpose/handlers.h"
#include "interpose/functions_known.h"
#include "interpose/substitute.h"

#include <stdatomic.h>
#include <stddef.h>

#define ENTER(function, copy, name, params, args)                                              \
    static CUresult function##_##copy##_##name params                                          \
    {                                                                                          \
        return gb_enter_##name(gb_driver_at(copy), GB_UNPAREN args);                           \
    }

/*
 * Of the rows GB_ENTRY_QUICK: to the handler, or where the test is true to the driver's own
 * function, which stands there from when the thunk was handed out. It is a place in a table and
 * not a branch with two calls, because compilers move the arguments that lie on the stack,
 * there and back, where a function has two ways out, and leave them alone where it has one.
 */
#define QUICK(copy, name, params, args, test)                                                  \
    ENTER(slow, copy, name, params, args)                                                      \
    static _Atomic(void *) ways_##copy##_##name[2] = {(void *)slow_##copy##_##name,            \
                                                      (void *)slow_##copy##_##name};           \
    static CUresult thunk_##copy##_##name params                                               \
    {                                                                                          \
        return ((gb_fn_##name *)atomic_load_explicit(&ways_##copy##_##name[test],              \
                                                     memory_order_relaxed))args;               \
    }

#define GB_ENTRY(name, params, args)                                                           \
    ENTER(thunk, 0, name, params, args)                                                        \
    ENTER(thunk, 1, name, params, args)                                                        \
    ENTER(thunk, 2, name, params, args)                                                        \
    ENTER(thunk, 3, name, params, args)
#define GB_ENTRY_QUICK(name, params, args, test)                                               \
    QUICK(0, name, params, args, test)                                                         \
    QUICK(1, name, params, args, test)                                                         \
    QUICK(2, name, params, args, test)                                                         \
    QUICK(3, name, params, args, test)
#include "interpose/entries.def"
#undef GB_ENTRY

static const struct {
    void *thunk[GB_DRIVER_MAX];
    _Atomic(void *) *ways[GB_DRIVER_MAX]; /* NULL: the handler does it */
} thunks[GB_ENTRY_COUNT] = {
#define GB_ENTRY(name, params, args)                                                           \
    {{(void *)thunk_0_##name, (void *)thunk_1_##name, (void *)thunk_2_##name,                  \
      (void *)thunk_3_##name},                                                                 \
     {NULL}},
#define GB_ENTRY_QUICK(name, params, args, test)                                               \
    {{(void *)thunk_0_##name, (void *)thunk_1_##name, (void *)thunk_2_##name,                  \
      (void *)thunk_3_##name},                                                                 \
     {ways_0_##name, ways_1_##name, ways_2_##name, ways_3_##name}},
#include "interpose/entries.def"
#undef GB_ENTRY
};

_Static_assert(GB_DRIVER_MAX == 4, "as many sets of thunks as copies");

void *gb_thunk(const struct gb_driver *drv, enum gb_entry entry)
{
    _Atomic(void *) *ways = thunks[entry].ways[drv->index];

    if (ways != NULL && drv->real[entry] != NULL)
        atomic_store_explicit(&ways[1], drv->real[entry], memory_order_relaxed);
    return thunks[entry].thunk[drv->index];
}
