/*
 * message.h: the words of the budget: first refusal, full card, limit below a context, denial.
 * Once-flags and counters of these lines live here; every function is safe from any thread.
 */
#ifndef GB_REPORT_MESSAGE_H
#define GB_REPORT_MESSAGE_H

#include "config/settings.h"

#include <stdbool.h>
#include <stdint.h>

#define GB_MESSAGE_DEVICES 64

struct gb_message_device {
    int ordinal; /* as the program counts, after CUDA_VISIBLE_DEVICES; also the counters' index
                  */
    const char *uuid; /* "GPU-..." or "MIG-...", whole; NULL or "" where unknown */
};

/* The budget refused a request. All figures in bytes. */
struct gb_message_refusal {
    struct gb_message_device device;
    const char *call; /* "cuMemAlloc" */
    const char *job;  /* the limit is this job's; NULL: this process's */
    uint64_t asked;
    uint64_t used; /* of the limit, when it was refused; by all processes of the job */
    uint64_t limit;
    bool breakdown; /* the next three are known */
    uint64_t program;
    uint64_t context;
    uint64_t other;
    bool estimated;    /* context and other */
    uint64_t imported; /* of others, not in `used`; 0: not a word of it */
    bool managed;      /* managed memory was asked for: name the switch */
    uint64_t kept;     /* of the limit, in reserve; told where it is the reason */
};

/* The driver was out of memory while the budget had room. */
struct gb_message_card_full {
    struct gb_message_device device;
    uint64_t asked;
    uint64_t budget_left; /* what would be granted: the limit less used and reserve */
    bool card_known;      /* the next two are known */
    uint64_t card_free;
    uint64_t others; /* held by other processes */
};

/* The driver has taken memory that no call could refuse, beyond the limit. */
struct gb_message_overshoot {
    struct gb_message_device device;
    uint64_t over; /* bytes, the most that was seen */
    uint64_t limit;
};

/* A context was refused. */
struct gb_message_context {
    struct gb_message_device device;
    const char *call;
    const char *job;  /* as above */
    uint64_t context; /* what the context takes */
    uint64_t used;    /* without it */
    uint64_t limit;
    uint64_t smallest; /* the smallest useful limit; rounded up to MiB when shown */
    uint64_t kept;     /* as above */
};

/* One line at the first refusal per device, later ones only counted (a debug line each). */
void gb_message_refused(const struct gb_settings *settings,
                        const struct gb_message_refusal *refusal);
void gb_message_card_full(const struct gb_settings *settings,
                          const struct gb_message_card_full *full);
/* With GPUBUDGET_ON_LIMIT=report: what would have been refused; counts as a refusal. used:
 * after the grant. */
void gb_message_over(const struct gb_settings *settings,
                     const struct gb_message_refusal *granted);
/* Counts as a refusal, with a line and once-flag of its own. */
void gb_message_context_refused(const struct gb_settings *settings,
                                const struct gb_message_context *refusal);

/* Info level at the first import of a device, later ones debug. */
void gb_message_imported(const struct gb_message_device *device, const char *call,
                         uint64_t bytes);

/* Once per device. */
void gb_message_overshoot(const struct gb_message_overshoot *overshoot);

/* Refusals by the budget / by the driver with room in the budget, so far in this process. */
uint64_t gb_message_refusals(int ordinal);
uint64_t gb_message_card_fulls(int ordinal);

/*
 * The settings' own lines: warnings and, where they deny, the denial. Once per process; to be
 * called when the program first uses CUDA (cuInit) or is told of a card by NVML, not before.
 */
void gb_message_settings(const struct gb_settings *settings);

/* Something that denies whatever the settings say about errors: one line per process. */
void gb_message_denied(const char *why);

/*
 * A limit that turns out at run time not to be applicable (gb_limit_check): the words of a
 * denial, or with GPUBUDGET_ON_ERROR=allow those of a limit let go. One line per process,
 * shared with gb_message_denied. Returns gb_settings_deny_errors: whether to deny.
 */
bool gb_message_not_applied(const struct gb_settings *settings, const char *why);

/* Once per device: NVML does not tell; reserve: what is kept of the limit, now. */
void gb_message_estimated(const struct gb_message_device *device, uint64_t reserve);

/* Once: a use of a block by a stream could not be noted or waited for; code: the driver's, 0:
 * there was no host memory. */
void gb_message_order_failed(int code);

/* Once: GPUBUDGET_STREAM_ORDER=all is no more than copies with this driver. */
void gb_message_order_copies(void);

/* Info level: the limit in force on a device; `none` where it has none. */
void gb_message_in_force(const struct gb_settings *settings,
                         const struct gb_message_device *device, bool none, uint64_t limit,
                         uint64_t reserve);

/* Info level: the job that the device is counted in; UINT64_MAX: it has no limit. */
void gb_message_job_in_force(const struct gb_message_device *device, const char *job,
                             uint64_t limit);

/* The job's ledger, a file, has been removed while the job runs: once per device, counts as a
 * refusal. */
void gb_message_job_gone(const struct gb_message_device *device, const char *job,
                         const char *path);

/* In a forked child: counters and once-flags start anew. Async-signal-safe. */
void gb_message_forked(void);

#endif
