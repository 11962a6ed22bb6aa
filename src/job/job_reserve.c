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
#include "resource/resource.h"

/* Between two looks at the other slots, and at the file. */
enum { NAP_NS = 20000, FILE_LOOK_NS = 100000000 };

static uint64_t time_of(clockid_t clock)
{
    struct timespec ts;

    clock_gettime(clock, &ts);
    return (uint64_t)ts.tv_sec * UINT64_C(1000000000) + (uint64_t)ts.tv_nsec;
}

bool gb_job_is_gone(struct gb_job *job)
{
    uint64_t now, looked = atomic_load_explicit(&job->looked, memory_order_relaxed);

    if (atomic_load_explicit(&job->gone, memory_order_relaxed))
        return true;
    now = time_of(CLOCK_MONOTONIC_COARSE);
    if (now - looked < FILE_LOOK_NS ||
        !atomic_compare_exchange_strong(&job->looked, &looked, now))
        return false;
    if (gb_job_file_is_gone(&job->file))
        atomic_store(&job->gone, true);
    return atomic_load(&job->gone);
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

        sum = gb_add_saturated(
            sum, gb_add_saturated(in_flight, gb_ledger_difference(&account->held)));
    }
    return sum;
}

uint64_t gb_job_held(const struct gb_job *job, int device)
{
    const uint64_t slots = slots_of(job);
    uint64_t sum = 0;

    for (uint64_t i = 0; i < slots; i++)
        sum = gb_add_saturated(
            sum, gb_ledger_difference(&job->file.shared->slot[i].accounts[device].held));
    return sum;
}

uint64_t gb_job_in_flight(const struct gb_job *job, int device)
{
    const uint64_t slots = slots_of(job);
    uint64_t sum = 0;

    for (uint64_t i = 0; i < slots; i++)
        sum = gb_add_saturated(
            sum, atomic_load(&job->file.shared->slot[i].accounts[device].in_flight));
    return sum;
}

/* With the bytes in flight: do they fit? */
static bool fits(const struct gb_job *job, int device, uint64_t pressure, uint64_t *left)
{
    uint64_t limit = gb_job_limit(job, device), sum;

    if (limit == GB_JOB_NO_LIMIT) {
        *left = limit;
        return true;
    }
    sum = gb_add_saturated(gb_job_used(job, device), pressure);
    if (sum > limit)
        return false;
    *left = limit - sum;
    return true;
}

/* Can waiting for others help? */
static bool may_fit(const struct gb_job *job, int device, uint64_t bytes, uint64_t pressure)
{
    return gb_add_saturated(gb_job_held(job, device), gb_add_saturated(bytes, pressure)) <=
           gb_job_limit(job, device);
}

bool gb_job_claim(struct gb_job *job, int device, uint64_t bytes, uint64_t pressure,
                  uint64_t *left)
{
    if (!job->slot || gb_job_is_gone(job) || bytes > gb_job_limit(job, device))
        return false;
    atomic_fetch_add(&gb_job_account(job, device)->in_flight, bytes);
    if (fits(job, device, pressure, left))
        return true;
    gb_job_settle(job, device, bytes);
    return false;
}

bool gb_job_insist(struct gb_job *job, int device, uint64_t bytes, uint64_t pressure,
                   uint64_t deadline, uint64_t *left)
{
    /* Not put in flight where others would only be kept off by it. */
    if (!job->slot)
        return false;
    while (!may_fit(job, device, bytes, pressure))
        if (gb_job_reap(job) == 0)
            return false;
    atomic_fetch_add(&gb_job_account(job, device)->in_flight, bytes);
    for (;;) {
        if (fits(job, device, pressure, left))
            return true;
        /* What is in flight may be a dead process's. */
        if (gb_job_reap(job) > 0)
            continue;
        if (!may_fit(job, device, bytes, pressure) || time_of(CLOCK_MONOTONIC) >= deadline)
            break;
        gb_nap(NAP_NS);
    }
    gb_job_settle(job, device, bytes);
    return false;
}

bool gb_job_reserve(struct gb_job *job, int device, uint64_t bytes, uint64_t deadline)
{
    uint64_t left;
    bool granted;

    if (gb_job_claim(job, device, bytes, 0, &left))
        return true;
    if (!gb_job_turn_take(job, device, deadline))
        return false;
    granted = gb_job_insist(job, device, bytes, 0, deadline, &left);
    gb_job_turn_drop(job, device);
    return granted;
}
