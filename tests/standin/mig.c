/* Cards that are divided into MIG instances: GPUSTANDIN_MIG, and what the instances are called.
 * An instance is a number from 1 on; 0 stands for the whole card. */
#include "settings.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* "10G,10G,20G" */
static bool read_sizes(char *text, uint64_t most, struct sim_mig *mig)
{
    char *rest = text, *one;
    while ((one = strsep(&rest, ","))) {
        uint64_t bytes;
        if (mig->count == SIM_MAX_INSTANCES || !sim_size_parse(one, &bytes) || bytes == 0 ||
            bytes > most)
            return false;
        most -= bytes;
        mig->bytes[mig->count++] = bytes;
    }
    return true;
}

/* "0:10G,10G,20G" */
static bool read_card(char *text, struct sim_settings *settings)
{
    char *end;
    long card = strtol(text, &end, 10);
    if (end == text || *end != ':' || card < 0 || card >= settings->cards ||
        settings->mig[card].count > 0)
        return false;
    return read_sizes(end + 1, settings->memory, &settings->mig[card]);
}

void sim_mig_read(struct sim_settings *settings)
{
    const char *text = getenv("GPUSTANDIN_MIG");
    char copy[512], *rest = copy, *one;
    bool good;
    if (!text || !*text)
        return;
    good = strlen(text) < sizeof(copy);
    snprintf(copy, sizeof(copy), "%s", text);
    while (good && (one = strsep(&rest, ";")))
        good = read_card(one, settings);
    if (good)
        return;
    fprintf(
        stderr,
        "standin: GPUSTANDIN_MIG=%s is not CARD:SIZE[,SIZE...][;...] of a card there is, with "
        "at most %d sizes that fit on it\n",
        text, SIM_MAX_INSTANCES);
    memset(settings->mig, 0, sizeof(settings->mig));
}

uint64_t sim_instance_bytes(const struct sim_settings *settings, int card, int instance)
{
    return instance > 0 ? settings->mig[card].bytes[instance - 1] : settings->memory;
}

void sim_instance_uuid(int card, int instance, unsigned char uuid[16])
{
    static const unsigned char base[16] = {0xa0, 0x51, 0x1c, 0xe5, 0x00, 0x20, 0x5b, 0x22,
                                           0x90, 0x00, 0x03, 0x00, 0x0b, 0xad, 0xca, 0x00};
    sim_card_uuid(card, uuid);
    if (instance == 0)
        return;
    memcpy(uuid, base, sizeof(base));
    /* Cards are 0x11 apart, and have fewer instances. */
    uuid[0] = (unsigned char)(base[0] + card * 0x11 + instance);
    uuid[14] = (unsigned char)(base[14] + instance);
    uuid[15] = (unsigned char)card;
}

void sim_instance_uuid_text(int card, int instance, char text[41])
{
    unsigned char uuid[16];
    sim_instance_uuid(card, instance, uuid);
    sim_uuid_text(instance > 0 ? "MIG" : "GPU", uuid, text);
}

void sim_instance_old_name(int card, int instance, char text[64])
{
    char uuid[41];
    sim_card_uuid_text(card, uuid);
    snprintf(text, 64, "MIG-%s/%d/%d", uuid, sim_gpu_instance_id(instance),
             sim_compute_instance_id(instance));
}

/* A card that is one instance has the number 0, which is not simulated. */
int sim_gpu_instance_id(int instance)
{
    return instance;
}

int sim_compute_instance_id(int instance)
{
    (void)instance;
    return 0; /* each has the whole of its GPU instance */
}

void sim_instance_name(const struct sim_settings *settings, int card, int instance,
                       char name[96])
{
    char whole[64];
    sim_card_name(settings, card, whole);
    if (instance > 0)
        snprintf(name, 96, "%s MIG 1g.%ugb", whole,
                 (unsigned)(sim_instance_bytes(settings, card, instance) >> 30));
    else
        snprintf(name, 96, "%s", whole);
}
