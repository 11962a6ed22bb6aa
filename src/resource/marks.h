/*
 * marks.h: the driver's events that prove frees. For the thread that has made the entry BUSY;
 * no lock is held.
 */
#ifndef GB_RESOURCE_MARKS_H
#define GB_RESOURCE_MARKS_H

#include "resource/pending.h"

/* Records the entry's event (made if need be) on its stream, now. On failure an earlier mark
 * still holds, unless the event is gone (NULL). */
bool gb_mark_record(struct gb_pending_stream *stream);

/* Has the stream reached the mark? An error counts as no. */
bool gb_mark_reached(const struct gb_pending_stream *stream);

/* Gives the event back to the driver. */
void gb_mark_destroy(struct gb_pending_stream *stream);

#endif
