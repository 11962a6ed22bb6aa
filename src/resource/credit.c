/*
 * credit.c: lanes of credit.
 *
 * A word: free, flying and spent units, 16 bits each; then whether the lane is closed; and a
 * turn that tells apart two states which count the same.
 */
#include "resource/credit.h"

#include <pthread.h>

#define MANY    UINT64_C(0xffff)
#define FREE    UINT64_C(1)
#define FLYING  (UINT64_C(1) << 16)
#define SPENT   (UINT64_C(1) << 32)
#define CLOSED  (UINT64_C(1) << 48)
#define TURN    (UINT64_C(1) << 49)
#define IN_LANE (CLOSED - 1)

static uint64_t count(uint64_t word, uint64_t kind)
{
    return word / kind & MANY;
}

unsigned gb_credit_lane(void)
{
    /* Told by its address: a variable of each thread would cost every thread of every process.
     * Those of threads made one after another lie at equal distances, which this spreads. */
    uint64_t self = (uint64_t)(uintptr_t)pthread_self();

    return (unsigned)((self >> 6) * UINT64_C(0x9e3779b97f4a7c15) >> 58);
}

bool gb_credit_claim(struct gb_credit *credit, unsigned lane, unsigned units)
{
    _Atomic uint64_t *place = &credit->lanes[lane].word;
    uint64_t word = atomic_load_explicit(place, memory_order_relaxed);

    do {
        if (count(word, FREE) < units || (word & CLOSED))
            return false;
    } while (!atomic_compare_exchange_weak(place, &word, word + units * (FLYING - FREE)));
    return true;
}

bool gb_credit_landed(struct gb_credit *credit, unsigned lane, unsigned units, bool granted)
{
    _Atomic uint64_t *place = &credit->lanes[lane].word;
    uint64_t word = atomic_fetch_add(place, units * ((granted ? SPENT : FREE) - FLYING));

    if (!(word & CLOSED))
        return false;
    /* What is free in a closed lane is called in with the rest. */
    word = atomic_load(place);
    while ((word & CLOSED) && count(word, FLYING) == 0 &&
           !atomic_compare_exchange_weak(place, &word, word - CLOSED))
        ;
    return true;
}

bool gb_credit_add(struct gb_credit *credit, unsigned lane, unsigned spent, unsigned free)
{
    _Atomic uint64_t *place = &credit->lanes[lane].word;
    uint64_t word = atomic_load_explicit(place, memory_order_relaxed);
    uint64_t bit = UINT64_C(1) << lane;

    if (!(atomic_load(&credit->used) & bit))
        atomic_fetch_or(&credit->used, bit);
    do {
        if ((word & CLOSED) || spent + count(word, SPENT) > MANY / 2 ||
            free + count(word, FREE) > MANY / 2)
            return false;
    } while (
        !atomic_compare_exchange_weak(place, &word, word + spent * SPENT + free * FREE + TURN));
    return true;
}

uint64_t gb_credit_look(struct gb_credit *credit, unsigned lane, unsigned *spent, unsigned *all)
{
    uint64_t word = atomic_load(&credit->lanes[lane].word);

    *spent = (unsigned)count(word, SPENT);
    *all = (unsigned)(count(word, FREE) + count(word, FLYING) + count(word, SPENT));
    return word;
}

unsigned gb_credit_turn(uint64_t word)
{
    return (unsigned)(word / TURN);
}

bool gb_credit_renew(struct gb_credit *credit, unsigned lane, uint64_t word)
{
    uint64_t renewed = word + count(word, SPENT) * (FREE - SPENT) + TURN;

    return !(word & CLOSED) &&
           atomic_compare_exchange_strong(&credit->lanes[lane].word, &word, renewed);
}

/* Answers the word as it was. */
static uint64_t call_in(_Atomic uint64_t *place, _Atomic uint64_t *floating, uint64_t unit)
{
    uint64_t word = atomic_load(place);

    while ((word & IN_LANE) != 0) {
        uint64_t flying = count(word, FLYING);
        uint64_t landing = word & CLOSED ? 0 : flying;
        uint64_t floats = (count(word, FREE) + count(word, SPENT) + landing) * unit;
        uint64_t rest = (word & ~IN_LANE) + flying * FLYING + TURN;

        /* Before they are off the lane, so that nobody misses them. */
        atomic_fetch_add(floating, floats);
        if (atomic_compare_exchange_strong(place, &word, flying > 0 ? rest | CLOSED : rest))
            return word;
        atomic_fetch_sub(floating, floats);
    }
    return 0;
}

void gb_credit_call_in(struct gb_credit *credit, _Atomic uint64_t *floating, uint64_t unit,
                       uint64_t *free, uint64_t *spent)
{
    uint64_t used = atomic_load(&credit->used);

    *free = *spent = 0;
    for (; used != 0; used &= used - 1) {
        unsigned lane = (unsigned)__builtin_ctzll(used);
        uint64_t word = call_in(&credit->lanes[lane].word, floating, unit);

        *free += count(word, FREE);
        *spent += count(word, SPENT);
    }
}

bool gb_credit_is_empty(const struct gb_credit *credit)
{
    for (unsigned lane = 0; lane < GB_CREDIT_LANES; lane++)
        if (atomic_load(&credit->lanes[lane].word) & (IN_LANE | CLOSED))
            return false;
    return true;
}

bool gb_credit_flies(const struct gb_credit *credit)
{
    for (unsigned lane = 0; lane < GB_CREDIT_LANES; lane++)
        if (count(atomic_load(&credit->lanes[lane].word), FLYING) > 0)
            return true;
    return false;
}
