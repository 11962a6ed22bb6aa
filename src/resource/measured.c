/*
 * measured.c: calls that take memory which the driver does not tell the size of: modules,
 * streams, limits, green contexts. What they took is what `other` rose by.
 */
#include "resource/backend.h"

#include <stdatomic.h>

#include "resource/nap.h"
#include "resource/resource.h"

/* While others allocate a look may miss some: so often it is tried, and so long in between. */
enum { LOOKS = 4, NAP_NS = 50000 };

/* No growth step of streams is larger, by far. */
#define STREAM_MOST (UINT64_C(16) << 20)

static unsigned kind_of(uint64_t tag)
{
    return tag < GB_MEASURED_KINDS ? (unsigned)tag : GB_MEASURED_MODULE;
}

/*
 * Streams take memory in steps, every few of them; a module may take anything. Of an array its
 * size is known, less what a small one finds room for in a region that is there.
 */
uint64_t gb_measured_bound(struct gb_backend *backend, const gpubudget_request_t *request,
                           bool least)
{
    uint64_t learned;

    if (request->bytes > 0)
        return least ? request->bytes & ~(GB_DIRECT_STEP_BYTES - 1) : request->most_bytes;
    learned = atomic_load(&backend->learned[kind_of(request->tag)]);
    if (!least)
        return learned;
    /* What a stream took stays with its context when it is destroyed: it cannot be tried. What
     * is more than a stream's was something else's, that was found with it. */
    if (kind_of(request->tag) == GB_MEASURED_STREAM)
        return learned < STREAM_MOST ? learned : STREAM_MOST;
    return 0;
}

/* After a call that may have taken something: what `other` has risen by since it was `before`,
 * whoever looked first. */
static uint64_t look(struct gb_backend *backend, uint64_t own, uint64_t before)
{
    uint64_t rose = 0, after;

    for (int i = 0; i < LOOKS; i++) {
        if (i > 0)
            gb_nap(NAP_NS);
        rose += gb_other_look(backend, own);
        if (gb_other_is_settled(backend))
            break;
    }
    after = atomic_load(&backend->other.posted);
    return after > before && after - before > rose ? after - before : rose;
}

gpubudget_status_t gb_measured_materialize(struct gb_backend *backend,
                                           gpubudget_request_t *request,
                                           gpubudget_block_t *block, gpubudget_error_t *error)
{
    const struct gb_driver_api *api = gb_backend_api(backend, request);
    struct gb_hint before = {0, 0}, after = {0, 0};
    uint64_t posted;
    CUdeviceptr handle = 0;
    size_t bytes = 0;
    CUresult code;
    bool known;

    if (!request->acquire || !request->undo)
        return gb_fail(error, GPUBUDGET_INVALID_ARGUMENT);
    posted = atomic_load(&backend->other.posted);
    known = gb_other_hint(backend, api, &before);
    code = request->acquire(request->arg, &handle, &bytes);
    request->driver_code = code;
    if (code != CUDA_SUCCESS)
        return gb_fail_driver(error, code);
    known = known && gb_other_hint(backend, api, &after);
    request->charged = 0;
    /* Nothing taken where the card has exactly what it had; else it may be another thread's
     * doing, or a neighbour's, and is looked at. */
    if (!known || before.source != after.source || before.free != after.free) {
        request->charged = look(backend, request->in_flight, posted);
        if (request->charged > 0 && request->bytes == 0)
            atomic_store(&backend->learned[kind_of(request->tag)], request->charged);
    }
    *block = (gpubudget_block_t){.id = {handle, 0},
                                 .bytes = request->charged,
                                 .device = backend->options.device,
                                 .tag = request->tag,
                                 .kind = GPUBUDGET_KIND_MEASURED,
                                 .state = GPUBUDGET_BLOCK_LIVE};
    return GPUBUDGET_OK;
}

gpubudget_status_t gb_measured_deallocate(struct gb_backend *backend,
                                          const gpubudget_block_t *block,
                                          const gpubudget_release_t *release,
                                          gpubudget_error_t *error)
{
    CUresult code;

    /* Only its maker knows how. */
    if (!release || !release->release)
        return gb_fail(error, GPUBUDGET_INVALID_ARGUMENT);
    code = release->release(release->arg, block->id.pointer);
    if (code != CUDA_SUCCESS)
        return gb_fail_driver(error, code);
    gb_other_look(backend, 0);
    return GPUBUDGET_OK;
}
