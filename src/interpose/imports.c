/*
 * imports.c: memory of others that a call brings into this process.
 */
#include "interpose/imports.h"

#include <stdatomic.h>
#include <stdlib.h>

#include "interpose/fork.h"
#include "report/message.h"
#include "resource/hash.h"
#include "resource/lock.h"
#include "resource/resource.h"

struct key {
    uint64_t kind, value;
};

struct gb_import_entry {
    struct key key;
    unsigned references; /* cuIpc counts how often a block has been opened */
    uint64_t born;
    CUcontext context;        /* NULL: none was current, or it outlives contexts */
    struct gb_device *device; /* NULL: of no device with a budget */
    uint64_t attributed;      /* bytes, in the device's `imported` */
    uint64_t unattributed;    /* the rest of its size, in `imported_unseen` */
    UT_hash_handle hh;
};

static struct gb_import_entry *table;
static struct gb_lock lock = GB_LOCK_INIT;
static _Atomic unsigned entries; /* in the table: while there are none, ends cost a load */
static _Atomic uint64_t moment;

static void in_child(void)
{
    table = NULL;
    atomic_store(&entries, 0);
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

static void count_in(const struct gb_import_entry *entry)
{
    /* What is attributed was counted when it was measured. */
    if (entry->device)
        gb_inherited_import(&entry->device->backend, entry->unattributed);
}

static void count_out(const struct gb_import_entry *entry)
{
    if (!entry->device)
        return;
    atomic_fetch_sub(&entry->device->backend.imported, entry->attributed);
    gb_inherited_import_ends(&entry->device->backend, entry->unattributed);
}

static struct gb_import_entry *find_locked(const struct key *key)
{
    struct gb_import_entry *entry;

    HASH_FIND(hh, table, key, sizeof(*key), entry);
    return entry;
}

/* False: there is no memory for it. */
static bool add_locked(struct gb_import_entry *entry)
{
    HASH_ADD(hh, table, key, sizeof(entry->key), entry);
    if (!entry->hh.tbl)
        return false;
    atomic_fetch_add(&entries, 1);
    return true;
}

static void remove_locked(struct gb_import_entry *entry)
{
    HASH_DELETE(hh, table, entry);
    atomic_fetch_sub(&entries, 1);
}

/*
 * Into the table. The same block opened once more has its entry already: what comes now (0 as
 * a rule) goes with it, in the end.
 */
static void remember(struct gb_import_entry *made)
{
    struct gb_import_entry *there;
    bool added = true;

    gb_fork_on_child(in_child);
    gb_lock_take(&lock);
    there = find_locked(&made->key);
    if (there && there->device == made->device) {
        there->references++;
        there->attributed += made->attributed;
    } else {
        added = add_locked(made);
        if (added)
            count_in(made);
    }
    gb_lock_drop(&lock);
    if (there && there->device == made->device) {
        free(made);
    } else if (!added) {
        /* Then `other` takes it for the driver's: charged too much, never too little. */
        made->unattributed = 0;
        count_out(made);
        free(made);
    }
}

static void say(const struct gb_device *device, const char *call, uint64_t bytes)
{
    const struct gb_message_device shown = {.ordinal = device->ordinal,
                                            .uuid = device->identity.uuid};

    if (bytes > 0)
        gb_message_imported(&shown, call, bytes);
}

void gb_import_remember(const struct gb_import *import, struct gb_driver *drv,
                        enum gb_import_kind kind, uint64_t value, uint64_t bytes,
                        const char *call)
{
    struct gb_import_entry *made = calloc(1, sizeof(*made));
    struct gb_device *current = NULL;
    CUcontext context;
    CUresult failure;

    if (!made)
        return;
    made->key = (struct key){kind, value};
    made->references = 1;
    made->born = atomic_fetch_add(&moment, 1) + 1;
    if (gb_process_current(drv, &current, &context, &failure) != GB_RULING_BUDGET)
        current = NULL;
    if (kind != GB_IMPORT_POOL)
        made->context = context;
    made->device = gb_import_end(import, &made->attributed);
    if (!made->device)
        made->device = current;
    if (!made->device) {
        free(made);
        return;
    }
    /* What the card holds for it. */
    bytes = gb_round_up(bytes, GB_DIRECT_STEP_BYTES);
    made->unattributed = bytes > made->attributed ? bytes - made->attributed : 0;
    say(made->device, call, made->attributed + made->unattributed);
    remember(made);
}

struct gb_import_entry *gb_import_take(enum gb_import_kind kind, uint64_t value)
{
    const struct key key = {kind, value};
    struct gb_import_entry *found;

    if (atomic_load_explicit(&entries, memory_order_relaxed) == 0)
        return NULL;
    gb_lock_take(&lock);
    found = find_locked(&key);
    if (found)
        remove_locked(found);
    gb_lock_drop(&lock);
    if (found)
        gb_giving_begins();
    return found;
}

void gb_import_taken(struct gb_import_entry *entry, bool ended)
{
    struct gb_import_entry *there;
    bool added;

    if (!entry)
        return;
    if (ended && --entry->references == 0) {
        count_out(entry);
        gb_giving_ends();
        free(entry);
        return;
    }
    gb_lock_take(&lock);
    there = find_locked(&entry->key);
    if (there) {
        /* Opened again meanwhile: the two are one. */
        there->references += entry->references;
        there->attributed += entry->attributed;
        there->unattributed += entry->unattributed;
    }
    added = there || add_locked(entry);
    gb_lock_drop(&lock);
    if (!added)
        count_out(entry);
    gb_giving_ends();
    if (there || !added)
        free(entry);
}

uint64_t gb_imports_moment(void)
{
    return atomic_load(&moment);
}

void gb_imports_context_ended(CUcontext context, uint64_t before)
{
    struct gb_import_entry *entry, *next;

    if (!context || atomic_load_explicit(&entries, memory_order_relaxed) == 0)
        return;
    gb_lock_take(&lock);
    HASH_ITER(hh, table, entry, next)
    {
        if (entry->context != context || entry->born > before)
            continue;
        remove_locked(entry);
        count_out(entry);
        free(entry);
    }
    gb_lock_drop(&lock);
}

uint64_t gb_imports_shown(const struct gb_device *device)
{
    const struct gb_backend *backend = &device->backend;
    uint64_t all = atomic_load(&backend->imported) + atomic_load(&backend->imported_unseen);
    uint64_t ours = atomic_load(&backend->inherited.ours);

    return all > ours ? all - ours : 0;
}
