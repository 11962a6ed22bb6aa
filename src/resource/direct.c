/*
 * direct.c: direct, pitched and managed memory.
 */
#include "resource/backend.h"

#include <stdatomic.h>

#include "resource/resource.h"

/* The charge of a direct, pitched or managed block of that many bytes; small ones go by region.
 */
static uint64_t charge_of(const struct gb_backend *backend, gpubudget_kind_t kind,
                          uint64_t bytes, bool *in_region)
{
    *in_region = false;
    if (kind == GPUBUDGET_KIND_MANAGED) {
        if (!backend->options.charge_managed)
            return 0;
        return bytes;
    }
    if (backend->options.charge == GPUBUDGET_CHARGE_REQUESTED)
        return bytes;
    /* Nothing measures; a handle is no address that could tell its region. */
    if (kind == GPUBUDGET_KIND_ARRAY)
        return gb_round_up(bytes, GB_DIRECT_STEP_BYTES);
    if (bytes > GB_SMALL_BLOCK_BYTES)
        return gb_round_up(bytes, GB_DIRECT_STEP_BYTES);
    *in_region = true;
    return 0;
}

static bool managed_once_due(struct gb_backend *backend)
{
    return backend->options.charge == GPUBUDGET_CHARGE_FOOTPRINT &&
           backend->options.charge_managed && !atomic_load(&backend->managed_once);
}

uint64_t gb_direct_bound(struct gb_backend *backend, const gpubudget_request_t *request,
                         bool least)
{
    uint64_t bytes = request->bytes;
    bool in_region;
    uint64_t charge;

    /* bytes of pitched memory are width x height, and the driver pads each row. */
    if (!least && request->most_bytes > bytes)
        bytes = request->most_bytes;
    charge = charge_of(backend, request->kind, bytes, &in_region);
    if (in_region) {
        if (least && gb_regions_may_hold(&backend->regions, bytes))
            return 0;
        return GB_REGION_BYTES;
    }
    if (request->kind == GPUBUDGET_KIND_MANAGED && managed_once_due(backend))
        charge = gb_add_saturated(charge, GB_MANAGED_ONCE_BYTES);
    return charge;
}

static CUresult own_acquire(struct gb_backend *backend, gpubudget_request_t *request,
                            CUdeviceptr *pointer, size_t *bytes)
{
    const struct gb_driver_api *api = gb_backend_api(backend, request);

    *bytes = request->bytes;
    if (request->kind == GPUBUDGET_KIND_DIRECT)
        return api->cuMemAlloc_v2(pointer, request->bytes);
    if (request->kind == GPUBUDGET_KIND_MANAGED && api->cuMemAllocManaged)
        return api->cuMemAllocManaged(pointer, request->bytes, CU_MEM_ATTACH_GLOBAL);
    /* Pitched memory needs a shape, which only an acquire function has. */
    return CUDA_ERROR_INVALID_VALUE;
}

static CUresult undo(struct gb_backend *backend, gpubudget_request_t *request,
                     CUdeviceptr pointer)
{
    if (request->undo)
        return request->undo(request->arg, pointer);
    return gb_backend_api(backend, request)->cuMemFree_v2(pointer);
}

/* Charges an acquired block; false, and nothing charged, when there is no memory for it. */
static bool charge_block(struct gb_backend *backend, struct gb_block *entry, uint64_t *charged)
{
    unsigned regions = 0;

    *charged = charge_of(backend, entry->kind, entry->requested, &entry->in_region);
    entry->charged = *charged;
    if (entry->in_region) {
        if (!gb_regions_add(&backend->regions, entry->pointer, entry->requested, &regions))
            return false;
        *charged = regions * GB_REGION_BYTES;
    }
    if (entry->kind == GPUBUDGET_KIND_MANAGED) {
        bool expected = false;

        if (managed_once_due(backend) &&
            atomic_compare_exchange_strong(&backend->managed_once, &expected, true)) {
            /* Stays until the process ends: the driver does not give it back either. */
            *charged += GB_MANAGED_ONCE_BYTES;
        }
    }
    gb_ledger_acquire(&backend->ledger, *charged);
    /* After the ledger, as it goes before it: never more than stands there. */
    if (entry->kind == GPUBUDGET_KIND_MANAGED)
        atomic_fetch_add(&backend->managed, *charged);
    return true;
}

gpubudget_status_t gb_direct_materialize(struct gb_backend *backend,
                                         gpubudget_request_t *request, gpubudget_block_t *block,
                                         gpubudget_error_t *error)
{
    struct gb_block *entry = gb_block_new();
    CUdeviceptr pointer = 0;
    size_t bytes = request->bytes;
    CUresult code;

    /* All host memory is taken before the driver is called, so that what the driver grants can
     * be recorded. */
    if (!entry || !gb_regions_prepare(&backend->regions)) {
        gb_block_free(entry);
        return gb_fail(error, GPUBUDGET_OUT_OF_HOST_MEMORY);
    }
    code = request->acquire ? request->acquire(request->arg, &pointer, &bytes)
                            : own_acquire(backend, request, &pointer, &bytes);
    request->driver_code = code;
    if (code != CUDA_SUCCESS) {
        gb_block_free(entry);
        return gb_fail_driver(error, code);
    }
    entry->pointer = pointer;
    entry->requested = bytes;
    entry->tag = request->tag;
    entry->stream = request->stream;
    entry->context = request->context;
    entry->driver = gb_backend_api(backend, request);
    entry->kind = request->kind;
    entry->device = backend->options.device;
    if (!charge_block(backend, entry, &request->charged)) {
        if (undo(backend, request, pointer) == CUDA_SUCCESS) {
            gb_block_free(entry);
            return gb_fail(error, GPUBUDGET_OUT_OF_HOST_MEMORY);
        }
        /* Not to be given back and in no region: a whole one of its own, to be safe. */
        entry->in_region = false;
        entry->charged = request->charged = GB_REGION_BYTES;
        gb_ledger_acquire(&backend->ledger, entry->charged);
    }
    *block = (gpubudget_block_t){.id = {pointer, 0},
                                 .bytes = entry->charged,
                                 .requested = bytes,
                                 .device = entry->device,
                                 .stream = entry->stream,
                                 .tag = entry->tag,
                                 .kind = entry->kind,
                                 .state = GPUBUDGET_BLOCK_LIVE};
    /* Whatever the program does with the address from now on, the entry may go with it. */
    block->id.generation = gb_block_table_insert(backend->table, entry);
    return GPUBUDGET_OK;
}
