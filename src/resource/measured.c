/*
 * measured.c: calls that take memory which the driver does not tell the size of: modules,
 * streams, limits, green contexts. What they took is what `other` rose by; where nothing tells
 * that, an estimate by what the card lost meanwhile (estimates.h).
 */
#include "resource/backend.h"

#include <stdatomic.h>

#include "resource/budget.h"
#include "resource/nap.h"
#include "resource/resource.h"

/* While others allocate a look may miss some: so often it is tried, and so long in between. */
enum { LOOKS = 4, NAP_NS = 50000 };

/* No growth step of streams is larger, by far. */
#define STREAM_MOST (UINT64_C(16) << 20)

/* As an estimate where neighbours are restless: more than a stream takes, one with another. */
#define STREAM_USUAL (UINT64_C(1) << 20)

/* And the most that such a call is believed to have taken which cannot be undone. */
#define USE_MOST (UINT64_C(64) << 20)

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
    /* Nor can what a device took stay out of its multicast object again. */
    if (kind_of(request->tag) == GB_MEASURED_MULTICAST)
        return learned;
    return 0;
}

/* After a call that may have taken something: how much more `other` has risen by in all than
 * before it, whoever looked first, and whatever else has gone meanwhile. */
static uint64_t look(struct gb_backend *backend, uint64_t own, uint64_t before)
{
    for (int i = 0; i < LOOKS; i++) {
        if (i > 0)
            gb_nap(NAP_NS);
        gb_other_look(backend, own);
        if (gb_other_is_settled(backend))
            break;
    }
    return atomic_load(&backend->other.risen) - before;
}

/*
 * What may be anything and can be undone is judged with what a look may have missed. exact: of
 * `other` before the call. Where that was too much, what the call took hides in it, and does
 * not show as a rise.
 */
static bool is_doubtful(struct gb_backend *backend, const gpubudget_request_t *request,
                        bool exact)
{
    return request->bytes == 0 && gb_other_tells(backend) &&
           !(exact && gb_other_is_settled(backend)) &&
           (request->tag == GB_MEASURED_MODULE || request->tag == GB_MEASURED_GREEN ||
            request->tag == GB_MEASURED_GRAPH || request->tag == GB_MEASURED_LIMIT ||
            request->tag == GB_MEASURED_PEER);
}

/* Stays with its context when the object is gone, or belongs to no object. */
static bool stays_with_context(enum gb_measured which)
{
    return which == GB_MEASURED_STREAM || which == GB_MEASURED_LIMIT ||
           which == GB_MEASURED_LOCAL;
}

static struct gb_estimate_key key_of(enum gb_measured which, uint64_t handle, CUcontext context)
{
    /* What a library brings goes with it. */
    if (which == GB_MEASURED_LIBRARY)
        which = GB_MEASURED_MODULE;
    if (stays_with_context(which))
        handle = (uint64_t)(uintptr_t)context;
    return (struct gb_estimate_key){which, handle};
}

/* Charges it to the object, or to the current context. */
static void note(struct gb_backend *backend, const struct gb_driver_api *api,
                 enum gb_measured which, uint64_t handle, int64_t change)
{
    CUcontext context = NULL;
    struct gb_estimate_key key;

    if (api->cuCtxGetCurrent(&context) != CUDA_SUCCESS)
        context = NULL;
    key = key_of(which, handle, context);
    /* A green context or a multicast object is no part of the one that is current. */
    if (which == GB_MEASURED_GREEN || which == GB_MEASURED_MULTICAST)
        context = NULL;
    gb_estimates_change(&backend->estimates, key.kind, key.handle, context,
                        gb_block_table_generation(backend->table), change);
}

/*
 * What is to be charged for a call while which the card lost so much. calm: it rested before
 * and after. Else the loss says little, and what such a call takes one time with another holds.
 * Where it is known what the call takes at least, or at most, that holds in any case.
 */
static int64_t judge(struct gb_backend *backend, const gpubudget_request_t *request,
                     int64_t lost, bool calm)
{
    enum gb_measured which = kind_of(request->tag);
    int64_t least = 0, most = INT64_MAX;

    if (request->bytes > 0) {
        /* The nodes of a graph may all find room. */
        if (which != GB_MEASURED_GRAPH)
            least =
                (int64_t)(which == GB_MEASURED_ARRAY ? gb_measured_bound(backend, request, true)
                                                     : request->bytes);
        if (request->most_bytes < INT64_MAX)
            most = (int64_t)request->most_bytes;
        /* Rounded as direct memory is: the best guess where nothing can be seen. */
        if (!calm && lost < (int64_t)gb_round_up(request->bytes, GB_DIRECT_STEP_BYTES))
            lost = (int64_t)gb_round_up(request->bytes, GB_DIRECT_STEP_BYTES);
    } else if (which == GB_MEASURED_STREAM) {
        most = STREAM_MOST;
        if (!calm)
            lost = STREAM_USUAL;
    } else if (!calm) {
        int64_t learned = (int64_t)atomic_load(&backend->learned[which]);

        if (lost < learned)
            lost = learned;
    }
    /* A limit may be lowered. */
    if (which == GB_MEASURED_LIMIT && calm)
        return lost;
    if (lost < least)
        lost = least;
    return lost < most ? lost : most;
}

/* Can the call be made a second time? A stream's memory stays, a launch has run. */
static bool can_repeat(enum gb_measured which)
{
    return which == GB_MEASURED_MODULE || which == GB_MEASURED_GREEN ||
           which == GB_MEASURED_LIMIT || which == GB_MEASURED_PEER;
}

/* One sample more, if it is any better: of several, the least that makes sense. */
static void better(int64_t *lost, int64_t sample)
{
    if (sample >= 0 && (*lost < 0 || sample < *lost))
        *lost = sample;
}

/*
 * A loss that would have the call refused, or that makes no sense, may be a neighbour's doing:
 * before it is believed the call is undone, which it would be anyway, and made once more. So a
 * neighbour that takes or gives back much just then does no harm. A code that is not success:
 * the driver has refused the second time.
 */
static CUresult confirm(struct gb_backend *backend, const struct gb_driver_api *api,
                        gpubudget_request_t *request, CUdeviceptr *handle, int64_t *lost,
                        bool *calm)
{
    const struct gpubudget_budget *budget = backend->other.budget;
    struct gb_card before;
    int64_t sample;
    size_t bytes = 0;
    bool rested = false;
    CUresult code;

    if (!can_repeat(kind_of(request->tag)) ||
        (*lost >= 0 &&
         (!budget || budget->report_only || gb_budget_has_room(budget, (uint64_t)*lost))))
        return CUDA_SUCCESS;
    gb_card_before(backend, api, request->in_flight, true, &before);
    if (request->undo(request->arg, *handle) != CUDA_SUCCESS)
        return CUDA_SUCCESS; /* it stays as it is */
    if (gb_card_after(backend, api, request->in_flight, &before, &sample, &rested) && rested)
        better(lost, -sample);
    gb_card_before(backend, api, request->in_flight, true, &before);
    code = request->acquire(request->arg, handle, &bytes);
    request->driver_code = code;
    rested = false;
    if (code == CUDA_SUCCESS &&
        gb_card_after(backend, api, request->in_flight, &before, &sample, &rested) && rested)
        better(lost, sample);
    *calm = *calm && rested;
    return code;
}

/* Nothing tells: charged by what the card lost. */
static CUresult estimate(struct gb_backend *backend, const struct gb_driver_api *api,
                         gpubudget_request_t *request, const struct gb_card *before,
                         CUdeviceptr *handle)
{
    enum gb_measured which = kind_of(request->tag);
    int64_t lost = 0, change;
    bool calm = false;
    CUresult code;

    if (!gb_card_after(backend, api, request->in_flight, before, &lost, &calm))
        lost = 0;
    code = confirm(backend, api, request, handle, &lost, &calm);
    if (code != CUDA_SUCCESS)
        return code;
    change = judge(backend, request, lost, calm);
    if (change > 0) {
        request->charged = (uint64_t)change;
        if (request->bytes == 0 && calm)
            atomic_store(&backend->learned[which], request->charged);
    }
    request->guessed = !calm;
    note(backend, api, which, *handle, change);
    return CUDA_SUCCESS;
}

void gb_measured_note(struct gb_backend *backend, const struct gb_driver_api *api,
                      const struct gb_card *before, enum gb_measured which, uint64_t handle)
{
    int64_t lost;
    bool calm;

    if (!atomic_load(&backend->other.blind) ||
        !gb_card_after(backend, api, 0, before, &lost, &calm) || lost <= 0)
        return;
    if (!calm && lost > (int64_t)USE_MOST)
        lost = USE_MOST;
    note(backend, api, which, handle, lost);
    if (backend->other.budget)
        gb_budget_note_overshoot(backend->other.budget);
}

static gpubudget_status_t materialize(struct gb_backend *backend, gpubudget_request_t *request,
                                      gpubudget_block_t *block, gpubudget_error_t *error)
{
    const struct gb_driver_api *api = gb_backend_api(backend, request);
    struct gb_other *other = &backend->other;
    const bool alone = atomic_load(&backend->inherited.taking) <= 1;
    struct gb_card before;
    uint64_t risen;
    bool exact;
    CUdeviceptr handle = 0;
    size_t bytes = 0;
    CUresult code;

    if (!request->acquire || !request->undo)
        return gb_fail(error, GPUBUDGET_INVALID_ARGUMENT);
    risen = atomic_load(&other->risen);
    exact = gb_other_is_exact(backend);
    gb_card_before(backend, api, request->in_flight, atomic_load(&other->blind), &before);
    code = request->acquire(request->arg, &handle, &bytes);
    request->driver_code = code;
    if (code != CUDA_SUCCESS)
        return gb_fail_driver(error, code);
    request->charged = 0;
    request->doubtful = request->guessed = false;
    /* Nothing taken where the card rests; else it may be another thread's doing, or a
     * neighbour's, and is looked at. */
    if (atomic_load(&other->blind) || !gb_card_rests(backend, api, &before)) {
        request->charged = look(backend, request->in_flight, risen);
        request->doubtful = is_doubtful(backend, request, exact);
        /* Another measured call sees what this one takes, and this one what that does. */
        request->guessed = !gb_other_is_settled(backend) || !alone ||
                           atomic_load(&backend->inherited.taking) > 1;
        if (!gb_other_tells(backend)) {
            code = estimate(backend, api, request, &before, &handle);
            if (code != CUDA_SUCCESS)
                return gb_fail_driver(error, code);
        } else if (request->charged > 0 && request->bytes == 0) {
            atomic_store(&backend->learned[kind_of(request->tag)], request->charged);
        }
    }
    *block = (gpubudget_block_t){.id = {handle, 0},
                                 .bytes = request->charged,
                                 .device = backend->options.device,
                                 .tag = request->tag,
                                 .kind = GPUBUDGET_KIND_MEASURED,
                                 .state = GPUBUDGET_BLOCK_LIVE};
    return GPUBUDGET_OK;
}

gpubudget_status_t gb_measured_materialize(struct gb_backend *backend,
                                           gpubudget_request_t *request,
                                           gpubudget_block_t *block, gpubudget_error_t *error)
{
    gpubudget_status_t status;

    /* What was inherited before is not to pass for what it takes, nor what it takes to be
     * thought inherited, whoever looks. */
    if (atomic_load(&backend->imported_unseen) > 0)
        gb_other_look(backend, request->in_flight);
    atomic_fetch_add(&backend->inherited.taking, 1);
    status = materialize(backend, request, block, error);
    atomic_fetch_sub(&backend->inherited.taking, 1);
    return status;
}

/* A limit that is put back, too; what a stream took stays. */
static void drop_estimate(struct gb_backend *backend, const gpubudget_block_t *block)
{
    enum gb_measured which = kind_of(block->tag);

    if (which == GB_MEASURED_LIMIT) {
        if (atomic_load(&backend->estimates.charged) > 0)
            note(backend, backend->options.api, which, 0, -(int64_t)block->bytes);
    } else if (!stays_with_context(which)) {
        gb_estimates_taken(&backend->estimates,
                           gb_estimates_take(&backend->estimates, which, block->id.pointer),
                           true);
    }
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
    drop_estimate(backend, block);
    gb_other_look(backend, 0);
    return GPUBUDGET_OK;
}
