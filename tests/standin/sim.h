/* The inside of the stand-in driver: what its files share. One lock guards everything here; every
 * exported function holds it from SIM_ENTER to its return, but for waits, which let go of it. */
#ifndef STANDIN_SIM_H
#define STANDIN_SIM_H

/* The first and the later forms of a name are two functions here, as in the library. */
#define __CUDA_API_VERSION_INTERNAL
#include <cuda.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* Every key of every table here is 8 bytes long. */
static inline unsigned sim_hash(const void *key)
{
    uint64_t word;
    memcpy(&word, key, sizeof(word));
    return (unsigned)((word * 0x9e3779b97f4a7c15u) >> 32);
}
#define HASH_FUNCTION(key, length, value) ((value) = sim_hash(key))
#include <uthash.h>

#include "settings.h"

#define SIM_KIB ((uint64_t)1024)
#define SIM_MIB (SIM_KIB * 1024)
#define SIM_GIB (SIM_MIB * 1024)

extern const int sim_driver_version;

/* ---- calls: lock, counters, faults (state.c, faults.c) ---- */

#define SIM_ARG_BYTES 512

struct sim_call {
    const char *name;
    struct sim_call *next; /* registered at the first call; never removed */
    bool registered;
    unsigned long count;
    unsigned long rules_seen; /* generation of the fault rules that `ruled` reflects */
    bool ruled;               /* some rule or delay names this call */
    size_t arg_bytes;
    unsigned char args[SIM_ARG_BYTES];
};

/* Takes the lock, counts, applies faults. Without `any_time` an uninitialised driver answers 3.
 * On failure the lock is not held. */
CUresult sim_enter(struct sim_call *call, bool any_time, const uint64_t *words, size_t count);
void sim_lock(void);
void sim_unlock(void);
void sim_unlock_guard(int *unused);
void sim_note(struct sim_call *call, const void *bytes, size_t size);
bool sim_initialised(void);
CUresult sim_init(void); /* under the lock */
CUresult sim_call_faults(struct sim_call *call, unsigned long *delay);
void sim_faults_read(void);
struct sim_call *sim_calls(void);

#define SIM_ENTER_WITH(any_time, function, ...)                                                \
    static struct sim_call sim_call_ = {.name = #function};                                    \
    const uint64_t sim_words_[] = {0, ##__VA_ARGS__};                                          \
    CUresult sim_entered_ =                                                                    \
        sim_enter(&sim_call_, any_time, sim_words_ + 1, sizeof(sim_words_) / 8 - 1);           \
    if (sim_entered_)                                                                          \
        return sim_entered_;                                                                   \
    __attribute__((cleanup(sim_unlock_guard), unused)) int sim_guard_ = 0
/* The exported function's name, then its arguments, each as W(argument). */
#define SIM_ENTER(function, ...) SIM_ENTER_WITH(false, function, ##__VA_ARGS__)
#define SIM_ENTER_ANY_TIME(function, ...) SIM_ENTER_WITH(true, function, ##__VA_ARGS__)
#define SIM_NOTE(bytes, size) sim_note(&sim_call_, bytes, size)
#define W(argument) ((uint64_t)(uintptr_t)(argument))

/* Lets go of the lock for a moment; for waits. */
void sim_pause(void);

/* ---- handles (objects.c) ---- */

enum sim_kind {
    SIM_CONTEXT,
    SIM_STREAM,
    SIM_EVENT,
    SIM_POOL,
    SIM_GRAPH,
    SIM_NODE,
    SIM_EXEC,
    SIM_MODULE,
    SIM_FUNCTION,
    SIM_HANDLE
};

/* First member of whatever is handed out as an opaque handle. */
struct sim_object {
    enum sim_kind kind;
    void *key; /* its own address */
    UT_hash_handle hh;
};

void sim_object_add(void *object, enum sim_kind kind);
void sim_object_remove(void *object);
void *sim_object_find(const void *handle, enum sim_kind kind); /* NULL: no such live object */
void *sim_new(size_t size);                                    /* zeroed; never NULL */

/* ---- cards: the physical memory (card.c) ---- */

enum sim_use {
    SIM_USE_CONTEXT,
    SIM_USE_DIRECT,
    SIM_USE_POOL,
    SIM_USE_HANDLE,
    SIM_USE_MODULE,
    SIM_USE_GRAPH,
    SIM_USE_MANAGED, /* NVML does not attribute it to the process */
    SIM_USES
};

struct sim_card {
    int index;   /* physical */
    int ordinal; /* what the program calls it; -1: not visible */
    uint64_t total, other;
    uint64_t use[SIM_USES];
    uint64_t live, peak;
    uint64_t used_by_pools, pending, blocks;
    bool managed_touched;
    struct sim_context *primary;
    unsigned primary_flags;
    struct sim_pool *default_pool, *current_pool;
    uint64_t graph_live, graph_used_high, graph_reserved_high;
};

extern struct sim_settings sim_settings;
extern struct sim_card sim_cards[SIM_MAX_CARDS];
extern int sim_visible_count;
void sim_cards_begin(void);
struct sim_card *sim_card_of(CUdevice device); /* NULL: no such ordinal */
bool sim_card_take(struct sim_card *card, enum sim_use use, uint64_t bytes);
void sim_card_give(struct sim_card *card, enum sim_use use, uint64_t bytes);
uint64_t sim_card_free(const struct sim_card *card);

static inline uint64_t sim_round_up(uint64_t bytes, uint64_t to)
{
    return (bytes + to - 1) / to * to;
}

/* ---- address ranges and blocks (ranges.c, heap.c) ---- */

enum sim_range_kind {
    SIM_RANGE_DIRECT,
    SIM_RANGE_POOL,
    SIM_RANGE_GRAPH,
    SIM_RANGE_MANAGED,
    SIM_RANGE_HOST,
    SIM_RANGE_RESERVED, /* cuMemAddressReserve */
    SIM_RANGE_MODULE,
    SIM_RANGE_IMPORTED
};

enum sim_block_state { SIM_BLOCK_FREE, SIM_BLOCK_LIVE, SIM_BLOCK_PENDING };

/* A piece of a range. The blocks of a range tile it without gaps. */
struct sim_block {
    uint64_t base, size; /* size as rounded */
    uint64_t asked;
    enum sim_block_state state;
    struct sim_range *range;
    struct sim_block *before, *after;     /* neighbours in the range */
    struct sim_block *bin_next, *bin_prev; /* free: in its heap's bin; pending: its stream's */
    struct sim_stream *stream;            /* pending on, until it has done `ticket` pieces */
    uint64_t ticket;
    struct sim_context *context; /* direct, managed, module blocks end with it */
    bool freeing; /* a stream will free it */
    uint64_t buffer_id;
    unsigned flags;
    UT_hash_handle hh; /* live blocks by base */
};

struct sim_range {
    uint64_t base, size;
    enum sim_range_kind kind;
    struct sim_card *card; /* NULL: host */
    struct sim_heap *heap; /* NULL: not part of a heap */
    struct sim_block *first;
    uint64_t unfree;                     /* live and pending bytes */
    struct sim_range *next, *prev;       /* in its heap */
    struct sim_range *idle_next, *idle_prev; /* in its heap, while wholly free */
    bool physical;                       /* managed: on the card */
    void *more;                          /* what its kind needs */
};

/* A range with one live block; `base` 0 picks an address of the card (`low`: below 4 GiB). */
struct sim_block *sim_range_single(enum sim_range_kind kind, struct sim_card *card, uint64_t base,
                                   uint64_t size, uint64_t asked, bool low);
void sim_range_drop(struct sim_range *range); /* blocks too; gives the addresses back */
struct sim_range *sim_range_new(enum sim_range_kind kind, struct sim_card *card, uint64_t base,
                                uint64_t size, bool low);
struct sim_range *sim_range_find(uint64_t address);         /* any address inside */
struct sim_block *sim_block_find(uint64_t base);            /* a live block's first address */
struct sim_block *sim_block_around(uint64_t address);       /* a live block around it */
void sim_block_live(struct sim_block *block);               /* enters the table */
void sim_block_gone(struct sim_block *block);               /* leaves the table */
uint64_t sim_address_take(uint64_t size, bool low);
void sim_address_give(uint64_t base, uint64_t size, bool low);
struct sim_range **sim_ranges(size_t *count); /* all, by address */

#define SIM_BINS 256

struct sim_heap {
    enum sim_range_kind kind;
    enum sim_use use;
    struct sim_card *card; /* NULL: host memory */
    uint64_t step, align, limit;
    bool keep; /* a wholly free range stays until trimmed */
    bool low;
    uint64_t reserved, used, used_high, reserved_high;
    struct sim_range *ranges, *idle;
    struct sim_block *bins[SIM_BINS];
    uint64_t bin_bits[SIM_BINS / 64];
    void *owner;
};

struct sim_block *sim_heap_take(struct sim_heap *heap, uint64_t size); /* NULL: nothing fits */
CUresult sim_heap_grow(struct sim_heap *heap, uint64_t size);          /* so that size fits */
void sim_heap_return(struct sim_heap *heap, struct sim_block *block);  /* pending or live */
void sim_heap_trim(struct sim_heap *heap, uint64_t keep);
void sim_heap_end(struct sim_heap *heap);
struct sim_block *sim_block_split(struct sim_block *block, uint64_t size);
void sim_bin_add(struct sim_heap *heap, struct sim_block *block);

/* ---- contexts (context.c) ---- */

#define SIM_STACK_DEPTH 64

struct sim_context {
    struct sim_object object;
    struct sim_card *card;
    bool ended; /* never freed, so that a stale handle can be told */
    bool primary;
    unsigned references; /* primary: retains; else: cuCtxAttach's */
    unsigned flags;
    unsigned version;
    uint64_t id;
    uint64_t limits[CU_LIMIT_MAX];
    struct sim_heap direct, direct_low; /* of blocks that share regions */
    struct sim_stream *legacy;
    struct sim_stream *streams; /* all of them, legacy and per-thread ones included */
    struct sim_event *events;
    struct sim_module *modules;
    struct sim_context *next; /* all there ever were */
};

struct sim_thread {
    struct sim_context *stack[SIM_STACK_DEPTH];
    int depth;
    CUstreamCaptureMode mode;
    uint64_t id;
};

extern __thread struct sim_thread sim_thread;
uint64_t sim_thread_id(void);
CUresult sim_current(struct sim_context **context);
struct sim_context *sim_context_find(CUcontext handle, CUresult *code);
CUresult sim_context_begin(struct sim_card *card, unsigned flags, unsigned version,
                           struct sim_context **context);
CUresult sim_context_start(struct sim_context *context); /* takes the card's memory */
void sim_context_end(struct sim_context *context);
CUresult sim_push(struct sim_context *context);
struct sim_context *sim_contexts(void);

#define SIM_CURRENT(context)                                                                   \
    struct sim_context *context;                                                               \
    do {                                                                                       \
        CUresult sim_current_ = sim_current(&context);                                         \
        if (sim_current_)                                                                      \
            return sim_current_;                                                               \
    } while (0)

/* ---- streams (queue.c, stream.c) ---- */

enum sim_work {
    SIM_WORK_NOTHING, /* a kernel, a copy, an event's mark */
    SIM_WORK_WAIT_STREAM,
    SIM_WORK_WAIT_VALUE,
    SIM_WORK_WRITE_VALUE,
    SIM_WORK_FREE, /* of a block of another family than pools */
    SIM_WORK_HOST_FUNCTION,
    SIM_WORK_GRAPH_FREE
};

struct sim_piece {
    enum sim_work work;
    struct sim_piece *next;
    struct sim_stream *on; /* WAIT_STREAM: until it has done `ticket` pieces */
    uint64_t ticket;
    uint64_t address, value; /* WAIT_VALUE, WRITE_VALUE; FREE: the block's base */
    unsigned flags;
    bool wide;
    CUhostFn function;
    void *argument;
    bool running;
};

#define SIM_SEEN 8

struct sim_stream {
    struct sim_object object;
    struct sim_context *context;
    struct sim_stream *next; /* of its context */
    CUstream handle;
    unsigned flags;
    int priority;
    bool legacy, ended, held;
    uint64_t thread;       /* per-thread stream of that thread; 0: not one */
    uint64_t allowance;    /* pieces that a held stream may still run */
    uint64_t id;
    uint64_t asked, done;  /* pieces of work ever queued, ever done */
    struct sim_piece *head, *tail;
    struct sim_stream *active_next, *active_prev;
    bool active; /* in the list of streams with something queued, or held */
    unsigned references; /* events, pieces that wait for it */
    struct sim_block *pending_first, *pending_last; /* by ticket */
    struct {
        uint64_t id, ticket;
    } seen[SIM_SEEN]; /* what this stream has waited for of others */
    unsigned seen_next;
    struct sim_capture *capture;
    bool unjoined; /* captured work of a side stream that no other stream waits for */
};

CUresult sim_stream_find(CUstream handle, bool per_thread, struct sim_stream **stream);
struct sim_stream *sim_stream_new(struct sim_context *context, unsigned flags, int priority);
void sim_stream_end(struct sim_stream *stream, bool force);
void sim_stream_keep(struct sim_stream *stream);
void sim_stream_drop(struct sim_stream *stream);
/* Queues one piece behind what legacy-stream order demands, and runs what can run. The ticket of
 * the piece is stream->asked afterwards. */
void sim_queue(struct sim_stream *stream, const struct sim_piece *piece);
void sim_queue_wait(struct sim_stream *stream, struct sim_stream *on, uint64_t ticket);
void sim_queue_mark(struct sim_stream *stream); /* an empty piece */
bool sim_stream_idle(const struct sim_stream *stream);
bool sim_stream_has_seen(const struct sim_stream *stream, const struct sim_stream *other,
                         uint64_t ticket);
void sim_progress(void); /* runs everything that can run */
void sim_stream_force(struct sim_stream *stream);
void sim_stream_settle(struct sim_stream *stream); /* pending blocks whose turn has come */
CUresult sim_wait_until(struct sim_stream *stream, uint64_t ticket); /* lets go of the lock */
CUresult sim_wait_context(struct sim_context *context);
void sim_active_add(struct sim_stream *stream);

/* ---- events ---- */

struct sim_event {
    struct sim_object object;
    struct sim_context *context;
    struct sim_event *next, *prev;
    unsigned flags;
    struct sim_stream *stream; /* NULL: never recorded */
    uint64_t ticket;
    uint64_t time; /* ns, of the record */
    uint64_t capture_id, capture_stream; /* last recorded in that capture, on that stream */
};

void sim_event_end(struct sim_event *event);

/* ---- memory ---- */

CUresult sim_direct_alloc(struct sim_context *context, uint64_t bytes, bool low,
                          uint64_t *address);
/* Frees a live block of any family at once; not host blocks. */
CUresult sim_block_free(struct sim_block *block);
void sim_touch(uint64_t address); /* managed memory moves to the current device */
void sim_direct_end(struct sim_context *context);
void sim_managed_end(struct sim_context *context);
void sim_managed_free(struct sim_range *range);

struct sim_pool {
    struct sim_object object;
    struct sim_pool *next;
    struct sim_heap heap;
    CUmemPoolProps props;
    uint64_t threshold;
    int reuse_event, reuse_opportunistic, reuse_internal;
    bool is_default, ended, imported;
    unsigned access[SIM_MAX_CARDS];
};

struct sim_pool *sim_pool_new(struct sim_card *card, const CUmemPoolProps *props);
void sim_pool_end(struct sim_pool *pool); /* the handle; the memory when the last block is free */
void sim_pending_settle(struct sim_block *block);
void sim_pools_begin(void);
void sim_pools_synced(void); /* a synchronise was seen: idle memory above the threshold goes */
CUresult sim_pool_alloc(struct sim_pool *pool, uint64_t bytes, struct sim_stream *stream,
                        CUdeviceptr *address);
void sim_pool_free(struct sim_block *block, struct sim_stream *stream); /* NULL: at once */
void sim_pool_check_end(struct sim_pool *pool);
void sim_pending_take(struct sim_block *block); /* out of its stream's list */
struct sim_pool *sim_pools(void);

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
    bool live; /* launched and not yet freed */
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
    } *steps;
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
