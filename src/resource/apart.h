/*
 * apart.h: a grant that is undone on a stream of its own, since the one that it was made on may
 * not move for a long time.
 *
 * A pool that grows gives out new and idle memory and joins none whose free is pending
 * (measured, docs/driver-behaviour.md). So nobody's work has to do with a block for which its
 * pool has grown, and where it is certain that it did so for this block, it can be freed behind
 * nothing, and goes back to the card at once.
 */
#ifndef GB_RESOURCE_APART_H
#define GB_RESOURCE_APART_H

#include "resource/backend.h"

/* Of pools; with more of them nothing is told. */
enum { GB_ASKING_POOLS = 32 };

/* A driver call for pool memory. */
struct gb_asking {
    bool alone;
    uint64_t mark;
    unsigned count;
    struct {
        const struct gb_pool *pool;
        CUmemoryPool handle;
        uint64_t reserved;
    } before[GB_ASKING_POOLS];
};

/*
 * Around the call. One that may be undone (request->alone) is made alone, as far as others let
 * it, and then request->grew says whether a pool has grown for it: any pool of the device,
 * since the current one may have been switched meanwhile.
 */
void gb_asking_begins(struct gb_backend *backend, const gpubudget_request_t *request,
                      struct gb_asking *asking);
void gb_asking_ends(struct gb_backend *backend, gpubudget_request_t *request,
                    struct gb_asking *asking, bool granted);

enum gb_apart {
    GB_APART_NOT,    /* nothing was done: it has to be freed on its own stream */
    GB_APART_QUEUED, /* freed, and not known when that is done */
    GB_APART_DONE
};

/* Frees the block of a request that grew, unless its own stream is idle. key: of that stream.
 */
enum gb_apart gb_apart_free(const struct gb_driver_api *api, const struct gb_stream_key *key,
                            CUdeviceptr pointer);

#endif
