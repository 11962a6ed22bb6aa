#include "resource/sole.h"

#include <sched.h>
#include <time.h>

#include "resource/nap.h"

enum { NAP_NS = 20000, YIELDS = 16 };

static uint64_t now(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t)ts.tv_sec * UINT64_C(1000000000) + (uint64_t)ts.tv_nsec;
}

/* One more turn of a wait that began with *deadline 0? Where others have waited in vain just
 * now, not even the first. */
static bool may_wait(struct gb_sole *sole, uint64_t *deadline, unsigned turn)
{
    uint64_t time = now();

    if (*deadline == 0) {
        if (time < atomic_load(&sole->weary))
            return false;
        *deadline = time + GB_SOLE_WAIT_NS;
    } else if (time >= *deadline) {
        atomic_store(&sole->weary, time + GB_SOLE_WEARY_NS);
        return false;
    }
    if (turn < YIELDS)
        sched_yield();
    else
        gb_nap(NAP_NS);
    return true;
}

void gb_sole_join(struct gb_sole *sole)
{
    uint64_t deadline = 0;

    for (unsigned turn = 0;; turn++) {
        if (atomic_load(&sole->wanted) == 0) {
            /* Counted, then looked again: either it sees the wish, or is seen. */
            atomic_fetch_add(&sole->begun, 1);
            if (atomic_load(&sole->wanted) == 0)
                return;
            atomic_fetch_add(&sole->ended, 1);
        }
        if (!may_wait(sole, &deadline, turn))
            break;
    }
    atomic_fetch_add(&sole->begun, 1);
}

void gb_sole_leave(struct gb_sole *sole)
{
    atomic_fetch_add(&sole->ended, 1);
}

/* Read in this order: one that begins in between is seen as being there. */
static bool is_only_one(const struct gb_sole *sole, uint64_t *mark)
{
    uint64_t ended = atomic_load(&sole->ended);

    *mark = atomic_load(&sole->begun);
    return *mark - ended == 1;
}

bool gb_sole_begin(struct gb_sole *sole, bool (*is_quiet)(void *arg), void *arg, uint64_t *mark)
{
    uint64_t deadline = 0;

    atomic_fetch_add(&sole->wanted, 1);
    atomic_fetch_add(&sole->begun, 1);
    for (unsigned turn = 0;; turn++) {
        if (is_only_one(sole, mark) && is_quiet(arg))
            return true;
        if (!may_wait(sole, &deadline, turn))
            return false;
    }
}

bool gb_sole_end(struct gb_sole *sole, uint64_t mark)
{
    /* One that was counted and then saw the wish has not asked: it is taken for one that has,
     * which errs to the safe side. */
    bool alone = atomic_load(&sole->begun) == mark;

    atomic_fetch_add(&sole->ended, 1);
    atomic_fetch_sub(&sole->wanted, 1);
    return alone;
}

void gb_sole_forked(struct gb_sole *sole)
{
    atomic_store(&sole->begun, 0);
    atomic_store(&sole->ended, 0);
    atomic_store(&sole->wanted, 0);
    atomic_store(&sole->weary, 0);
}
