/*
 * stream_order.h: GPUBUDGET_STREAM_ORDER: which blocks a call of the program touches on which
 * stream, so that a free in stream order waits for all of them.
 *
 * Every touch is noted as a read. Reads do not wait for each other, so a program's own streams
 * are never put in an order by us, which a correct program does not need and one whose streams
 * wait for each other may not survive: only the free waits. So there is nothing to prepare, and
 * a touch is finished with one event behind the call.
 */
#ifndef GB_INTERPOSE_STREAM_ORDER_H
#define GB_INTERPOSE_STREAM_ORDER_H

#include "interpose/process.h"
#include "resource/uses.h"

/* So many blocks of a call need no memory of their own. */
enum { GB_ORDER_FIRST = 16 };

/*
 * One call. The blocks are found before the driver is called, because an address that is freed
 * meanwhile may be another block's after it; they are noted when the driver has taken the work.
 */
struct gb_order {
    struct gb_driver *drv;
    struct gb_stream_call on;
    size_t count, room; /* room 0: they stand in `first` */
    struct gb_touched *more;
    uint64_t devices; /* a bit for each that has some of them */
    bool lost;        /* there was no host memory for some */
    struct gb_touched first[GB_ORDER_FIRST];
};

_Static_assert(GB_DEVICES_MAX <= 64, "a bit of a word for each device");

/* False: nothing is to be found out, because no block is known or the stream captures. */
bool gb_order_begin(struct gb_order *order, struct gb_driver *drv, CUstream stream,
                    bool is_thread);

/* The block at or around this address, if there is one. */
void gb_order_touch(struct gb_order *order, CUdeviceptr pointer);

/* After the driver's answer, which it returns. It belongs to every begin. */
CUresult gb_order_end(struct gb_order *order, CUresult code);

/* In cuInit: says where `all` can be no more than `copies`. */
void gb_order_start(const struct gb_driver *drv);

/* Are launches of this copy noted? */
bool gb_order_launches(const struct gb_driver *drv);

/*
 * Before a block is freed that the caller has taken out of the table: the stream of the free,
 * or the host where it is freed at once, waits for its uses. One load where there are none. A
 * failure is told, and the free is made all the same: so the uses are taken from the entry, and
 * given to gb_order_waited after the driver's answer. NULL: there are none.
 */
struct gb_uses *gb_order_wait(struct gb_block *entry, const gpubudget_release_t *how);
void gb_order_waited(struct gb_uses *uses, gpubudget_block_id_t id, bool freed);

/*
 * In footprint mode the budget needs no entry for a block of a pool: one that is there only for
 * its uses, or for its size near the limit, is a shadow, and frees of it are what they are
 * without it.
 */
static inline bool gb_order_is_shadow(const struct gb_block *entry)
{
    return entry->charged == 0 && entry->kind == GPUBUDGET_KIND_STREAM_ORDERED;
}

/* Takes the shadow at that address out of the table; NULL: there is none. */
struct gb_block *gb_order_take_shadow(CUdeviceptr pointer);

/* After the driver's free; NULL is nothing. */
void gb_order_shadow_freed(struct gb_block *shadow, struct gb_uses *uses, bool freed);

#endif
