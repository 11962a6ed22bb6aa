/*
 * job_file.h: what the processes of a job share on a node: a file that all of them map, with a
 * slot for each process and the job's limit on each device.
 *
 * A slot belongs to the process that holds the lock on its byte of the file. The kernel drops
 * that lock when the process is gone, however it went; nobody has to clear up, and no process
 * is asked whether another one lives. All figures are of the owner alone: there is no total
 * that a process could leave wrong.
 */
#ifndef GB_JOB_JOB_FILE_H
#define GB_JOB_JOB_FILE_H

#include <limits.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "job/job_name.h"
#include "job/state_dir.h"

#include "resource/ledger.h"

enum { GB_JOB_SLOTS = 1024, GB_JOB_DEVICES = 16 };

/* Of a job whose processes are only counted. */
#define GB_JOB_NO_LIMIT UINT64_MAX

/*
 * Of one process on one device, in bytes. The process's own ledger of the device counts in
 * `held`: the totals only grow, over all owners of the slot.
 */
struct gb_job_account {
    struct gb_ledger_totals held;
    _Atomic uint64_t in_flight;
    _Atomic uint64_t turn; /* not 0: wants or has the turn of the device, job_turn.c */
};

struct gb_job_slot {
    _Atomic uint64_t pid; /* for people: in another PID namespace it means nothing */
    char spare[56];
    struct gb_job_account accounts[GB_JOB_DEVICES];
};

/* Written once, with the header's lock held; only the limit changes. */
struct gb_job_device {
    unsigned char uuid[16];
    _Atomic uint64_t limit;       /* bytes */
    _Atomic uint64_t first_limit; /* the owner may not raise it above this */
    _Atomic uint64_t known;       /* not 0: the others are written */
    char spare[24];
};

/*
 * The layout is that of version `major`: another one is another file to us. Later versions of
 * the same may use what is spare here, which is 0.
 */
struct gb_job_head {
    _Atomic uint64_t magic; /* written last */
    uint32_t major, slots, devices, slot_bytes;
    _Atomic uint64_t used_slots; /* none from here on has had an owner */
    _Atomic uint64_t reaped; /* when something was taken from the dead (CLOCK_MONOTONIC, ns) */
    char spare[24];
};

struct gb_job_shared {
    struct gb_job_head head;
    struct gb_job_device device[GB_JOB_DEVICES];
    struct gb_job_slot slot[GB_JOB_SLOTS];
};

struct gb_job_file {
    struct gb_job_shared *shared;
    char path[PATH_MAX];
    dev_t dev; /* of which file it is */
    ino_t ino;
    const char *refused; /* why not, in words that follow its name; NULL */
};

/* What `refused` is where the file is no fault, but nobody's just now: it is not there, or not
 * a ledger yet, because somebody makes it or was killed then; or it is gone again. */
extern const char gb_job_file_absent[], gb_job_file_unmade[], gb_job_file_removed[];

/*
 * Opens the job's file in the directory, and makes it where it is not there. False: `refused`
 * says why, and nothing is held. What is found there and cannot be a ledger of ours is left
 * alone.
 */
bool gb_job_file_open(const struct gb_state_dir *dir, const struct gb_job_name *name,
                      struct gb_job_file *file);

/* The same for one that is there already, to be read, or to have its limit changed. Answers a
 * descriptor, which is the caller's to close, or -1. */
int gb_job_file_find(const struct gb_state_dir *dir, const struct gb_job_name *name, bool write,
                     struct gb_job_file *file);

/* Locks the header, for what concerns the whole file; false: others have it and do not end, or
 * (try) just then. */
bool gb_job_file_lock_header(int fd);
bool gb_job_file_try_header(int fd);
void gb_job_file_unlock_header(int fd);

/* Locks all slots, where no process has one. */
bool gb_job_file_lock_all(int fd);

/* Is the slot some process's? */
bool gb_job_file_is_held(int fd, unsigned slot);

void gb_job_file_close(struct gb_job_file *file);

/* The same file once more, for its locks alone; -1: it is not there any more, or another one
 * is. The descriptor is the caller's to close, and that before the program can see it. */
int gb_job_file_again(const struct gb_job_file *file);

/* Has it been removed? Later processes of the job have another ledger then. */
bool gb_job_file_is_gone(const struct gb_job_file *file);

/*
 * The device's place in the file; -1: there is none left, or the file cannot be locked. Its
 * limit is `limit` where it is new. Who joins a job with less than it began with makes the
 * limit smaller, and nobody makes it larger.
 */
int gb_job_file_device(struct gb_job_file *file, const unsigned char uuid[16], uint64_t limit);

/* Locks one byte, or lets it go; false: another holds it. */
bool gb_job_file_lock(int fd, unsigned slot);
bool gb_job_file_unlock(int fd, unsigned slot);

#endif
