/*
 * bindings.c: physical memory bound to multicast objects and to sparse arrays.
 */
#include "resource/handles_parts.h"

#include <stdatomic.h>
#include <stdlib.h>

static struct gb_handles *const all = &gb_handles;

/* ---- multicast ---- */

/* In the list of its object. */
struct gb_multicast_binding {
    struct gb_memory *memory;
    uint64_t offset, size; /* within the object */
    uint64_t ticket;
    struct gb_multicast_binding *next;
};

void gb_multicast_bindings_free(struct gb_multicast_binding *bindings)
{
    while (bindings) {
        struct gb_multicast_binding *next = bindings->next;

        free(bindings);
        bindings = next;
    }
}

struct gb_multicast_binding *gb_multicast_bindings_new(const struct gb_held *held)
{
    struct gb_multicast_binding *bindings = NULL;

    for (size_t i = 0; i < held->count; i++) {
        struct gb_multicast_binding *binding = calloc(1, sizeof(*binding));

        if (!binding) {
            gb_multicast_bindings_free(bindings);
            return NULL;
        }
        binding->next = bindings;
        bindings = binding;
    }
    return bindings;
}

void gb_multicast_bound(struct gb_memory *object, const struct gb_held *held,
                        struct gb_multicast_binding *bindings, uint64_t offset, uint64_t size)
{
    gb_lock_take(&all->lock);
    for (size_t i = 0; i < held->count; i++) {
        struct gb_multicast_binding *binding = bindings;

        if (!object) {
            held->list[i]->kept = true; /* when it is unbound cannot be seen */
            continue;
        }
        bindings = binding->next;
        binding->memory = held->list[i];
        binding->memory->bindings++;
        binding->offset = offset;
        binding->size = size;
        binding->ticket = gb_handles_ticket();
        binding->next = object->bound;
        object->bound = binding;
    }
    gb_lock_drop(&all->lock);
    gb_multicast_bindings_free(bindings);
}

static void end_binding(struct gb_multicast_binding *binding)
{
    struct gb_memory *memory = binding->memory;

    free(binding);
    memory->bindings--;
    gb_memory_settle(memory);
}

void gb_multicast_unbound(struct gb_memory *object, int device, uint64_t offset, uint64_t size,
                          uint64_t moment)
{
    struct gb_multicast_binding **at = &object->bound;
    struct gb_multicast_binding *binding;

    gb_lock_take(&all->lock);
    while ((binding = *at) != NULL) {
        if (binding->ticket <= moment &&
            (binding->memory->device == device || binding->memory->imported) &&
            binding->offset >= offset &&
            gb_range_end(binding->offset, binding->size) <= gb_range_end(offset, size)) {
            *at = binding->next;
            end_binding(binding);
        } else {
            at = &binding->next;
        }
    }
    gb_lock_drop(&all->lock);
}

void gb_multicast_ended(struct gb_memory *object)
{
    struct gb_multicast_binding *binding = object->bound;
    /* Another process may have the object still; whether our memory stays bound to it then has
     * not been measured. The safe side: it does. */
    bool elsewhere = object->exported || object->imported || object->kept;

    object->bound = NULL;
    while (binding) {
        struct gb_multicast_binding *next = binding->next;

        if (elsewhere)
            binding->memory->kept = true;
        end_binding(binding);
        binding = next;
    }
}

/* ---- sparse arrays ---- */

bool gb_arrays_any(void)
{
    return atomic_load(&all->array_count) != 0;
}

struct gb_array_binding *gb_array_binding_new(struct gb_memory *memory,
                                              const CUarrayMapInfo *part)
{
    struct gb_array_binding *binding = calloc(1, sizeof(*binding));

    if (!binding)
        return NULL;
    binding->part = *part;
    binding->api = memory->api;
    binding->memory = memory;
    binding->block.kind = GPUBUDGET_KIND_HANDLE;
    binding->block.device = memory->device;
    /* What stands to come back, for the list of pending frees; the charge is the memory's. */
    binding->block.charged = memory->charged;
    return binding;
}

/* With the lock held. */
static void link_binding(struct gb_array_binding *binding)
{
    binding->next = all->arrays;
    all->arrays = binding;
    atomic_fetch_add(&all->array_count, 1);
}

static void unlink_at(struct gb_array_binding **at)
{
    *at = (*at)->next;
    atomic_fetch_sub(&all->array_count, 1);
}

void gb_array_bound(struct gb_array_binding *binding, uint64_t call)
{
    gb_lock_take(&all->lock);
    binding->call = call;
    binding->ticket = gb_handles_ticket();
    binding->memory->bindings++;
    binding->memory->arrays++;
    link_binding(binding);
    gb_memory_let_go(binding->memory);
    gb_lock_drop(&all->lock);
}

static const void *array_of(const CUarrayMapInfo *part)
{
    return part->resourceType == CU_RESOURCE_TYPE_MIPMAPPED_ARRAY
               ? (const void *)part->resource.mipmap
               : (const void *)part->resource.array;
}

/* A part of a level has three dimensions, one of a mip tail has the first of them. */
struct box {
    uint64_t from[3], to[3];
};

static bool is_tail(const CUarrayMapInfo *part)
{
    return part->subresourceType == CU_ARRAY_SPARSE_SUBRESOURCE_TYPE_MIPTAIL;
}

static struct box box_of(const CUarrayMapInfo *part)
{
    if (is_tail(part)) {
        const __typeof__(part->subresource.miptail) *tail = &part->subresource.miptail;

        return (struct box){{tail->offset}, {gb_range_end(tail->offset, tail->size), 1, 1}};
    }
    const __typeof__(part->subresource.sparseLevel) *level = &part->subresource.sparseLevel;

    return (struct box){{level->offsetX, level->offsetY, level->offsetZ},
                        {(uint64_t)level->offsetX + level->extentWidth,
                         (uint64_t)level->offsetY + level->extentHeight,
                         (uint64_t)level->offsetZ + level->extentDepth}};
}

static void set_box(CUarrayMapInfo *part, const struct box *box)
{
    if (is_tail(part)) {
        part->subresource.miptail.offset = box->from[0];
        part->subresource.miptail.size = box->to[0] - box->from[0];
        return;
    }
    part->subresource.sparseLevel.offsetX = (unsigned int)box->from[0];
    part->subresource.sparseLevel.offsetY = (unsigned int)box->from[1];
    part->subresource.sparseLevel.offsetZ = (unsigned int)box->from[2];
    part->subresource.sparseLevel.extentWidth = (unsigned int)(box->to[0] - box->from[0]);
    part->subresource.sparseLevel.extentHeight = (unsigned int)(box->to[1] - box->from[1]);
    part->subresource.sparseLevel.extentDepth = (unsigned int)(box->to[2] - box->from[2]);
}

/* Could what is bound to inner be unbound by naming outer? */
static bool of_one_place(const CUarrayMapInfo *inner, const CUarrayMapInfo *outer)
{
    if (inner->resourceType != outer->resourceType || array_of(inner) != array_of(outer) ||
        inner->subresourceType != outer->subresourceType ||
        (inner->deviceBitMask & ~outer->deviceBitMask) != 0)
        return false;
    if (is_tail(inner))
        return inner->subresource.miptail.layer == outer->subresource.miptail.layer;
    return inner->subresource.sparseLevel.level == outer->subresource.sparseLevel.level &&
           inner->subresource.sparseLevel.layer == outer->subresource.sparseLevel.layer;
}

static bool lies_in(const struct box *inner, const struct box *outer)
{
    for (int i = 0; i < 3; i++)
        if (inner->from[i] < outer->from[i] || inner->to[i] > outer->to[i])
            return false;
    return true;
}

static bool touches(const struct box *one, const struct box *other)
{
    for (int i = 0; i < 3; i++)
        if (one->from[i] >= other->to[i] || other->from[i] >= one->to[i])
            return false;
    return true;
}

/* A further binding of the same memory to that box. */
static void add_piece(struct gb_array_binding **spares, const struct gb_array_binding *whole,
                      const struct box *box)
{
    struct gb_array_binding *piece = *spares;

    *spares = piece->next;
    *piece = *whole;
    set_box(&piece->part, box);
    piece->memory->bindings++;
    piece->memory->arrays++;
    link_binding(piece);
}

/*
 * With the lock held: makes the binding one of what lies in the box, and others of the rest.
 * False, and it is as it was, when there is no host memory for them.
 */
static bool cut_out(struct gb_array_binding *binding, const struct box *outer)
{
    struct gb_array_binding *spares = NULL;
    struct box box = box_of(&binding->part);
    bool enough = true;

    for (int i = 0; i < 3; i++)
        for (int side = 0; side < 2; side++) {
            struct gb_array_binding *spare;

            if (!enough || (side ? box.to[i] <= outer->to[i] : box.from[i] >= outer->from[i]))
                continue;
            spare = calloc(1, sizeof(*spare));
            enough = spare != NULL;
            if (!spare)
                continue;
            spare->next = spares;
            spares = spare;
        }
    for (int i = 0; i < 3 && enough; i++) {
        struct box rest = box;

        if (box.from[i] < outer->from[i]) {
            rest.to[i] = box.from[i] = outer->from[i];
            add_piece(&spares, binding, &rest);
            rest = box;
        }
        if (box.to[i] > outer->to[i]) {
            rest.from[i] = box.to[i] = outer->to[i];
            add_piece(&spares, binding, &rest);
        }
    }
    while (spares) { /* there was not enough for all */
        struct gb_array_binding *next = spares->next;

        free(spares);
        spares = next;
    }
    if (enough)
        set_box(&binding->part, &box);
    return enough;
}

struct gb_array_binding *gb_arrays_take(const struct gb_driver_api *api,
                                        const CUarrayMapInfo *part, uint64_t call)
{
    const struct box outer = box_of(part);
    struct gb_array_binding *taken = NULL;
    struct gb_array_binding *binding, *pieces, *left = NULL;

    gb_lock_take(&all->lock);
    /* The list is made anew; pieces that are cut off come to its head meanwhile. */
    binding = all->arrays;
    all->arrays = NULL;
    while (binding) {
        struct gb_array_binding *next = binding->next;
        struct box inner = box_of(&binding->part);

        if (binding->api == api && (binding->ticket <= call || binding->call == call) &&
            of_one_place(&binding->part, part) &&
            (lies_in(&inner, &outer) ||
             (touches(&inner, &outer) && cut_out(binding, &outer)))) {
            atomic_fetch_sub(&all->array_count, 1);
            binding->next = taken;
            taken = binding;
        } else {
            binding->next = left;
            left = binding;
        }
        binding = next;
    }
    for (pieces = all->arrays; pieces && pieces->next; pieces = pieces->next)
        ;
    if (pieces)
        pieces->next = left;
    else
        all->arrays = left;
    gb_lock_drop(&all->lock);
    return taken;
}

void gb_array_stays(struct gb_array_binding *binding)
{
    gb_lock_take(&all->lock);
    link_binding(binding);
    gb_lock_drop(&all->lock);
}

/* With the lock held; not in the list any more. */
static void end_array_binding(struct gb_array_binding *binding)
{
    struct gb_memory *memory = binding->memory;

    free(binding);
    memory->bindings--;
    memory->arrays--;
    gb_memory_settle(memory);
}

void gb_array_unbound(struct gb_block *block)
{
    gb_lock_take(&all->lock);
    end_array_binding((struct gb_array_binding *)block);
    gb_lock_drop(&all->lock);
}

/* With the lock held. */
static void end_bindings(const struct gb_driver_api *api, const void *array)
{
    struct gb_array_binding **at = &all->arrays;
    struct gb_array_binding *binding;

    while ((binding = *at) != NULL) {
        if (binding->api == api && array_of(&binding->part) == array) {
            unlink_at(at);
            end_array_binding(binding);
        } else {
            at = &binding->next;
        }
    }
}

/* With the lock held: out of the list where a given array, else one of a context, stands. */
static bool forget_array(const struct gb_driver_api *api, const void *array, CUcontext context,
                         uint64_t moment, const void **found)
{
    struct gb_late_array **at = &all->late;
    struct gb_late_array *late;

    while ((late = *at) != NULL) {
        if (late->api == api && late->ticket <= moment &&
            (array ? late->array == array : late->context == context)) {
            *at = late->next;
            *found = late->array;
            free(late);
            return true;
        }
        at = &late->next;
    }
    return false;
}

void gb_array_began(const struct gb_driver_api *api, const void *array, CUcontext context)
{
    struct gb_late_array *late = calloc(1, sizeof(*late));
    const void *before;

    gb_lock_take(&all->lock);
    /* One that ended without our seeing it. */
    forget_array(api, array, NULL, UINT64_MAX, &before);
    /* Without memory its bindings stay charged when its context ends. */
    if (late) {
        *late = (struct gb_late_array){api, array, context, gb_handles_ticket(), all->late};
        all->late = late;
    }
    gb_lock_drop(&all->lock);
}

void gb_array_ended(const struct gb_driver_api *api, const void *array)
{
    const void *found;

    gb_lock_take(&all->lock);
    forget_array(api, array, NULL, UINT64_MAX, &found);
    if (gb_arrays_any())
        end_bindings(api, array);
    gb_lock_drop(&all->lock);
}

void gb_arrays_context_ended(const struct gb_driver_api *api, CUcontext context,
                             uint64_t moment)
{
    const void *array;

    gb_lock_take(&all->lock);
    while (forget_array(api, NULL, context, moment, &array))
        end_bindings(api, array);
    gb_lock_drop(&all->lock);
}
