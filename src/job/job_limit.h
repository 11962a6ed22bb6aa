/*
 * job_limit.h: the limit of a job is changed while it runs.
 */
#ifndef GB_JOB_JOB_LIMIT_H
#define GB_JOB_JOB_LIMIT_H

#include "job/job_file.h"

enum gb_job_limit_answer {
    GB_JOB_LIMIT_SET,
    GB_JOB_LIMIT_ABOVE_FIRST, /* the owner may not raise it above what the job began with */
    GB_JOB_LIMIT_LOCKED       /* somebody has the header and does not let it go */
};

/* Every process of the job reads it at its next request. Nothing is taken away from anybody. */
enum gb_job_limit_answer gb_job_limit_set(struct gb_job_shared *shared, int fd, int device,
                                          uint64_t limit, bool is_root);

#endif
