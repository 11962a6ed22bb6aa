/*
 * limit.h: a list of limits by device: "4GiB", "0=2GiB,1=50%", "GPU-45b0=8GiB,*=none".
 */
#ifndef GB_CONFIG_LIMIT_H
#define GB_CONFIG_LIMIT_H

#include "config/size.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define GB_LIMIT_ENTRIES 64
#define GB_LIMIT_NAME    64
#define GB_LIMIT_WRITTEN 72  /* longest entry that messages repeat whole */
#define GB_LIMIT_WHY     384 /* room that every explanation fits */

enum gb_limit_key {
    GB_LIMIT_KEY_DEFAULT, /* bare, or "*=" */
    GB_LIMIT_KEY_ORDINAL,
    GB_LIMIT_KEY_UUID, /* GPU- or MIG-, whole or a prefix */
    GB_LIMIT_KEY_PCI
};

struct gb_limit_entry {
    enum gb_limit_key key;
    uint32_t ordinal;         /* ORDINAL */
    char name[GB_LIMIT_NAME]; /* UUID: "GPU-45b0", hex in lower case; PCI: "00000000:65:00.0" */
    struct gb_size size;
    char written[GB_LIMIT_WRITTEN]; /* for messages: as it was written, cut where too long */
};

/* Invariant: no two of the first `count` entries have the same key. All zero is an empty list.
 */
struct gb_limit {
    uint32_t count;
    struct gb_limit_entry entries[GB_LIMIT_ENTRIES];
};

/* A device as the program sees it. Texts are terminated; unknown ones are "". */
struct gb_device_identity {
    uint32_t ordinal;
    char uuid[GB_LIMIT_NAME]; /* "GPU-...", "MIG-..." */
    char pci[GB_LIMIT_NAME];  /* "0000:65:00.0", also with a domain of 8 digits */
    uint64_t total_bytes;     /* cuDeviceTotalMem, also of a MIG instance */
};

enum gb_limit_answer {
    GB_LIMIT_BYTES,  /* this device has a limit */
    GB_LIMIT_NONE,   /* no limit was asked for here */
    GB_LIMIT_MISSING /* the list says nothing about this device */
};

/*
 * Adds the entries of a list to *limit (which may hold those of earlier lists). false: *limit
 * is as it was and `why` names the bad entry.
 */
bool gb_limit_parse(struct gb_limit *limit, const char *text, size_t length, char *why,
                    size_t why_size);

/* The entry that is for one device, its own before the default; NULL: none. */
const struct gb_limit_entry *gb_limit_entry_for_device(const struct gb_limit *limit,
                                                       const struct gb_device_identity *device);

/*
 * The limit of one device. A percentage is of total_bytes, rounded down to 2 MiB. *bytes is
 * written for GB_LIMIT_BYTES only.
 */
enum gb_limit_answer gb_limit_for_device(const struct gb_limit *limit,
                                         const struct gb_device_identity *device,
                                         uint64_t *bytes);

/*
 * The same for one whose ordinal is not known: by its UUID or PCI address, else the smallest of
 * what an ordinal or the default may give it.
 */
enum gb_limit_answer gb_limit_smallest(const struct gb_limit *limit,
                                       const struct gb_device_identity *device,
                                       uint64_t *bytes);

/*
 * Does the list make sense for the visible devices? Every one needs an entry or a default, none
 * may have two, a prefix must name one device, and a percentage must come to 2 MiB. An entry
 * that names no visible device is a warning (`text` then is not empty) if every visible one is
 * covered. false: `text` says why.
 */
bool gb_limit_check(const struct gb_limit *limit, const struct gb_device_identity *devices,
                    size_t device_count, char *text, size_t text_size);

/* No device can be held to anything: there is a default, and every entry is none. */
bool gb_limit_is_none(const struct gb_limit *limit);

#endif
