/*
 * own_imports.c: blocks of a pool that this process has exported, and imported again itself.
 */
#include "interpose/own_imports.h"

#include <stdlib.h>

#include "interpose/fork.h"
#include "resource/budget.h"
#include "resource/capture.h"
#include "resource/hash.h"
#include "resource/lock.h"
#include "resource/resource.h"

/* So many exports are remembered, the latest ones. */
enum { MOST_EXPORTS = 65536 };

/* By its data. */
struct export
{
    CUmemPoolPtrExportData data;
    uint64_t bytes; /* to charge */
    struct gb_device *device;
    UT_hash_handle hh;
};

/* In the list from the driver's success until its bytes leave the ledger. */
struct gb_own_import {
    const struct gb_driver *drv;
    CUmemoryPool pool; /* NULL: destroyed */
    CUdeviceptr pointer;
    uint64_t bytes, born;
    struct gb_device *device;
    bool freeing, freed;
    struct gb_own_import *next;
};

_Atomic unsigned gb_own_imports;

static struct export *exports;
static _Atomic bool exported; /* ever */
static struct gb_own_import *imports;
static struct gb_lock lock = GB_LOCK_INIT;
static _Atomic uint64_t moment;

static void in_child(void)
{
    exports = NULL;
    imports = NULL;
    atomic_store(&exported, false);
    atomic_store(&gb_own_imports, 0);
    gb_lock_init(&lock);
}

/* What the card may keep for the block: whole steps of its pool. */
static uint64_t kept_bytes(const struct gb_device *device, CUdeviceptr base, size_t bytes)
{
    if (device->backend.options.charge == GPUBUDGET_CHARGE_REQUESTED)
        return bytes;
    return gb_round_up(base + bytes, GB_POOL_STEP_BYTES) -
           base / GB_POOL_STEP_BYTES * GB_POOL_STEP_BYTES;
}

/* The device with a budget that the block is on, NULL: there is none. */
static struct gb_device *device_of(struct gb_driver *drv, CUdeviceptr pointer, uint64_t *bytes)
{
    const struct gb_driver_api *api = &drv->api;
    struct gb_capture_mode saved;
    struct gb_device *device = NULL;
    CUdeviceptr base = pointer;
    size_t size = 0;
    int ordinal = 0;
    bool known;

    if (!api->cuPointerGetAttribute || !api->cuMemGetAddressRange_v2)
        return NULL;
    saved = gb_capture_relax(api);
    known = api->cuPointerGetAttribute(&ordinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
                                       pointer) == CUDA_SUCCESS &&
            api->cuMemGetAddressRange_v2(&base, &size, pointer) == CUDA_SUCCESS;
    gb_capture_restore(api, &saved);
    if (!known || gb_process_device(drv, ordinal, &device) != GB_RULING_BUDGET)
        return NULL;
    *bytes = kept_bytes(device, base, size);
    return device;
}

/* With the lock held. */
static struct export *find(const CUmemPoolPtrExportData *data)
{
    struct export *found;

    HASH_FIND(hh, exports, data, sizeof(*data), found);
    return found;
}

bool gb_own_exported(struct gb_driver *drv, const CUmemPoolPtrExportData *data,
                     CUdeviceptr pointer)
{
    uint64_t bytes;
    struct gb_device *device = device_of(drv, pointer, &bytes);
    struct export *made, *old;
    bool added;

    if (!device)
        return true;
    gb_fork_on_child(in_child);
    made = calloc(1, sizeof(*made));
    if (!made)
        return false;
    made->data = *data;
    made->bytes = bytes;
    made->device = device;
    gb_lock_take(&lock);
    old = find(data);
    /* The table's first one is the oldest. */
    if (!old && HASH_COUNT(exports) >= MOST_EXPORTS)
        old = exports;
    if (old)
        HASH_DELETE(hh, exports, old);
    HASH_ADD(hh, exports, data, sizeof(made->data), made);
    added = made->hh.tbl != NULL;
    atomic_store(&exported, true);
    gb_lock_drop(&lock);
    free(old);
    if (!added)
        free(made);
    return added;
}

/* As other.h counts what the tools show for nobody: after the ledger, and out before it. */
static void charge(const struct gb_own_import *import)
{
    struct gb_backend *backend = &import->device->backend;

    gb_ledger_acquire(&backend->ledger, import->bytes);
    atomic_fetch_add(&backend->away, import->bytes);
    if (backend->other.budget)
        gb_budget_note_overshoot(backend->other.budget);
}

static void discharge(struct gb_own_import *import)
{
    struct gb_backend *backend = &import->device->backend;

    atomic_fetch_sub(&backend->away, import->bytes);
    gb_ledger_reclaim(&backend->ledger, import->bytes);
    free(import);
}

bool gb_own_import_begins(struct gb_driver *drv, CUmemoryPool pool,
                          const CUmemPoolPtrExportData *data, struct gb_own_import **import)
{
    struct gb_own_import *made;
    const struct export *found;

    *import = NULL;
    if (!data || !atomic_load_explicit(&exported, memory_order_relaxed))
        return true;
    made = calloc(1, sizeof(*made));
    gb_lock_take(&lock);
    found = find(data);
    if (found && made) {
        made->bytes = found->bytes;
        made->device = found->device;
    }
    gb_lock_drop(&lock);
    if (!found || !made) {
        free(made);
        return !found;
    }
    made->drv = drv;
    made->pool = pool;
    charge(made);
    *import = made;
    return true;
}

void gb_own_import_ends(struct gb_own_import *import, bool imported, CUdeviceptr pointer)
{
    if (!imported) {
        discharge(import);
        return;
    }
    import->pointer = pointer;
    gb_lock_take(&lock);
    import->born = atomic_fetch_add(&moment, 1) + 1;
    import->next = imports;
    imports = import;
    atomic_fetch_add(&gb_own_imports, 1);
    gb_lock_drop(&lock);
}

struct gb_own_import *gb_own_free_begins(CUdeviceptr pointer)
{
    struct gb_own_import *import;

    gb_lock_take(&lock);
    import = imports;
    while (import && (import->pointer != pointer || import->freeing))
        import = import->next;
    if (import)
        import->freeing = true;
    gb_lock_drop(&lock);
    return import;
}

/* Out of the list, with the lock held. */
static void take_out(struct gb_own_import *import)
{
    struct gb_own_import **link = &imports;

    while (*link != import)
        link = &(*link)->next;
    *link = import->next;
    atomic_fetch_sub(&gb_own_imports, 1);
}

void gb_own_free_ends(struct gb_own_import *import, bool freed)
{
    bool gone;

    if (!import)
        return;
    gb_lock_take(&lock);
    import->freeing = import->freed = freed;
    gone = freed && !import->pool;
    if (gone)
        take_out(import);
    gb_lock_drop(&lock);
    if (gone)
        discharge(import);
}

uint64_t gb_own_moment(void)
{
    return atomic_load(&moment);
}

void gb_own_pool_ended(struct gb_driver *drv, CUmemoryPool pool, uint64_t before)
{
    struct gb_own_import *one, *next, *gone = NULL;

    if (!gb_own_imports_any())
        return;
    gb_lock_take(&lock);
    for (one = imports; one; one = next) {
        next = one->next;
        if (one->drv != drv || one->pool != pool || one->born > before)
            continue;
        one->pool = NULL;
        if (!one->freed)
            continue;
        take_out(one);
        one->next = gone;
        gone = one;
    }
    gb_lock_drop(&lock);
    for (; gone; gone = next) {
        next = gone->next;
        discharge(gone);
    }
}
