/*
 * job_reserve.c: who gets what is left of a job's limit.
 *
 * A request puts its bytes in flight in its own slot, and then adds up all slots. Take all
 * grants that are alive at one moment, and of them the one whose bytes were added last: its sum
 * began after every other add, none of which has been taken back since, so it saw them all. No
 * lock, and no total that a killed process could leave wrong.
 */
#include "job/job.h"

#include <time.h>

#include "resource/nap.h"

/* Between two looks. */
enum { NAP_NS = 20000 };

static uint64_t now(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t)ts.tv_sec * UINT64_C(1000000000) + (uint64_t)ts.tv_nsec;
}

static uint64_t add(uint64_t one, uint64_t other)
{
    return one > UINT64_MAX - other ? UINT64_MAX : one + other;
}

/* Reclaimed before acquired: see gb_ledger_outstanding. */
static uint64_t outstanding(const struct gb_job_account *account)
{
    uint64_t reclaimed = atomic_load(&account->reclaimed);
    uint64_t acquired = atomic_load(&account->acquired);

    return acquired - reclaimed;
}

static uint64_t slots_of(const struct gb_job *job)
{
    uint64_t used = atomic_load(&job->file.shared->head.used_slots);

    return used < GB_JOB_SLOTS ? used : GB_JOB_SLOTS;
}

uint64_t gb_job_used(const struct gb_job *job, int device)
{
    const uint64_t slots = slots_of(job);
    uint64_t sum = 0;

    for (uint64_t i = 0; i < slots; i++) {
        const struct gb_job_account *account = &job->file.shared->slot[i].accounts[device];
        /* In flight before the ledger: what settles in between counts twice, never not at
         * all. */
        uint64_t in_flight = atomic_load(&account->in_flight);

        sum = add(sum, add(in_flight, outstanding(account)));
    }
    return sum;
}

uint64_t gb_job_held(const struct gb_job *job, int device)
{
    const uint64_t slots = slots_of(job);
    uint64_t sum = 0;

    for (uint64_t i = 0; i < slots; i++)
        sum = add(sum, outstanding(&job->file.shared->slot[i].accounts[device]));
    return sum;
}

static bool lower_claims(const struct gb_job *job, int device)
{
    for (unsigned i = 0; i < job->place; i++)
        if (atomic_load(&job->file.shared->slot[i].accounts[device].in_flight) != 0)
            return true;
    return false;
}

static bool claim(struct gb_job *job, int device, uint64_t bytes)
{
    struct gb_job_account *mine = gb_job_account(job, device);

    atomic_fetch_add(&mine->in_flight, bytes);
    if (gb_job_used(job, device) <= gb_job_limit(job, device))
        return true;
    atomic_fetch_sub(&mine->in_flight, bytes);
    return false;
}

/*
 * With the turn. What stands in the way may be in flight: the claim is kept while only higher
 * slots and this process's other threads have some, who withdraw theirs, or settle. False, and
 * withdrawn: what is held leaves no room, a lower slot has a claim, or the time is over.
 */
static bool insist(struct gb_job *job, int device, uint64_t bytes, uint64_t deadline)
{
    struct gb_job_account *mine = gb_job_account(job, device);

    atomic_fetch_add(&mine->in_flight, bytes);
    for (;;) {
        if (gb_job_used(job, device) <= gb_job_limit(job, device))
            return true;
        if (lower_claims(job, device) ||
            add(gb_job_held(job, device), bytes) > gb_job_limit(job, device) ||
            now() >= deadline)
            break;
        gb_nap(NAP_NS);
    }
    atomic_fetch_sub(&mine->in_flight, bytes);
    return false;
}

bool gb_job_reserve(struct gb_job *job, int device, uint64_t bytes, uint64_t deadline)
{
    bool granted;

    if (bytes > gb_job_limit(job, device))
        return false;
    if (claim(job, device, bytes))
        return true;
    gb_lock_take(&job->turn);
    while (!(granted = insist(job, device, bytes, deadline))) {
        if (gb_job_reap(job) > 0)
            continue;
        if (add(gb_job_held(job, device), bytes) > gb_job_limit(job, device) ||
            now() >= deadline)
            break;
        gb_nap(NAP_NS);
    }
    gb_lock_drop(&job->turn);
    return granted;
}
