/*
 * job_worker.c: a process of a job, which does what it is told by lines on standard input and
 * answers each with one line.
 *
 *     fill KIND MIB    blocks of that size until one is refused    filled COUNT CODE
 *     take KIND MIB    one                                         granted | refused CODE
 *     drop COUNT       frees the last ones, -1: all                dropped
 *     info             what the driver tells, in MiB               info FREE TOTAL
 *     fork             a child that sleeps                         child PID
 *     rawfork          the same behind the C library's back        child PID
 *     close            every descriptor from 3 on                  closed
 *     exec             begins again, as a new program              ready PID
 *     end
 *
 * KIND: sync or async. After the start, and with a context: "ready PID".
 */
#define _GNU_SOURCE
#include "budget_program.h"

#include <sys/syscall.h>
#include <unistd.h>

enum { MOST = 100000 };

static struct {
    CUdeviceptr pointer;
    bool ordered;
} blocks[MOST];
static int count;

static CUresult take(const char *kind, size_t mib)
{
    bool ordered = strcmp(kind, "async") == 0;
    CUdeviceptr pointer;
    CUresult code = ordered ? cuMemAllocAsync(&pointer, mib * MIB, NULL)
                            : cuMemAlloc_v2(&pointer, mib * MIB);

    if (code != CUDA_SUCCESS || count == MOST)
        return code;
    blocks[count].pointer = pointer;
    blocks[count++].ordered = ordered;
    return code;
}

static void drop(int many)
{
    CUmemoryPool pool;

    for (; count > 0 && many != 0; many--) {
        count--;
        if (blocks[count].ordered)
            cuMemFreeAsync(blocks[count].pointer, NULL);
        else
            cuMemFree_v2(blocks[count].pointer);
    }
    cuCtxSynchronize();
    if (cuDeviceGetDefaultMemPool(&pool, 0) == CUDA_SUCCESS)
        cuMemPoolTrimTo(pool, 0);
}

static void child(bool raw)
{
    pid_t pid =
        raw ? (pid_t)syscall(SYS_clone, 17 /* SIGCHLD */, NULL, NULL, NULL, NULL) : fork();

    if (pid == 0) {
        close(0);
        close(1);
        for (;;)
            sleep(1000);
    }
    printf("child %d\n", (int)pid);
}

static bool obey(char *line, char **argv)
{
    char kind[16];
    long number;
    size_t bytes_free, bytes_total;

    if (sscanf(line, "fill %15s %ld", kind, &number) == 2) {
        int before = count;
        CUresult code;

        while ((code = take(kind, (size_t)number)) == CUDA_SUCCESS && count < MOST)
            ;
        printf("filled %d %d\n", count - before, (int)code);
    } else if (sscanf(line, "take %15s %ld", kind, &number) == 2) {
        CUresult code = take(kind, (size_t)number);

        if (code == CUDA_SUCCESS)
            puts("granted");
        else
            printf("refused %d\n", (int)code);
    } else if (sscanf(line, "drop %ld", &number) == 1) {
        drop((int)number);
        puts("dropped");
    } else if (strncmp(line, "info", 4) == 0) {
        CUresult code = cuMemGetInfo_v2(&bytes_free, &bytes_total);

        printf("info %zu %zu\n", code ? 0 : bytes_free / MIB, code ? 0 : bytes_total / MIB);
    } else if (strncmp(line, "fork", 4) == 0 || strncmp(line, "rawfork", 7) == 0) {
        child(line[0] == 'r');
    } else if (strncmp(line, "close", 5) == 0) {
        for (int fd = 3; fd < 1024; fd++)
            close(fd);
        puts("closed");
    } else if (strncmp(line, "exec", 4) == 0) {
        execv("/proc/self/exe", argv);
    } else {
        return false;
    }
    return true;
}

int main(int argc, char **argv)
{
    CUcontext context;
    char line[128];
    CUresult code;

    (void)argc;
    setvbuf(stdout, NULL, _IOLBF, 0);
    /* A line at a time, so that a program which is begun anew finds the next. */
    setvbuf(stdin, NULL, _IONBF, 0);
    code = cuInit(0);
    if (code == CUDA_SUCCESS)
        code = cuDevicePrimaryCtxRetain(&context, 0);
    if (code == CUDA_SUCCESS)
        code = cuCtxSetCurrent(context);
    if (code != CUDA_SUCCESS) {
        printf("failed %d\n", (int)code);
        return 1;
    }
    printf("ready %d\n", (int)getpid());
    while (fgets(line, sizeof(line), stdin) && obey(line, argv))
        ;
    return 0;
}
