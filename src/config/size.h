/*
 * size.h: the grammar of a size: 4GiB, 40GB, 1.5g, 12.5%, none.
 */
#ifndef GB_CONFIG_SIZE_H
#define GB_CONFIG_SIZE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum gb_size_kind {
    GB_SIZE_BYTES,
    GB_SIZE_PERCENT, /* of something the parser does not know: a device's memory, a limit */
    GB_SIZE_NONE     /* "none": no limit */
};

struct gb_size {
    enum gb_size_kind kind;
    uint64_t bytes;   /* BYTES: 1 to INT64_MAX */
    uint32_t percent; /* PERCENT: millionths of one per cent: 12.5% is 12,500,000 */
};

#define GB_SIZE_PERCENT_ONE 1000000u   /* 1% */
#define GB_SIZE_PERCENT_ALL 100000000u /* 100% */

#define GB_SIZE_WHY         224 /* room that every explanation fits */

/*
 * Reads one size from `length` characters (not terminated). White space around it is ignored.
 * false: nothing is written to *out, and `why` says what is wrong, naming the text.
 */
bool gb_size_parse(const char *text, size_t length, struct gb_size *out, char *why,
                   size_t why_size);

/* Bytes of a size where `whole` is 100%, rounded down. UINT64_MAX for none. */
uint64_t gb_size_bytes(const struct gb_size *size, uint64_t whole);

/* Canonical text that parses to the same size: "40000000000", "12.5%", "none". */
void gb_size_text(const struct gb_size *size, char *text, size_t text_size);

/* For people: "37.25 GiB", "12.5%", "none"; up to two decimals. */
void gb_size_format(const struct gb_size *size, char *text, size_t text_size);

#endif
