/* Arrays and mipmapped arrays: what the files about them share. */
#ifndef STANDIN_ARRAY_H
#define STANDIN_ARRAY_H

#include "physical.h"

/* How the elements of a format lie in memory. Formats with planes have one array each. */
struct sim_format {
    unsigned bytes;  /* of a block; 0 with planes */
    unsigned square; /* elements of a block, each way */
    unsigned planes;
    struct {
        CUarray_format format;
        unsigned channels, bytes;
        unsigned narrow, low; /* width and height of the array divided by this */
    } plane[3];
};

#define SIM_LEVELS 20

/* The places of a sparse array where memory can be bound, a tile each; an array whose mapping
 * is deferred has one place. */
struct sim_tiles {
    unsigned width, height, depth; /* elements of a tile */
    unsigned tail_level;           /* this and all smaller levels share the tail */
    uint64_t tail;                 /* tiles of the tail, in each layer */
    uint64_t layer;                /* tiles of a layer */
    uint64_t count;
    uint64_t level[SIM_LEVELS]; /* where its tiles begin in a layer */
    struct sim_physical **at;
};

struct sim_array {
    struct sim_object object;    /* SIM_ARRAY or SIM_MIPMAP */
    struct sim_context *context; /* NULL: it has ended, or the array has */
    struct sim_array *next, *prev;
    uint64_t id;
    CUDA_ARRAY3D_DESCRIPTOR desc;
    struct sim_format format;
    unsigned levels;
    uint64_t bytes;           /* of the layout */
    uint64_t taken;           /* from the card, where it has no block */
    struct sim_block *block;  /* small: in a region that it shares */
    struct sim_array *parent; /* of a level or a plane: memory is the parent's */
    struct sim_array **parts; /* levels, or planes */
    unsigned part_count;
    struct sim_tiles *tiles;
    unsigned references; /* of queued work */
    bool destroyed;
};

/* array_format.c */
bool sim_format_find(const CUDA_ARRAY3D_DESCRIPTOR *desc, struct sim_format *format);
uint64_t sim_array_bytes(const CUDA_ARRAY3D_DESCRIPTOR *desc, const struct sim_format *format,
                         unsigned from_level, unsigned levels, bool all_layers);
/* Whether the dimensions and flags go together, within what the card can do. */
bool sim_array_allowed(const CUDA_ARRAY3D_DESCRIPTOR *desc, bool mipmapped);
void sim_array_level(const CUDA_ARRAY3D_DESCRIPTOR *desc, unsigned level,
                     CUDA_ARRAY3D_DESCRIPTOR *result);
unsigned sim_array_layers(const CUDA_ARRAY3D_DESCRIPTOR *desc);

/* array.c */
CUresult sim_array_create(enum sim_kind kind, const CUDA_ARRAY3D_DESCRIPTOR *desc,
                          unsigned levels, struct sim_array **array);
CUresult sim_array_destroy(const void *handle, enum sim_kind kind);
struct sim_array *sim_array_find(const void *handle, enum sim_kind kind, CUresult *code);
struct sim_array *sim_array_part(struct sim_array *array, unsigned index,
                                 const CUDA_ARRAY3D_DESCRIPTOR *desc);
void sim_array_drop(struct sim_array *array); /* a reference */

/* sparse.c */
struct sim_tiles *sim_tiles_new(const struct sim_array *array); /* NULL: cannot be sparse */
void sim_tiles_end(struct sim_tiles *tiles);

#endif
