/*
 * other.h: what the process holds on a device and no call of ours granted: modules and their
 * globals, streams, the device heap, page tables, and whatever else the driver takes.
 */
#ifndef GB_RESOURCE_OTHER_H
#define GB_RESOURCE_OTHER_H

#include "driver/api.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "resource/lock.h"

struct gb_backend;
struct gpubudget_budget;

/*
 * Bytes that the whole card has free, and who says so: figures of different sources need not
 * agree, so only those of one are compared.
 */
struct gb_hint {
    uint64_t free;
    unsigned source;
};

/* A cheap question; false: not known. hint->source: the one that is wanted, 0: any. */
typedef bool (*gb_hint_fn)(void *arg, const struct gb_driver_api *api, struct gb_hint *hint);

/* The tools tell again, or no longer, what the process holds. Arg: as of the hint. */
typedef void (*gb_told_fn)(void *arg, bool tells);

/*
 * A gauge. Invariant: `posted` is what it adds to the ledger; only a look changes it, under
 * `lock`, and moves the ledger by the difference once. It never counts what is tracked
 * elsewhere, nor what other threads are about to track: see gb_other_look.
 */
struct gb_other {
    struct gb_lock lock;
    _Atomic uint64_t posted; /* bytes */
    /* Free bytes of the card plus all that is tracked, at the last look: 0 before the first.
     * While it stays, nothing untracked has changed, here or in a neighbour. */
    _Atomic uint64_t level;
    _Atomic unsigned source;  /* of the hint that the level came from */
    _Atomic uint64_t looked;  /* when the last look began, CLOCK_MONOTONIC, ns */
    _Atomic uint64_t in_vain; /* the last look that changed nothing, CLOCK_MONOTONIC, ns */
    _Atomic bool exact;       /* nothing was going on at the last look: posted is the truth */
    _Atomic uint64_t risen;   /* bytes: the sum of all rises */
    _Atomic bool tells;       /* the last look got a figure */
    _Atomic bool blind;       /* it did not, though the process holds something */
    _Atomic uint64_t rested;  /* the level at which the card was last seen to rest (card.h) */
    _Atomic unsigned rested_source;
    gb_told_fn told; /* hears when `blind` changes; NULL: nobody */
    gb_hint_fn hint; /* NULL: no hints */
    void *hint_arg;
    struct gpubudget_budget *budget; /* whose requests are in flight; NULL: none */
};

void gb_other_init(struct gb_other *other);

/* In the child of a fork: nothing is held. */
void gb_other_forked(struct gb_other *other);

/*
 * Asks the card's tools what the process holds (half a millisecond) and posts what is not
 * tracked. Answers by how much it rose. Changes nothing where they cannot tell, or while a
 * context is being made. own: of the bytes in flight, those of the caller, who has taken all it
 * will.
 */
uint64_t gb_other_look(struct gb_backend *backend, uint64_t own);

/*
 * Around a driver call that may give back what is tracked, up to the ledger's note of it. In
 * between the card's tools show less than the ledger has; that is not the driver's memory that
 * has become less.
 */
void gb_giving_begins(void);
void gb_giving_ends(void);
void gb_giving_forked(void);

/* How often it has happened; false: somebody is at it. */
bool gb_giving_count(uint64_t *count);

/* What the tools show and nothing tracks: bounds of it. */
struct gb_other_reading {
    uint64_t least, most; /* bytes */
    uint64_t figure;
    uint64_t pending; /* freed in stream order: the card may have it back, the ledger has not */
    uint64_t inherited;    /* of what is imported, found by looks (inherited.h) */
    uint64_t since, until; /* all that the ledger had acquired before and, at most, after it */
    bool known;
    bool quiet; /* nothing moved: the two are the same, and exact */
};

/*
 * Around a driver call that brings in memory of others, which is never charged: what of it the
 * tools attribute to this process. Noted in backend->imported; its end takes it off there.
 */
void gb_other_before_import(struct gb_backend *backend, struct gb_other_reading *before);
uint64_t gb_other_imported(struct gb_backend *backend, const struct gb_other_reading *before);

/*
 * The same where a cheap hint says that something untracked has changed. A neighbour's memory
 * moves the hint too: where there is no reason of our own (because: false), it is not followed
 * again for some milliseconds after a look that found nothing.
 */
void gb_other_check(struct gb_backend *backend, bool because);

/* False: others were busy at the last look, which may have missed some. */
bool gb_other_is_settled(struct gb_backend *backend);

/* False: something was going on at the last look. What is posted may be too little, or too much
 * and about to fall. */
bool gb_other_is_exact(struct gb_backend *backend);

/* Can the card's tools tell what the process holds, as far as is known? */
bool gb_other_tells(struct gb_backend *backend);

/* They have told, or have failed to, outside a look. */
void gb_other_note_told(struct gb_backend *backend, bool tells);

/* The level (above) by the hint, whose source may be given. */
bool gb_other_level(struct gb_backend *backend, const struct gb_driver_api *api,
                    struct gb_hint *hint, uint64_t *level);

/* The most that requests may have taken and not posted yet. */
uint64_t gb_other_in_flight(const struct gb_backend *backend);

/* What pools and graphs hold is tracked, as far as somebody has looked: a look. */
void gb_other_refresh_gauges(struct gb_backend *backend);

#endif
