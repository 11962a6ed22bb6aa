/*
 * escape.h: the ways to memory that the escape matrix tries, one function each.
 *
 * A way takes memory of about the size it is asked for and keeps it. What can be given back is
 * a piece. None of it knows of a budget: it is the program of somebody who wants more than is
 * his.
 */
#ifndef ESCAPE_H
#define ESCAPE_H

#ifndef _GNU_SOURCE
#error "define _GNU_SOURCE first"
#endif

#include "driver/cuda_api.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define KIB ((size_t)1024)
#define MIB (KIB * 1024)

/* The driver's answer. CUDA_SUCCESS: the memory is held, and is the last piece. */
typedef CUresult escape_way(size_t bytes);

escape_way take_direct, take_pitched, take_managed, take_ordered, take_from_pool, take_shared;
escape_way take_handle, take_mapped, take_exported, take_imported;
escape_way take_array, take_array_3d, take_mipmapped;
escape_way take_node, take_captured, take_executable;
escape_way take_module, take_library, take_late_library, take_context, take_stream;
escape_way take_managed_module, take_managed_library;
escape_way take_heap, take_local; /* bytes of the heap; of each thread */

/* In the primary context of device 0, with a stream of the program's own. Ends the program with
 * a line where it cannot be had. */
void escape_start(void);
CUdevice escape_device(void);
CUcontext escape_primary(void);
CUstream escape_stream(unsigned which); /* two, in turn */
void escape_settle(void);               /* until all queued work has run */

/* Ends the program where the driver answers anything else than success. */
void escape_must_at(int line, CUresult code);
#define MUST(call) escape_must_at(__LINE__, (call))

enum escape_kind {
    KIND_GONE,
    KIND_KEPT, /* nothing gives it back before the end */
    KIND_PLAIN,
    KIND_ORDERED,
    KIND_HANDLE,
    KIND_ARRAY,
    KIND_MIPMAPPED,
    KIND_MODULE,
    KIND_LIBRARY,
    KIND_STREAM,
};

/* Notes a piece; CUDA_SUCCESS. handle: an address, a handle or a pointer of the driver's. */
CUresult escape_keep(enum escape_kind kind, uint64_t handle);
#define KEEP_POINTER(kind, pointer) escape_keep((kind), (uint64_t)(uintptr_t)(pointer))

/* Pieces, in the order in which they came; a given one leaves a hole. */
size_t escape_pieces(void);
bool escape_can_give(size_t piece);
void escape_give(size_t piece);

#endif
