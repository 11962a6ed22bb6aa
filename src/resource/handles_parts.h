/*
 * handles_parts.h: what handles.c, mapped.c and bindings.c share. All of it with the lock held.
 */
#ifndef GB_RESOURCE_HANDLES_PARTS_H
#define GB_RESOURCE_HANDLES_PARTS_H

#include "resource/handles.h"

#include "resource/hash.h"
#include "resource/lock.h"

/* A handle value with references, in the table exactly while it has any. */
struct gb_handle {
    struct gb_handle_key {
        const struct gb_driver_api *api;
        CUmemGenericAllocationHandle value;
    } key;
    uint64_t references;
    struct gb_memory *memory;
    UT_hash_handle hh;
};

/* A sparse or deferred array. */
struct gb_late_array {
    const struct gb_driver_api *api;
    const void *array;
    CUcontext context;
    uint64_t ticket;
    struct gb_late_array *next;
};

/* All zero, with a free lock, at the start. */
struct gb_handles {
    struct gb_lock lock; /* rank: tables */
    struct gb_handle *table;
    struct gb_memory *all;
    struct gb_mappings mappings;
    struct gb_mapping *displaced; /* overlapped by a later one; end with their range's unmap */
    struct gb_array_binding *arrays;
    struct gb_late_array *late;
    _Atomic uint64_t count;       /* entries */
    _Atomic uint64_t array_count; /* of the list arrays */
    _Atomic uint64_t imports_moved;
    _Atomic uint64_t ticket;
};

extern struct gb_handles gb_handles;

/* NULL when the value is not known. */
struct gb_handle *gb_handle_find(const struct gb_driver_api *api,
                                 CUmemGenericAllocationHandle value);

/*
 * One reference to the memory by a value that is not in the table. False when there is no host
 * memory; the entry is then the caller's, as before.
 */
bool gb_handle_insert(struct gb_handle *handle, const struct gb_driver_api *api,
                      CUmemGenericAllocationHandle value, struct gb_memory *memory);

/* Has anything here but imports hold of it? */
bool gb_memory_is_used(const struct gb_memory *memory);

/* Has nothing but sparse arrays hold of it? */
bool gb_memory_only_bound(const struct gb_memory *memory);

/* After what has hold of it changed: ends the entry where nothing does any more. */
void gb_memory_settle(struct gb_memory *memory);

/* After what it depends on changed, of it or of an import of it: what inherited.h counts. */
void gb_memory_note_heritable(struct gb_memory *memory);

/* An import of memory of ours begins, ends. */
void gb_import_of_own(struct gb_memory *import, struct gb_memory *ours);
void gb_import_of_own_ended(struct gb_memory *import);

/* The end of a hold. */
void gb_memory_let_go(struct gb_memory *memory);

/* Later ones are higher. */
static inline uint64_t gb_handles_ticket(void)
{
    return atomic_fetch_add(&gb_handles.ticket, 1) + 1;
}

/* When the entry of a multicast object ends. */
void gb_multicast_ended(struct gb_memory *object);

#endif
