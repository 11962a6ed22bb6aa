/*
 * estimates.h: what calls took of the card by its free memory, where none of its tools can tell
 * what this process holds.
 *
 * A figure of the whole card, moved by neighbours: so it is asked right around the call, and
 * what is charged stays with the object until that ends, whatever the card does meanwhile.
 */
#ifndef GB_RESOURCE_ESTIMATES_H
#define GB_RESOURCE_ESTIMATES_H

#include "driver/api.h"

#include <stdbool.h>
#include <stdint.h>

#include "resource/hash.h"
#include "resource/ledger.h"
#include "resource/lock.h"

struct gb_estimate_key {
    uint64_t kind;   /* enum gb_measured */
    uint64_t handle; /* of the object; of the context, where the memory stays with that */
};

struct gb_estimate {
    struct gb_estimate_key key;
    CUcontext context;   /* ends with it; NULL: does not */
    uint64_t generation; /* of the block table when it was made: see gb_backend_context_ended */
    uint64_t bytes;
    UT_hash_handle hh;
};

/* Invariant: `charged` is what all of them add to the ledger. */
struct gb_estimates {
    struct gb_lock lock;
    struct gb_estimate *table;
    struct gpubudget_accounting *ledger;
    _Atomic uint64_t charged;
    uint64_t taken; /* of it, by those who are ending an object; under the lock */
};

void gb_estimates_init(struct gb_estimates *estimates, struct gpubudget_accounting *ledger);
void gb_estimates_clear(struct gb_estimates *estimates);

/*
 * An object has taken `change` bytes more, or given so many back (never below what it has).
 * Without memory for an entry it stays charged until the tools tell.
 */
void gb_estimates_change(struct gb_estimates *estimates, uint64_t kind, uint64_t handle,
                         CUcontext context, uint64_t generation, int64_t change);

/*
 * Around the call that ends an object: taken before, since the handle may be another's right
 * after; ended: it is gone, and its bytes are free. NULL: nothing is charged for it.
 */
struct gb_estimate *gb_estimates_take(struct gb_estimates *estimates, uint64_t kind,
                                      uint64_t handle);
void gb_estimates_taken(struct gb_estimates *estimates, struct gb_estimate *taken, bool ended);

/* With a context all ends that was made in it up to that generation. */
void gb_estimates_context_ended(struct gb_estimates *estimates, CUcontext context,
                                uint64_t generation);

/* The tools have told, and what they said is charged: all estimates end. Answers their sum. */
uint64_t gb_estimates_drop(struct gb_estimates *estimates);

#endif
