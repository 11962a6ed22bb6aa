/*
 * mapped.c: where physical memory is mapped, and what is found there.
 */
#include "resource/handles_parts.h"

#include "resource/inherited.h"

#include <stddef.h>
#include <stdlib.h>

static struct gb_handles *const all = &gb_handles;

static struct gb_mapping *mapping_at(const struct gb_driver_api *api, uint64_t address)
{
    struct gb_mapping *mapping = gb_mappings_from(&all->mappings, api, address);

    return mapping && mapping->address <= address ? mapping : NULL;
}

struct gb_memory *gb_mapping_hold(const struct gb_driver_api *api, CUdeviceptr address)
{
    struct gb_memory *memory = NULL;
    struct gb_mapping *mapping;

    if (!gb_handles_any())
        return NULL;
    gb_lock_take(&all->lock);
    mapping = mapping_at(api, address);
    if (mapping) {
        memory = mapping->memory;
        memory->holds++;
    }
    gb_lock_drop(&all->lock);
    return memory;
}

void gb_memory_mapped(struct gb_memory *memory, struct gb_mapping *mapping, CUdeviceptr address,
                      size_t size)
{
    struct gb_mapping *overlapped;

    gb_lock_take(&all->lock);
    mapping->api = memory->api;
    mapping->address = address;
    mapping->size = size;
    mapping->ticket = gb_handles_ticket();
    mapping->memory = memory;
    memory->mappings++;
    /* Only now its size is known: it is mapped as a whole. */
    if (memory->imported && memory->imported_bytes == 0 && size > memory->attributed_bytes) {
        memory->imported_bytes = size - memory->attributed_bytes;
        gb_memory_note_heritable(memory);
    }
    /*
     * Those that lie there: their unmap has not been noted yet, or this note comes late and it
     * is this mapping that has gone. Either way all of them stay until the range's unmap is
     * noted.
     */
    overlapped = gb_mappings_add(&all->mappings, mapping);
    while (overlapped) {
        struct gb_mapping *next = overlapped->next;

        overlapped->next = all->displaced;
        all->displaced = overlapped;
        overlapped = next;
    }
    gb_memory_let_go(memory);
    gb_lock_drop(&all->lock);
}

uint64_t gb_handles_moment(void)
{
    return gb_handles_ticket();
}

static void end_mapping(struct gb_mapping *mapping)
{
    struct gb_memory *memory = mapping->memory;

    free(mapping);
    memory->mappings--;
    gb_memory_settle(memory);
}

static bool was_unmapped(const struct gb_mapping *mapping, uint64_t address, uint64_t size,
                         uint64_t moment)
{
    return mapping->ticket <= moment && mapping->address >= address &&
           gb_range_end(mapping->address, mapping->size) <= gb_range_end(address, size);
}

void gb_handles_unmapped(const struct gb_driver_api *api, CUdeviceptr address, size_t size,
                         uint64_t moment)
{
    struct gb_mapping *mapping, **at;

    gb_lock_take(&all->lock);
    mapping = gb_mappings_take(&all->mappings, api, address, size);
    while (mapping) {
        struct gb_mapping *next = mapping->next;

        if (was_unmapped(mapping, address, size, moment))
            end_mapping(mapping);
        else
            gb_mappings_add(&all->mappings, mapping); /* overlaps none: it was there */
        mapping = next;
    }
    at = &all->displaced;
    while ((mapping = *at) != NULL) {
        if (mapping->api == api && was_unmapped(mapping, address, size, moment)) {
            *at = mapping->next;
            end_mapping(mapping);
        } else {
            at = &mapping->next;
        }
    }
    gb_lock_drop(&all->lock);
}

bool gb_handle_retained(struct gb_memory *memory, struct gb_handle *spare,
                        const struct gb_driver_api *api, CUdeviceptr address,
                        CUmemGenericAllocationHandle value)
{
    struct gb_handle *known;
    bool noted = true;

    gb_lock_take(&all->lock);
    known = gb_handle_find(api, value);
    if (known) {
        known->references++;
    } else {
        /* Mapped there only now: then it is not certain whose reference this is. */
        struct gb_mapping *mapping = mapping_at(api, address);

        if (mapping && mapping->memory != memory)
            mapping->memory->kept = true;
        /* The last reference had gone while it was mapped. */
        if (memory) {
            noted = spare && gb_handle_insert(spare, api, value, memory);
            if (noted)
                spare = NULL;
        }
    }
    if (memory && noted)
        gb_memory_let_go(memory);
    gb_lock_drop(&all->lock);
    free(spare);
    return noted;
}

static size_t mapped_in(const struct gb_driver_api *api, uint64_t address, uint64_t size,
                        struct gb_memory **list, size_t room)
{
    uint64_t end = gb_range_end(address, size);
    struct gb_mapping *mapping = gb_mappings_from(&all->mappings, api, address);
    size_t count = 0;

    while (mapping && mapping->address < end) {
        if (count < room)
            list[count] = mapping->memory;
        count++;
        mapping = gb_mappings_from(&all->mappings, api,
                                   gb_range_end(mapping->address, mapping->size));
    }
    return count;
}

bool gb_handles_hold_range(const struct gb_driver_api *api, CUdeviceptr address, size_t size,
                           struct gb_held *held)
{
    size_t room = GB_HELD_FEW;
    bool fits = false;

    held->list = held->few;
    held->count = 0;
    if (!gb_handles_any())
        return true;
    /* More room until it is enough; others may map meanwhile, but not for ever. */
    for (int tries = 0; tries < 8 && !fits; tries++) {
        size_t count;

        gb_lock_take(&all->lock);
        count = mapped_in(api, address, size, held->list, room);
        fits = count <= room;
        for (size_t i = 0; i < count && fits; i++)
            held->list[i]->holds++;
        gb_lock_drop(&all->lock);
        if (fits) {
            held->count = count;
            break;
        }
        if (held->list != held->few)
            free(held->list);
        room = count + GB_HELD_FEW;
        held->list = calloc(room, sizeof(*held->list));
        if (!held->list)
            break;
    }
    if (!fits && held->list != held->few) {
        free(held->list);
        held->list = held->few;
    }
    return fits;
}

void gb_held_set(struct gb_held *held, struct gb_memory *memory)
{
    held->list = held->few;
    held->few[0] = memory;
    held->count = memory ? 1 : 0;
}

void gb_held_drop(struct gb_held *held)
{
    if (held->count > 0) {
        gb_lock_take(&all->lock);
        for (size_t i = 0; i < held->count; i++)
            gb_memory_let_go(held->list[i]);
        gb_lock_drop(&all->lock);
    }
    if (held->list != held->few)
        free(held->list);
}
