/*
 * gpubudget-run: starts a command under a GPU memory budget. It checks the limit, the library
 * and the command, sets the environment and becomes the command: same process, no waiting
 * parent.
 */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "config/settings.h"
#include "tools/job.h"
#include "tools/library.h"
#include "tools/preload_list.h"
#include "tools/print.h"
#include "tools/target.h"

#include <errno.h>
#include <getopt.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* As coreutils' env, nice and timeout. */
enum { EXIT_REFUSED = 125, EXIT_CANNOT_RUN = 126, EXIT_NOT_FOUND = 127, EXIT_NOT_IN_FORCE = 1 };

#define WHY_SIZE (PATH_MAX + 256)

enum print { PRINT_NOTHING, PRINT_SH, PRINT_JSON };

/* All -l, or all -L: joined by commas, NULL where there is none. */
struct limit_option {
    const char *name;
    char *text;
    struct gb_limit parsed;
};

struct options {
    struct limit_option limit, job_limit;
    const char *job;
    const char *charge;
    bool verbose;
    bool quiet;
    bool check;
    bool strict;
    bool force;
    enum print print;
    char **command; /* NULL-terminated; command[0] is NULL where there is none */
};

static void say(const char *format, ...) __attribute__((format(printf, 1, 2)));
static void say(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    fputs("gpubudget-run: ", stderr);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    va_end(arguments);
}

static int usage_error(void)
{
    fputs("Try 'gpubudget-run --help'.\n", stderr);
    return EXIT_REFUSED;
}

static void print_help(void)
{
    fputs(
        "Usage: gpubudget-run [OPTION]... [--] COMMAND [ARG]...\n"
        "Run COMMAND with a limit on the GPU memory that each of its processes may take.\n"
        "\n"
        "  -l, --limit=LIMIT     SIZE for every device, or DEVICE=SIZE,...; again to add "
        "entries;\n"
        "                        SIZE is like 4GiB, 1.5G, 40GB, 50% or none; DEVICE is an\n"
        "                        ordinal, a UUID or its beginning, a PCI address or *;\n"
        "                        replaces GPUBUDGET_LIMIT\n"
        "  -L, --job-limit=LIMIT the same for all processes of the job together\n"
        "  -j, --job=NAME        the job, whose processes on this machine share a budget;\n"
        "                        without it GPUBUDGET_JOB, the scheduler's job, or a new one\n"
        "      --charge=MODE     footprint: what the card really loses (default);\n"
        "                        requested: the bytes asked for\n"
        "  -v, --verbose         say what is set, and let the library say more\n"
        "  -q, --quiet           no warnings, and let the library report errors only\n"
        "      --print[=FORM]    print what would be set, as sh (default) or json; run "
        "nothing\n"
        "      --check           say whether the limit would be in force; run nothing;\n"
        "                        status 0: yes, 1: no\n"
        "      --strict          refuse where the limit may not reach COMMAND (static "
        "programs)\n"
        "      --force           run also where the limit cannot reach COMMAND (set-user-id\n"
        "                        programs, other machines)\n"
        "  -h, --help            print this\n"
        "  -V, --version         print the version\n"
        "\n"
        "The status is COMMAND's, or 125 if gpubudget-run refuses, 126 if COMMAND cannot be "
        "run,\n"
        "127 if it is not found. See gpubudget-run(1) and gpubudget(7).\n",
        stdout);
}

static bool add_limit(struct limit_option *limit, const char *text)
{
    char why[GB_LIMIT_WHY];
    if (!gb_limit_parse(&limit->parsed, text, strlen(text), why, sizeof(why))) {
        say("%s: %s", limit->name, why);
        return false;
    }
    size_t before = limit->text ? strlen(limit->text) : 0;
    char *joined = realloc(limit->text, before + strlen(text) + 2);
    if (!joined) {
        say("no memory");
        return false;
    }
    limit->text = joined;
    if (before > 0)
        joined[before++] = ',';
    strcpy(joined + before, text);
    return true;
}

static bool read_job(struct options *options, const char *name)
{
    options->job = name;
    if (gb_job_name_is_good(name))
        return true;
    say("--job: \"%s\" is no name; use 1 to 64 of A-Z a-z 0-9 . _ -, not only dots", name);
    return false;
}

static bool read_print(struct options *options, const char *form)
{
    if (!form || strcmp(form, "sh") == 0)
        options->print = PRINT_SH;
    else if (strcmp(form, "json") == 0)
        options->print = PRINT_JSON;
    else
        say("--print: \"%s\" is not sh or json", form);
    return options->print != PRINT_NOTHING;
}

static bool read_charge(struct options *options, const char *mode)
{
    options->charge = mode;
    if (strcmp(mode, "footprint") == 0 || strcmp(mode, "requested") == 0)
        return true;
    say("--charge: \"%s\" is not footprint or requested", mode);
    return false;
}

static bool contradictory(const struct options *options)
{
    if (options->verbose && options->quiet)
        say("-v and -q exclude each other");
    else if (options->strict && options->force)
        say("--strict and --force exclude each other");
    else if (options->check && options->print != PRINT_NOTHING)
        say("--check and --print exclude each other");
    else
        return false;
    return true;
}

/* -1 to go on, else the exit status. */
static int read_options(struct options *options, int argc, char **argv)
{
    enum { OPTION_CHARGE = 256, OPTION_PRINT, OPTION_CHECK, OPTION_STRICT, OPTION_FORCE };
    static const struct option longs[] = {
        {"limit", required_argument, NULL, 'l'},
        {"job-limit", required_argument, NULL, 'L'},
        {"job", required_argument, NULL, 'j'},
        {"verbose", no_argument, NULL, 'v'},
        {"quiet", no_argument, NULL, 'q'},
        {"charge", required_argument, NULL, OPTION_CHARGE},
        {"print", optional_argument, NULL, OPTION_PRINT},
        {"check", no_argument, NULL, OPTION_CHECK},
        {"strict", no_argument, NULL, OPTION_STRICT},
        {"force", no_argument, NULL, OPTION_FORCE},
        {"help", no_argument, NULL, 'h'},
        {"version", no_argument, NULL, 'V'},
        {NULL, 0, NULL, 0},
    };
    int option;
    bool good = true;
    /* The leading "+": the first operand is the command, and what follows it is its own. */
    while (good && (option = getopt_long(argc, argv, "+l:L:j:vqhV", longs, NULL)) != -1) {
        switch (option) {
        case 'l':
            good = add_limit(&options->limit, optarg);
            break;
        case 'L':
            good = add_limit(&options->job_limit, optarg);
            break;
        case 'j':
            good = read_job(options, optarg);
            break;
        case 'v':
            options->verbose = true;
            break;
        case 'q':
            options->quiet = true;
            break;
        case OPTION_CHARGE:
            good = read_charge(options, optarg);
            break;
        case OPTION_PRINT:
            good = read_print(options, optarg);
            break;
        case OPTION_CHECK:
            options->check = true;
            break;
        case OPTION_STRICT:
            options->strict = true;
            break;
        case OPTION_FORCE:
            options->force = true;
            break;
        case 'h':
            print_help();
            return EXIT_SUCCESS;
        case 'V':
            puts("gpubudget-run (gpubudget) " PACKAGE_VERSION);
            return EXIT_SUCCESS;
        default:
            return usage_error();
        }
    }
    if (!good || contradictory(options))
        return EXIT_REFUSED;
    options->command = argv + optind;
    if (!options->command[0] && !options->check && options->print == PRINT_NOTHING) {
        say("a command is missing");
        return usage_error();
    }
    return -1;
}

/* The settings as the library will read them, by the library's own code. */
static bool set_up_settings(const struct options *options)
{
    int failed = 0;
    if (options->limit.text) {
        failed |= setenv("GPUBUDGET_LIMIT", options->limit.text, 1);
        failed |= setenv("GPUBUDGET_LIMIT_SOURCE", "--limit", 1);
    }
    if (options->job_limit.text)
        failed |= setenv("GPUBUDGET_JOB_LIMIT", options->job_limit.text, 1);
    if (options->job)
        failed |= setenv("GPUBUDGET_JOB", options->job, 1);
    if (options->charge)
        failed |= setenv("GPUBUDGET_CHARGE", options->charge, 1);
    if (options->verbose || options->quiet)
        failed |= setenv("GPUBUDGET_LOG", options->verbose ? "info" : "error", 0);
    if (failed) {
        say("cannot set the environment: %s", strerror(errno));
        return false;
    }
    const struct gb_settings *settings = gb_settings();
    if (settings->message[0]) {
        say("%s", settings->message);
        return false;
    }
    if (!getenv("GPUBUDGET_LIMIT") && !getenv("GPUBUDGET_JOB_LIMIT")) {
        say("no limit: give one with -l or in GPUBUDGET_LIMIT, or one for the job with -L; "
            "-l none is no limit");
        return false;
    }
    return true;
}

/* Names the job for the command. False: a limit was asked for it which cannot be kept. */
static bool set_up_job(struct gb_tool_job *job)
{
    const struct gb_settings *settings = gb_settings();
    if (!gb_tool_job_find(settings, job))
        return true;
    if (job->refused[0] && gb_settings_has_job_limit(settings)) {
        say("the job's limit cannot be kept: %s", job->refused);
        return false;
    }
    if (!job->name.text[0] || setenv("GPUBUDGET_JOB", job->name.text, 1) == 0)
        return true;
    say("cannot set the environment: %s", strerror(errno));
    return false;
}

/* Why the limit, understood and carried over, would still hold nothing; NULL where it does. */
static const char *idle_reason(const struct gb_settings *settings)
{
    if (settings->disabled)
        return "GPUBUDGET_DISABLE=1 switches the library off";
    if (!gb_settings_has_job_limit(settings) && gb_limit_is_none(&settings->limit))
        return "the limit is none";
    if (settings->on_limit == GB_ON_LIMIT_REPORT)
        return "GPUBUDGET_ON_LIMIT=report refuses nothing";
    return NULL;
}

/*
 * An entry that leaves no room for a context, of which a hundred MiB would be a small one; NULL
 * where there is none, or where contexts do not count.
 */
static const struct gb_limit_entry *tiny_entry(const struct gb_settings *settings)
{
    const uint64_t least = (uint64_t)128 << 20;
    if (settings->disabled || settings->charge == GB_CHARGE_REQUESTED)
        return NULL;
    for (uint32_t i = 0; i < settings->limit.count; i++) {
        const struct gb_limit_entry *entry = &settings->limit.entries[i];
        if (entry->size.kind == GB_SIZE_BYTES && entry->size.bytes < least)
            return entry;
    }
    return NULL;
}

/* What is no error, one line each. */
static void print_warnings(FILE *out, const char *prefix, const struct gb_settings *settings)
{
    const struct gb_limit_entry *tiny = tiny_entry(settings);
    for (uint32_t i = 0; i < settings->warning_count; i++)
        fprintf(out, "%s%s\n", prefix, settings->warnings[i]);
    if (tiny)
        fprintf(out,
                "%slimit %s is less than 128MiB: a context alone takes some hundred MiB, so "
                "a program may get no GPU memory\n",
                prefix, tiny->written);
}

/* -1 to go on, else the exit status. */
static int judge_target(const struct options *options, struct gb_target *target)
{
    char why[WHY_SIZE];
    bool warning = !options->quiet;
    memset(target, 0, sizeof(*target));
    if (!options->command[0])
        return -1;
    enum gb_target_verdict verdict =
        gb_target_check(options->command[0], target, why, sizeof(why));
    switch (verdict) {
    case GB_TARGET_GOOD:
        return -1;
    case GB_TARGET_DOUBTFUL:
        if (!options->strict && !options->check) {
            if (warning)
                say("warning: %s", why);
            return -1;
        }
        break;
    case GB_TARGET_HOPELESS:
        if (options->force && !options->check) {
            if (warning)
                say("warning: %s", why);
            return -1;
        }
        break;
    case GB_TARGET_NOT_FOUND:
    case GB_TARGET_NOT_EXECUTABLE:
        say("%s", why);
        return verdict == GB_TARGET_NOT_FOUND ? EXIT_NOT_FOUND : EXIT_CANNOT_RUN;
    }
    say("%s%s", why,
        verdict == GB_TARGET_HOPELESS && !options->check ? "; --force runs it all the same"
                                                         : "");
    return EXIT_REFUSED;
}

/* The limits and the job, one line each. */
static void print_limits(FILE *out, const char *prefix, const struct gb_tool_job *job)
{
    const struct gb_settings *settings = gb_settings();
    gb_print_limit(out, prefix, "limit", getenv("GPUBUDGET_LIMIT"), settings->limit_source);
    gb_print_limit(out, prefix, "job limit", getenv("GPUBUDGET_JOB_LIMIT"),
                   "GPUBUDGET_JOB_LIMIT");
    if (job->name.text[0])
        fprintf(out, "%sjob %s, %s%s\n", prefix, job->name.text,
                job->refused[0] ? "on its own: " : "counted in ",
                job->refused[0] ? job->refused : job->path);
}

static int finish_check(const struct options *options, const struct gb_library *library,
                        const struct gb_tool_job *job, const char *preload)
{
    char why[WHY_SIZE];
    const struct gb_settings *settings = gb_settings();
    const char *reason = idle_reason(settings);
    if (!reason && !gb_library_probe(library->path, preload, why, sizeof(why)))
        reason = why;
    if (!options->quiet) {
        print_limits(stdout, "", job);
        if (options->verbose)
            gb_print_reserve(stdout, "", settings);
        printf("library %s, version %s\n", library->path, library->version);
        print_warnings(stdout, "", settings);
        printf("%s%s\n", reason ? "not in force: " : "in force", reason ? reason : "");
    }
    return reason ? EXIT_NOT_IN_FORCE : EXIT_SUCCESS;
}

static int run_command(const struct options *options, const struct gb_library *library,
                       const struct gb_tool_job *job, const char *preload)
{
    char why[WHY_SIZE];
    const struct gb_settings *settings = gb_settings();
    const char *reason = settings->disabled ? idle_reason(settings) : NULL;
    if (options->strict && !reason &&
        !gb_library_probe(library->path, preload, why, sizeof(why)))
        reason = why;
    if (reason && options->strict) {
        say("%s", reason);
        return EXIT_REFUSED;
    }
    if (reason && !options->quiet)
        say("warning: %s", reason);
    if (options->verbose) {
        print_limits(stderr, "gpubudget-run: ", job);
        gb_print_reserve(stderr, "gpubudget-run: ", settings);
        say("library %s, version %s", library->path, library->version);
    }
    if (setenv("LD_PRELOAD", preload, 1) != 0) {
        say("cannot set the environment: %s", strerror(errno));
        return EXIT_REFUSED;
    }
    execvp(options->command[0], options->command);
    int code = errno;
    say("cannot run \"%s\": %s", options->command[0], strerror(code));
    return code == ENOENT ? EXIT_NOT_FOUND : EXIT_CANNOT_RUN;
}

static int close_stdout(int status)
{
    if (fflush(stdout) == 0 && !ferror(stdout))
        return status;
    say("cannot write: %s", strerror(errno));
    return EXIT_REFUSED;
}

static int finish(const struct options *options, const struct gb_library *library,
                  const struct gb_tool_job *job, const char *preload)
{
    if (options->check)
        return close_stdout(finish_check(options, library, job, preload));
    switch (options->print) {
    case PRINT_SH:
        gb_print_sh(stdout, preload);
        return close_stdout(EXIT_SUCCESS);
    case PRINT_JSON:
        gb_print_json(stdout, preload, library->path, library->version);
        return close_stdout(EXIT_SUCCESS);
    case PRINT_NOTHING:
        break;
    }
    return run_command(options, library, job, preload);
}

static int start(const struct options *options)
{
    struct gb_library library;
    struct gb_target target;
    struct gb_tool_job job;
    char why[WHY_SIZE];
    if (!set_up_settings(options))
        return EXIT_REFUSED;
    if (!set_up_job(&job))
        return options->check ? EXIT_NOT_IN_FORCE : EXIT_REFUSED;
    if (!gb_library_find(&library, why, sizeof(why))) {
        say("%s", why);
        return options->check ? EXIT_NOT_IN_FORCE : EXIT_REFUSED;
    }
    int status = judge_target(options, &target);
    if (status >= 0)
        return options->check ? EXIT_NOT_IN_FORCE : status;
    /* As the library would, which may say it late or never. */
    if (!options->check && !options->quiet && gb_log_on(GB_LOG_WARN))
        print_warnings(stderr, "gpubudget-run: warning: ", gb_settings());
    char *preload = gb_preload_list(library.path, &target.elf, getenv("LD_PRELOAD"));
    if (!preload) {
        say("no memory");
        return EXIT_REFUSED;
    }
    status = finish(options, &library, &job, preload);
    free(preload);
    return status;
}

int main(int argc, char **argv)
{
    struct options options = {.limit.name = "--limit", .job_limit.name = "--job-limit"};
    if (argc == 3 && strcmp(argv[1], GB_LIBRARY_PROBE_OPTION) == 0)
        return gb_library_answer_probe(argv[2]);
    int status = read_options(&options, argc, argv);
    status = status >= 0 ? close_stdout(status) : start(&options);
    free(options.limit.text);
    free(options.job_limit.text);
    return status;
}
