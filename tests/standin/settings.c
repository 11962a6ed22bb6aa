#include "settings.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define KIB ((uint64_t)1024)
#define MIB (KIB * 1024)
#define GIB (MIB * 1024)

/* The figures of the cards that were measured. Another card adds a row. */
static const struct sim_profile profiles[] = {
    {
        .name = "h200-580",
        .device_name = "NVIDIA H200",
        .memory = 150109880320,
        .nvml_reserved = 143771 * MIB - 150109880320,
        .context_bytes = 518 * MIB,
        .region = 2 * MIB,
        .small_limit = MIB,
        .big_round = 2 * MIB,
        .block_align = 512,
        .pool_step = 32 * MIB,
        .pitch_align = 512,
        .managed_chunk = 64 * MIB,
        .granularity = 2 * MIB,
        /* Not measured. */
        .multicast_granularity = 2 * MIB,
        .multicast_recommended = 512 * MIB,
        .multicast_bytes = 2 * MIB,
        .peer_bytes = 2 * MIB,
        /* Arrays are modelled on the block-linear layout of the hardware; it agrees with those
         * that were measured. */
        .array_row = 64,
        .array_rows = 8,
        .array_block = 128,
        .sparse_tile = 64 * KIB,
        .stack_bytes = 1024,
        .heap_besides = 2 * MIB,
        .printf_bytes = 8448 * KIB,
        .node_bytes = 111 * KIB,
        .node_free = 888 * KIB,
        .l2_persisting = 11796480,
        .streams = {{1, 0},
                    {2, 2 * MIB},
                    {4, 2 * MIB},
                    {8, 4 * MIB},
                    {16, 8 * MIB},
                    {32, 16 * MIB},
                    {64, 34 * MIB},
                    {128, 70 * MIB},
                    {256, 140 * MIB}},
        .green_first_bytes = 6 * MIB,
        .green_bytes = 4 * MIB,
        .multiprocessors = 132,
        .threads_per_multiprocessor = 2048,
        .compute_major = 9,
        .compute_minor = 0,
        .driver_text = "580.159.04",
    },
};

const struct sim_profile *sim_profile_find(const char *name)
{
    for (size_t i = 0; name && i < sizeof(profiles) / sizeof(profiles[0]); i++)
        if (strcmp(profiles[i].name, name) == 0)
            return &profiles[i];
    if (name && *name)
        fprintf(stderr, "standin: no profile '%s'; using %s\n", name, profiles[0].name);
    return &profiles[0];
}

bool sim_size_parse(const char *text, uint64_t *bytes)
{
    char *end;
    double value = strtod(text, &end);
    double unit = 1;
    if (end == text || value < 0)
        return false;
    switch (*end) {
    case 'k':
    case 'K':
        unit = KIB;
        end++;
        break;
    case 'm':
    case 'M':
        unit = MIB;
        end++;
        break;
    case 'g':
    case 'G':
        unit = GIB;
        end++;
        break;
    default:
        break;
    }
    if (*end == 'i')
        end++;
    if (*end == 'B')
        end++;
    if (*end)
        return false;
    *bytes = (uint64_t)(value * unit);
    return true;
}

static uint64_t size_from(const char *name, uint64_t otherwise)
{
    const char *text = getenv(name);
    uint64_t bytes;
    if (!text || !*text)
        return otherwise;
    if (sim_size_parse(text, &bytes))
        return bytes;
    fprintf(stderr, "standin: %s=%s is not a size\n", name, text);
    return otherwise;
}

static bool switched_on(const char *name)
{
    const char *text = getenv(name);
    return text && *text && strcmp(text, "0") != 0;
}

void sim_settings_read(struct sim_settings *settings)
{
    const char *profile = getenv("GPUSTANDIN_PROFILE");
    const char *devices = getenv("GPUSTANDIN_DEVICES");
    const char *streams = getenv("GPUSTANDIN_FREE_STREAMS");
    memset(settings, 0, sizeof(*settings));
    settings->profile = sim_profile_find(profile);
    /* A named profile is that card; unnamed, only its steps and roundings: tests want a card
     * of a handy size. */
    settings->memory = size_from("GPUSTANDIN_MEMORY",
                                 profile && *profile ? settings->profile->memory : 16 * GIB);
    settings->other = size_from("GPUSTANDIN_OTHER", 0);
    settings->cards = devices && *devices ? atoi(devices) : 1;
    if (settings->cards < 0 || settings->cards > SIM_MAX_CARDS)
        settings->cards = 1;
    sim_mig_read(settings);
    settings->strict_streams = streams && *streams;
    settings->free_streams =
        settings->strict_streams ? (unsigned)strtoul(streams, NULL, 10) : 0;
    settings->no_nvml = switched_on("GPUSTANDIN_NO_NVML");
    settings->nvml_not_supported = switched_on("GPUSTANDIN_NVML_NOT_SUPPORTED");
    settings->nvml_no_memory = switched_on("GPUSTANDIN_NVML_NO_MEMORY");
    settings->imports_shown = switched_on("GPUSTANDIN_IMPORTS_SHOWN");
    settings->nvml_unlisted = switched_on("GPUSTANDIN_NVML_UNLISTED");
    settings->nvml_faults = getenv("GPUSTANDIN_NVML_FAULTS");
    settings->faults = getenv("GPUSTANDIN_FAULTS");
    settings->delays = getenv("GPUSTANDIN_DELAY");
    settings->sure = getenv("GPUSTANDIN_SURE");
}

void sim_card_name(const struct sim_settings *settings, int card, char name[64])
{
    const char *fastest = getenv("GPUSTANDIN_FASTEST");

    /* CUDA counts another card first only where the others are of a slower model. */
    snprintf(name, 64,
             fastest && atoi(fastest) > 0 && card != atoi(fastest) ? "%s, slower" : "%s",
             settings->profile->device_name);
}

void sim_card_uuid(int card, unsigned char uuid[16])
{
    static const unsigned char base[16] = {0x5a, 0x1d, 0xc0, 0xde, 0x00, 0x10, 0x4a, 0x11,
                                           0x80, 0x00, 0x02, 0x00, 0x0b, 0xad, 0xca, 0x00};
    memcpy(uuid, base, sizeof(base));
    /* The cards differ in the first byte, as real ones do, so that short prefixes tell them
     * apart. */
    uuid[0] = (unsigned char)(base[0] + card * 0x11);
    uuid[15] = (unsigned char)card;
}

void sim_uuid_text(const char *head, const unsigned char u[16], char *text)
{
    snprintf(text, 41,
             "%s-%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x", head,
             u[0], u[1], u[2], u[3], u[4], u[5], u[6], u[7], u[8], u[9], u[10], u[11], u[12],
             u[13], u[14], u[15]);
}

void sim_card_uuid_text(int card, char *text)
{
    unsigned char uuid[16];
    sim_card_uuid(card, uuid);
    sim_uuid_text("GPU", uuid, text);
}

void sim_card_pci_text(int card, char *text)
{
    snprintf(text, 16, "0000:%02X:00.0", (0x0a + card * 0x10) & 0xff);
}
