/*
 * kernel_params.c: the pointers among a kernel's parameters.
 */
#include "interpose/kernel_params.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "interpose/fork.h"
#include "interpose/functions_known.h"
#include "resource/capture.h"
#include "resource/hash.h"
#include "resource/lock.h"

/* A parameter that has room for a pointer. */
struct wide {
    unsigned index;
    unsigned bytes;
};

/*
 * What is known of one function. Invariant: it lives while it stands in a table or a launch
 * reads it; what it says never changes.
 */
struct layout {
    const void *handle;
    atomic_uint references;
    unsigned count;
    UT_hash_handle hh;
    struct wide wide[];
};

static struct layout *tables[GB_DRIVER_MAX];
static struct gb_lock lock = GB_LOCK_INIT;

static void in_child(void)
{
    for (int i = 0; i < GB_DRIVER_MAX; i++)
        tables[i] = NULL;
    gb_lock_init(&lock);
}

static void let_go(struct layout *layout)
{
    if (layout && atomic_fetch_sub(&layout->references, 1) == 1)
        free(layout);
}

/* With a reference for the caller; NULL: not known. */
static struct layout *find(const struct gb_driver *drv, const void *handle)
{
    struct layout *found;

    gb_lock_take(&lock);
    HASH_FIND(hh, tables[drv->index], &handle, sizeof(handle), found);
    if (found)
        atomic_fetch_add(&found->references, 1);
    gb_lock_drop(&lock);
    return found;
}

/* Keeps it for the next launch, where another thread has not and there is memory. */
static void keep(const struct gb_driver *drv, struct layout *layout)
{
    struct layout *older;

    gb_fork_on_child(in_child);
    gb_lock_take(&lock);
    HASH_FIND(hh, tables[drv->index], &layout->handle, sizeof(layout->handle), older);
    if (!older) {
        HASH_ADD(hh, tables[drv->index], handle, sizeof(layout->handle), layout);
        if (layout->hh.tbl)
            atomic_fetch_add(&layout->references, 1);
    }
    gb_lock_drop(&lock);
}

/* The driver's answer about one parameter. */
static CUresult ask(const struct gb_driver_api *api, const void *handle, bool is_kernel,
                    unsigned index, size_t *bytes)
{
    size_t offset = 0;

    *bytes = 0;
    if (is_kernel)
        return api->cuKernelGetParamInfo((CUkernel)(uintptr_t)handle, index, &offset, bytes);
    return api->cuFuncGetParamInfo((CUfunction)(uintptr_t)handle, index, &offset, bytes);
}

/* Room for one more; false, and nothing is left, without memory. */
static bool grow(struct layout **layout, unsigned *room, unsigned count)
{
    struct layout *grown;

    if (*layout && count < *room)
        return true;
    *room = *room > 0 ? *room * 2 : 8;
    grown = realloc(*layout, sizeof(*grown) + *room * sizeof(grown->wide[0]));
    if (!grown)
        free(*layout);
    *layout = grown;
    return grown != NULL;
}

/* NULL: the driver does not say, or (*lost) there is no memory. */
static struct layout *learn(const struct gb_driver *drv, const void *handle, bool is_kernel,
                            bool *lost)
{
    struct gb_capture_mode saved = gb_capture_relax(&drv->api);
    CUresult code = CUDA_SUCCESS;
    struct layout *layout = NULL;
    unsigned room = 0, count = 0;
    size_t bytes;

    for (unsigned i = 0; code == CUDA_SUCCESS && i < GB_PARAM_BYTES_MOST; i++) {
        if (!grow(&layout, &room, count)) {
            *lost = true;
            break;
        }
        code = ask(&drv->api, handle, is_kernel, i, &bytes);
        if (code == CUDA_SUCCESS && bytes >= sizeof(CUdeviceptr) && bytes < GB_PARAM_BYTES_MOST)
            layout->wide[count++] = (struct wide){i, (unsigned)bytes};
    }
    gb_capture_restore(&drv->api, &saved);
    /* There is no parameter of that number: the list is whole. */
    if (layout && code != CUDA_ERROR_INVALID_VALUE) {
        free(layout);
        layout = NULL;
    }
    if (!layout)
        return NULL;
    layout->handle = handle;
    layout->count = count;
    memset(&layout->hh, 0, sizeof(layout->hh));
    atomic_init(&layout->references, 1);
    keep(drv, layout);
    return layout;
}

/* The driver launches functions and kernels by the same call but tells of them by two, and
 * nobody says what it does with a handle of the other kind: one of unknown origin is not asked
 * about. */
static struct layout *layout_of(const struct gb_driver *drv, const void *handle, bool *lost)
{
    struct layout *layout = find(drv, handle);
    bool is_kernel;

    if (layout || !gb_known_origin(handle, &is_kernel) ||
        (is_kernel && !drv->api.cuKernelGetParamInfo))
        return layout;
    return learn(drv, handle, is_kernel, lost);
}

static void touch_words(struct gb_order *order, const void *bytes, size_t count)
{
    CUdeviceptr word;

    for (size_t at = 0; at + sizeof(word) <= count; at += sizeof(word)) {
        memcpy(&word, (const char *)bytes + at, sizeof(word));
        gb_order_touch(order, word);
    }
}

/* All parameters as they lie in the card's memory, in one piece of the program's. */
static void touch_extra(struct gb_order *order, void **extra)
{
    const void *buffer = NULL;
    const size_t *bytes = NULL;

    for (; *extra != CU_LAUNCH_PARAM_END; extra += 2) {
        if (*extra == CU_LAUNCH_PARAM_BUFFER_POINTER)
            buffer = extra[1];
        else if (*extra == CU_LAUNCH_PARAM_BUFFER_SIZE)
            bytes = extra[1];
        else
            return; /* what it is the driver knows */
    }
    if (buffer && bytes && *bytes < GB_PARAM_BYTES_MOST)
        touch_words(order, buffer, *bytes);
}

void gb_kernel_params_touch(struct gb_order *order, CUfunction function, void **params,
                            void **extra)
{
    struct layout *layout;

    if (extra)
        touch_extra(order, extra);
    if (!params)
        return;
    layout = layout_of(order->drv, function, &order->lost);
    for (unsigned i = 0; layout && i < layout->count; i++) {
        const struct wide *wide = &layout->wide[i];

        if (params[wide->index])
            touch_words(order, params[wide->index], wide->bytes);
    }
    let_go(layout);
}

void gb_kernel_params_drop(const void *handle)
{
    struct layout *found;

    for (int i = 0; i < GB_DRIVER_MAX; i++) {
        gb_lock_take(&lock);
        HASH_FIND(hh, tables[i], &handle, sizeof(handle), found);
        if (found)
            HASH_DELETE(hh, tables[i], found);
        gb_lock_drop(&lock);
        let_go(found);
    }
}

void gb_kernel_params_forget(void)
{
    struct layout *one, *next;

    gb_lock_take(&lock);
    for (int i = 0; i < GB_DRIVER_MAX; i++)
        HASH_ITER(hh, tables[i], one, next)
        {
            HASH_DELETE(hh, tables[i], one);
            let_go(one);
        }
    gb_lock_drop(&lock);
}
