/* The table of live handles. */
#include "sim.h"

static struct sim_object *objects;

void sim_object_add(void *object, enum sim_kind kind)
{
    struct sim_object *entry = object;
    entry->kind = kind;
    entry->key = object;
    HASH_ADD_PTR(objects, key, entry);
}

void sim_object_remove(void *object)
{
    struct sim_object *entry = object;
    HASH_DEL(objects, entry);
}

void *sim_object_find(const void *handle, enum sim_kind kind)
{
    struct sim_object *entry;
    HASH_FIND_PTR(objects, &handle, entry);
    return entry && entry->kind == kind ? entry : NULL;
}
