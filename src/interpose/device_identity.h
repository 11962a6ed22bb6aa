/*
 * device_identity.h: what a device is called, and how much memory it has: what limits are by.
 */
#ifndef GB_INTERPOSE_DEVICE_IDENTITY_H
#define GB_INTERPOSE_DEVICE_IDENTITY_H

#include "config/limit.h"
#include "driver/api.h"

/*
 * cuDeviceGetUuid_v2 tells MIG instances apart and cuDeviceGetUuid names the card: where the
 * two differ, the device is an instance. Names may be lacking; without the size no percentage
 * of it can be kept, so a failure there is the answer.
 */
CUresult gb_device_identify(const struct gb_driver_api *api, int ordinal,
                            struct gb_device_identity *identity);

#endif
