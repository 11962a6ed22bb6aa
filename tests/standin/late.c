/* Blocks that are no pool's and were freed in a stream: they are not given back when the stream
 * comes to the free, but when the host has synchronised with the stream after it. */
#include "sim.h"

static struct sim_block *late;

void sim_late_add(struct sim_block *block, struct sim_stream *stream)
{
    sim_queue_mark(stream);
    block->freeing = true;
    block->marks[0] = (struct sim_mark){.clock = stream->clock, .ticket = stream->asked};
    block->mark_count = 1;
    stream->clock->references++;
    block->late_next = late;
    late = block;
}

static void take(struct sim_block **at)
{
    struct sim_block *block = *at;
    *at = block->late_next;
    sim_clock_drop(block->marks[0].clock);
    block->mark_count = 0;
}

void sim_late_settle(void)
{
    struct sim_block **at = &late;
    while (*at) {
        struct sim_block *block = *at;
        if (!sim_mark_met(&block->marks[0])) {
            at = &block->late_next;
            continue;
        }
        take(at);
        sim_block_free(block);
    }
}

void sim_late_forget(const struct sim_context *context)
{
    struct sim_block **at = &late;
    while (*at)
        if ((*at)->context == context)
            take(at);
        else
            at = &(*at)->late_next;
}
