/* Uses of blocks by streams, and the events that tell when they are over. On the stand-in. */
#include "resource/uses.h"

#include "failing_malloc.h"
#include "resource/backend.h"
#include "standin_unit.h"

#include <stdlib.h>

static gpubudget_resource_t *resource;
static struct gb_backend *backend;
static CUstream a, b, c;
static unsigned long failed_creates; /* of events; counted as calls, too */

static void begin(void)
{
    standin_begin();
    ck_assert_int_eq(gpubudget_driver_resource_new(0, GPUBUDGET_CHARGE_REQUESTED, &resource),
                     GPUBUDGET_OK);
    backend = (struct gb_backend *)resource;
    a = standin_stream();
    b = standin_stream();
    c = standin_stream();
}

static gpubudget_block_t take(CUstream stream)
{
    gpubudget_block_t block;

    ck_assert_int_eq(gpubudget_allocate(resource, MIB, stream, 0, &block, NULL), GPUBUDGET_OK);
    return block;
}

static void prepare(const gpubudget_block_t *block, CUstream stream, gpubudget_access_t access)
{
    ck_assert_int_eq(gpubudget_prepare_block_use(resource, block->id, stream, access, NULL),
                     GPUBUDGET_OK);
}

static void finish(const gpubudget_block_t *block, CUstream stream, gpubudget_access_t access)
{
    ck_assert_int_eq(gpubudget_finish_block_use(resource, block->id, stream, access, NULL),
                     GPUBUDGET_OK);
}

static void give_back(const gpubudget_block_t *block)
{
    ck_assert_int_eq(gpubudget_deallocate(resource, block, NULL, NULL), GPUBUDGET_OK);
}

static bool waits(CUstream stream)
{
    return standin_queued(stream) > 0;
}

static void assert_no_event_is_held(void)
{
    ck_assert_uint_eq(backend->events.used_count, 0);
    ck_assert_uint_eq(standin_calls("cuEventCreate") - failed_creates -
                          standin_calls("cuEventDestroy_v2"),
                      backend->events.idle_count + (unsigned long)backend->pending.entries);
}

static void end(void)
{
    ck_assert_int_eq(gpubudget_reap_pending(resource, NULL), GPUBUDGET_OK);
    ck_assert_uint_eq(gpubudget_bytes_outstanding(resource), 0);
    assert_no_event_is_held();
    gpubudget_resource_destroy(resource);
}

START_TEST(test_the_allocation_is_the_first_write)
{
    gpubudget_block_t block;

    begin();
    ck_assert(gpubudget_supports_block_use_tracking(resource));
    standin_hold(a);
    block = take(a);
    prepare(&block, a, GPUBUDGET_ACCESS_READ_WRITE);
    ck_assert_uint_eq(standin_calls("cuStreamWaitEvent"), 0);
    prepare(&block, b, GPUBUDGET_ACCESS_READ);
    ck_assert(waits(b));
    ck_assert(!waits(c));
    standin_release(a);
    ck_assert(!waits(b));
    give_back(&block);
    end();
}
END_TEST

START_TEST(test_not_behind_later_work)
{
    gpubudget_block_t block;

    begin();
    block = take(a);
    /* After the allocation: of no matter to the block. */
    standin_hold(a);
    prepare(&block, b, GPUBUDGET_ACCESS_READ);
    ck_assert(!waits(b));
    standin_release(a);
    give_back(&block);
    end();
}
END_TEST

START_TEST(test_reads_wait_for_the_write)
{
    gpubudget_block_t block;

    begin();
    block = take(a);
    standin_hold(b);
    prepare(&block, b, GPUBUDGET_ACCESS_WRITE);
    finish(&block, b, GPUBUDGET_ACCESS_WRITE);
    prepare(&block, c, GPUBUDGET_ACCESS_READ);
    ck_assert(waits(c));
    prepare(&block, a, GPUBUDGET_ACCESS_READ);
    ck_assert(waits(a));
    standin_release(b);
    ck_assert(!waits(c));
    ck_assert(!waits(a));
    give_back(&block);
    end();
}
END_TEST

START_TEST(test_reads_do_not_wait_for_reads)
{
    gpubudget_block_t block;

    begin();
    block = take(a);
    standin_hold(b);
    prepare(&block, b, GPUBUDGET_ACCESS_READ);
    finish(&block, b, GPUBUDGET_ACCESS_READ);
    prepare(&block, c, GPUBUDGET_ACCESS_READ);
    ck_assert(!waits(c));
    finish(&block, c, GPUBUDGET_ACCESS_READ);
    prepare(&block, a, GPUBUDGET_ACCESS_WRITE);
    ck_assert(waits(a));
    standin_release(b);
    ck_assert(!waits(a));
    give_back(&block);
    end();
}
END_TEST

/* More than one look at the block takes. */
START_TEST(test_a_write_waits_for_every_read)
{
    enum { READERS = 21 };
    CUstream readers[READERS];
    gpubudget_block_t block;

    begin();
    block = take(a);
    for (int i = 0; i < READERS; i++) {
        readers[i] = standin_stream();
        standin_hold(readers[i]);
        for (int turn = 0; turn < 3; turn++)
            ck_assert_int_eq(gpubudget_record_block_use(resource, &block, readers[i], NULL),
                             GPUBUDGET_OK);
    }
    /* One for each stream, however often it reads; and the allocation's. */
    ck_assert_uint_eq(backend->events.used_count, READERS + 1);
    standin_reset_counts();
    prepare(&block, b, GPUBUDGET_ACCESS_WRITE);
    ck_assert_uint_eq(standin_calls("cuStreamWaitEvent"), READERS + 1);
    for (int i = 0; i < READERS; i++) {
        ck_assert(waits(b));
        standin_release(readers[i]);
    }
    ck_assert(!waits(b));
    finish(&block, b, GPUBUDGET_ACCESS_WRITE);
    ck_assert_uint_eq(backend->events.used_count, 1);
    give_back(&block);
    ck_assert_uint_eq(backend->events.used_count, 0);
    gpubudget_resource_destroy(resource);
}
END_TEST

START_TEST(test_the_free_waits_for_all_uses)
{
    gpubudget_block_t block;

    begin();
    block = take(a);
    standin_hold(b);
    ck_assert_int_eq(gpubudget_record_block_use(resource, &block, b, NULL), GPUBUDGET_OK);
    give_back(&block);
    /* The host did not wait, the stream does, and the bytes are not back before. */
    ck_assert(waits(a));
    ck_assert_int_eq(gpubudget_reap_pending(resource, NULL), GPUBUDGET_OK);
    ck_assert_uint_eq(gpubudget_bytes_outstanding(resource), MIB);
    standin_release(b);
    ck_assert(!waits(a));
    end();
}
END_TEST

START_TEST(test_the_free_waits_for_nothing_else)
{
    gpubudget_block_t block;

    begin();
    block = take(a);
    ck_assert_int_eq(gpubudget_record_block_use(resource, &block, a, NULL), GPUBUDGET_OK);
    ck_assert_int_eq(gpubudget_record_block_use(resource, &block, b, NULL), GPUBUDGET_OK);
    standin_hold(b);
    standin_hold(c);
    standin_reset_counts();
    give_back(&block);
    /* b's use is over, though b is busy with something later. */
    ck_assert(!waits(a));
    ck_assert_uint_eq(standin_calls("cuStreamWaitEvent"), 1);
    standin_release(b);
    standin_release(c);
    gpubudget_reap_pending(resource, NULL);
    ck_assert_uint_eq(gpubudget_bytes_outstanding(resource), 0);
    gpubudget_resource_destroy(resource);
}
END_TEST

/* As long as nobody asks for another free, the host waits for nothing. */
START_TEST(test_the_host_does_not_wait)
{
    const gpubudget_release_t nothing_else = {.release = NULL};
    gpubudget_block_t block;

    begin();
    for (int named = 0; named < 2; named++) {
        block = take(a);
        standin_hold(b);
        ck_assert_int_eq(gpubudget_record_block_use(resource, &block, b, NULL), GPUBUDGET_OK);
        ck_assert_int_eq(
            gpubudget_deallocate(resource, &block, named ? &nothing_else : NULL, NULL),
            GPUBUDGET_OK);
        ck_assert(waits(a));
        ck_assert_uint_eq(standin_calls("cuEventSynchronize"), 0);
        standin_release(b);
        ck_assert(!waits(a));
    }
    gpubudget_resource_destroy(resource);
}
END_TEST

/* The driver frees memory of a pool at once, whoever uses it: then the host waits. */
static CUresult free_now(void *arg, CUdeviceptr pointer)
{
    (void)arg;
    return cuMemFree_v2(pointer);
}

START_TEST(test_a_plain_free_of_pool_memory)
{
    const gpubudget_release_t plain = {.release = free_now};
    gpubudget_block_t block;

    begin();
    block = take(a);
    ck_assert_int_eq(gpubudget_record_block_use(resource, &block, b, NULL), GPUBUDGET_OK);
    standin_reset_counts();
    ck_assert_int_eq(gpubudget_deallocate(resource, &block, &plain, NULL), GPUBUDGET_OK);
    ck_assert_uint_eq(standin_calls("cuEventSynchronize"), 2);
    ck_assert_uint_eq(backend->events.used_count, 0);
    gpubudget_resource_destroy(resource);
}
END_TEST

START_TEST(test_stale)
{
    gpubudget_block_t block, wrong;

    begin();
    block = take(a);
    wrong = block;
    wrong.id.generation++;
    standin_reset_counts();
    ck_assert_int_eq(gpubudget_record_block_use(resource, &wrong, b, NULL),
                     GPUBUDGET_USE_AFTER_FREE);
    ck_assert_int_eq(
        gpubudget_prepare_block_use(resource, wrong.id, b, GPUBUDGET_ACCESS_WRITE, NULL),
        GPUBUDGET_USE_AFTER_FREE);
    ck_assert_int_eq(
        gpubudget_finish_block_use(resource, wrong.id, b, GPUBUDGET_ACCESS_WRITE, NULL),
        GPUBUDGET_USE_AFTER_FREE);
    ck_assert_int_eq(gpubudget_deallocate(resource, &wrong, NULL, NULL),
                     GPUBUDGET_USE_AFTER_FREE);
    ck_assert_uint_eq(standin_calls("cuEvent*"), 0);
    ck_assert_uint_eq(standin_calls("cuStreamWaitEvent"), 0);
    ck_assert_uint_eq(backend->events.used_count, 1);
    give_back(&block);
    ck_assert_int_eq(
        gpubudget_finish_block_use(resource, block.id, b, GPUBUDGET_ACCESS_READ, NULL),
        GPUBUDGET_USE_AFTER_FREE);
    ck_assert_uint_eq(backend->events.used_count, 0);
    gpubudget_reap_pending(resource, NULL);
    gpubudget_resource_destroy(resource);
}
END_TEST

START_TEST(test_bad_arguments)
{
    gpubudget_block_t block;

    begin();
    block = take(a);
    ck_assert_int_eq(
        gpubudget_prepare_block_use(resource, block.id, b, (gpubudget_access_t)9, NULL),
        GPUBUDGET_INVALID_ARGUMENT);
    ck_assert_int_eq(
        gpubudget_finish_block_use(resource, block.id, b, (gpubudget_access_t)9, NULL),
        GPUBUDGET_INVALID_ARGUMENT);
    give_back(&block);
    end();
}
END_TEST

START_TEST(test_one_that_does_not_track)
{
    gpubudget_block_t block;

    begin();
    backend->options.track_uses = false;
    block = take(a);
    ck_assert(!gpubudget_supports_block_use_tracking(resource));
    ck_assert_int_eq(gpubudget_record_block_use(resource, &block, b, NULL),
                     GPUBUDGET_STREAM_MISUSE);
    ck_assert_int_eq(
        gpubudget_prepare_block_use(resource, block.id, b, GPUBUDGET_ACCESS_READ, NULL),
        GPUBUDGET_STREAM_MISUSE);
    give_back(&block);
    ck_assert_uint_eq(backend->events.used_count + backend->events.idle_count, 0);
    end();
}
END_TEST

/* Nobody used it: no event, and nothing to wait for. */
START_TEST(test_without_uses_no_event)
{
    gpubudget_request_t request = {.bytes = MIB, .kind = GPUBUDGET_KIND_DIRECT};
    gpubudget_block_t block;

    begin();
    ck_assert_int_eq(gpubudget_materialize(resource, &request, &block, NULL), GPUBUDGET_OK);
    give_back(&block);
    ck_assert_uint_eq(standin_calls("cuEvent*"), 0);
    end();
}
END_TEST

START_TEST(test_events_are_pooled)
{
    begin();
    for (int i = 0; i < 1000; i++) {
        gpubudget_block_t block = take(a);

        finish(&block, b, GPUBUDGET_ACCESS_WRITE);
        finish(&block, c, GPUBUDGET_ACCESS_READ);
        give_back(&block);
    }
    /* The allocation's, a write, a read, and the mark of a stream's frees. */
    ck_assert_uint_le(standin_calls("cuEventCreate"), 4);
    end();
}
END_TEST

START_TEST(test_not_too_many_idle_ones)
{
    enum { BLOCKS = GB_EVENTS_IDLE + 40 };
    static gpubudget_block_t blocks[BLOCKS];

    begin();
    for (int i = 0; i < BLOCKS; i++)
        blocks[i] = take(a);
    ck_assert_uint_eq(backend->events.used_count, BLOCKS);
    for (int i = 0; i < BLOCKS; i++)
        give_back(&blocks[i]);
    ck_assert_uint_eq(backend->events.idle_count, GB_EVENTS_IDLE);
    end();
}
END_TEST

START_TEST(test_the_driver_fails)
{
    gpubudget_block_t block;
    gpubudget_error_t why;

    begin();
    block = take(a);
    standin_hold(b);
    standin_fail("cuEventRecord", 1, CUDA_ERROR_UNKNOWN);
    ck_assert_int_eq(gpubudget_record_block_use(resource, &block, b, &why), GPUBUDGET_DRIVER);
    ck_assert_int_eq(why.driver_code, CUDA_ERROR_UNKNOWN);
    standin_fail("cuEventCreate", 1, CUDA_ERROR_OUT_OF_MEMORY);
    failed_creates = 1;
    ck_assert_int_eq(gpubudget_record_block_use(resource, &block, b, &why), GPUBUDGET_DRIVER);
    ck_assert_uint_eq(backend->events.used_count, 1);
    standin_fail("cuStreamWaitEvent", 1, CUDA_ERROR_UNKNOWN);
    ck_assert_int_eq(
        gpubudget_prepare_block_use(resource, block.id, b, GPUBUDGET_ACCESS_READ, &why),
        GPUBUDGET_DRIVER);
    ck_assert_int_eq(gpubudget_record_block_use(resource, &block, b, NULL), GPUBUDGET_OK);
    /* The block is live as before, with its uses. */
    standin_fail("cuStreamWaitEvent", 1, CUDA_ERROR_UNKNOWN);
    ck_assert_int_eq(gpubudget_deallocate(resource, &block, NULL, &why), GPUBUDGET_DRIVER);
    ck_assert_uint_eq(standin_calls("cuMemFreeAsync"), 0);
    ck_assert_uint_eq(backend->events.used_count, 2);
    standin_fail("cuMemFreeAsync", 1, CUDA_ERROR_UNKNOWN);
    ck_assert_int_eq(gpubudget_deallocate(resource, &block, NULL, &why), GPUBUDGET_DRIVER);
    ck_assert_uint_eq(backend->events.used_count, 2);
    give_back(&block);
    ck_assert(waits(a));
    standin_release(b);
    ck_assert(!waits(a));
    end();
}
END_TEST

/* Without its event a block is not given out. */
START_TEST(test_the_first_event_fails)
{
    gpubudget_block_t block = {.tag = 7};
    gpubudget_error_t why;

    begin();
    standin_fail("cuEventRecord", 1, CUDA_ERROR_UNKNOWN);
    ck_assert_int_eq(gpubudget_allocate(resource, MIB, a, 0, &block, &why), GPUBUDGET_DRIVER);
    ck_assert_int_eq(why.driver_code, CUDA_ERROR_UNKNOWN);
    ck_assert_uint_eq(block.tag, 7);
    ck_assert_uint_eq(standin_real_live_blocks(0), 0);
    end();
}
END_TEST

START_TEST(test_host_memory_runs_out)
{
    gpubudget_block_t block;
    long refused = 1;

    begin();
    for (long allowed = 0; refused > 0; allowed++) {
        gpubudget_status_t status;

        malloc_fail_after(allowed);
        status = gpubudget_allocate(resource, MIB, a, 0, &block, NULL);
        if (status == GPUBUDGET_OK) {
            status = gpubudget_record_block_use(resource, &block, b, NULL);
            refused = malloc_recover();
            ck_assert(status == GPUBUDGET_OK || status == GPUBUDGET_OUT_OF_HOST_MEMORY ||
                      status == GPUBUDGET_DRIVER);
            give_back(&block);
        } else {
            refused = malloc_recover();
        }
        ck_assert_int_eq(gpubudget_reap_pending(resource, NULL), GPUBUDGET_OK);
        ck_assert_uint_eq(gpubudget_bytes_outstanding(resource), 0);
        ck_assert_uint_eq(backend->events.used_count, 0);
    }
    gpubudget_resource_destroy(resource);
}
END_TEST

enum { NOTED = 5 };

static gpubudget_status_t note(const gpubudget_block_t *blocks, CUstream stream, CUresult *code)
{
    struct gb_stream_key key = gb_stream_key(&backend->own_api, stream, false);
    struct gb_touched touched[NOTED];

    for (int i = 0; i < NOTED; i++)
        touched[i] = (struct gb_touched){blocks[i].id, i == 3 ? 1 : 0};
    return gb_uses_note(backend->table, &backend->events, touched, NOTED, 0, &key, true, code);
}

/* One event for several blocks, which ends with the last of them. */
START_TEST(test_noted_together)
{
    gpubudget_block_t blocks[NOTED];
    unsigned long records;
    CUresult code;

    begin();
    for (int i = 0; i < NOTED; i++)
        blocks[i] = take(a);
    give_back(&blocks[4]); /* gone: passed over */
    ck_assert_int_eq(cuStreamSynchronize(a), CUDA_SUCCESS);
    standin_hold(b);
    records = standin_calls("cuEventRecord");
    ck_assert_int_eq(note(blocks, b, &code), GPUBUDGET_OK);
    ck_assert_uint_eq(standin_calls("cuEventRecord") - records, 1);
    /* Reads, so that nobody waits but the free; and the fourth is of another device. */
    prepare(&blocks[0], c, GPUBUDGET_ACCESS_READ);
    ck_assert(!waits(c));
    give_back(&blocks[3]);
    ck_assert(!waits(a));
    give_back(&blocks[0]);
    ck_assert(waits(a));
    prepare(&blocks[1], c, GPUBUDGET_ACCESS_WRITE);
    ck_assert(waits(c));
    standin_release(b);
    ck_assert(!waits(a));
    /* Again by the same stream: its later event is enough. */
    ck_assert_int_eq(note(blocks, b, &code), GPUBUDGET_OK);
    give_back(&blocks[1]);
    give_back(&blocks[2]);
    end();
}
END_TEST

enum { STREAMS = 500, HELD = 100 };

/* Streams come and go, and the block stays. */
START_TEST(test_streams_that_go)
{
    gpubudget_block_t blocks[NOTED];
    CUstream held[HELD];
    CUresult code;

    begin();
    for (int i = 0; i < NOTED; i++)
        blocks[i] = take(a);
    for (int i = 0; i < STREAMS; i++) {
        CUstream stream = standin_stream();

        if (i % 2)
            ck_assert_int_eq(gpubudget_record_block_use(resource, &blocks[0], stream, NULL),
                             GPUBUDGET_OK);
        else
            ck_assert_int_eq(note(blocks, stream, &code), GPUBUDGET_OK);
        ck_assert_int_eq(cuStreamSynchronize(stream), CUDA_SUCCESS);
        /* Its handle may be the next one's only if it is gone. */
        held[i % 2] = stream;
        if (i % 2) {
            ck_assert_int_eq(cuStreamDestroy_v2(held[0]), CUDA_SUCCESS);
            ck_assert_int_eq(cuStreamDestroy_v2(held[1]), CUDA_SUCCESS);
        }
        (void)standin_stream(); /* takes the place of a handle that is free */
    }
    ck_assert_uint_le(backend->events.used_count, NOTED * 32 + 1);
    /* Those that still run are not forgotten, however many. */
    for (int i = 0; i < HELD; i++) {
        held[i] = standin_stream();
        standin_hold(held[i]);
        ck_assert_int_eq(note(blocks, held[i], &code), GPUBUDGET_OK);
    }
    give_back(&blocks[0]);
    for (int i = HELD; i-- > 0;) {
        ck_assert(waits(a));
        standin_release(held[i]);
    }
    ck_assert(!waits(a));
    for (int i = 1; i < NOTED; i++)
        give_back(&blocks[i]);
    end();
}
END_TEST

START_TEST(test_noted_without_memory)
{
    gpubudget_block_t blocks[NOTED];
    gpubudget_status_t status;
    long refused = 1;
    CUresult code;

    begin();
    for (int i = 0; i < NOTED; i++)
        blocks[i] = take(a);
    for (long allowed = 0; refused > 0; allowed++) {
        malloc_fail_after(allowed);
        status = note(blocks, b, &code);
        refused = malloc_recover();
        /* The stand-in may lack memory for its own event, too. */
        ck_assert(status == GPUBUDGET_OK || status == GPUBUDGET_OUT_OF_HOST_MEMORY ||
                  status == GPUBUDGET_DRIVER);
        ck_assert(refused > 0 || status == GPUBUDGET_OK);
    }
    for (int i = 0; i < NOTED; i++)
        give_back(&blocks[i]);
    ck_assert_int_eq(gpubudget_reap_pending(resource, NULL), GPUBUDGET_OK);
    ck_assert_uint_eq(backend->events.used_count, 0);
    gpubudget_resource_destroy(resource);
}
END_TEST

START_TEST(test_a_stream_that_captures)
{
    gpubudget_block_t block;
    CUgraph graph;

    begin();
    block = take(a);
    ck_assert_int_eq(cuStreamBeginCapture_v2(b, CU_STREAM_CAPTURE_MODE_RELAXED), 0);
    ck_assert_int_eq(
        gpubudget_prepare_block_use(resource, block.id, b, GPUBUDGET_ACCESS_READ, NULL),
        GPUBUDGET_STREAM_MISUSE);
    ck_assert_int_eq(gpubudget_record_block_use(resource, &block, b, NULL),
                     GPUBUDGET_STREAM_MISUSE);
    /* Another stream goes on meanwhile. */
    prepare(&block, c, GPUBUDGET_ACCESS_WRITE);
    finish(&block, c, GPUBUDGET_ACCESS_WRITE);
    give_back(&block);
    ck_assert_int_eq(cuStreamEndCapture(b, &graph), 0);
    end();
}
END_TEST

/* Memory of a pool outlives the context that used it; that one's events do not. */
START_TEST(test_the_context_of_a_use_ends)
{
    CUcontext other;
    CUstream stream;
    gpubudget_block_t block;

    begin();
    block = take(a);
    ck_assert_int_eq(cuCtxCreate_v2(&other, 0, 0), CUDA_SUCCESS);
    stream = standin_stream();
    ck_assert_int_eq(gpubudget_record_block_use(resource, &block, stream, NULL), GPUBUDGET_OK);
    ck_assert_int_eq(cuCtxPopCurrent_v2(NULL), CUDA_SUCCESS);
    gb_backend_context_closes(backend, &backend->own_api, other);
    /* Nobody asks the driver about it from here on. */
    prepare(&block, b, GPUBUDGET_ACCESS_WRITE);
    ck_assert_uint_eq(standin_calls("cuStreamWaitEvent"), 1);
    gb_backend_context_stays(backend, &backend->own_api, other);
    prepare(&block, b, GPUBUDGET_ACCESS_WRITE);
    ck_assert_uint_eq(standin_calls("cuStreamWaitEvent"), 3);
    gb_backend_context_closes(backend, &backend->own_api, other);
    ck_assert_int_eq(cuCtxDestroy_v2(other), CUDA_SUCCESS);
    gb_backend_context_ended(backend, &backend->own_api, other, 0, UINT64_MAX);
    give_back(&block);
    ck_assert_uint_eq(standin_calls("cuStreamWaitEvent"), 3);
    ck_assert_uint_eq(backend->events.used_count, 0);
    gpubudget_reap_pending(resource, NULL);
    gpubudget_resource_destroy(resource);
}
END_TEST

/* One that nobody holds any more while it is open whether its context ends. */
START_TEST(test_dropped_while_the_context_may_end)
{
    gpubudget_block_t block;

    for (int ended = 0; ended < 2; ended++) {
        begin();
        block = take(a);
        gb_backend_context_closes(backend, &backend->own_api, context);
        give_back(&block);
        ck_assert_uint_eq(backend->events.used_count, 1);
        if (ended)
            gb_backend_context_ended(backend, &backend->own_api, context, 0, UINT64_MAX);
        else
            gb_backend_context_stays(backend, &backend->own_api, context);
        ck_assert_uint_eq(backend->events.used_count, 0);
        ck_assert_uint_eq(backend->events.idle_count, ended ? 0 : 1);
        gpubudget_reap_pending(resource, NULL);
        gpubudget_resource_destroy(resource);
    }
}
END_TEST

/* Each of a few threads takes blocks, uses all of them on its own stream, and gives its own
 * back while others still may. */
enum { THREADS = 4, SHARED = 16, ROUNDS = 400 };

static struct {
    pthread_mutex_t lock;
    gpubudget_block_t block;
    bool there;
} shared[SHARED];

static void *work(void *arg)
{
    unsigned number = (unsigned)(uintptr_t)arg, random = number * 2654435761U + 1;
    CUstream stream;

    ck_assert_int_eq(cuCtxSetCurrent(context), CUDA_SUCCESS);
    stream = standin_stream();
    for (int i = 0; i < ROUNDS; i++) {
        unsigned place = (random = random * 1103515245U + 12345U) >> 16 & (SHARED - 1);
        gpubudget_block_t block;
        gpubudget_access_t access = (gpubudget_access_t)(random >> 8 & 1);
        gpubudget_status_t status;
        bool there, taken = false;

        pthread_mutex_lock(&shared[place].lock);
        there = shared[place].there;
        block = shared[place].block;
        if (there && (random >> 24 & 3) == 0) {
            shared[place].there = false;
            taken = true;
        }
        pthread_mutex_unlock(&shared[place].lock);
        if (!there) {
            if (gpubudget_allocate(resource, 4096, stream, 0, &block, NULL) != GPUBUDGET_OK)
                continue;
            pthread_mutex_lock(&shared[place].lock);
            taken = shared[place].there;
            if (!taken) {
                shared[place].there = true;
                shared[place].block = block;
            }
            pthread_mutex_unlock(&shared[place].lock);
        }
        status = gpubudget_prepare_block_use(resource, block.id, stream, access, NULL);
        ck_assert(status == GPUBUDGET_OK || status == GPUBUDGET_USE_AFTER_FREE);
        status = gpubudget_finish_block_use(resource, block.id, stream, access, NULL);
        ck_assert(status == GPUBUDGET_OK || status == GPUBUDGET_USE_AFTER_FREE);
        if (taken)
            give_back(&block);
    }
    return NULL;
}

START_TEST(test_many_threads)
{
    pthread_t threads[THREADS];

    begin();
    for (int i = 0; i < SHARED; i++)
        pthread_mutex_init(&shared[i].lock, NULL);
    for (uintptr_t i = 0; i < THREADS; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, work, (void *)i), 0);
    for (int i = 0; i < THREADS; i++)
        ck_assert_int_eq(pthread_join(threads[i], NULL), 0);
    for (int i = 0; i < SHARED; i++)
        if (shared[i].there)
            give_back(&shared[i].block);
    end();
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {test_the_allocation_is_the_first_write,
                                  test_not_behind_later_work,
                                  test_reads_wait_for_the_write,
                                  test_reads_do_not_wait_for_reads,
                                  test_a_write_waits_for_every_read,
                                  test_the_free_waits_for_all_uses,
                                  test_the_free_waits_for_nothing_else,
                                  test_the_host_does_not_wait,
                                  test_a_plain_free_of_pool_memory,
                                  test_stale,
                                  test_bad_arguments,
                                  test_one_that_does_not_track,
                                  test_without_uses_no_event,
                                  test_events_are_pooled,
                                  test_not_too_many_idle_ones,
                                  test_the_driver_fails,
                                  test_the_first_event_fails,
                                  test_host_memory_runs_out,
                                  test_a_stream_that_captures,
                                  test_noted_together,
                                  test_streams_that_go,
                                  test_noted_without_memory,
                                  test_the_context_of_a_use_ends,
                                  test_dropped_while_the_context_may_end,
                                  test_many_threads};

    return unit_run("uses", tests, COUNT_OF(tests));
}
