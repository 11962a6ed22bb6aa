#include "interpose/nvml_answer.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "config/mps_limit.h"
#include "config/settings.h"
#include "config/visible.h"
#include "interpose/capacity.h"
#include "interpose/fork.h"
#include "interpose/job_of.h"
#include "interpose/nvml_card.h"
#include "interpose/process.h"
#include "resource/resource.h"

/*
 * What CUDA will read when it begins, as it is at the process's first question: a program may
 * change its environment while other threads of it ask NVML. Never freed.
 */
struct environment {
    bool on_the_bus; /* CUDA_DEVICE_ORDER */
    bool is_refused; /* the same: of a value that keeps CUDA from starting */
    char *visible;   /* CUDA_VISIBLE_DEVICES, NULL: not set, or no memory */
    char *mps;       /* CUDA_MPS_PINNED_DEVICE_MEM_LIMIT */
    struct environment *before;
};

static _Atomic(struct environment *) environment;

static char *copy_of(const char *name)
{
    const char *value = getenv(name);

    return value ? strdup(value) : NULL;
}

static struct environment *forgotten; /* the parents', which stay where they are */

/* A child may set its own before its CUDA begins. */
static void forget_in_child(void)
{
    struct environment *set = atomic_exchange(&environment, NULL);

    if (!set)
        return;
    set->before = forgotten;
    forgotten = set;
}

static const struct environment *read_environment(void)
{
    static const struct environment none;
    struct environment *set = atomic_load(&environment), *made;
    const char *order;

    if (set)
        return set;
    made = calloc(1, sizeof(*made));
    if (!made)
        return &none;
    gb_fork_on_child(forget_in_child);
    gb_fork_register();
    order = getenv("CUDA_DEVICE_ORDER");
    made->on_the_bus = order && strcmp(order, "PCI_BUS_ID") == 0;
    made->is_refused = order && !made->on_the_bus && strcmp(order, "FASTEST_FIRST") != 0;
    made->visible = copy_of("CUDA_VISIBLE_DEVICES");
    made->mps = copy_of("CUDA_MPS_PINNED_DEVICE_MEM_LIMIT");
    if (atomic_compare_exchange_strong(&environment, &set, made))
        return made;
    free(made->visible);
    free(made->mps);
    free(made);
    return set;
}

static uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static uint64_t what_is_left(uint64_t of, uint64_t used)
{
    return used < of ? of - used : 0;
}

/* Does the list name devices by CUDA's numbers? */
static bool has_ordinals(const struct gb_limit *limit)
{
    for (uint32_t i = 0; i < limit->count; i++)
        if (limit->entries[i].key == GB_LIMIT_KEY_ORDINAL)
            return true;
    return false;
}

/* CUDA's number of a card before CUDA has begun; false: it may be any. */
static bool ordinal_by_list(const struct gb_nvml_copy *copy, const struct gb_nvml_card *of,
                            const char *uuid, uint32_t *ordinal)
{
    const struct environment *set = read_environment();
    struct gb_visible_card card = {.uuid = uuid};
    struct gb_visible_cards cards;

    if (of->is_instance) {
        card.card_uuid = of->card_uuid;
        card.old_name = of->old_name;
    }
    gb_nvml_cards(copy, set->on_the_bus, &cards);
    return gb_visible_ordinal(set->visible, &cards, &card, ordinal);
}

/* What CUDA makes of a card, as far as is known before it has begun. */
struct view {
    bool is_hidden;
    bool any_ordinal; /* its number may be any */
};

/* A card that is divided is hidden: CUDA shows its instances. */
static void view_of(const struct gb_nvml_copy *copy, gb_nvml_device device, struct view *view,
                    struct gb_device_identity *identity)
{
    const struct gb_settings *settings = gb_settings();
    bool by_number = has_ordinals(&settings->limit) || has_ordinals(&settings->job_limit) ||
                     read_environment()->mps;
    struct gb_nvml_card card;

    gb_nvml_card_of(copy, device, identity->uuid, &card);
    memcpy(identity->pci, card.pci, sizeof(identity->pci));
    view->is_hidden = view->is_hidden || card.is_divided || read_environment()->is_refused;
    identity->ordinal = GB_VISIBLE_HIDDEN;
    view->any_ordinal = !view->is_hidden && by_number &&
                        !ordinal_by_list(copy, &card, identity->uuid, &identity->ordinal);
}

/* NO_LIMIT: the list has none for the card. */
static uint64_t limit_by_list(const struct gb_limit *list, const struct view *view,
                              const struct gb_device_identity *identity)
{
    uint64_t limit;
    enum gb_limit_answer answer = view->any_ordinal
                                      ? gb_limit_smallest(list, identity, &limit)
                                      : gb_limit_for_device(list, identity, &limit);

    return answer == GB_LIMIT_BYTES ? limit : GB_BUDGET_NO_LIMIT;
}

/* A part of the card is one of what it really has, whatever others have made of the answer; and
 * the first form of the question counts what the driver keeps for itself. */
static uint64_t card_bytes(const struct gb_nvml_copy *copy, gb_nvml_device device,
                           uint64_t told)
{
    struct gb_nvml_memory_v2 memory = {.version = GB_NVML_MEMORY_V2};

    return copy->card_memory && copy->card_memory(device, &memory) == GB_NVML_OK
               ? gb_nvml_usable(&memory)
               : told;
}

bool gb_nvml_answer(const struct gb_nvml_copy *copy, gb_nvml_device device,
                    struct gb_nvml_size *size)
{
    struct gb_device_identity identity;
    struct gb_device *ours = NULL;
    struct gb_job_seen job;
    uint64_t limit, of_job;
    struct view view = {.is_hidden = false};

    /* The program may have no CUDA, and this be all that it learns of wrong settings. A card is
     * there: the driver has told of it. */
    gb_process_start();
    /* With settings that deny CUDA tells of the card, too. */
    if (gb_settings()->verdict != GB_VERDICT_LIMIT || !gb_capacity_is_limit())
        return false;
    memset(&identity, 0, sizeof(identity));
    if (copy->uuid(device, identity.uuid, GB_LIMIT_NAME) != GB_NVML_OK)
        identity.uuid[0] = '\0';
    switch (gb_process_by_uuid(identity.uuid, &ours)) {
    case GB_SEEN_UNLIMITED:
        return false;
    case GB_SEEN_LIMITED:
        size->total = gb_capacity_total(ours);
        size->free = least(gb_capacity_free(ours, size->free), size->total);
        return true;
    case GB_SEEN_NOT:
        view.is_hidden = true;
        break;
    case GB_SEEN_NOTHING:
        break;
    }
    identity.total_bytes = card_bytes(copy, device, size->total);
    size->total = least(size->total, identity.total_bytes);
    view_of(copy, device, &view, &identity);
    limit = limit_by_list(&gb_settings()->limit, &view, &identity);
    of_job = limit_by_list(&gb_settings()->job_limit, &view, &identity);
    /* This process holds nothing: what it is told is what its job has. */
    gb_job_of_look(gb_settings(), &identity, &job);
    of_job = least(of_job, job.limit);
    if (limit == GB_BUDGET_NO_LIMIT && of_job == GB_BUDGET_NO_LIMIT)
        return false;
    if (limit != GB_BUDGET_NO_LIMIT)
        size->free = least(
            size->free,
            what_is_left(limit, gb_add_saturated(job.used, gb_settings_reserve(gb_settings(),
                                                                               limit, true))));
    if (of_job != GB_BUDGET_NO_LIMIT)
        size->free = least(size->free, what_is_left(of_job, job.used));
    limit = least(limit, of_job);
    if (!view.is_hidden)
        limit =
            least(limit, gb_mps_limit(read_environment()->mps, &identity, view.any_ordinal));
    size->total = least(limit, size->total);
    size->free = least(size->free, size->total);
    return true;
}
