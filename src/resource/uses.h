/*
 * uses.h: which streams still use a block.
 */
#ifndef GB_RESOURCE_USES_H
#define GB_RESOURCE_USES_H

#include <stdint.h>

#include "resource/block_table.h"
#include "resource/events.h"

/* Work of one stream that touches the block: all that the stream had been given when the event
 * was recorded. */
struct gb_use {
    struct gb_stream_key key;
    struct gb_event *event;
    uint64_t serial; /* of the block's uses, in the order they were noted */
    struct gb_use *next;
};

/*
 * The event list of a block; made with its first use. Invariants: changed with the block's
 * shard locked, or by the one thread that has taken the block out of the table; the reads are
 * younger than the write, one for each stream at most, since a stream's later event proves its
 * earlier ones.
 */
struct gb_uses {
    struct gb_events *events;
    struct gb_use *write; /* the last one */
    struct gb_use *reads;
    unsigned read_count;
    unsigned trim_at; /* so many reads: those that are over are looked for */
    uint64_t serial;
};

/*
 * Before work of the stream: makes it wait for the last write and, where it writes itself, for
 * all reads since. What the same stream has done it need not wait for. USE_AFTER_FREE: no such
 * block; STREAM_MISUSE: the stream captures; DRIVER with *code. A failure changes nothing.
 */
gpubudget_status_t gb_uses_prepare(struct gb_block_table *table, gpubudget_block_id_t id,
                                   const struct gb_stream_key *key, gpubudget_access_t access,
                                   CUresult *code);

/*
 * After work of the stream: notes it. A read stands beside the others, a write replaces all. As
 * above, and OUT_OF_HOST_MEMORY.
 */
gpubudget_status_t gb_uses_finish(struct gb_block_table *table, struct gb_events *events,
                                  gpubudget_block_id_t id, const struct gb_stream_key *key,
                                  gpubudget_access_t access, CUresult *code);

/*
 * The same as reads of one call of the stream that touches several blocks: all share one event.
 * Of `touched` those on the device count. Blocks that are gone meanwhile are passed over; what
 * there is no host memory for is not noted, and OUT_OF_HOST_MEMORY says that there is such.
 * captures: as in gb_events_record.
 */
struct gb_touched {
    gpubudget_block_id_t id;
    int device;
};
gpubudget_status_t gb_uses_note(struct gb_block_table *table, struct gb_events *events,
                                const struct gb_touched *touched, size_t count, int device,
                                const struct gb_stream_key *key, bool captures, CUresult *code);

/*
 * A new block that is not in the table yet: its memory is there when its stream gets so far, so
 * that is the first write.
 */
gpubudget_status_t gb_uses_seed(struct gb_block *block, struct gb_events *events,
                                const struct gb_stream_key *key, CUresult *code);

/* For a block out of the table: the stream, or (key NULL) the host, waits for all its uses. */
CUresult gb_uses_wait(const struct gb_uses *uses, const struct gb_stream_key *key);

/* Forgets them; NULL is none. */
void gb_uses_end(struct gb_uses *uses);

#endif
