/*
 * attack_moments.c: memory taken at odd moments: constructors and destructors, atexit, a
 * signal handler, the end of threads, the children of every kind of fork. Each moment takes as
 * much as it gets and gives it back, so each must get the same as main did.
 */
#define _GNU_SOURCE
#include "driver/cuda_api.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MOST = 64 };

static int in_main = -1;
static pid_t first_process;

static void take(const char *moment)
{
    CUdeviceptr block[MOST], ordered;
    CUcontext context;
    CUresult code;
    int count = 0;

    cuInit(0);
    code = cuDevicePrimaryCtxRetain(&context, 0);
    if (code == CUDA_SUCCESS)
        cuCtxSetCurrent(context);
    while (code == CUDA_SUCCESS && count < MOST) {
        code = cuMemAlloc_v2(&block[count], (size_t)128 << 20);
        count += code == CUDA_SUCCESS;
    }
    if (cuMemAllocAsync(&ordered, 1 << 20, CU_STREAM_PER_THREAD) == CUDA_SUCCESS)
        cuMemFreeAsync(ordered, CU_STREAM_PER_THREAD);
    for (int i = 0; i < count; i++)
        cuMemFree_v2(block[i]);
    if (in_main < 0)
        in_main = count;
    if (getpid() != first_process && first_process != 0) {
        /* A driver does not survive a fork: whatever it says, nothing hangs or dies. */
        printf("ok %s\n", moment);
    } else if (count == in_main && code == CUDA_ERROR_OUT_OF_MEMORY) {
        printf("ok %s\n", moment);
    } else {
        printf("not ok %s: %d blocks, then %d; %d before\n", moment, count, (int)code, in_main);
    }
    fflush(stdout);
}

__attribute__((constructor)) static void at_load(void)
{
    take("constructor");
}

__attribute__((destructor)) static void at_unload(void)
{
    take("destructor");
}

static void at_exit(void)
{
    take("atexit");
}

static void at_signal(int number)
{
    (void)number;
    take("signal");
}

static pthread_key_t key;

static void at_thread_end(void *value)
{
    static __thread int turns;

    take("thread-end");
    if (turns++ < 2)
        pthread_setspecific(key, value);
}

static void *thread(void *arg)
{
    pthread_setspecific(key, &key);
    take("thread");
    if (arg)
        pthread_exit(NULL);
    return NULL;
}

static int clone_main(void *arg)
{
    (void)arg;
    take("clone");
    _exit(0);
}

static void await(pid_t child, const char *moment)
{
    int status = -1;

    waitpid(child, &status, __WALL);
    if (status != 0)
        printf("not ok %s-status: %#x\n", moment, (unsigned)status);
    fflush(stdout);
}

extern char **environ;

int main(void)
{
    static char stack[1 << 20] __attribute__((aligned(64)));
    char *const command[] = {"sh", "-c", "exit 0", NULL};
    pthread_t other;
    pid_t child;

    first_process = getpid();
    pthread_key_create(&key, at_thread_end);
    atexit(at_exit);
    signal(SIGUSR1, at_signal);
    take("main");
    for (int i = 0; i < 6; i++) {
        pthread_create(&other, NULL, thread, i % 2 ? &key : NULL);
        if (i == 5)
            pthread_cancel(other);
        pthread_join(other, NULL);
    }
    raise(SIGUSR1);

    child = fork();
    if (child == 0) {
        take("fork");
        child = fork();
        if (child == 0)
            exit(0); /* with everything that runs at exit */
        await(child, "fork-of-fork");
        _exit(0);
    }
    await(child, "fork");
    child = vfork();
    if (child == 0) {
        execve("/bin/sh", command, environ);
        _exit(1);
    }
    await(child, "vfork");
    if (posix_spawn(&child, "/bin/sh", NULL, NULL, command, environ) == 0)
        await(child, "spawn");
    child = (pid_t)syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, NULL);
    if (child == 0)
        clone_main(NULL);
    await(child, "raw-clone");
    child = clone(clone_main, stack + sizeof(stack), SIGCHLD, NULL);
    await(child, "clone");
    take("end-of-main");
    return 0;
}
