/* The operations of a resource, with the interface's defaults. */
#include <config.h>

#include "resource/resource.h"

#include "unit.h"

#include <gpubudget/gpubudget.h>

#include <string.h>

/* A resource that does only what the interface requires. */
struct plain {
    gpubudget_resource_t resource;
    struct gpubudget_accounting *ledger;
    gpubudget_request_t seen;
    int destroyed;
};

static gpubudget_status_t plain_materialize(gpubudget_resource_t *self,
                                            gpubudget_request_t *request,
                                            gpubudget_block_t *block, gpubudget_error_t *error)
{
    (void)error;
    ((struct plain *)self)->seen = *request;
    block->tag = request->tag;
    return GPUBUDGET_OK;
}

static gpubudget_status_t plain_deallocate(gpubudget_resource_t *self,
                                           const gpubudget_block_t *block,
                                           const gpubudget_release_t *release,
                                           gpubudget_error_t *error)
{
    (void)self;
    (void)block;
    (void)release;
    return gb_fail(error, GPUBUDGET_USE_AFTER_FREE);
}

static const gpubudget_accounting_t *plain_accounting(const gpubudget_resource_t *self)
{
    return (const gpubudget_accounting_t *)self;
}

static uint64_t plain_outstanding(const gpubudget_resource_t *self)
{
    (void)self;
    return 77;
}

static int plain_device(const gpubudget_resource_t *self)
{
    (void)self;
    return 3;
}

static void plain_destroy(gpubudget_resource_t *self)
{
    ((struct plain *)self)->destroyed++;
}

static const gpubudget_resource_ops_t plain_ops = {
    .size = sizeof(plain_ops),
    .materialize = plain_materialize,
    .deallocate = plain_deallocate,
    .allocation_accounting = plain_accounting,
    .bytes_outstanding = plain_outstanding,
    .device_ordinal = plain_device,
    .destroy = plain_destroy,
};

static struct plain plain = {.resource.ops = &plain_ops};
static gpubudget_resource_t *const resource = &plain.resource;

START_TEST(test_required_are_called)
{
    gpubudget_block_t block = {0};
    gpubudget_error_t error;

    ck_assert_int_eq(gpubudget_deallocate(resource, &block, NULL, &error),
                     GPUBUDGET_USE_AFTER_FREE);
    ck_assert_int_eq(error.status, GPUBUDGET_USE_AFTER_FREE);
    ck_assert_ptr_eq(gpubudget_allocation_accounting(resource), resource);
    ck_assert_uint_eq(gpubudget_bytes_outstanding(resource), 77);
    ck_assert_int_eq(gpubudget_device_ordinal(resource), 3);
    gpubudget_resource_destroy(resource);
    ck_assert_int_eq(plain.destroyed, 1);
    gpubudget_resource_destroy(NULL);
}
END_TEST

START_TEST(test_allocate_has_no_pressure)
{
    gpubudget_block_t block = {0};

    memset(&plain.seen, 0xff, sizeof(plain.seen));
    ck_assert_int_eq(gpubudget_allocate(resource, 4096, (CUstream)64, 9, &block, NULL),
                     GPUBUDGET_OK);
    ck_assert_uint_eq(plain.seen.bytes, 4096);
    ck_assert_ptr_eq(plain.seen.stream, (CUstream)64);
    ck_assert_uint_eq(plain.seen.tag, 9);
    ck_assert_int_eq(plain.seen.kind, GPUBUDGET_KIND_STREAM_ORDERED);
    ck_assert_uint_eq(plain.seen.reservation_pressure, 0);
    ck_assert_uint_eq(plain.seen.depth, 0);
    ck_assert_uint_eq(block.tag, 9);
}
END_TEST

START_TEST(test_allocate_with_reservation_pressure)
{
    gpubudget_block_t block = {0};

    ck_assert_int_eq(gpubudget_allocate_with_reservation_pressure(resource, 4096, 1 << 20, NULL,
                                                                  9, &block, NULL),
                     GPUBUDGET_OK);
    ck_assert_uint_eq(plain.seen.bytes, 4096);
    ck_assert_uint_eq(plain.seen.reservation_pressure, 1 << 20);
}
END_TEST

START_TEST(test_default_snapshot)
{
    gpubudget_snapshot_t snapshot = {1, 2};

    ck_assert(!gpubudget_budget_snapshot(resource, &snapshot));
    ck_assert_uint_eq(snapshot.limit, 1);
    ck_assert_uint_eq(snapshot.reserved, 2);
}
END_TEST

START_TEST(test_default_reap)
{
    gpubudget_error_t error = {.status = GPUBUDGET_OK, .limit = 5};

    ck_assert_int_eq(gpubudget_reap_pending(resource, &error), GPUBUDGET_OK);
    ck_assert_uint_eq(error.limit, 5);
}
END_TEST

START_TEST(test_default_block_use)
{
    gpubudget_block_t block = {.id = {64, 1}};
    gpubudget_error_t error = {0};

    ck_assert(!gpubudget_supports_block_use_tracking(resource));
    ck_assert_int_eq(gpubudget_record_block_use(resource, &block, NULL, &error),
                     GPUBUDGET_STREAM_MISUSE);
    ck_assert_int_eq(error.status, GPUBUDGET_STREAM_MISUSE);
    for (int access = GPUBUDGET_ACCESS_READ; access <= GPUBUDGET_ACCESS_READ_WRITE; access++) {
        memset(&error, 0, sizeof(error));
        ck_assert_int_eq(gpubudget_prepare_block_use(resource, block.id, NULL,
                                                     (gpubudget_access_t)access, &error),
                         GPUBUDGET_STREAM_MISUSE);
        ck_assert_int_eq(error.status, GPUBUDGET_STREAM_MISUSE);
        memset(&error, 0, sizeof(error));
        ck_assert_int_eq(gpubudget_finish_block_use(resource, block.id, NULL,
                                                    (gpubudget_access_t)access, &error),
                         GPUBUDGET_STREAM_MISUSE);
        ck_assert_int_eq(error.status, GPUBUDGET_STREAM_MISUSE);
    }
}
END_TEST

START_TEST(test_default_bounds)
{
    gpubudget_request_t request = {.bytes = 12345};

    ck_assert_uint_eq(gb_resource_charge_bound(resource, &request, false), 12345);
    ck_assert_uint_eq(gb_resource_charge_bound(resource, &request, true), 12345);
    ck_assert(!gb_resource_make_room(resource, 1));
}
END_TEST

START_TEST(test_null_where_an_object_is_needed)
{
    gpubudget_request_t request = {.bytes = 1};
    gpubudget_block_t block = {0};
    gpubudget_error_t error;

#define INVALID(call)                                                                          \
    do {                                                                                       \
        memset(&error, 0, sizeof(error));                                                      \
        ck_assert_int_eq(call, GPUBUDGET_INVALID_ARGUMENT);                                    \
        ck_assert_int_eq(error.status, GPUBUDGET_INVALID_ARGUMENT);                            \
    } while (0)
    INVALID(gpubudget_materialize(NULL, &request, &block, &error));
    INVALID(gpubudget_materialize(resource, NULL, &block, &error));
    INVALID(gpubudget_materialize(resource, &request, NULL, &error));
    INVALID(gpubudget_allocate(NULL, 1, NULL, 0, &block, &error));
    INVALID(gpubudget_allocate(resource, 1, NULL, 0, NULL, &error));
    INVALID(gpubudget_deallocate(NULL, &block, NULL, &error));
    INVALID(gpubudget_deallocate(resource, NULL, NULL, &error));
    INVALID(gpubudget_reap_pending(NULL, &error));
    INVALID(gpubudget_record_block_use(NULL, &block, NULL, &error));
    INVALID(gpubudget_record_block_use(resource, NULL, NULL, &error));
    INVALID(gpubudget_prepare_block_use(NULL, block.id, NULL, GPUBUDGET_ACCESS_READ, &error));
    INVALID(gpubudget_finish_block_use(NULL, block.id, NULL, GPUBUDGET_ACCESS_READ, &error));
#undef INVALID
    /* Nobody has to ask for the details. */
    ck_assert_int_eq(gpubudget_materialize(NULL, &request, &block, NULL),
                     GPUBUDGET_INVALID_ARGUMENT);
}
END_TEST

START_TEST(test_status_strings)
{
    const char *unknown = gpubudget_status_string((gpubudget_status_t)99);

    ck_assert_ptr_nonnull(unknown);
    for (int status = GPUBUDGET_OK; status <= GPUBUDGET_NO_DRIVER; status++) {
        const char *text = gpubudget_status_string((gpubudget_status_t)status);

        ck_assert_ptr_nonnull(text);
        ck_assert_str_ne(text, "");
        ck_assert_str_ne(text, unknown);
    }
}
END_TEST

START_TEST(test_fail_says_only_what_it_knows)
{
    gpubudget_error_t error;

    memset(&error, 0xff, sizeof(error));
    ck_assert_int_eq(gb_fail_driver(&error, CUDA_ERROR_UNKNOWN), GPUBUDGET_DRIVER);
    ck_assert_int_eq(error.status, GPUBUDGET_DRIVER);
    ck_assert_int_eq(error.driver_code, CUDA_ERROR_UNKNOWN);
    ck_assert_uint_eq(error.requested, 0);
    ck_assert_uint_eq(error.limit, 0);
    memset(&error, 0xff, sizeof(error));
    gb_fail(&error, GPUBUDGET_USE_AFTER_FREE);
    ck_assert_int_eq(error.driver_code, CUDA_SUCCESS);
}
END_TEST

START_TEST(test_sums_do_not_wrap)
{
    ck_assert_uint_eq(gb_add_saturated(UINT64_MAX, 1), UINT64_MAX);
    ck_assert_uint_eq(gb_add_saturated(UINT64_MAX - 1, 1), UINT64_MAX);
    ck_assert_uint_eq(gb_add_saturated(1, 2), 3);
    ck_assert_uint_eq(gb_round_up(0, 2 * MIB), 0);
    ck_assert_uint_eq(gb_round_up(1, 2 * MIB), 2 * MIB);
    ck_assert_uint_eq(gb_round_up(2 * MIB, 2 * MIB), 2 * MIB);
    ck_assert_uint_eq(gb_round_up(UINT64_MAX, 2 * MIB), UINT64_MAX);
}
END_TEST

START_TEST(test_version)
{
    ck_assert_str_eq(gpubudget_version(), PACKAGE_VERSION);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {test_required_are_called,
                                  test_allocate_has_no_pressure,
                                  test_allocate_with_reservation_pressure,
                                  test_default_snapshot,
                                  test_default_reap,
                                  test_default_block_use,
                                  test_default_bounds,
                                  test_null_where_an_object_is_needed,
                                  test_status_strings,
                                  test_fail_says_only_what_it_knows,
                                  test_sums_do_not_wrap,
                                  test_version};

    return unit_run("resource", tests, COUNT_OF(tests));
}
