/*
 * job_of.h: the job that this process takes part in.
 */
#ifndef GB_INTERPOSE_JOB_OF_H
#define GB_INTERPOSE_JOB_OF_H

#include "config/settings.h"
#include "job/job.h"
#include "job/job_look.h"

/*
 * What the job is called: GPUBUDGET_JOB, else by the scheduler, else pid-PID-STARTTIME, which
 * is this process's alone. False: the system does not tell when the process began.
 */
bool gb_job_of_name(const struct gb_settings *settings, struct gb_job_name *name);

/*
 * The job of this process, which it joins with the first call; NULL: it could not, and *text
 * says why in words for a line, naming the file. Callers exclude each other.
 */
struct gb_job *gb_job_of_process(const struct gb_settings *settings, char *text, size_t size);

/* In the child of a fork: the parent's slot is not ours. */
void gb_job_of_forked(void);

/* The name as joined; "" before. */
const char *gb_job_of_text(void);

/*
 * A device's place in the job, by its UUID, or by its address where it has none; its limit is
 * lowered to `limit`. -1: it has none, and *text says why.
 */
int gb_job_of_device(struct gb_job *job, const struct gb_device_identity *device,
                     uint64_t limit, char *text, size_t size);

/* What the job has of a device, for a process that takes no part in it; all of nothing where
 * there is no such job. */
void gb_job_of_look(const struct gb_settings *settings, const struct gb_device_identity *device,
                    struct gb_job_seen *seen);

/* The 16 bytes that a device is known by in a job. */
void gb_job_of_uuid(const struct gb_device_identity *device, unsigned char bytes[16]);

#endif
