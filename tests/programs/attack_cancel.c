/*
 * attack_cancel.c: a thread that is being cancelled makes a call that waits for another
 * thread's request in flight. It must come back from the call, as it does from the driver's
 * own.
 *
 * The driver's call is slow here (GPUSTANDIN_DELAY), so that there is something to wait for.
 */
#define _GNU_SOURCE
#include "budget_program.h"

#include <sched.h>
#include <stdatomic.h>

static CUcontext context;
static atomic_bool returned;

static void *takes(void *arg)
{
    cuCtxSetCurrent(context);
    EXPECT_OK(cuMemAlloc_v2(arg, 600 * MIB));
    return NULL;
}

static void *cancelled(void *arg)
{
    CUdeviceptr block;

    (void)arg;
    cuCtxSetCurrent(context);
    while (sim.calls("cuMemAlloc_v2") == 0)
        sched_yield();
    pthread_cancel(pthread_self());
    EXPECT_CODE(cuMemAlloc_v2(&block, 600 * MIB), CUDA_ERROR_OUT_OF_MEMORY);
    returned = true;
    pthread_testcancel();
    return NULL;
}

int main(void)
{
    CUdeviceptr block = 0;
    pthread_t taking, waiting;

    sim_needed();
    context = start_device(0);
    case_begin("cancelled-in-wait");
    pthread_create(&waiting, NULL, cancelled, NULL);
    pthread_create(&taking, NULL, takes, &block);
    pthread_join(waiting, NULL);
    pthread_join(taking, NULL);
    EXPECT(returned);
    EXPECT_OK(cuMemFree_v2(block));
    EXPECT_EQUAL(info_used(), 0);
    case_end();
    return cases_status();
}
