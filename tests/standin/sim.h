/* The inside of the stand-in driver: what its files share. One lock guards everything here;
 * every exported function holds it from SIM_ENTER to its return, but for waits, which let go of
 * it. */
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
#define SIM_ENTER(function, ...)          SIM_ENTER_WITH(false, function, ##__VA_ARGS__)
#define SIM_ENTER_ANY_TIME(function, ...) SIM_ENTER_WITH(true, function, ##__VA_ARGS__)
#define SIM_NOTE(bytes, size)             sim_note(&sim_call_, bytes, size)
#define W(argument)                       ((uint64_t)(uintptr_t)(argument))

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
    SIM_LIBRARY,
    SIM_KERNEL,
    SIM_LINK,
    SIM_GREEN,
    SIM_RESOURCES,
    SIM_HANDLE,
    SIM_ARRAY,
    SIM_MIPMAP,
    SIM_EXTERNAL,
    SIM_GRAPHICS,
    SIM_EGL
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
    SIM_USE_ARRAY,
    SIM_USE_MODULE,
    SIM_USE_GRAPH,
    SIM_USE_LOCAL, /* local memory beyond what comes with a context */
    SIM_USE_LIMIT, /* device heap and what its callers need besides */
    SIM_USE_NODES, /* what kernel nodes take */
    SIM_USE_STREAM,
    SIM_USE_GREEN,   /* green contexts */
    SIM_USE_PEER,    /* page tables for peers; devices of multicast objects */
    SIM_USE_MANAGED, /* NVML does not attribute it to the process, nor */
    SIM_USE_SHARED,  /* what pools hold of blocks that are gone where they were exported */
    SIM_USES
};

struct sim_card {
    int index;    /* physical */
    int ordinal;  /* what the program calls it; -1: not visible */
    int instance; /* the MIG instance that is all of it here, from 1 on; 0: the whole card */
    uint64_t total, other;
    uint64_t use[SIM_USES];
    uint64_t live, peak;
    uint64_t used_by_pools, pending, blocks;
    uint64_t managed_there; /* bytes of managed memory that are on the card */
    struct sim_context *primary;
    unsigned primary_flags;
    struct sim_pool *default_pool, *current_pool;
    uint64_t graph_live, graph_used_high, graph_reserved_high;
};

extern struct sim_settings sim_settings;
extern struct sim_card sim_cards[SIM_MAX_CARDS];
extern int sim_visible_count;
CUresult sim_cards_begin(void);                /* may be tried again after a failure */
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
    SIM_RANGE_ARRAY, /* memory of arrays, which no pointer names */
    SIM_RANGE_IMPORTED
};

enum sim_block_state {
    SIM_BLOCK_FREE,
    SIM_BLOCK_LIVE,
    SIM_BLOCK_PENDING, /* freed in a stream that has not come to the free */
    SIM_BLOCK_HOLE     /* addresses in a pool's window with no memory behind them */
};

/* How far the host has synchronised with a stream; outlives it as long as somebody asks. */
struct sim_clock {
    unsigned references;
    uint64_t synced;               /* pieces of work that the host knows to be done */
    struct sim_clock *orphan_next; /* its stream is gone: in its context's list */
};

/* The driver does not let go of freed memory until the host has synchronised with the stream of
 * the free, even if that has run long ago. */
struct sim_mark {
    struct sim_clock *clock;
    uint64_t ticket;
    uint64_t from, to; /* the part of a free block that it is about */
};

#define SIM_MARKS 8

/* A piece of a range. The blocks of a range tile it without gaps. */
struct sim_block {
    uint64_t base, size; /* size as rounded */
    uint64_t asked;
    enum sim_block_state state;
    struct sim_range *range;
    struct sim_block *before, *after;      /* neighbours in the range */
    struct sim_block *bin_next, *bin_prev; /* free: in its heap's bin; pending: its stream's */
    struct sim_stream *stream;             /* pending on, until it has done `ticket` pieces */
    uint64_t ticket;
    struct sim_context *context; /* direct, managed, module blocks end with it */
    bool freeing; /* not of a pool, freed in a stream: goes at a synchronise with that */
    struct sim_block *late_next;
    struct sim_mark marks[SIM_MARKS]; /* of a free block: what of it is not let go yet */
    unsigned mark_count;
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
    uint64_t span;   /* addresses that it may grow into */
    uint64_t unfree; /* live and pending bytes */
    struct sim_block *last;
    struct sim_range *next, *prev; /* in its heap */
    uint64_t backed;               /* bytes that are not holes */
    bool physical;                 /* managed: on the card */
    void *more;                    /* what its kind needs */
};

/* A range with one live block; `base` 0 picks an address of the card (`low`: below 4 GiB). */
struct sim_block *sim_range_single(enum sim_range_kind kind, struct sim_card *card,
                                   uint64_t base, uint64_t size, uint64_t asked, bool low);
void sim_range_drop(struct sim_range *range); /* blocks too; gives the addresses back */
struct sim_range *sim_range_new(enum sim_range_kind kind, struct sim_card *card, uint64_t base,
                                uint64_t size, bool low);
struct sim_range *sim_range_find(uint64_t address);   /* any address inside */
struct sim_block *sim_block_find(uint64_t base);      /* a live block's first address */
struct sim_block *sim_block_around(uint64_t address); /* a live block around it */
void sim_block_live(struct sim_block *block);         /* enters the table */
void sim_block_gone(struct sim_block *block);         /* leaves the table */
uint64_t sim_address_take(uint64_t size, bool low);
void sim_address_give(uint64_t base, uint64_t size, bool low);
struct sim_range **sim_ranges(size_t *count); /* all, by address */

#define SIM_BINS 256

struct sim_heap {
    enum sim_range_kind kind;
    enum sim_use use;
    struct sim_card *card; /* NULL: host memory */
    uint64_t step, align, limit;
    bool window; /* one growing range, cut at will and let go in whole steps (pools); else each
                  * range has one step and goes when it is empty (regions of direct blocks) */
    bool low;
    bool apart; /* free neighbours may not have been joined */
    uint64_t reserved, used, used_high, reserved_high;
    struct sim_range *ranges;
    struct sim_block *bins[SIM_BINS];
    uint64_t bin_bits[SIM_BINS / 64];
    void *owner;
};

struct sim_block *sim_heap_take(struct sim_heap *heap, uint64_t size); /* NULL: nothing fits */
CUresult sim_heap_grow(struct sim_heap *heap, uint64_t size);          /* so that size fits */
/* A pending or live block becomes free; with a mark unless mark is NULL. */
void sim_heap_return(struct sim_heap *heap, struct sim_block *block,
                     const struct sim_mark *mark);
void sim_heap_trim(struct sim_heap *heap, uint64_t keep);
void sim_heap_end(struct sim_heap *heap);
struct sim_block *sim_block_split(struct sim_block *block, uint64_t size);
/* `block` swallows the one behind it, which is in no list. */
void sim_block_join(struct sim_block *block);
/* What of a free block, at its beginning or end, was freed on the stream with that clock, and
 * the host has not synchronised with: that becomes a block in no list. False: nothing. */
bool sim_heap_regain(struct sim_heap *heap, struct sim_block *block,
                     const struct sim_clock *clock, bool from_end);
bool sim_mark_met(const struct sim_mark *mark);
void sim_clock_drop(struct sim_clock *clock);

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
    struct sim_heap small_arrays;       /* likewise; begun with the first array */
    struct sim_array *arrays;           /* mipmapped ones too */
    struct sim_stream *legacy;
    struct sim_stream *streams; /* all of them, legacy and per-thread ones included */
    struct sim_event *events;
    struct sim_module *modules;
    struct sim_clock *orphans; /* of streams that are gone */
    struct sim_context *next;  /* all there ever were */
    struct sim_green *green;   /* this is the handle of a green context and nothing else */
    /* What it has of the card besides SIM_USE_CONTEXT. */
    uint64_t local_bytes, stream_bytes;
    uint64_t thread_bytes;            /* of local memory, that there is room for */
    uint64_t stack_given;             /* a lower stack limit: what is gone of SIM_USE_CONTEXT */
    uint64_t limit_bytes;             /* the sum of the next two */
    uint64_t calls_bytes, heap_bytes; /* 0: not there yet */
    uint64_t node_bytes;              /* likewise */
    uint64_t node_count;              /* kernels of executables that are beside one another */
    bool prints;                      /* a kernel that prints has been launched */
    uint64_t code_used, code_held;
    unsigned stream_count; /* those that take memory */
    uint64_t green_bytes;  /* a primary one: of the green ones that it had */
    unsigned green_count;
    struct sim_context *peers[SIM_MAX_CARDS]; /* whose memory it has access to */
    unsigned peer_count;
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
void sim_context_known(struct sim_context *context);     /* enters the list of all */
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
    SIM_WORK_HOST_FUNCTION,
    SIM_WORK_GRAPH_FREE,
    SIM_WORK_CALL /* a function of the stand-in, under the lock */
};

struct sim_piece {
    enum sim_work work;
    struct sim_piece *next;
    struct sim_stream *on; /* WAIT_STREAM: until it has done `ticket` pieces */
    uint64_t ticket;
    uint64_t address, value; /* WAIT_VALUE, WRITE_VALUE */
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
    uint64_t thread;    /* per-thread stream of that thread; 0: not one */
    uint64_t allowance; /* pieces that a held stream may still run */
    uint64_t id;
    struct sim_clock *clock;
    uint64_t asked, done; /* pieces of work ever queued, ever done */
    struct sim_piece *head, *tail;
    struct sim_stream *active_next, *active_prev;
    bool active;         /* in the list of streams with something queued, or held */
    unsigned references; /* events, pieces that wait for it */
    struct sim_block *pending_first, *pending_last; /* by ticket */
    struct {
        uint64_t id, ticket;
    } seen[SIM_SEEN]; /* what this stream has waited for of others */
    unsigned seen_next;
    struct sim_capture *capture;
    struct sim_green *green; /* made in that green context; NULL: in none */
    bool counted;            /* in its context's stream_count */
    bool unjoined;           /* captured work of a side stream that no other stream waits for */
};

CUresult sim_stream_find(CUstream handle, bool per_thread, struct sim_stream **stream);
struct sim_stream *sim_stream_new(struct sim_context *context, unsigned flags, int priority);
void sim_stream_end(struct sim_stream *stream, bool force);
/* One that a program asks for: takes what a stream takes of the card. */
CUresult sim_stream_make(struct sim_context *context, unsigned flags, int priority,
                         struct sim_stream **stream);
void sim_stream_memory_end(struct sim_context *context);
void sim_stream_keep(struct sim_stream *stream);
void sim_stream_drop(struct sim_stream *stream);
/* Queues one piece behind what legacy-stream order demands, and runs what can run. The ticket
 * of the piece is stream->asked afterwards. */
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
void sim_wait_context(struct sim_context *context);                  /* lets go of the lock */
/* The host has synchronised with it. */
void sim_context_synced(struct sim_context *context);
void sim_active_add(struct sim_stream *stream);

/* ---- events ---- */

struct sim_event {
    struct sim_object object;
    struct sim_context *context; /* NULL: it has ended */
    struct sim_event *next, *prev;
    unsigned flags;
    struct sim_stream *stream; /* NULL: never recorded */
    uint64_t ticket;
    uint64_t time;                       /* ns, of the record */
    uint64_t capture_id, capture_stream; /* last recorded in that capture, on that stream */
};

void sim_event_orphan(struct sim_event *event); /* its context ends */

/* ---- memory ---- */

CUresult sim_direct_alloc(struct sim_context *context, uint64_t bytes, bool low,
                          uint64_t *address);
/* Frees a live block of any family at once; not host blocks. */
CUresult sim_block_free(struct sim_block *block);
void sim_touch(uint64_t address); /* managed memory moves to the current device */
void sim_direct_end(struct sim_context *context);
void sim_arrays_end(struct sim_context *context);
bool sim_array_attribute(CUdevice_attribute which, int *value);
void sim_orphans_settle(
    void); /* handles that exports alone hold, whose descriptors are closed */
uint64_t sim_orphaned_bytes(const struct sim_card *card); /* NVML shows them for nobody */
/* Imports whose exporter has ended: NVML shows them here. Of handles, and of cuIpc. */
uint64_t sim_inherited_bytes(const struct sim_card *card);
uint64_t sim_ipc_inherited_bytes(const struct sim_card *card);
bool sim_process_ended(int pid);
extern bool sim_fabric; /* there are fabric handles */
/* Blocks outside pools that were freed in a stream. */
void sim_late_add(struct sim_block *block, struct sim_stream *stream);
void sim_late_settle(void);
void sim_late_forget(const struct sim_context *context); /* its blocks are about to end */
/* A block of managed memory of no context yet. */
CUresult sim_managed_new(struct sim_card *card, uint64_t bytes, struct sim_block **block);
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
void sim_pool_end(
    struct sim_pool *pool); /* the handle; the memory when the last block is free */
void sim_pending_settle(struct sim_block *block);
void sim_pools_begin(void);
bool sim_pools_reclaim(struct sim_card *card); /* a full card takes idle memory back */
void sim_pools_synced(void); /* a synchronise was seen: idle memory above the threshold goes */
CUresult sim_pool_alloc(struct sim_pool *pool, uint64_t bytes, struct sim_stream *stream,
                        CUdeviceptr *address);
void sim_pool_free(struct sim_block *block, struct sim_stream *stream); /* NULL: at once */
void sim_pool_check_end(struct sim_pool *pool);
void sim_pending_take(struct sim_block *block); /* out of its stream's list */
struct sim_pool *sim_pools(void);

/* A pool has given the memory of these addresses back: imports of ours keep some of it. */
void sim_shares_keep(struct sim_heap *heap, uint64_t from, uint64_t to);
void sim_shares_end(struct sim_pool *importer);     /* what it has imported */
void sim_shares_no_exporter(struct sim_heap *heap); /* it is no more */

/* Of other processes and interfaces, brought here in any way but as a physical handle. */
uint64_t sim_brought_bytes(const struct sim_card *card);
void sim_brought_end(struct sim_context *context);

#include "sim_module.h"
#include "sim_graph.h"

#endif
