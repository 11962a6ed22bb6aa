/*
 * call.c: from a handler's request to the driver's answer, or the budget's.
 */
#include "interpose/call.h"

#include <stdatomic.h>

#include "report/message.h"

static struct gb_message_device shown(const struct gb_device *device)
{
    return (struct gb_message_device){.ordinal = device->ordinal,
                                      .uuid = device->identity.uuid};
}

static void say_refused(const struct gb_call *call, const gpubudget_request_t *request,
                        const gpubudget_error_t *error)
{
    const struct gb_contexts *contexts = &call->device->backend.contexts;
    uint64_t context = atomic_load(&contexts->charged);

    if (request->kind == GPUBUDGET_KIND_CONTEXT) {
        uint64_t size = atomic_load(&contexts->learned);
        const struct gb_message_context refusal = {
            .device = shown(call->device),
            .call = call->name,
            .context = size,
            .used = error->current,
            .limit = error->limit,
            .smallest = error->current + size + call->device->reserve + GB_REGION_BYTES};

        gb_message_context_refused(gb_settings(), &refusal);
        return;
    }
    gb_message_refused(gb_settings(),
                       &(const struct gb_message_refusal){
                           .device = shown(call->device),
                           .call = call->name,
                           .asked = request->bytes,
                           .used = error->current,
                           .limit = error->limit,
                           .breakdown = true,
                           .program = error->current > context ? error->current - context : 0,
                           .context = context,
                           .other = 0,
                           .managed = request->kind == GPUBUDGET_KIND_MANAGED});
}

/*
 * The driver is out of memory while the budget has room. Of the card only what a call that is
 * safe everywhere tells (cuMemGetInfo, also during a capture), and only where the context that
 * is current is the device's.
 */
static void say_card_full(const struct gb_call *call, const gpubudget_request_t *request)
{
    const struct gb_driver_api *api = &call->drv->api;
    struct gb_message_card_full full = {.device = shown(call->device),
                                        .asked = request->bytes,
                                        .budget_left =
                                            gpubudget_budget_remaining(&call->device->budget)};
    uint64_t own = gpubudget_bytes_outstanding(&call->device->budget.resource);
    size_t free = 0, total = 0;
    CUdevice dev;

    if (api->cuCtxGetDevice(&dev) == CUDA_SUCCESS && dev == call->device->ordinal &&
        api->cuMemGetInfo_v2(&free, &total) == CUDA_SUCCESS) {
        full.card_known = true;
        full.card_free = free;
        full.others = total > free + own ? total - free - own : 0;
    }
    gb_message_card_full(gb_settings(), &full);
}

CUresult gb_call_allocate(struct gb_call *call, gpubudget_request_t *request)
{
    gpubudget_block_t block;
    gpubudget_error_t error;

    request->driver = &call->drv->api;
    switch (gpubudget_materialize(&call->device->budget.resource, request, &block, &error)) {
    case GPUBUDGET_OK:
        call->answered = true;
        return CUDA_SUCCESS;
    case GPUBUDGET_DRIVER:
        call->answered = true;
        if (error.driver_code == CUDA_ERROR_OUT_OF_MEMORY)
            say_card_full(call, request);
        return error.driver_code;
    case GPUBUDGET_OUT_OF_BUDGET:
        say_refused(call, request, &error);
        return CUDA_ERROR_OUT_OF_MEMORY;
    default:
        /* No host memory for the bookkeeping: what is not recorded is not given out. */
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
}

bool gb_call_free(struct gb_driver *drv, CUdeviceptr pointer,
                  const gpubudget_release_t *release, CUresult *answer)
{
    struct gb_block tracked;
    struct gb_device *device;
    gpubudget_block_t block;
    gpubudget_error_t error;

    (void)drv;
    if (!gb_block_table_find(gb_process_blocks(), pointer, &tracked))
        return false;
    device = gb_process_device_at(tracked.device);
    if (!device)
        return false;
    block = (gpubudget_block_t){.id = {pointer, tracked.generation},
                                .bytes = tracked.charged,
                                .requested = tracked.requested,
                                .device = tracked.device,
                                .stream = tracked.stream,
                                .kind = tracked.kind,
                                .state = GPUBUDGET_BLOCK_LIVE};
    switch (gpubudget_deallocate(&device->budget.resource, &block, release, &error)) {
    case GPUBUDGET_OK:
        *answer = CUDA_SUCCESS;
        return true;
    case GPUBUDGET_DRIVER:
        *answer = error.driver_code;
        return true;
    default:
        /* Another thread freed it between the look and the call: the driver will say so. */
        return false;
    }
}
