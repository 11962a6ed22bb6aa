/*
 * regions.h: small direct blocks share 2 MiB-aligned regions of the card.
 *
 * The driver takes 2 MiB from the card when the first live block of at most 1 MiB appears in a
 * region and gives them back with the last one, whatever the sizes in between (measured,
 * docs/driver-behaviour.md). So 2 MiB are charged for each distinct region with a live block.
 */
#ifndef GB_RESOURCE_REGIONS_H
#define GB_RESOURCE_REGIONS_H

#include <stdbool.h>
#include <stdint.h>

#include "resource/hash.h"
#include "resource/lock.h"

#define GB_REGION_BYTES      (UINT64_C(2) << 20)
#define GB_SMALL_BLOCK_BYTES (UINT64_C(1) << 20)

struct gb_region {
    uint64_t index;  /* address / GB_REGION_BYTES, the key */
    uint64_t blocks; /* live blocks that touch it; 0 only in the free list */
    struct gb_region *next;
    UT_hash_handle hh;
};

struct gb_regions {
    struct gb_lock lock;
    struct gb_region *regions;
    struct gb_region *free_list; /* entries kept for reuse, and spares of requests in flight */
    uint64_t count;              /* distinct regions with a live block */
    uint64_t live_bytes;         /* asked for by the live blocks */
    uint64_t spares;             /* entries in the free list */
};

void gb_regions_init(struct gb_regions *regions);

/* Frees all entries. No other thread may use them. */
void gb_regions_clear(struct gb_regions *regions);

/*
 * Before the driver is called: makes sure that the next add has the entries it may need. False
 * when there is no memory; then nothing changed.
 */
bool gb_regions_prepare(struct gb_regions *regions);

/*
 * A small block is live. Writes the number of regions (0, 1 or 2) that became live with it;
 * false, and nothing changed, when there was no memory.
 */
bool gb_regions_add(struct gb_regions *regions, uint64_t address, uint64_t bytes,
                    unsigned *became_live);

/* The block is gone; answers how many regions went with it. */
unsigned gb_regions_remove(struct gb_regions *regions, uint64_t address, uint64_t bytes);

/* Could the live regions hold `bytes` more, as far as sizes tell? */
bool gb_regions_may_hold(struct gb_regions *regions, uint64_t bytes);

#endif
