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

static void make_visible(int index)
{
    sim_cards[index].ordinal = sim_visible_count;
    visible[sim_visible_count++] = &sim_cards[index];
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

/* CUDA_VISIBLE_DEVICES: ordinals or UUID prefixes; the first wrong entry ends the list. */
static void apply_visible(const char *text)
{
    while (*text) {
        size_t length = strcspn(text, ",");
        int found = -1;
        if (strncasecmp(text, "GPU-", 4) == 0 && length >= 4) {
            for (int i = 0; i < sim_settings.cards; i++) {
                char uuid[41];
                sim_card_uuid_text(i, uuid);
                if (strncasecmp(text, uuid, length) == 0) {
                    if (found >= 0)
                        return;
                    found = i;
                }
            }
        } else {
            char *end;
            long ordinal = strtol(text, &end, 10);
            if (end == text + length && length && ordinal >= 0 && ordinal < sim_settings.cards)
                found = in_order((int)ordinal);
        }
        if (found < 0)
            return;
        if (sim_cards[found].ordinal >= 0) {
            /* A card named twice: none at all, as the driver does it. */
            sim_visible_count = 0;
            return;
        }
        make_visible(found);
        text += length;
        text += *text == ',';
    }
}

void sim_cards_begin(void)
{
    const char *wanted = getenv("CUDA_VISIBLE_DEVICES");
    for (int i = 0; i < SIM_MAX_CARDS; i++) {
        struct sim_card *card = &sim_cards[i];
        uint64_t other = card->other;
        card->index = i;
        card->ordinal = -1;
        card->total = sim_settings.memory;
        card->other = other ? other : sim_settings.other;
    }
    sim_visible_count = 0;
    read_order();
    if (wanted)
        apply_visible(wanted);
    else
        for (int i = 0; i < sim_settings.cards; i++)
            make_visible(in_order(i));
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
