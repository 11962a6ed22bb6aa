/*
 * graphs.c: the memory of graphs on one device, a gauge of the ledger.
 */
#include "resource/graphs.h"

#include "resource/capture.h"
#include "resource/nap.h"

/* A launch is over in microseconds, unless the driver's queue is full. */
enum { LAUNCH_TURNS = 100, LAUNCH_NAP_NS = 20000 };

void gb_graphs_init(struct gb_graphs *graphs, int device, struct gpubudget_accounting *ledger)
{
    *graphs = (struct gb_graphs){.device = device, .ledger = ledger};
    gb_lock_init(&graphs->gauge);
}

static bool read_reserved(const struct gb_graphs *graphs, const struct gb_driver_api *api,
                          uint64_t *bytes)
{
    struct gb_capture_mode saved;
    cuuint64_t value = 0;
    CUresult code;

    if (!api->cuDeviceGetGraphMemAttribute)
        return false;
    saved = gb_capture_relax(api);
    code = api->cuDeviceGetGraphMemAttribute(graphs->device,
                                             CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT, &value);
    gb_capture_restore(api, &saved);
    if (code != CUDA_SUCCESS)
        return false;
    *bytes = value;
    return true;
}

uint64_t gb_graphs_refresh(struct gb_graphs *graphs, const struct gb_driver_api *api)
{
    uint64_t reserved, posted, rose = 0;

    if (!atomic_load(&graphs->seen))
        return 0;
    gb_lock_take(&graphs->gauge);
    if (read_reserved(graphs, api, &reserved)) {
        posted = atomic_load(&graphs->posted);
        /* A rise stands in the ledger before anybody can read that it is posted. */
        if (reserved > posted) {
            rose = reserved - posted;
            gb_ledger_acquire(graphs->ledger, rose);
        }
        atomic_store(&graphs->posted, reserved);
        if (reserved < posted)
            gb_ledger_reclaim(graphs->ledger, posted - reserved);
    }
    gb_lock_drop(&graphs->gauge);
    return rose;
}

bool gb_graphs_launch_begins(struct gb_graphs *graphs, uint64_t trims, bool anyway)
{
    /* First this, then the look: whoever trims does it the other way round. */
    atomic_fetch_add(&graphs->launching, 1);
    if (anyway || (atomic_load(&graphs->trimming) == 0 && atomic_load(&graphs->trims) == trims))
        return true;
    atomic_fetch_sub(&graphs->launching, 1);
    return false;
}

void gb_graphs_launch_ends(struct gb_graphs *graphs)
{
    atomic_fetch_sub(&graphs->launching, 1);
}

bool gb_graphs_trim_begins(struct gb_graphs *graphs)
{
    atomic_fetch_add(&graphs->trimming, 1);
    for (int turn = 0; turn < LAUNCH_TURNS && atomic_load(&graphs->launching) > 0; turn++)
        gb_nap(LAUNCH_NAP_NS);
    return atomic_load(&graphs->launching) == 0;
}

void gb_graphs_trim_ends(struct gb_graphs *graphs, const struct gb_driver_api *api,
                         bool trimmed)
{
    if (trimmed) {
        atomic_fetch_add(&graphs->trims, 1);
        gb_graphs_refresh(graphs, api);
    }
    atomic_fetch_sub(&graphs->trimming, 1);
}

bool gb_graphs_make_room(struct gb_graphs *graphs, const struct gb_driver_api *api, bool must)
{
    uint64_t before = atomic_load(&graphs->posted);
    struct gb_capture_mode saved;
    bool free_to;

    if (before == 0 || !api->cuDeviceGraphMemTrim)
        return false;
    free_to = gb_graphs_trim_begins(graphs) || must;
    if (free_to) {
        saved = gb_capture_relax(api);
        api->cuDeviceGraphMemTrim(graphs->device);
        gb_capture_restore(api, &saved);
    }
    gb_graphs_trim_ends(graphs, api, free_to);
    return atomic_load(&graphs->posted) < before;
}
