/*
 * sole.h: one request at a time that asks the driver for pool memory alone, so that what its
 * pool has grown by during the call is known to be its own.
 *
 * Others count themselves before and after their call. Whoever wants to be alone says so and
 * waits until nobody is counted; the others wait for it. Each wait is bounded: when it is over
 * both go on, and the one that wanted to be alone was not.
 */
#ifndef GB_RESOURCE_SOLE_H
#define GB_RESOURCE_SOLE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/*
 * Invariants: begun and ended only grow; ended <= begun; as many calls are in progress as they
 * differ by, those that are to be alone included. All zero is nobody.
 */
struct gb_sole {
    _Atomic unsigned wanted; /* requests that want to be alone, or are; read by everybody */
    _Atomic uint64_t weary;  /* CLOCK_MONOTONIC, ns: until then nobody waits again */
    char apart[48];          /* what is written often lies in another cache line */
    _Atomic uint64_t begun, ended;
};

/* How long anybody waits, and for how long nobody does after one has waited in vain. */
#define GB_SOLE_WAIT_NS  UINT64_C(100000000)
#define GB_SOLE_WEARY_NS UINT64_C(1000000000)

/* Around the call of somebody who need not be alone. */
void gb_sole_join(struct gb_sole *sole);
void gb_sole_leave(struct gb_sole *sole);

/*
 * Around the call of one that wants to be alone. is_quiet says whether all are done that began
 * before they were counted (they show in some other way); it is asked again and again. begin
 * answers whether nobody else is asking now, and end whether nobody has begun since: both true
 * is alone. Only one thread of those that begin at once is.
 */
bool gb_sole_begin(struct gb_sole *sole, bool (*is_quiet)(void *arg), void *arg,
                   uint64_t *mark);
bool gb_sole_end(struct gb_sole *sole, uint64_t mark);

/* In the child of a fork. */
void gb_sole_forked(struct gb_sole *sole);

#endif
