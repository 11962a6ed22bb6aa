/* The controls of standin.h that look at the ledger or hold streams. */
#include "standin.h"
#include "sim.h"

/* Before cuInit the ordinals are those of the physical cards. */
static struct sim_card *card_of(int device)
{
    if (device < 0 || device >= SIM_MAX_CARDS)
        return NULL;
    return sim_initialised() ? sim_card_of(device) : &sim_cards[device];
}

/* What NVML attributes to this process. */
static uint64_t process_bytes(const struct sim_card *card)
{
    uint64_t shown =
        sim_settings.imports_shown ? sim_brought_bytes(card) : sim_ipc_inherited_bytes(card);
    return card->live - card->use[SIM_USE_MANAGED] - card->use[SIM_USE_SHARED] -
           sim_orphaned_bytes(card) + shown + sim_inherited_bytes(card);
}

#define FIGURE(name, expression)                                                               \
    uint64_t standin_##name(int device)                                                        \
    {                                                                                          \
        const struct sim_card *card;                                                           \
        uint64_t bytes = 0;                                                                    \
        sim_lock();                                                                            \
        sim_progress();                                                                        \
        card = card_of(device);                                                                \
        if (card)                                                                              \
            bytes = (expression);                                                              \
        sim_unlock();                                                                          \
        return bytes;                                                                          \
    }

FIGURE(live_bytes, card->live)
FIGURE(peak_bytes, card->peak)
FIGURE(context_bytes, card->use[SIM_USE_CONTEXT])
FIGURE(direct_bytes, card->use[SIM_USE_DIRECT])
FIGURE(process_bytes, process_bytes(card))
FIGURE(handle_bytes, card->use[SIM_USE_HANDLE])
FIGURE(orphaned_bytes, sim_orphaned_bytes(card))
FIGURE(array_bytes, card->use[SIM_USE_ARRAY])
FIGURE(module_bytes, card->use[SIM_USE_MODULE])
FIGURE(local_bytes, card->use[SIM_USE_LOCAL])
FIGURE(limit_bytes, card->use[SIM_USE_LIMIT])
FIGURE(stream_bytes, card->use[SIM_USE_STREAM])
FIGURE(green_bytes, card->use[SIM_USE_GREEN])
FIGURE(graph_bytes, card->use[SIM_USE_GRAPH])
FIGURE(managed_bytes, card->use[SIM_USE_MANAGED])
FIGURE(shared_bytes, card->use[SIM_USE_SHARED])
FIGURE(pool_reserved, card->use[SIM_USE_POOL])
FIGURE(pool_used, card->used_by_pools)
FIGURE(pending_bytes, card->pending)
FIGURE(real_live_blocks, card->blocks)
FIGURE(total_bytes, sim_initialised() ? card->total : sim_settings.memory)
FIGURE(free_bytes, sim_initialised() ? sim_card_free(card) : 0)

void standin_reset_peak(int device)
{
    struct sim_card *card;
    sim_lock();
    card = card_of(device);
    if (card)
        card->peak = card->live;
    sim_unlock();
}

void standin_set_other(int device, uint64_t bytes)
{
    struct sim_card *card;
    sim_lock();
    card = card_of(device);
    if (card)
        card->other = bytes;
    sim_unlock();
}

static bool same_name(const char *wanted, const char *name)
{
    size_t length = strlen(wanted);
    if (length && wanted[length - 1] == '*')
        return strncmp(wanted, name, length - 1) == 0;
    return strcmp(wanted, name) == 0;
}

unsigned long standin_calls(const char *name)
{
    unsigned long count = 0;
    sim_lock();
    for (struct sim_call *call = sim_calls(); call; call = call->next)
        if (same_name(name, call->name))
            count += call->count;
    sim_unlock();
    return count;
}

void standin_reset_counts(void)
{
    sim_lock();
    for (struct sim_call *call = sim_calls(); call; call = call->next) {
        call->count = 0;
        call->arg_bytes = 0;
    }
    sim_unlock();
}

size_t standin_last_args(const char *name, void *buffer, size_t size)
{
    size_t bytes = 0;
    sim_lock();
    for (struct sim_call *call = sim_calls(); call; call = call->next)
        if (strcmp(name, call->name) == 0) {
            bytes = call->arg_bytes;
            memcpy(buffer, call->args, bytes < size ? bytes : size);
        }
    sim_unlock();
    return bytes;
}

int standin_hold(void *handle)
{
    struct sim_stream *stream;
    CUresult code;
    sim_lock();
    code = sim_stream_find(handle, false, &stream);
    if (!code) {
        stream->held = true;
        stream->allowance = 0;
        sim_active_add(stream);
    }
    sim_unlock();
    return code;
}

int standin_release(void *handle)
{
    struct sim_stream *stream;
    CUresult code;
    sim_lock();
    code = sim_stream_find(handle, false, &stream);
    if (!code) {
        stream->held = false;
        sim_progress();
    }
    sim_unlock();
    return code;
}

int standin_run(void *handle, unsigned long n)
{
    struct sim_stream *stream;
    CUresult code;
    sim_lock();
    code = sim_stream_find(handle, false, &stream);
    if (!code) {
        stream->allowance += n;
        sim_progress();
    }
    sim_unlock();
    return code;
}

unsigned long standin_queued(void *handle)
{
    struct sim_stream *stream;
    unsigned long count = 0;
    sim_lock();
    sim_progress();
    if (sim_stream_find(handle, false, &stream) == CUDA_SUCCESS)
        count = stream->asked - stream->done;
    sim_unlock();
    return count;
}

void standin_set_fabric(int now)
{
    sim_lock();
    sim_fabric = now != 0;
    sim_unlock();
}

void standin_set_code_bytes(uint64_t bytes)
{
    sim_lock();
    sim_code_bytes = bytes;
    sim_unlock();
}

static bool nvml_zero;

void standin_set_nvml_zero(int now)
{
    sim_lock();
    nvml_zero = now;
    sim_unlock();
}

int standin_nvml_view(struct standin_view *view)
{
    if (!view || view->size != sizeof(*view))
        return 1;
    sim_lock();
    sim_orphans_settle();
    view->cards = sim_settings.cards;
    for (int i = 0; i < SIM_MAX_CARDS; i++) {
        const struct sim_card *card = &sim_cards[i];
        view->card[i].live_bytes = card->live;
        view->card[i].instance = card->instance;
        view->card[i].has_context = card->use[SIM_USE_CONTEXT] != 0;
        /* A process with no context is not shown (measured with physical memory). */
        view->card[i].process_bytes =
            view->card[i].has_context && !nvml_zero ? process_bytes(card) : 0;
        view->card[i].other_bytes =
            sim_initialised() || card->other ? card->other : sim_settings.other;
    }
    sim_unlock();
    return 0;
}
