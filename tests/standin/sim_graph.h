/* The part of sim.h about capture, graphs and modules; included by it alone. */
#ifndef STANDIN_SIM_GRAPH_H
#define STANDIN_SIM_GRAPH_H

/* ---- capture and graphs ---- */

struct sim_capture {
    struct sim_capture *next;
    struct sim_stream *origin;
    CUstreamCaptureMode mode;
    uint64_t thread;
    bool spoiled;
    struct sim_graph *graph;
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
    struct sim_graph *graph;
    struct sim_node *next;
    CUgraphNodeType type;
    struct sim_graph_memory *memory; /* allocation and free nodes */
    CUDA_MEM_ALLOC_NODE_PARAMS params;
    uint64_t address;
};

struct sim_graph {
    struct sim_object object;
    struct sim_node *nodes, *last;
    unsigned count;
};

struct sim_exec {
    struct sim_object object;
    struct sim_card *card;
    struct {
        struct sim_graph_memory *memory;
        bool frees;
    } * steps;
    unsigned count;
    uint64_t peak;
    bool auto_free;
    uint64_t flags;
};

struct sim_graph *sim_graph_new(void);
void sim_graph_end(struct sim_graph *graph);
struct sim_node *sim_node_add(struct sim_graph *graph, CUgraphNodeType type);
CUresult sim_node_add_alloc(struct sim_graph *graph, struct sim_card *card, uint64_t bytes,
                            struct sim_node **node);
CUresult sim_node_add_free(struct sim_graph *graph, uint64_t address, struct sim_node **node);
struct sim_graph_memory *sim_graph_memory_find(uint64_t address);
bool sim_graph_memory_around(uint64_t address, uint64_t bytes); /* inside a live one */
void sim_graph_memory_free(struct sim_graph_memory *memory);
void sim_graph_memory_drop(struct sim_graph_memory *memory);

/* ---- modules ---- */

struct sim_module {
    struct sim_object object;
    struct sim_context *context;
    struct sim_module *next;
    uint64_t bytes;
    struct sim_block *block;
    struct sim_global *globals;
    struct sim_function *functions;
};

void sim_module_end(struct sim_module *module);

#endif
