/* The part of sim.h about capture and graphs; included by it alone. */
#ifndef STANDIN_SIM_GRAPH_H
#define STANDIN_SIM_GRAPH_H

/* ---- capture and graphs ---- */

struct sim_node;

struct sim_capture {
    struct sim_capture *next;
    struct sim_stream *origin;
    CUstreamCaptureMode mode;
    uint64_t thread;
    bool spoiled;
    struct sim_graph *graph;
    bool borrowed; /* the graph is the program's and stays */
    uint64_t id;
};

/* For calls that a capture forbids: 900, and the capture is spoiled. */
CUresult sim_unsafe(void);
#define SIM_UNSAFE()                                                                           \
    do {                                                                                       \
        CUresult sim_unsafe_ = sim_unsafe();                                                   \
        if (sim_unsafe_)                                                                       \
            return sim_unsafe_;                                                                \
    } while (0)
/* 900 if any stream of the context captures, and that is spoiled. */
CUresult sim_capture_in(const struct sim_context *context);
struct sim_capture *sim_capture_find(uint64_t id); /* NULL: over */
void sim_spoil(struct sim_capture *capture);
CUresult sim_capture_status(struct sim_stream *stream, CUstreamCaptureStatus *status);
void sim_capture_forget_stream(struct sim_stream *stream);
/* Work on a stream: 0 go on; *captured: it was recorded into a graph instead. */
CUresult sim_capture_work(struct sim_stream *stream, bool *captured);
/* The same; the node that it became, or NULL. */
CUresult sim_capture_node(struct sim_stream *stream, CUgraphNodeType type,
                          struct sim_node **node);
CUresult sim_capture_implicit(struct sim_stream *stream); /* 906 for the legacy stream */
void sim_capture_event(struct sim_event *event, struct sim_stream *stream);
CUresult sim_capture_wait(struct sim_stream *stream, struct sim_event *event, bool *captured);

struct sim_graph_memory { /* one allocation node's address range */
    uint64_t address, bytes;
    struct sim_card *card;
    bool live;           /* launched and not yet freed */
    unsigned references; /* nodes and executables that name it */
    UT_hash_handle hh;
};

struct sim_node {
    struct sim_object object;
    uint64_t id;     /* never used twice, as addresses are */
    uint64_t origin; /* the id of the one that it was cloned from */
    struct sim_graph *graph;
    struct sim_node *next;
    CUgraphNodeType type;
    struct sim_graph_memory *memory; /* allocation and free nodes */
    CUDA_MEM_ALLOC_NODE_PARAMS params;
    uint64_t address;
    struct sim_function *function; /* kernel nodes */
    CUDA_KERNEL_NODE_PARAMS_v3 launch;
    union {
        CUDA_MEMCPY3D copy;
        CUDA_MEMSET_NODE_PARAMS_v1 fill;
        CUDA_HOST_NODE_PARAMS_v1 host;
    } work;
    CUgraph *children; /* the child graph, or the bodies of a conditional node */
    unsigned child_count;
    struct sim_node *then; /* see sim_graph_chains; as it was then */
    bool behind, works;    /* works: it is a kernel, or has some */
};

struct sim_edge {
    struct sim_node *from, *to;
};

struct sim_graph {
    struct sim_object object;
    uint64_t id;
    struct sim_node *nodes, *last;
    unsigned count;
    struct sim_edge *edges;
    size_t edge_count;
    struct sim_node *owner; /* NULL: the program's own */
    bool moved;             /* into its owner: it may allocate */
    unsigned execs;         /* executables of it; one at most where it allocates */
};

/* Of an executable: the nodes in order, those of a child graph or of conditional bodies right
 * behind the node that has them. */
struct sim_step {
    uint64_t id; /* the node's */
    CUgraphNodeType type;
    unsigned span; /* steps behind this one that belong to it */
    bool disabled;
    struct sim_graph_memory *memory;
    bool frees;
    struct sim_context *context; /* kernels: whose local memory they use */
    uint64_t width;              /* of its context's kernels, so many are beside others: */
    uint64_t counted_in;         /* counted by that context, by its id; 0: with another step */
    uint64_t local;
    bool allocates, prints;        /* kernels: as in struct sim_code */
    struct sim_function *function; /* may be gone */
    CUDA_KERNEL_NODE_PARAMS_v3 launch;
    CUDA_HOST_NODE_PARAMS_v1 host;
};

struct sim_exec {
    struct sim_object object;
    struct sim_graph *graph; /* may be gone; then its id is not */
    uint64_t graph_id;
    struct sim_step *steps;
    unsigned count;
    bool memory_inside; /* in a child, or a body */
    bool has_memory;
    uint64_t peak[SIM_MAX_CARDS]; /* of memory live at a time, by the card's index */
    bool auto_free;
    uint64_t flags;
};

struct sim_graph *sim_graph_new(void);
void sim_graph_end(struct sim_graph *graph);
bool sim_graph_has(const struct sim_graph *graph, bool memory,
                   bool conditional); /* any depth */
/* The graph that a node is to be added to, if the nodes it shall depend on are its own. */
struct sim_graph *sim_graph_for(CUgraph handle, const CUgraphNode *dependencies, size_t count);
void sim_node_depend(struct sim_node *node, const CUgraphNode *dependencies, size_t count);
void sim_edges_of_node_end(struct sim_node *node);
void sim_graph_chains(const struct sim_graph *graph); /* links the nodes */
/* In how many chains there are kernels of the context; a child counts as one node of its own
 * width. */
uint64_t sim_graph_width(const struct sim_graph *graph, const struct sim_context *context);
/* The start of every call that adds a node, bare of all but its type. */
CUresult sim_node_begin(CUgraphNode *phGraphNode, CUgraph hGraph,
                        const CUgraphNode *dependencies, size_t count, const void *params,
                        CUgraphNodeType type, struct sim_node **node);
struct sim_node *sim_node_of(CUgraphNode handle, CUgraphNodeType type); /* NULL: no such */
void sim_node_own(struct sim_node *node, unsigned children); /* new empty graphs in it */
void sim_graph_copy(struct sim_graph *to, const struct sim_graph *from);
CUresult sim_node_set_kernel(struct sim_node *node, const CUDA_KERNEL_NODE_PARAMS_v3 *what);
void sim_node_keep_kernel(struct sim_node *node, const CUDA_KERNEL_NODE_PARAMS_v3 *what,
                          struct sim_function *function);
CUresult sim_kernel_of(const CUDA_KERNEL_NODE_PARAMS_v3 *what, struct sim_function **function);
void sim_step_set_kernel(struct sim_step *step, struct sim_function *function,
                         const CUDA_KERNEL_NODE_PARAMS_v3 *what);
CUresult sim_exec_fill(struct sim_exec *exec, const struct sim_graph *graph);
void sim_exec_end(struct sim_exec *exec);
struct sim_step *sim_exec_step(struct sim_exec *exec, CUgraphNode handle);
CUresult sim_exec_upload(struct sim_exec *exec, CUstream stream, bool per_thread);
/* What kernels need comes to their contexts; launched: they also run. May wait. */
CUresult sim_steps_come(const struct sim_step *steps, unsigned count, bool launched);
CUresult sim_steps_update(struct sim_step *steps, const struct sim_step *from, unsigned count,
                          CUgraphExecUpdateResult *result, uint64_t *node);
void sim_node_end(struct sim_node *node);
struct sim_node *sim_node_add(struct sim_graph *graph, CUgraphNodeType type);
CUresult sim_node_add_alloc(struct sim_graph *graph, struct sim_card *card, uint64_t bytes,
                            struct sim_node **node);
CUresult sim_node_add_free(struct sim_graph *graph, uint64_t address, struct sim_node **node);
struct sim_graph_memory *sim_graph_memory_find(uint64_t address);
bool sim_graph_memory_around(uint64_t address, uint64_t bytes); /* inside a live one */
void sim_graph_memory_free(struct sim_graph_memory *memory);
void sim_graph_memory_drop(struct sim_graph_memory *memory);

#endif
