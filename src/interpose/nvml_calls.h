/*
 * nvml_calls.h: the two functions of NVML by which programs learn the size of a card.
 *
 * As with libcuda each copy of libnvidia-ml has functions of its own here, which know it. It is
 * found when a program looks one of the two up or calls one; it is never opened.
 */
#ifndef GB_INTERPOSE_NVML_CALLS_H
#define GB_INTERPOSE_NVML_CALLS_H

#include "driver/nvml_types.h"

#include <stdbool.h>

enum gb_nvml_call { GB_NVML_MEMORY_INFO, GB_NVML_MEMORY_INFO_V2, GB_NVML_CALLS };

/* A copy of libnvidia-ml, and what we ask it; NULL where it has no such function. */
struct gb_nvml_copy {
    const void *object;        /* its link map */
    void *real[GB_NVML_CALLS]; /* what the program would have called */
    /* The driver's own, which tells what the card has also where another interposer does not.
     */
    gb_nvml_memory_v2_fn *card_memory;
    gb_nvml_text_fn *uuid, *name;
    gb_nvml_pci_fn *pci;
    gb_nvml_count_fn *count;
    gb_nvml_by_index_fn *by_index;
    /* Of MIG: is a card divided; of an instance: its card, and its numbers there. */
    gb_nvml_mode_fn *mig_mode;
    gb_nvml_device_fn *card_of;
    gb_nvml_number_fn *gpu_instance, *compute_instance;
};

/* Is it one of the names? Calls nothing of libc's. */
bool gb_nvml_call_find(const char *name, enum gb_nvml_call *call);

/*
 * What a look-up that found `address` must answer: the copy's own hook, or the address itself
 * where a program is told the card. Any thread, no lock.
 */
void *gb_nvml_substitute(void *address, enum gb_nvml_call call);

#endif
