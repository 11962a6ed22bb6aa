/*
 * job_name.c: names that are given, a scheduler's, and those of single processes.
 */
#include "job/job_name.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "config/characters.h"

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
    } schedulers[] = {{"SLURM_JOB_ID", "slurm"}, {"PBS_JOBID", "pbs"}, {"LSB_JOBID", "lsf"}};

    for (size_t i = 0; i < sizeof(schedulers) / sizeof(schedulers[0]); i++) {
        const char *id = getenv(schedulers[i].variable), *index;
        int length;

        if (!id || !*id)
            continue;
        index = i == LSF ? getenv("LSB_JOBINDEX") : NULL;
        if (index && (!*index || strcmp(index, "0") == 0))
            index = NULL;
        length = snprintf(name->text, sizeof(name->text), "%s-%s%s%s", schedulers[i].head, id,
                          index ? "_" : "", index ? index : "");
        /* Cut off it could be another job's. */
        if (length < 0 || (size_t)length >= sizeof(name->text))
            continue;
        for (char *at = name->text; *at; at++)
            if (!is_letter(*at))
                *at = '_';
        return true;
    }
    return false;
}

/* The 22nd field of /proc/PID/stat; the second, in brackets, may hold anything. */
static bool start_time(pid_t pid, unsigned long long *ticks)
{
    char path[64], text[1024];
    const char *at;
    ssize_t length;
    int fd;

    snprintf(path, sizeof(path), "/proc/%ld/stat", (long)pid);
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
    return at && sscanf(at, " %llu", ticks) == 1;
}

bool gb_job_name_of_process(const char *head, pid_t pid, struct gb_job_name *name)
{
    unsigned long long ticks;
    int length;

    if (!start_time(pid, &ticks))
        return false;
    length = snprintf(name->text, sizeof(name->text), "%s-%ld-%llu", head, (long)pid, ticks);
    return length > 0 && (size_t)length < sizeof(name->text);
}
