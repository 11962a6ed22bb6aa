/*
 * executables.h: executable graphs that have allocation nodes or demanding kernels.
 */
#ifndef GB_INTERPOSE_EXECUTABLES_H
#define GB_INTERPOSE_EXECUTABLES_H

#include "driver/driver.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "interpose/graph_width.h"
#include "interpose/local_memory.h"
#include "resource/contexts.h"
#include "resource/hash.h"

/* What the allocation nodes of a graph ask for on one device. */
struct gb_graph_need {
    int device;
    uint64_t bytes;   /* all together */
    uint64_t largest; /* the largest one */
};

enum { GB_GRAPH_DEVICES = 8 };

/* Devices beyond the last place count for it; no machine has graphs like that. */
struct gb_graph_needs {
    int count;                     /* 0: the graph has no allocation node */
    CUcontext current;             /* when it was read */
    CUcontext only;                /* the process's one context; NULL: there are more */
    struct gb_graph_widths widths; /* kernels that may be beside one another */
    struct gb_launch_need kernels; /* of the current context, or one that is not known */
    uint64_t
        elsewhere[GB_GRAPH_CONTEXTS]; /* local memory in others, by their place in widths */
    bool unread; /* not since the driver failed, but too deep, or for want of memory */
    struct gb_graph_need need[GB_GRAPH_DEVICES];
};

/* Is there something to be asked for at its launch? */
static inline bool gb_graph_needs_any(const struct gb_graph_needs *needs)
{
    return needs->count > 0 || needs->kernels.local > 0 || needs->kernels.heap;
}

/* Kernels that a context counts. */
struct gb_counted {
    struct gb_contexts *in; /* NULL: nothing counts here */
    CUcontext context;      /* NULL: it is not known which of the device's */
    uint64_t serial, nodes;
    uint64_t bytes; /* that may come for them */
};

struct gb_executable_key {
    const struct gb_driver *drv;
    CUgraphExec handle;
};

/*
 * Invariant: an executable stands here from its instantiation, or from when it has become one,
 * to its end exactly if it has allocation nodes, a kernel that needs more than every context
 * has, or kernels that a context counts. `prepared` is 1 + the device's count of trims at which
 * it last was given its memory, 0 for never.
 */
struct gb_executable {
    struct gb_executable_key key;
    struct gb_graph_needs needs; /* kernels: of the instantiation; see below */
    _Atomic uint64_t local;      /* the most local memory that it has needed since */
    atomic_bool heap;            /* some kernel of it since may need the device heap */
    _Atomic uint64_t prepared[GB_GRAPH_DEVICES];
    uint64_t charged[GB_GRAPH_DEVICES];           /* requested mode: bytes in the ledger */
    struct gb_counted counted[GB_GRAPH_CONTEXTS]; /* until it ends */
    bool is_looked_at; /* a launch has something to ask for; under the lock */
    int users;         /* threads that hold a pointer; under the lock */
    bool gone;         /* ended while somebody held one */
    UT_hash_handle hh;
};

/* A kernel node may name its kernel by either handle. */
static inline const void *gb_graph_kernel(CUfunction function, CUkernel kernel)
{
    return function ? (const void *)function : (const void *)kernel;
}

/* How many there are that a launch asks for something: what it looks at first. */
extern atomic_int gb_executables_count;

/* What a launch looks at first: a load and a comparison. */
static inline bool gb_executables_none(void)
{
    return atomic_load_explicit(&gb_executables_count, memory_order_relaxed) == 0;
}

/*
 * What the graph's allocation nodes need, those of its child graphs included. False: it could
 * not be read, for want of memory, since it is too deep (`unread`), or since the driver failed.
 */
bool gb_graph_read_needs(struct gb_driver *drv, CUgraph graph, struct gb_graph_needs *needs);

/*
 * The bodies of conditional nodes cannot be read. So every kernel that becomes a node of any
 * graph counts for all bodies, also one that was there before the first of them, since its
 * graph may become a child in a body: a graph with a conditional node is taken to need what the
 * most demanding of them does.
 */
void gb_graph_note_kernel(struct gb_driver *drv, CUfunction function, CUcontext context);

/* An entry, not in the table yet; NULL without memory. */
struct gb_executable *gb_executable_new(void);

/* Does any context count kernels of it? */
bool gb_executable_counts(const struct gb_executable *executable);

/* Its kernels count no longer: it is gone, or was not made. */
void gb_executable_uncount(struct gb_executable *executable);

/* Into the table, under the handle that the driver gave. False without memory. */
bool gb_executable_add(struct gb_executable *executable, struct gb_driver *drv,
                       CUgraphExec handle);

/* Its kernels need that much from now on: put into the table if need be. */
void gb_executable_needs(struct gb_driver *drv, CUgraphExec handle,
                         const struct gb_launch_need *need);

/* The entry, to be given back with gb_executable_put; NULL: it has no allocation nodes. */
struct gb_executable *gb_executable_get(struct gb_driver *drv, CUgraphExec handle);
void gb_executable_put(struct gb_executable *executable);

/*
 * Out of the table, before the driver ends it; back when the driver refuses, or freed. NULL:
 * it was not there.
 */
struct gb_executable *gb_executable_take(struct gb_driver *drv, CUgraphExec handle);
void gb_executable_end(struct gb_executable *executable);

#endif
