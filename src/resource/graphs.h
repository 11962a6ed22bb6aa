/*
 * graphs.h: the memory of graphs on one device, a gauge of the ledger.
 *
 * The driver keeps what the allocation nodes of executables need in one place per device,
 * shared by all that do not run at once. It takes memory at an upload or a first launch and
 * gives it back at a trim only (measured, docs/driver-behaviour.md).
 */
#ifndef GB_RESOURCE_GRAPHS_H
#define GB_RESOURCE_GRAPHS_H

#include "driver/api.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "resource/ledger.h"
#include "resource/lock.h"

/*
 * Invariant: `posted` is exactly what graph memory adds to the ledger; only a look changes it,
 * under `gauge`, and moves the ledger by the difference once.
 */
struct gb_graphs {
    int device;
    struct gpubudget_accounting *ledger;
    struct gb_lock gauge;
    _Atomic uint64_t posted; /* bytes */
    _Atomic uint64_t trims;  /* after one, an executable has to be given its memory again */
    _Atomic bool seen;       /* some executable has allocation nodes */
    /* Threads between the look at `trims` and the end of their launch, and those that trim:
     * never both, or a launch would take anew, uncharged, what a trim has just given back. */
    atomic_int launching, trimming;
};

void gb_graphs_init(struct gb_graphs *graphs, int device, struct gpubudget_accounting *ledger);

/* Posts what the driver holds now; answers the rise. A failing read changes nothing. */
uint64_t gb_graphs_refresh(struct gb_graphs *graphs, const struct gb_driver_api *api);

/*
 * Around a launch of an executable that was given its memory after that many trims: from now on
 * it keeps it. False, and nothing has begun: it has to be given anew. Anyway: in any case.
 */
bool gb_graphs_launch_begins(struct gb_graphs *graphs, uint64_t trims, bool anyway);
void gb_graphs_launch_ends(struct gb_graphs *graphs);

/*
 * Around a trim: lets launches end, for some milliseconds at most (false: one still goes on);
 * then looks, and counts it.
 */
bool gb_graphs_trim_begins(struct gb_graphs *graphs);
void gb_graphs_trim_ends(struct gb_graphs *graphs, const struct gb_driver_api *api,
                         bool trimmed);

/* Trims what no graph uses; true when the ledger fell. Not beside a launch, unless it must. */
bool gb_graphs_make_room(struct gb_graphs *graphs, const struct gb_driver_api *api, bool must);

#endif
