/*
 * nvml_answer.h: what a program is told by NVML about the size of a card.
 */
#ifndef GB_INTERPOSE_NVML_ANSWER_H
#define GB_INTERPOSE_NVML_ANSWER_H

#include "interpose/nvml_calls.h"

#include <stdint.h>

/* Bytes. */
struct gb_nvml_size {
    uint64_t total, free;
};

/* What programs can use of the card: a part is the driver's own. */
static inline uint64_t gb_nvml_usable(const struct gb_nvml_memory_v2 *memory)
{
    return memory->reserved < memory->total ? memory->total - memory->reserved : 0;
}

/*
 * By what the program would have been told, the figures of a card of the size of its limit.
 * False: it has no limit, or none that is told. The first time what the settings have to say is
 * said, as in cuInit.
 *
 * Which card it is tells its UUID. Before CUDA has begun, or without it, nothing is known of
 * what this process holds, which is nothing then; and an ordinal of GPUBUDGET_LIMIT is CUDA's
 * only where cards are counted as on the bus (CUDA_DEVICE_ORDER=PCI_BUS_ID, or all are of one
 * model) and none is divided into MIG instances: else the smallest limit is shown that may be
 * the card's. A card that is divided is one that CUDA does not show.
 */
bool gb_nvml_answer(const struct gb_nvml_copy *copy, gb_nvml_device device,
                    struct gb_nvml_size *size);

#endif
