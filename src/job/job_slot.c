/*
 * job_slot.c: slots are claimed, held, and taken from the dead.
 */
#define _GNU_SOURCE
#include "job/job.h"

#include <fcntl.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "job/stat.h"
#include "resource/nap.h"

#define LATELY_NS UINT64_C(1000000000)

enum { JOIN_TRIES = 8, JOIN_NAP_NS = 1000000 };

static uint64_t now(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t)ts.tv_sec * UINT64_C(1000000000) + (uint64_t)ts.tv_nsec;
}

static bool is_clear(const struct gb_job_account *account)
{
    return atomic_load(&account->in_flight) == 0 && atomic_load(&account->turn) == 0 &&
           gb_ledger_difference(&account->held) == 0;
}

/* With the slot's lock held. The totals go on: a reader between two of its loads must never
 * see less than there is. */
static bool drop_rest(struct gb_job_slot *slot)
{
    bool any = false;

    for (int i = 0; i < GB_JOB_DEVICES; i++) {
        struct gb_job_account *account = &slot->accounts[i];
        uint64_t acquired = atomic_load(&account->held.acquired);

        any |= !is_clear(account);
        atomic_store(&account->turn, 0);
        atomic_store(&account->in_flight, 0);
        atomic_store(&account->held.reclaimed, acquired);
    }
    return any;
}

/* The slot's pages get their place on the disk before anybody touches them. */
static bool make_room(int fd, unsigned place)
{
    return posix_fallocate(fd,
                           (off_t)offsetof(struct gb_job_shared, slot) +
                               (off_t)place * (off_t)sizeof(struct gb_job_slot),
                           sizeof(struct gb_job_slot)) == 0;
}

static void count_slot(struct gb_job_shared *shared, unsigned place)
{
    uint64_t used = atomic_load(&shared->head.used_slots);

    while (used < place + 1 &&
           !atomic_compare_exchange_weak(&shared->head.used_slots, &used, place + 1))
        ;
}

/*
 * The lock is to last as long as this process and no longer. A descriptor would be closed by a
 * program that closes all it finds, and be inherited by children, who would keep the slot for a
 * parent that is gone. A mapping of the file refers to the lock as well, and this one goes to
 * no child; so the descriptor is closed at once.
 */
static bool hold(struct gb_job *job, int fd)
{
    long page = sysconf(_SC_PAGESIZE);

    job->held = mmap(NULL, (size_t)page, PROT_NONE, MAP_SHARED, fd, 0);
    if (job->held == MAP_FAILED) {
        job->held = NULL;
        return false;
    }
    if (madvise(job->held, (size_t)page, MADV_DONTFORK) == 0)
        return true;
    munmap(job->held, (size_t)page);
    job->held = NULL;
    return false;
}

static const char taken[] = "has no slot left for another process";

/* With a slot's lock: whoever removes the file has all of them before. */
static bool is_removed(int fd)
{
    struct stat is;

    return !gb_stat(fd, &is) || is.st_nlink == 0;
}

static const char *claim(struct gb_job *job)
{
    int fd = gb_job_file_again(&job->file);
    const char *fault = NULL;
    unsigned place = 0;

    if (fd < 0)
        return gb_job_file_removed;
    while (place < GB_JOB_SLOTS && !gb_job_file_lock(fd, place))
        place++;
    if (place == GB_JOB_SLOTS)
        fault = taken;
    else if (is_removed(fd))
        fault = gb_job_file_removed;
    else if (!make_room(fd, place))
        fault = "has no room on its disk";
    else if (!hold(job, fd))
        fault = "cannot be mapped";
    close(fd);
    if (fault)
        return fault;
    job->place = place;
    job->slot = &job->file.shared->slot[place];
    if (drop_rest(job->slot))
        atomic_store(&job->file.shared->head.reaped, now());
    atomic_store(&job->slot->pid, (uint64_t)getpid());
    count_slot(job->file.shared, place);
    return NULL;
}

static void init_turns(struct gb_job *job)
{
    for (int i = 0; i < GB_JOB_DEVICES; i++)
        gb_lock_init(&job->turns[i]);
}

bool gb_job_rejoin(struct gb_job *job)
{
    job->file.refused = claim(job);
    return !job->file.refused;
}

/* A file in which nobody is may be cleaned up just then: the next one is new. */
static bool may_pass(const char *fault)
{
    return fault == gb_job_file_removed || fault == taken;
}

bool gb_job_join(struct gb_job *job, const struct gb_state_dir *dir,
                 const struct gb_job_name *name)
{
    for (int tries = 0;; tries++) {
        memset(job, 0, sizeof(*job));
        init_turns(job);
        if (gb_job_file_open(dir, name, &job->file) && gb_job_rejoin(job))
            return true;
        gb_job_file_close(&job->file);
        if (tries == JOIN_TRIES || !may_pass(job->file.refused))
            return false;
        gb_nap(JOIN_NAP_NS);
    }
}

void gb_job_leave(struct gb_job *job)
{
    if (job->slot)
        drop_rest(job->slot);
    if (job->held)
        munmap(job->held, (size_t)sysconf(_SC_PAGESIZE));
    job->held = NULL;
    job->slot = NULL;
    gb_job_file_close(&job->file);
}

void gb_job_forked(struct gb_job *job)
{
    init_turns(job);
    job->held = NULL;
    job->slot = NULL;
}

static bool is_idle(const struct gb_job_slot *slot)
{
    for (int i = 0; i < GB_JOB_DEVICES; i++)
        if (!is_clear(&slot->accounts[i]))
            return false;
    return true;
}

unsigned gb_job_reap(struct gb_job *job)
{
    struct gb_job_shared *shared = job->file.shared;
    uint64_t used = atomic_load(&shared->head.used_slots);
    unsigned reaped = 0;
    int fd = -1;

    /* Each call has an open file of its own, so a thread never "gets" what another one has. */
    for (unsigned i = 0; i < used && i < GB_JOB_SLOTS; i++) {
        struct gb_job_slot *slot = &shared->slot[i];

        if (slot == job->slot || is_idle(slot))
            continue;
        if (fd < 0)
            fd = gb_job_file_again(&job->file);
        if (fd < 0)
            return reaped;
        if (!gb_job_file_lock(fd, i))
            continue;
        if (drop_rest(slot))
            reaped++;
        gb_job_file_unlock(fd, i);
    }
    if (fd >= 0)
        close(fd);
    if (reaped > 0)
        atomic_store(&shared->head.reaped, now());
    return reaped;
}

bool gb_job_reaped_lately(const struct gb_job *job)
{
    uint64_t reaped = atomic_load(&job->file.shared->head.reaped);

    return reaped != 0 && now() - reaped < LATELY_NS;
}
