/*
 * orphans.c: blocks that outlive their memory pool.
 */
#include "interpose/orphans.h"

#include <stdatomic.h>
#include <stddef.h>

void gb_orphan_look(struct gb_driver *drv, CUdeviceptr pointer, struct gb_orphan *orphan)
{
    int count = gb_process_device_count();

    orphan->device = NULL;
    for (int i = 0; i < count; i++) {
        struct gb_device *device = gb_process_device_at(i);

        if (!device || atomic_load(&device->backend.pools.orphaned) == 0)
            continue;
        orphan->pool =
            gb_pools_orphan_of(&device->backend.pools, &drv->api, pointer, &orphan->bytes);
        if (orphan->pool) {
            orphan->device = device;
            return;
        }
    }
}

void gb_orphan_freed(const struct gb_orphan *orphan)
{
    struct gb_backend *backend;

    if (!orphan->device)
        return;
    backend = &orphan->device->backend;
    gb_ledger_reclaim(&backend->ledger,
                      gb_pools_orphan_freed(&backend->pools, orphan->pool, orphan->bytes));
}

void gb_orphan_freed_on(const struct gb_orphan *orphan, struct gb_driver *drv,
                        const struct gb_stream_call *call)
{
    struct gb_backend *backend;
    struct gb_stream_key key;
    uint64_t bytes;

    if (!orphan->device)
        return;
    backend = &orphan->device->backend;
    bytes = gb_pools_orphan_freed(&backend->pools, orphan->pool, orphan->bytes);
    key = gb_stream_key(&drv->api, call->stream, call->is_thread);
    gb_pending_prepare(&backend->pending, &key);
    gb_pending_add(&backend->pending, &key, bytes, NULL);
}
