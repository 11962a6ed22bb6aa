/*
 * pool_owner.h: which device a memory pool is on, and whether its memory is charged.
 */
#ifndef GB_INTERPOSE_POOL_OWNER_H
#define GB_INTERPOSE_POOL_OWNER_H

#include "interpose/process.h"

/*
 * The device with a budget whose memory the pool gives out; false: there is none, or the pool
 * is never charged (imported, host memory). A pool that we did not see begin is looked for
 * among the default pools, then taken for one of `guess` (may be NULL).
 */
bool gb_pool_owner(struct gb_driver *drv, CUmemoryPool pool, struct gb_device *guess,
                   struct gb_device **owner);

/* Is it a pool of managed memory? Then its blocks are charged to that device. */
bool gb_pool_managed(struct gb_driver *drv, CUmemoryPool pool, struct gb_device **owner);

/* The entry of a pool that some device knows, else NULL. */
struct gb_pool *gb_pool_known(struct gb_driver *drv, CUmemoryPool pool,
                              struct gb_device **owner);

#endif
