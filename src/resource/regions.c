/*
 * regions.c: 2 MiB regions of small direct blocks.
 */
#include "resource/regions.h"

#include <stdlib.h>

/* A block of at most 1 MiB touches two regions at most. */
enum { REGIONS_PER_BLOCK = 2, SPARES_KEPT = 64 };

void gb_regions_init(struct gb_regions *regions)
{
    *regions = (struct gb_regions){.lock = GB_LOCK_INIT};
    gb_lock_init(&regions->lock);
}

void gb_regions_clear(struct gb_regions *regions)
{
    struct gb_region *region, *next;

    HASH_ITER(hh, regions->regions, region, next)
    {
        HASH_DELETE(hh, regions->regions, region);
        free(region);
    }
    while ((region = regions->free_list)) {
        regions->free_list = region->next;
        free(region);
    }
    regions->count = regions->live_bytes = regions->spares = 0;
}

bool gb_regions_prepare(struct gb_regions *regions)
{
    for (int i = 0; i < REGIONS_PER_BLOCK; i++) {
        struct gb_region *spare;
        bool enough;

        gb_lock_take(&regions->lock);
        enough = regions->spares >= SPARES_KEPT / 2;
        gb_lock_drop(&regions->lock);
        if (enough)
            return true;
        spare = malloc(sizeof(*spare));
        if (!spare)
            return false;
        gb_lock_take(&regions->lock);
        spare->next = regions->free_list;
        regions->free_list = spare;
        regions->spares++;
        gb_lock_drop(&regions->lock);
    }
    return true;
}

static struct gb_region *find(struct gb_regions *regions, uint64_t index)
{
    struct gb_region *region;

    HASH_FIND(hh, regions->regions, &index, sizeof(index), region);
    return region;
}

static struct gb_region *make(struct gb_regions *regions, uint64_t index)
{
    struct gb_region *region = regions->free_list;

    if (region) {
        regions->free_list = region->next;
        regions->spares--;
    } else {
        /* More requests in flight than spares: prepare counts those at hand, not those that
         * others are about to take. */
        region = malloc(sizeof(*region));
        if (!region)
            return NULL;
    }
    *region = (struct gb_region){.index = index};
    HASH_ADD(hh, regions->regions, index, sizeof(region->index), region);
    if (!region->hh.tbl) {
        region->next = regions->free_list;
        regions->free_list = region;
        regions->spares++;
        return NULL;
    }
    return region;
}

/* With the lock held. Excess entries are freed, so a past peak does not stay for ever. */
static void drop(struct gb_regions *regions, struct gb_region *region)
{
    HASH_DELETE(hh, regions->regions, region);
    if (regions->spares >= SPARES_KEPT) {
        free(region);
        return;
    }
    region->next = regions->free_list;
    regions->free_list = region;
    regions->spares++;
}

static uint64_t last_index(uint64_t address, uint64_t bytes)
{
    return (address + (bytes ? bytes - 1 : 0)) / GB_REGION_BYTES;
}

bool gb_regions_add(struct gb_regions *regions, uint64_t address, uint64_t bytes,
                    unsigned *became_live)
{
    uint64_t first = address / GB_REGION_BYTES;
    uint64_t last = last_index(address, bytes);
    unsigned added = 0;
    bool complete = true;

    gb_lock_take(&regions->lock);
    for (uint64_t index = first; index <= last; index++) {
        struct gb_region *region = find(regions, index);

        if (!region) {
            region = make(regions, index);
            if (!region) {
                complete = false;
                last = index;
                break;
            }
            added++;
        }
        region->blocks++;
    }
    if (complete) {
        regions->count += added;
        regions->live_bytes += bytes;
        *became_live = added;
    } else {
        for (uint64_t index = first; index < last; index++) {
            struct gb_region *region = find(regions, index);

            if (region && --region->blocks == 0)
                drop(regions, region);
        }
    }
    gb_lock_drop(&regions->lock);
    return complete;
}

unsigned gb_regions_remove(struct gb_regions *regions, uint64_t address, uint64_t bytes)
{
    uint64_t last = last_index(address, bytes);
    unsigned gone = 0;

    gb_lock_take(&regions->lock);
    for (uint64_t index = address / GB_REGION_BYTES; index <= last; index++) {
        struct gb_region *region = find(regions, index);

        if (region && --region->blocks == 0) {
            drop(regions, region);
            gone++;
        }
    }
    regions->count -= gone;
    regions->live_bytes -= bytes;
    gb_lock_drop(&regions->lock);
    return gone;
}

bool gb_regions_may_hold(struct gb_regions *regions, uint64_t bytes)
{
    bool may;

    gb_lock_take(&regions->lock);
    may = regions->live_bytes + bytes <= regions->count * GB_REGION_BYTES;
    gb_lock_drop(&regions->lock);
    return may;
}
