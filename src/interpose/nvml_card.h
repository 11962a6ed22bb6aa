/*
 * nvml_card.h: what a handle of NVML stands for: a card, or a MIG instance of one.
 */
#ifndef GB_INTERPOSE_NVML_CARD_H
#define GB_INTERPOSE_NVML_CARD_H

#include "config/limit.h"
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
 * Does CUDA count cards as NVML does? on_the_bus: it was told to (CUDA_DEVICE_ORDER). Else
 * where all are of one model, so that none is a faster one that CUDA counts first. Never where
 * one is divided: CUDA leaves that out of its count, or counts an instance and nothing else.
 */
bool gb_nvml_in_order(const struct gb_nvml_copy *copy, bool on_the_bus);

#endif
