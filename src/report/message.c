#include "report/message.h"

#include "report/log.h"

#include <stdatomic.h>
#include <stddef.h>

/* Counters by ordinal; a count that was 0 is the once-flag of that device's line. */
static _Atomic uint64_t refusals[GB_MESSAGE_DEVICES];
static _Atomic uint64_t context_refusals[GB_MESSAGE_DEVICES];
static _Atomic uint64_t card_fulls[GB_MESSAGE_DEVICES];
static _Atomic uint64_t overshoots[GB_MESSAGE_DEVICES];
static _Atomic uint64_t imports[GB_MESSAGE_DEVICES];
static _Atomic uint64_t estimated[GB_MESSAGE_DEVICES];
static _Atomic bool settings_said;
static _Atomic bool denial_said;

/* Devices beyond the last share its counter: they are counted, if not each with a line. */
static size_t index_of(int ordinal)
{
    if (ordinal < 0)
        return 0;
    return ordinal < GB_MESSAGE_DEVICES ? (size_t)ordinal : GB_MESSAGE_DEVICES - 1;
}

/* The first is a warning, each later one a debug line. */
static enum gb_log_level count_one(_Atomic uint64_t *counters, int ordinal)
{
    uint64_t before =
        atomic_fetch_add_explicit(&counters[index_of(ordinal)], 1, memory_order_relaxed);
    return before == 0 ? GB_LOG_WARN : GB_LOG_DEBUG;
}

/* "GPU 0 (GPU-45b0bc69): ", the UUID up to the first eight digits after its last head. */
static void add_device(struct gb_line *line, const struct gb_message_device *device)
{
    gb_line_text(line, "GPU ");
    gb_line_signed(line, device->ordinal);
    if (device->uuid && device->uuid[0]) {
        size_t length = 0, digits = 0;
        const char *uuid = device->uuid;
        /* The heads, "GPU-", "MIG-" and "MIG-GPU-", are shorter than eight between dashes. */
        while (uuid[length] && digits < 8) {
            if (uuid[length] == '-')
                digits = 0;
            else
                digits++;
            length++;
        }
        gb_line_text(line, " (");
        gb_line_quote(line, uuid, length);
        gb_line_text(line, ")");
    }
    gb_line_text(line, ": ");
}

static void add_source(struct gb_line *line, const struct gb_settings *settings)
{
    gb_line_text(line, "limit from ");
    gb_line_text(line, settings ? settings->limit_source : "GPUBUDGET_LIMIT");
}

/* Of the job's limit where it is that, else of this process's. */
static void add_source_of(struct gb_line *line, const struct gb_settings *settings,
                          const char *job)
{
    if (!job) {
        add_source(line, settings);
        return;
    }
    gb_line_text(line, "limit from GPUBUDGET_JOB_LIMIT");
}

static void add_job(struct gb_line *line, const char *job)
{
    if (!job)
        return;
    gb_line_text(line, " by job ");
    gb_line_text(line, job);
}

static void add_call(struct gb_line *line, const char *call)
{
    if (!call)
        return;
    gb_line_text(line, " (");
    gb_line_text(line, call);
    gb_line_text(line, ")");
}

/*
 * Figures of which a reader expects that asked, used and kept are together more than `most`.
 * Exact ones always tell, but rounded ones may seem to be no more.
 */
struct sum {
    uint64_t asked;
    uint64_t used;
    uint64_t kept; /* 0 where the line does not name it */
    uint64_t most;
    uint64_t scale; /* whose unit `used` and `most` are in */
};

/* In one unit for all of them, or with 0 in those that each would have by itself. */
static bool seems_more(const struct sum *sum, uint64_t unit)
{
    uint64_t scale = unit > 0 ? unit : sum->scale;
    unsigned __int128 shown = gb_line_shown(sum->asked, unit > 0 ? unit : sum->asked);
    shown += gb_line_shown(sum->used, scale);
    shown += gb_line_shown(sum->kept, unit > 0 ? unit : sum->kept);
    return shown > gb_line_shown(sum->most, scale);
}

/* The coarsest unit in which the figures tell: 0 (as above), else one MiB, else one byte. */
static uint64_t telling_unit(const struct sum *sum)
{
    static const uint64_t units[] = {0, (uint64_t)1 << 20, 1};
    for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++)
        if (seems_more(sum, units[i]))
            return units[i];
    return 0;
}

static void add_amount(struct gb_line *line, uint64_t bytes, uint64_t unit)
{
    gb_line_scaled(line, bytes, unit > 0 ? unit : bytes);
    gb_line_text(line, " ");
    gb_line_text(line, gb_line_unit(unit > 0 ? unit : bytes));
}

/* "3.1 of 4.0 GiB" */
static void add_used(struct gb_line *line, uint64_t used, uint64_t limit, uint64_t unit)
{
    gb_line_scaled(line, used, unit > 0 ? unit : limit);
    gb_line_text(line, " of ");
    add_amount(line, limit, unit);
}

/* The reserve where it is the reason: all else would have fitted. */
static uint64_t decisive(uint64_t kept, uint64_t used, uint64_t asked, uint64_t limit)
{
    return used > limit || asked > limit - used ? 0 : kept;
}

static void add_kept(struct gb_line *line, uint64_t kept, uint64_t unit)
{
    if (kept == 0)
        return;
    gb_line_text(line, ", ");
    add_amount(line, kept, unit);
    gb_line_text(line, " kept by GPUBUDGET_RESERVE");
}

void gb_message_refused(const struct gb_settings *settings,
                        const struct gb_message_refusal *refusal)
{
    struct gb_log_line log;
    struct gb_line *line = &log.line;
    enum gb_log_level level = count_one(refusals, refusal->device.ordinal);
    if (!gb_log_on(level))
        return;
    const struct sum sum = {
        .asked = refusal->asked,
        .used = refusal->used,
        .kept = decisive(refusal->kept, refusal->used, refusal->asked, refusal->limit),
        .most = refusal->limit,
        .scale = refusal->limit};
    uint64_t unit = telling_unit(&sum);
    uint64_t scale = unit > 0 ? unit : refusal->limit;
    gb_log_begin(&log);
    add_device(line, &refusal->device);
    gb_line_text(line, "refused ");
    add_amount(line, refusal->asked, unit);
    add_call(line, refusal->call);
    gb_line_text(line, ": ");
    add_used(line, refusal->used, refusal->limit, unit);
    gb_line_text(line, " used");
    add_job(line, refusal->job);
    if (refusal->breakdown) {
        gb_line_text(line, refusal->job ? " (here: program " : " (program ");
        gb_line_scaled(line, refusal->program, scale);
        gb_line_text(line, ", context ");
        gb_line_scaled(line, refusal->context, scale);
        gb_line_text(line, ", other ");
        gb_line_scaled(line, refusal->other, scale);
        if (refusal->estimated)
            gb_line_text(line, ", both estimated");
        if (refusal->imported > 0) {
            gb_line_text(line, "; imported ");
            gb_line_scaled(line, refusal->imported, scale);
            gb_line_text(line, ", not charged");
        }
        gb_line_text(line, ")");
    }
    add_kept(line, sum.kept, unit);
    gb_line_text(line, "; ");
    add_source_of(line, settings, refusal->job);
    gb_line_text(line, refusal->job ? ". This is the job's budget, not the card. "
                                    : ". This is the budget, not the card. ");
    if (refusal->managed)
        gb_line_text(line, "Managed memory is charged in full; GPUBUDGET_MANAGED=ignore turns "
                           "that off. ");
    gb_line_text(line, "Programs often free memory and retry.");
    gb_log_write(level, &log);
}

static uint64_t larger(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

void gb_message_card_full(const struct gb_settings *settings,
                          const struct gb_message_card_full *full)
{
    struct gb_log_line log;
    struct gb_line *line = &log.line;
    enum gb_log_level level = count_one(card_fulls, full->device.ordinal);
    (void)settings;
    if (!gb_log_on(level))
        return;
    /* In one unit, so that the two can be compared at a glance. */
    uint64_t scale = larger(full->budget_left, larger(full->card_free, full->others));
    const struct sum sum = {.asked = full->asked, .most = full->card_free, .scale = scale};
    uint64_t unit = full->card_known ? telling_unit(&sum) : 0;
    if (unit > 0)
        scale = unit;
    gb_log_begin(&log);
    add_device(line, &full->device);
    gb_line_text(line, "the card is full, not your budget: asked ");
    add_amount(line, full->asked, unit);
    gb_line_text(line, ", budget has ");
    add_amount(line, full->budget_left, unit);
    gb_line_text(line, " left");
    if (full->card_known) {
        gb_line_text(line, ", card has ");
        gb_line_scaled(line, full->card_free, scale);
        gb_line_text(line, " ");
        gb_line_text(line, gb_line_unit(scale));
        gb_line_text(line, "; other processes hold ");
        add_amount(line, full->others, unit);
    }
    gb_line_text(line, ".");
    gb_log_write(level, &log);
}

void gb_message_context_refused(const struct gb_settings *settings,
                                const struct gb_message_context *refusal)
{
    struct gb_log_line log;
    struct gb_line *line = &log.line;
    const uint64_t mebibyte = (uint64_t)1 << 20;
    enum gb_log_level level = count_one(context_refusals, refusal->device.ordinal);
    count_one(refusals, refusal->device.ordinal);
    if (!gb_log_on(level))
        return;
    const struct sum sum = {
        .asked = refusal->context,
        .used = refusal->used,
        .kept = decisive(refusal->kept, refusal->used, refusal->context, refusal->limit),
        .most = refusal->limit,
        .scale = refusal->limit};
    uint64_t unit = telling_unit(&sum);
    gb_log_begin(&log);
    add_device(line, &refusal->device);
    gb_line_text(line, "refused a context");
    add_call(line, refusal->call);
    gb_line_text(line, ": it takes ");
    add_amount(line, refusal->context, unit);
    gb_line_text(line, ", and ");
    add_used(line, refusal->used, refusal->limit, unit);
    gb_line_text(line, " are used");
    add_job(line, refusal->job);
    add_kept(line, sum.kept, unit);
    gb_line_text(line, "; ");
    add_source_of(line, settings, refusal->job);
    gb_line_text(line, ". The smallest useful limit here is ");
    gb_line_number(line, refusal->smallest / mebibyte + (refusal->smallest % mebibyte > 0));
    gb_line_text(line, "MiB.");
    gb_log_write(level, &log);
}

uint64_t gb_message_refusals(int ordinal)
{
    return atomic_load_explicit(&refusals[index_of(ordinal)], memory_order_relaxed);
}

void gb_message_over(const struct gb_settings *settings,
                     const struct gb_message_refusal *granted)
{
    struct gb_log_line log;
    struct gb_line *line = &log.line;
    enum gb_log_level level = count_one(refusals, granted->device.ordinal);

    if (!gb_log_on(level))
        return;
    /* What was granted is in `used` already. */
    const struct sum sum = {.used = granted->used,
                            .kept = decisive(granted->kept, granted->used, 0, granted->limit),
                            .most = granted->limit,
                            .scale = granted->limit};
    uint64_t unit = telling_unit(&sum);
    gb_log_begin(&log);
    add_device(line, &granted->device);
    gb_line_text(line, "over the limit: granted ");
    add_amount(line, granted->asked, unit);
    add_call(line, granted->call);
    gb_line_text(line, ", now ");
    add_used(line, granted->used, granted->limit, unit);
    gb_line_text(line, " used");
    add_kept(line, sum.kept, unit);
    gb_line_text(line, "; ");
    add_source(line, settings);
    gb_line_text(line, ". Nothing is refused: GPUBUDGET_ON_LIMIT=report.");
    gb_log_write(level, &log);
}

void gb_message_estimated(const struct gb_message_device *device, uint64_t reserve)
{
    struct gb_log_line log;
    struct gb_line *line = &log.line;

    if (count_one(estimated, device->ordinal) != GB_LOG_WARN || !gb_log_on(GB_LOG_WARN))
        return;
    gb_log_begin(&log);
    add_device(line, device);
    gb_line_text(line, "NVML does not tell what this process holds (in a container: is the "
                       "driver capability utility there?). Contexts, modules and streams are "
                       "estimated by the card's free memory; ");
    gb_line_bytes(line, reserve);
    gb_line_text(line, " of the limit are kept for what that misses (GPUBUDGET_RESERVE).");
    gb_log_write(GB_LOG_WARN, &log);
}

void gb_message_imported(const struct gb_message_device *device, const char *call,
                         uint64_t bytes)
{
    struct gb_log_line log;
    struct gb_line *line = &log.line;
    enum gb_log_level level =
        count_one(imports, device->ordinal) == GB_LOG_WARN ? GB_LOG_INFO : GB_LOG_DEBUG;

    if (!gb_log_on(level))
        return;
    gb_log_begin(&log);
    add_device(line, device);
    gb_line_text(line, "imported ");
    gb_line_bytes(line, bytes);
    add_call(line, call);
    gb_line_text(line, ", which is not charged");
    gb_log_write(level, &log);
}

void gb_message_overshoot(const struct gb_message_overshoot *overshoot)
{
    struct gb_log_line log;
    struct gb_line *line = &log.line;

    if (count_one(overshoots, overshoot->device.ordinal) != GB_LOG_WARN ||
        !gb_log_on(GB_LOG_WARN))
        return;
    gb_log_begin(&log);
    add_device(line, &overshoot->device);
    gb_line_bytes(line, overshoot->over);
    gb_line_text(line, " above the limit of ");
    gb_line_bytes(line, overshoot->limit);
    gb_line_text(line,
                 ": the driver has taken memory that no call could refuse, such as code it "
                 "loads at a first launch. Nothing is granted until it fits; "
                 "GPUBUDGET_RESERVE keeps room for it.");
    gb_log_write(GB_LOG_WARN, &log);
}

uint64_t gb_message_card_fulls(int ordinal)
{
    return atomic_load_explicit(&card_fulls[index_of(ordinal)], memory_order_relaxed);
}

/* `text` as a sentence: many explanations end in a question. */
static void add_sentence(struct gb_line *line, const char *text)
{
    gb_line_text(line, text);
    gb_line_text(line, line->text[line->length - 1] == '?' ? " " : ". ");
}

static void say_error(const char *why, const char *consequence)
{
    struct gb_log_line log;
    gb_log_begin(&log);
    add_sentence(&log.line, why);
    gb_line_text(&log.line, consequence);
    gb_log_write(GB_LOG_ERROR, &log);
}

static void say_allowed(const char *why)
{
    say_error(why, "There is no limit (GPUBUDGET_ON_ERROR=allow).");
}

void gb_message_denied(const char *why)
{
    if (!atomic_exchange(&denial_said, true))
        say_error(why, "No GPU memory is given out until this is mended.");
}

bool gb_message_not_applied(const struct gb_settings *settings, const char *why)
{
    bool deny = gb_settings_deny_errors(settings);
    if (deny)
        gb_message_denied(why);
    else if (!atomic_exchange(&denial_said, true))
        say_allowed(why);
    return deny;
}

void gb_message_settings(const struct gb_settings *settings)
{
    if (atomic_exchange(&settings_said, true))
        return;
    for (uint32_t i = 0; i < settings->warning_count; i++)
        gb_log_text(GB_LOG_WARN, settings->warnings[i]);
    if (settings->verdict == GB_VERDICT_DENY)
        gb_message_denied(settings->message);
    else if (settings->message[0])
        say_allowed(settings->message);
}

void gb_message_in_force(const struct gb_settings *settings,
                         const struct gb_message_device *device, bool none, uint64_t limit,
                         uint64_t reserve)
{
    struct gb_log_line log;
    struct gb_line *line = &log.line;
    if (!gb_log_on(GB_LOG_INFO))
        return;
    gb_log_begin(&log);
    add_device(line, device);
    if (none) {
        gb_line_text(line, "no limit (none)");
    } else {
        gb_line_text(line, "limit ");
        gb_line_bytes(line, limit);
        gb_line_text(line, " (");
        gb_line_number(line, limit);
        gb_line_text(line, " bytes)");
    }
    if (reserve > 0) {
        gb_line_text(line, ", reserve ");
        gb_line_bytes(line, reserve);
    }
    gb_line_text(line, ", ");
    add_source(line, settings);
    if (settings)
        gb_line_text(line, settings->charge == GB_CHARGE_FOOTPRINT ? ", charge footprint"
                                                                   : ", charge requested");
    gb_log_write(GB_LOG_INFO, &log);
}

void gb_message_job_in_force(const struct gb_message_device *device, const char *job,
                             uint64_t limit)
{
    struct gb_log_line log;
    struct gb_line *line = &log.line;

    if (!gb_log_on(GB_LOG_INFO))
        return;
    gb_log_begin(&log);
    add_device(line, device);
    gb_line_text(line, "job ");
    gb_line_text(line, job);
    gb_line_text(line, ", limit ");
    if (limit == UINT64_MAX)
        gb_line_text(line, "none");
    else
        gb_line_bytes(line, limit);
    gb_log_write(GB_LOG_INFO, &log);
}

void gb_message_job_gone(const struct gb_message_device *device, const char *job,
                         const char *path)
{
    struct gb_log_line log;
    struct gb_line *line = &log.line;
    enum gb_log_level level = count_one(refusals, device->ordinal);

    if (!gb_log_on(level))
        return;
    gb_log_begin(&log);
    add_device(line, device);
    gb_line_text(line, "refused: ");
    gb_line_text(line, path);
    gb_line_text(line, ", where the processes of job ");
    gb_line_text(line, job);
    gb_line_text(line, " are counted, has been removed while it runs. Nothing more is given "
                       "out to this process; start the job anew.");
    gb_log_write(level, &log);
}

static atomic_bool order_failed_said;
static atomic_bool order_copies_said;

void gb_message_order_failed(int code)
{
    struct gb_log_line log;
    struct gb_line *line = &log.line;

    if (atomic_exchange(&order_failed_said, true) || !gb_log_on(GB_LOG_WARN))
        return;
    gb_log_begin(&log);
    gb_line_text(line,
                 "GPUBUDGET_STREAM_ORDER: a stream's use of a block could not be followed (");
    if (code == 0) {
        gb_line_text(line, "no host memory");
    } else {
        gb_line_text(line, "the driver answers ");
        gb_line_number(line, (uint64_t)code);
    }
    gb_line_text(line, "); a free may not wait for it. Later ones are not told.");
    gb_log_write(GB_LOG_WARN, &log);
}

void gb_message_order_copies(void)
{
    struct gb_log_line log;

    if (atomic_exchange(&order_copies_said, true) || !gb_log_on(GB_LOG_WARN))
        return;
    gb_log_begin(&log);
    gb_line_text(&log.line,
                 "GPUBUDGET_STREAM_ORDER=all acts as copies: this driver does not tell the "
                 "parameters of kernels (cuFuncGetParamInfo came with CUDA 12.4).");
    gb_log_write(GB_LOG_WARN, &log);
}

void gb_message_forked(void)
{
    for (size_t i = 0; i < GB_MESSAGE_DEVICES; i++) {
        atomic_store_explicit(&refusals[i], 0, memory_order_relaxed);
        atomic_store_explicit(&context_refusals[i], 0, memory_order_relaxed);
        atomic_store_explicit(&card_fulls[i], 0, memory_order_relaxed);
        atomic_store_explicit(&overshoots[i], 0, memory_order_relaxed);
        atomic_store_explicit(&imports[i], 0, memory_order_relaxed);
        atomic_store_explicit(&estimated[i], 0, memory_order_relaxed);
    }
    atomic_store(&settings_said, false);
    atomic_store(&denial_said, false);
    atomic_store(&order_failed_said, false);
    atomic_store(&order_copies_said, false);
}
