#include "resource/apart.h"

#include "resource/capture.h"
#include "resource/enter.h"

/* Those that took memory on credit, and so are not counted, are done when nothing flies. */
static bool is_quiet(void *arg)
{
    const struct gb_backend *backend = arg;

    return gb_pools_are_quiet(&backend->pools);
}

/* False: there are too many pools, or one cannot be read now and perhaps afterwards. */
static bool read_all(struct gb_backend *backend, struct gb_asking *asking)
{
    asking->count = 0;
    for (struct gb_pool *pool = atomic_load(&backend->pools.all); pool; pool = pool->next) {
        uint64_t reserved;

        if (atomic_load(&pool->dead) || atomic_load(&pool->uncharged))
            continue;
        if (!gb_pool_reserved(pool, &reserved))
            return false;
        if (asking->count == GB_ASKING_POOLS)
            return false;
        asking->before[asking->count].pool = pool;
        asking->before[asking->count].handle = atomic_load(&pool->handle);
        asking->before[asking->count++].reserved = reserved;
    }
    return true;
}

/* A pool that was not known before has given out nothing before. */
static uint64_t before_of(const struct gb_asking *asking, const struct gb_pool *pool)
{
    for (unsigned i = 0; i < asking->count; i++)
        if (asking->before[i].pool == pool &&
            asking->before[i].handle == atomic_load(&pool->handle))
            return asking->before[i].reserved;
    return 0;
}

static bool has_grown(struct gb_backend *backend, const struct gb_asking *asking)
{
    for (struct gb_pool *pool = atomic_load(&backend->pools.all); pool; pool = pool->next) {
        uint64_t reserved;

        if (gb_pool_reserved(pool, &reserved) && reserved > before_of(asking, pool))
            return true;
    }
    return false;
}

void gb_asking_begins(struct gb_backend *backend, const gpubudget_request_t *request,
                      struct gb_asking *asking)
{
    asking->alone = false;
    if (!backend->pools.charged)
        return;
    if (!request->alone) {
        gb_sole_join(&backend->sole);
        return;
    }
    asking->alone = gb_sole_begin(&backend->sole, is_quiet, backend, &asking->mark) &&
                    read_all(backend, asking);
}

void gb_asking_ends(struct gb_backend *backend, gpubudget_request_t *request,
                    struct gb_asking *asking, bool granted)
{
    bool grew = false;

    request->grew = false;
    if (!backend->pools.charged)
        return;
    if (!request->alone) {
        gb_sole_leave(&backend->sole);
        return;
    }
    if (asking->alone && granted) {
        /* It may be one that nobody has seen yet. */
        if (!request->pool)
            gb_pools_current(&backend->pools, gb_backend_api(backend, request));
        grew = has_grown(backend, asking);
    }
    request->grew = gb_sole_end(&backend->sole, asking->mark) && grew;
}

/* Then a free on it is done at once, and another stream would take memory of the card, which
 * its context keeps. What others give it just now it may have to wait for, which is no harm. */
static bool is_idle(const struct gb_driver_api *api, const struct gb_stream_key *key)
{
    return api->cuStreamQuery && api->cuStreamQuery(key->stream) == CUDA_SUCCESS;
}

static enum gb_apart free_on(const struct gb_driver_api *api, CUstream stream,
                             CUdeviceptr pointer)
{
    if (api->cuMemFreeAsync(pointer, stream) != CUDA_SUCCESS)
        return GB_APART_NOT;
    return api->cuStreamSynchronize(stream) == CUDA_SUCCESS ? GB_APART_DONE : GB_APART_QUEUED;
}

enum gb_apart gb_apart_free(const struct gb_driver_api *api, const struct gb_stream_key *key,
                            CUdeviceptr pointer)
{
    enum gb_apart freed = GB_APART_NOT;
    struct gb_capture_mode saved;
    CUstream stream = NULL;
    bool pushed = false;

    if (!api->cuStreamCreate || !api->cuStreamDestroy_v2 || !api->cuStreamSynchronize ||
        !api->cuMemFreeAsync)
        return GB_APART_NOT;
    saved = gb_capture_relax(api);
    if ((!key->context || gb_enter(api, key->context, &pushed)) && !is_idle(api, key) &&
        api->cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING) == CUDA_SUCCESS) {
        freed = free_on(api, stream, pointer);
        api->cuStreamDestroy_v2(stream);
    }
    gb_leave(api, pushed);
    gb_capture_restore(api, &saved);
    return freed;
}
