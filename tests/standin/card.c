/* The cards and the physical memory of each. */
#include "sim.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

struct sim_settings sim_settings;
struct sim_card sim_cards[SIM_MAX_CARDS];
int sim_visible_count;

static struct sim_card *visible[SIM_MAX_CARDS];
static int first; /* the card that CUDA counts first */

static void make_visible(int index, int instance)
{
    struct sim_card *card = &sim_cards[index];
    card->ordinal = sim_visible_count;
    card->instance = instance;
    card->total = sim_instance_bytes(&sim_settings, index, instance);
    visible[sim_visible_count++] = card;
}

/* CUDA_DEVICE_ORDER, read like CUDA_VISIBLE_DEVICES when the driver begins: the fastest card
 * first and the others as on the bus, or all as on the bus. NVML knows only the bus. */
static void read_order(void)
{
    const char *order = getenv("CUDA_DEVICE_ORDER"), *fastest = getenv("GPUSTANDIN_FASTEST");

    first = fastest && !(order && strcmp(order, "PCI_BUS_ID") == 0) ? atoi(fastest) : 0;
    if (first < 0 || first >= sim_settings.cards)
        first = 0;
}

static int in_order(int place)
{
    if (place == 0)
        return first;
    return place <= first ? place - 1 : place;
}

static bool begins_with(const char *name, const char *text, size_t length)
{
    return strncasecmp(text, name, length) == 0;
}

/* The card, or -1: none, or more than one. A card that is divided stands for its first
 * instance.
 */
static int find_card(const char *text, size_t length, int *instance)
{
    int found = -1;
    for (int i = 0; i < sim_settings.cards; i++) {
        char uuid[41];
        sim_card_uuid_text(i, uuid);
        if (!begins_with(uuid, text, length))
            continue;
        if (found >= 0)
            return -1;
        found = i;
        *instance = sim_settings.mig[i].count > 0;
    }
    return found;
}

/* By its own UUID, which may be shortened, or by the old name, which may not. */
static int find_instance(const char *text, size_t length, int *instance)
{
    bool is_old = length >= 8 && strncasecmp(text, "MIG-GPU-", 8) == 0;
    int found = -1;
    for (int i = 0; i < sim_settings.cards; i++)
        for (int k = 1; k <= sim_settings.mig[i].count; k++) {
            char name[64];
            if (is_old)
                sim_instance_old_name(i, k, name);
            else
                sim_instance_uuid_text(i, k, name);
            if (!begins_with(name, text, length) || (is_old && strlen(name) != length))
                continue;
            if (found >= 0)
                return -1;
            found = i;
            *instance = k;
        }
    return found;
}

static int find_ordinal(const char *text, size_t length, int *instance)
{
    char *end;
    long ordinal = strtol(text, &end, 10);
    int found;
    if (end != text + length || !length || ordinal < 0 || ordinal >= sim_settings.cards)
        return -1;
    found = in_order((int)ordinal);
    *instance = sim_settings.mig[found].count > 0;
    return found;
}

/* CUDA_VISIBLE_DEVICES: ordinals or UUID prefixes; the first wrong entry ends the list. So does
 * a MIG instance: a process has only one, and nothing beside it. */
static void apply_visible(const char *text)
{
    while (*text) {
        size_t length = strcspn(text, ",");
        int instance = 0, found;
        if (length >= 4 && strncasecmp(text, "GPU-", 4) == 0)
            found = find_card(text, length, &instance);
        else if (length >= 4 && strncasecmp(text, "MIG-", 4) == 0)
            found = find_instance(text, length, &instance);
        else
            found = find_ordinal(text, length, &instance);
        if (found < 0 || (instance > 0 && sim_visible_count > 0))
            return;
        if (sim_cards[found].ordinal >= 0) {
            /* A card named twice: none at all, as the driver does it. */
            sim_visible_count = 0;
            return;
        }
        make_visible(found, instance);
        if (instance > 0)
            return;
        text += length;
        text += *text == ',';
    }
}

/* Without a list: the first instance of the first card that is divided, or all cards. */
static void show_usual(void)
{
    for (int i = 0; i < sim_settings.cards; i++)
        if (sim_settings.mig[i].count > 0) {
            make_visible(i, 1);
            return;
        }
    for (int i = 0; i < sim_settings.cards; i++)
        make_visible(in_order(i), 0);
}

void sim_cards_begin(void)
{
    const char *wanted = getenv("CUDA_VISIBLE_DEVICES");
    for (int i = 0; i < SIM_MAX_CARDS; i++) {
        struct sim_card *card = &sim_cards[i];
        uint64_t other = card->other;
        card->index = i;
        card->ordinal = -1;
        card->instance = 0;
        card->total = sim_settings.memory;
        card->other = other ? other : sim_settings.other;
    }
    sim_visible_count = 0;
    read_order();
    if (wanted)
        apply_visible(wanted);
    else
        show_usual();
}

struct sim_card *sim_card_of(CUdevice device)
{
    return device >= 0 && device < sim_visible_count ? visible[device] : NULL;
}

uint64_t sim_card_free(const struct sim_card *card)
{
    uint64_t used = card->live + card->other;
    return used < card->total ? card->total - used : 0;
}

bool sim_card_take(struct sim_card *card, enum sim_use use, uint64_t bytes)
{
    if (bytes > sim_card_free(card))
        return false;
    card->use[use] += bytes;
    card->live += bytes;
    if (card->live > card->peak)
        card->peak = card->live;
    return true;
}

void sim_card_give(struct sim_card *card, enum sim_use use, uint64_t bytes)
{
    card->use[use] -= bytes;
    card->live -= bytes;
}
