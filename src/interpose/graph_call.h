/*
 * graph_call.h: what the calls about executables share: their memory as a request.
 */
#ifndef GB_INTERPOSE_GRAPH_CALL_H
#define GB_INTERPOSE_GRAPH_CALL_H

#include "interpose/call.h"
#include "interpose/executables.h"
#include "interpose/handlers.h"

/* One need of an executable as a request: the same steps, whichever call brings it about. */
struct gb_graph_call {
    struct gb_call call;
    CUresult (*take)(struct gb_graph_call *graph);
    CUresult (*undo)(struct gb_graph_call *graph);
    CUgraphExec handle; /* the program's output, or argument */
    CUgraphExec before;
    CUgraph graph;
    CUstream stream;
    gb_fn_cuGraphUpload *upload;
    CUgraphNode *error_node;
    char *log;
    size_t log_size;
    unsigned long long flags;
    CUDA_GRAPH_INSTANTIATE_PARAMS *params;
    gb_fn_cuGraphInstantiate *instantiate;
    gb_fn_cuGraphInstantiateWithParams *instantiate_with_params;
};

/* Sends one need of it down the device's stack; answers what the program gets. */
CUresult gb_graph_ask(struct gb_graph_call *graph, struct gb_device *device,
                      const struct gb_graph_need *need);

/* Does what is asked for count, and not what is taken? */
bool gb_graph_is_requested(void);

/* What has run may have taken more: executables that run at the same time do not share. */
void gb_graph_look(struct gb_driver *drv, const struct gb_executable *executable);

/* Requested mode: an executable that has ended is charged no longer. */
void gb_graph_give_back(const struct gb_executable *executable);

#endif
