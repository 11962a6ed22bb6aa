/*
 * held_streams.h: streams that stand still until they are let go, by values in host memory, so
 * that it works on a real GPU as well.
 */
#ifndef HELD_STREAMS_H
#define HELD_STREAMS_H

#include "budget_program.h"

#include <time.h>

enum { GATES = 8 };

static volatile uint32_t *gates;
static int gates_used;

static inline void make_gates(void)
{
    void *memory = NULL;

    MUST(cuMemHostAlloc(&memory, 4096, CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP));
    gates = memory;
}

/* For what is held from now on. */
static inline void close_gates(void)
{
    gates_used = 0;
    memset((void *)gates, 0, GATES * sizeof(gates[0]));
}

static inline void open_gates(void)
{
    for (int i = 0; i < GATES; i++)
        gates[i] = 1;
}

/* What the stream is given from now on waits for the answer to be opened. */
static inline int hold(CUstream stream)
{
    int gate = gates_used++;

    MUST(cuStreamWaitValue32_v2(stream, (CUdeviceptr)(uintptr_t)&gates[gate], 1,
                                CU_STREAM_WAIT_VALUE_GEQ));
    return gate;
}

static inline void open_gate(int gate)
{
    gates[gate] = 1;
}

static inline bool is_waiting(CUstream stream)
{
    return cuStreamQuery(stream) == CUDA_ERROR_NOT_READY;
}

static inline bool comes_through(CUstream stream)
{
    const struct timespec moment = {.tv_nsec = 1000000};

    for (int i = 0; i < 10000 && is_waiting(stream); i++)
        nanosleep(&moment, NULL);
    return !is_waiting(stream);
}

#endif
