/*
 * local_memory.h: what a kernel's launch makes the driver take: local memory, the device heap,
 * and the variables of a library that had not come to the context.
 *
 * A context has room for the local memory of as many threads as the device can run at once,
 * each with what the most demanding function launched so far needs, at first with the default
 * stack (measured, docs/driver-behaviour.md). So the first launch of a function that needs more
 * may take gigabytes. The heap comes with the first launch of a function that calls malloc, in
 * the size that cuCtxSetLimit gave it.
 */
#ifndef GB_INTERPOSE_LOCAL_MEMORY_H
#define GB_INTERPOSE_LOCAL_MEMORY_H

#include "interpose/image.h"
#include "interpose/process.h"

#include <stdatomic.h>
#include <stdbool.h>

/* What a launch may bring. */
struct gb_launch_need {
    uint64_t local; /* bytes a thread; 0: no more than every context has */
    bool heap;      /* it may need the device heap */
};

/* Functions that need no more than every context has: one place each, by a hash. */
enum { GB_LOCAL_SMALL = 4096 };
extern _Atomic(CUfunction) gb_local_small[GB_LOCAL_SMALL];

static inline size_t gb_local_place(CUfunction function)
{
    uint64_t mixed = (uint64_t)(uintptr_t)function * UINT64_C(0x9e3779b97f4a7c15);

    return mixed >> 52;
}

/* What a launch looks at first: a load and a comparison, and then it is the driver's. */
static inline bool gb_local_is_small(CUfunction function)
{
    return atomic_load_explicit(&gb_local_small[gb_local_place(function)],
                                memory_order_relaxed) == function;
}

/* The same where launches are noted (GPUBUDGET_STREAM_ORDER=all), and the above is false. */
bool gb_local_is_known_small(CUfunction function);

/* Has it been handed out, and as what? */
bool gb_local_origin(const void *handle, bool *is_kernel);

/*
 * A function (of a module) or a kernel (of a library) has been handed out. The driver launches
 * both by the same call, but tells their sizes by two, and nobody says what it does with a
 * handle of the other kind: so only those that are known are asked about. `code`: the module or
 * library it belongs to.
 */
void gb_local_function(CUfunction function, const void *code);
void gb_local_kernel(CUkernel kernel, CUlibrary library);

/* A function that is a kernel's in the current context. */
void gb_local_function_of(CUfunction function, CUkernel kernel);

/* The library whose kernel this is, NULL: it is not known to be one. */
CUlibrary gb_local_library_of(const void *kernel);

/* Handles may come back for other functions, or bring what they did not: after an unload, the
 * end or the beginning of a context, a new limit. */
void gb_local_forget(void);

/* The stack limit of the current context has been set, which fits its local memory to it. */
void gb_local_stack_set(struct gb_driver *drv, size_t bytes);

/* What a launch of the function needs beyond what every context has. */
struct gb_launch_need gb_local_need(struct gb_driver *drv, CUfunction function);

/* What code with that image brings to a noted context beside its variables, bytes. */
uint64_t gb_local_frames(struct gb_driver *drv, struct gb_device *device, CUcontext context,
                         const struct gb_image *image);

/* The driver's launch, with the program's own arguments. */
typedef CUresult (*gb_launch_fn)(void *arg);

/*
 * Launches a function that is not known to be small: what it needs beyond what the context has
 * is asked of the device's stack first; where that does not fit nothing is launched. `call`
 * names it for messages.
 */
CUresult gb_local_launch(struct gb_driver *drv, CUfunction function, CUstream stream,
                         bool is_thread, gb_launch_fn launch, void *arg, const char *call);

/* The same for what is known to need so much and is not captured: a graph. */
CUresult gb_local_launch_needing(struct gb_driver *drv, const struct gb_launch_need *need,
                                 gb_launch_fn launch, void *arg, const char *call);

/*
 * Before a graph with such kernels becomes an executable, or an executable gets such a kernel:
 * the driver takes their local memory and heap with that call (measured), or with the launch.
 */
CUresult gb_local_prepare(struct gb_driver *drv, const struct gb_launch_need *need,
                          gb_launch_fn prepare, void *arg, const char *call);

/* The same, where up to `besides` bytes of other things come, too. Where nothing comes for the
 * kernels, `otherwise` is called instead of all this. */
CUresult gb_local_prepare_besides(struct gb_driver *drv, const struct gb_launch_need *need,
                                  uint64_t besides, gb_launch_fn prepare,
                                  gb_launch_fn otherwise, void *arg, const char *call);

#endif
