/*
 * stream_order.c: which blocks a call of the program touches on which stream.
 */
#include "interpose/stream_order.h"

#include <stdlib.h>

#include "interpose/captures.h"
#include "interpose/substitute.h"
#include "report/message.h"
#include "resource/capture.h"

bool gb_order_begin(struct gb_order *order, struct gb_driver *drv, CUstream stream,
                    bool is_thread)
{
    order->drv = drv;
    order->on = (struct gb_stream_call){.stream = stream, .is_thread = is_thread};
    order->count = order->room = 0;
    order->more = NULL;
    order->devices = 0;
    order->lost = false;
    return !gb_block_table_is_new(gb_process_blocks()) &&
           !gb_process_capturing(drv, &order->on);
}

/* What the driver has around an address, where that is a block of ours. */
static bool find_around(struct gb_driver *drv, CUdeviceptr pointer, struct gb_block *found)
{
    const struct gb_driver_api *api = &drv->api;
    struct gb_capture_mode saved = {.switched = false};
    CUdeviceptr base = 0;
    size_t bytes = 0;
    CUresult code;

    if (!api->cuMemGetAddressRange_v2)
        return false;
    if (gb_captures_possible(drv))
        saved = gb_capture_relax(api);
    code = api->cuMemGetAddressRange_v2(&base, &bytes, pointer);
    gb_capture_restore(api, &saved);
    return code == CUDA_SUCCESS && base != pointer &&
           gb_block_table_find(gb_process_blocks(), base, found);
}

/* Where the next one goes; NULL without memory. */
static struct gb_touched *place(struct gb_order *order)
{
    size_t room = order->room > 0 ? order->room * 2 : (size_t)GB_ORDER_FIRST * 4;
    struct gb_touched *grown;

    if (order->room == 0 && order->count < GB_ORDER_FIRST)
        return &order->first[order->count];
    if (order->count < order->room)
        return &order->more[order->count];
    grown = realloc(order->more, room * sizeof(*grown));
    if (!grown)
        return NULL;
    for (size_t i = 0; order->room == 0 && i < order->count; i++)
        grown[i] = order->first[i];
    order->more = grown;
    order->room = room;
    return &order->more[order->count];
}

void gb_order_touch(struct gb_order *order, CUdeviceptr pointer)
{
    struct gb_block_table *blocks = gb_process_blocks();
    struct gb_touched *touched;
    struct gb_block found;

    if (!gb_block_table_may_hold(blocks, pointer))
        return;
    if (!gb_block_table_find(blocks, pointer, &found) &&
        !find_around(order->drv, pointer, &found))
        return;
    touched = place(order);
    if (!touched) {
        order->lost = true;
        return;
    }
    *touched = (struct gb_touched){{found.pointer, found.generation}, found.device};
    order->count++;
    order->devices |= UINT64_C(1) << found.device;
}

/* One event for the blocks of each device, as a rule of one. */
static void note(struct gb_order *order)
{
    const struct gb_touched *list = order->room > 0 ? order->more : order->first;
    struct gb_stream_key key =
        gb_stream_key(&order->drv->api, order->on.stream, order->on.is_thread);
    bool captures = gb_captures_possible(order->drv);
    gpubudget_status_t status;
    CUresult code;

    for (int i = 0; i < GB_DEVICES_MAX && order->devices >> i; i++) {
        struct gb_device *device = gb_process_device_at(i);

        if (!(order->devices >> i & 1) || !device)
            continue;
        status = gb_uses_note(gb_process_blocks(), &device->backend.events, list, order->count,
                              i, &key, captures, &code);
        if (status == GPUBUDGET_DRIVER)
            gb_message_order_failed((int)code);
        order->lost = order->lost || status == GPUBUDGET_OUT_OF_HOST_MEMORY;
    }
    if (order->lost)
        gb_message_order_failed(0);
}

CUresult gb_order_end(struct gb_order *order, CUresult code)
{
    if (code == CUDA_SUCCESS && (order->count > 0 || order->lost))
        note(order);
    free(order->more);
    return code;
}

void gb_order_start(const struct gb_driver *drv)
{
    if (gb_order_wanted() && gb_settings()->stream_order == GB_STREAM_ORDER_ALL &&
        !drv->api.cuFuncGetParamInfo)
        gb_message_order_copies();
}

bool gb_order_launches(const struct gb_driver *drv)
{
    return gb_settings()->stream_order == GB_STREAM_ORDER_ALL && gb_order_wanted() &&
           drv->api.cuFuncGetParamInfo;
}

struct gb_uses *gb_order_wait(struct gb_block *entry, const gpubudget_release_t *how)
{
    struct gb_uses *uses = entry->uses;
    struct gb_stream_key key;
    CUresult code;

    if (!uses)
        return NULL;
    if (how->ordered)
        key = gb_stream_key(entry->driver, how->stream, how->stream_is_thread);
    code = gb_backend_wait_for_uses(entry, how->ordered ? &key : NULL);
    if (code != CUDA_SUCCESS)
        gb_message_order_failed((int)code);
    entry->uses = NULL;
    return uses;
}

/* With the block's shard locked. */
static void give_back(struct gb_block *block, void *arg)
{
    struct gb_uses **uses = arg;

    if (block->uses)
        return; /* it is live again, and somebody was faster */
    block->uses = *uses;
    *uses = NULL;
}

void gb_order_waited(struct gb_uses *uses, gpubudget_block_id_t id, bool freed)
{
    if (uses && !freed)
        gb_block_table_with(gb_process_blocks(), id.pointer, id.generation, give_back, &uses);
    gb_uses_end(uses);
}

struct gb_block *gb_order_take_shadow(CUdeviceptr pointer)
{
    struct gb_block found;

    if (!atomic_load_explicit(&gb_process_blocks()->shadows, memory_order_relaxed) ||
        !gb_block_table_find(gb_process_blocks(), pointer, &found) ||
        !gb_order_is_shadow(&found))
        return NULL;
    return gb_block_table_take(gb_process_blocks(), pointer, found.generation);
}

void gb_order_shadow_freed(struct gb_block *shadow, struct gb_uses *uses, bool freed)
{
    if (!shadow)
        return;
    if (!freed) {
        shadow->uses = uses;
        gb_block_table_insert(gb_process_blocks(), shadow);
        return;
    }
    gb_uses_end(uses);
    gb_block_free(shadow);
}
