/*
 * events.h: the driver's events that tell when the work of streams with blocks is done. Pooled:
 * an event that nothing waits for any more serves the next use.
 */
#ifndef GB_RESOURCE_EVENTS_H
#define GB_RESOURCE_EVENTS_H

#include <stdatomic.h>
#include <stdbool.h>

#include "driver/api.h"

#include "resource/lock.h"
#include "resource/pending.h"

/* So many wait for their next use; more are given back to the driver. */
enum { GB_EVENTS_IDLE = 256 };

/*
 * One recorded event. Invariants: with a reference it is in no list but `used` and is never
 * recorded again; without one it is idle, or waits (`dropped`) in `used` for its context to end
 * or not. `busy` threads are calling the driver with it: a context that has closed its events
 * waits for them before it ends, and its events are not handed to the driver any more.
 */
struct gb_event {
    CUevent handle;
    const struct gb_driver_api *api;
    CUcontext context; /* in which it lives; NULL: not known */
    _Atomic unsigned references;
    unsigned busy;
    bool closed; /* its context is being ended, or has */
    bool ended;
    bool dropped;
    struct gb_event *next, **link;
};

struct gb_events {
    struct gb_lock lock;
    struct gb_event *idle, *used;
    unsigned idle_count, used_count;
};

void gb_events_init(struct gb_events *events);

/* Forgets all; calls no driver. No other thread may use it. */
void gb_events_clear(struct gb_events *events);

/*
 * Records an event behind all work that the stream has now, and gives the caller a reference to
 * it. Fails with STREAM_MISUSE on a stream that captures, with DRIVER (and *code) or
 * OUT_OF_HOST_MEMORY; then nothing is kept. captures false: the caller knows that no stream
 * does, and the driver is not asked.
 */
gpubudget_status_t gb_events_record(struct gb_events *events, const struct gb_stream_key *key,
                                    bool captures, struct gb_event **event, CUresult *code);

/* Another reference, by somebody who knows that there is one. Takes no lock. */
static inline void gb_event_keep(struct gb_event *event)
{
    atomic_fetch_add(&event->references, 1);
}

void gb_event_drop(struct gb_events *events, struct gb_event *event);

/*
 * Makes the work that the stream gets from now on wait for the event; the host does not wait.
 * What was recorded in a context that is ending needs no waiting for: that ends with its work.
 */
CUresult gb_event_wait_on(struct gb_events *events, struct gb_event *event, CUstream stream);

/* Has the stream come so far? Also where its context has ended. */
bool gb_event_is_over(struct gb_events *events, struct gb_event *event);

/* The host waits. */
CUresult gb_event_wait(struct gb_events *events, struct gb_event *event);

/* As gb_pending_context_close and its two others, for the events of that context. */
void gb_events_context_close(struct gb_events *events, const struct gb_driver_api *api,
                             CUcontext context);
void gb_events_context_reopen(struct gb_events *events, const struct gb_driver_api *api,
                              CUcontext context);
void gb_events_context_ended(struct gb_events *events, const struct gb_driver_api *api,
                             CUcontext context);

#endif
