/*
 * ends.c: what the program ends without freeing each block.
 */
#include "resource/backend.h"

#include <stdatomic.h>

struct context_of {
    const struct gb_driver_api *api;
    CUcontext context;
    int device;
    uint64_t generation; /* later blocks are of a new context with the same handle */
};

/* Blocks of pools outlive the context (measured); direct, pitched and managed ones do not. */
static bool ends_with_context(const struct gb_block *block, const void *arg)
{
    const struct context_of *ended = arg;

    return block->kind != GPUBUDGET_KIND_STREAM_ORDERED && block->driver == ended->api &&
           block->context == ended->context && block->device == ended->device &&
           block->generation <= ended->generation;
}

void gb_backend_context_closes(struct gb_backend *backend, const struct gb_driver_api *api,
                               CUcontext context)
{
    gb_pending_context_close(&backend->pending, api, context);
    gb_events_context_close(&backend->events, api, context);
}

void gb_backend_context_stays(struct gb_backend *backend, const struct gb_driver_api *api,
                              CUcontext context)
{
    gb_events_context_reopen(&backend->events, api, context);
    gb_pending_context_reopen(&backend->pending, api, context);
}

void gb_backend_context_ended(struct gb_backend *backend, const struct gb_driver_api *api,
                              CUcontext context, uint64_t serial, uint64_t generation)
{
    const struct context_of ended = {api, context, backend->options.device, generation};
    struct gb_block *block;

    if (!context)
        return;
    block = gb_block_table_take_if(backend->table, ends_with_context, &ended);
    while (block) {
        struct gb_block *next = block->next;

        gb_backend_settle(backend, block);
        block = next;
    }
    gb_pending_context_ended(&backend->pending, api, context);
    gb_events_context_ended(&backend->events, api, context);
    if (serial != 0)
        gb_contexts_remove(&backend->contexts, context, serial);
    gb_estimates_context_ended(&backend->estimates, context, generation);
    /* Its modules, streams and heap have gone with it. */
    gb_other_look(backend, 0);
}

void gb_backend_note_context(struct gb_backend *backend, const struct gb_driver_api *api,
                             CUcontext context, bool primary)
{
    uint64_t charged, tracked;

    if (!context || !backend->contexts.measure ||
        gb_contexts_serial(&backend->contexts, context) != 0)
        return;
    gb_contexts_came(&backend->contexts, context);
    gb_pools_refresh(&backend->pools);
    tracked = gb_backend_tracked(backend);
    gb_contexts_add(&backend->contexts, api, context, primary, false, 0, tracked, tracked,
                    &charged);
    gb_other_look(backend, 0);
}
