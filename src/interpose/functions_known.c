/*
 * functions_known.c: the functions and kernels that have been handed out, and which of them
 * need not be looked at when they are launched.
 */
#include "interpose/functions_known.h"

#include <stdlib.h>

#include "interpose/code.h"
#include "interpose/fork.h"
#include "interpose/kernel_params.h"
#include "interpose/library_use.h"
#include "interpose/process.h"
#include "resource/hash.h"
#include "resource/lock.h"

_Atomic(CUfunction) gb_known_small[GB_KNOWN_SMALL];

/*
 * What stands there for a function. Where launches are noted it is not the handle itself, so
 * that each of them is looked at and those that are not pay nothing for it: a handle is the
 * address of an object of the driver, and never odd.
 */
static CUfunction kept(CUfunction function)
{
    if (gb_settings()->stream_order != GB_STREAM_ORDER_ALL)
        return function;
    return (CUfunction)((uintptr_t)function | 1);
}

bool gb_known_needs_nothing(CUfunction function)
{
    return atomic_load_explicit(&gb_known_small[gb_known_place(function)],
                                memory_order_relaxed) == kept(function);
}

struct known {
    const void *handle;
    const void *code;  /* its module or library; NULL: not known */
    CUcontext context; /* a function's; NULL: not known */
    bool is_kernel;
    bool no_heap;   /* it was launched and brought none, or its code calls no malloc */
    bool demanding; /* a kernel that needed more on a device without a limit */
    int size;       /* local memory of a function, bytes a thread; -1: not asked yet */
    uint64_t since; /* the moment when it was handed out last */
    UT_hash_handle hh;
};

static struct known *table;
static struct gb_lock lock = GB_LOCK_INIT;
static uint64_t moment; /* handles handed out so far; under the lock */

static void in_child(void)
{
    table = NULL;
    gb_lock_init(&lock);
}

static struct known *find(const void *handle)
{
    struct known *found;

    HASH_FIND(hh, table, &handle, sizeof(handle), found);
    return found;
}

static void hand_out(const void *handle, bool is_kernel, const void *code, CUcontext context)
{
    CUfunction function = (CUfunction)(uintptr_t)handle;
    bool no_heap = !gb_code_has_heap(code);
    struct known *found, *made = NULL;

    if (!handle)
        return;
    if (!is_kernel && !context)
        context = gb_code_context(code);
    /* What is known of an earlier function with this handle is over. */
    if (gb_known_needs_nothing(function))
        atomic_store(&gb_known_small[gb_known_place(function)], NULL);
    gb_kernel_params_drop(handle);
    gb_fork_on_child(in_child);
    for (;;) {
        gb_lock_take(&lock);
        found = find(handle);
        if (!found && made) {
            made->handle = handle;
            HASH_ADD(hh, table, handle, sizeof(made->handle), made);
            if (made->hh.tbl) {
                found = made;
                made = NULL;
            }
        }
        if (found) {
            found->is_kernel = is_kernel;
            found->code = code;
            found->context = context;
            found->no_heap = no_heap;
            found->demanding = false;
            found->size = -1;
            found->since = ++moment;
        }
        gb_lock_drop(&lock);
        /* Without memory it is not asked about: what its launch takes is charged afterwards. */
        if (found || made || !(made = calloc(1, sizeof(*made))))
            break;
    }
    free(made);
}

void gb_known_function(CUfunction function, const void *code)
{
    hand_out(function, false, code, NULL);
}

void gb_known_kernel(CUkernel kernel, CUlibrary library)
{
    hand_out(kernel, true, library, NULL);
}

void gb_known_function_of(CUfunction function, CUkernel kernel, CUcontext context)
{
    hand_out(function, false, gb_known_library(kernel), context);
}

uint64_t gb_known_moment(void)
{
    uint64_t now;

    gb_lock_take(&lock);
    now = moment;
    gb_lock_drop(&lock);
    return now;
}

void gb_known_code_gone(const void *code, uint64_t before)
{
    struct known *known, *next;

    gb_lock_take(&lock);
    HASH_ITER(hh, table, known, next)
    if (known->code == code && known->since <= before) {
        HASH_DELETE(hh, table, known);
        free(known);
    }
    gb_lock_drop(&lock);
}

void gb_known_context_gone(CUcontext context, uint64_t before)
{
    struct known *known, *next;

    gb_lock_take(&lock);
    HASH_ITER(hh, table, known, next)
    if (known->since <= before && known->context == context) {
        HASH_DELETE(hh, table, known);
        free(known);
    }
    gb_lock_drop(&lock);
}

CUcontext gb_known_context(CUfunction function)
{
    const void *handle = function;
    CUcontext context;
    const struct known *found;

    gb_lock_take(&lock);
    found = find(handle);
    context = found ? found->context : NULL;
    gb_lock_drop(&lock);
    return context;
}

CUlibrary gb_known_library(const void *kernel)
{
    const struct known *found;
    const void *library;

    gb_lock_take(&lock);
    found = find(kernel);
    library = found && found->is_kernel ? found->code : NULL;
    gb_lock_drop(&lock);
    return (CUlibrary)(uintptr_t)library;
}

enum gb_origin gb_known_find(const void *handle, int *size)
{
    const struct known *found;
    enum gb_origin origin = GB_ORIGIN_UNKNOWN;

    gb_lock_take(&lock);
    found = find(handle);
    if (found) {
        origin = found->is_kernel ? GB_ORIGIN_KERNEL : GB_ORIGIN_FUNCTION;
        *size = found->size;
    }
    gb_lock_drop(&lock);
    return origin;
}

bool gb_known_origin(const void *handle, bool *is_kernel)
{
    int unused;
    enum gb_origin origin = gb_known_find(handle, &unused);

    *is_kernel = origin == GB_ORIGIN_KERNEL;
    return origin != GB_ORIGIN_UNKNOWN;
}

void gb_known_note_size(const void *handle, int size)
{
    struct known *found;

    gb_lock_take(&lock);
    found = find(handle);
    if (found && !found->is_kernel)
        found->size = size;
    gb_lock_drop(&lock);
}

bool gb_known_may_need_heap(const void *handle)
{
    const struct known *found;
    bool may;

    gb_lock_take(&lock);
    found = find(handle);
    may = found && !found->no_heap;
    gb_lock_drop(&lock);
    return may;
}

bool gb_known_is_demanding(const void *handle)
{
    const struct known *found;
    bool demanding;

    gb_lock_take(&lock);
    found = find(handle);
    demanding = found && found->demanding;
    gb_lock_drop(&lock);
    return demanding;
}

void gb_known_note_demanding(const void *handle)
{
    struct known *found;

    gb_lock_take(&lock);
    found = find(handle);
    if (found)
        found->demanding = true;
    gb_lock_drop(&lock);
}

void gb_known_note_no_heap(const void *handle)
{
    struct known *found;

    gb_lock_take(&lock);
    found = find(handle);
    if (found)
        found->no_heap = true;
    gb_lock_drop(&lock);
}

static void forget(CUfunction function)
{
    CUfunction expected = kept(function);

    atomic_compare_exchange_strong(&gb_known_small[gb_known_place(function)], &expected, NULL);
}

void gb_known_remember(CUfunction function)
{
    struct gb_image unused;
    bool elsewhere = gb_known_may_need_heap(function) ||
                     (atomic_load_explicit(&gb_code_libraries, memory_order_relaxed) > 0 &&
                      gb_code_brings(gb_known_library(function), &unused));

    if (elsewhere && gb_library_contexts() > 1)
        return;
    atomic_store(&gb_known_small[gb_known_place(function)], kept(function));
    if (elsewhere && gb_library_contexts() > 1)
        forget(function);
}

void gb_known_remember_here(CUfunction function)
{
    atomic_store(&gb_known_small[gb_known_place(function)], kept(function));
}

void gb_known_forget(void)
{
    gb_kernel_params_forget();
    for (int i = 0; i < GB_KNOWN_SMALL; i++)
        atomic_store_explicit(&gb_known_small[i], NULL, memory_order_relaxed);
}
