/*
 * imports.c: memory of others that a call brings into this process.
 */
#include "interpose/imports.h"

#include <stdatomic.h>
#include <stdlib.h>

#include "interpose/fork.h"
#include "resource/hash.h"
#include "resource/lock.h"

struct import {
    const void *handle;
    struct gb_device *device;
    uint64_t bytes;
    UT_hash_handle hh;
};

static struct import *table;
static struct gb_lock lock = GB_LOCK_INIT;

static void in_child(void)
{
    table = NULL;
    gb_lock_init(&lock);
}

void gb_import_begin(struct gb_import *import)
{
    int devices = gb_process_device_count();

    import->count = 0;
    for (int i = 0; i < devices; i++) {
        struct gb_device *device = gb_process_device_at(i);

        if (!device || !device->backend.contexts.measure)
            continue;
        import->at[import->count].device = device;
        gb_other_before_import(&device->backend, &import->at[import->count++].before);
    }
}

struct gb_device *gb_import_end(const struct gb_import *import, uint64_t *bytes)
{
    for (int i = 0; i < import->count; i++) {
        struct gb_device *device = import->at[i].device;

        *bytes = gb_other_imported(&device->backend, &import->at[i].before);
        if (*bytes > 0)
            return device;
    }
    *bytes = 0;
    return NULL;
}

static void take_off(struct gb_device *device, uint64_t bytes)
{
    atomic_fetch_sub(&device->backend.imported, bytes);
}

void gb_import_remember(const struct gb_import *import, const void *handle)
{
    struct import *made = calloc(1, sizeof(*made));
    bool added = false;

    if (!made)
        return; /* then `other` takes it for the driver's: charged too much, never too little */
    made->device = gb_import_end(import, &made->bytes);
    if (!made->device) {
        free(made);
        return;
    }
    made->handle = handle;
    gb_fork_on_child(in_child);
    gb_lock_take(&lock);
    HASH_ADD(hh, table, handle, sizeof(made->handle), made);
    added = made->hh.tbl != NULL;
    gb_lock_drop(&lock);
    if (added)
        return;
    take_off(made->device, made->bytes);
    free(made);
}

void gb_import_forget(const void *handle)
{
    struct import *found;

    gb_lock_take(&lock);
    HASH_FIND(hh, table, &handle, sizeof(handle), found);
    if (found)
        HASH_DELETE(hh, table, found);
    gb_lock_drop(&lock);
    if (!found)
        return;
    take_off(found->device, found->bytes);
    free(found);
}
