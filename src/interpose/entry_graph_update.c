/*
 * entry_graph_update.c: kernels of an executable become others, which may need more: at once
 * (measured), and at its next launch.
 */
#include "interpose/graph_call.h"
#include "interpose/functions_known.h"
#include "interpose/library_use.h"
#include "interpose/local_memory.h"

#include <stddef.h>

/* What is not launched under a measuring budget need not be known. */
static bool is_watched(CUresult code)
{
    return code == CUDA_SUCCESS && !gb_graph_is_requested() && gb_process_device_count() > 0;
}

static void needs_kernel(struct gb_driver *drv, CUgraphExec handle, const void *kernel)
{
    const struct gb_launch_need need = gb_local_need(drv, (CUfunction)(uintptr_t)kernel);

    gb_executable_needs(drv, handle, &need);
}

static void needs_graph(struct gb_driver *drv, CUgraphExec handle, CUgraph graph)
{
    struct gb_graph_needs needs;

    if (gb_graph_read_needs(drv, graph, &needs))
        gb_executable_needs(drv, handle, &needs.kernels);
}

/* The driver's call with the program's own arguments. */
struct change {
    struct gb_driver *drv;
    CUgraphExec executable;
    CUgraphNode node;
    CUgraph graph;
    const CUDA_KERNEL_NODE_PARAMS_v1 *kernel_v1;
    const CUDA_KERNEL_NODE_PARAMS_v2 *kernel_v2;
    CUgraphNodeParams *params;
    CUgraphNode *error_node;
    CUgraphExecUpdateResult *result;
    CUgraphExecUpdateResultInfo *info;
    gb_launch_fn run;
};

static CUresult set_kernel_v1(void *arg)
{
    const struct change *c = arg;

    return GB_REAL(c->drv, cuGraphExecKernelNodeSetParams)(c->executable, c->node,
                                                           c->kernel_v1);
}

static CUresult set_kernel_v2(void *arg)
{
    const struct change *c = arg;

    return GB_REAL(c->drv, cuGraphExecKernelNodeSetParams_v2)(c->executable, c->node,
                                                              c->kernel_v2);
}

static CUresult set_child(void *arg)
{
    const struct change *c = arg;

    return GB_REAL(c->drv, cuGraphExecChildGraphNodeSetParams)(c->executable, c->node,
                                                               c->graph);
}

static CUresult set_node(void *arg)
{
    const struct change *c = arg;

    return GB_REAL(c->drv, cuGraphExecNodeSetParams)(c->executable, c->node, c->params);
}

static CUresult update(void *arg)
{
    const struct change *c = arg;

    return GB_REAL(c->drv, cuGraphExecUpdate)(c->executable, c->graph, c->error_node,
                                              c->result);
}

static CUresult update_v2(void *arg)
{
    const struct change *c = arg;

    return GB_REAL(c->drv, cuGraphExecUpdate_v2)(c->executable, c->graph, c->info);
}

/* What a node will launch, and its context; NULL: the current one. */
struct kernel {
    const void *handle;
    CUcontext context;
};

static struct kernel kernel_of(CUfunction function, CUkernel kernel, CUcontext context)
{
    /* What a node has beside a function is not its context (manual). */
    return (struct kernel){gb_graph_kernel(function, kernel),
                           function ? gb_known_context(function) : context};
}

static CUresult bring_library(struct gb_driver *drv, const struct kernel *kernel,
                              const char *call)
{
    return gb_library_bring_kernel_in(drv, kernel->handle, kernel->context, call);
}

/* Local memory comes to the kernel's own context, whichever is current. */
static void need_kernel(struct gb_driver *drv, const struct kernel *kernel,
                        struct gb_graph_needs *needs)
{
    CUcontext current = NULL;

    needs->kernels = gb_local_need(drv, (CUfunction)(uintptr_t)kernel->handle);
    if (!kernel->context || drv->api.cuCtxGetCurrent(&current) != CUDA_SUCCESS ||
        current == kernel->context)
        return;
    needs->widths.context[1] = kernel->context;
    needs->elsewhere[1] = needs->kernels.local;
    needs->kernels.local = 0;
}

/* Makes the change, with room for the local memory of the kernel or graph that comes in. */
static CUresult change(struct change *c, const struct kernel *kernel, CUgraph graph,
                       const char *call)
{
    struct gb_graph_needs needs = {.kernels = {0, false}};
    CUresult code;

    if (gb_graph_is_requested() || gb_process_device_count() == 0)
        return c->run(c);
    if (kernel && kernel->handle)
        need_kernel(c->drv, kernel, &needs);
    else if (graph && !gb_graph_read_needs(c->drv, graph, &needs))
        needs = (struct gb_graph_needs){.kernels = {0, false}};
    code = gb_local_bring(c->drv, &needs, call);
    if (code != CUDA_SUCCESS)
        return code;
    return gb_local_prepare(c->drv, &needs.kernels, c->run, c, call);
}

CUresult gb_enter_cuGraphExecKernelNodeSetParams(struct gb_driver *drv, CUgraphExec hGraphExec,
                                                 CUgraphNode hNode,
                                                 const CUDA_KERNEL_NODE_PARAMS_v1 *nodeParams)
{
    const struct kernel kernel = kernel_of(nodeParams ? nodeParams->func : NULL, NULL, NULL);
    CUresult code = bring_library(drv, &kernel, "cuGraphExecKernelNodeSetParams");

    if (code != CUDA_SUCCESS)
        return code;
    code = change(&(struct change){.drv = drv,
                                   .executable = hGraphExec,
                                   .node = hNode,
                                   .kernel_v1 = nodeParams,
                                   .run = set_kernel_v1},
                  &kernel, NULL, "cuGraphExecKernelNodeSetParams");
    if (is_watched(code) && kernel.handle)
        needs_kernel(drv, hGraphExec, kernel.handle);
    return code;
}

CUresult
gb_enter_cuGraphExecKernelNodeSetParams_v2(struct gb_driver *drv, CUgraphExec hGraphExec,
                                           CUgraphNode hNode,
                                           const CUDA_KERNEL_NODE_PARAMS_v2 *nodeParams)
{
    const struct kernel kernel =
        nodeParams ? kernel_of(nodeParams->func, nodeParams->kern, nodeParams->ctx)
                   : (struct kernel){NULL, NULL};
    CUresult code = bring_library(drv, &kernel, "cuGraphExecKernelNodeSetParams");

    if (code != CUDA_SUCCESS)
        return code;
    code = change(&(struct change){.drv = drv,
                                   .executable = hGraphExec,
                                   .node = hNode,
                                   .kernel_v2 = nodeParams,
                                   .run = set_kernel_v2},
                  &kernel, NULL, "cuGraphExecKernelNodeSetParams");
    if (is_watched(code) && kernel.handle)
        needs_kernel(drv, hGraphExec, kernel.handle);
    return code;
}

CUresult gb_enter_cuGraphExecChildGraphNodeSetParams(struct gb_driver *drv,
                                                     CUgraphExec hGraphExec, CUgraphNode hNode,
                                                     CUgraph childGraph)
{
    CUresult code = change(&(struct change){.drv = drv,
                                            .executable = hGraphExec,
                                            .node = hNode,
                                            .graph = childGraph,
                                            .run = set_child},
                           NULL, childGraph, "cuGraphExecChildGraphNodeSetParams");

    if (is_watched(code))
        needs_graph(drv, hGraphExec, childGraph);
    return code;
}

CUresult gb_enter_cuGraphExecNodeSetParams(struct gb_driver *drv, CUgraphExec hGraphExec,
                                           CUgraphNode hNode, CUgraphNodeParams *nodeParams)
{
    const struct kernel kernel =
        nodeParams && nodeParams->type == CU_GRAPH_NODE_TYPE_KERNEL
            ? kernel_of(nodeParams->kernel.func, nodeParams->kernel.kern,
                        nodeParams->kernel.ctx)
            : (struct kernel){NULL, NULL};
    CUresult code = bring_library(drv, &kernel, "cuGraphExecNodeSetParams");

    if (code != CUDA_SUCCESS)
        return code;
    code = change(&(struct change){.drv = drv,
                                   .executable = hGraphExec,
                                   .node = hNode,
                                   .params = nodeParams,
                                   .run = set_node},
                  &kernel,
                  nodeParams && nodeParams->type == CU_GRAPH_NODE_TYPE_GRAPH
                      ? nodeParams->graph.graph
                      : NULL,
                  "cuGraphExecNodeSetParams");
    if (!is_watched(code) || !nodeParams)
        return code;
    if (kernel.handle)
        needs_kernel(drv, hGraphExec, kernel.handle);
    else if (nodeParams->type == CU_GRAPH_NODE_TYPE_GRAPH)
        needs_graph(drv, hGraphExec, nodeParams->graph.graph);
    return code;
}

CUresult gb_enter_cuGraphExecUpdate(struct gb_driver *drv, CUgraphExec hGraphExec,
                                    CUgraph hGraph, CUgraphNode *hErrorNode_out,
                                    CUgraphExecUpdateResult *updateResult_out)
{
    CUresult code = change(&(struct change){.drv = drv,
                                            .executable = hGraphExec,
                                            .graph = hGraph,
                                            .error_node = hErrorNode_out,
                                            .result = updateResult_out,
                                            .run = update},
                           NULL, hGraph, "cuGraphExecUpdate");

    if (is_watched(code))
        needs_graph(drv, hGraphExec, hGraph);
    return code;
}

CUresult gb_enter_cuGraphExecUpdate_v2(struct gb_driver *drv, CUgraphExec hGraphExec,
                                       CUgraph hGraph, CUgraphExecUpdateResultInfo *resultInfo)
{
    CUresult code = change(&(struct change){.drv = drv,
                                            .executable = hGraphExec,
                                            .graph = hGraph,
                                            .info = resultInfo,
                                            .run = update_v2},
                           NULL, hGraph, "cuGraphExecUpdate");

    if (is_watched(code))
        needs_graph(drv, hGraphExec, hGraph);
    return code;
}
