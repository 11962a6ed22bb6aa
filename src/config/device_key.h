/*
 * device_key.h: the ways to name a device in a limit, brought to one spelling.
 */
#ifndef GB_CONFIG_DEVICE_KEY_H
#define GB_CONFIG_DEVICE_KEY_H

#include "config/characters.h"
#include "config/limit.h"

#include <stdbool.h>

/* Fills key, ordinal and name of an entry that is otherwise zero. false: no device's name. */
bool gb_device_key(struct gb_piece key, struct gb_limit_entry *entry);

/* A UUID or the beginning of one; `name` has room for GB_LIMIT_NAME. */
bool gb_device_key_uuid(struct gb_piece key, char *name);

/* [domain:]bus:device[.function] to "00000000:65:00.0"; `name` has room for GB_LIMIT_NAME. */
bool gb_device_key_pci(struct gb_piece key, char *name);

#endif
