/*
 * job_unit.h: a directory for jobs, and processes that take part in one.
 */
#ifndef JOB_UNIT_H
#define JOB_UNIT_H

#include "job/job.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "unit.h"

static const unsigned char job_uuid[16] = "a card's number";
static const struct gb_job_name job_name = {"job"};

static char job_folder[] = "/tmp/check_job.XXXXXX";
static struct gb_state_dir job_dir;

static inline void job_setup(void)
{
    ck_assert_ptr_nonnull(mkdtemp(job_folder));
    ck_assert(gb_state_dir_find(job_folder, &job_dir));
}

static inline void job_teardown(void)
{
    char command[64];

    snprintf(command, sizeof(command), "rm -rf %s", job_folder);
    ck_assert_int_eq(system(command), 0);
}

/* Joins, with the one device. */
static inline struct gb_job *job_joined(uint64_t limit)
{
    struct gb_job *job = malloc(sizeof(*job));

    ck_assert_ptr_nonnull(job);
    ck_assert_msg(gb_job_join(job, &job_dir, &job_name), "%s", job->file.refused);
    ck_assert_int_eq(gb_job_file_device(&job->file, job_uuid, limit), 0);
    return job;
}

static inline void job_left(struct gb_job *job)
{
    gb_job_leave(job);
    free(job);
}

/* A grant as the budget makes one: in flight first, then in the ledger. */
static inline bool job_take(struct gb_job *job, uint64_t bytes, uint64_t deadline)
{
    if (!gb_job_reserve(job, 0, bytes, deadline))
        return false;
    atomic_fetch_add(&gb_job_account(job, 0)->held.acquired, bytes);
    gb_job_settle(job, 0, bytes);
    return true;
}

static inline void job_give(struct gb_job *job, uint64_t bytes)
{
    atomic_fetch_add(&gb_job_account(job, 0)->held.reclaimed, bytes);
}

#endif
