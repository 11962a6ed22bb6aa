/* The lock, the start and the fork rule. */
#include "sim.h"
#include "names.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static bool initialised;
static bool child_of_initialised;
static struct sim_call *calls;

void sim_lock(void)
{
    pthread_mutex_lock(&lock);
}

void sim_unlock(void)
{
    pthread_mutex_unlock(&lock);
}

void sim_unlock_guard(int *unused)
{
    (void)unused;
    sim_unlock();
}

void sim_pause(void)
{
    const struct timespec moment = {0, 50 * 1000};
    sim_unlock();
    nanosleep(&moment, NULL);
    sim_lock();
}

static void after_fork_in_child(void)
{
    if (initialised)
        child_of_initialised = true;
    sim_unlock();
}

__attribute__((constructor)) static void watch_forks(void)
{
    pthread_atfork(sim_lock, sim_unlock, after_fork_in_child);
}

bool sim_initialised(void)
{
    return initialised && !child_of_initialised;
}

CUresult sim_init(void)
{
    CUresult code;
    if (child_of_initialised)
        return CUDA_ERROR_NOT_INITIALIZED;
    if (initialised)
        return CUDA_SUCCESS;
    code = sim_cards_begin();
    if (code)
        return code;
    sim_pools_begin();
    initialised = true;
    return CUDA_SUCCESS;
}

struct sim_call *sim_calls(void)
{
    return calls;
}

void sim_note(struct sim_call *call, const void *bytes, size_t size)
{
    if (!bytes)
        return;
    if (size > SIM_ARG_BYTES - call->arg_bytes)
        size = SIM_ARG_BYTES - call->arg_bytes;
    memcpy(call->args + call->arg_bytes, bytes, size);
    call->arg_bytes += size;
}

CUresult sim_enter(struct sim_call *call, bool any_time, const uint64_t *words, size_t count)
{
    CUresult code;
    unsigned long delay = 0;
    sim_lock();
    if (!call->registered) {
        call->registered = true;
        call->next = calls;
        calls = call;
    }
    call->count++;
    call->arg_bytes = 0;
    sim_note(call, words, count * sizeof(*words));
    code = sim_call_faults(call, &delay);
    if (delay) {
        const struct timespec pause = {(time_t)(delay / 1000000),
                                       (long)(delay % 1000000) * 1000};
        sim_unlock();
        nanosleep(&pause, NULL);
        sim_lock();
    }
    if (!any_time && !sim_initialised())
        code = CUDA_ERROR_NOT_INITIALIZED;
    if (code) {
        sim_unlock();
        return code;
    }
    sim_progress();
    return CUDA_SUCCESS;
}

/* The calls without a body of their own share this; there are few enough to walk. */
int sim_unsimulated(const char *name)
{
    struct sim_call *call;
    CUresult code;
    sim_lock();
    for (call = calls; call && strcmp(call->name, name) != 0; call = call->next)
        ;
    if (!call) {
        call = sim_new(sizeof(*call));
        call->name = name;
    }
    sim_unlock();
    code = sim_enter(call, false, NULL, 0);
    if (code)
        return code;
    sim_unlock();
    return CUDA_ERROR_NOT_SUPPORTED;
}

void *sim_new(size_t size)
{
    void *memory = calloc(1, size);
    if (!memory) {
        fputs("standin: the host is out of memory\n", stderr);
        abort();
    }
    return memory;
}
