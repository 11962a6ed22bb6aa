/*
 * mps_limit.h: the limit that CUDA's multi-process service puts on a client,
 * CUDA_MPS_PINNED_DEVICE_MEM_LIMIT.
 */
#ifndef GB_CONFIG_MPS_LIMIT_H
#define GB_CONFIG_MPS_LIMIT_H

#include "config/limit.h"

/*
 * What such a list ("0=2G,GPU-45b0=512MB", units of 1024) says of the device; UINT64_MAX where
 * it says nothing, 0, or nothing that can be read: the service has its own word on that. text
 * may be NULL. any_ordinal: the device's is not known, so what is said of any may be of it.
 */
uint64_t gb_mps_limit(const char *text, const struct gb_device_identity *device,
                      bool any_ordinal);

#endif
