/*
 * job.h: one process's part in the budget of a job.
 */
#ifndef GB_JOB_JOB_H
#define GB_JOB_JOB_H

#include "job/job_file.h"

#include "resource/lock.h"

/*
 * Invariants: `slot` is ours from the claim until the process ends or execs, because `held`
 * refers to the open file whose lock it is. Only we write to it, and nobody else does while
 * that lock is held. A fork does not inherit `held`, and so nothing of the slot.
 */
struct gb_job {
    struct gb_job_file file;
    struct gb_job_slot *slot;
    unsigned place;
    void *held;                           /* a page of the file that is never touched */
    struct gb_lock turns[GB_JOB_DEVICES]; /* of this process's threads, before the job's */
    _Atomic uint64_t looked; /* when it was last looked whether the file is there */
    _Atomic bool gone;       /* it is not */
};

/*
 * Joins the job: opens its file and claims a slot. False: file.refused says why. Forks must be
 * kept out meanwhile: a child would inherit the descriptor, and with it the slot.
 */
bool gb_job_join(struct gb_job *job, const struct gb_state_dir *dir,
                 const struct gb_job_name *name);

/* Gives the slot back and forgets the job; nobody may use it any more. */
void gb_job_leave(struct gb_job *job);

/* In the child of a fork, before anything else: forgets the parent's slot. The file stays
 * mapped; gb_job_rejoin claims a slot in it. */
void gb_job_forked(struct gb_job *job);
bool gb_job_rejoin(struct gb_job *job);

static inline struct gb_job_account *gb_job_account(const struct gb_job *job, int device)
{
    return &job->slot->accounts[device];
}

/*
 * 0 where nothing more may be granted: the file is gone, so that processes which join now have
 * another ledger, and what both let in together nobody could tell; or this is a fork's child,
 * which has no slot.
 */
static inline uint64_t gb_job_limit(const struct gb_job *job, int device)
{
    if (!job->slot || atomic_load_explicit(&job->gone, memory_order_relaxed))
        return 0;
    return atomic_load(&job->file.shared->device[device].limit);
}

/* Has the file been removed? Looks at most ten times a second; what was seen stays so. */
bool gb_job_is_gone(struct gb_job *job);

/* Bytes that all processes of the job hold or are about to take. While they allocate and free
 * it may be above the truth of any one moment, never below it. */
uint64_t gb_job_used(const struct gb_job *job, int device);

/* Of that what is held: claims that may be withdrawn are left out. */
uint64_t gb_job_held(const struct gb_job *job, int device);

/* What is about to be taken. */
uint64_t gb_job_in_flight(const struct gb_job *job, int device);

/*
 * Puts so many bytes in flight, if they fit into the job's limit with all that others hold or
 * are about to take; pressure counts at this decision only. Writes what is left beside them.
 * Makes no system call but, now and then, for gb_job_is_gone. False: they do not fit just now.
 */
bool gb_job_claim(struct gb_job *job, int device, uint64_t bytes, uint64_t pressure,
                  uint64_t *left);

/*
 * The same with the turn: the claim stands while other processes withdraw theirs, or settle. So
 * of requests that race for the last bytes one always gets them. What ended processes have
 * left is given back first. False: what is held leaves no room, or others do not settle before
 * the deadline (CLOCK_MONOTONIC, ns).
 */
bool gb_job_insist(struct gb_job *job, int device, uint64_t bytes, uint64_t pressure,
                   uint64_t deadline, uint64_t *left);

/* One of all threads of all processes of the job has the turn of a device. False: others have
 * it beyond the deadline. */
bool gb_job_turn_take(struct gb_job *job, int device, uint64_t deadline);
void gb_job_turn_drop(struct gb_job *job, int device);

/* Claims, and where that fails insists, in turn. */
bool gb_job_reserve(struct gb_job *job, int device, uint64_t bytes, uint64_t deadline);

/* They stand in the ledger now, or were not taken. */
static inline void gb_job_settle(struct gb_job *job, int device, uint64_t bytes)
{
    if (job->slot)
        atomic_fetch_sub(&gb_job_account(job, device)->in_flight, bytes);
}

/* Gives back what processes have left that have ended; answers how many. */
unsigned gb_job_reap(struct gb_job *job);

/*
 * May the card still lack what the ledger has given back? A killed process drops its lock
 * before the driver has its memory: 31 to 295 ms before, with up to 20,000 blocks (measured,
 * H200, docs/measurements.md). True for a second after the last such process.
 */
bool gb_job_reaped_lately(const struct gb_job *job);

#endif
