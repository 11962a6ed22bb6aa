/*
 * functions_known.h: the functions and kernels that have been handed out, what is known of
 * each, and which of them need not be looked at when they are launched.
 *
 * What is known of a handle is over when it is handed out again, and when its code goes: a node
 * of a graph may tell a handle that comes back and was handed out to nobody.
 */
#ifndef GB_INTERPOSE_FUNCTIONS_KNOWN_H
#define GB_INTERPOSE_FUNCTIONS_KNOWN_H

#include "driver/driver.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Functions that need no more than every context has: one place each, by a hash. */
enum { GB_KNOWN_SMALL = 4096 };
extern _Atomic(CUfunction) gb_known_small[GB_KNOWN_SMALL];

static inline size_t gb_known_place(CUfunction function)
{
    uint64_t mixed = (uint64_t)(uintptr_t)function * UINT64_C(0x9e3779b97f4a7c15);

    return mixed >> 52;
}

/* What a launch looks at first: a load and a comparison, and then it is the driver's. */
static inline bool gb_known_is_small(CUfunction function)
{
    return atomic_load_explicit(&gb_known_small[gb_known_place(function)],
                                memory_order_relaxed) == function;
}

/* The same where launches are noted (GPUBUDGET_STREAM_ORDER=all), and the above is false. */
bool gb_known_needs_nothing(CUfunction function);

/* Has it been handed out, and as what? */
bool gb_known_origin(const void *handle, bool *is_kernel);

/*
 * A function (of a module) or a kernel (of a library) has been handed out. The driver launches
 * both by the same call, but tells their sizes by two, and nobody says what it does with a
 * handle of the other kind: so only those that are known are asked about. `code`: the module or
 * library it belongs to.
 */
void gb_known_function(CUfunction function, const void *code);
void gb_known_kernel(CUkernel kernel, CUlibrary library);

/* A function that is a kernel's in that context, the current one. */
void gb_known_function_of(CUfunction function, CUkernel kernel, CUcontext context);

/* The context that a function belongs to; NULL: it is not known. */
CUcontext gb_known_context(CUfunction function);

/* The library whose kernel this is, NULL: it is not known to be one. */
CUlibrary gb_known_library(const void *kernel);

/*
 * The code is gone, or the context with all its code: so are the entries from before that
 * moment. Later ones are of a handle that has come back.
 */
uint64_t gb_known_moment(void);
void gb_known_code_gone(const void *code, uint64_t before);
void gb_known_context_gone(CUcontext context, uint64_t before);

/* Handles may come back for other functions, or bring what they did not: after an unload, the
 * end or the beginning of a context, a new limit. */
void gb_known_forget(void);

/* What a handle is; *size is written where it is known: the local memory of a function, bytes a
 * thread, -1: not asked yet. */
enum gb_origin { GB_ORIGIN_UNKNOWN, GB_ORIGIN_FUNCTION, GB_ORIGIN_KERNEL };
enum gb_origin gb_known_find(const void *handle, int *size);

/* Of a function only: a kernel may need something else on another device. */
void gb_known_note_size(const void *handle, int size);

/* Its code calls malloc, and no launch has shown that it does not do so itself. */
bool gb_known_may_need_heap(const void *handle);
void gb_known_note_no_heap(const void *handle);

/* A kernel that needed more than every context has on a device without a limit. */
bool gb_known_is_demanding(const void *handle);
void gb_known_note_demanding(const void *handle);

/*
 * Its launches are not looked at any more. A kernel that may be launched in another context, to
 * which its library or the heap has not come, is not remembered; a second context makes all
 * forgotten, and one that comes meanwhile is seen after the store.
 */
void gb_known_remember(CUfunction function);

/* The same for one that brings nothing in whatever context it may be launched. */
void gb_known_remember_here(CUfunction function);

#endif
