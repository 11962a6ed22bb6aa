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
#include "interpose/local_size.h"
#include "interpose/process.h"

#include <stdbool.h>

/* The stack limit of the current context has been set, which fits its local memory to it. */
void gb_local_stack_set(struct gb_driver *drv, size_t bytes);

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
 * Brings the other contexts of a graph room for its kernels there, before the driver takes it:
 * what has come cannot be undone.
 */
struct gb_graph_needs;
CUresult gb_local_bring(struct gb_driver *drv, const struct gb_graph_needs *needs,
                        const char *call);

/*
 * Before a graph with such kernels becomes an executable, or an executable gets such a kernel:
 * the driver takes their local memory and heap with that call (measured), or with the launch.
 */
CUresult gb_local_prepare(struct gb_driver *drv, const struct gb_launch_need *need,
                          gb_launch_fn prepare, void *arg, const char *call);

/* The same, where up to `besides` bytes of other things come, too; what of them has come for
 * sure is written, and 0 where nothing tells. Where nothing comes for the kernels, `otherwise`
 * is called instead of all this. */
CUresult gb_local_prepare_besides(struct gb_driver *drv, const struct gb_launch_need *need,
                                  uint64_t besides, uint64_t *came, gb_launch_fn prepare,
                                  gb_launch_fn otherwise, void *arg, const char *call);

#endif
