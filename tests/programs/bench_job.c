/*
 * bench_job.c: what a grant costs in a job: to put bytes in flight beside so many processes
 * that each have a slot, and to settle them. ns, the lowest mean of twenty parts of a run. And
 * what it takes to join.
 *
 *     bench_job [DIRECTORY]    on tmpfs, else it measures a disk at the start
 */
#define _GNU_SOURCE
#include "job/job.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>

enum { MOST = 64, PARTS = 20, ROUNDS = 20000 };

static const unsigned char uuid[16] = "a card";
static const struct gb_job_name name = {"bench"};

static double now(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (double)ts.tv_sec * 1e9 + (double)ts.tv_nsec;
}

static bool join(struct gb_job *job, const struct gb_state_dir *dir)
{
    if (gb_job_join(job, dir, &name) &&
        gb_job_file_device(&job->file, uuid, UINT64_C(1) << 40) == 0)
        return true;
    fprintf(stderr, "bench_job: %s %s\n", job->file.path,
            job->file.refused ? job->file.refused : "has no place for a device");
    return false;
}

/* A process that only has its slot. */
static pid_t neighbour(const struct gb_state_dir *dir)
{
    pid_t child = fork();

    if (child == 0) {
        static struct gb_job job;

        if (!join(&job, dir) || !gb_job_reserve(&job, 0, 4096, 0))
            _exit(1);
        kill(getpid(), SIGSTOP);
        _exit(0);
    }
    waitpid(child, NULL, WUNTRACED);
    return child;
}

static double measure(struct gb_job *job)
{
    double least = 0;

    for (int part = 0; part < PARTS; part++) {
        double begin = now();

        for (int i = 0; i < ROUNDS; i++) {
            if (!gb_job_reserve(job, 0, 4096, 0))
                return -1;
            gb_job_settle(job, 0, 4096);
        }
        begin = (now() - begin) / ROUNDS;
        if (part == 0 || begin < least)
            least = begin;
    }
    return least;
}

/* What it takes a process to join: ns, the least of so many. */
static double measure_join(const struct gb_state_dir *dir)
{
    static struct gb_job job;
    double least = 0;

    for (int i = 0; i < PARTS; i++) {
        double begin = now();

        if (!join(&job, dir))
            return -1;
        begin = now() - begin;
        gb_job_leave(&job);
        if (i == 0 || begin < least)
            least = begin;
    }
    return least;
}

int main(int argc, char **argv)
{
    static const int processes[] = {1, 8, 64};
    char folder[] = "/dev/shm/bench_job.XXXXXX";
    static struct gb_state_dir dir;
    static struct gb_job job;
    pid_t children[MOST];
    int there = 0;

    if (!gb_state_dir_find(argc > 1 ? argv[1] : mkdtemp(folder), &dir)) {
        fprintf(stderr, "bench_job: %s %s\n", dir.path, dir.refused);
        return 1;
    }
    if (!join(&job, &dir))
        return 1;
    for (size_t i = 0; i < sizeof(processes) / sizeof(processes[0]); i++) {
        while (there < processes[i] - 1)
            children[there++] = neighbour(&dir);
        printf("a grant in a job of %2d processes: %5.0f ns\n", processes[i], measure(&job));
        printf("to join it, beside %2d processes: %5.0f us\n", processes[i],
               measure_join(&dir) / 1e3);
    }
    while (there > 0) {
        kill(children[--there], SIGKILL);
        waitpid(children[there], NULL, 0);
    }
    unlink(job.file.path);
    gb_job_leave(&job);
    if (argc <= 1)
        rmdir(folder);
    return 0;
}
