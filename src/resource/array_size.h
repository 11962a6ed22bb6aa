/*
 * array_size.h: how many bytes an array asks for.
 */
#ifndef GB_RESOURCE_ARRAY_SIZE_H
#define GB_RESOURCE_ARRAY_SIZE_H

#include "driver/cuda_api.h"

#include <stdint.h>

/*
 * The nominal size in bytes, all levels of a mipmapped one included (levels 0 is 1), saturated:
 * elements as the header describes them, without what the driver's layout adds. 0 for a format
 * that is not known, and for arrays that get their memory later (sparse, deferred mapping).
 */
uint64_t gb_array_bytes(const CUDA_ARRAY3D_DESCRIPTOR *descriptor, unsigned int levels);

/* More than the driver can make of it: rows and their number are padded. */
uint64_t gb_array_most(const CUDA_ARRAY3D_DESCRIPTOR *descriptor, uint64_t bytes);

#endif
