#include "interpose/nvml_answer.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "config/mps_limit.h"
#include "config/settings.h"
#include "config/visible.h"
#include "interpose/capacity.h"
#include "interpose/process.h"

static const char mps_limit[] = "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT";

static uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* Are they all of one model? Then CUDA has no faster one to count first. */
static bool is_one_model(const struct gb_nvml_copy *copy)
{
    char first[GB_NVML_TEXT], name[GB_NVML_TEXT];
    gb_nvml_device device;
    unsigned int count;

    if (!copy->count || !copy->by_index || !copy->name || copy->count(&count) != GB_NVML_OK)
        return false;
    for (unsigned int i = 0; i < count; i++) {
        if (copy->by_index(i, &device) != GB_NVML_OK ||
            copy->name(device, i == 0 ? first : name, GB_NVML_TEXT) != GB_NVML_OK ||
            (i > 0 && strcmp(first, name) != 0))
            return false;
    }
    return true;
}

static bool counts_as_on_the_bus(const struct gb_nvml_copy *copy)
{
    const char *order = getenv("CUDA_DEVICE_ORDER");

    return (order && strcmp(order, "PCI_BUS_ID") == 0) || is_one_model(copy);
}

/* Does the list name devices by CUDA's numbers? */
static bool has_ordinals(const struct gb_limit *limit)
{
    for (uint32_t i = 0; i < limit->count; i++)
        if (limit->entries[i].key == GB_LIMIT_KEY_ORDINAL)
            return true;
    return false;
}

/* Without CUDA. */
static enum gb_limit_answer limit_by_list(const struct gb_nvml_copy *copy,
                                          gb_nvml_device device,
                                          struct gb_device_identity *identity, uint64_t *limit)
{
    const struct gb_limit *list = &gb_settings()->limit;
    struct gb_visible_card card = {.uuid = identity->uuid};
    struct gb_nvml_pci pci;
    bool known;

    if (copy->pci && copy->pci(device, &pci) == GB_NVML_OK)
        memcpy(identity->pci, pci.address, sizeof(pci.address) - 1);

    identity->ordinal = GB_VISIBLE_HIDDEN;
    if (!has_ordinals(list) && !getenv(mps_limit))
        return gb_limit_for_device(list, identity, limit);
    known = copy->index && copy->index(device, &card.index) == GB_NVML_OK &&
            gb_visible_ordinal(getenv("CUDA_VISIBLE_DEVICES"), counts_as_on_the_bus(copy),
                               &card, &identity->ordinal);
    return known ? gb_limit_for_device(list, identity, limit)
                 : gb_limit_smallest(list, identity, limit);
}

bool gb_nvml_answer(const struct gb_nvml_copy *copy, gb_nvml_device device,
                    struct gb_nvml_size *size)
{
    struct gb_device_identity identity;
    struct gb_device *ours = NULL;
    uint64_t limit, reserve, told;

    memset(&identity, 0, sizeof(identity));
    if (!copy->uuid || copy->uuid(device, identity.uuid, GB_LIMIT_NAME) != GB_NVML_OK)
        identity.uuid[0] = '\0';
    if (gb_process_by_uuid(identity.uuid, &ours)) {
        if (!ours)
            return false;
        size->total = gb_capacity_total(ours);
        size->free = gb_capacity_free(ours, size->free);
        return true;
    }
    identity.total_bytes = size->total;
    if (limit_by_list(copy, device, &identity, &limit) != GB_LIMIT_BYTES)
        return false;
    reserve = gb_settings_reserve(gb_settings(), limit, true);
    told = least(limit, gb_mps_limit(getenv(mps_limit), &identity));
    size->total = least(told, size->total);
    size->free = least(least(limit - reserve, told), size->free);
    return true;
}
