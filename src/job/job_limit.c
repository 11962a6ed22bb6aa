#include "job/job_limit.h"

enum gb_job_limit_answer gb_job_limit_set(struct gb_job_shared *shared, int fd, int device,
                                          uint64_t limit, bool is_root)
{
    struct gb_job_device *of = &shared->device[device];
    enum gb_job_limit_answer answer = GB_JOB_LIMIT_SET;

    /* With it, since who joins may lower the limit just then. */
    if (!gb_job_file_lock_header(fd))
        return GB_JOB_LIMIT_LOCKED;
    if (!is_root && limit > atomic_load(&of->first_limit))
        answer = GB_JOB_LIMIT_ABOVE_FIRST;
    else
        atomic_store(&of->limit, limit);
    gb_job_file_unlock_header(fd);
    return answer;
}
