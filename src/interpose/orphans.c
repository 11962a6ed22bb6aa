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
    orphan->living = false;
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

void gb_orphan_look_at_once(struct gb_driver *drv, CUdeviceptr pointer,
                            struct gb_orphan *orphan)
{
    int count = gb_process_device_count();

    gb_orphan_look(drv, pointer, orphan);
    if (pointer == 0)
        return;
    for (int i = 0; i < count && !orphan->device; i++) {
        struct gb_device *device = gb_process_device_at(i);
        struct gb_pools *pools = device ? &device->backend.pools : NULL;

        if (!pools || !pools->charged || !atomic_load(&pools->all))
            continue;
        orphan->pool = gb_pools_block_of(pools, &drv->api, pointer, &orphan->bytes);
        if (!orphan->pool)
            continue;
        orphan->device = device;
        orphan->living = true;
    }
}

void gb_orphan_freed(const struct gb_orphan *orphan)
{
    struct gb_backend *backend;

    if (!orphan->device)
        return;
    if (orphan->living) {
        gb_pool_freed_at_once(orphan->pool, orphan->bytes);
        return;
    }
    backend = &orphan->device->backend;
    /* Other blocks of that pool may have been freed on streams that have not come so far. */
    gb_pending_add_unproven(
        &backend->pending, gb_pools_orphan_freed(&backend->pools, orphan->pool, orphan->bytes));
}

void gb_orphan_freed_on(const struct gb_orphan *orphan, struct gb_driver *drv,
                        const struct gb_stream_call *call)
{
    struct gb_stream_key key;

    if (!orphan->device)
        return;
    key = gb_stream_key(&drv->api, call->stream, call->is_thread);
    gb_pending_note(&orphan->device->backend.pending, &key,
                    &(struct gb_pending_freed){.loose = true});
    gb_orphan_freed(orphan);
}
