/*
 * mappings.h: where physical memory is mapped: address ranges, found by any address in them.
 *
 * A treap: a search tree by address that random priorities keep balanced. The nodes are the
 * caller's, so that nothing here can fail. No lock: handles.c has one around it.
 */
#ifndef GB_RESOURCE_MAPPINGS_H
#define GB_RESOURCE_MAPPINGS_H

#include "driver/api.h"

#include <stdint.h>

struct gb_memory;

struct gb_mapping {
    const struct gb_driver_api *api; /* addresses of two copies of libcuda are kept apart */
    uint64_t address;
    uint64_t size;
    uint64_t ticket; /* later mappings have higher ones */
    struct gb_memory *memory;
    uint32_t priority;
    struct gb_mapping *left, *right;
    struct gb_mapping *next; /* outside the tree */
};

/* Invariant: no two mappings of one copy overlap. All zero is an empty tree. */
struct gb_mappings {
    struct gb_mapping *root;
};

/*
 * Adds a mapping. Those that it overlaps are taken out and answered, linked by next: where the
 * driver has mapped the range anew they are gone, or were noted too late.
 */
struct gb_mapping *gb_mappings_add(struct gb_mappings *mappings, struct gb_mapping *mapping);

/* The mapping that holds the address, else the first one behind it, else NULL. */
struct gb_mapping *gb_mappings_from(const struct gb_mappings *mappings,
                                    const struct gb_driver_api *api, uint64_t address);

/* Takes out all mappings that begin in the range; answers them linked by next. */
struct gb_mapping *gb_mappings_take(struct gb_mappings *mappings,
                                    const struct gb_driver_api *api, uint64_t address,
                                    uint64_t size);

/* One past the range's last address; saturates. */
static inline uint64_t gb_range_end(uint64_t address, uint64_t size)
{
    return address + size < address ? UINT64_MAX : address + size;
}

#endif
