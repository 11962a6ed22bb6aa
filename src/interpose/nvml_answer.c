#include "interpose/nvml_answer.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "config/mps_limit.h"
#include "config/settings.h"
#include "config/visible.h"
#include "interpose/capacity.h"
#include "interpose/nvml_card.h"
#include "interpose/process.h"
#include "resource/lock.h"

/*
 * What CUDA will read when it begins, as it is at the first question: a program may change its
 * environment while other threads of it ask NVML. Never freed.
 */
static struct environment {
    bool is_read;
    bool on_the_bus; /* CUDA_DEVICE_ORDER */
    char *visible;   /* CUDA_VISIBLE_DEVICES, NULL: not set, or no memory */
    char *mps;       /* CUDA_MPS_PINNED_DEVICE_MEM_LIMIT */
} environment;
static struct gb_lock environment_lock = GB_LOCK_INIT;

static char *copy_of(const char *name)
{
    const char *value = getenv(name);

    return value ? strdup(value) : NULL;
}

static const struct environment *read_environment(void)
{
    const char *order;

    gb_lock_take(&environment_lock);
    if (!environment.is_read) {
        order = getenv("CUDA_DEVICE_ORDER");
        environment.on_the_bus = order && strcmp(order, "PCI_BUS_ID") == 0;
        environment.visible = copy_of("CUDA_VISIBLE_DEVICES");
        environment.mps = copy_of("CUDA_MPS_PINNED_DEVICE_MEM_LIMIT");
        environment.is_read = true;
    }
    gb_lock_drop(&environment_lock);
    return &environment;
}

static uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
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
static bool ordinal_by_list(const struct gb_nvml_copy *copy, gb_nvml_device device,
                            const struct gb_nvml_card *of, const char *uuid, uint32_t *ordinal)
{
    const struct environment *set = read_environment();
    struct gb_visible_card card = {.uuid = uuid};
    /* The index of an instance is one within its card. */
    bool in_order = !of->is_instance && copy->index &&
                    copy->index(device, &card.index) == GB_NVML_OK &&
                    gb_nvml_in_order(copy, set->on_the_bus);

    if (of->is_instance) {
        card.card_uuid = of->card_uuid;
        card.old_name = of->old_name;
    }
    return gb_visible_ordinal(set->visible, in_order, &card, ordinal);
}

/* A card that is divided is hidden: CUDA shows its instances. */
static enum gb_limit_answer limit_by_list(const struct gb_nvml_copy *copy,
                                          gb_nvml_device device, bool *is_hidden,
                                          struct gb_device_identity *identity, uint64_t *limit)
{
    const struct gb_limit *list = &gb_settings()->limit;
    struct gb_nvml_card card;

    gb_nvml_card_of(copy, device, identity->uuid, &card);
    memcpy(identity->pci, card.pci, sizeof(identity->pci));
    *is_hidden = *is_hidden || card.is_divided;
    identity->ordinal = GB_VISIBLE_HIDDEN;
    if (*is_hidden || (!has_ordinals(list) && !read_environment()->mps) ||
        ordinal_by_list(copy, device, &card, identity->uuid, &identity->ordinal))
        return gb_limit_for_device(list, identity, limit);
    return gb_limit_smallest(list, identity, limit);
}

bool gb_nvml_answer(const struct gb_nvml_copy *copy, gb_nvml_device device,
                    struct gb_nvml_size *size)
{
    struct gb_device_identity identity;
    struct gb_device *ours = NULL;
    uint64_t limit, reserve;
    bool is_hidden = false;

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
        is_hidden = true;
        break;
    case GB_SEEN_NOTHING:
        break;
    }
    identity.total_bytes = size->total;
    if (limit_by_list(copy, device, &is_hidden, &identity, &limit) != GB_LIMIT_BYTES)
        return false;
    reserve = gb_settings_reserve(gb_settings(), limit, true);
    size->free = least(limit - reserve, size->free);
    if (!is_hidden)
        limit = least(limit, gb_mps_limit(read_environment()->mps, &identity));
    size->total = least(limit, size->total);
    size->free = least(size->free, size->total);
    return true;
}
