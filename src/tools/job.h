/*
 * job.h: the job that gpubudget-run starts a command in.
 */
#ifndef GB_TOOLS_JOB_H
#define GB_TOOLS_JOB_H

#include "config/settings.h"
#include "job/job_name.h"

#include <limits.h>
#include <stdbool.h>

struct gb_tool_job {
    struct gb_job_name name;     /* "": nothing is to be counted */
    char path[PATH_MAX];         /* of its ledger, a file */
    char refused[PATH_MAX + 64]; /* why that cannot be used; "" where it can */
};

/*
 * What the job is called: by GPUBUDGET_JOB, else by the scheduler, else run-PID-STARTTIME after
 * this process, which becomes the command; and whether its ledger can be used. Makes the
 * directory, as all its users do, and no file: a command that uses no GPU leaves none behind.
 * False: there is no limit at all and nobody has named a job.
 */
bool gb_tool_job_find(const struct gb_settings *settings, struct gb_tool_job *job);

#endif
