/*
 * job_turn.c: the turn of a device in a job: one thread of one process at a time looks for room
 * where claims stand in each other's way, or lets the driver decide.
 *
 * Every process has a word of its own in its slot, so a killed one leaves nothing that others
 * could not tell: its slot's lock is free. Who wants the turn raises its word, and lowers it
 * again as long as one in a lower slot is raised; then it waits for those in higher slots. Of
 * two that come at once the later one to raise its word sees the other's.
 */
#include "job/job.h"

#include <time.h>

#include "resource/nap.h"

/* Between two looks, and between two questions whether those who have it live. */
enum { NAP_NS = 20000, REAP_EVERY = 50 };

static bool is_over(uint64_t deadline)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t)ts.tv_sec * UINT64_C(1000000000) + (uint64_t)ts.tv_nsec >= deadline;
}

/* Until the word of that slot is low; false: it is not, by the deadline. */
static bool wait_for(struct gb_job *job, unsigned slot, int device, uint64_t deadline)
{
    const _Atomic uint64_t *turn = &job->file.shared->slot[slot].accounts[device].turn;

    for (unsigned i = 1; atomic_load(turn) != 0; i++) {
        if (i % REAP_EVERY == 0)
            gb_job_reap(job);
        if (is_over(deadline))
            return false;
        gb_nap(NAP_NS);
    }
    return true;
}

static unsigned slots_of(const struct gb_job *job)
{
    uint64_t used = atomic_load(&job->file.shared->head.used_slots);

    return (unsigned)(used < GB_JOB_SLOTS ? used : GB_JOB_SLOTS);
}

/* The word is raised: is nobody before us, and does everybody after us give way? */
static bool is_first(const struct gb_job *job, int device, unsigned *other)
{
    for (unsigned i = 0; i < job->place; i++)
        if (atomic_load(&job->file.shared->slot[i].accounts[device].turn) != 0) {
            *other = i;
            return false;
        }
    return true;
}

static bool take_among_processes(struct gb_job *job, int device, uint64_t deadline)
{
    _Atomic uint64_t *mine = &gb_job_account(job, device)->turn;
    unsigned other = 0, slots;

    atomic_store(mine, 1);
    while (!is_first(job, device, &other)) {
        atomic_store(mine, 0);
        if (!wait_for(job, other, device, deadline))
            return false;
        atomic_store(mine, 1);
    }
    slots = slots_of(job);
    for (unsigned i = job->place + 1; i < slots; i++)
        if (!wait_for(job, i, device, deadline)) {
            atomic_store(mine, 0);
            return false;
        }
    return true;
}

bool gb_job_turn_take(struct gb_job *job, int device, uint64_t deadline)
{
    if (!job->slot)
        return false;
    gb_lock_take(&job->turns[device]);
    if (take_among_processes(job, device, deadline))
        return true;
    gb_lock_drop(&job->turns[device]);
    return false;
}

void gb_job_turn_drop(struct gb_job *job, int device)
{
    if (job->slot)
        atomic_store(&gb_job_account(job, device)->turn, 0);
    gb_lock_drop(&job->turns[device]);
}
