/*
 * credit.h: bounds that stand in the ledger before the grants that they are for.
 *
 * Far from the limit a budget lets a pool's grant post more than its own bound. What is beyond
 * it lies in the lane of the thread, and the thread's next grants take theirs from there: no
 * counter that other threads write is touched, and the ledger never lacks what they may take.
 */
#ifndef GB_RESOURCE_CREDIT_H
#define GB_RESOURCE_CREDIT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* Threads have one each, with luck; others share. */
enum { GB_CREDIT_LANES = 64 };

/* The most that a lane holds; counted in units of a pool's step. */
enum { GB_CREDIT_MOST = 64 };

/*
 * A lane's word counts units of three kinds, all in the ledger: free ones; flying ones, whose
 * driver call is in progress; and spent ones, whose memory has been granted and not been looked
 * for. Whoever looks at the pool calls free and spent ones in. Flying ones cannot be: the lane
 * is closed instead, and they count as floating in the ledger until their threads have looked
 * themselves.
 */
struct gb_credit {
    struct gb_credit_lane {
        _Atomic uint64_t word;
        char apart[64 - sizeof(uint64_t)]; /* no two words in one cache line */
    } lanes[GB_CREDIT_LANES];
    _Atomic uint64_t used; /* lanes that have ever had some, a bit each */
};

/* The calling thread's lane. */
unsigned gb_credit_lane(void);

/* Before the driver is called: free units fly. False: there are not as many. */
bool gb_credit_claim(struct gb_credit *credit, unsigned lane, unsigned units);

/*
 * After it: they are spent or, where nothing was granted, free again. True: they have been
 * called in, so the caller looks at the pool and then takes them out of floating.
 */
bool gb_credit_landed(struct gb_credit *credit, unsigned lane, unsigned units, bool granted);

/* Units that the caller has put in the ledger. False: not here, not now. */
bool gb_credit_add(struct gb_credit *credit, unsigned lane, unsigned spent, unsigned free);

/* The word, for gb_credit_renew: spent units are free again if nothing has changed since. */
uint64_t gb_credit_look(struct gb_credit *credit, unsigned lane, unsigned *spent,
                        unsigned *all);
bool gb_credit_renew(struct gb_credit *credit, unsigned lane, uint64_t word);

/* How often the lane has been changed by others than its grants, modulo something large. */
unsigned gb_credit_turn(uint64_t word);

/*
 * Calls in what all lanes have. Free units can leave the ledger at once, spent ones once the
 * caller has looked. Both are added to *floating, `unit` bytes each, until the caller has moved
 * the ledger and takes them out again; so are those that fly, until they land.
 */
void gb_credit_call_in(struct gb_credit *credit, _Atomic uint64_t *floating, uint64_t unit,
                       uint64_t *free, uint64_t *spent);

/* Is the driver being called on credit of any lane? */
bool gb_credit_flies(const struct gb_credit *credit);

/* Has no lane anything? */
bool gb_credit_is_empty(const struct gb_credit *credit);

#endif
