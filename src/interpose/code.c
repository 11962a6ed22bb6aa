/*
 * code.c: the modules and libraries of the process that ask for more than their load takes.
 */
#include "interpose/code.h"

#include <stdlib.h>

#include "interpose/fork.h"
#include "interpose/managed_code.h"
#include "resource/lock.h"

atomic_int gb_code_libraries;

static struct gb_code *table;
static struct gb_lock lock = GB_LOCK_INIT;

/* Contexts do not outlive a fork, and so neither does what is loaded. */
static void in_child(void)
{
    table = NULL;
    gb_lock_init(&lock);
    atomic_store(&gb_code_libraries, 0);
}

static bool counts(const struct gb_code *code)
{
    return code->is_library &&
           (code->image.variables > 0 || code->image.frames > 0 || code->image.managed > 0);
}

static struct gb_code *find(const void *handle)
{
    struct gb_code *found;

    HASH_FIND(hh, table, &handle, sizeof(handle), found);
    return found;
}

/* With the lock held. */
static bool add(struct gb_code *code)
{
    code->hh.tbl = NULL;
    HASH_ADD(hh, table, handle, sizeof(code->handle), code);
    if (!code->hh.tbl)
        return false;
    atomic_fetch_add(&gb_code_libraries, counts(code) ? 1 : 0);
    return true;
}

void gb_code_loaded(struct gb_driver *drv, const void *handle, bool is_library,
                    struct gb_image image, uint64_t managed)
{
    struct gb_code told = {
        .handle = handle, .image = image, .is_library = is_library, .managed = managed};
    struct gb_code *code, *made = NULL;
    CUcontext context = NULL;

    gb_fork_on_child(in_child);
    if (!is_library && drv->api.cuCtxGetCurrent(&context) != CUDA_SUCCESS)
        context = NULL;
    told.context = context;
    /* Without memory it is not known: what comes is charged afterwards, and what is charged
     * for managed variables stays charged. */
    if (!is_library || image.has_heap || managed != 0 || counts(&told))
        made = calloc(1, sizeof(*made));
    if (made)
        *made = told;
    gb_lock_take(&lock);
    /* One that ended without our seeing it, with its context. */
    code = find(handle);
    if (code) {
        HASH_DELETE(hh, table, code);
        atomic_fetch_sub(&gb_code_libraries, counts(code) ? 1 : 0);
    }
    if (made && add(made))
        made = NULL;
    gb_lock_drop(&lock);
    if (code)
        gb_managed_return(code->managed);
    free(code);
    free(made);
}

struct gb_code *gb_code_take(const void *handle)
{
    struct gb_code *code;

    gb_lock_take(&lock);
    code = find(handle);
    if (code) {
        HASH_DELETE(hh, table, code);
        atomic_fetch_sub(&gb_code_libraries, counts(code) ? 1 : 0);
    }
    gb_lock_drop(&lock);
    return code;
}

void gb_code_unloaded(struct gb_code *code, bool refused)
{
    if (code && refused) {
        gb_lock_take(&lock);
        if (add(code))
            code = NULL;
        gb_lock_drop(&lock);
    }
    if (code && !refused)
        gb_managed_return(code->managed);
    free(code);
}

CUcontext gb_code_context(const void *handle)
{
    const struct gb_code *code;
    CUcontext context;

    gb_lock_take(&lock);
    code = find(handle);
    context = code ? code->context : NULL;
    gb_lock_drop(&lock);
    return context;
}

bool gb_code_has_heap(const void *handle)
{
    const struct gb_code *code;
    bool has_heap;

    gb_lock_take(&lock);
    code = find(handle);
    has_heap = code && code->image.has_heap;
    gb_lock_drop(&lock);
    return has_heap;
}

bool gb_code_any_heap(void)
{
    const struct gb_code *code, *next;
    bool has_heap = false;

    gb_lock_take(&lock);
    HASH_ITER(hh, table, code, next)
    has_heap |= code->image.has_heap;
    gb_lock_drop(&lock);
    return has_heap;
}

bool gb_code_brings(const void *handle, struct gb_image *image)
{
    const struct gb_code *code;
    bool brings;

    gb_lock_take(&lock);
    code = find(handle);
    brings = code && counts(code);
    if (brings)
        *image = code->image;
    gb_lock_drop(&lock);
    return brings;
}

enum gb_code_arrival gb_code_arrival(const void *handle, uint64_t serial)
{
    enum gb_code_arrival arrival = GB_CODE_MINE;
    struct gb_code *code;

    gb_lock_take(&lock);
    code = find(handle);
    for (int i = 0; code && i < GB_CODE_CONTEXTS; i++)
        if (code->serials[i] == serial)
            arrival = GB_CODE_HERE;
    if (!code)
        arrival = GB_CODE_HERE;
    else if (arrival == GB_CODE_MINE && code->coming == serial)
        arrival = GB_CODE_COMING;
    else if (arrival == GB_CODE_MINE)
        code->coming = serial;
    gb_lock_drop(&lock);
    return arrival;
}

void gb_code_brought(const void *handle, uint64_t serial, bool came)
{
    struct gb_code *code;

    gb_lock_take(&lock);
    code = find(handle);
    if (code && code->coming == serial)
        code->coming = 0;
    if (code && came) {
        code->serials[code->next] = serial;
        code->next = (code->next + 1) % GB_CODE_CONTEXTS;
    }
    gb_lock_drop(&lock);
}

enum gb_code_arrival gb_code_managed_arrival(const void *handle)
{
    enum gb_code_arrival arrival = GB_CODE_HERE;
    struct gb_code *code;

    gb_lock_take(&lock);
    code = find(handle);
    if (code && code->managed == 0 && code->image.managed > 0) {
        arrival = code->managed_coming ? GB_CODE_COMING : GB_CODE_MINE;
        code->managed_coming = true;
    }
    gb_lock_drop(&lock);
    return arrival;
}

void gb_code_managed_brought(const void *handle, uint64_t managed)
{
    struct gb_code *code;

    gb_lock_take(&lock);
    code = find(handle);
    if (code)
        code->managed_coming = false;
    /* Of two that did not wait for each other the first counts. */
    if (code && code->managed == 0) {
        code->managed = managed;
        managed = 0;
    }
    gb_lock_drop(&lock);
    gb_managed_return(managed);
}
