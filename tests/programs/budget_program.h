/*
 * budget_program.h: what the budget_*.c programs share.
 *
 * They are plain driver-API programs, linked with libcuda.so.1, that run on the stand-in and,
 * but for the cases that need its controls, on a real GPU. Each prints `ok NAME`,
 * `not ok NAME: WHY` or `skip NAME: WHY` per case. It is code in a header because each program
 * stands alone, as a user's would.
 */
#ifndef BUDGET_PROGRAM_H
#define BUDGET_PROGRAM_H

#ifndef _GNU_SOURCE
#error "define _GNU_SOURCE first"
#endif

#include "driver/cuda_api.h"
#include "../standin/standin.h"

#include <dlfcn.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define KIB      ((size_t)1024)
#define MIB      (KIB * 1024)
#define GIB      (MIB * 1024)
#define SENTINEL ((CUdeviceptr)0x5e4711e15e4711e0u)

/* One for all files of a program. */
#define ONE_FOR_ALL __attribute__((weak, visibility("hidden")))

/* ---- cases ---- */

ONE_FOR_ALL struct budget_cases {
    pthread_mutex_t lock;
    char name[96];
    char why[256]; /* the first thing that was wrong in this case, else "" */
    int failed;    /* cases, in all */
} budget_cases = {.lock = PTHREAD_MUTEX_INITIALIZER};

static inline void case_begin(const char *format, ...) __attribute__((format(printf, 1, 2)));
static inline void case_begin(const char *format, ...)
{
    va_list list;

    va_start(list, format);
    vsnprintf(budget_cases.name, sizeof(budget_cases.name), format, list);
    va_end(list);
    budget_cases.why[0] = '\0';
}

/* Any thread. Only the first reason of a case is kept. */
static inline void case_fails(const char *format, ...) __attribute__((format(printf, 1, 2)));
static inline void case_fails(const char *format, ...)
{
    va_list list;

    pthread_mutex_lock(&budget_cases.lock);
    if (!budget_cases.why[0]) {
        va_start(list, format);
        vsnprintf(budget_cases.why, sizeof(budget_cases.why), format, list);
        va_end(list);
    }
    pthread_mutex_unlock(&budget_cases.lock);
}

static inline bool case_end(void)
{
    bool good = !budget_cases.why[0];

    if (good)
        printf("ok %s\n", budget_cases.name);
    else
        printf("not ok %s: %s\n", budget_cases.name, budget_cases.why);
    budget_cases.failed += !good;
    fflush(stdout);
    return good;
}

static inline void case_skipped(const char *why)
{
    printf("skip %s: %s\n", budget_cases.name, why);
    fflush(stdout);
}

/* main's return value. */
static inline int cases_status(void)
{
    return budget_cases.failed ? 1 : 0;
}

static inline CUresult expect_code_at(int line, CUresult code, CUresult wanted,
                                      const char *call)
{
    if (code != wanted)
        case_fails("line %d: %s answers %d, not %d", line, call, (int)code, (int)wanted);
    return code;
}

static inline void expect_equal_at(int line, uint64_t seen, uint64_t wanted, const char *what)
{
    if (seen != wanted)
        case_fails("line %d: %s is %" PRIu64 ", not %" PRIu64, line, what, seen, wanted);
}

#define EXPECT_CODE(call, wanted)  expect_code_at(__LINE__, (call), (wanted), #call)
#define EXPECT_OK(call)            EXPECT_CODE(call, CUDA_SUCCESS)
#define EXPECT_EQUAL(seen, wanted) expect_equal_at(__LINE__, (seen), (wanted), #seen)
#define EXPECT(condition)                                                                      \
    do {                                                                                       \
        if (!(condition))                                                                      \
            case_fails("line %d: %s", __LINE__, #condition);                                   \
    } while (0)

/* What cannot be gone on without. */
#define MUST(call)                                                                             \
    do {                                                                                       \
        CUresult must_ = (call);                                                               \
        if (must_ != CUDA_SUCCESS) {                                                           \
            printf("not ok %s: %s answers %d\n",                                               \
                   budget_cases.name[0] ? budget_cases.name : "start", #call, (int)must_);     \
            exit(1);                                                                           \
        }                                                                                      \
    } while (0)

/* ---- the stand-in's controls, all NULL on a real driver ---- */

ONE_FOR_ALL struct budget_sim {
    __typeof__(standin_live_bytes) *live_bytes, *peak_bytes, *managed_bytes, *pool_reserved;
    __typeof__(standin_live_bytes) *array_bytes, *process_bytes, *local_bytes;
    __typeof__(standin_live_bytes) *pending_bytes, *real_live_blocks, *context_bytes,
        *total_bytes;
    __typeof__(standin_reset_peak) *reset_peak;
    __typeof__(standin_set_other) *set_other;
    __typeof__(standin_fail) *fail;
    __typeof__(standin_fail_random) *fail_random;
    __typeof__(standin_fail_random_code) *fail_random_code;
    __typeof__(standin_fail_random_names) *fail_random_names;
    __typeof__(standin_fail_clear) *fail_clear;
    __typeof__(standin_calls) *calls;
    __typeof__(standin_reset_counts) *reset_counts;
    __typeof__(standin_delay) *delay;
    __typeof__(standin_hold) *hold;
    __typeof__(standin_release) *release;
    __typeof__(standin_queued) *queued;
} sim;

static inline bool sim_find(void)
{
    static const struct {
        const char *name;
        void **place;
    } wanted[] = {
        {"standin_live_bytes", (void **)&sim.live_bytes},
        {"standin_peak_bytes", (void **)&sim.peak_bytes},
        {"standin_managed_bytes", (void **)&sim.managed_bytes},
        {"standin_array_bytes", (void **)&sim.array_bytes},
        {"standin_local_bytes", (void **)&sim.local_bytes},
        {"standin_process_bytes", (void **)&sim.process_bytes},
        {"standin_pool_reserved", (void **)&sim.pool_reserved},
        {"standin_pending_bytes", (void **)&sim.pending_bytes},
        {"standin_real_live_blocks", (void **)&sim.real_live_blocks},
        {"standin_context_bytes", (void **)&sim.context_bytes},
        {"standin_total_bytes", (void **)&sim.total_bytes},
        {"standin_reset_peak", (void **)&sim.reset_peak},
        {"standin_set_other", (void **)&sim.set_other},
        {"standin_fail", (void **)&sim.fail},
        {"standin_fail_random", (void **)&sim.fail_random},
        {"standin_fail_random_code", (void **)&sim.fail_random_code},
        {"standin_fail_random_names", (void **)&sim.fail_random_names},
        {"standin_fail_clear", (void **)&sim.fail_clear},
        {"standin_calls", (void **)&sim.calls},
        {"standin_reset_counts", (void **)&sim.reset_counts},
        {"standin_delay", (void **)&sim.delay},
        {"standin_hold", (void **)&sim.hold},
        {"standin_release", (void **)&sim.release},
        {"standin_queued", (void **)&sim.queued},
    };

    for (size_t i = 0; i < sizeof(wanted) / sizeof(wanted[0]); i++)
        *wanted[i].place = dlsym(RTLD_DEFAULT, wanted[i].name);
    return sim.live_bytes != NULL;
}

/* Ends the program with one skipped case where there are no controls. */
static inline void sim_needed(void)
{
    if (sim_find())
        return;
    case_begin("everything");
    case_skipped("needs the stand-in driver");
    exit(0);
}

/* ---- what every program does ---- */

/* The primary context of a device, retained and current. */
static inline CUcontext start_device(CUdevice device)
{
    CUcontext context;

    MUST(cuInit(0));
    MUST(cuDevicePrimaryCtxRetain(&context, device));
    MUST(cuCtxSetCurrent(context));
    return context;
}

static inline size_t info_free(void)
{
    size_t bytes = 0, total;

    EXPECT_OK(cuMemGetInfo_v2(&bytes, &total));
    return bytes;
}

static inline size_t info_total(void)
{
    size_t bytes, total = 0;

    EXPECT_OK(cuMemGetInfo_v2(&bytes, &total));
    return total;
}

/* The ledger, as a program can read it: what the budget has given out. */
static inline uint64_t info_used(void)
{
    size_t bytes = 0, total = 0;

    EXPECT_OK(cuMemGetInfo_v2(&bytes, &total));
    return total - bytes;
}

/* What so many streams of the context at once take of the card it keeps, for later ones. */
static inline void warm_streams(int count)
{
    CUstream streams[64];

    for (int i = 0; i < count; i++)
        MUST(cuStreamCreate(&streams[i], CU_STREAM_NON_BLOCKING));
    for (int i = 0; i < count; i++)
        MUST(cuStreamDestroy_v2(streams[i]));
}

static inline bool charge_is_requested(void)
{
    const char *charge = getenv("GPUBUDGET_CHARGE");

    return charge && strcmp(charge, "requested") == 0;
}

static inline CUmemoryPool make_pool(CUdevice device)
{
    CUmemPoolProps properties;
    CUmemoryPool pool;

    memset(&properties, 0, sizeof(properties));
    properties.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    properties.location.id = device;
    MUST(cuMemPoolCreate(&pool, &properties));
    return pool;
}

static inline void keep_pool_memory(CUmemoryPool pool)
{
    cuuint64_t most = UINT64_MAX;

    MUST(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &most));
}

/* xorshift, so that a run can be repeated from its seed on any machine. */
static inline uint64_t random_next(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

static inline unsigned long number_from(const char *name, unsigned long otherwise)
{
    const char *text = getenv(name);

    return text && *text ? strtoul(text, NULL, 10) : otherwise;
}

#endif
