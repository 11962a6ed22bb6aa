/*
 * nvml_card.h: what a handle of NVML stands for: a card, or a MIG instance of one.
 */
#ifndef GB_INTERPOSE_NVML_CARD_H
#define GB_INTERPOSE_NVML_CARD_H

#include "config/limit.h"
#include "config/visible.h"
#include "interpose/nvml_calls.h"

#include <stdbool.h>

/* Texts are "" where NVML does not tell. */
struct gb_nvml_card {
    bool is_divided;               /* into instances, which CUDA shows in its place */
    bool is_instance;              /* then these two are there: */
    char card_uuid[GB_LIMIT_NAME]; /* of its card */
    char old_name[GB_LIMIT_NAME];  /* "MIG-GPU-UUID/GI/CI" */
    char pci[GB_LIMIT_NAME];       /* of an instance: its card's */
};

/* uuid: what NVML calls the device. */
void gb_nvml_card_of(const struct gb_nvml_copy *copy, gb_nvml_device device, const char *uuid,
                     struct gb_nvml_card *card);

/*
 * The cards of the machine. on_the_bus: CUDA was told to count them so (CUDA_DEVICE_ORDER); it
 * does as well where all are of one model, so that none is a faster one that it counts first.
 */
void gb_nvml_cards(const struct gb_nvml_copy *copy, bool on_the_bus,
                   struct gb_visible_cards *cards);

#endif
