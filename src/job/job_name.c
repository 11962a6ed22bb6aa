/*
 * job_name.c: names that are given, a scheduler's, and those of single processes.
 */
#include "job/job_name.h"

#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "config/characters.h"
#include "report/line.h"

static bool is_letter(char character)
{
    return (gb_lower(character) >= 'a' && gb_lower(character) <= 'z') ||
           gb_is_digit(character) || character == '.' || character == '_' || character == '-';
}

bool gb_job_name_is_good(const char *text)
{
    size_t length = strlen(text);

    if (length == 0 || length > GB_JOB_NAME_MOST || strspn(text, ".") == length)
        return false;
    for (; *text; text++)
        if (!is_letter(*text))
            return false;
    return true;
}

/* Elements of an array of LSF have one ID. */
enum { LSF = 2 };

bool gb_job_name_of_scheduler(struct gb_job_name *name)
{
    static const struct {
        const char *variable, *head;
    } schedulers[] = {{"SLURM_JOB_ID", "slurm-"}, {"PBS_JOBID", "pbs-"}, {"LSB_JOBID", "lsf-"}};

    for (size_t i = 0; i < sizeof(schedulers) / sizeof(schedulers[0]); i++) {
        const char *id = getenv(schedulers[i].variable);
        const char *index = i == LSF ? getenv("LSB_JOBINDEX") : NULL;
        struct gb_line line;

        if (!id || !*id)
            continue;
        gb_line_begin(&line, name->text, sizeof(name->text));
        gb_line_text(&line, schedulers[i].head);
        gb_line_text(&line, id);
        if (index && *index && strcmp(index, "0") != 0) {
            gb_line_text(&line, "_");
            gb_line_text(&line, index);
        }
        /* Cut off it could be another job's. */
        if (line.cut)
            continue;
        for (char *at = name->text; *at; at++)
            if (!is_letter(*at))
                *at = '_';
        return true;
    }
    return false;
}

/* The 22nd field of /proc/PID/stat; the second, in brackets, may hold anything. */
static bool start_time(pid_t pid, uint64_t *ticks)
{
    char path[64], text[1024];
    struct gb_line line;
    const char *at;
    ssize_t length;
    int fd;

    gb_line_begin(&line, path, sizeof(path));
    gb_line_text(&line, "/proc/");
    gb_line_number(&line, (uint64_t)pid);
    gb_line_text(&line, "/stat");
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    length = read(fd, text, sizeof(text) - 1);
    close(fd);
    if (length <= 0)
        return false;
    text[length] = '\0';
    at = strrchr(text, ')');
    for (int field = 2; at && field < 22; field++)
        at = strchr(at + 1, ' ');
    if (!at || !gb_is_digit(at[1]))
        return false;
    for (*ticks = 0, at++; gb_is_digit(*at); at++)
        *ticks = *ticks * 10 + (uint64_t)(*at - '0');
    return true;
}

bool gb_job_name_of_process(const char *head, pid_t pid, struct gb_job_name *name)
{
    struct gb_line line;
    uint64_t ticks;

    if (pid <= 0 || !start_time(pid, &ticks))
        return false;
    gb_line_begin(&line, name->text, sizeof(name->text));
    gb_line_text(&line, head);
    gb_line_text(&line, "-");
    gb_line_number(&line, (uint64_t)pid);
    gb_line_text(&line, "-");
    gb_line_number(&line, ticks);
    return !line.cut;
}
