/*
 * job_clean.h: ledgers of jobs that have ended.
 */
#ifndef GB_JOB_JOB_CLEAN_H
#define GB_JOB_JOB_CLEAN_H

#include "job/job_file.h"

/* Removes the job's file, where no process lives in it. Who joins just then finds it gone, and
 * makes a new one. True: it is removed. */
bool gb_job_clean(const struct gb_state_dir *dir, const struct gb_job_name *name);

/*
 * Looks at a few files of jobs that were of one process or one start (pid-..., run-...), which
 * nobody comes back to, and removes those that have ended; at most `most` of them.
 */
void gb_job_clean_some(const struct gb_state_dir *dir, unsigned most);

/* Is it the name of a job's file? Then the job's. */
bool gb_job_clean_name(const char *file, struct gb_job_name *name);

#endif
