/*
 * handles.c: physical memory and its handles.
 */
#include "resource/handles_parts.h"

#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>

struct gb_handles gb_handles;

static struct gb_handles *const all = &gb_handles;

bool gb_handles_any(void)
{
    return atomic_load(&all->count) != 0;
}

uint64_t gb_handles_count(void)
{
    return atomic_load(&all->count);
}

struct gb_handle *gb_handle_new(void)
{
    return calloc(1, sizeof(struct gb_handle));
}

struct gb_memory *gb_memory_new(void)
{
    struct gb_memory *memory = calloc(1, sizeof(*memory));

    if (!memory)
        return NULL;
    memory->first = gb_handle_new();
    if (!memory->first) {
        free(memory);
        return NULL;
    }
    return memory;
}

void gb_memory_free(struct gb_memory *memory)
{
    if (memory)
        free(memory->first);
    free(memory);
}

bool gb_memory_is_used(const struct gb_memory *memory)
{
    return memory->handles > 0 || memory->mappings > 0 || memory->bindings > 0 ||
           memory->holds > 0;
}

bool gb_memory_only_bound(const struct gb_memory *memory)
{
    return memory->arrays > 0 && memory->handles == 0 && memory->mappings == 0;
}

/* The card's tools show for no process what is gone, nor what only arrays have hold of
 * (measured). The card has it. Of others' memory what was shown counts. */
static void note_away(struct gb_memory *memory)
{
    bool was_away = memory->is_away;
    uint64_t bytes = memory->ledger ? memory->charged : memory->attributed_bytes;

    memory->is_away = memory->gone || gb_memory_only_bound(memory);
    /* Before it counts: a look that finds it shown for us must know that this may be. */
    gb_memory_note_heritable(memory);
    if (memory->is_away == was_away || !memory->away)
        return;
    if (memory->is_away)
        atomic_fetch_add(memory->away, bytes);
    else
        atomic_fetch_sub(memory->away, bytes);
}

/* The last of it here is gone; imports of it may be left. */
static void end_charge(struct gb_memory *memory)
{
    memory->gone = memory->gone || (memory->ledger && !memory->kept && memory->exported);
    note_away(memory);
    if (memory->gone || !memory->ledger || memory->kept)
        return;
    /* In this order: what a look counts as shown may be too much for a moment, not too little.
     */
    gb_ledger_reclaim(memory->ledger, memory->charged);
    memory->ledger = NULL;
}

void gb_memory_settle(struct gb_memory *memory)
{
    if (gb_memory_is_used(memory)) {
        note_away(memory);
        return;
    }
    if (memory->of)
        gb_import_of_own_ended(memory);
    end_charge(memory);
    /* It may come back while its descriptor is open, and its import may outlive that. */
    if (memory->youngest || (memory->gone && memory->descriptor.known))
        return;
    if (memory->bound)
        gb_multicast_ended(memory);
    if (memory->previous)
        memory->previous->next = memory->next;
    else
        all->all = memory->next;
    if (memory->next)
        memory->next->previous = memory->previous;
    atomic_fetch_sub(&all->count, 1);
    if (memory->attributed)
        atomic_fetch_sub(memory->attributed, memory->attributed_bytes);
    gb_memory_free(memory);
}

/* ---- handles ---- */

struct gb_handle *gb_handle_find(const struct gb_driver_api *api,
                                 CUmemGenericAllocationHandle value)
{
    const struct gb_handle_key key = {api, value};
    struct gb_handle *handle;

    HASH_FIND(hh, all->table, &key, sizeof(key), handle);
    return handle;
}

/* The value stands for this memory no longer. */
static void end_handle(struct gb_handle *handle)
{
    struct gb_memory *memory = handle->memory;

    HASH_DEL(all->table, handle);
    free(handle);
    memory->handles--;
    gb_memory_settle(memory);
}

bool gb_handle_insert(struct gb_handle *handle, const struct gb_driver_api *api,
                      CUmemGenericAllocationHandle value, struct gb_memory *memory)
{
    handle->key = (struct gb_handle_key){api, value};
    handle->references = 1;
    handle->memory = memory;
    handle->hh.tbl = NULL;
    HASH_ADD(hh, all->table, key, sizeof(handle->key), handle);
    if (!handle->hh.tbl)
        return false;
    memory->handles++;
    return true;
}

/* A value that the driver has just given to something new has no older references. */
static void displace(const struct gb_driver_api *api, CUmemGenericAllocationHandle value)
{
    struct gb_handle *old = gb_handle_find(api, value);

    if (old)
        end_handle(old);
}

static bool add(struct gb_memory *memory, const struct gb_driver_api *api,
                CUmemGenericAllocationHandle value)
{
    if (!gb_handle_insert(memory->first, api, value, memory))
        return false;
    memory->first = NULL;
    memory->api = api;
    memory->previous = NULL;
    memory->next = all->all;
    if (memory->next)
        memory->next->previous = memory;
    all->all = memory;
    atomic_fetch_add(&all->count, 1);
    return true;
}

bool gb_handles_add(struct gb_memory *memory, const struct gb_driver_api *api,
                    CUmemGenericAllocationHandle value)
{
    bool added;

    gb_lock_take(&all->lock);
    displace(api, value);
    added = add(memory, api, value);
    gb_lock_drop(&all->lock);
    return added;
}

void gb_handles_born(const struct gb_driver_api *api, CUmemGenericAllocationHandle value)
{
    if (!gb_handles_any())
        return;
    gb_lock_take(&all->lock);
    displace(api, value);
    gb_lock_drop(&all->lock);
}

void gb_handles_imported(struct gb_memory *memory, const struct gb_driver_api *api,
                         CUmemGenericAllocationHandle value, struct gb_memory *ours)
{
    struct gb_memory *added = NULL;
    struct gb_handle *known;

    gb_lock_take(&all->lock);
    known = gb_handle_find(api, value);
    if (known) {
        known->references++;
        if (memory && memory->attributed) {
            known->memory->attributed = memory->attributed;
            known->memory->attributed_bytes += memory->attributed_bytes;
            memory->attributed = NULL;
        }
    } else if (memory) {
        memory->imported = true;
        memory->device = -1;
        if (add(memory, api, value)) {
            added = memory;
            memory = NULL;
        }
    }
    if (ours && added)
        gb_import_of_own(added, ours);
    if (ours)
        gb_memory_let_go(ours);
    gb_lock_drop(&all->lock);
    /* Without an entry nobody could take it off later. */
    if (memory && memory->attributed)
        atomic_fetch_sub(memory->attributed, memory->attributed_bytes);
    gb_memory_free(memory);
}

static struct gb_memory *hold(struct gb_handle *handle, uint64_t generation)
{
    if (!handle || (generation != 0 && handle->memory->generation != generation))
        return NULL;
    handle->memory->holds++;
    return handle->memory;
}

struct gb_memory *gb_handle_hold(const struct gb_driver_api *api,
                                 CUmemGenericAllocationHandle value, uint64_t generation)
{
    struct gb_memory *memory;

    if (!gb_handles_any())
        return NULL;
    gb_lock_take(&all->lock);
    memory = hold(gb_handle_find(api, value), generation);
    gb_lock_drop(&all->lock);
    return memory;
}

struct gb_memory *gb_handle_hold_any(const struct gb_driver_api *api,
                                     CUmemGenericAllocationHandle value, uint64_t generation)
{
    struct gb_memory *memory = gb_handle_hold(api, value, generation);
    struct gb_handle *handle, *next;

    if (memory || !gb_handles_any())
        return memory;
    gb_lock_take(&all->lock);
    HASH_ITER(hh, all->table, handle, next)
    {
        if (handle->key.value == value)
            memory = hold(handle, generation);
        if (memory)
            break;
    }
    gb_lock_drop(&all->lock);
    return memory;
}

void gb_memory_let_go(struct gb_memory *memory)
{
    memory->holds--;
    gb_memory_settle(memory);
}

void gb_memory_drop(struct gb_memory *memory)
{
    if (!memory)
        return;
    gb_lock_take(&all->lock);
    gb_memory_let_go(memory);
    gb_lock_drop(&all->lock);
}

void gb_handle_released(struct gb_memory *memory, CUmemGenericAllocationHandle value,
                        bool success)
{
    gb_lock_take(&all->lock);
    if (success) {
        struct gb_handle *handle = gb_handle_find(memory->api, value);

        /* Else the value is another memory's by now, and ours has lost it already. */
        if (handle && handle->memory == memory && --handle->references == 0)
            end_handle(handle);
    }
    gb_memory_let_go(memory);
    gb_lock_drop(&all->lock);
}

void gb_memory_keep(struct gb_memory *memory)
{
    gb_lock_take(&all->lock);
    memory->kept = true;
    gb_lock_drop(&all->lock);
}

/* ---- the process ---- */

void gb_handles_forget(const struct gpubudget_accounting *ledger)
{
    gb_lock_take(&all->lock);
    for (struct gb_memory *memory = all->all; memory; memory = memory->next)
        if (memory->ledger == ledger) {
            memory->ledger = NULL;
            memory->away = NULL;
            memory->importer = NULL;
        }
    gb_lock_drop(&all->lock);
}

void gb_handles_forked(void)
{
    gb_lock_init(&all->lock);
    all->table = NULL;
    all->all = NULL;
    all->mappings.root = NULL;
    all->displaced = NULL;
    all->arrays = NULL;
    all->late = NULL;
    atomic_store(&all->count, 0);
    atomic_store(&all->array_count, 0);
}
