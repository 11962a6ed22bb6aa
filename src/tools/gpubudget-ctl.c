/*
 * gpubudget-ctl: shows the jobs of a machine whose processes share a budget, changes the limit
 * of one while it runs, and takes away the files of those that have ended.
 */
#define _GNU_SOURCE
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "config/limit.h"
#include "job/job_clean.h"
#include "job/job_limit.h"
#include "job/job_look.h"

#include <dirent.h>
#include <errno.h>
#include <getopt.h>
#include <grp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { EXIT_REFUSED = 1, EXIT_USAGE = 2 };

struct options {
    const char *state_dir;
    bool processes, json;
    bool is_root;
    char **operands;
    int operand_count;
};

static void say(const char *format, ...) __attribute__((format(printf, 1, 2)));
static void say(const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    fputs("gpubudget-ctl: ", stderr);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    va_end(arguments);
}

static int usage_error(void)
{
    fputs("Try 'gpubudget-ctl --help'.\n", stderr);
    return EXIT_USAGE;
}

static void print_help(void)
{
    fputs(
        "Usage: gpubudget-ctl [OPTION]... list [JOB]\n"
        "  or:  gpubudget-ctl [OPTION]... set JOB LIMIT\n"
        "  or:  gpubudget-ctl [OPTION]... clean\n"
        "Show the jobs of this machine whose processes share a GPU memory budget, change the\n"
        "limit of one while it runs, or remove the ledgers of those that have ended.\n"
        "\n"
        "  -p, --processes       list each process as well\n"
        "      --json            list as JSON, all figures in bytes\n"
        "  -d, --state-dir=DIR   where the ledgers lie (GPUBUDGET_STATE_DIR, else the user's "
        "own)\n"
        "  -h, --help            print this\n"
        "  -V, --version         print the version\n"
        "\n"
        "LIMIT is like 8GiB or none, for every device of the job, or GPU-UUID=8GiB,...\n"
        "See gpubudget-ctl(1).\n",
        stdout);
}

/* -1 to go on, else the exit status. */
static int read_options(struct options *options, int argc, char **argv)
{
    enum { OPTION_JSON = 256 };
    static const struct option longs[] = {
        {"processes", no_argument, NULL, 'p'},       {"json", no_argument, NULL, OPTION_JSON},
        {"state-dir", required_argument, NULL, 'd'}, {"help", no_argument, NULL, 'h'},
        {"version", no_argument, NULL, 'V'},         {NULL, 0, NULL, 0},
    };
    int option;

    options->state_dir = getenv("GPUBUDGET_STATE_DIR");
    while ((option = getopt_long(argc, argv, "pd:hV", longs, NULL)) != -1) {
        switch (option) {
        case 'p':
            options->processes = true;
            break;
        case OPTION_JSON:
            options->json = true;
            break;
        case 'd':
            options->state_dir = optarg;
            break;
        case 'h':
            print_help();
            return EXIT_SUCCESS;
        case 'V':
            puts("gpubudget-ctl (gpubudget) " PACKAGE_VERSION);
            return EXIT_SUCCESS;
        default:
            return usage_error();
        }
    }
    options->operands = argv + optind;
    options->operand_count = argc - optind;
    return -1;
}

/* ---- what is written ---- */

static const char *device_text(const struct gb_job_device *device, char text[48])
{
    char *at = text + sprintf(text, "GPU-");

    for (int i = 0; i < 16; i++)
        at += sprintf(at, "%s%02x", i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "",
                      device->uuid[i]);
    return text;
}

static const char *bytes_text(uint64_t bytes, char text[64])
{
    const struct gb_size size = {
        .kind = bytes == GB_JOB_NO_LIMIT ? GB_SIZE_NONE : GB_SIZE_BYTES, .bytes = bytes};

    gb_size_format(&size, text, 64);
    return text;
}

static uint64_t left_of(const struct gb_job_seen *seen)
{
    return seen->used < seen->limit ? seen->limit - seen->used : 0;
}

/* A number of another PID namespace is somebody else's here: does the process map the ledger?
 */
static bool has_mapped(uint64_t pid, const char *ledger)
{
    char path[64], *line = NULL;
    size_t size = 0;
    bool found = false;
    FILE *maps;

    snprintf(path, sizeof(path), "/proc/%llu/maps", (unsigned long long)pid);
    maps = fopen(path, "r");
    while (maps && !found && getline(&line, &size, maps) > 0)
        found = strstr(line, ledger) != NULL;
    if (maps)
        fclose(maps);
    free(line);
    return found;
}

/* The name of its program; "" where that is not known. */
static void command_of(uint64_t pid, const char *ledger, char text[32])
{
    char path[64];
    FILE *file;

    text[0] = '\0';
    snprintf(path, sizeof(path), "/proc/%llu/comm", (unsigned long long)pid);
    file = has_mapped(pid, ledger) ? fopen(path, "r") : NULL;
    if (!file)
        return;
    if (!fgets(text, 32, file))
        text[0] = '\0';
    fclose(file);
    /* ASCII alone: a program may call itself anything, and the kernel cuts the name anywhere.
     */
    for (char *at = text; *at; at++)
        if (*at < ' ' || *at == '"' || *at == '\\' || (unsigned char)*at >= 0x7f)
            *at = *at == '\n' ? '\0' : '?';
}

static void print_figure(const char *name, uint64_t bytes)
{
    if (bytes == GB_JOB_NO_LIMIT)
        printf(", \"%s\": null", name);
    else
        printf(", \"%s\": %llu", name, (unsigned long long)bytes);
}

static void list_processes(const struct options *options, const struct gb_job_file *file,
                           int fd, int device)
{
    const struct gb_job_shared *shared = file->shared;
    char *path = realpath(file->path, NULL); /* as the kernel writes it */
    const char *comma = "";

    for (unsigned i = 0; i < GB_JOB_SLOTS; i++) {
        char command[32], text[64];
        uint64_t used, pid;

        /* Before anything is read: slots that nobody has had take no memory, and are to take
         * none by our look. */
        if (!gb_job_look_slot(shared, fd, i, device, &used))
            continue;
        pid = atomic_load(&shared->slot[i].pid);
        command_of(pid, path ? path : file->path, command);
        if (options->json)
            printf("%s{\"pid\": %llu, \"used\": %llu, \"command\": \"%s\"}", comma,
                   (unsigned long long)pid, (unsigned long long)used, command);
        else
            printf("  process %llu: %s used%s%s\n", (unsigned long long)pid,
                   bytes_text(used, text), command[0] ? ", " : "", command);
        comma = ", ";
    }
    free(path);
}

static void list_device(const struct options *options, const char *job,
                        const struct gb_job_file *file, int fd, int device, const char **comma)
{
    const struct gb_job_shared *shared = file->shared;
    char uuid[48], limit[64], used[64], left[64];
    struct gb_job_seen seen;

    gb_job_look_device(shared, fd, device, &seen);
    device_text(&shared->device[device], uuid);
    if (!options->json) {
        printf("%s %s: %s of %s used, %s free, %u process%s\n", job, uuid,
               bytes_text(seen.used, used),
               seen.limit == GB_JOB_NO_LIMIT ? "no limit" : bytes_text(seen.limit, limit),
               seen.limit == GB_JOB_NO_LIMIT ? "the card's" : bytes_text(left_of(&seen), left),
               seen.processes, seen.processes == 1 ? "" : "es");
        if (options->processes)
            list_processes(options, file, fd, device);
        return;
    }
    printf("%s  {\"job\": \"%s\", \"device\": \"%s\"", *comma, job, uuid);
    print_figure("limit", seen.limit);
    print_figure("first_limit", atomic_load(&shared->device[device].first_limit));
    print_figure("used", seen.used);
    print_figure("free", seen.limit == GB_JOB_NO_LIMIT ? GB_JOB_NO_LIMIT : left_of(&seen));
    if (options->processes) {
        fputs(", \"processes\": [", stdout);
        list_processes(options, file, fd, device);
        fputs("]}", stdout);
    } else {
        printf(", \"processes\": %u}", seen.processes);
    }
    *comma = ",\n";
}

/* Was it there a moment ago, or will it be in a moment? Jobs come and go while all are listed.
 */
static bool comes_or_goes(const struct gb_job_file *file)
{
    return file->refused == gb_job_file_absent || file->refused == gb_job_file_unmade ||
           file->refused == gb_job_file_removed;
}

/* False, with a line: it cannot be read. */
static bool list_job(const struct options *options, const struct gb_state_dir *dir,
                     const struct gb_job_name *name, const char **comma)
{
    struct gb_job_file file;
    int fd = gb_job_file_find(dir, name, false, &file);

    if (fd < 0 && options->operand_count == 1 && comes_or_goes(&file))
        return true;
    if (fd < 0) {
        say("%s %s", file.path, file.refused);
        return false;
    }
    for (int i = 0; i < GB_JOB_DEVICES && atomic_load(&file.shared->device[i].known) != 0; i++)
        list_device(options, name->text, &file, fd, i, comma);
    gb_job_file_close(&file);
    close(fd);
    return true;
}

static int by_name(const struct dirent **one, const struct dirent **other)
{
    return strcmp((*one)->d_name, (*other)->d_name);
}

static int is_job(const struct dirent *entry)
{
    struct gb_job_name name;

    return gb_job_clean_name(entry->d_name, &name);
}

/* The names of all jobs, in order; -1, with a line: they cannot be read. */
static int all_jobs(const struct gb_state_dir *dir, struct dirent ***entries)
{
    int count = scandir(dir->path, entries, is_job, by_name);

    if (count < 0)
        say("%s cannot be read: %s", dir->path, strerror(errno));
    return count;
}

static int list(const struct options *options, const struct gb_state_dir *dir)
{
    const char *comma = "";
    struct gb_job_name name;
    struct dirent **entries;
    bool good = true;
    int count;

    if (options->json)
        puts("[");
    if (options->operand_count > 1) {
        snprintf(name.text, sizeof(name.text), "%s", options->operands[1]);
        good = list_job(options, dir, &name, &comma);
    } else if ((count = all_jobs(dir, &entries)) >= 0) {
        for (int i = 0; i < count; i++) {
            if (gb_job_clean_name(entries[i]->d_name, &name))
                good &= list_job(options, dir, &name, &comma);
            free(entries[i]);
        }
        free(entries);
    } else {
        good = false;
    }
    if (options->json)
        puts(comma[0] ? "\n]" : "]");
    return good ? EXIT_SUCCESS : EXIT_REFUSED;
}

static int clean(const struct gb_state_dir *dir)
{
    struct gb_job_name name;
    struct dirent **entries;
    int count = all_jobs(dir, &entries), removed = 0;

    for (int i = 0; i < count; i++) {
        if (gb_job_clean_name(entries[i]->d_name, &name) && gb_job_clean(dir, &name))
            removed++;
        free(entries[i]);
    }
    if (count < 0)
        return EXIT_REFUSED;
    free(entries);
    printf("removed %d of %d\n", removed, count);
    return EXIT_SUCCESS;
}

/* ---- a limit is changed ---- */

/* The job's devices are known by UUID, and how large they are is not known. */
static bool can_be_set(const struct gb_limit *limit)
{
    for (uint32_t i = 0; i < limit->count; i++) {
        const struct gb_limit_entry *entry = &limit->entries[i];

        if (entry->key == GB_LIMIT_KEY_ORDINAL || entry->key == GB_LIMIT_KEY_PCI)
            say("\"%s\": a job knows its devices by UUID alone, GPU-...=SIZE", entry->written);
        else if (entry->size.kind == GB_SIZE_PERCENT)
            say("\"%s\": how large the card is is not known here; write a size such as 8GiB",
                entry->written);
        else
            continue;
        return false;
    }
    return true;
}

/* True: it stands as asked for; else a line. */
static bool set_device(const struct options *options, struct gb_job_shared *shared, int fd,
                       int device, uint64_t limit)
{
    const char *job = options->operands[1];
    char uuid[48], asked[64], most[64];
    struct gb_job_seen seen;

    device_text(&shared->device[device], uuid);
    bytes_text(limit, asked);
    switch (gb_job_limit_set(shared, fd, device, limit, options->is_root)) {
    case GB_JOB_LIMIT_ABOVE_FIRST:
        say("%s %s: %s is more than the %s that the job began with; only root may set that",
            job, uuid, asked,
            bytes_text(atomic_load(&shared->device[device].first_limit), most));
        return false;
    case GB_JOB_LIMIT_LOCKED:
        say("%s %s: the ledger is being made, and that does not end", job, uuid);
        return false;
    case GB_JOB_LIMIT_SET:
        break;
    }
    gb_job_look_device(shared, fd, device, &seen);
    printf("%s %s: %s\n", job, uuid, asked);
    if (seen.used > limit)
        printf("%s %s: %s are used; nothing is taken away, and nothing more is granted\n", job,
               uuid, bytes_text(seen.used, most));
    return true;
}

static int set(const struct options *options, const struct gb_state_dir *dir)
{
    const char *job = options->operands[1], *text = options->operands[2];
    struct gb_limit limit = {.count = 0};
    char why[GB_LIMIT_WHY];
    struct gb_job_name name;
    struct gb_job_file file;
    bool good = true, any = false;
    int fd;

    if (!gb_limit_parse(&limit, text, strlen(text), why, sizeof(why))) {
        say("%s", why);
        return EXIT_REFUSED;
    }
    if (!can_be_set(&limit))
        return EXIT_REFUSED;
    snprintf(name.text, sizeof(name.text), "%s", job);
    fd = gb_job_file_find(dir, &name, true, &file);
    if (fd < 0) {
        say("%s %s", file.path, file.refused);
        return EXIT_REFUSED;
    }
    for (int i = 0; i < GB_JOB_DEVICES && atomic_load(&file.shared->device[i].known) != 0;
         i++) {
        struct gb_device_identity identity = {.ordinal = UINT32_MAX};
        uint64_t bytes = GB_JOB_NO_LIMIT;

        device_text(&file.shared->device[i], identity.uuid);
        if (gb_limit_for_device(&limit, &identity, &bytes) == GB_LIMIT_MISSING)
            continue;
        any = true;
        good &= set_device(options, file.shared, fd, i, bytes);
    }
    if (!any)
        say("%s has no device that \"%s\" names", job, text);
    gb_job_file_close(&file);
    close(fd);
    return good && any ? EXIT_SUCCESS : EXIT_REFUSED;
}

/* ---- */

/*
 * Root goes on as whose directory it is: all in it is that user's to change at any moment, a
 * link in a name's way included. What then is read, written and removed is no more than that
 * user could. False, with a line.
 */
static bool becomes_owner(const struct gb_state_dir *dir)
{
    if (dir->owner == geteuid())
        return true;
    if (setgroups(0, NULL) == 0 && setegid(dir->group) == 0 && seteuid(dir->owner) == 0)
        return true;
    say("%s belongs to user %ld, as whom it cannot be looked at: %s", dir->path,
        (long)dir->owner, strerror(errno));
    return false;
}

static int run(const struct options *options)
{
    const char *what = options->operand_count > 0 ? options->operands[0] : "";
    bool lists = strcmp(what, "list") == 0, sets = strcmp(what, "set") == 0;
    bool cleans = strcmp(what, "clean") == 0;
    struct gb_state_dir dir;

    if (!lists && !sets && !cleans) {
        if (what[0])
            say("\"%s\" is not list, set or clean", what);
        else
            say("what to do is missing: list, set or clean");
        return usage_error();
    }
    if ((lists && options->operand_count > 2) || (sets && options->operand_count != 3) ||
        (cleans && options->operand_count != 1)) {
        say("%s takes %s", what,
            lists  ? "no more than one JOB"
            : sets ? "a JOB and a LIMIT"
                   : "nothing");
        return usage_error();
    }
    if (!cleans && options->operand_count > 1 && !gb_job_name_is_good(options->operands[1])) {
        say("\"%s\" is no name; use 1 to 64 of A-Z a-z 0-9 . _ -, not only dots",
            options->operands[1]);
        return EXIT_REFUSED;
    }
    if (!gb_state_dir_look(options->state_dir, &dir)) {
        /* Nobody has had a job here. */
        if (options->operand_count == 1 && dir.refused == gb_state_dir_absent) {
            if (options->json)
                puts("[\n]");
            return EXIT_SUCCESS;
        }
        say("%s %s", dir.path[0] ? dir.path : "the state directory \"\"", dir.refused);
        return EXIT_REFUSED;
    }
    if (!becomes_owner(&dir))
        return EXIT_REFUSED;
    if (lists)
        return list(options, &dir);
    return sets ? set(options, &dir) : clean(&dir);
}

int main(int argc, char **argv)
{
    struct options options = {.is_root = geteuid() == 0};
    int status = read_options(&options, argc, argv);

    if (status < 0)
        status = run(&options);
    if (fflush(stdout) == 0 && !ferror(stdout))
        return status;
    say("cannot write: %s", strerror(errno));
    return EXIT_REFUSED;
}
