/*
 * twins.c: the exported functions with the driver's names, for programs linked with -lcuda.
 *
 * A twin stands for whatever the program would have bound to without us: the next definition in
 * the global scope. If that is a copy of libcuda, the copy's thunk is called; if it is another
 * interposer's function, that one, which reaches the driver by a look-up of its own and comes
 * back through us there, so each call is seen once.
 */
#define _GNU_SOURCE
#include "interpose/entries.h"
#include "interpose/real.h"
#include "interpose/substitute.h"

#include <dlfcn.h>
#include <stdatomic.h>
#include <stddef.h>

/*
 * Whoever sees a target sees what was made before it. On x86 every load is ordered like that;
 * there it is not said to the compiler, which would move the arguments on the stack, there and
 * back, around it.
 */
#ifdef __x86_64__
#define SEES_WHAT_WAS_BEFORE memory_order_relaxed
#else
#define SEES_WHAT_WAS_BEFORE memory_order_acquire
#endif

/* What a twin jumps to: at first `first_NAME`, which finds it. Only answers that were found are
 * kept: a driver may still be loaded after a first failing call. */
#define GB_ENTRY(name, params, args) static CUresult first_##name params;
#include "interpose/entries.def"
#undef GB_ENTRY
static _Atomic(void *) targets[GB_ENTRY_COUNT] = {
#define GB_ENTRY(name, params, args) (void *)first_##name,
#include "interpose/entries.def"
#undef GB_ENTRY
};

/* Without a definition in the global scope: from the driver that is there, if any. */
static void *find_elsewhere(enum gb_entry entry)
{
    void *handle;
    void *address;

    if (gb_armed()) {
        struct gb_driver *drv = gb_driver_any();

        return drv != NULL && drv->real[entry] != NULL ? gb_thunk(drv, entry) : NULL;
    }
    handle = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
    if (handle == NULL)
        return NULL;
    address = gb_symbol(handle, gb_entry_name(entry));
    if (address == NULL)
        dlclose(handle);
    return address; /* and the reference is kept with it */
}

__attribute__((noinline, cold)) static void *find_target(enum gb_entry entry)
{
    void *next = gb_symbol(RTLD_NEXT, gb_entry_name(entry));
    void *target = next == NULL ? find_elsewhere(entry) : gb_substitute(next, entry);

    if (next != NULL && target != NULL) {
        /* As the loader does for a bound symbol: its object stays. */
        const struct link_map *owner = gb_object_of(next);

        if (owner != NULL)
            gb_object_hold(owner);
    }
    dlerror(); /* nothing of this is the program's to see */
    if (target != NULL)
        atomic_store_explicit(&targets[entry], target, memory_order_release);
    return target;
}

/* Once it is found a twin is an indirect jump. */
#define GB_ENTRY(name, params, args)                                                           \
    __attribute__((cold)) static CUresult first_##name params                                  \
    {                                                                                          \
        gb_fn_##name *target = (gb_fn_##name *)find_target(GB_ENTRY_##name);                   \
                                                                                               \
        return target == NULL ? CUDA_ERROR_NOT_INITIALIZED : target args;                      \
    }                                                                                          \
    __attribute__((visibility("default"))) CUresult name params                                \
    {                                                                                          \
        return ((gb_fn_##name *)atomic_load_explicit(&targets[GB_ENTRY_##name],                \
                                                     SEES_WHAT_WAS_BEFORE))args;               \
    }
#include "interpose/entries.def"
#undef GB_ENTRY
