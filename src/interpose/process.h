/*
 * process.h: the budgets of this process, one stack per device, and which one a call is for.
 */
#ifndef GB_INTERPOSE_PROCESS_H
#define GB_INTERPOSE_PROCESS_H

#include "driver/driver.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "config/limit.h"
#include "config/settings.h"
#include "job/job_budget.h"
#include "resource/backend.h"
#include "resource/budget.h"

enum { GB_DEVICES_MAX = 64 };

/*
 * A device with a limit, or in a job: GlobalDeviceBudget on DriverMemoryResource, and in a job
 * JobBudget on top of it. Never freed.
 */
struct gb_device {
    int ordinal;
    struct gb_device_identity identity;
    uint64_t limit;           /* bytes, or GB_BUDGET_NO_LIMIT */
    uint64_t told;            /* the same, or less where MPS holds the program to less */
    _Atomic uint64_t reserve; /* bytes of it */
    _Atomic uint64_t threads; /* that can run at once; 0: not asked yet */
    atomic_int growing;       /* launches that are bringing local memory now */
    struct gb_backend backend;
    struct gpubudget_budget budget; /* of this process */
    struct gb_job_budget job;       /* of the job; job.job is NULL without one */
    gpubudget_resource_t *top;      /* of the stack: what requests are given to */
};

/* Is it held to anything, by a limit of the process or of the job? Else it is only counted. */
bool gb_device_is_limited(const struct gb_device *device);

/* The same, of a job with a limit. */
bool gb_device_job_may_spend(const struct gb_device *device);

/* May what stands in the ledger already be used? See gb_budget_may_spend. */
static inline bool gb_device_may_spend(const struct gb_device *device)
{
    const struct gb_job_budget *job = &device->job;

    return gb_budget_may_spend(&device->budget) &&
           (!job->job || gb_job_limit(job->job, job->device) == GB_JOB_NO_LIMIT ||
            gb_device_job_may_spend(device));
}

enum gb_ruling {
    GB_RULING_FORWARD, /* not ours to judge: the driver's own answer */
    GB_RULING_DENY,    /* a limit that cannot be applied: nothing is given out */
    GB_RULING_BUDGET,  /* the device has a budget */
    GB_RULING_FAILED   /* the device cannot be learned, since the driver fails: *failure is what
                          the program gets, because what is not charged is not given out */
};

/*
 * What a call on that device falls under; *device is written with GB_RULING_BUDGET. The first
 * question after cuInit finds out the devices and their limits.
 */
enum gb_ruling gb_process_device(struct gb_driver *drv, CUdevice dev,
                                 struct gb_device **device);

/*
 * The same for the current context, which is written too; no context: forward. *failure is
 * written with GB_RULING_FAILED.
 */
enum gb_ruling gb_process_current(struct gb_driver *drv, struct gb_device **device,
                                  CUcontext *context, CUresult *failure);

/* A stream as a handler names it: is_thread where NULL is the per-thread default stream. */
struct gb_stream_call {
    CUstream stream;
    bool is_thread;
    bool capturing;   /* written by gb_process_stream */
    CUresult failure; /* the same, with GB_RULING_FAILED */
};

/*
 * The same for the device a stream belongs to, and a request of so many bytes; looks whether
 * the stream is being captured.
 */
enum gb_ruling gb_process_stream(struct gb_driver *drv, struct gb_stream_call *call,
                                 size_t bytes, struct gb_device **device);

/* A device with a budget, or NULL: no driver call, resolves nothing. */
struct gb_device *gb_process_device_at(int ordinal);

/* What this process knows of a card. */
enum gb_seen {
    GB_SEEN_NOTHING,   /* CUDA has not begun */
    GB_SEEN_NOT,       /* it is none of the visible ones */
    GB_SEEN_UNLIMITED, /* it has no budget, or settings were denied or let pass */
    GB_SEEN_LIMITED    /* *device is written */
};

/* The card of that UUID. Opens no library, and tells the driver nothing before cuInit. */
enum gb_seen gb_process_by_uuid(const char *uuid, struct gb_device **device);

/*
 * The only visible device, where it has a budget: whatever the call is, it is for that one.
 * NULL: gb_process_stream, or another of the above, is to be asked.
 */
struct gb_device *gb_process_only(const struct gb_driver *drv);

/* Devices seen so far: 0 before the first resolution. */
int gb_process_device_count(void);

/* Every tracked block of the process. */
struct gb_block_table *gb_process_blocks(void);

/* In cuInit, or where NVML tells of a card before that: prints what the settings have to say,
 * and registers for fork. */
void gb_process_start(void);

/* Before memory without an entry is freed in stream order: near a limit the driver is asked
 * what it is. Answers whose it is, NULL where that is not known. */
struct gb_device *gb_process_freeing(struct gb_driver *drv, CUdeviceptr pointer,
                                     struct gb_pending_freed *freed);

/* After a free in stream order of memory that no budget has an entry for, of that device or
 * else of the stream's: see gb_pending_note. */
void gb_process_note_free(struct gb_driver *drv, const struct gb_stream_call *call,
                          struct gb_device *of, const struct gb_pending_freed *freed);

/* Something is gone that may have held memory which only the card's tools can tell. */
void gb_process_check_other(void);

/*
 * Is a stream being captured? Yes also where the driver says that it may not be asked or that
 * there is no such stream: it will answer for that itself.
 */
bool gb_process_capturing(struct gb_driver *drv, const struct gb_stream_call *call);

#endif
