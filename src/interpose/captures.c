/*
 * captures.c: can any stream of this process be capturing?
 */
#include "interpose/captures.h"

#include <stdatomic.h>

#include "interpose/fork.h"

/* The newest driver all of whose ways to begin a capture are in entries.def. */
#define NEWEST_KNOWN 13000

/* A stream that joins a capture ends with it. */
struct gb_captures gb_captures;

static void in_child(void)
{
    atomic_store(&gb_captures.going, 0);
}

bool gb_captures_ask(struct gb_driver *drv)
{
    int age = atomic_load_explicit(&gb_captures.ages[drv->index], memory_order_relaxed);
    int version = 0;

    if (age != GB_CAPTURES_UNKNOWN)
        return age == GB_CAPTURES_NEW;
    age = GB_CAPTURES_NEW;
    if (drv->api.cuDriverGetVersion && drv->api.cuDriverGetVersion(&version) == CUDA_SUCCESS &&
        version <= NEWEST_KNOWN)
        age = GB_CAPTURES_OLD;
    atomic_store(&gb_captures.ages[drv->index], age);
    return age == GB_CAPTURES_NEW;
}

void gb_captures_begin(void)
{
    gb_fork_on_child(in_child);
    atomic_fetch_add(&gb_captures.going, 1);
}

/* Not below 0: a capture may have begun by a way that we do not see. */
static void ended(void)
{
    int now = atomic_load(&gb_captures.going);

    while (now > 0 && !atomic_compare_exchange_weak(&gb_captures.going, &now, now - 1))
        ;
}

void gb_captures_failed(void)
{
    ended();
}

/* 1 and 0; -1: the driver does not say. */
static int is_capturing(struct gb_driver *drv, CUstream stream)
{
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;

    if (!drv->api.cuStreamIsCapturing ||
        drv->api.cuStreamIsCapturing(stream, &status) != CUDA_SUCCESS)
        return -1;
    return status != CU_STREAM_CAPTURE_STATUS_NONE;
}

bool gb_captures_before_end(struct gb_driver *drv, CUstream stream)
{
    return is_capturing(drv, stream) == 1;
}

void gb_captures_after_end(struct gb_driver *drv, CUstream stream, bool captured, CUresult code)
{
    /* A capture that was spoiled ends with a failure. Where it is not sure, it is still one:
     * that costs a question at each call, and nothing else. */
    if (code == CUDA_SUCCESS || (captured && is_capturing(drv, stream) == 0))
        ended();
}
