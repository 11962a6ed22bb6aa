/*
 * job_name.h: what a job is called.
 */
#ifndef GB_JOB_JOB_NAME_H
#define GB_JOB_JOB_NAME_H

#include <stdbool.h>
#include <sys/types.h>

#define GB_JOB_NAME_MOST 64

struct gb_job_name {
    char text[GB_JOB_NAME_MOST + 1];
};

/* Is it one, [A-Za-z0-9._-]{1,64}, and not only dots, which would be a directory? */
bool gb_job_name_is_good(const char *text);

/*
 * The scheduler's, from its variables in this process's environment: slurm-ID, pbs-ID or
 * lsf-ID, so that all tasks of a step share one budget. An ID with other characters gets a "_"
 * for each. False: no scheduler.
 */
bool gb_job_name_of_scheduler(struct gb_job_name *name);

/* HEAD-PID-STARTTIME of a process, which no other one has as long as the machine is up. False
 * where the system does not tell. */
bool gb_job_name_of_process(const char *head, pid_t pid, struct gb_job_name *name);

#endif
