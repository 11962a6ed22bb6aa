#include "interpose/nvml_card.h"

#include <string.h>
#include <strings.h>

#include "report/line.h"

static bool is_divided(const struct gb_nvml_copy *copy, gb_nvml_device device)
{
    unsigned int now = 0, pending = 0;

    return copy->mig_mode && copy->mig_mode(device, &now, &pending) == GB_NVML_OK && now != 0;
}

static bool read_pci(const struct gb_nvml_copy *copy, gb_nvml_device device, char *text)
{
    struct gb_nvml_pci pci;

    if (!copy->pci || copy->pci(device, &pci) != GB_NVML_OK)
        return false;
    memcpy(text, pci.address, sizeof(pci.address) - 1);
    return true;
}

static void read_old_name(const struct gb_nvml_copy *copy, gb_nvml_device device,
                          struct gb_nvml_card *card)
{
    unsigned int gpu_instance, compute_instance;
    struct gb_line line;

    if (!copy->gpu_instance || copy->gpu_instance(device, &gpu_instance) != GB_NVML_OK ||
        !copy->compute_instance ||
        copy->compute_instance(device, &compute_instance) != GB_NVML_OK)
        return;
    gb_line_begin(&line, card->old_name, sizeof(card->old_name));
    gb_line_text(&line, "MIG-");
    gb_line_text(&line, card->card_uuid);
    gb_line_text(&line, "/");
    gb_line_number(&line, gpu_instance);
    gb_line_text(&line, "/");
    gb_line_number(&line, compute_instance);
}

void gb_nvml_card_of(const struct gb_nvml_copy *copy, gb_nvml_device device, const char *uuid,
                     struct gb_nvml_card *card)
{
    gb_nvml_device whole;

    memset(card, 0, sizeof(*card));
    card->is_instance = strncasecmp(uuid, "MIG-", 4) == 0;
    if (!card->is_instance) {
        card->is_divided = is_divided(copy, device);
        read_pci(copy, device, card->pci);
        return;
    }
    if (!copy->card_of || copy->card_of(device, &whole) != GB_NVML_OK) {
        read_pci(copy, device, card->pci);
        return;
    }
    read_pci(copy, whole, card->pci);
    if (copy->uuid(whole, card->card_uuid, GB_LIMIT_NAME) == GB_NVML_OK)
        read_old_name(copy, device, card);
    else
        card->card_uuid[0] = '\0';
}

void gb_nvml_cards(const struct gb_nvml_copy *copy, bool on_the_bus,
                   struct gb_visible_cards *cards)
{
    char first[GB_NVML_TEXT], name[GB_NVML_TEXT];
    bool are_alike = copy->name != NULL;
    gb_nvml_device device;
    unsigned int count;

    memset(cards, 0, sizeof(*cards));
    cards->is_one_by_one = true;
    if (!copy->count || !copy->by_index || copy->count(&count) != GB_NVML_OK ||
        count > GB_VISIBLE_MAX)
        return;
    for (unsigned int i = 0; i < count; i++) {
        if (copy->by_index(i, &device) != GB_NVML_OK ||
            copy->uuid(device, cards->uuids[i], GB_LIMIT_NAME) != GB_NVML_OK)
            return;
        cards->is_one_by_one = cards->is_one_by_one && !is_divided(copy, device);
        are_alike = are_alike &&
                    copy->name(device, i == 0 ? first : name, GB_NVML_TEXT) == GB_NVML_OK &&
                    (i == 0 || strcmp(first, name) == 0);
    }
    cards->is_in_order = on_the_bus || are_alike;
    cards->count = count;
}
