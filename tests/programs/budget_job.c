/*
 * budget_job.c: four processes of one job, job_worker, that fill its limit; one is killed, and
 * its share is the others'.
 *
 *     budget_job LIMIT [BUS]    LIMIT of the job in MiB; BUS: of the card, whose tools are
 * asked by gpu_watch what the processes hold
 *
 * Itself it uses no CUDA. Both programs lie beside it.
 */
#define _GNU_SOURCE
#include "budget_program.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { WORKERS = 4, BITE = 64, EACH = 8, LINE = 128 };

static struct worker {
    pid_t pid;
    FILE *to, *from;
    int bites;
} workers[WORKERS];

static char folder[4096];
static const char *bus;
static long limit; /* MiB */

static double now(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (double)ts.tv_sec + (double)ts.tv_nsec * 1e-9;
}

static void path_of(const char *program, char *path, size_t size)
{
    snprintf(path, size, "%s/%s", folder, program);
}

static void tell(struct worker *worker, const char *line)
{
    fprintf(worker->to, "%s\n", line);
    fflush(worker->to);
}

/* The answer in `line`; an empty one where there is none. */
static const char *hear(struct worker *worker, char line[LINE])
{
    if (!fgets(line, LINE, worker->from))
        line[0] = '\0';
    line[strcspn(line, "\n")] = '\0';
    return line;
}

static void start_worker(struct worker *worker)
{
    char path[4200];
    int in[2], out[2];

    path_of("job_worker", path, sizeof(path));
    if (pipe2(in, O_CLOEXEC) != 0 || pipe2(out, O_CLOEXEC) != 0)
        exit(1);
    worker->pid = fork();
    if (worker->pid == 0) {
        dup2(in[0], 0);
        dup2(out[1], 1);
        execl(path, path, (char *)NULL);
        _exit(127);
    }
    close(in[0]);
    close(out[1]);
    worker->to = fdopen(in[1], "w");
    worker->from = fdopen(out[0], "r");
    worker->bites = 0;
}

/* MiB that the card's tools show for the workers, or else for the card since `before`; -1: they
 * are not asked. */
static long seen(long before)
{
    char path[4200], command[4400], line[LINE];
    long sum = 0, card = 0;
    bool listed = false;
    FILE *watch;

    if (!bus)
        return -1;
    path_of("gpu_watch", path, sizeof(path));
    snprintf(command, sizeof(command), "LD_PRELOAD= '%s' '%s' 2>&1", path, bus);
    watch = popen(command, "r");
    while (watch && fgets(line, sizeof(line), watch)) {
        unsigned long long bytes;
        long pid;

        if (sscanf(line, "card %llu", &bytes) == 1)
            card = (long)(bytes / MIB);
        if (sscanf(line, "process %ld %llu", &pid, &bytes) != 2)
            continue;
        for (int i = 0; i < WORKERS; i++)
            if (workers[i].pid == pid) {
                listed = true;
                sum += (long)(bytes / MIB);
            }
    }
    if (watch)
        pclose(watch);
    return listed ? sum : card - before;
}

/* What the ledger tells, by one of the workers. */
static long used(struct worker *worker)
{
    char line[LINE];
    long left = 0, total = 0;

    tell(worker, "info");
    if (sscanf(hear(worker, line), "info %ld %ld", &left, &total) != 2)
        case_fails("info: \"%s\"", line);
    EXPECT_EQUAL(total, limit);
    return total - left;
}

static void all_fill(long before)
{
    char line[LINE];
    long shown;

    case_begin("four-fill-it");
    /* Some for each; of the rest one may be quicker than all others. */
    for (int i = 0; i < WORKERS * EACH; i++) {
        tell(&workers[i % WORKERS], i % 2 ? "take async 64" : "take sync 64");
        EXPECT(strcmp(hear(&workers[i % WORKERS], line), "granted") == 0);
    }
    for (int i = 0; i < WORKERS; i++)
        tell(&workers[i], i % 2 ? "fill async 64" : "fill sync 64");
    for (int i = 0; i < WORKERS; i++) {
        int code = 0;

        if (sscanf(hear(&workers[i], line), "filled %d %d", &workers[i].bites, &code) != 2)
            case_fails("fill: \"%s\"", line);
        EXPECT_EQUAL(code, CUDA_ERROR_OUT_OF_MEMORY);
        workers[i].bites += EACH;
    }
    EXPECT(used(&workers[0]) <= limit);
    EXPECT(used(&workers[0]) > limit - 2 * BITE);
    shown = seen(before);
    if (shown >= 0) {
        printf("# the card's tools show %ld of %ld MiB\n", shown, limit);
        if (shown > limit || shown < limit - 4 * BITE)
            case_fails("the card's tools show %ld of %ld MiB", shown, limit);
    }
    case_end();
}

/* Its share is had by another within a second. */
static void one_is_killed(long before)
{
    struct worker *dead = &workers[0], *heir = &workers[2];
    char line[LINE];
    int gone = dead->bites, had = 0;
    double begin;

    case_begin("one-is-killed");
    tell(heir, "take sync 64");
    EXPECT(strcmp(hear(heir, line), "refused 2") == 0);
    begin = now();
    kill(dead->pid, SIGKILL);
    while (had < gone && now() - begin < 5) {
        tell(heir, "take sync 64");
        if (strcmp(hear(heir, line), "granted") == 0)
            had++;
    }
    printf("# %d blocks of the killed one were another's after %.0f ms\n", had,
           (now() - begin) * 1e3);
    EXPECT_EQUAL(had, gone);
    EXPECT(now() - begin < 1.0);
    waitpid(dead->pid, NULL, 0);
    dead->pid = 0;
    tell(heir, "fill sync 64");
    hear(heir, line);
    EXPECT(used(heir) <= limit);
    if (seen(before) > limit)
        case_fails("the card's tools show %ld of %ld MiB", seen(before), limit);
    case_end();
}

static void all_end(void)
{
    char line[LINE];

    case_begin("the-end");
    for (int i = 0; i < WORKERS; i++) {
        if (workers[i].pid == 0)
            continue;
        tell(&workers[i], "end");
        waitpid(workers[i].pid, NULL, 0);
    }
    start_worker(&workers[0]);
    EXPECT(strncmp(hear(&workers[0], line), "ready", 5) == 0);
    /* A context is all there is. */
    EXPECT(used(&workers[0]) < 1024);
    tell(&workers[0], "end");
    waitpid(workers[0].pid, NULL, 0);
    case_end();
}

int main(int count, char **arguments)
{
    char line[LINE];
    ssize_t length = readlink("/proc/self/exe", folder, sizeof(folder) - 1);
    long before;

    if (count < 2 || length <= 0)
        return 2;
    folder[length] = '\0';
    *strrchr(folder, '/') = '\0';
    limit = strtol(arguments[1], NULL, 10);
    bus = count > 2 ? arguments[2] : NULL;
    before = seen(0);
    case_begin("begin");
    for (int i = 0; i < WORKERS; i++)
        start_worker(&workers[i]);
    for (int i = 0; i < WORKERS; i++)
        if (strncmp(hear(&workers[i], line), "ready", 5) != 0)
            case_fails("a worker says \"%s\"", line);
    if (!case_end())
        return cases_status();
    all_fill(before);
    one_is_killed(before);
    all_end();
    return cases_status();
}
