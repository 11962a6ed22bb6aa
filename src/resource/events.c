/*
 * events.c: pooled events that tell when the work of streams with blocks is done.
 */
#include "resource/events.h"

#include <sched.h>
#include <stdlib.h>

#include "resource/capture.h"
#include "resource/enter.h"
#include "resource/nap.h"

/* How long a context that ends waits for threads that are calling the driver with one of its
 * events: about a second, for calls that take microseconds. */
enum { YIELDS = 200, TURNS = 20000 };

void gb_events_init(struct gb_events *events)
{
    *events = (struct gb_events){.idle = NULL};
    gb_lock_init(&events->lock);
}

/* With the lock held, as link_to and unlink_from. */
static void link_to(struct gb_event **list, struct gb_event *event)
{
    event->next = *list;
    event->link = list;
    if (*list)
        (*list)->link = &event->next;
    *list = event;
}

static void unlink_from(struct gb_event *event)
{
    *event->link = event->next;
    if (event->next)
        event->next->link = event->link;
}

void gb_events_clear(struct gb_events *events)
{
    struct gb_event *lists[] = {events->idle, events->used};

    for (int i = 0; i < 2; i++)
        while (lists[i]) {
            struct gb_event *next = lists[i]->next;

            free(lists[i]);
            lists[i] = next;
        }
    gb_events_init(events);
}

static struct gb_event *take_idle(struct gb_events *events, const struct gb_driver_api *api,
                                  CUcontext context)
{
    struct gb_event *event;

    gb_lock_take(&events->lock);
    event = events->idle;
    while (event && (event->api != api || event->context != context || event->closed))
        event = event->next;
    if (event) {
        unlink_from(event);
        events->idle_count--;
        link_to(&events->used, event);
        events->used_count++;
        atomic_store(&event->references, 1);
    }
    gb_lock_drop(&events->lock);
    return event;
}

/* In the current context. */
static struct gb_event *make(struct gb_events *events, const struct gb_driver_api *api,
                             CUcontext context, CUresult *code)
{
    struct gb_event *event = calloc(1, sizeof(*event));

    if (!event)
        return NULL;
    *code = api->cuEventCreate(&event->handle, CU_EVENT_DISABLE_TIMING);
    if (*code != CUDA_SUCCESS) {
        free(event);
        return NULL;
    }
    event->api = api;
    event->context = context;
    atomic_store(&event->references, 1);
    gb_lock_take(&events->lock);
    link_to(&events->used, event);
    events->used_count++;
    gb_lock_drop(&events->lock);
    return event;
}

/* Gives an event without references back to the driver, or to its context, which may be ending:
 * then it waits for the outcome. */
static void discard(struct gb_events *events, struct gb_event *event)
{
    bool destroy, waits;

    gb_lock_take(&events->lock);
    destroy = !event->closed;
    waits = event->closed && !event->ended;
    if (waits) {
        event->dropped = true;
    } else {
        unlink_from(event);
        events->used_count--;
    }
    gb_lock_drop(&events->lock);
    if (destroy)
        event->api->cuEventDestroy_v2(event->handle);
    if (!waits)
        free(event);
}

gpubudget_status_t gb_events_record(struct gb_events *events, const struct gb_stream_key *key,
                                    bool captures, struct gb_event **event, CUresult *code)
{
    const struct gb_driver_api *api = key->api;
    CUcontext context = gb_stream_context(key);
    struct gb_capture_mode saved = {.switched = false};
    struct gb_event *made = NULL;
    gpubudget_status_t status = GPUBUDGET_OK;
    bool pushed = false;

    *code = CUDA_SUCCESS;
    if (captures)
        saved = gb_capture_relax(api);
    if (captures && gb_capture_on(api, key->stream)) {
        status = GPUBUDGET_STREAM_MISUSE;
    } else if (context && !gb_enter(api, context, &pushed)) {
        *code = CUDA_ERROR_INVALID_CONTEXT;
        status = GPUBUDGET_DRIVER;
    } else {
        made = take_idle(events, api, context);
        if (!made)
            made = make(events, api, context, code);
        if (made)
            *code = api->cuEventRecord(made->handle, key->stream);
        if (*code != CUDA_SUCCESS)
            status = GPUBUDGET_DRIVER;
        else if (!made)
            status = GPUBUDGET_OUT_OF_HOST_MEMORY;
        else if (captures && gb_capture_on(api, key->stream)) /* since a moment ago */
            status = GPUBUDGET_STREAM_MISUSE;
    }
    /* One that is part of a capture, or could not be recorded, may be of the wrong context. */
    if (status != GPUBUDGET_OK && made)
        discard(events, made);
    gb_leave(api, pushed);
    gb_capture_restore(api, &saved);
    if (status == GPUBUDGET_OK)
        *event = made;
    return status;
}

/* With the lock held. */
static void make_idle(struct gb_events *events, struct gb_event *event)
{
    unlink_from(event);
    events->used_count--;
    event->dropped = false;
    link_to(&events->idle, event);
    events->idle_count++;
}

void gb_event_drop(struct gb_events *events, struct gb_event *event)
{
    const struct gb_driver_api *api = event->api;
    struct gb_capture_mode saved;
    bool idle;

    if (atomic_fetch_sub(&event->references, 1) != 1)
        return;
    gb_lock_take(&events->lock);
    idle = !event->closed && events->idle_count < GB_EVENTS_IDLE;
    if (idle)
        make_idle(events, event);
    gb_lock_drop(&events->lock);
    if (idle)
        return;
    saved = gb_capture_relax(api);
    discard(events, event);
    gb_capture_restore(api, &saved);
}

/* May the driver be called with it? Then leave follows. */
static bool enter(struct gb_events *events, struct gb_event *event,
                  struct gb_capture_mode *saved)
{
    bool may;

    gb_lock_take(&events->lock);
    may = !event->closed;
    event->busy += may;
    gb_lock_drop(&events->lock);
    if (may)
        *saved = gb_capture_relax(event->api);
    return may;
}

static void leave(struct gb_events *events, struct gb_event *event,
                  struct gb_capture_mode *saved)
{
    gb_capture_restore(event->api, saved);
    gb_lock_take(&events->lock);
    event->busy--;
    gb_lock_drop(&events->lock);
}

CUresult gb_event_wait_on(struct gb_events *events, struct gb_event *event, CUstream stream)
{
    struct gb_capture_mode saved;
    CUresult code;

    if (!enter(events, event, &saved))
        return CUDA_SUCCESS;
    code = event->api->cuStreamWaitEvent(stream, event->handle, 0);
    leave(events, event, &saved);
    return code;
}

bool gb_event_is_over(struct gb_events *events, struct gb_event *event)
{
    struct gb_capture_mode saved;
    bool over;

    if (!enter(events, event, &saved))
        return true;
    over = event->api->cuEventQuery(event->handle) == CUDA_SUCCESS;
    leave(events, event, &saved);
    return over;
}

CUresult gb_event_wait(struct gb_events *events, struct gb_event *event)
{
    struct gb_capture_mode saved;
    CUresult code;

    if (!enter(events, event, &saved))
        return CUDA_SUCCESS;
    code = event->api->cuEventSynchronize(event->handle);
    leave(events, event, &saved);
    return code;
}

static bool is_of(const struct gb_event *event, const struct gb_driver_api *api,
                  CUcontext context)
{
    return event->api == api && event->context == context && !event->ended;
}

/* With the lock held: does anybody call the driver with an event of that context? */
static bool any_busy(const struct gb_events *events, const struct gb_driver_api *api,
                     CUcontext context)
{
    const struct gb_event *event = events->used;

    while (event && !(event->busy && is_of(event, api, context)))
        event = event->next;
    return event != NULL;
}

static void set_closed(struct gb_events *events, const struct gb_driver_api *api,
                       CUcontext context, bool closed)
{
    struct gb_event *lists[] = {events->idle, events->used};

    for (int i = 0; i < 2; i++)
        for (struct gb_event *event = lists[i]; event; event = event->next)
            if (is_of(event, api, context))
                event->closed = closed;
}

void gb_events_context_close(struct gb_events *events, const struct gb_driver_api *api,
                             CUcontext context)
{
    gb_lock_take(&events->lock);
    set_closed(events, api, context, true);
    for (int turn = 0; turn < TURNS && any_busy(events, api, context); turn++) {
        gb_lock_drop(&events->lock);
        if (turn < YIELDS)
            sched_yield();
        else
            gb_nap(50000);
        gb_lock_take(&events->lock);
    }
    gb_lock_drop(&events->lock);
}

void gb_events_context_reopen(struct gb_events *events, const struct gb_driver_api *api,
                              CUcontext context)
{
    struct gb_event *event, *next;

    gb_lock_take(&events->lock);
    set_closed(events, api, context, false);
    for (event = events->used; event; event = next) {
        next = event->next;
        if (event->dropped && is_of(event, api, context))
            make_idle(events, event);
    }
    gb_lock_drop(&events->lock);
}

void gb_events_context_ended(struct gb_events *events, const struct gb_driver_api *api,
                             CUcontext context)
{
    struct gb_event *event, *next;

    gb_lock_take(&events->lock);
    /* Those that somebody still holds are his to drop. */
    for (event = events->used; event; event = next) {
        next = event->next;
        if (!is_of(event, api, context))
            continue;
        event->closed = event->ended = true;
        if (!event->dropped)
            continue;
        unlink_from(event);
        events->used_count--;
        free(event);
    }
    for (event = events->idle; event; event = next) {
        next = event->next;
        if (!is_of(event, api, context))
            continue;
        unlink_from(event);
        events->idle_count--;
        free(event);
    }
    gb_lock_drop(&events->lock);
}
