/*
 * executables.c: executable graphs, and what they need.
 */
#include "interpose/executables.h"

#include <stdlib.h>
#include <string.h>

#include "interpose/handlers.h"
#include "interpose/fork.h"
#include "interpose/functions_known.h"
#include "interpose/library_use.h"
#include "resource/capture.h"
#include "resource/enter.h"
#include "resource/lock.h"
#include "resource/resource.h"

/* Child graphs within child graphs: deeper ones are not read, since a thread may have little
 * stack, of which each takes some 400 bytes. */
enum { DEEPEST = 256 };

atomic_int gb_executables_count;

static atomic_int known; /* all that stand in the table */
static struct gb_executable *table;
static struct gb_lock lock = GB_LOCK_INIT;

/* Of kernels that may be in bodies of conditional nodes. */
static _Atomic uint64_t bodies_local;
static atomic_bool bodies_heap;

static void in_child(void)
{
    table = NULL;
    gb_lock_init(&lock);
    atomic_store(&gb_executables_count, 0);
    atomic_store(&known, 0);
}

static void add_need(struct gb_graph_needs *needs, int device, uint64_t bytes)
{
    struct gb_graph_need *need = NULL;

    for (int i = 0; i < needs->count && !need; i++)
        if (needs->need[i].device == device)
            need = &needs->need[i];
    if (!need && needs->count < GB_GRAPH_DEVICES) {
        need = &needs->need[needs->count++];
        *need = (struct gb_graph_need){.device = device};
    }
    if (!need)
        need = &needs->need[GB_GRAPH_DEVICES - 1];
    need->bytes = gb_add_saturated(need->bytes, bytes);
    if (bytes > need->largest)
        need->largest = bytes;
}

static bool read_nodes(struct gb_driver *drv, CUgraph graph, int depth,
                       struct gb_graph_needs *needs, uint64_t *widths);

/* The context that a kernel node belongs to, whichever is current; NULL: it cannot be told. */
static CUcontext context_of(const struct gb_graph_needs *needs, CUfunction function,
                            CUcontext given)
{
    if (needs->only)
        return needs->only;
    /* What a node has beside a function is not its context (manual). */
    return function ? gb_known_context(function) : given;
}

/*
 * What a node says of a kernel of a library may be the function that the driver has made of it,
 * which it has handed out to nobody: then the kernel beside it is meant, if that is known.
 */
static void see_kernel(CUDA_KERNEL_NODE_PARAMS_v2 *params)
{
    bool is_kernel;

    if (params->func && params->kern && !gb_known_origin(params->func, &is_kernel) &&
        gb_known_origin(params->kern, &is_kernel) && is_kernel)
        params->func = NULL;
}

static bool read_kernel(struct gb_driver *drv, struct gb_graph_node *place,
                        struct gb_graph_needs *needs)
{
    const CUgraphNode node = place->handle;
    const struct gb_driver_api *api = &drv->api;
    CUDA_KERNEL_NODE_PARAMS_v2 params;
    CUDA_KERNEL_NODE_PARAMS_v1 old;
    CUfunction function = NULL;
    CUcontext context = NULL;
    struct gb_launch_need need;
    uint64_t *most;
    unsigned at;

    if (api->cuGraphKernelNodeGetParams_v2) {
        if (api->cuGraphKernelNodeGetParams_v2(node, &params) != CUDA_SUCCESS)
            return false;
        see_kernel(&params);
        function = (CUfunction)(uintptr_t)gb_graph_kernel(params.func, params.kern);
        context = context_of(needs, params.func, params.ctx);
    } else if (api->cuGraphKernelNodeGetParams) {
        if (api->cuGraphKernelNodeGetParams(node, &old) != CUDA_SUCCESS)
            return false;
        function = old.func;
        context = context_of(needs, old.func, NULL);
    }
    at = gb_graph_place(&needs->widths, context);
    place->kernels[at] = 1;
    need = gb_local_need_told(drv, function);
    most = at == 0 || context == needs->current ? &needs->kernels.local : &needs->elsewhere[at];
    if (need.local > *most)
        *most = need.local;
    needs->kernels.heap |= need.heap;
    return true;
}

static bool read_node(struct gb_driver *drv, struct gb_graph_node *place, int depth,
                      struct gb_graph_needs *needs)
{
    const struct gb_driver_api *api = &drv->api;
    const CUgraphNode node = place->handle;
    CUDA_MEM_ALLOC_NODE_PARAMS params;
    CUgraphNodeType type;
    CUdevice device;
    CUgraph child;

    if (api->cuGraphNodeGetType(node, &type) != CUDA_SUCCESS)
        return false;
    switch (type) {
    case CU_GRAPH_NODE_TYPE_MEM_ALLOC:
        memset(&params, 0, sizeof(params));
        if (api->cuGraphMemAllocNodeGetParams(node, &params) != CUDA_SUCCESS)
            return false;
        switch (params.poolProps.location.type) {
        case CU_MEM_LOCATION_TYPE_DEVICE:
            add_need(needs, params.poolProps.location.id, params.bytesize);
            return true;
        case CU_MEM_LOCATION_TYPE_HOST:
        case CU_MEM_LOCATION_TYPE_HOST_NUMA:
        case CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT:
            return true;
        default:
            /* A driver need not say where captured allocations go: to the current device. */
            if (api->cuCtxGetDevice(&device) != CUDA_SUCCESS)
                return false;
            add_need(needs, device, params.bytesize);
            return true;
        }
    case CU_GRAPH_NODE_TYPE_KERNEL:
        return read_kernel(drv, place, needs);
    case CU_GRAPH_NODE_TYPE_GRAPH:
        return api->cuGraphChildGraphNodeGetGraph(node, &child) == CUDA_SUCCESS &&
               read_nodes(drv, child, depth + 1, needs, place->kernels);
    case CU_GRAPH_NODE_TYPE_CONDITIONAL:
        if (atomic_load(&bodies_local) > needs->kernels.local)
            needs->kernels.local = atomic_load(&bodies_local);
        needs->kernels.heap |= atomic_load(&bodies_heap);
        return true;
    default:
        return true;
    }
}

static bool read_nodes(struct gb_driver *drv, CUgraph graph, int depth,
                       struct gb_graph_needs *needs, uint64_t *widths)
{
    const struct gb_driver_api *api = &drv->api;
    struct gb_graph_node *places;
    CUgraphNode *nodes;
    size_t count = 0;
    bool complete;

    needs->unread |= depth > DEEPEST;
    if (needs->unread || api->cuGraphGetNodes(graph, NULL, &count) != CUDA_SUCCESS)
        return false;
    if (count == 0)
        return true;
    nodes = calloc(count, sizeof(*nodes));
    places = calloc(count, sizeof(*places));
    needs->unread |= !nodes || !places;
    complete = !needs->unread && api->cuGraphGetNodes(graph, nodes, &count) == CUDA_SUCCESS;
    for (size_t i = 0; i < count && complete; i++) {
        places[i].handle = nodes[i];
        complete = read_node(drv, &places[i], depth, needs);
    }
    if (complete)
        gb_graph_width(api, graph, places, count, widths);
    free(places);
    free(nodes);
    return complete;
}

bool gb_graph_read_needs(struct gb_driver *drv, CUgraph graph, struct gb_graph_needs *needs)
{
    const struct gb_driver_api *api = &drv->api;
    struct gb_capture_mode saved;
    bool complete;

    needs->count = 0;
    needs->widths = (struct gb_graph_widths){.context = {NULL}};
    needs->kernels = (struct gb_launch_need){0, false};
    needs->current = needs->only = NULL;
    memset(needs->elsewhere, 0, sizeof(needs->elsewhere));
    needs->unread = false;
    /* A driver without allocation nodes (before CUDA 11.4) has nothing to tell. */
    if (!graph || !api->cuGraphMemAllocNodeGetParams || !api->cuGraphGetNodes ||
        !api->cuGraphNodeGetType || !api->cuGraphChildGraphNodeGetGraph)
        return true;
    if (api->cuCtxGetCurrent(&needs->current) != CUDA_SUCCESS)
        needs->current = NULL;
    /* Those of a device without a limit are not counted. */
    if (gb_library_contexts() <= 1 && gb_process_only(drv))
        needs->only = needs->current;
    saved = gb_capture_relax(api);
    complete = read_nodes(drv, graph, 0, needs, needs->widths.width);
    gb_capture_restore(api, &saved);
    return complete;
}

/* The function that the driver has made of a kernel for a context, which is all that a node may
 * tell of it. */
static void note_function_of(struct gb_driver *drv, CUkernel kernel, CUcontext context)
{
    const struct gb_driver_api *api = &drv->api;
    struct gb_capture_mode saved;
    CUfunction function = NULL;
    bool is_kernel, pushed = false;

    if (!gb_known_origin(kernel, &is_kernel) || !is_kernel ||
        !GB_REAL(drv, cuKernelGetFunction) || (context && !gb_enter(api, context, &pushed)))
        return;
    saved = gb_capture_relax(api);
    if (GB_REAL(drv, cuKernelGetFunction)(&function, kernel) == CUDA_SUCCESS &&
        (context || api->cuCtxGetCurrent(&context) == CUDA_SUCCESS))
        gb_known_function_of(function, kernel, context);
    gb_capture_restore(api, &saved);
    gb_leave(api, pushed);
}

void gb_graph_note_kernel(struct gb_driver *drv, CUfunction function, CUcontext context)
{
    const struct gb_launch_need need = gb_local_need(drv, function);
    uint64_t most = atomic_load(&bodies_local);

    while (need.local > most && !atomic_compare_exchange_weak(&bodies_local, &most, need.local))
        ;
    if (need.heap)
        atomic_store(&bodies_heap, true);
    if (need.local > 0 || need.heap)
        note_function_of(drv, (CUkernel)(void *)function, context);
}

struct gb_executable *gb_executable_new(void)
{
    return calloc(1, sizeof(struct gb_executable));
}

static struct gb_executable *find(struct gb_driver *drv, CUgraphExec handle)
{
    const struct gb_executable_key key = {.drv = drv, .handle = handle};
    struct gb_executable *found;

    HASH_FIND(hh, table, &key, sizeof(key), found);
    return found;
}

/* With the lock held. */
static void look_at(struct gb_executable *executable)
{
    if (!executable->is_looked_at)
        atomic_fetch_add(&gb_executables_count, 1);
    executable->is_looked_at = true;
}

bool gb_executable_add(struct gb_executable *executable, struct gb_driver *drv,
                       CUgraphExec handle)
{
    bool added;

    gb_fork_on_child(in_child);
    /* One that comes back may need more than at its instantiation. */
    if (executable->needs.kernels.local > atomic_load(&executable->local))
        atomic_store(&executable->local, executable->needs.kernels.local);
    if (executable->needs.kernels.heap)
        atomic_store(&executable->heap, true);
    executable->key = (struct gb_executable_key){.drv = drv, .handle = handle};
    executable->hh.tbl = NULL;
    gb_lock_take(&lock);
    HASH_ADD(hh, table, key, sizeof(executable->key), executable);
    added = executable->hh.tbl != NULL;
    if (added)
        atomic_fetch_add(&known, 1);
    if (added && (gb_graph_needs_any(&executable->needs) ||
                  atomic_load(&executable->local) > 0 || atomic_load(&executable->heap)))
        look_at(executable);
    gb_lock_drop(&lock);
    return added;
}

void gb_executable_needs(struct gb_driver *drv, CUgraphExec handle,
                         const struct gb_launch_need *need)
{
    struct gb_executable *executable;
    uint64_t before;

    if (need->local == 0 && !need->heap)
        return;
    executable = gb_executable_get(drv, handle);
    if (executable) {
        before = atomic_load(&executable->local);
        while (need->local > before &&
               !atomic_compare_exchange_weak(&executable->local, &before, need->local))
            ;
        if (need->heap)
            atomic_store(&executable->heap, true);
        gb_lock_take(&lock);
        if (!executable->gone)
            look_at(executable);
        gb_lock_drop(&lock);
        gb_executable_put(executable);
        return;
    }
    executable = gb_executable_new();
    if (!executable)
        return; /* then its launch is charged after it has run */
    executable->needs.kernels = *need;
    if (!gb_executable_add(executable, drv, handle))
        free(executable);
}

struct gb_executable *gb_executable_get(struct gb_driver *drv, CUgraphExec handle)
{
    struct gb_executable *found;

    gb_lock_take(&lock);
    found = find(drv, handle);
    if (found)
        found->users++;
    gb_lock_drop(&lock);
    return found;
}

void gb_executable_put(struct gb_executable *executable)
{
    bool last;

    gb_lock_take(&lock);
    last = --executable->users == 0 && executable->gone;
    gb_lock_drop(&lock);
    if (last)
        free(executable);
}

struct gb_executable *gb_executable_take(struct gb_driver *drv, CUgraphExec handle)
{
    struct gb_executable *found;

    if (atomic_load(&known) == 0)
        return NULL;
    gb_lock_take(&lock);
    found = find(drv, handle);
    if (found) {
        HASH_DELETE(hh, table, found);
        atomic_fetch_sub(&known, 1);
        if (found->is_looked_at)
            atomic_fetch_sub(&gb_executables_count, 1);
        found->is_looked_at = false;
    }
    gb_lock_drop(&lock);
    return found;
}

bool gb_executable_counts(const struct gb_executable *executable)
{
    for (int i = 0; i < GB_GRAPH_CONTEXTS; i++)
        if (executable->counted[i].in)
            return true;
    return false;
}

void gb_executable_uncount(struct gb_executable *executable)
{
    for (int i = 0; i < GB_GRAPH_CONTEXTS; i++) {
        struct gb_counted *counted = &executable->counted[i];

        if (counted->in)
            gb_contexts_nodes_end(counted->in, counted->context, counted->serial,
                                  counted->nodes);
        counted->in = NULL;
    }
}

void gb_executable_end(struct gb_executable *executable)
{
    bool unused;

    gb_lock_take(&lock);
    executable->gone = true;
    unused = executable->users == 0;
    gb_lock_drop(&lock);
    if (unused)
        free(executable);
}
