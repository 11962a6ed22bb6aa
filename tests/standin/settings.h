/* What the environment says about the simulated machine. Read by the driver and by NVML, so
 * that both describe the same cards. */
#ifndef STANDIN_SETTINGS_H
#define STANDIN_SETTINGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SIM_MAX_CARDS     16
#define SIM_MAX_INSTANCES 7
#define SIM_STREAM_POINTS 9

struct sim_profile {
    const char *name;
    const char *device_name;
    uint64_t memory;        /* of the card, as cuDeviceTotalMem says it */
    uint64_t nvml_reserved; /* NVML's total is that much more */
    uint64_t context_bytes; /* each context; already a multiple of 64 KiB */
    uint64_t region;        /* small direct blocks live in regions of this size */
    uint64_t small_limit;   /* the largest block that shares a region */
    uint64_t big_round;     /* larger blocks are rounded up to this */
    uint64_t block_align;   /* of direct and of pool blocks */
    uint64_t pool_step;     /* a pool grows in multiples of this */
    uint64_t pitch_align;
    uint64_t managed_chunk; /* managed memory comes to the card in such pieces, two by two */
    uint64_t granularity;   /* of cuMemCreate */
    uint64_t multicast_granularity, multicast_recommended;
    uint64_t array_row;     /* a row of tiles is a multiple of this many bytes */
    uint64_t array_rows;    /* the fewest rows that a tile has, */
    uint64_t array_block;   /* and the most; a multiple of this many rows in large arrays */
    uint64_t sparse_tile;   /* bytes of a tile of a sparse array */
    uint64_t stack_bytes;   /* the default limit, of each thread */
    uint64_t heap_besides;  /* what the device heap takes beyond its limit */
    uint64_t printf_bytes;  /* the default limit */
    uint64_t node_bytes;    /* of a kernel of an executable that is beside others, */
    uint64_t node_free;     /* and what a context has for the first ones */
    uint64_t l2_persisting; /* likewise */
    struct {
        unsigned count;
        uint64_t bytes;
    } streams[SIM_STREAM_POINTS]; /* what so many streams of a context take, at last 256 */
    uint64_t green_first_bytes;   /* the first green context, */
    uint64_t green_bytes;         /* and each later one */
    uint64_t peer_bytes;          /* page tables for a peer */
    uint64_t multicast_bytes;     /* of each device in a multicast object */
    int multiprocessors;
    int threads_per_multiprocessor;
    int compute_major, compute_minor;
    const char *driver_text; /* as NVML names the driver */
};

struct sim_mig {
    int count; /* of instances; 0: the card is not divided */
    uint64_t bytes[SIM_MAX_INSTANCES];
};

struct sim_settings {
    const struct sim_profile *profile;
    uint64_t memory; /* each card */
    uint64_t other;  /* held by other processes, each card */
    int cards;
    struct sim_mig mig[SIM_MAX_CARDS];
    bool strict_streams;   /* GPUSTANDIN_FREE_STREAMS is set: */
    unsigned free_streams; /* so many take nothing, each later one its share */
    bool no_nvml;
    bool nvml_not_supported;
    bool nvml_no_memory;
    bool imports_shown;
    bool nvml_unlisted;
    const char *nvml_faults; /* one in so many process queries, or NULL */
    const char *faults;      /* GPUSTANDIN_FAULTS, or NULL */
    const char *delays;
    const char *sure;
};

const struct sim_profile *sim_profile_find(const char *name); /* NULL: the default one */
void sim_settings_read(struct sim_settings *settings);
bool sim_size_parse(const char *text, uint64_t *bytes);

/* The 16 bytes, and "GPU-..." as NVML prints them (needs 41 bytes), of one physical card. */
void sim_card_name(const struct sim_settings *settings, int card, char name[64]);
void sim_card_uuid(int card, unsigned char uuid[16]);
void sim_card_uuid_text(int card, char *text);
void sim_card_pci_text(int card, char *text); /* "0000:0A:00.0", needs 16 bytes */
void sim_uuid_text(const char *head, const unsigned char u[16], char *text);

/* ---- MIG instances, from 1 on; 0 is the whole card (mig.c) ---- */

void sim_mig_read(struct sim_settings *settings);
uint64_t sim_instance_bytes(const struct sim_settings *settings, int card, int instance);
void sim_instance_uuid(int card, int instance, unsigned char uuid[16]);
void sim_instance_uuid_text(int card, int instance, char text[41]); /* "MIG-..." */
void sim_instance_old_name(int card, int instance, char text[64]);  /* "MIG-GPU-.../1/0" */
void sim_instance_name(const struct sim_settings *settings, int card, int instance,
                       char name[96]);
int sim_gpu_instance_id(int instance);
int sim_compute_instance_id(int instance);

#endif
