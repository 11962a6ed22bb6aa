/*
 * settings.h: every GPUBUDGET_ variable, read once, in one table.
 */
#ifndef GB_CONFIG_SETTINGS_H
#define GB_CONFIG_SETTINGS_H

#include "config/limit.h"
#include "config/size.h"
#include "report/log.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum gb_verdict {
    GB_VERDICT_PASS,  /* be as if not loaded */
    GB_VERDICT_LIMIT, /* a limit was understood, or a job without one is to be counted */
    GB_VERDICT_DENY   /* it was not, or is required and missing: give out nothing */
};

enum gb_charge { GB_CHARGE_FOOTPRINT, GB_CHARGE_REQUESTED };
enum gb_managed { GB_MANAGED_CHARGE, GB_MANAGED_IGNORE };
enum gb_capacity { GB_CAPACITY_LIMIT, GB_CAPACITY_PHYSICAL };
enum gb_on_limit { GB_ON_LIMIT_REFUSE, GB_ON_LIMIT_REPORT };
enum gb_on_error { GB_ON_ERROR_DENY, GB_ON_ERROR_ALLOW };
enum gb_stream_order { GB_STREAM_ORDER_OFF, GB_STREAM_ORDER_COPIES, GB_STREAM_ORDER_ALL };

#define GB_SETTINGS_WARNINGS 8
#define GB_SETTINGS_MESSAGE  512
#define GB_SETTINGS_FILE     512
#define GB_SETTINGS_SOURCE   64
#define GB_SETTINGS_JOB      65

/* Immutable once gb_settings() has returned it. */
struct gb_settings {
    enum gb_verdict verdict;
    char message[GB_SETTINGS_MESSAGE]; /* DENY: why; PASS by ON_ERROR=allow: what was allowed */
    uint32_t warning_count;
    char warnings[GB_SETTINGS_WARNINGS][GB_SETTINGS_MESSAGE];

    bool limit_set; /* GPUBUDGET_LIMIT was given and understood, `none` included */
    bool require;
    bool disabled;
    struct gb_limit limit;
    char limit_source[GB_SETTINGS_SOURCE]; /* for messages: "GPUBUDGET_LIMIT", "--limit" */

    char job[GB_SETTINGS_JOB];        /* "": not given */
    struct gb_limit job_limit;        /* of all processes of the job; no entries: none */
    char state_dir[GB_SETTINGS_FILE]; /* "": the default */

    enum gb_charge charge;
    enum gb_managed managed;
    enum gb_capacity capacity;
    enum gb_on_limit on_limit;
    enum gb_on_error on_error;
    enum gb_stream_order stream_order;
    uint64_t wait_ns;
    struct gb_size reserve; /* BYTES or PERCENT of the limit; nothing is 0 BYTES */
    bool reserve_set;       /* else there is a default */

    enum gb_log_level log_level;
    char log_file[GB_SETTINGS_FILE]; /* "" for stderr */
};

/*
 * Copies all GPUBUDGET_ strings; does nothing else. For the constructor. Only the first call in
 * a process counts; a set-user-id process captures nothing.
 */
void gb_settings_capture(char **environment);

/*
 * The settings of this process: parsed at the first call, from what was captured or else from
 * environ as it is now. Never NULL. Any thread.
 */
const struct gb_settings *gb_settings(void);

/* The pure function behind it: "GPUBUDGET_NAME=value" strings, others are passed over. */
void gb_settings_parse(struct gb_settings *settings, const char *const *strings, size_t count);

/* Does GPUBUDGET_JOB_LIMIT limit any device? `none` does not. */
bool gb_settings_has_job_limit(const struct gb_settings *settings);

/*
 * What to do about an error that shows only at run time (gb_limit_check): true to deny, false
 * to let pass with a line (GPUBUDGET_ON_ERROR=allow, which REQUIRE=1 outweighs).
 */
bool gb_settings_deny_errors(const struct gb_settings *settings);

/*
 * Bytes of the limit that only growth which cannot be refused may use. At most `limit`. tells:
 * NVML tells what the process holds; where it does not, and nothing is set, more is kept.
 */
uint64_t gb_settings_reserve(const struct gb_settings *settings, uint64_t limit, bool tells);

/*
 * Does a reserve of so many bytes leave something of a device's limit? Where that is a
 * percentage only the device tells. false: `text` says what is wrong.
 */
bool gb_settings_check_reserve(const struct gb_settings *settings,
                               const struct gb_device_identity *device, uint64_t limit,
                               char *text, size_t text_size);

/* The default in words, where GPUBUDGET_RESERVE is not set. */
#define GB_RESERVE_DEFAULT                                                                     \
    "1/64 of it, at most 256MiB; where NVML does not tell, 1/16 of it, 32MiB to 512MiB"

enum gb_setting_type {
    GB_SETTING_LIMIT,  /* a list, limit.h */
    GB_SETTING_SIZE,   /* a size, `0` and `none` allowed, below 100% */
    GB_SETTING_CHOICE, /* one of `form`, which is separated by '|' */
    GB_SETTING_TIME,   /* N ms or s */
    GB_SETTING_LOG,    /* level[,FILE] */
    GB_SETTING_NAME,   /* [A-Za-z0-9._-]{1,64} */
    GB_SETTING_TEXT,   /* anything that is not empty */
    GB_SETTING_PATH,   /* absolute */
    GB_SETTING_IGNORED
};

/* What becomes of the environment's value under a root-owned ceiling file. */
enum gb_setting_ceiling {
    GB_CEILING_IGNORED, /* the file's value or the default holds */
    GB_CEILING_LOWER,   /* may only lower the file's */
    GB_CEILING_FREE     /* holds as it is */
};

struct gb_setting {
    const char *name; /* after GPUBUDGET_ */
    enum gb_setting_type type;
    const char *form;         /* as in the manual: "footprint|requested" */
    const char *default_text; /* "" where there is none */
    enum gb_setting_ceiling ceiling;
    bool effective; /* false: checked, but without effect in this version */
    const char *help;
};

#define GB_SETTINGS_PREFIX "GPUBUDGET_"

const struct gb_setting *gb_settings_table(size_t *count);

#endif
