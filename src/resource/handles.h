/*
 * handles.h: physical memory (cuMemCreate) and everything that keeps it alive.
 *
 * The driver takes the memory at cuMemCreate and lets go of it with the last of: references to
 * its handle, mappings, bindings to multicast objects, bindings to sparse arrays. So does the
 * charge. What was exported may be held by anybody: it stays charged until the process ends.
 *
 * One table for the process, since handle values and addresses are the process's. Nothing here
 * calls the driver. The driver's answer is followed: before a call its memory is held, so that
 * no other thread's call ends the entry meanwhile, and what the call did is noted after its
 * success. Between the driver's release of a handle and its note the driver may give the same
 * value to new memory; therefore every call that brings a handle to life (create, import,
 * multicast create) says so here, and the value then stands for the new memory only. The old
 * one's release is still noted on the old memory, which its holder knows by pointer.
 */
#ifndef GB_RESOURCE_HANDLES_H
#define GB_RESOURCE_HANDLES_H

#include "driver/api.h"

#include <stdbool.h>
#include <stdint.h>

#include "resource/block_table.h"
#include "resource/ledger.h"
#include "resource/mappings.h"

struct gb_handle;
struct gb_multicast_binding;

/* A file, as far as a number tells: the same one as long as it is open and these are equal. */
struct gb_descriptor {
    bool known;
    int number;
    uint64_t device, inode;
};

/*
 * One piece of physical memory, or a multicast object. Invariants: in the ledger as long as the
 * entry exists and it is charged; the entry ends when handles, mappings, bindings, holds and
 * imports are all 0, and then its charge with it, but for one that was exported or kept. The
 * entry of one that was exported stays as long as its descriptor is not known to be closed.
 */
struct gb_memory {
    /* Set by the maker before gb_handles_add: */
    uint64_t charged;                    /* bytes */
    struct gpubudget_accounting *ledger; /* NULL: not charged (imported, multicast object) */
    _Atomic uint64_t *away; /* gets the bytes that count here and are shown for no process */
    _Atomic uint64_t *attributed; /* imported: what its end takes attributed_bytes off */
    uint64_t attributed_bytes;
    struct gb_backend *importer; /* of the device it lies on; NULL: not known */
    uint64_t generation;
    int device;
    bool imported;

    uint64_t imported_bytes; /* the rest of an import's size, from the first mapping on */
    uint64_t heritable;      /* counted with the importer's (inherited.h) now */

    const struct gb_driver_api *api;
    unsigned handles;  /* handle values with references */
    unsigned mappings; /* address ranges */
    unsigned bindings; /* to multicast objects and sparse arrays */
    unsigned arrays;   /* of these, to sparse arrays */
    unsigned holds;    /* driver calls in flight that are about it */
    bool exported;
    struct gb_descriptor descriptor; /* that it was exported to */
    struct gb_memory *of; /* an import: of this memory of ours, as far as is known, or NULL */
    struct gb_memory *youngest, *older; /* the imports of this memory; of those, the next */
    bool gone;    /* stays charged, though nothing but imports has hold of it here */
    bool is_away; /* counted in *away: it is gone, or only arrays have hold of it */
    bool kept;    /* what holds it is not known for certain: charged until the process ends */
    struct gb_handle *first; /* the entry of its first handle, until that is in the table */
    struct gb_multicast_binding *bound; /* what is bound to this multicast object */
    struct gb_memory *previous, *next;  /* of all */
};

/* ---- handles (handles.c) ---- */

/* Is anything known? One load; without anything no call needs a look. */
bool gb_handles_any(void);

/* How many entries there are. */
uint64_t gb_handles_count(void);

/* A zeroed entry, NULL without host memory; gb_memory_free for one that was never added. */
struct gb_memory *gb_memory_new(void);
void gb_memory_free(struct gb_memory *memory);

/*
 * The driver has created it, with one reference. Takes the entry over; false (not taken) when
 * there is no host memory.
 */
bool gb_handles_add(struct gb_memory *memory, const struct gb_driver_api *api,
                    CUmemGenericAllocationHandle value);

/* The driver has given out this value for something that is not tracked. */
void gb_handles_born(const struct gb_driver_api *api, CUmemGenericAllocationHandle value);

/*
 * The driver has imported a handle (memory: its entry, with what is attributed for it): one
 * more reference where the value is known, since whether an import of our own export has the
 * same value is the driver's matter; else an entry that is not charged. Takes the entry (may be
 * NULL: then it is not tracked). ours: from gb_handle_exported_to before the call, or NULL; its
 * hold ends.
 */
void gb_handles_imported(struct gb_memory *memory, const struct gb_driver_api *api,
                         CUmemGenericAllocationHandle value, struct gb_memory *ours);

/*
 * Holds the memory of a handle until gb_memory_drop or one of the functions that say so; NULL
 * when it is not known. generation: only that one, 0 for any.
 */
struct gb_memory *gb_handle_hold(const struct gb_driver_api *api,
                                 CUmemGenericAllocationHandle value, uint64_t generation);
/* The same, whichever copy of libcuda it belongs to. Slow where that is not the one given. */
struct gb_memory *gb_handle_hold_any(const struct gb_driver_api *api,
                                     CUmemGenericAllocationHandle value, uint64_t generation);
void gb_memory_drop(struct gb_memory *memory);

/* cuMemRelease has answered for a held memory; drops it. */
void gb_handle_released(struct gb_memory *memory, CUmemGenericAllocationHandle value,
                        bool success);

/* Of a held memory: something has hold of it that cannot be tracked. */
void gb_memory_keep(struct gb_memory *memory);

/* ---- exports (exports.c) ---- */

/* Of a held memory: it has been exported, to this descriptor, or (-1) in another form. */
void gb_memory_exported(struct gb_memory *memory, int number);

/*
 * Holds the memory that was exported to this descriptor; NULL when none is known. One that came
 * back by another number, as a copy or through a socket, is not known.
 */
struct gb_memory *gb_handle_exported_to(int number);

/* For who looks at two moments: it changes with every import of our own, and with its end. */
uint64_t gb_handles_imports_moved(void);

/* ---- mappings (mapped.c) ---- */

/* Holds the memory that is mapped at an address; NULL when none is known. */
struct gb_memory *gb_mapping_hold(const struct gb_driver_api *api, CUdeviceptr address);

/* cuMemMap has succeeded for a held memory: takes the mapping (zeroed, malloc'ed), drops. */
void gb_memory_mapped(struct gb_memory *memory, struct gb_mapping *mapping, CUdeviceptr address,
                      size_t size);

/* Now, never twice the same: what is noted later is not ended by a call that began before it.
 */
uint64_t gb_handles_moment(void);

/* cuMemUnmap has succeeded; it was called at that moment. */
void gb_handles_unmapped(const struct gb_driver_api *api, CUdeviceptr address, size_t size,
                         uint64_t moment);

/* For gb_handle_retained, NULL without host memory; free() gives an unused one back. */
struct gb_handle *gb_handle_new(void);

/*
 * cuMemRetainAllocationHandle has given this value for an address, whose memory (may be NULL)
 * was held before; takes the spare (may be NULL). Drops the memory when it answers true; false:
 * there was no host memory to note the reference.
 */
bool gb_handle_retained(struct gb_memory *memory, struct gb_handle *spare,
                        const struct gb_driver_api *api, CUdeviceptr address,
                        CUmemGenericAllocationHandle value);

/* All memory that is mapped in a range, held. */
enum { GB_HELD_FEW = 8 };
struct gb_held {
    struct gb_memory **list; /* few, or malloc'ed */
    size_t count;
    struct gb_memory *few[GB_HELD_FEW];
};

/* False (and nothing is held) when there is no host memory for it. */
bool gb_handles_hold_range(const struct gb_driver_api *api, CUdeviceptr address, size_t size,
                           struct gb_held *held);
/* One that is held already, or NULL, as if it were found in a range. */
void gb_held_set(struct gb_held *held, struct gb_memory *memory);
void gb_held_drop(struct gb_held *held);

/* ---- bindings (bindings.c) ---- */

/* One for each that is held, NULL without host memory for all. */
struct gb_multicast_binding *gb_multicast_bindings_new(const struct gb_held *held);
void gb_multicast_bindings_free(struct gb_multicast_binding *bindings);

/*
 * The driver has bound what is held to a held object (NULL: it is not known). Takes the
 * bindings and drops nothing.
 */
void gb_multicast_bound(struct gb_memory *object, const struct gb_held *held,
                        struct gb_multicast_binding *bindings, uint64_t offset, uint64_t size);

/* cuMulticastUnbind has succeeded for a held object; it was called at that moment. */
void gb_multicast_unbound(struct gb_memory *object, int device, uint64_t offset, uint64_t size,
                          uint64_t moment);

/*
 * A binding to a part of a sparse array, as the program named that part. It begins with a block
 * (kind HANDLE), so that it can stand in a stream's list of pending frees: the driver unbinds
 * when the stream gets there.
 */
struct gb_array_binding {
    struct gb_block block;
    CUarrayMapInfo part;
    const struct gb_driver_api *api;
    struct gb_memory *memory;
    uint64_t ticket;
    uint64_t call;      /* the moment of the call that made it */
    unsigned int index; /* the caller's */
    struct gb_array_binding *next;
};

/* Are there any? One load. */
bool gb_arrays_any(void);

/* Of a held memory; NULL without host memory, free() gives an unused one back. */
struct gb_array_binding *gb_array_binding_new(struct gb_memory *memory,
                                              const CUarrayMapInfo *part);

/* cuMemMapArrayAsync, called at that moment, has bound it: takes it, drops the memory. */
void gb_array_bound(struct gb_array_binding *binding, uint64_t call);

/*
 * The driver will unbind this part, or bind it anew: takes out the bindings of what lies in it,
 * of before that call or of itself, linked by next; of one that lies in it partly the rest
 * stays. Each ends with gb_array_unbound.
 */
struct gb_array_binding *gb_arrays_take(const struct gb_driver_api *api,
                                        const CUarrayMapInfo *part, uint64_t call);

/* The stream has got there; frees the binding, which its block begins. */
void gb_array_unbound(struct gb_block *block);

/* Or it cannot be known when: it stays bound. */
void gb_array_stays(struct gb_array_binding *binding);

/* An array (CUarray or CUmipmappedArray) whose memory comes later, and the context that it goes
 * with. */
void gb_array_began(const struct gb_driver_api *api, const void *array, CUcontext context);

/* It has been destroyed, and its bindings with it. */
void gb_array_ended(const struct gb_driver_api *api, const void *array);

/* So have those of the context that were there at that moment (gb_handles_moment). */
void gb_arrays_context_ended(const struct gb_driver_api *api, CUcontext context,
                             uint64_t moment);

/* ---- the process ---- */

/* A ledger ends: the memory that is charged to it is charged no more. */
void gb_handles_forget(const struct gpubudget_accounting *ledger);

/* In the child of a fork: nothing is known. The parent's entries are left behind, unfreed. */
void gb_handles_forked(void);

#endif
