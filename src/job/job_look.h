/*
 * job_look.h: a job as one sees it who takes no part in it: no slot, and nothing is made.
 */
#ifndef GB_JOB_JOB_LOOK_H
#define GB_JOB_JOB_LOOK_H

#include "job/job_file.h"

struct gb_job_seen {
    uint64_t limit;     /* bytes, or GB_JOB_NO_LIMIT */
    uint64_t used;      /* by processes that live, in flight included */
    unsigned processes; /* that live */
};

/* What the job's processes hold of a device. False: there is no such job, or it does not know
 * the device, or its file cannot be used. */
bool gb_job_look(const struct gb_state_dir *dir, const struct gb_job_name *name,
                 const unsigned char uuid[16], struct gb_job_seen *seen);

/* The same of a file that is open, by the device's place; and of one slot: false where no
 * process has it. */
void gb_job_look_device(const struct gb_job_shared *shared, int fd, int device,
                        struct gb_job_seen *seen);
bool gb_job_look_slot(const struct gb_job_shared *shared, int fd, unsigned slot, int device,
                      uint64_t *used);

#endif
