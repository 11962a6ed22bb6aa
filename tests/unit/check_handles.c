/*
 * Physical memory: what keeps it charged, on a driver of the test's own. That one gives the
 * value of a handle that is gone to the next one at once, as no real one need do, and says when
 * it is asked to.
 */
#include "resource/backend.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "failing_malloc.h"
#include "resource/handles.h"
#include "resource/resource.h"
#include "unit.h"

/* ---- the driver ---- */

enum { SLOTS = 12, PAGES = 16 };

static struct {
    pthread_mutex_t lock;
    struct {
        unsigned references, mappings;
        uint64_t bytes;
    } slots[SLOTS];
    int pages[PAGES]; /* which slot is mapped there, from 1 */
    bool refuse;      /* all but create */
} fake = {.lock = PTHREAD_MUTEX_INITIALIZER};

static CUresult fake_create(CUmemGenericAllocationHandle *handle, size_t size,
                            const CUmemAllocationProp *prop, unsigned long long flags)
{
    CUresult code = CUDA_ERROR_OUT_OF_MEMORY;

    if (!prop || flags || prop->location.type != CU_MEM_LOCATION_TYPE_DEVICE)
        return CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&fake.lock);
    for (unsigned i = 0; i < SLOTS; i++) {
        if (fake.slots[i].references || fake.slots[i].mappings)
            continue;
        fake.slots[i].references = 1;
        fake.slots[i].bytes = size;
        *handle = 1 + i;
        code = CUDA_SUCCESS;
        break;
    }
    pthread_mutex_unlock(&fake.lock);
    return code;
}

static CUresult fake_release(CUmemGenericAllocationHandle handle)
{
    CUresult code = CUDA_ERROR_INVALID_VALUE;

    pthread_mutex_lock(&fake.lock);
    if (!fake.refuse && handle >= 1 && handle <= SLOTS &&
        fake.slots[handle - 1].references > 0) {
        fake.slots[handle - 1].references--;
        code = CUDA_SUCCESS;
    }
    pthread_mutex_unlock(&fake.lock);
    return code;
}

static CUresult fake_map(unsigned page, CUmemGenericAllocationHandle handle)
{
    CUresult code = CUDA_ERROR_INVALID_VALUE;

    pthread_mutex_lock(&fake.lock);
    if (!fake.refuse && !fake.pages[page] && fake.slots[handle - 1].references > 0) {
        fake.pages[page] = (int)handle;
        fake.slots[handle - 1].mappings++;
        code = CUDA_SUCCESS;
    }
    pthread_mutex_unlock(&fake.lock);
    return code;
}

static CUresult fake_unmap(unsigned page, unsigned pages)
{
    CUresult code = fake.refuse ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;

    pthread_mutex_lock(&fake.lock);
    for (unsigned i = page; i < page + pages; i++)
        if (!fake.pages[i])
            code = CUDA_ERROR_INVALID_VALUE;
    for (unsigned i = page; i < page + pages && code == CUDA_SUCCESS; i++) {
        fake.slots[fake.pages[i] - 1].mappings--;
        fake.pages[i] = 0;
    }
    pthread_mutex_unlock(&fake.lock);
    return code;
}

static CUresult fake_retain(CUmemGenericAllocationHandle *handle, unsigned page)
{
    CUresult code = CUDA_ERROR_INVALID_VALUE;

    pthread_mutex_lock(&fake.lock);
    if (!fake.refuse && fake.pages[page]) {
        *handle = (CUmemGenericAllocationHandle)fake.pages[page];
        fake.slots[*handle - 1].references++;
        code = CUDA_SUCCESS;
    }
    pthread_mutex_unlock(&fake.lock);
    return code;
}

static uint64_t fake_bytes(void)
{
    uint64_t bytes = 0;

    for (int i = 0; i < SLOTS; i++)
        if (fake.slots[i].references || fake.slots[i].mappings)
            bytes += fake.slots[i].bytes;
    return bytes;
}

/* Between the driver's answer and its note other threads come first, where there are any. */
static void late(void)
{
    sched_yield();
}

/* ---- the program's calls, as the handlers make them ---- */

static struct gb_driver_api api = {.cuMemCreate = fake_create, .cuMemRelease = fake_release};
static struct gb_driver_api other_api;
static struct gb_backend backend;

static void begin(void)
{
    const struct gb_backend_options options = {.api = &api};

    gb_backend_init(&backend, &options);
}

static uint64_t charged(void)
{
    return gpubudget_bytes_outstanding(&backend.resource);
}

static bool try_create(uint64_t bytes, gpubudget_block_t *block)
{
    gpubudget_request_t request = {.bytes = bytes, .kind = GPUBUDGET_KIND_HANDLE, .tag = 42};

    return gpubudget_materialize(&backend.resource, &request, block, NULL) == GPUBUDGET_OK;
}

static CUmemGenericAllocationHandle create(uint64_t bytes)
{
    gpubudget_block_t block;

    ck_assert(try_create(bytes, &block));
    ck_assert_uint_eq(block.bytes, bytes);
    ck_assert_uint_eq(block.requested, bytes);
    ck_assert_uint_eq(block.tag, 42);
    ck_assert_int_eq(block.kind, GPUBUDGET_KIND_HANDLE);
    ck_assert_uint_ne(block.id.generation, 0);
    return block.id.pointer;
}

static CUresult release(CUmemGenericAllocationHandle handle)
{
    struct gb_memory *memory = gb_handle_hold(&api, handle, 0);
    CUresult code = fake_release(handle);

    late();
    if (memory)
        gb_handle_released(memory, handle, code == CUDA_SUCCESS);
    return code;
}

static uint64_t address_of(unsigned page)
{
    return GIB + page * 2 * MIB;
}

static struct gb_mapping *new_mapping(void)
{
    return calloc(1, sizeof(struct gb_mapping));
}

static CUresult map(unsigned page, CUmemGenericAllocationHandle handle)
{
    struct gb_memory *memory = gb_handle_hold(&api, handle, 0);
    CUresult code = fake_map(page, handle);

    late();
    if (memory && code == CUDA_SUCCESS)
        gb_memory_mapped(memory, new_mapping(), address_of(page), 2 * MIB);
    else
        gb_memory_drop(memory);
    return code;
}

static CUresult unmap(unsigned page, unsigned pages)
{
    uint64_t moment = gb_handles_moment();
    CUresult code = fake_unmap(page, pages);

    late();
    if (code == CUDA_SUCCESS)
        gb_handles_unmapped(&api, address_of(page), pages * 2 * MIB, moment);
    return code;
}

static CUresult retain(CUmemGenericAllocationHandle *handle, unsigned page)
{
    struct gb_memory *memory = gb_mapping_hold(&api, address_of(page) + MIB);
    struct gb_handle *spare = memory ? gb_handle_new() : NULL;
    CUresult code = fake_retain(handle, page);

    late();
    if (code == CUDA_SUCCESS) {
        ck_assert(gb_handle_retained(memory, spare, &api, address_of(page) + MIB, *handle));
    } else {
        free(spare);
        gb_memory_drop(memory);
    }
    return code;
}

static void export(CUmemGenericAllocationHandle handle)
{
    struct gb_memory *memory = gb_handle_hold(&api, handle, 0);

    ck_assert_ptr_nonnull(memory);
    gb_memory_exported(memory, -1);
    gb_memory_drop(memory);
}

static void expect_nothing(void)
{
    ck_assert_uint_eq(charged(), 0);
    ck_assert_uint_eq(gb_handles_count(), 0);
    ck_assert(!gb_handles_any());
    gpubudget_resource_destroy(&backend.resource);
}

/* ---- references and mappings ---- */

START_TEST(test_created_and_released)
{
    CUmemGenericAllocationHandle one, two;

    begin();
    one = create(4 * MIB);
    two = create(6 * MIB);
    ck_assert_uint_eq(charged(), 10 * MIB);
    ck_assert_int_eq(release(one), CUDA_SUCCESS);
    ck_assert_uint_eq(charged(), 6 * MIB);
    ck_assert_int_eq(release(one), CUDA_ERROR_INVALID_VALUE);
    ck_assert_uint_eq(charged(), 6 * MIB);
    ck_assert_int_eq(release(two), CUDA_SUCCESS);
    expect_nothing();
}
END_TEST

START_TEST(test_released_while_mapped)
{
    CUmemGenericAllocationHandle one, again;

    begin();
    one = create(2 * MIB);
    ck_assert_int_eq(map(3, one), CUDA_SUCCESS);
    ck_assert_int_eq(release(one), CUDA_SUCCESS);
    ck_assert_uint_eq(charged(), 2 * MIB);
    /* Its handle comes to life again, and is released again. */
    ck_assert_int_eq(retain(&again, 3), CUDA_SUCCESS);
    ck_assert_int_eq(unmap(3, 1), CUDA_SUCCESS);
    ck_assert_uint_eq(charged(), 2 * MIB);
    ck_assert_int_eq(release(again), CUDA_SUCCESS);
    expect_nothing();
}
END_TEST

START_TEST(test_retained)
{
    CUmemGenericAllocationHandle one, again;

    begin();
    one = create(2 * MIB);
    ck_assert_int_eq(map(0, one), CUDA_SUCCESS);
    ck_assert_int_eq(retain(&again, 0), CUDA_SUCCESS);
    ck_assert_int_eq(retain(&again, 1), CUDA_ERROR_INVALID_VALUE);
    ck_assert_int_eq(release(one), CUDA_SUCCESS);
    ck_assert_int_eq(unmap(0, 1), CUDA_SUCCESS);
    ck_assert_uint_eq(charged(), 2 * MIB);
    ck_assert_int_eq(release(again), CUDA_SUCCESS);
    expect_nothing();
}
END_TEST

START_TEST(test_several_mappings)
{
    CUmemGenericAllocationHandle one, two;

    begin();
    one = create(2 * MIB);
    two = create(2 * MIB);
    ck_assert_int_eq(map(0, one), CUDA_SUCCESS);
    ck_assert_int_eq(map(1, two), CUDA_SUCCESS);
    ck_assert_int_eq(map(2, one), CUDA_SUCCESS);
    ck_assert_int_eq(release(one), CUDA_SUCCESS);
    ck_assert_int_eq(release(two), CUDA_SUCCESS);
    ck_assert_uint_eq(charged(), 4 * MIB);
    ck_assert_int_eq(unmap(1, 2), CUDA_SUCCESS);
    ck_assert_uint_eq(charged(), 2 * MIB);
    ck_assert_int_eq(unmap(0, 1), CUDA_SUCCESS);
    expect_nothing();
}
END_TEST

/* What was unmapped in part, whatever a driver may think of it, is not unmapped. */
START_TEST(test_part_of_a_mapping)
{
    CUmemGenericAllocationHandle one;
    struct gb_memory *memory;

    begin();
    one = create(8 * MIB);
    memory = gb_handle_hold(&api, one, 0);
    gb_memory_mapped(memory, new_mapping(), GIB, 8 * MIB);
    ck_assert_int_eq(release(one), CUDA_SUCCESS);
    gb_handles_unmapped(&api, GIB, 6 * MIB, gb_handles_moment());
    gb_handles_unmapped(&api, GIB + 2 * MIB, 8 * MIB, gb_handles_moment());
    gb_handles_unmapped(&other_api, GIB, 8 * MIB, gb_handles_moment());
    ck_assert_uint_eq(charged(), 8 * MIB);
    gb_handles_unmapped(&api, GIB, 8 * MIB, gb_handles_moment());
    expect_nothing();
}
END_TEST

START_TEST(test_driver_refuses)
{
    CUmemGenericAllocationHandle one, again;

    begin();
    one = create(2 * MIB);
    ck_assert_int_eq(map(5, one), CUDA_SUCCESS);
    fake.refuse = true;
    ck_assert_int_eq(release(one), CUDA_ERROR_INVALID_VALUE);
    ck_assert_int_eq(map(6, one), CUDA_ERROR_INVALID_VALUE);
    ck_assert_int_eq(unmap(5, 1), CUDA_ERROR_INVALID_VALUE);
    ck_assert_int_eq(retain(&again, 5), CUDA_ERROR_INVALID_VALUE);
    fake.refuse = false;
    ck_assert_int_eq(unmap(5, 1), CUDA_SUCCESS);
    ck_assert_uint_eq(charged(), 2 * MIB);
    ck_assert_int_eq(release(one), CUDA_SUCCESS);
    expect_nothing();
}
END_TEST

/* ---- between the driver's answer and its note ---- */

START_TEST(test_value_given_out_again)
{
    CUmemGenericAllocationHandle one;
    struct gb_memory *memory;

    begin();
    one = create(2 * MIB);
    memory = gb_handle_hold(&api, one, 0);
    ck_assert_int_eq(fake_release(one), CUDA_SUCCESS);
    /* Another thread has the value before this one has noted the release. */
    ck_assert_uint_eq(create(6 * MIB), one);
    ck_assert_uint_eq(charged(), 8 * MIB);
    gb_handle_released(memory, one, true);
    ck_assert_uint_eq(charged(), 6 * MIB);
    ck_assert_int_eq(release(one), CUDA_SUCCESS);
    expect_nothing();
}
END_TEST

/* The same, where the new one is nothing of ours: host memory, for instance. */
START_TEST(test_value_given_to_another)
{
    CUmemGenericAllocationHandle one;
    struct gb_memory *memory;

    begin();
    one = create(2 * MIB);
    memory = gb_handle_hold(&api, one, 0);
    ck_assert_int_eq(fake_release(one), CUDA_SUCCESS);
    gb_handles_born(&api, one);
    ck_assert_ptr_null(gb_handle_hold(&api, one, 0));
    ck_assert_uint_eq(charged(), 2 * MIB);
    gb_handle_released(memory, one, true);
    expect_nothing();
}
END_TEST

START_TEST(test_two_releases_of_one_reference)
{
    CUmemGenericAllocationHandle one;
    struct gb_memory *first, *second;

    begin();
    one = create(2 * MIB);
    first = gb_handle_hold(&api, one, 0);
    second = gb_handle_hold(&api, one, 0);
    ck_assert_ptr_eq(first, second);
    gb_handle_released(first, one, true);
    ck_assert_uint_eq(charged(), 2 * MIB);
    ck_assert_ptr_null(gb_handle_hold(&api, one, 0));
    gb_handle_released(second, one, false);
    ck_assert_int_eq(fake_release(one), CUDA_SUCCESS);
    expect_nothing();
}
END_TEST

/* A mapping that is noted while an unmap of the same range is in the driver. */
START_TEST(test_mapped_again_before_the_note)
{
    CUmemGenericAllocationHandle one, two;
    uint64_t moment;

    begin();
    one = create(2 * MIB);
    two = create(4 * MIB);
    ck_assert_int_eq(map(0, one), CUDA_SUCCESS);
    ck_assert_int_eq(release(one), CUDA_SUCCESS);
    moment = gb_handles_moment();
    ck_assert_int_eq(fake_unmap(0, 1), CUDA_SUCCESS);
    ck_assert_int_eq(map(0, two), CUDA_SUCCESS);
    ck_assert_int_eq(release(two), CUDA_SUCCESS);
    ck_assert_uint_eq(charged(), 6 * MIB);
    gb_handles_unmapped(&api, address_of(0), 2 * MIB, moment);
    ck_assert_uint_eq(charged(), 4 * MIB);
    ck_assert_int_eq(unmap(0, 1), CUDA_SUCCESS);
    expect_nothing();
}
END_TEST

/* One that is noted late, when its range has been given to another: charged until the unmap. */
START_TEST(test_mapping_noted_late)
{
    CUmemGenericAllocationHandle one, two;
    struct gb_memory *memory;

    begin();
    one = create(2 * MIB);
    two = create(4 * MIB);
    memory = gb_handle_hold(&api, one, 0);
    ck_assert_int_eq(fake_map(0, one), CUDA_SUCCESS);
    ck_assert_int_eq(unmap(0, 1), CUDA_SUCCESS);
    ck_assert_int_eq(map(0, two), CUDA_SUCCESS);
    gb_memory_mapped(memory, new_mapping(), address_of(0), 2 * MIB);
    ck_assert_int_eq(release(one), CUDA_SUCCESS);
    ck_assert_int_eq(release(two), CUDA_SUCCESS);
    ck_assert_uint_eq(charged(), 6 * MIB);
    ck_assert_int_eq(unmap(0, 1), CUDA_SUCCESS);
    expect_nothing();
}
END_TEST

/* The mapping has changed while the driver was asked: both may be the one that was retained. */
START_TEST(test_retained_of_another_mapping)
{
    CUmemGenericAllocationHandle one, two, again = 0;
    struct gb_memory *memory;

    begin();
    one = create(2 * MIB);
    two = create(4 * MIB);
    ck_assert_int_eq(map(0, one), CUDA_SUCCESS);
    memory = gb_mapping_hold(&api, address_of(0));
    ck_assert_int_eq(unmap(0, 1), CUDA_SUCCESS);
    ck_assert_int_eq(map(0, two), CUDA_SUCCESS);
    ck_assert_int_eq(release(two), CUDA_SUCCESS);
    ck_assert_int_eq(fake_retain(&again, 0), CUDA_SUCCESS);
    ck_assert_uint_eq(again, two);
    ck_assert(gb_handle_retained(memory, gb_handle_new(), &api, address_of(0), again));
    ck_assert_int_eq(unmap(0, 1), CUDA_SUCCESS);
    ck_assert_uint_eq(charged(), 6 * MIB);
    ck_assert_int_eq(release(two), CUDA_SUCCESS);
    ck_assert_int_eq(release(one), CUDA_SUCCESS);
    ck_assert_uint_eq(charged(), 4 * MIB);
    ck_assert_uint_eq(gb_handles_count(), 0);
}
END_TEST

/* ---- shared ---- */

START_TEST(test_exported)
{
    CUmemGenericAllocationHandle one;

    begin();
    one = create(2 * MIB);
    ck_assert_int_eq(map(0, one), CUDA_SUCCESS);
    export(one);
    ck_assert_int_eq(release(one), CUDA_SUCCESS);
    ck_assert_uint_eq(gb_backend_tracked(&backend), 2 * MIB);
    ck_assert_int_eq(unmap(0, 1), CUDA_SUCCESS);
    /* The card has it still, but its tools show it for this process no more. */
    ck_assert_uint_eq(charged(), 2 * MIB);
    ck_assert_uint_eq(gb_backend_tracked(&backend), 0);
    ck_assert_uint_eq(gb_handles_count(), 0);
}
END_TEST

START_TEST(test_imported)
{
    CUmemGenericAllocationHandle one;

    begin();
    one = create(2 * MIB);
    gb_handles_imported(gb_memory_new(), &api, 77, NULL);
    ck_assert_uint_eq(charged(), 2 * MIB);
    ck_assert_int_eq(map(0, one), CUDA_SUCCESS);
    gb_memory_mapped(gb_handle_hold(&api, 77, 0), new_mapping(), address_of(1), 2 * MIB);
    gb_handle_released(gb_handle_hold(&api, 77, 0), 77, true);
    ck_assert_uint_eq(gb_handles_count(), 2);
    gb_handles_unmapped(&api, address_of(1), 2 * MIB, gb_handles_moment());
    ck_assert_uint_eq(gb_handles_count(), 1);
    ck_assert_uint_eq(charged(), 2 * MIB);
    /* Without an entry nothing is known, and nothing goes wrong. */
    gb_handles_imported(NULL, &api, 78, NULL);
    ck_assert_ptr_null(gb_handle_hold(&api, 78, 0));
    ck_assert_int_eq(unmap(0, 1), CUDA_SUCCESS);
    ck_assert_int_eq(release(one), CUDA_SUCCESS);
    expect_nothing();
}
END_TEST

/* The driver may give our own memory the value that it has already, or another one. */
START_TEST(test_imported_own)
{
    CUmemGenericAllocationHandle one;

    begin();
    one = create(2 * MIB);
    export(one);
    gb_handles_imported(gb_memory_new(), &api, one, NULL);
    gb_handles_imported(gb_memory_new(), &api, 78, NULL);
    ck_assert_uint_eq(charged(), 2 * MIB);
    ck_assert_int_eq(release(one), CUDA_SUCCESS);
    gb_handle_released(gb_handle_hold(&api, 78, 0), 78, true);
    ck_assert_uint_eq(gb_handles_count(), 1);
    gb_handle_released(gb_handle_hold(&api, one, 0), one, true);
    ck_assert_uint_eq(gb_handles_count(), 0);
    ck_assert_uint_eq(charged(), 2 * MIB);
}
END_TEST

START_TEST(test_held_range)
{
    CUmemGenericAllocationHandle handles[SLOTS];
    struct gb_held held;
    bool done;

    begin();
    ck_assert(gb_handles_hold_range(&api, GIB, GIB, &held));
    ck_assert_uint_eq(held.count, 0);
    gb_held_drop(&held);
    for (unsigned i = 0; i < SLOTS; i++) {
        handles[i] = create(2 * MIB);
        ck_assert_int_eq(map(i, handles[i]), CUDA_SUCCESS);
    }
    ck_assert(gb_handles_hold_range(&api, address_of(2) + 5, 2 * MIB, &held));
    ck_assert_uint_eq(held.count, 2);
    gb_held_drop(&held);
    /* More than are held without host memory. */
    ck_assert_int_gt(SLOTS, GB_HELD_FEW);
    malloc_fail_after(0);
    done = gb_handles_hold_range(&api, GIB, GIB, &held);
    ck_assert_int_gt(malloc_recover(), 0);
    ck_assert(!done);
    ck_assert(gb_handles_hold_range(&api, GIB, GIB, &held));
    ck_assert_uint_eq(held.count, SLOTS);
    for (unsigned i = 0; i < SLOTS; i++)
        ck_assert_int_eq(release(handles[i]), CUDA_SUCCESS);
    ck_assert_int_eq(unmap(0, SLOTS), CUDA_SUCCESS);
    ck_assert_uint_eq(charged(), SLOTS * 2 * MIB);
    gb_held_drop(&held);
    expect_nothing();
}
END_TEST

/* ---- multicast ---- */

#define OBJECT ((CUmemGenericAllocationHandle)500)

static void new_object(void)
{
    ck_assert(gb_handles_add(gb_memory_new(), &api, OBJECT));
}

static void release_object(void)
{
    gb_handle_released(gb_handle_hold(&api, OBJECT, 0), OBJECT, true);
}

static void bind(CUmemGenericAllocationHandle handle, uint64_t offset, uint64_t size)
{
    struct gb_memory *object = gb_handle_hold(&api, OBJECT, 0);
    struct gb_held held;

    gb_held_set(&held, gb_handle_hold(&api, handle, 0));
    gb_multicast_bound(object, &held, gb_multicast_bindings_new(&held), offset, size);
    gb_held_drop(&held);
    gb_memory_drop(object);
}

static void unbind(int device, uint64_t offset, uint64_t size)
{
    struct gb_memory *object = gb_handle_hold(&api, OBJECT, 0);

    ck_assert_ptr_nonnull(object);
    gb_multicast_unbound(object, device, offset, size, gb_handles_moment());
    gb_memory_drop(object);
}

START_TEST(test_multicast)
{
    CUmemGenericAllocationHandle one, two;

    begin();
    one = create(4 * MIB);
    two = create(2 * MIB);
    new_object();
    bind(one, 0, 4 * MIB);
    bind(two, 4 * MIB, 2 * MIB);
    ck_assert_int_eq(release(one), CUDA_SUCCESS);
    ck_assert_int_eq(release(two), CUDA_SUCCESS);
    unbind(1, 0, 4 * MIB); /* another device's */
    unbind(0, 0, 2 * MIB); /* not all of it */
    ck_assert_uint_eq(charged(), 6 * MIB);
    unbind(0, 0, 4 * MIB);
    ck_assert_uint_eq(charged(), 2 * MIB);
    /* The object ends with what is bound to it, when its mapping has gone too. */
    gb_memory_mapped(gb_handle_hold(&api, OBJECT, 0), new_mapping(), GIB, 6 * MIB);
    release_object();
    ck_assert_uint_eq(charged(), 2 * MIB);
    gb_handles_unmapped(&api, GIB, 6 * MIB, gb_handles_moment());
    expect_nothing();
}
END_TEST

/* Another process may have an object that was exported: what is bound to it stays charged. */
START_TEST(test_multicast_exported)
{
    CUmemGenericAllocationHandle one, two;

    begin();
    one = create(4 * MIB);
    two = create(2 * MIB);
    new_object();
    export(OBJECT);
    bind(one, 0, 4 * MIB);
    bind(two, 4 * MIB, 2 * MIB);
    ck_assert_int_eq(release(one), CUDA_SUCCESS);
    ck_assert_int_eq(release(two), CUDA_SUCCESS);
    unbind(0, 4 * MIB, 2 * MIB);
    ck_assert_uint_eq(charged(), 4 * MIB);
    release_object();
    ck_assert_uint_eq(charged(), 4 * MIB);
    ck_assert_uint_eq(gb_handles_count(), 0);
}
END_TEST

START_TEST(test_multicast_unknown)
{
    CUmemGenericAllocationHandle one;

    begin();
    one = create(4 * MIB);
    bind(one, 0, 4 * MIB);
    ck_assert_int_eq(release(one), CUDA_SUCCESS);
    ck_assert_uint_eq(charged(), 4 * MIB);
    ck_assert_uint_eq(gb_handles_count(), 0);
}
END_TEST

START_TEST(test_multicast_no_host_memory)
{
    struct gb_held held;

    begin();
    create(2 * MIB);
    held.list = held.few;
    held.few[0] = held.few[1] = gb_handle_hold(&api, 1, 0);
    held.count = 2;
    for (long left = 0; left < 2; left++) {
        struct gb_multicast_binding *made;

        malloc_fail_after(left);
        made = gb_multicast_bindings_new(&held);
        ck_assert_int_gt(malloc_recover(), 0);
        ck_assert_ptr_null(made);
    }
    gb_multicast_bindings_free(gb_multicast_bindings_new(&held));
    gb_memory_drop(held.few[0]);
    ck_assert_int_eq(release(1), CUDA_SUCCESS);
    expect_nothing();
}
END_TEST

/* ---- sparse arrays ---- */

#define ARRAY ((CUarray)(uintptr_t)0x7000)

static CUarrayMapInfo part_of(unsigned x, unsigned width)
{
    CUarrayMapInfo part = {.resourceType = CU_RESOURCE_TYPE_ARRAY,
                           .resource = {.array = ARRAY},
                           .memOperationType = CU_MEM_OPERATION_TYPE_MAP,
                           .memHandleType = CU_MEM_HANDLE_TYPE_GENERIC,
                           .deviceBitMask = 1};

    part.subresource.sparseLevel.offsetX = x;
    part.subresource.sparseLevel.extentWidth = width;
    part.subresource.sparseLevel.extentHeight = 64;
    part.subresource.sparseLevel.extentDepth = 1;
    return part;
}

static void bind_part(CUmemGenericAllocationHandle handle, const CUarrayMapInfo *part,
                      uint64_t call)
{
    gb_array_bound(gb_array_binding_new(gb_handle_hold(&api, handle, 0), part), call);
}

/* As when the stream has got there. */
static unsigned unbind_part(const CUarrayMapInfo *part, uint64_t call)
{
    struct gb_array_binding *binding = gb_arrays_take(&api, part, call);
    unsigned count = 0;

    while (binding) {
        struct gb_array_binding *next = binding->next;

        gb_backend_settle(&backend, &binding->block);
        binding = next;
        count++;
    }
    return count;
}

START_TEST(test_arrays)
{
    CUarrayMapInfo left = part_of(0, 64), right = part_of(64, 64), both = part_of(0, 128);
    CUarrayMapInfo tail = both;
    CUmemGenericAllocationHandle one, two;
    uint64_t call;

    begin();
    one = create(4 * MIB);
    two = create(2 * MIB);
    call = gb_handles_moment();
    bind_part(one, &left, call);
    bind_part(two, &right, call);
    ck_assert(gb_arrays_any());
    ck_assert_int_eq(release(one), CUDA_SUCCESS);
    ck_assert_int_eq(release(two), CUDA_SUCCESS);
    ck_assert_uint_eq(charged(), 6 * MIB);
    /* Nothing of another array, level, layer or device. */
    both.resource.array = (CUarray)(uintptr_t)0x8000;
    ck_assert_uint_eq(unbind_part(&both, gb_handles_moment()), 0);
    both.resource.array = ARRAY;
    both.subresource.sparseLevel.level = 1;
    ck_assert_uint_eq(unbind_part(&both, gb_handles_moment()), 0);
    both.subresource.sparseLevel.level = 0;
    both.subresource.sparseLevel.layer = 1;
    ck_assert_uint_eq(unbind_part(&both, gb_handles_moment()), 0);
    both.subresource.sparseLevel.layer = 0;
    both.subresource.sparseLevel.offsetY = 64;
    ck_assert_uint_eq(unbind_part(&both, gb_handles_moment()), 0);
    both.subresource.sparseLevel.offsetY = 0;
    both.deviceBitMask = 2;
    ck_assert_uint_eq(unbind_part(&both, gb_handles_moment()), 0);
    both.deviceBitMask = 1;
    tail.subresourceType = CU_ARRAY_SPARSE_SUBRESOURCE_TYPE_MIPTAIL;
    ck_assert_uint_eq(unbind_part(&tail, gb_handles_moment()), 0);
    /* Nor what was bound after the call began, but by that call itself. */
    ck_assert_uint_eq(unbind_part(&left, call - 1), 0);
    ck_assert_uint_eq(unbind_part(&left, call), 1);
    ck_assert_uint_eq(charged(), 2 * MIB);
    gb_array_stays(gb_arrays_take(&api, &right, gb_handles_moment()));
    ck_assert_uint_eq(charged(), 2 * MIB);
    ck_assert_uint_eq(unbind_part(&both, gb_handles_moment()), 1);
    ck_assert(!gb_arrays_any());
    expect_nothing();
}
END_TEST

/* A block of 8 x 8 x 8 tiles loses one after the other, at random: the last one ends it. */
START_TEST(test_arrays_tile_by_tile)
{
    bool bound[8][8][8];
    CUarrayMapInfo part = part_of(0, 8);
    CUmemGenericAllocationHandle one;
    unsigned left = 8 * 8 * 8;

    begin();
    srand(1);
    one = create(2 * MIB);
    memset(bound, true, sizeof(bound));
    part.subresource.sparseLevel.extentHeight = part.subresource.sparseLevel.extentDepth = 8;
    bind_part(one, &part, gb_handles_moment());
    ck_assert_int_eq(release(one), CUDA_SUCCESS);
    while (left > 0) {
        unsigned from[3], size[3];

        ck_assert_uint_eq(charged(), 2 * MIB);
        for (int i = 0; i < 3; i++) {
            from[i] = (unsigned)rand() % 8;
            size[i] = 1 + (unsigned)rand() % 3;
        }
        for (unsigned x = from[0]; x < from[0] + size[0] && x < 8; x++)
            for (unsigned y = from[1]; y < from[1] + size[1] && y < 8; y++)
                for (unsigned z = from[2]; z < from[2] + size[2] && z < 8; z++) {
                    left -= bound[x][y][z];
                    bound[x][y][z] = false;
                }
        part.subresource.sparseLevel.offsetX = from[0];
        part.subresource.sparseLevel.offsetY = from[1];
        part.subresource.sparseLevel.offsetZ = from[2];
        part.subresource.sparseLevel.extentWidth = size[0];
        part.subresource.sparseLevel.extentHeight = size[1];
        part.subresource.sparseLevel.extentDepth = size[2];
        unbind_part(&part, gb_handles_moment());
    }
    ck_assert(!gb_arrays_any());
    expect_nothing();
}
END_TEST

/* Without host memory for the rest, all of it stays. */
START_TEST(test_arrays_no_host_memory)
{
    CUarrayMapInfo whole = part_of(0, 192), middle = part_of(64, 64);
    CUmemGenericAllocationHandle one;

    begin();
    one = create(2 * MIB);
    bind_part(one, &whole, gb_handles_moment());
    ck_assert_int_eq(release(one), CUDA_SUCCESS);
    for (long allowed = 0; allowed < 2; allowed++) {
        unsigned taken;

        malloc_fail_after(allowed);
        taken = unbind_part(&middle, gb_handles_moment());
        ck_assert_int_gt(malloc_recover(), 0);
        ck_assert_uint_eq(taken, 0);
    }
    ck_assert_uint_eq(unbind_part(&middle, gb_handles_moment()), 1);
    ck_assert_uint_eq(charged(), 2 * MIB);
    ck_assert_uint_eq(unbind_part(&whole, gb_handles_moment()), 2);
    expect_nothing();
}
END_TEST

START_TEST(test_arrays_ended)
{
    CUarrayMapInfo part = part_of(0, 64), tail;
    CUmemGenericAllocationHandle one;

    begin();
    one = create(4 * MIB);
    memset(&tail, 0, sizeof(tail));
    tail.resourceType = CU_RESOURCE_TYPE_MIPMAPPED_ARRAY;
    tail.resource.array = ARRAY;
    tail.subresourceType = CU_ARRAY_SPARSE_SUBRESOURCE_TYPE_MIPTAIL;
    tail.subresource.miptail.size = MIB;
    bind_part(one, &part, gb_handles_moment());
    bind_part(one, &tail, gb_handles_moment());
    ck_assert_int_eq(release(one), CUDA_SUCCESS);
    tail.subresource.miptail.layer = 1;
    ck_assert_uint_eq(unbind_part(&tail, gb_handles_moment()), 0);
    tail.subresource.miptail.layer = 0;
    tail.subresource.miptail.offset = MIB / 2;
    ck_assert_uint_eq(unbind_part(&tail, gb_handles_moment()), 1);
    ck_assert_uint_eq(unbind_part(&tail, gb_handles_moment()), 0);
    gb_array_ended(&other_api, ARRAY);
    gb_array_ended(&api, (const void *)(uintptr_t)0x8000);
    ck_assert_uint_eq(charged(), 4 * MIB);
    gb_array_ended(&api, ARRAY);
    expect_nothing();
}
END_TEST

/* ---- as blocks ---- */

START_TEST(test_blocks)
{
    gpubudget_block_t block, stale;
    gpubudget_error_t error;

    begin();
    ck_assert(try_create(2 * MIB, &block));
    stale = block;
    stale.id.generation += 1;
    ck_assert_int_eq(gpubudget_deallocate(&backend.resource, &stale, NULL, &error),
                     GPUBUDGET_USE_AFTER_FREE);
    fake.refuse = true;
    ck_assert_int_eq(gpubudget_deallocate(&backend.resource, &block, NULL, &error),
                     GPUBUDGET_DRIVER);
    ck_assert_int_eq(error.driver_code, CUDA_ERROR_INVALID_VALUE);
    ck_assert_uint_eq(charged(), 2 * MIB);
    fake.refuse = false;
    ck_assert_int_eq(gpubudget_deallocate(&backend.resource, &block, NULL, &error),
                     GPUBUDGET_OK);
    ck_assert_int_eq(gpubudget_deallocate(&backend.resource, &block, NULL, &error),
                     GPUBUDGET_USE_AFTER_FREE);
    expect_nothing();
}
END_TEST

/* Of another copy of libcuda than the backend's first one. */
START_TEST(test_block_of_another_copy)
{
    gpubudget_request_t request = {
        .bytes = 2 * MIB, .kind = GPUBUDGET_KIND_HANDLE, .driver = &other_api};
    gpubudget_block_t block, first;

    begin();
    other_api = api;
    ck_assert_int_eq(gpubudget_materialize(&backend.resource, &request, &block, NULL),
                     GPUBUDGET_OK);
    ck_assert_ptr_null(gb_handle_hold(&api, block.id.pointer, 0));
    /* The same value of both copies at once. */
    fake.slots[block.id.pointer - 1].references = 0;
    ck_assert(try_create(4 * MIB, &first));
    ck_assert_uint_eq(first.id.pointer, block.id.pointer);
    fake.slots[block.id.pointer - 1].references = 2;
    ck_assert_uint_eq(charged(), 6 * MIB);
    ck_assert_int_eq(gpubudget_deallocate(&backend.resource, &block, NULL, NULL), GPUBUDGET_OK);
    ck_assert_uint_eq(charged(), 4 * MIB);
    ck_assert_int_eq(gpubudget_deallocate(&backend.resource, &first, NULL, NULL), GPUBUDGET_OK);
    expect_nothing();
}
END_TEST

START_TEST(test_driver_refuses_the_request)
{
    gpubudget_request_t request = {.bytes = 2 * MIB, .kind = GPUBUDGET_KIND_HANDLE};
    gpubudget_block_t block = {.bytes = 7};
    gpubudget_error_t error;

    begin();
    for (int i = 0; i < SLOTS; i++)
        create(2 * MIB);
    ck_assert_int_eq(gpubudget_materialize(&backend.resource, &request, &block, &error),
                     GPUBUDGET_DRIVER);
    ck_assert_int_eq(error.driver_code, CUDA_ERROR_OUT_OF_MEMORY);
    ck_assert_uint_eq(block.bytes, 7);
    ck_assert_uint_eq(charged(), SLOTS * 2 * MIB);
    api.cuMemCreate = NULL;
    ck_assert_int_eq(gpubudget_materialize(&backend.resource, &request, &block, &error),
                     GPUBUDGET_DRIVER);
    ck_assert_int_eq(error.driver_code, CUDA_ERROR_NOT_SUPPORTED);
}
END_TEST

/* Each allocation fails once: nothing is granted that is not charged, and the other way round.
 */
START_TEST(test_no_host_memory)
{
    gpubudget_block_t block;
    long left = 0;
    bool done = false;

    begin();
    for (; !done; left++) {
        malloc_fail_after(left);
        done = try_create(2 * MIB, &block);
        if (malloc_recover() > 0) {
            ck_assert(!done);
            ck_assert_uint_eq(charged(), 0);
            ck_assert_uint_eq(fake_bytes(), 0);
            ck_assert_uint_eq(gb_handles_count(), 0);
        }
    }
    /* The entry, its handle, and the table's own two. */
    ck_assert_int_ge(left, 4);
    ck_assert_int_eq(release(block.id.pointer), CUDA_SUCCESS);
    expect_nothing();
}
END_TEST

/* What cannot be recorded and cannot be given back stays charged. */
START_TEST(test_no_host_memory_no_undo)
{
    gpubudget_block_t block;
    bool done;

    begin();
    fake.refuse = true;
    malloc_fail_after(2);
    done = try_create(2 * MIB, &block);
    ck_assert_int_gt(malloc_recover(), 0);
    ck_assert(done);
    ck_assert_uint_eq(block.id.generation, 0);
    ck_assert_uint_eq(charged(), 2 * MIB);
    ck_assert_uint_eq(gb_handles_count(), 0);
    fake.refuse = false;
    ck_assert_int_eq(gpubudget_deallocate(&backend.resource, &block, NULL, NULL), GPUBUDGET_OK);
    ck_assert_uint_eq(fake_bytes(), 0);
    ck_assert_uint_eq(charged(), 2 * MIB);
}
END_TEST

START_TEST(test_retained_without_host_memory)
{
    CUmemGenericAllocationHandle one, again;
    struct gb_memory *memory;
    struct gb_handle *spare;
    bool done;

    begin();
    one = create(2 * MIB);
    ck_assert_int_eq(map(0, one), CUDA_SUCCESS);
    ck_assert_int_eq(release(one), CUDA_SUCCESS);
    memory = gb_mapping_hold(&api, address_of(0));
    spare = gb_handle_new();
    ck_assert_int_eq(fake_retain(&again, 0), CUDA_SUCCESS);
    malloc_fail_after(0);
    done = gb_handle_retained(memory, spare, &api, address_of(0), again);
    ck_assert_int_gt(malloc_recover(), 0);
    ck_assert(!done);
    /* The driver would not take it back. */
    gb_memory_keep(memory);
    gb_memory_drop(memory);
    ck_assert_int_eq(unmap(0, 1), CUDA_SUCCESS);
    ck_assert_uint_eq(charged(), 2 * MIB);
    ck_assert_uint_eq(gb_handles_count(), 0);
}
END_TEST

/* ---- the process ---- */

START_TEST(test_forked)
{
    CUmemGenericAllocationHandle one;
    pid_t child;
    int status;

    begin();
    one = create(2 * MIB);
    ck_assert_int_eq(map(0, one), CUDA_SUCCESS);
    child = fork();
    if (child == 0) {
        gb_backend_forked(&backend);
        _exit(gb_handle_hold(&api, one, 0) || gb_mapping_hold(&api, address_of(0)) ||
              charged() != 0 || gb_handles_count() != 0);
    }
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_int_eq(status, 0);
    ck_assert_int_eq(unmap(0, 1), CUDA_SUCCESS);
    ck_assert_int_eq(release(one), CUDA_SUCCESS);
    expect_nothing();
}
END_TEST

START_TEST(test_forgotten)
{
    CUmemGenericAllocationHandle one;

    begin();
    one = create(2 * MIB);
    gpubudget_resource_destroy(&backend.resource);
    memset(&backend, 0x55, sizeof(backend));
    ck_assert_int_eq(release(one), CUDA_SUCCESS);
    ck_assert_uint_eq(gb_handles_count(), 0);
    for (size_t i = 0; i < sizeof(backend); i++)
        ck_assert_uint_eq(((unsigned char *)&backend)[i], 0x55);
}
END_TEST

/* ---- threads ---- */

enum { THREADS = 4, TURNS = 20000 };

/* Each with two handles and two pages of its own, all of them with the same few values. */
static void work(void *arg, int index)
{
    CUmemGenericAllocationHandle mine[2] = {0};
    bool mapped[2] = {false};
    uint64_t random = 88172645463325252u + (uint64_t)index;

    (void)arg;
    for (int turn = 0; turn < TURNS; turn++) {
        unsigned which = (unsigned)(random >> 20) % 2;
        unsigned page = (unsigned)index * 2 + which;
        gpubudget_block_t block;

        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        switch (random % 5) {
        case 0:
            if (!mine[which] && try_create((1 + random % 7) * 2 * MIB, &block))
                mine[which] = block.id.pointer;
            break;
        case 1:
            if (mine[which] && !mapped[which])
                mapped[which] = map(page, mine[which]) == CUDA_SUCCESS;
            break;
        case 2:
            if (mapped[which])
                mapped[which] = unmap(page, 1) != CUDA_SUCCESS;
            break;
        case 3:
            if (!mine[which] && mapped[which])
                ck_assert_int_eq(retain(&mine[which], page), CUDA_SUCCESS);
            break;
        default:
            if (mine[which]) {
                ck_assert_int_eq(release(mine[which]), CUDA_SUCCESS);
                mine[which] = 0;
            }
            break;
        }
    }
}

START_TEST(test_threads)
{
    begin();
    unit_threads(THREADS, work, NULL);
    ck_assert_uint_eq(charged(), fake_bytes());
    for (unsigned page = 0; page < 2 * THREADS; page++)
        if (fake.pages[page])
            ck_assert_int_eq(unmap(page, 1), CUDA_SUCCESS);
    for (CUmemGenericAllocationHandle handle = 1; handle <= SLOTS; handle++)
        while (release(handle) == CUDA_SUCCESS)
            ;
    expect_nothing();
}
END_TEST

int main(void)
{
    const TTest *tests[] = {test_created_and_released,
                            test_released_while_mapped,
                            test_retained,
                            test_several_mappings,
                            test_part_of_a_mapping,
                            test_driver_refuses,
                            test_value_given_out_again,
                            test_value_given_to_another,
                            test_two_releases_of_one_reference,
                            test_mapped_again_before_the_note,
                            test_mapping_noted_late,
                            test_retained_of_another_mapping,
                            test_exported,
                            test_imported,
                            test_imported_own,
                            test_held_range,
                            test_multicast,
                            test_multicast_exported,
                            test_multicast_unknown,
                            test_multicast_no_host_memory,
                            test_arrays,
                            test_arrays_tile_by_tile,
                            test_arrays_no_host_memory,
                            test_arrays_ended,
                            test_blocks,
                            test_block_of_another_copy,
                            test_driver_refuses_the_request,
                            test_no_host_memory,
                            test_no_host_memory_no_undo,
                            test_retained_without_host_memory,
                            test_forked,
                            test_forgotten,
                            test_threads};

    return unit_run("handles", tests, COUNT_OF(tests));
}
