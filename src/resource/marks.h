/*
 * marks.h: the driver's events that prove frees. For the thread that has made the entry BUSY;
 * no lock is held.
 */
#ifndef GB_RESOURCE_MARKS_H
#define GB_RESOURCE_MARKS_H

#include "resource/pending.h"

/* Records an event (made if it is NULL) on the entry's stream, now. On failure what it was
 * recorded for before still holds, unless the event is gone (NULL). */
bool gb_mark_record(const struct gb_pending_stream *stream, CUevent *event);

/* Has the stream reached the mark? An error counts as no. */
bool gb_mark_reached(const struct gb_pending_stream *stream, CUevent event);

/* Gives all events of the entry back to the driver, none of which is out. */
void gb_mark_destroy(struct gb_pending_stream *stream);

#endif
