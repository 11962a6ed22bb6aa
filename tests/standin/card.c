/* The cards and the physical memory of each. */
#include "sim.h"

#include <ctype.h>
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
static CUresult read_order(void)
{
    const char *order = getenv("CUDA_DEVICE_ORDER"), *fastest = getenv("GPUSTANDIN_FASTEST");
    bool by_bus = order && strcmp(order, "PCI_BUS_ID") == 0;

    if (order && !by_bus && strcmp(order, "FASTEST_FIRST") != 0)
        return CUDA_ERROR_INVALID_DEVICE;
    first = fastest && !by_bus ? atoi(fastest) : 0;
    if (first < 0 || first >= sim_settings.cards)
        first = 0;
    return CUDA_SUCCESS;
}

static int in_order(int place)
{
    if (place == 0)
        return first;
    return place <= first ? place - 1 : place;
}

/* The hexadecimal digits of an entry, in lower case. Dashes may be anywhere and after the last
 * digit anything; false: something else is among them, or nothing is there. */
static bool read_digits(const char *text, char digits[33])
{
    const char *begin = text;
    size_t count = 0;
    for (; *text && *text != ',' && count < 32; text++)
        if (isxdigit((unsigned char)*text))
            digits[count++] = (char)tolower((unsigned char)*text);
        else if (*text != '-')
            return false;
    digits[count] = '\0';
    return text > begin;
}

static bool is_named(const char *digits, const char *uuid)
{
    char all[33];
    return read_digits(uuid + 4, all) && strncmp(all, digits, strlen(digits)) == 0;
}

/* Of a card or an instance; -1: of none, or of more than one. A card that is not divided goes
 * by either head; one that is stands for its first instance. */
static int find_uuid(const char *text, int *instance)
{
    bool is_mig = strncmp(text, "MIG-", 4) == 0;
    char digits[33], uuid[41];
    int found = -1, matches = 0;
    if (!read_digits(text + 4, digits))
        return -1;
    for (int i = 0; i < sim_settings.cards; i++) {
        int count = sim_settings.mig[i].count;
        sim_card_uuid_text(i, uuid);
        if ((!is_mig || count == 0) && is_named(digits, uuid)) {
            matches++;
            found = i;
            *instance = count > 0;
        }
        for (int k = 1; is_mig && k <= count; k++) {
            sim_instance_uuid_text(i, k, uuid);
            if (!is_named(digits, uuid))
                continue;
            matches++;
            found = i;
            *instance = k;
        }
    }
    return matches == 1 ? found : -1;
}

/* "MIG-GPU-UUID/GI/CI" */
static int find_old_name(const char *text, int *instance)
{
    size_t length = strcspn(text, ",");
    for (int i = 0; i < sim_settings.cards; i++)
        for (int k = 1; k <= sim_settings.mig[i].count; k++) {
            char name[64];
            sim_instance_old_name(i, k, name);
            if (strlen(name) == length && strncasecmp(name, text, length) == 0) {
                *instance = k;
                return i;
            }
        }
    return -1;
}

/* The low 32 bits count, and nothing after the digits. */
static int find_ordinal(const char *text, int *instance)
{
    char *end;
    uint32_t ordinal = (uint32_t)strtoul(text, &end, 10);
    int found;
    if (end == text || ordinal >= (uint32_t)sim_settings.cards)
        return -1;
    found = in_order((int)ordinal);
    *instance = sim_settings.mig[found].count > 0;
    return found;
}

static bool is_uuid(const char *text)
{
    return strncmp(text, "GPU-", 4) == 0 || strncmp(text, "MIG-", 4) == 0;
}

/* CUDA_VISIBLE_DEVICES: ordinals, or UUIDs, as the first one is; the first wrong entry ends the
 * list. So does a MIG instance: a process has only one, and nothing beside it. */
static CUresult apply_visible(const char *text)
{
    bool by_uuid = is_uuid(text);
    while (*text) {
        int instance = 0, found = -1;
        if (by_uuid && is_uuid(text))
            found = strncmp(text, "MIG-GPU-", 8) == 0 ? find_old_name(text, &instance)
                                                      : find_uuid(text, &instance);
        else if (!by_uuid)
            found = find_ordinal(text, &instance);
        if (found < 0 || (instance > 0 && sim_visible_count > 0))
            break;
        if (sim_cards[found].ordinal >= 0)
            return CUDA_ERROR_INVALID_DEVICE; /* a card named twice */
        make_visible(found, instance);
        if (instance > 0)
            break;
        text += strcspn(text, ",");
        text += *text == ',';
    }
    return CUDA_SUCCESS;
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

CUresult sim_cards_begin(void)
{
    const char *wanted = getenv("CUDA_VISIBLE_DEVICES");
    CUresult code;
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
    code = read_order();
    if (code == CUDA_SUCCESS && wanted)
        code = apply_visible(wanted);
    else if (code == CUDA_SUCCESS)
        show_usual();
    if (code != CUDA_SUCCESS)
        sim_visible_count = 0;
    else if (sim_visible_count == 0)
        code = CUDA_ERROR_NO_DEVICE;
    return code;
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
