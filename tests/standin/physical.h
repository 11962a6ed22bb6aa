/* Physical handles: what the files about them share. */
#ifndef STANDIN_PHYSICAL_H
#define STANDIN_PHYSICAL_H

#include "sim.h"

/* Memory of cuMemCreate, or a multicast object. It lasts until nobody holds it: no handle, no
 * descriptor. */
struct sim_memory {
    struct sim_memory *next, *prev; /* all there are */
    uint64_t id;                    /* never used again */
    struct sim_card *card;          /* NULL: host memory, or a multicast object */
    int foreign;                    /* the process that took it from the card; 0: this one */
    uint64_t size;
    CUmemAllocationProp props;
    struct sim_multicast *multicast;    /* NULL: memory */
    struct sim_physical *handles;       /* that name it, in the order of their birth */
    bool waiting;                       /* none does: for its descriptors to be closed */
    struct sim_descriptor *descriptors; /* the youngest first */
};

/* A handle: of cuMemCreate, cuMulticastCreate, or one import. It lives while any of the first
 * three counts is not 0; the program can name it while it has references. */
struct sim_physical {
    struct sim_object object;  /* key NULL: it has no references, and is not in the table */
    struct sim_physical *next; /* of its memory */
    uint64_t born;
    struct sim_memory *memory; /* NULL: it has ended, and is only queued */
    unsigned references, mappings;
    unsigned bindings; /* to multicast objects and arrays */
    unsigned queued;   /* maps to arrays that are queued: they hold it, and not its memory */
    bool imported;
};

struct sim_memory *sim_memory_new(struct sim_card *card, uint64_t size,
                                  const CUmemAllocationProp *props);
struct sim_memory *sim_memories(void);
bool sim_memory_check(struct sim_memory *memory); /* ends it if nobody holds it; true: ended */
unsigned sim_memories_waiting(void);
uint64_t sim_birth(void); /* of a handle or a descriptor: each later than all before */
struct sim_physical *sim_physical_new(struct sim_memory *memory, bool imported);
void sim_physical_check(struct sim_physical *physical); /* likewise; after any count fell */
struct sim_physical *sim_physical_find(CUmemGenericAllocationHandle handle);
struct sim_physical *sim_physical_at(CUdeviceptr address, uint64_t *offset); /* mapped there */
/* The whole mapping around an address; false: none. */
bool sim_mapping_around(CUdeviceptr address, uint64_t *base, uint64_t *size,
                        const struct sim_physical **physical);
bool sim_mapping_accessible(CUdeviceptr address); /* cuMemSetAccess has been there */
CUmemGenericAllocationHandle sim_physical_handle(const struct sim_physical *physical);

/* handle_share.c: takes closed descriptors off the list; says whether any is open. */
bool sim_descriptors_open(struct sim_memory *memory);
uint64_t sim_descriptors_oldest(struct sim_memory *memory); /* its birth; 0: none is open */

/* multicast.c */
void sim_multicast_end(struct sim_multicast *multicast);
/* Waits, without the lock, until all its devices are there; keep the handle alive. */
void sim_multicast_wait(const struct sim_multicast *multicast);
uint64_t sim_multicast_types(const struct sim_multicast *multicast); /* of handles */

#endif
