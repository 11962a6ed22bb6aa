/*
 * block_uses.c: the backend's operations about uses of blocks by streams.
 */
#include "resource/backend.h"
#include "resource/resource.h"
#include "resource/uses.h"

static gpubudget_status_t answer(gpubudget_error_t *error, gpubudget_status_t status,
                                 CUresult code)
{
    if (status == GPUBUDGET_OK)
        return status;
    return status == GPUBUDGET_DRIVER ? gb_fail_driver(error, code) : gb_fail(error, status);
}

bool gb_backend_tracks_uses(const gpubudget_resource_t *self)
{
    const struct gb_backend *backend = (const struct gb_backend *)self;

    return backend->options.track_uses && backend->options.api->cuStreamWaitEvent;
}

/* Can it be answered at all? Writes the stream's key. */
static gpubudget_status_t begin(const gpubudget_resource_t *self, gpubudget_access_t access,
                                CUstream stream, struct gb_stream_key *key)
{
    if (!gb_backend_tracks_uses(self))
        return GPUBUDGET_STREAM_MISUSE;
    if (access != GPUBUDGET_ACCESS_READ && access != GPUBUDGET_ACCESS_WRITE &&
        access != GPUBUDGET_ACCESS_READ_WRITE)
        return GPUBUDGET_INVALID_ARGUMENT;
    *key = gb_stream_key(((const struct gb_backend *)self)->options.api, stream, false);
    return GPUBUDGET_OK;
}

gpubudget_status_t gb_backend_prepare_use(gpubudget_resource_t *self, gpubudget_block_id_t id,
                                          CUstream stream, gpubudget_access_t access,
                                          gpubudget_error_t *error)
{
    struct gb_backend *backend = (struct gb_backend *)self;
    struct gb_stream_key key;
    gpubudget_status_t status = begin(self, access, stream, &key);
    CUresult code = CUDA_SUCCESS;

    if (status == GPUBUDGET_OK)
        status = gb_uses_prepare(backend->table, id, &key, access, &code);
    return answer(error, status, code);
}

gpubudget_status_t gb_backend_finish_use(gpubudget_resource_t *self, gpubudget_block_id_t id,
                                         CUstream stream, gpubudget_access_t access,
                                         gpubudget_error_t *error)
{
    struct gb_backend *backend = (struct gb_backend *)self;
    struct gb_stream_key key;
    gpubudget_status_t status = begin(self, access, stream, &key);
    CUresult code = CUDA_SUCCESS;

    if (status == GPUBUDGET_OK)
        status = gb_uses_finish(backend->table, &backend->events, id, &key, access, &code);
    return answer(error, status, code);
}

gpubudget_status_t gb_backend_record_use(gpubudget_resource_t *self,
                                         const gpubudget_block_t *block, CUstream stream,
                                         gpubudget_error_t *error)
{
    return gb_backend_finish_use(self, block->id, stream, GPUBUDGET_ACCESS_READ, error);
}

gpubudget_status_t gb_backend_seed_use(struct gb_backend *backend, struct gb_block *block,
                                       const struct gb_stream_key *key, CUresult *code)
{
    gpubudget_status_t status;

    if (!gb_backend_tracks_uses(&backend->resource))
        return GPUBUDGET_OK;
    status = gb_uses_seed(block, &backend->events, key, code);
    return status == GPUBUDGET_STREAM_MISUSE ? GPUBUDGET_OK : status;
}

CUresult gb_backend_wait_for_uses(const struct gb_block *block, const struct gb_stream_key *key)
{
    /* The driver frees direct memory at once only when all work is done. It does not look at
     * that where memory of a pool is freed at once. */
    if (!block->uses || (!key && block->kind != GPUBUDGET_KIND_STREAM_ORDERED))
        return CUDA_SUCCESS;
    return gb_uses_wait(block->uses, key);
}
