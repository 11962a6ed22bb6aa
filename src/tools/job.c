#include "tools/job.h"

#include "job/job_clean.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Files of starts that have ended, of which some are taken away with each. */
enum { CLEANED = 16 };

static void judge(const struct gb_settings *settings, struct gb_tool_job *job)
{
    struct gb_state_dir dir;
    struct gb_job_file file;

    if (!gb_state_dir_find(settings->state_dir[0] ? settings->state_dir : NULL, &dir)) {
        snprintf(job->refused, sizeof(job->refused), "%s %s", dir.path, dir.refused);
        return;
    }
    if (snprintf(job->path, sizeof(job->path), "%s/%s.job", dir.path, job->name.text) >=
        (int)sizeof(job->path)) {
        snprintf(job->refused, sizeof(job->refused), "%s has too long a name", dir.path);
        return;
    }
    if (!settings->job[0])
        gb_job_clean_some(&dir, CLEANED);
    if (access(job->path, F_OK) != 0)
        return;
    if (gb_job_file_open(&dir, &job->name, &file))
        gb_job_file_close(&file);
    else
        snprintf(job->refused, sizeof(job->refused), "%s %s", file.path, file.refused);
}

bool gb_tool_job_find(const struct gb_settings *settings, struct gb_tool_job *job)
{
    memset(job, 0, sizeof(*job));
    if (settings->job[0]) {
        memcpy(job->name.text, settings->job, sizeof(settings->job));
    } else if (settings->verdict != GB_VERDICT_LIMIT) {
        return false;
    } else if (!gb_job_name_of_scheduler(&job->name) &&
               !gb_job_name_of_process("run", getpid(), &job->name)) {
        job->name.text[0] = '\0';
        snprintf(job->refused, sizeof(job->refused),
                 "/proc does not tell when a process began, and so no name; give one with -j");
        return true;
    }
    judge(settings, job);
    return true;
}
