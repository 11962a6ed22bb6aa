/* DriverMemoryResource on the stand-in: the ledger against the card's own. */
#include "resource/backend.h"

#include "failing_malloc.h"
#include "resource/budget.h"
#include "resource/resource.h"
#include "standin_unit.h"

#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static gpubudget_resource_t *resource;
static struct gb_backend *backend;

static void begin(gpubudget_charge_t charge)
{
    standin_begin();
    ck_assert_int_eq(gpubudget_driver_resource_new(0, charge, &resource), GPUBUDGET_OK);
    backend = (struct gb_backend *)resource;
}

static uint64_t outstanding(void)
{
    return gpubudget_bytes_outstanding(resource);
}

static gpubudget_block_t take(gpubudget_kind_t kind, size_t bytes, CUstream stream)
{
    gpubudget_request_t request = {.bytes = bytes, .kind = kind, .stream = stream, .tag = 42};
    gpubudget_block_t block;

    ck_assert_int_eq(gpubudget_materialize(resource, &request, &block, NULL), GPUBUDGET_OK);
    ck_assert_uint_ne(block.id.pointer, 0);
    ck_assert_uint_ne(block.id.generation, 0);
    ck_assert_int_eq(block.state, GPUBUDGET_BLOCK_LIVE);
    ck_assert_int_eq(block.kind, kind);
    ck_assert_uint_eq(block.tag, 42);
    ck_assert_ptr_eq(block.stream, stream);
    ck_assert_uint_eq(block.requested, bytes);
    return block;
}

static void give_back(const gpubudget_block_t *block)
{
    ck_assert_int_eq(gpubudget_deallocate(resource, block, NULL, NULL), GPUBUDGET_OK);
}

START_TEST(test_new)
{
    gpubudget_resource_t *made = NULL;

    /* cuInit is the program's. */
    ck_assert_int_eq(gpubudget_driver_resource_new(0, GPUBUDGET_CHARGE_FOOTPRINT, &made),
                     GPUBUDGET_NO_DRIVER);
    standin_begin();
    ck_assert_int_eq(gpubudget_driver_resource_new(0, GPUBUDGET_CHARGE_FOOTPRINT, NULL),
                     GPUBUDGET_INVALID_ARGUMENT);
    ck_assert_int_eq(gpubudget_driver_resource_new(-1, GPUBUDGET_CHARGE_FOOTPRINT, &made),
                     GPUBUDGET_INVALID_ARGUMENT);
    ck_assert_int_eq(gpubudget_driver_resource_new(1, GPUBUDGET_CHARGE_FOOTPRINT, &made),
                     GPUBUDGET_INVALID_ARGUMENT);
    ck_assert_int_eq(gpubudget_driver_resource_new(0, (gpubudget_charge_t)7, &made),
                     GPUBUDGET_INVALID_ARGUMENT);
    ck_assert_ptr_null(made);
    ck_assert_int_eq(gpubudget_driver_resource_new(0, GPUBUDGET_CHARGE_REQUESTED, &made),
                     GPUBUDGET_OK);
    ck_assert_int_eq(gpubudget_device_ordinal(made), 0);
    ck_assert_uint_eq(gpubudget_bytes_outstanding(made), 0);
    ck_assert(gpubudget_supports_block_use_tracking(made));
    ck_assert(!gpubudget_budget_snapshot(made, NULL));
    gpubudget_resource_destroy(made);
}
END_TEST

START_TEST(test_direct_footprint)
{
    static const size_t sizes[] = {1,       512,         64 * KIB, MIB,      MIB + 1,
                                   2 * MIB, 2 * MIB + 1, 3 * MIB,  100 * MIB};
    gpubudget_block_t blocks[COUNT_OF(sizes)];

    begin(GPUBUDGET_CHARGE_FOOTPRINT);
    for (size_t i = 0; i < COUNT_OF(sizes); i++) {
        blocks[i] = take(GPUBUDGET_KIND_DIRECT, sizes[i], NULL);
        ck_assert_uint_eq(outstanding(), standin_direct_bytes(0));
    }
    for (size_t i = 0; i < COUNT_OF(sizes); i++) {
        give_back(&blocks[i]);
        ck_assert_uint_eq(outstanding(), standin_direct_bytes(0));
    }
    ck_assert_uint_eq(outstanding(), 0);
    gpubudget_resource_destroy(resource);
}
END_TEST

START_TEST(test_direct_requested)
{
    gpubudget_block_t small, big;

    begin(GPUBUDGET_CHARGE_REQUESTED);
    small = take(GPUBUDGET_KIND_DIRECT, 5, NULL);
    big = take(GPUBUDGET_KIND_DIRECT, 3 * MIB, NULL);
    ck_assert_uint_eq(small.bytes, 5);
    ck_assert_uint_eq(outstanding(), 3 * MIB + 5);
    give_back(&big);
    ck_assert_uint_eq(outstanding(), 5);
    give_back(&small);
    ck_assert_uint_eq(outstanding(), 0);
    gpubudget_resource_destroy(resource);
}
END_TEST

START_TEST(test_managed)
{
    gpubudget_block_t first, second;

    begin(GPUBUDGET_CHARGE_FOOTPRINT);
    first = take(GPUBUDGET_KIND_MANAGED, 10 * MIB, NULL);
    /* With the first one comes what the driver takes once per process and device. */
    ck_assert_uint_eq(outstanding(), 10 * MIB + GB_MANAGED_ONCE_BYTES);
    second = take(GPUBUDGET_KIND_MANAGED, 5, NULL);
    ck_assert_uint_eq(outstanding(), 10 * MIB + 5 + GB_MANAGED_ONCE_BYTES);
    ck_assert_uint_eq(gb_backend_tracked(backend), 0);
    give_back(&first);
    give_back(&second);
    ck_assert_uint_eq(outstanding(), GB_MANAGED_ONCE_BYTES);
    gpubudget_resource_destroy(resource);

    ck_assert_int_eq(gpubudget_driver_resource_new(0, GPUBUDGET_CHARGE_REQUESTED, &resource),
                     GPUBUDGET_OK);
    first = take(GPUBUDGET_KIND_MANAGED, 10 * MIB, NULL);
    ck_assert_uint_eq(outstanding(), 10 * MIB);
    give_back(&first);
    ck_assert_uint_eq(outstanding(), 0);
    gpubudget_resource_destroy(resource);
}
END_TEST

START_TEST(test_managed_not_charged)
{
    const struct gb_backend_options options = {.charge = GPUBUDGET_CHARGE_FOOTPRINT,
                                               .api = &api};
    static struct gb_backend own;
    gpubudget_block_t block;

    standin_begin();
    gb_backend_init(&own, &options);
    resource = &own.resource;
    block = take(GPUBUDGET_KIND_MANAGED, 10 * MIB, NULL);
    ck_assert_uint_eq(outstanding(), 0);
    give_back(&block);
    ck_assert_uint_eq(outstanding(), 0);
    gpubudget_resource_destroy(resource);
}
END_TEST

static CUresult take_pitched(void *arg, CUdeviceptr *pointer, size_t *bytes)
{
    size_t pitch = 0;
    CUresult code = cuMemAllocPitch_v2(pointer, &pitch, 1000, 100000, 4);

    (void)arg;
    if (code == CUDA_SUCCESS)
        *bytes = pitch * 100000;
    return code;
}

START_TEST(test_pitch)
{
    gpubudget_request_t request = {.bytes = 1000 * 100000,
                                   .most_bytes = 1024 * 100000,
                                   .kind = GPUBUDGET_KIND_PITCH,
                                   .acquire = take_pitched};
    gpubudget_block_t block;
    gpubudget_error_t error;

    begin(GPUBUDGET_CHARGE_FOOTPRINT);
    ck_assert_uint_eq(gb_resource_charge_bound(resource, &request, false), 98 * MIB);
    ck_assert_uint_eq(gb_resource_charge_bound(resource, &request, true), 96 * MIB);
    ck_assert_int_eq(gpubudget_materialize(resource, &request, &block, NULL), GPUBUDGET_OK);
    ck_assert_uint_eq(block.requested, 1024 * 100000);
    ck_assert_uint_eq(outstanding(), 98 * MIB);
    ck_assert_uint_eq(outstanding(), standin_direct_bytes(0));
    give_back(&block);
    /* A shape is needed, which only an acquire function has. */
    request.acquire = NULL;
    ck_assert_int_eq(gpubudget_materialize(resource, &request, &block, &error),
                     GPUBUDGET_DRIVER);
    ck_assert_int_eq(error.driver_code, CUDA_ERROR_INVALID_VALUE);
    gpubudget_resource_destroy(resource);
}
END_TEST

START_TEST(test_unknown_kind)
{
    gpubudget_request_t request = {.bytes = 1, .kind = (gpubudget_kind_t)99};
    gpubudget_block_t block;

    begin(GPUBUDGET_CHARGE_FOOTPRINT);
    ck_assert_int_eq(gpubudget_materialize(resource, &request, &block, NULL),
                     GPUBUDGET_INVALID_ARGUMENT);
    gpubudget_resource_destroy(resource);
}
END_TEST

START_TEST(test_ordered_footprint)
{
    gpubudget_block_t first, second;
    CUstream stream;

    begin(GPUBUDGET_CHARGE_FOOTPRINT);
    stream = standin_stream();
    first = take(GPUBUDGET_KIND_STREAM_ORDERED, 20 * MIB, stream);
    ck_assert_uint_eq(outstanding(), standin_pool_reserved(0));
    ck_assert_uint_eq(outstanding(), 32 * MIB);
    /* Charged through the pool's gauge and not the block's own. */
    ck_assert_uint_eq(first.bytes, 0);
    second = take(GPUBUDGET_KIND_STREAM_ORDERED, 10 * MIB, stream);
    ck_assert_uint_eq(outstanding(), 32 * MIB);
    give_back(&first);
    give_back(&second);
    cuStreamSynchronize(stream);
    ck_assert_int_eq(gpubudget_reap_pending(resource, NULL), GPUBUDGET_OK);
    ck_assert_uint_eq(outstanding(), standin_pool_reserved(0));
    ck_assert_uint_eq(outstanding(), 0);
    gpubudget_resource_destroy(resource);
}
END_TEST

START_TEST(test_ordered_requested)
{
    gpubudget_block_t block;
    CUstream stream, other;

    begin(GPUBUDGET_CHARGE_REQUESTED);
    stream = standin_stream();
    other = standin_stream();
    block = take(GPUBUDGET_KIND_STREAM_ORDERED, 100, stream);
    ck_assert_uint_eq(block.bytes, 100);
    standin_hold(stream);
    give_back(&block);
    gpubudget_reap_pending(resource, NULL);
    ck_assert_uint_eq(outstanding(), 100);
    /* The stream's own next request takes the pending bytes over; another stream's does not. */
    block = take(GPUBUDGET_KIND_STREAM_ORDERED, 60, stream);
    ck_assert_uint_eq(outstanding(), 100);
    take(GPUBUDGET_KIND_STREAM_ORDERED, 7, other);
    ck_assert_uint_eq(outstanding(), 107);
    standin_release(stream);
    gpubudget_reap_pending(resource, NULL);
    ck_assert_uint_eq(outstanding(), 67);
    gpubudget_resource_destroy(resource);
}
END_TEST

/* A request that takes its stream's frees over moves nothing in the ledger. */
START_TEST(test_ordered_at_once)
{
    struct gb_ordered_claim claim;
    struct gb_block tracked;
    gpubudget_block_t block;
    CUdeviceptr pointer = 0;
    CUstream stream, other;
    bool claimed;

    begin(GPUBUDGET_CHARGE_REQUESTED);
    stream = standin_stream();
    other = standin_stream();
    ck_assert(!gb_ordered_claim(backend, backend->options.api, 1, stream, false, &claim));
    standin_hold(stream);
    for (int i = 0; i < 3; i++) {
        block = take(GPUBUDGET_KIND_STREAM_ORDERED, 100, other);
        ck_assert_int_eq(gpubudget_deallocate(
                             resource, &block,
                             &(gpubudget_release_t){.stream = stream, .ordered = true}, NULL),
                         GPUBUDGET_OK);
    }
    ck_assert_uint_eq(outstanding(), 300);
    /* Only what the stream's slot has, only whole, and only on that stream. */
    ck_assert(!gb_ordered_claim(backend, backend->options.api, 101, stream, false, &claim));
    ck_assert(!gb_ordered_claim(backend, backend->options.api, 100, other, false, &claim));
    ck_assert(gb_ordered_claim(backend, backend->options.api, 60, stream, false, &claim));
    ck_assert(!gb_ordered_claim(backend, backend->options.api, 41, stream, false,
                                &(struct gb_ordered_claim){.era = 0}));
    ck_assert_int_eq(api.cuMemAllocAsync(&pointer, 60, stream), CUDA_SUCCESS);
    gb_ordered_claimed(backend, backend->options.api, &claim, stream, pointer, true);
    ck_assert_uint_eq(outstanding(), 300);
    ck_assert_uint_eq(gb_pending_bytes(&backend->pending), 240);
    ck_assert(gb_block_table_find(backend->table, pointer, &tracked));
    ck_assert_uint_eq(tracked.charged, 60);
    ck_assert_uint_eq(tracked.requested, 60);
    ck_assert_ptr_eq(tracked.stream, stream);
    /* The driver refused: pending as before. */
    ck_assert(gb_ordered_claim(backend, backend->options.api, 40, stream, false, &claim));
    ck_assert_uint_eq(gb_pending_bytes(&backend->pending), 200);
    gb_ordered_claimed(backend, backend->options.api, &claim, stream, 0, false);
    ck_assert_uint_eq(gb_pending_bytes(&backend->pending), 240);
    /* No memory for the entry: the same. */
    malloc_fail_after(0);
    claimed = gb_ordered_claim(backend, backend->options.api, 40, stream, false, &claim);
    malloc_recover();
    ck_assert(!claimed);
    ck_assert_uint_eq(gb_pending_bytes(&backend->pending), 240);
    standin_release(stream);
    gpubudget_reap_pending(resource, NULL);
    ck_assert_uint_eq(outstanding(), 60);
    block = (gpubudget_block_t){.id = {pointer, tracked.generation},
                                .stream = stream,
                                .kind = GPUBUDGET_KIND_STREAM_ORDERED};
    give_back(&block);
    gpubudget_reap_pending(resource, NULL);
    ck_assert_uint_eq(outstanding(), 0);
    gpubudget_resource_destroy(resource);
}
END_TEST

/* Again and again on one stream: no memory is asked for, and nothing is left of the last one.
 */
START_TEST(test_ordered_in_turns)
{
    struct gb_ordered_claim claim;
    struct gb_block *entry, tracked;
    gpubudget_block_t block;
    CUdeviceptr pointer = 0;
    uint64_t generation = 0;
    CUstream stream;
    bool claimed;

    begin(GPUBUDGET_CHARGE_REQUESTED);
    stream = standin_stream();
    standin_hold(stream);
    for (int i = 0; i < 3; i++) {
        block = take(GPUBUDGET_KIND_STREAM_ORDERED, 300, standin_stream());
        ck_assert_int_eq(gpubudget_deallocate(
                             resource, &block,
                             &(gpubudget_release_t){.stream = stream, .ordered = true}, NULL),
                         GPUBUDGET_OK);
    }
    for (size_t bytes = 1; bytes <= 3; bytes++) {
        malloc_fail_after(0);
        claimed = gb_ordered_claim(backend, backend->options.api, bytes, stream, false, &claim);
        ck_assert_int_eq(malloc_recover(), 0);
        ck_assert(claimed);
        ck_assert_int_eq(api.cuMemAllocAsync(&pointer, bytes, stream), CUDA_SUCCESS);
        gb_ordered_claimed(backend, backend->options.api, &claim, stream, pointer, true);
        ck_assert(gb_block_table_find(backend->table, pointer, &tracked));
        ck_assert_uint_eq(tracked.charged, bytes);
        ck_assert_uint_eq(tracked.requested, bytes);
        ck_assert_uint_eq(tracked.tag, 0);
        ck_assert_ptr_null(tracked.context);
        ck_assert(!tracked.in_region);
        ck_assert_uint_gt(tracked.generation, 0);
        ck_assert_uint_ne(tracked.generation, generation);
        generation = tracked.generation;
        entry = gb_block_table_take(backend->table, pointer, 0);
        ck_assert_int_eq(api.cuMemFreeAsync(pointer, stream), CUDA_SUCCESS);
        /* As after another use. */
        entry->tag = 42;
        entry->context = context;
        entry->in_region = true;
        gb_pending_add_freed(&backend->pending, &claim.key, entry);
        ck_assert_uint_eq(gb_pending_bytes(&backend->pending), 900);
    }
    /* One that lives when the backend ends. */
    ck_assert(gb_ordered_claim(backend, backend->options.api, 5, stream, false, &claim));
    ck_assert_int_eq(api.cuMemAllocAsync(&pointer, 5, stream), CUDA_SUCCESS);
    gb_ordered_claimed(backend, backend->options.api, &claim, stream, pointer, true);
    gpubudget_resource_destroy(resource);
}
END_TEST

START_TEST(test_ordered_bounds)
{
    gpubudget_request_t request = {.bytes = 100, .kind = GPUBUDGET_KIND_STREAM_ORDERED};
    gpubudget_block_t block;

    begin(GPUBUDGET_CHARGE_REQUESTED);
    request.stream = standin_stream();
    ck_assert_uint_eq(gb_resource_charge_bound(resource, &request, false), 100);
    block = take(GPUBUDGET_KIND_STREAM_ORDERED, 70, request.stream);
    standin_hold(request.stream);
    give_back(&block);
    /* What the stream's own frees leave is looked at where the whole would not fit. */
    ck_assert_uint_eq(gb_resource_charge_bound(resource, &request, false), 100);
    ck_assert_uint_eq(gb_resource_charge_bound(resource, &request, true), 30);
    request.bytes = 70;
    ck_assert_uint_eq(gb_resource_charge_bound(resource, &request, true), 0);
    gpubudget_resource_destroy(resource);
}
END_TEST

START_TEST(test_from_pool)
{
    const CUmemPoolProps props = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                                  .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
    gpubudget_request_t request = {.bytes = 10 * MIB, .kind = GPUBUDGET_KIND_STREAM_ORDERED};
    gpubudget_block_t block;

    begin(GPUBUDGET_CHARGE_FOOTPRINT);
    ck_assert_int_eq(cuMemPoolCreate(&request.pool, &props), CUDA_SUCCESS);
    ck_assert_int_eq(gpubudget_materialize(resource, &request, &block, NULL), GPUBUDGET_OK);
    ck_assert_uint_eq(standin_calls("cuMemAllocFromPoolAsync"), 1);
    ck_assert_uint_eq(outstanding(), standin_pool_reserved(0));
    ck_assert_uint_gt(outstanding(), 0);
    give_back(&block);
    gpubudget_reap_pending(resource, NULL);
    ck_assert_uint_eq(outstanding(), standin_pool_reserved(0));
    gpubudget_resource_destroy(resource);
}
END_TEST

/* A block is freed once; the second time nothing is called and nothing changes. */
/* The current pool is another's while the driver allocates, and as before when we look. */
struct switched {
    CUmemoryPool other, usual;
    bool unfinished; /* the second switch is still going on when we look */
};

static CUresult acquire_switched(void *arg, CUdeviceptr *pointer, size_t *bytes)
{
    const struct switched *pools = arg;
    CUresult code;

    gb_pools_switch_begins();
    ck_assert_int_eq(cuDeviceSetMemPool(0, pools->other), CUDA_SUCCESS);
    gb_pools_switch_ends();
    code = cuMemAllocAsync(pointer, MIB, NULL);
    *bytes = MIB;
    gb_pools_switch_begins();
    ck_assert_int_eq(cuDeviceSetMemPool(0, pools->usual), CUDA_SUCCESS);
    if (!pools->unfinished)
        gb_pools_switch_ends();
    return code;
}

static void grant_while_switching(bool unfinished)
{
    gpubudget_request_t request = {
        .bytes = MIB, .kind = GPUBUDGET_KIND_STREAM_ORDERED, .acquire = acquire_switched};
    struct switched pools;
    gpubudget_block_t block;

    begin(GPUBUDGET_CHARGE_FOOTPRINT);
    pools.other = standin_pool();
    ck_assert_int_eq(cuDeviceGetMemPool(&pools.usual, 0), CUDA_SUCCESS);
    gb_pools_get(&backend->pools, backend->options.api, pools.other, false);
    pools.unfinished = unfinished;
    request.arg = &pools;
    ck_assert_int_eq(gpubudget_materialize(resource, &request, &block, NULL), GPUBUDGET_OK);
    ck_assert_uint_eq(request.charged, GB_POOL_STEP_BYTES);
    ck_assert_uint_eq(outstanding(), GB_POOL_STEP_BYTES);
    gpubudget_resource_destroy(resource);
}

START_TEST(test_pool_switched_twice_during_a_grant)
{
    grant_while_switching(false);
}
END_TEST

START_TEST(test_pool_is_being_switched)
{
    grant_while_switching(true);
}
END_TEST

START_TEST(test_freed_twice)
{
    static const gpubudget_kind_t kinds[] = {GPUBUDGET_KIND_DIRECT, GPUBUDGET_KIND_MANAGED,
                                             GPUBUDGET_KIND_STREAM_ORDERED};

    begin(GPUBUDGET_CHARGE_REQUESTED);
    for (size_t i = 0; i < COUNT_OF(kinds); i++) {
        gpubudget_block_t block = take(kinds[i], MIB, NULL);
        gpubudget_error_t error;

        give_back(&block);
        cuCtxSynchronize();
        gpubudget_reap_pending(resource, NULL);
        standin_reset_counts();
        ck_assert_int_eq(gpubudget_deallocate(resource, &block, NULL, &error),
                         GPUBUDGET_USE_AFTER_FREE);
        ck_assert_int_eq(error.status, GPUBUDGET_USE_AFTER_FREE);
        ck_assert_uint_eq(standin_calls("cuMemFree*"), 0);
        ck_assert_uint_eq(outstanding(), 0);
    }
    gpubudget_resource_destroy(resource);
}
END_TEST

/* The address is another block's by now: the old block's free must not end it. */
START_TEST(test_generations)
{
    gpubudget_block_t old, new;
    gpubudget_block_t wrong;

    begin(GPUBUDGET_CHARGE_FOOTPRINT);
    old = take(GPUBUDGET_KIND_DIRECT, 4 * MIB, NULL);
    give_back(&old);
    new = take(GPUBUDGET_KIND_DIRECT, 4 * MIB, NULL);
    ck_assert_uint_eq(new.id.pointer, old.id.pointer);
    ck_assert_uint_gt(new.id.generation, old.id.generation);
    standin_reset_counts();
    ck_assert_int_eq(gpubudget_deallocate(resource, &old, NULL, NULL),
                     GPUBUDGET_USE_AFTER_FREE);
    /* A generation that no block ever had names none either. */
    wrong = new;
    wrong.id.generation = 0;
    ck_assert_int_eq(gpubudget_deallocate(resource, &wrong, NULL, NULL),
                     GPUBUDGET_USE_AFTER_FREE);
    wrong.id.generation = UINT64_MAX;
    ck_assert_int_eq(gpubudget_deallocate(resource, &wrong, NULL, NULL),
                     GPUBUDGET_USE_AFTER_FREE);
    ck_assert_uint_eq(standin_calls("cuMemFree*"), 0);
    ck_assert_uint_eq(outstanding(), 4 * MIB);
    give_back(&new);
    ck_assert_uint_eq(outstanding(), 0);
    gpubudget_resource_destroy(resource);
}
END_TEST

START_TEST(test_driver_refuses_the_free)
{
    static const gpubudget_kind_t kinds[] = {GPUBUDGET_KIND_DIRECT,
                                             GPUBUDGET_KIND_STREAM_ORDERED};

    begin(GPUBUDGET_CHARGE_REQUESTED);
    for (size_t i = 0; i < COUNT_OF(kinds); i++) {
        gpubudget_block_t block = take(kinds[i], MIB, NULL);
        gpubudget_error_t error;

        standin_fail("cuMemFree*", 1, CUDA_ERROR_ILLEGAL_ADDRESS);
        ck_assert_int_eq(gpubudget_deallocate(resource, &block, NULL, &error),
                         GPUBUDGET_DRIVER);
        ck_assert_int_eq(error.driver_code, CUDA_ERROR_ILLEGAL_ADDRESS);
        standin_fail_clear();
        ck_assert_uint_eq(outstanding(), MIB);
        give_back(&block);
        cuCtxSynchronize();
        gpubudget_reap_pending(resource, NULL);
        ck_assert_uint_eq(outstanding(), 0);
    }
    gpubudget_resource_destroy(resource);
}
END_TEST

START_TEST(test_driver_refuses_the_request)
{
    static const struct {
        gpubudget_kind_t kind;
        const char *call;
    } rows[] = {{GPUBUDGET_KIND_DIRECT, "cuMemAlloc_v2"},
                {GPUBUDGET_KIND_MANAGED, "cuMemAllocManaged"},
                {GPUBUDGET_KIND_STREAM_ORDERED, "cuMemAllocAsync"}};

    begin(GPUBUDGET_CHARGE_FOOTPRINT);
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        gpubudget_request_t request = {.bytes = MIB, .kind = rows[i].kind};
        gpubudget_block_t block, before;
        gpubudget_error_t error;

        memset(&block, 0x5a, sizeof(block));
        before = block;
        standin_fail(rows[i].call, 1, CUDA_ERROR_OUT_OF_MEMORY);
        ck_assert_int_eq(gpubudget_materialize(resource, &request, &block, &error),
                         GPUBUDGET_DRIVER);
        ck_assert_int_eq(error.driver_code, CUDA_ERROR_OUT_OF_MEMORY);
        ck_assert_mem_eq(&block, &before, sizeof(block));
        ck_assert_uint_eq(outstanding(), 0);
        ck_assert_uint_eq(
            gpubudget_accounting_acquired(gpubudget_allocation_accounting(resource)), 0);
    }
    gpubudget_resource_destroy(resource);
}
END_TEST

/* Unlike standin_pool one that keeps nothing. */
static CUmemoryPool modest_pool(void)
{
    const CUmemPoolProps props = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                                  .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0}};
    CUmemoryPool pool = NULL;

    ck_assert_int_eq(cuMemPoolCreate(&pool, &props), CUDA_SUCCESS);
    return pool;
}

/* Host memory fails at each position of each kind: taken and recorded, or not taken at all. */
static void without_memory(gpubudget_charge_t charge, gpubudget_kind_t kind, CUmemoryPool pool)
{
    bool whole = false;

    for (long allowed = 0; !whole; allowed++) {
        gpubudget_request_t request = {.bytes = MIB, .kind = kind, .pool = pool};
        gpubudget_block_t block;
        gpubudget_status_t status;

        ck_assert_int_lt(allowed, 40);
        ck_assert_int_eq(gpubudget_driver_resource_new(0, charge, &resource), GPUBUDGET_OK);
        backend = (struct gb_backend *)resource;
        malloc_fail_after(allowed);
        status = gpubudget_materialize(resource, &request, &block, NULL);
        whole = malloc_recover() == 0;
        if (status == GPUBUDGET_OK) {
            ck_assert_uint_eq(standin_real_live_blocks(0), 1);
            give_back(&block);
        } else {
            ck_assert_int_eq(status, GPUBUDGET_OUT_OF_HOST_MEMORY);
        }
        cuCtxSynchronize();
        gpubudget_reap_pending(resource, NULL);
        ck_assert_uint_eq(standin_real_live_blocks(0), 0);
        if (kind != GPUBUDGET_KIND_MANAGED || charge == GPUBUDGET_CHARGE_REQUESTED)
            ck_assert_uint_eq(outstanding(), 0);
        gpubudget_resource_destroy(resource);
    }
}

START_TEST(test_without_memory)
{
    static const gpubudget_kind_t kinds[] = {GPUBUDGET_KIND_DIRECT, GPUBUDGET_KIND_MANAGED,
                                             GPUBUDGET_KIND_STREAM_ORDERED};

    standin_begin();
    for (size_t i = 0; i < COUNT_OF(kinds); i++) {
        without_memory(GPUBUDGET_CHARGE_FOOTPRINT, kinds[i], NULL);
        without_memory(GPUBUDGET_CHARGE_REQUESTED, kinds[i], NULL);
    }
    /* A pool that is named, and not known before. */
    without_memory(GPUBUDGET_CHARGE_FOOTPRINT, GPUBUDGET_KIND_STREAM_ORDERED, modest_pool());
}
END_TEST

/* Neither recorded nor given back: then it is the program's, and the ledger says so. */
START_TEST(test_without_memory_and_undo)
{
    bool whole = false;

    standin_begin();
    for (long allowed = 0; !whole; allowed++) {
        gpubudget_request_t request = {.bytes = MIB, .kind = GPUBUDGET_KIND_DIRECT};
        gpubudget_block_t block;
        gpubudget_status_t status;

        ck_assert_int_lt(allowed, 40);
        ck_assert_int_eq(
            gpubudget_driver_resource_new(0, GPUBUDGET_CHARGE_FOOTPRINT, &resource),
            GPUBUDGET_OK);
        standin_fail("cuMemFree_v2", 0, CUDA_ERROR_UNKNOWN);
        malloc_fail_after(allowed);
        status = gpubudget_materialize(resource, &request, &block, NULL);
        whole = malloc_recover() == 0;
        standin_fail_clear();
        ck_assert_uint_eq(standin_real_live_blocks(0), status == GPUBUDGET_OK);
        ck_assert_uint_eq(outstanding(), status == GPUBUDGET_OK ? 2 * MIB : 0);
        if (status == GPUBUDGET_OK)
            give_back(&block);
        ck_assert_uint_eq(standin_real_live_blocks(0), 0);
        gpubudget_resource_destroy(resource);
    }
}
END_TEST

/* A direct block may be freed in stream order: its charge stays until that is proven. */
START_TEST(test_direct_freed_in_order)
{
    static const size_t sizes[] = {64 * KIB, 4 * MIB};

    begin(GPUBUDGET_CHARGE_FOOTPRINT);
    for (size_t i = 0; i < COUNT_OF(sizes); i++) {
        CUstream stream = standin_stream();
        const gpubudget_release_t release = {.ordered = true, .stream = stream};
        gpubudget_block_t block = take(GPUBUDGET_KIND_DIRECT, sizes[i], NULL);
        uint64_t charged = outstanding();

        ck_assert_uint_gt(charged, 0);
        standin_hold(stream);
        ck_assert_int_eq(gpubudget_deallocate(resource, &block, &release, NULL), GPUBUDGET_OK);
        ck_assert_int_eq(gpubudget_deallocate(resource, &block, &release, NULL),
                         GPUBUDGET_USE_AFTER_FREE);
        gpubudget_reap_pending(resource, NULL);
        ck_assert_uint_eq(outstanding(), charged);
        standin_release(stream);
        gpubudget_reap_pending(resource, NULL);
        ck_assert_uint_eq(outstanding(), 0);
        ck_assert_uint_eq(standin_direct_bytes(0), 0);
    }
    gpubudget_resource_destroy(resource);
}
END_TEST

struct own_call {
    int acquired, undone, released;
    CUcontext context;
};

static CUresult make_context(void *arg, CUdeviceptr *pointer, size_t *bytes)
{
    struct own_call *own = arg;
    CUresult code = cuCtxCreate_v2(&own->context, 0, 0);

    own->acquired++;
    if (code == CUDA_SUCCESS) {
        *pointer = (CUdeviceptr)(uintptr_t)own->context;
        *bytes = 0;
    }
    return code;
}

static CUresult end_context(void *arg, CUdeviceptr pointer)
{
    ((struct own_call *)arg)->released++;
    return cuCtxDestroy_v2((CUcontext)(uintptr_t)pointer);
}

static bool measure(void *arg, uint64_t *bytes)
{
    (void)arg;
    *bytes = standin_live_bytes(0);
    return true;
}

START_TEST(test_context)
{
    struct own_call own = {0};
    gpubudget_request_t request = {.kind = GPUBUDGET_KIND_CONTEXT,
                                   .acquire = make_context,
                                   .undo = end_context,
                                   .arg = &own};
    const gpubudget_release_t release = {.release = end_context, .arg = &own};
    gpubudget_block_t block, before;
    uint64_t size;

    begin(GPUBUDGET_CHARGE_FOOTPRINT);
    backend->contexts.measure = measure;
    gb_backend_note_context(backend, &api, context, false);
    size = outstanding();
    ck_assert_uint_eq(size, standin_context_bytes(0));
    ck_assert_uint_eq(gb_resource_charge_bound(resource, &request, false), size);
    ck_assert_int_eq(gpubudget_materialize(resource, &request, &block, NULL), GPUBUDGET_OK);
    ck_assert_uint_eq(block.bytes, size);
    ck_assert_uint_eq(outstanding(), standin_context_bytes(0));
    before = block;
    /* Only its maker knows how to end it. */
    ck_assert_int_eq(gpubudget_deallocate(resource, &block, NULL, NULL),
                     GPUBUDGET_INVALID_ARGUMENT);
    ck_assert_uint_eq(standin_calls("cuMemFree*"), 0);
    ck_assert_int_eq(gpubudget_deallocate(resource, &block, &release, NULL), GPUBUDGET_OK);
    ck_assert_uint_eq(outstanding(), size);
    ck_assert_int_eq(gpubudget_deallocate(resource, &before, &release, NULL),
                     GPUBUDGET_USE_AFTER_FREE);
    ck_assert_int_eq(own.released, 1);
    request.undo = NULL;
    ck_assert_int_eq(gpubudget_materialize(resource, &request, &block, NULL),
                     GPUBUDGET_INVALID_ARGUMENT);
    ck_assert_int_eq(own.acquired, 1);
    gpubudget_resource_destroy(resource);
}
END_TEST

START_TEST(test_context_does_not_fit)
{
    struct own_call own = {0};
    gpubudget_request_t request = {.kind = GPUBUDGET_KIND_CONTEXT,
                                   .acquire = make_context,
                                   .undo = end_context,
                                   .arg = &own};
    gpubudget_budget_t *budget;
    gpubudget_block_t block;

    begin(GPUBUDGET_CHARGE_FOOTPRINT);
    ck_assert_int_eq(cuCtxDestroy_v2(context), CUDA_SUCCESS);
    backend->contexts.measure = measure;
    ck_assert_int_eq(gpubudget_budget_new(resource, 100 * MIB, &budget), GPUBUDGET_OK);
    ck_assert_int_eq(
        gpubudget_materialize(gpubudget_budget_resource(budget), &request, &block, NULL),
        GPUBUDGET_OUT_OF_BUDGET);
    ck_assert_int_eq(own.acquired, 1);
    ck_assert_int_eq(own.released, 1);
    ck_assert_uint_eq(standin_context_bytes(0), 0);
    ck_assert_uint_eq(outstanding(), 0);
    /* Its size is known now: refused without a try. */
    ck_assert_int_eq(
        gpubudget_materialize(gpubudget_budget_resource(budget), &request, &block, NULL),
        GPUBUDGET_OUT_OF_BUDGET);
    ck_assert_int_eq(own.acquired, 1);
    gpubudget_resource_destroy(gpubudget_budget_resource(budget));
    gpubudget_resource_destroy(resource);
}
END_TEST

START_TEST(test_context_ends)
{
    gpubudget_request_t request = {.bytes = 4 * MIB, .kind = GPUBUDGET_KIND_DIRECT};
    gpubudget_block_t block, pooled;

    begin(GPUBUDGET_CHARGE_REQUESTED);
    request.context = context;
    ck_assert_int_eq(gpubudget_materialize(resource, &request, &block, NULL), GPUBUDGET_OK);
    request.bytes = 64 * KIB;
    ck_assert_int_eq(gpubudget_materialize(resource, &request, &block, NULL), GPUBUDGET_OK);
    request.bytes = 7;
    request.kind = GPUBUDGET_KIND_STREAM_ORDERED;
    request.stream = standin_stream();
    ck_assert_int_eq(gpubudget_materialize(resource, &request, &pooled, NULL), GPUBUDGET_OK);
    ck_assert_int_eq(cuCtxDestroy_v2(context), CUDA_SUCCESS);
    gb_backend_context_ended(backend, backend->options.api, context, 0, UINT64_MAX);
    /* Blocks of pools outlive the context. */
    ck_assert_uint_eq(outstanding(), 7);
    ck_assert_int_eq(gpubudget_deallocate(resource, &block, NULL, NULL),
                     GPUBUDGET_USE_AFTER_FREE);
    ck_assert_uint_eq(pooled.bytes, 7);
    gpubudget_resource_destroy(resource);
}
END_TEST

/* In the child: 0 when it owns nothing. It never ran cuInit, so it calls no driver. */
static int look_in_child(struct gb_backend *own, const gpubudget_block_t *block)
{
    gb_backend_forked(own);
    if (outstanding() != 0 || gb_backend_tracked(own) != 0)
        return 1;
    if (gpubudget_deallocate(resource, block, NULL, NULL) != GPUBUDGET_USE_AFTER_FREE)
        return 2;
    return gpubudget_reap_pending(resource, NULL) == GPUBUDGET_OK ? 0 : 3;
}

START_TEST(test_child_owns_nothing)
{
    const struct gb_backend_options options = {.charge = GPUBUDGET_CHARGE_FOOTPRINT,
                                               .charge_managed = true,
                                               .track_ordered = true,
                                               .api = &api};
    static struct gb_backend own;
    gpubudget_block_t block;
    uint64_t before;
    int status = -1;
    pid_t child;

    standin_begin();
    gb_backend_init(&own, &options);
    resource = &own.resource;
    block = take(GPUBUDGET_KIND_DIRECT, 4 * MIB, NULL);
    take(GPUBUDGET_KIND_MANAGED, MIB, NULL);
    take(GPUBUDGET_KIND_STREAM_ORDERED, MIB, NULL);
    before = outstanding();
    child = fork();
    if (child == 0)
        _exit(look_in_child(&own, &block));
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_int_eq(status, 0);
    ck_assert_uint_eq(outstanding(), before);
    gpubudget_resource_destroy(resource);
}
END_TEST

/* A pool's step does not fit: undone, and nothing above the limit is kept as warm memory. */
START_TEST(test_growth_over_the_limit)
{
    gpubudget_budget_t *budget;
    gpubudget_resource_t *top;
    cuuint64_t all = UINT64_MAX;
    gpubudget_block_t block;
    CUmemoryPool pool;
    CUstream stream;

    begin(GPUBUDGET_CHARGE_FOOTPRINT);
    stream = standin_stream();
    ck_assert_int_eq(cuDeviceGetMemPool(&pool, 0), CUDA_SUCCESS);
    ck_assert_int_eq(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &all),
                     CUDA_SUCCESS);
    ck_assert_int_eq(gpubudget_budget_new(resource, 40 * MIB, &budget), GPUBUDGET_OK);
    top = gpubudget_budget_resource(budget);
    ck_assert_int_eq(gpubudget_allocate(top, 30 * MIB, stream, 0, &block, NULL), GPUBUDGET_OK);
    ck_assert_int_eq(gpubudget_allocate(top, 6 * MIB, stream, 0, &block, NULL),
                     GPUBUDGET_OUT_OF_BUDGET);
    ck_assert_uint_le(standin_pool_reserved(0), 40 * MIB);
    ck_assert_uint_eq(outstanding(), standin_pool_reserved(0));
    /* What fits into the step that is there is granted. */
    ck_assert_int_eq(gpubudget_allocate(top, 2 * MIB, stream, 0, &block, NULL), GPUBUDGET_OK);
    gpubudget_resource_destroy(top);
    gpubudget_resource_destroy(resource);
}
END_TEST

/* Warm memory that nobody uses makes way for another kind of request. */
START_TEST(test_warm_pool_makes_way)
{
    gpubudget_request_t direct = {.bytes = 60 * MIB, .kind = GPUBUDGET_KIND_DIRECT};
    gpubudget_budget_t *budget;
    gpubudget_resource_t *top;
    cuuint64_t all = UINT64_MAX;
    gpubudget_block_t block;
    CUmemoryPool pool;
    CUstream stream;

    begin(GPUBUDGET_CHARGE_FOOTPRINT);
    stream = standin_stream();
    ck_assert_int_eq(cuDeviceGetMemPool(&pool, 0), CUDA_SUCCESS);
    ck_assert_int_eq(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &all),
                     CUDA_SUCCESS);
    ck_assert_int_eq(gpubudget_budget_new(resource, 64 * MIB, &budget), GPUBUDGET_OK);
    top = gpubudget_budget_resource(budget);
    ck_assert_int_eq(gpubudget_allocate(top, 30 * MIB, stream, 0, &block, NULL), GPUBUDGET_OK);
    give_back(&block);
    cuStreamSynchronize(stream);
    ck_assert_uint_eq(standin_pool_reserved(0), 32 * MIB);
    ck_assert_int_eq(gpubudget_materialize(top, &direct, &block, NULL), GPUBUDGET_OK);
    ck_assert_uint_eq(standin_pool_reserved(0), 0);
    ck_assert_uint_eq(outstanding(), 60 * MIB);
    gpubudget_resource_destroy(top);
    gpubudget_resource_destroy(resource);
}
END_TEST

static void take_and_free(void *arg, int index)
{
    CUstream stream = NULL;

    (void)arg;
    cuCtxSetCurrent(context);
    cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING);
    for (int i = 0; i < 300; i++) {
        static const gpubudget_kind_t kinds[] = {GPUBUDGET_KIND_DIRECT,
                                                 GPUBUDGET_KIND_STREAM_ORDERED};
        gpubudget_request_t request = {.bytes = (size_t)(i % 7 + 1) * 300000,
                                       .kind = kinds[(i + index) % 2],
                                       .stream = stream};
        gpubudget_block_t block;

        ck_assert_int_eq(gpubudget_materialize(resource, &request, &block, NULL), GPUBUDGET_OK);
        if (i % 10 == 0)
            gpubudget_reap_pending(resource, NULL);
        give_back(&block);
    }
    cuStreamSynchronize(stream);
}

START_TEST(test_threads)
{
    static const gpubudget_charge_t modes[] = {GPUBUDGET_CHARGE_FOOTPRINT,
                                               GPUBUDGET_CHARGE_REQUESTED};

    standin_begin();
    for (size_t i = 0; i < COUNT_OF(modes); i++) {
        ck_assert_int_eq(gpubudget_driver_resource_new(0, modes[i], &resource), GPUBUDGET_OK);
        unit_threads(6, take_and_free, NULL);
        gpubudget_reap_pending(resource, NULL);
        ck_assert_uint_eq(outstanding(), 0);
        ck_assert_uint_eq(standin_real_live_blocks(0), 0);
        gpubudget_resource_destroy(resource);
    }
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {test_new,
                                  test_direct_footprint,
                                  test_direct_requested,
                                  test_managed,
                                  test_managed_not_charged,
                                  test_pitch,
                                  test_unknown_kind,
                                  test_ordered_footprint,
                                  test_ordered_requested,
                                  test_ordered_at_once,
                                  test_ordered_in_turns,
                                  test_ordered_bounds,
                                  test_from_pool,
                                  test_pool_switched_twice_during_a_grant,
                                  test_pool_is_being_switched,
                                  test_freed_twice,
                                  test_generations,
                                  test_driver_refuses_the_free,
                                  test_driver_refuses_the_request,
                                  test_without_memory,
                                  test_without_memory_and_undo,
                                  test_direct_freed_in_order,
                                  test_context,
                                  test_context_does_not_fit,
                                  test_context_ends,
                                  test_child_owns_nothing,
                                  test_growth_over_the_limit,
                                  test_warm_pool_makes_way,
                                  test_threads};

    return unit_run("backend", tests, COUNT_OF(tests));
}
