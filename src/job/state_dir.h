/*
 * state_dir.h: the directory in which the processes of a job find each other.
 */
#ifndef GB_JOB_STATE_DIR_H
#define GB_JOB_STATE_DIR_H

#include <limits.h>
#include <stdbool.h>
#include <sys/types.h>

/* The directory, and where it cannot be used: why, in words that follow its name. */
struct gb_state_dir {
    char path[PATH_MAX];
    uid_t owner;         /* of it, and of all in it that counts */
    gid_t group;         /* of it, where root looks at another user's */
    const char *refused; /* NULL: it can */
};

/*
 * Fills in `dir`. wanted: what GPUBUDGET_STATE_DIR says, an absolute path, or NULL: then
 * /run/gpubudget/JOBID.d where root has made that for the scheduler's job and it is this
 * user's; else that of the user, by number and not by what the environment says, which a login,
 * su and a batch job set differently: /run/user/UID/gpubudget where /run/user/UID is, else
 * /dev/shm/gpubudget-UID. It is made where it is not there. It must be the user's own, for
 * nobody else to enter, no link, and on this machine: a lock on a network file system may tell
 * of other machines' processes, or of none. False: see `refused`.
 */
bool gb_state_dir_find(const char *wanted, struct gb_state_dir *dir);

/* The same for one that is only looked at: it is not made, and root may look at another user's.
 * Where there is none `refused` is gb_state_dir_absent. */
extern const char gb_state_dir_absent[];
bool gb_state_dir_look(const char *wanted, struct gb_state_dir *dir);

/* The same checks of a file or directory that is open; NULL, or what is wrong with it. */
const char *gb_state_fault(int fd, mode_t type, uid_t owner);

#endif
