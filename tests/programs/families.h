/*
 * families.h: what the files of budget_families share: the places where a worker has its
 * things, and what every operation needs.
 */
#ifndef FAMILIES_H
#define FAMILIES_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "budget_program.h"

enum {
    WORKERS = 4,
    READERS = 2,
    BLOCKS = 40,
    HANDLES = 8,
    ARRAYS = 8,
    CODES = 6,
    GRAPHS = 4,
    GREENS = 2,
    STREAMS = 4,
    EXTRA_STREAMS = 12,
    POOLS = 2,
    ODD_POOLS = 3,
    FRAMES = 4,
    KERNELS_OF_FRAMES = 4,
    RUNS = 4,
    RUN_KERNELS = 4,
    SPARSE_ARRAYS = 2,
    TILES = 6,
    TILE_POOLS = 4,
    SHARED = 16,
    RESTS = 40,
    EXPORTS = 12 /* in all: they stay charged */
};

#define STEP_BYTES   (32 * MIB)
#define REGION       (2 * MIB)
#define ONCE_BYTES   (128 * MIB) /* of the first managed allocation, footprint mode */
#define PLACE        (32 * MIB)  /* of a mapping */
#define EXPORT_BYTES (4 * MIB)
#define HEAP_BYTES   (16 * MIB) /* the most that a context's heap is set to */
#define STAYS_BYTES  (22 * MIB) /* with the streams of a context */
/* That measurements which other threads disturb may miss until one tells; seen: 26 MiB. */
#define DISTURBED_BYTES (64 * MIB)
#define USUAL_HEAP      (10 * MIB) /* that a context has without being asked for more */

/* HOSTED: of a pool of the host; POOLED: of a pool of managed memory. */
enum kind { NONE, DIRECT, MANAGED, ORDERED, HOSTED, POOLED };

struct block {
    enum kind kind;
    CUdeviceptr pointer;
    uint64_t bytes;
    bool inner; /* in the worker's own context, not the primary one */
};

/* One piece of physical memory: references to it, places where it is mapped. */
struct handle {
    CUmemGenericAllocationHandle value, imported; /* 0: none */
    size_t bytes;
    unsigned references;
    bool mapped[2];
    bool shareable, exported;
    int file; /* while exported */
};

struct array {
    CUarray plain;
    CUmipmappedArray mipmapped;
    uint64_t bytes;
    bool inner;
};

struct code {
    CUmodule module;
    CUlibrary library;
    uint64_t bytes, managed; /* of its variables */
    bool inner;
    bool used[2]; /* a library in the primary, in the inner context */
};

struct graph {
    CUgraphExec executable;
    uint64_t bytes; /* of all its nodes */
};

/* Code with kernels that need local memory. */
struct frames {
    CUmodule module;
    CUlibrary library;
    CUfunction functions[KERNELS_OF_FRAMES]; /* a library's: its kernels, of no context */
    bool inner;
};

/* How a graph of kernels is made; others of the same shape can take its place. */
struct shape {
    unsigned count; /* of kernels */
    bool in_turn;
    bool in_child, in_body;
    bool inner[RUN_KERNELS];
};

/* An executable with kernels, and the graph that it was made of. */
struct run {
    CUgraphExec executable;
    CUgraph graph;
    CUgraphNode node; /* its first kernel */
    struct shape shape;
    unsigned uses; /* a bit for each of the worker's frames */
};

/* Memory for tiles of arrays; held by its references, and by each tile that it is bound to. */
struct tile_pool {
    CUmemGenericAllocationHandle value;
    size_t bytes;
    unsigned references;
};

struct sparse {
    CUarray array;
    bool inner;
    unsigned tiles[TILES]; /* which pool is bound there, from 1 on */
};

struct stream {
    CUstream handle;
    bool inner;
};

struct worker {
    pthread_t thread;
    uint64_t random;
    unsigned long number; /* of operations so far */
    struct block blocks[BLOCKS];
    struct handle handles[HANDLES];
    struct array arrays[ARRAYS];
    struct code codes[CODES];
    struct graph graphs[GRAPHS];
    CUgreenCtx greens[GREENS];
    CUstream streams[STREAMS];
    struct stream extra[EXTRA_STREAMS];
    CUstream capturing;
    CUmemoryPool pools[POOLS];
    CUmemoryPool odd_pools[ODD_POOLS]; /* of the host, then of managed memory */
    struct frames frames[FRAMES];
    struct run runs[RUNS];
    struct sparse sparse[SPARSE_ARRAYS];
    struct tile_pool tile_pools[TILE_POOLS];
    CUstream tiling;   /* where tiles are bound, in the primary context */
    CUdeviceptr range; /* two places for each handle */
    CUcontext context; /* a second one, current while it lives */
    CUstream inner_stream;
    unsigned long refused, granted, failed;
    uint64_t digest;
};

extern CUcontext primary;
extern unsigned long one_in;
extern unsigned worker_count;
extern bool requested, tracing, managed_seen;
extern uint64_t seed;
extern const char *without;
extern struct worker workers[WORKERS];
extern __typeof__(standin_process_bytes) *process_bytes;

/* ---- what every operation needs ---- */

static inline uint64_t below(struct worker *worker, uint64_t bound)
{
    return (random_next(&worker->random) >> 7) % bound;
}

static inline bool one_of(struct worker *worker, unsigned count)
{
    return below(worker, count) == 0;
}

/* Sizes of all orders of magnitude up to 2^most bytes. */
static inline size_t some_size(struct worker *worker, unsigned most)
{
    return (size_t)1 + below(worker, (uint64_t)1 << (1 + below(worker, most)));
}

static inline bool has(char family)
{
    return !strchr(without, family);
}

/* What came of a call; true: it was done. */
static inline bool did(struct worker *worker, const char *what, CUresult code)
{
    worker->digest =
        (worker->digest ^ (uint64_t)code ^ (uint64_t)what[2] << 8) * UINT64_C(0x100000001b3);
    if (tracing)
        fprintf(stderr, "%u %lu %s %d%s live %" PRIu64 " figure %" PRIu64 "\n",
                (unsigned)(worker - workers), worker->number, what, (int)code,
                worker->context ? " in" : "", sim.live_bytes(0), process_bytes(0));
    if (code == CUDA_SUCCESS)
        return true;
    worker->refused += code == CUDA_ERROR_OUT_OF_MEMORY;
    worker->failed += code != CUDA_ERROR_OUT_OF_MEMORY;
    return false;
}

/* The same of a call that gives something out; bad: it failed and wrote its output. */
static inline bool gave(struct worker *worker, const char *what, CUresult code, bool bad)
{
    if (!did(worker, what, code)) {
        if (bad)
            case_fails("seed %" PRIu64 " operation %lu: %s failed with %d and wrote its output",
                       seed, worker->number, what, (int)code);
        return false;
    }
    worker->granted++;
    return true;
}

#define UNTOUCHED ((void *)(uintptr_t)SENTINEL)

/* Frees of direct memory and much else wait for every stream: alone, nobody else opens one. */
static inline void open_own(struct worker *worker)
{
    if (worker_count > 1)
        return;
    for (int i = 0; i < STREAMS; i++)
        sim.release(worker->streams[i]);
    sim.release(worker->tiling);
}

/*
 * What is about a block of the second context stays on that context's stream: memory of an
 * ended context must not be freed by work that a stream of another one still has before it.
 */
static inline CUstream some_stream(struct worker *worker, bool inner)
{
    uint64_t choice = below(worker, STREAMS + 3);

    if (inner || (worker->context && choice % 2))
        return worker->inner_stream;
    if (choice == STREAMS && !worker->context)
        return CU_STREAM_PER_THREAD;
    if (choice == STREAMS + 1) {
        const struct stream *extra = &worker->extra[below(worker, EXTRA_STREAMS)];

        if (extra->handle && !extra->inner)
            return extra->handle;
    }
    return choice < STREAMS ? worker->streams[choice] : NULL;
}

/* families_launch.c */
void change_frames(struct worker *worker);
void end_frames(struct worker *worker, struct frames *frames);
CUfunction some_frame(struct worker *worker, bool inner, unsigned *index); /* NULL: none */
/* On a stream of the second context or of the primary, whichever is current. */
bool launch_on(struct worker *worker, CUfunction function, bool inner);

/* families_runs.c: graphs of kernels */
void change_run(struct worker *worker);
void end_run(struct worker *worker, struct run *run);
void end_runs_of(struct worker *worker, unsigned uses);
void end_inner_runs(struct worker *worker);
uint64_t bodies_bytes(const struct worker *worker); /* that nothing can refuse */

/* families_sparse.c */
void change_sparse(struct worker *worker);
void forget_inner_sparse(struct worker *worker);
void end_sparse(struct worker *worker);
uint64_t tile_bytes(const struct worker *worker);

#endif
