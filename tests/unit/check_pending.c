/* Bytes freed in stream order, and the marks that prove their frees. On the stand-in. */
#include "resource/pending.h"

#include "failing_malloc.h"
#include "resource/pending_follow.h"
#include "resource/thread.h"
#include "standin_unit.h"

#include <sched.h>
#include <stdlib.h>

static struct gpubudget_accounting ledger;
static struct gb_pending pending;
static _Atomic uint64_t settled_blocks;

/* As the backend's: takes the charge back and frees the entry. */
static void settle_block(void *owner, struct gb_block *block)
{
    ck_assert_ptr_eq(owner, &pending);
    atomic_fetch_add(&settled_blocks, 1);
    gb_ledger_reclaim(&ledger, block->charged);
    free(block);
}

static void begin(void)
{
    standin_begin();
    gb_ledger_init(&ledger);
    gb_pending_init(&pending, false, &ledger, settle_block, &pending);
}

static struct gb_stream_key key_of(CUstream stream)
{
    return gb_stream_key(&api, stream, false);
}

/* A free of `bytes` that are in the ledger. */
static void freed(CUstream stream, uint64_t bytes)
{
    struct gb_stream_key key = key_of(stream);

    gb_ledger_acquire(&ledger, bytes);
    ck_assert(gb_pending_prepare(&pending, &key));
    gb_pending_add(&pending, &key, NULL, bytes, NULL);
}

/* The same of a direct block with its own entry. */
static void freed_block(CUstream stream, uint64_t charged)
{
    struct gb_stream_key key = key_of(stream);
    struct gb_block *block = calloc(1, sizeof(*block));

    ck_assert_ptr_nonnull(block);
    block->charged = charged;
    gb_ledger_acquire(&ledger, charged);
    ck_assert(gb_pending_prepare(&pending, &key));
    gb_pending_add(&pending, &key, NULL, charged, block);
}

static uint64_t outstanding(void)
{
    return gb_ledger_outstanding(&ledger);
}

/* Everything has come back and nothing waits. */
static void assert_all_settled(void)
{
    ck_assert_uint_eq(gb_pending_bytes(&pending), 0);
    ck_assert_uint_eq(outstanding(), 0);
}

START_TEST(test_key)
{
    struct gb_stream_key legacy, thread, created;
    CUstream stream;

    begin();
    stream = standin_stream();
    legacy = gb_stream_key(&api, NULL, false);
    thread = gb_stream_key(&api, NULL, true);
    created = gb_stream_key(&api, stream, true);
    ck_assert_ptr_eq(legacy.stream, CU_STREAM_LEGACY);
    ck_assert_uint_eq(legacy.thread, 0);
    ck_assert_ptr_eq(legacy.context, context);
    ck_assert_ptr_eq(thread.stream, CU_STREAM_PER_THREAD);
    ck_assert_uint_eq(thread.thread, gb_thread_serial());
    ck_assert_ptr_eq(created.stream, stream);
    ck_assert_uint_eq(created.thread, 0);
    /* The same stream by its other name. */
    thread = gb_stream_key(&api, CU_STREAM_PER_THREAD, false);
    ck_assert_ptr_eq(thread.stream, CU_STREAM_PER_THREAD);
    ck_assert_uint_eq(thread.thread, gb_thread_serial());
}
END_TEST

static void *free_behind_held_work(void *arg)
{
    (void)arg;
    ck_assert_int_eq(cuCtxSetCurrent(context), CUDA_SUCCESS);
    standin_hold(CU_STREAM_PER_THREAD);
    freed(CU_STREAM_PER_THREAD, 100);
    return NULL;
}

/* A thread that has ended lends its name to the next one, but not its stream. */
START_TEST(test_a_later_thread_is_another)
{
    pthread_t thread;
    struct gb_stream_key key;

    begin();
    for (int i = 1; i <= 200; i++) {
        ck_assert_int_eq(pthread_create(&thread, NULL, free_behind_held_work, NULL), 0);
        ck_assert_int_eq(pthread_join(thread, NULL), 0);
        ck_assert_uint_eq(gb_pending_bytes(&pending), 100 * (uint64_t)i);
        key = key_of(CU_STREAM_PER_THREAD);
        ck_assert_uint_eq(gb_pending_on_stream(&pending, &key), 0);
    }
    gb_pending_clear(&pending);
}
END_TEST

static void *free_and_wait(void *arg)
{
    (void)arg;
    ck_assert_int_eq(cuCtxSetCurrent(context), CUDA_SUCCESS);
    freed(CU_STREAM_PER_THREAD, 100);
    return NULL;
}

/* Their entries do not pile up. */
START_TEST(test_threads_that_have_ended)
{
    pthread_t thread;

    begin();
    for (int i = 1; i <= 1000; i++) {
        ck_assert_int_eq(pthread_create(&thread, NULL, free_and_wait, NULL), 0);
        ck_assert_int_eq(pthread_join(thread, NULL), 0);
        gb_pending_reap(&pending);
        ck_assert_int_le(atomic_load(&pending.entries), 65);
    }
    assert_all_settled();
    ck_assert_uint_le(standin_calls("cuEventCreate") - standin_calls("cuEventDestroy_v2"), 65);
    gb_pending_clear(&pending);
}
END_TEST

START_TEST(test_proven_when_the_stream_gets_there)
{
    CUstream stream;

    begin();
    stream = standin_stream();
    standin_hold(stream);
    freed(stream, 100);
    ck_assert_uint_eq(gb_pending_bytes(&pending), 100);
    gb_pending_reap(&pending);
    ck_assert_uint_eq(outstanding(), 100);
    standin_release(stream);
    gb_pending_reap(&pending);
    assert_all_settled();
    gb_pending_clear(&pending);
}
END_TEST

START_TEST(test_one_mark_for_many)
{
    CUstream stream;

    begin();
    stream = standin_stream();
    standin_hold(stream);
    for (int i = 0; i < 1000; i++)
        freed(stream, 8);
    /* The first free set a mark; all later ones wait for the next one. */
    ck_assert_uint_eq(standin_calls("cuEventRecord"), 1);
    ck_assert_uint_eq(standin_calls("cuEventCreate"), 1);
    standin_release(stream);
    gb_pending_reap(&pending);
    assert_all_settled();
    ck_assert_uint_eq(standin_calls("cuEventRecord"), 2);
    ck_assert_uint_eq(standin_calls("cuEventCreate"), 1);
    ck_assert_uint_eq(standin_calls("cuStreamSynchronize"), 0);
    gb_pending_clear(&pending);
}
END_TEST

START_TEST(test_a_mark_proves_only_what_was_before)
{
    CUstream stream;

    begin();
    stream = standin_stream();
    standin_hold(stream);
    freed(stream, 100);
    freed(stream, 10);
    /* The one piece of work that runs is the first mark. */
    standin_run(stream, 1);
    gb_pending_reap(&pending);
    ck_assert_uint_eq(outstanding(), 10);
    standin_release(stream);
    gb_pending_reap(&pending);
    assert_all_settled();
    gb_pending_clear(&pending);
}
END_TEST

START_TEST(test_streams_are_apart)
{
    CUstream held, free_running;

    begin();
    held = standin_stream();
    free_running = standin_stream();
    standin_hold(held);
    freed(held, 100);
    freed(free_running, 7);
    gb_pending_reap(&pending);
    ck_assert_uint_eq(outstanding(), 100);
    standin_release(held);
    gb_pending_reap(&pending);
    assert_all_settled();
    gb_pending_clear(&pending);
}
END_TEST

START_TEST(test_blocks)
{
    CUstream stream;

    begin();
    stream = standin_stream();
    standin_hold(stream);
    freed_block(stream, 100);
    freed_block(stream, 20);
    freed(stream, 3);
    ck_assert_uint_eq(gb_pending_bytes(&pending), 123);
    gb_pending_reap(&pending);
    ck_assert_uint_eq(atomic_load(&settled_blocks), 0);
    standin_release(stream);
    gb_pending_reap(&pending);
    ck_assert_uint_eq(atomic_load(&settled_blocks), 2);
    assert_all_settled();
    gb_pending_clear(&pending);
}
END_TEST

/* Small direct blocks are charged by region: their own charge is 0, and they count all the
 * same. */
START_TEST(test_block_without_a_charge)
{
    CUstream stream;

    begin();
    stream = standin_stream();
    standin_hold(stream);
    freed_block(stream, 0);
    gb_pending_reap(&pending);
    ck_assert_uint_eq(atomic_load(&settled_blocks), 0);
    standin_release(stream);
    gb_pending_reap(&pending);
    ck_assert_uint_eq(atomic_load(&settled_blocks), 1);
    gb_pending_clear(&pending);
}
END_TEST

START_TEST(test_block_without_a_charge_on_an_ended_stream)
{
    struct gb_stream_key key;
    _Atomic uint32_t *gate;
    CUstream stream;

    begin();
    stream = standin_stream();
    gate = standin_gate(stream);
    freed_block(stream, 0);
    key = key_of(stream);
    gb_pending_stream_ends(&pending, &key);
    ck_assert_int_eq(cuStreamDestroy_v2(stream), CUDA_SUCCESS);
    gb_pending_reap(&pending);
    ck_assert_uint_eq(atomic_load(&settled_blocks), 0);
    atomic_store(gate, 1);
    gb_pending_reap(&pending);
    ck_assert_uint_eq(atomic_load(&settled_blocks), 1);
    gb_pending_clear(&pending);
}
END_TEST

START_TEST(test_take_over)
{
    struct gb_stream_key key, other;
    CUstream stream, second;

    begin();
    stream = standin_stream();
    second = standin_stream();
    standin_hold(stream);
    freed(stream, 100);
    freed(stream, 30);
    freed_block(stream, 50);
    key = key_of(stream);
    other = key_of(second);
    /* Blocks give back regions and are not in it; other streams have nothing to offer. */
    ck_assert_uint_eq(gb_pending_on_stream(&pending, &key), 130);
    ck_assert_uint_eq(gb_pending_on_stream(&pending, &other), 0);
    ck_assert_uint_eq(gb_pending_take_over(&pending, &other, NULL, 10), 0);
    ck_assert_uint_eq(gb_pending_take_over(&pending, &key, NULL, 0), 0);
    ck_assert_uint_eq(gb_pending_take_over(&pending, &key, NULL, 40), 40);
    ck_assert_uint_eq(gb_pending_on_stream(&pending, &key), 90);
    ck_assert_uint_eq(gb_pending_take_over(&pending, &key, NULL, 1000), 90);
    ck_assert_uint_eq(gb_pending_take_over(&pending, &key, NULL, 1000), 0);
    ck_assert_uint_eq(gb_pending_bytes(&pending), 50);
    gb_ledger_reclaim(&ledger, 130);
    standin_release(stream);
    gb_pending_reap(&pending);
    assert_all_settled();
    gb_pending_clear(&pending);
}
END_TEST

START_TEST(test_without_an_entry)
{
    struct gb_stream_key key;
    CUstream stream;

    begin();
    stream = standin_stream();
    key = key_of(stream);
    gb_ledger_acquire(&ledger, 100);
    gb_pending_add(&pending, &key, NULL, 100, NULL);
    assert_all_settled();
}
END_TEST

START_TEST(test_prepare_without_memory)
{
    struct gb_stream_key key;
    bool done = false;
    CUstream stream;

    begin();
    stream = standin_stream();
    key = key_of(stream);
    for (long allowed = 0; !done; allowed++) {
        ck_assert_int_lt(allowed, 20);
        malloc_fail_after(allowed);
        done = gb_pending_prepare(&pending, &key);
        malloc_recover();
        ck_assert_int_eq(atomic_load(&pending.entries), done);
    }
    freed(stream, 5);
    gb_pending_reap(&pending);
    assert_all_settled();
    gb_pending_clear(&pending);
}
END_TEST

/* The driver refuses a mark: the bytes wait for the next one, and none is lost. */
START_TEST(test_marks_fail)
{
    static const char *const names[] = {
        "cuEventCreate",      "cuEventRecord",       "cuEventQuery",
        "cuEventSynchronize", "cuStreamIsCapturing", "cuThreadExchangeStreamCaptureMode"};

    begin();
    for (size_t i = 0; i < COUNT_OF(names); i++) {
        for (unsigned long nth = 1; nth <= 3; nth++) {
            CUstream stream = standin_stream();

            standin_fail(names[i], nth, CUDA_ERROR_UNKNOWN);
            freed(stream, 100);
            freed_block(stream, 20);
            gb_pending_reap(&pending);
            standin_fail_clear();
            freed(stream, 3);
            gb_pending_reap(&pending);
            assert_all_settled();
        }
    }
    gb_pending_clear(&pending);
}
END_TEST

/* A stream that captures takes no mark: that would become part of the program's graph. */
START_TEST(test_nothing_on_a_capturing_stream)
{
    CUgraph graph = NULL;
    CUstream stream;

    begin();
    stream = standin_stream();
    ck_assert_int_eq(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL),
                     CUDA_SUCCESS);
    freed(stream, 100);
    gb_pending_reap(&pending);
    ck_assert_uint_eq(outstanding(), 100);
    ck_assert_uint_eq(standin_calls("cuEventRecord"), 0);
    ck_assert_int_eq(cuStreamEndCapture(stream, &graph), CUDA_SUCCESS);
    gb_pending_reap(&pending);
    assert_all_settled();
    gb_pending_clear(&pending);
}
END_TEST

/* Marks, queries and their settling on other streams leave a capture unharmed. */
START_TEST(test_beside_a_capture)
{
    CUstream stream, capturing;
    CUgraph graph = NULL;

    begin();
    stream = standin_stream();
    capturing = standin_stream();
    ck_assert_int_eq(cuStreamBeginCapture_v2(capturing, CU_STREAM_CAPTURE_MODE_GLOBAL),
                     CUDA_SUCCESS);
    freed(stream, 100);
    gb_pending_reap(&pending);
    assert_all_settled();
    ck_assert_int_eq(cuStreamEndCapture(capturing, &graph), CUDA_SUCCESS);
    gb_pending_clear(&pending);
}
END_TEST

START_TEST(test_stream_ends_while_held)
{
    struct gb_stream_key key;
    _Atomic uint32_t *gate;
    CUstream stream;

    begin();
    stream = standin_stream();
    gate = standin_gate(stream);
    freed(stream, 100);
    freed(stream, 10);
    key = key_of(stream);
    gb_pending_stream_ends(&pending, &key);
    ck_assert_int_eq(cuStreamDestroy_v2(stream), CUDA_SUCCESS);
    /* Its bytes stay pending: the driver lets the work run on. */
    gb_pending_reap(&pending);
    ck_assert_uint_eq(outstanding(), 110);
    atomic_store(gate, 1);
    gb_pending_reap(&pending);
    assert_all_settled();
    ck_assert_ptr_null(pending.ended);
    /* One mark behind the first free, and the last one. */
    ck_assert_uint_eq(standin_calls("cuEventCreate"), 2);
    ck_assert_uint_eq(standin_calls("cuEventDestroy_v2"), 2);
    gb_pending_clear(&pending);
}
END_TEST

START_TEST(test_stream_ends_idle)
{
    struct gb_stream_key key;
    CUstream stream;

    begin();
    stream = standin_stream();
    freed(stream, 100);
    gb_pending_reap(&pending);
    key = key_of(stream);
    gb_pending_stream_ends(&pending, &key);
    ck_assert_int_eq(cuStreamDestroy_v2(stream), CUDA_SUCCESS);
    ck_assert_ptr_null(pending.ended);
    ck_assert_int_eq(atomic_load(&pending.entries), 0);
    gb_pending_clear(&pending);
}
END_TEST

/* No mark can be set at the last moment: given back early rather than never. */
START_TEST(test_stream_ends_without_a_mark)
{
    struct gb_stream_key key;
    CUstream stream;

    begin();
    stream = standin_stream();
    standin_fail("cuEventRecord", 0, CUDA_ERROR_UNKNOWN);
    freed(stream, 100);
    freed_block(stream, 20);
    key = key_of(stream);
    gb_pending_stream_ends(&pending, &key);
    ck_assert_int_eq(cuStreamDestroy_v2(stream), CUDA_SUCCESS);
    standin_fail_clear();
    gb_pending_reap(&pending);
    assert_all_settled();
    ck_assert_ptr_null(pending.ended);
    gb_pending_clear(&pending);
}
END_TEST

START_TEST(test_stream_stays)
{
    struct gb_stream_key key;
    CUstream stream;

    begin();
    stream = standin_stream();
    standin_hold(stream);
    freed(stream, 100);
    key = key_of(stream);
    gb_pending_stream_ends(&pending, &key);
    gb_pending_stream_stays(&pending, &key);
    ck_assert_uint_eq(gb_pending_on_stream(&pending, &key), 100);
    freed(stream, 10);
    ck_assert_uint_eq(gb_pending_on_stream(&pending, &key), 110);
    standin_release(stream);
    gb_pending_reap(&pending);
    assert_all_settled();
    gb_pending_clear(&pending);
}
END_TEST

START_TEST(test_context_ends)
{
    struct gb_stream_key key;
    CUstream stream, second;
    CUcontext other;

    begin();
    stream = standin_stream();
    ck_assert_int_eq(cuCtxCreate_v2(&other, 0, 0), CUDA_SUCCESS);
    second = standin_stream();
    standin_hold(stream);
    standin_hold(second);
    freed(stream, 100);
    freed(second, 10);
    freed_block(second, 5);
    key = key_of(second);
    gb_pending_stream_ends(&pending, &key);
    ck_assert_int_eq(cuStreamDestroy_v2(second), CUDA_SUCCESS);
    second = standin_stream();
    standin_hold(second);
    freed(second, 1);
    standin_release(second); /* the driver waits for the work of a context that ends */
    ck_assert_int_eq(cuCtxDestroy_v2(other), CUDA_SUCCESS);
    gb_pending_context_ended(&pending, &api, other);
    /* Its streams and their work have ended with it; the other context goes on. */
    ck_assert_uint_eq(outstanding(), 100);
    standin_release(stream);
    gb_pending_reap(&pending);
    assert_all_settled();
    gb_pending_clear(&pending);
}
END_TEST

/* A mark is made in the stream's own context, whichever is current. */
START_TEST(test_mark_of_another_context)
{
    CUstream stream;
    CUcontext other, current;

    begin();
    stream = standin_stream();
    ck_assert_int_eq(cuCtxCreate_v2(&other, 0, 0), CUDA_SUCCESS);
    freed(stream, 100);
    gb_pending_reap(&pending);
    assert_all_settled();
    ck_assert_int_eq(cuCtxGetCurrent(&current), CUDA_SUCCESS);
    ck_assert_ptr_eq(current, other);
    gb_pending_clear(&pending);
}
END_TEST

START_TEST(test_unproven)
{
    struct gb_stream_key key;
    _Atomic uint32_t *gate;
    CUstream stream;

    begin();
    /* Nobody has anything pending: then these have nothing to wait for either. */
    gb_ledger_acquire(&ledger, 10);
    gb_pending_add_unproven(&pending, 10);
    assert_all_settled();
    stream = standin_stream();
    standin_hold(stream);
    freed(stream, 100);
    gb_ledger_acquire(&ledger, 10);
    gb_pending_add_unproven(&pending, 10);
    gb_pending_reap(&pending);
    ck_assert_uint_eq(outstanding(), 110);
    standin_release(stream);
    gb_pending_reap(&pending);
    assert_all_settled();
    /* The only such stream has been destroyed: its mark is the last that there will be. */
    gate = standin_gate(stream);
    freed(stream, 100);
    key = key_of(stream);
    gb_pending_stream_ends(&pending, &key);
    ck_assert_int_eq(cuStreamDestroy_v2(stream), CUDA_SUCCESS);
    gb_ledger_acquire(&ledger, 10);
    gb_pending_add_unproven(&pending, 10);
    gb_pending_reap(&pending);
    ck_assert_uint_eq(outstanding(), 110);
    atomic_store(gate, 1);
    gb_pending_reap(&pending);
    assert_all_settled();
    gb_pending_clear(&pending);
}
END_TEST

/* Little of the limit is left, and another stream has freed something, which is proven. */
static void come_close(void)
{
    freed(standin_stream(), 1);
    gb_pending_reap(&pending);
    assert_all_settled();
    standin_reset_counts();
    gb_pending_note_left(&pending, 0);
}

/* Each free is proven by itself. */
START_TEST(test_marks_of_their_own)
{
    _Atomic uint32_t *gates[3];
    CUstream stream;

    begin();
    come_close();
    stream = standin_stream();
    for (int i = 0; i < 3; i++) {
        gates[i] = standin_gate(stream);
        freed(stream, 100);
    }
    for (int i = 0; i < 3; i++) {
        gb_pending_reap(&pending);
        ck_assert_uint_eq(outstanding(), (uint64_t)(300 - 100 * i));
        atomic_store(gates[i], 1);
    }
    gb_pending_reap(&pending);
    assert_all_settled();
    /* Their events serve again. */
    standin_hold(stream);
    for (int i = 0; i < 3; i++)
        freed(stream, 100);
    ck_assert_uint_eq(standin_calls("cuEventCreate"), 3);
    standin_release(stream);
    gb_pending_reap(&pending);
    assert_all_settled();
    gb_pending_clear(&pending);
}
END_TEST

/* Not where a free is small beside what is left, and no more than so many. */
START_TEST(test_marks_are_few)
{
    CUstream stream;

    begin();
    stream = standin_stream();
    /* There is no other stream. */
    gb_pending_note_left(&pending, 0);
    standin_hold(stream);
    for (int i = 0; i < 3; i++)
        freed(stream, 100);
    ck_assert_uint_eq(standin_calls("cuEventRecord"), 1);
    standin_release(stream);
    gb_pending_reap(&pending);
    come_close();
    gb_pending_note_left(&pending, 4 * GB_PENDING_LEFT_FEW);
    standin_hold(stream);
    for (int i = 0; i < 3; i++)
        freed(stream, 100);
    ck_assert_uint_eq(standin_calls("cuEventRecord"), 1);
    freed(stream, 3 * GB_PENDING_LEFT_FEW);
    ck_assert_uint_eq(standin_calls("cuEventRecord"), 2);
    gb_pending_note_left(&pending, 0);
    for (int i = 0; i < 2 * GB_PENDING_MARKS; i++)
        freed(stream, 10);
    ck_assert_uint_eq(standin_calls("cuEventCreate"), GB_PENDING_MARKS - 1);
    ck_assert_uint_eq(standin_calls("cuEventRecord"), GB_PENDING_MARKS);
    ck_assert_uint_eq(gb_pending_bytes(&pending), outstanding());
    standin_release(stream);
    gb_pending_reap(&pending);
    assert_all_settled();
    gb_pending_clear(&pending);
}
END_TEST

/* Whatever fails, the free is proven by a later mark, and no sooner. */
START_TEST(test_a_further_mark_fails)
{
    _Atomic uint32_t *gates[4];
    struct gb_stream_key key;
    CUstream stream;
    bool by_memory;

    for (int round = 0; round < 2; round++) {
        by_memory = round == 1;
        begin();
        come_close();
        stream = standin_stream();
        key = key_of(stream);
        ck_assert(gb_pending_prepare(&pending, &key));
        for (int i = 0; i < 4; i++) {
            gates[i] = standin_gate(stream);
            gb_ledger_acquire(&ledger, 100);
            if (i == 1 && !by_memory)
                standin_fail("cuEventRecord", 1, CUDA_ERROR_UNKNOWN);
            else if (i == 1)
                malloc_fail_after(0);
            gb_pending_add(&pending, &key, NULL, 100, NULL);
            if (i == 1 && by_memory)
                ck_assert_int_gt(malloc_recover(), 0);
            standin_fail_clear();
        }
        atomic_store(gates[0], 1);
        gb_pending_reap(&pending);
        /* Without memory the first mark has been set anew, behind the second free. */
        ck_assert_uint_eq(outstanding(), by_memory ? 400 : 300);
        atomic_store(gates[1], 1);
        gb_pending_reap(&pending);
        /* That which failed went with the third. */
        ck_assert_uint_eq(outstanding(), by_memory ? 200 : 300);
        atomic_store(gates[2], 1);
        gb_pending_reap(&pending);
        ck_assert_uint_eq(outstanding(), 100);
        atomic_store(gates[3], 1);
        gb_pending_reap(&pending);
        assert_all_settled();
        gb_pending_clear(&pending);
    }
}
END_TEST

/* What may be on any stream waits for the last of each one's marks. */
START_TEST(test_unproven_behind_several_marks)
{
    _Atomic uint32_t *gates[3];
    CUstream stream;

    begin();
    come_close();
    stream = standin_stream();
    for (int i = 0; i < 2; i++) {
        gates[i] = standin_gate(stream);
        freed(stream, 100);
    }
    gb_ledger_acquire(&ledger, 10);
    gb_pending_add_unproven(&pending, 10);
    gates[2] = standin_gate(stream);
    freed(stream, 100);
    ck_assert_uint_eq(outstanding(), 310);
    atomic_store(gates[0], 1);
    gb_pending_reap(&pending);
    ck_assert_uint_eq(outstanding(), 210);
    atomic_store(gates[1], 1);
    gb_pending_reap(&pending);
    ck_assert_uint_eq(outstanding(), 100);
    atomic_store(gates[2], 1);
    gb_pending_reap(&pending);
    assert_all_settled();
    gb_pending_clear(&pending);
}
END_TEST

/* A free of memory of a pool. */
static void freed_of(CUstream stream, void *pool, uint64_t bytes)
{
    struct gb_stream_key key = key_of(stream);

    gb_ledger_acquire(&ledger, bytes);
    ck_assert(gb_pending_prepare(&pending, &key));
    gb_pending_add(&pending, &key, pool, bytes, NULL);
}

/* Pools are told apart by their address alone. */
static char pools[2];
#define POOL(number) ((struct gb_pool *)(void *)&pools[number])

static bool follows(CUstream stream, int pool, uint64_t bytes)
{
    struct gb_stream_key key = key_of(stream);

    return gb_pending_follow(&pending, &key, POOL(pool), bytes);
}

static uint64_t taken_over(CUstream stream, int pool, uint64_t bytes)
{
    struct gb_stream_key key = key_of(stream);
    uint64_t taken = gb_pending_take_over(&pending, &key, POOL(pool), bytes);

    gb_ledger_reclaim(&ledger, taken);
    return taken;
}

/* Marks whose frees the stream itself has taken over make place for later ones. */
START_TEST(test_marks_that_prove_nothing_more)
{
    CUstream stream, other;

    begin();
    stream = standin_stream();
    other = standin_stream();
    come_close();
    standin_hold(stream);
    for (int i = 0; i < 3 * GB_PENDING_MARKS; i++) {
        freed_of(stream, POOL(0), 100);
        ck_assert_uint_eq(taken_over(stream, 0, 100), 100);
    }
    freed_of(stream, POOL(0), 100);
    ck_assert(follows(other, 0, 100));
    ck_assert_uint_eq(standin_calls("cuStreamWaitEvent"), 1);
    standin_release(stream);
    ck_assert_uint_eq(taken_over(other, 0, 100), 100);
    gb_pending_reap(&pending);
    assert_all_settled();
    gb_pending_clear(&pending);
}
END_TEST

/* What is taken over is memory of the request's pool, if there is some, whenever it was freed.
 */
START_TEST(test_take_over_of_a_pool)
{
    CUstream stream, other;

    begin();
    stream = standin_stream();
    other = standin_stream();
    come_close();
    standin_hold(stream);
    freed_of(stream, POOL(0), 100);
    freed_of(stream, POOL(1), 100);
    ck_assert_uint_eq(taken_over(stream, 0, 100), 100);
    ck_assert(!follows(other, 0, 100));
    ck_assert(follows(other, 1, 100));
    standin_release(stream);
    gb_pending_reap(&pending);
    assert_all_settled();
    gb_pending_clear(&pending);
}
END_TEST

static void *mark_once_and_fail(void *arg)
{
    (void)arg;
    ck_assert_int_eq(cuCtxSetCurrent(context), CUDA_SUCCESS);
    standin_hold(CU_STREAM_PER_THREAD);
    freed(CU_STREAM_PER_THREAD, 100);
    standin_fail("cuEventRecord", 0, CUDA_ERROR_UNKNOWN);
    freed(CU_STREAM_PER_THREAD, 100);
    standin_fail_clear();
    standin_release(CU_STREAM_PER_THREAD);
    return NULL;
}

/* The thread has ended, and its last frees have no mark: nobody waits for one. */
START_TEST(test_unproven_behind_a_mark_that_failed)
{
    pthread_t thread;

    begin();
    ck_assert_int_eq(pthread_create(&thread, NULL, mark_once_and_fail, NULL), 0);
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
    gb_ledger_acquire(&ledger, 10);
    gb_pending_add_unproven(&pending, 10);
    gb_pending_reap(&pending);
    ck_assert_uint_eq(outstanding(), 100);
    gb_pending_clear(&pending);
}
END_TEST

/* Frees of pools' blocks, each behind a gate of its own, and a request that follows them. */
struct gated {
    CUstream stream, asks;
    _Atomic uint32_t *gates[4];
    int count;
};

static struct gated gated(void)
{
    struct gated frees = {.stream = standin_stream(), .asks = standin_stream()};

    return frees;
}

static void frees_at(struct gated *frees, int pool, uint64_t from, uint64_t bytes)
{
    const struct gb_stream_key key = key_of(frees->stream);

    frees->gates[frees->count++] = standin_gate(frees->stream);
    gb_pending_note(
        &pending, &key,
        &(struct gb_pending_freed){.pool = POOL(pool), .bytes = bytes, .from = from});
}

/* So many of the frees the stream that asks waits for. */
static int waits_for(struct gated *frees)
{
    int opened = 0;

    while (opened < frees->count && cuStreamQuery(frees->asks) == CUDA_ERROR_NOT_READY)
        atomic_store(frees->gates[opened++], 1);
    ck_assert_int_eq(cuStreamQuery(frees->asks), CUDA_SUCCESS);
    for (int i = opened; i < frees->count; i++)
        atomic_store(frees->gates[i], 1);
    gb_pending_reap(&pending);
    return opened;
}

/* Neighbours that the same stream has freed come whole, with the last of their frees. */
START_TEST(test_neighbours)
{
    struct gb_stream_key key;
    struct gated frees;

    begin();
    gb_pending_init(&pending, true, &ledger, settle_block, &pending);
    gb_pending_note_left(&pending, 0);
    key = key_of(standin_stream()); /* there are others */
    ck_assert(gb_pending_prepare(&pending, &key));
    frees = gated();
    frees_at(&frees, 0, 0x10000, 1000);
    frees_at(&frees, 0, 0x20000, 512);
    frees_at(&frees, 1, 0x10400, 512); /* another pool's */
    ck_assert(!follows(frees.asks, 0, 1512));
    ck_assert(follows(frees.asks, 0, 1000));
    ck_assert_int_eq(waits_for(&frees), 1);

    /* Blocks begin at each 512 bytes. */
    frees = gated();
    frees_at(&frees, 0, 0x10000, 1000);
    frees_at(&frees, 0, 0x20000, 512);
    frees_at(&frees, 0, 0x10400, 512);
    ck_assert(follows(frees.asks, 0, 1512));
    ck_assert_int_eq(waits_for(&frees), 3);

    /* On both sides; and it is the last mark for a part as well. */
    frees = gated();
    frees_at(&frees, 0, 0x10000, 512);
    frees_at(&frees, 0, 0x10400, 512);
    frees_at(&frees, 0, 0x10200, 512);
    ck_assert(follows(frees.asks, 0, 512));
    ck_assert_int_eq(waits_for(&frees), 3);

    /* What is left of a piece is joined as well. */
    frees = gated();
    frees_at(&frees, 0, 0x10000, 1024);
    ck_assert(follows(frees.asks, 0, 512));
    frees_at(&frees, 0, 0x10400, 512);
    ck_assert(follows(frees.asks, 0, 1024));
    ck_assert_int_eq(waits_for(&frees), 2);

    /* Where they lie is not known. */
    frees = gated();
    frees_at(&frees, 0, 0, 512);
    frees_at(&frees, 0, 0, 512);
    ck_assert(!follows(frees.asks, 0, 1024));
    ck_assert(follows(frees.asks, 0, 512));
    ck_assert_int_eq(waits_for(&frees), 1);
    gb_pending_clear(&pending);
}
END_TEST

static void begin_gauged(void)
{
    struct gb_stream_key key;

    begin();
    gb_pending_init(&pending, true, &ledger, settle_block, &pending);
    gb_pending_note_left(&pending, 0);
    key = key_of(standin_stream());
    ck_assert(gb_pending_prepare(&pending, &key));
}

/* Where a block ends the next one begins later. */
START_TEST(test_neighbours_of_odd_sizes)
{
    struct gated frees;
    begin_gauged();
    frees = gated();
    frees_at(&frees, 0, 0x10000, 513);
    frees_at(&frees, 0, 0x10400, 513);
    frees_at(&frees, 0, 0x10800, 513);
    ck_assert(follows(frees.asks, 0, 1026));
    ck_assert_int_eq(waits_for(&frees), 3);
}
END_TEST

/* What is left of a piece begins where a block may begin. */
START_TEST(test_rest_of_odd_size)
{
    struct gated frees;
    begin_gauged();
    frees = gated();
    frees_at(&frees, 0, 0x10000, 2048);
    ck_assert(follows(frees.asks, 0, 700)); /* the driver: 0x10000..0x10400 */
    frees_at(&frees, 0, 0x10000, 700);
    ck_assert(follows(frees.asks, 0, 1024));
    ck_assert_int_eq(waits_for(&frees), 2);
}
END_TEST

/* The stream itself takes one of several blocks. */
START_TEST(test_taken_by_its_address)
{
    struct gated frees;
    struct gb_stream_key key;
    begin_gauged();
    frees = gated();
    key = key_of(frees.stream);
    frees_at(&frees, 1, 0x90000, 512); /* a mark */
    gb_pending_note_left(&pending, UINT64_MAX);
    frees_at(&frees, 0, 0x10000, 1024); /* unmarked */
    frees_at(&frees, 0, 0x20000, 512);  /* in the slot */
    gb_pending_note_left(&pending, 0);
    gb_pending_reuse(&pending, &key, POOL(0), 0x10000, 1024); /* driver: 0x10000, exact */
    frees_at(&frees, 0, 0x10400, 512); /* its neighbour 0x10000 is live */
    ck_assert(!follows(frees.asks, 0, 1024));
    /* half of the block that was granted comes back: its own neighbour is live */
    ck_assert_int_eq(waits_for(&frees), 0);
}
END_TEST

/* A free that wants no mark joins one that had one. */
START_TEST(test_joined_gets_a_mark)
{
    struct gated frees;
    begin_gauged();
    frees = gated();
    frees_at(&frees, 0, 0x10000, 1024);
    gb_pending_note_left(&pending, UINT64_MAX);
    frees_at(&frees, 0, 0x10400, 512);
    gb_pending_note_left(&pending, 0);
    ck_assert(follows(frees.asks, 0, 1024));
}
END_TEST

/* The host has synchronised with it: it is joined with nothing. */
START_TEST(test_neighbour_synchronised)
{
    struct gated frees;
    struct gb_followable found;
    struct gb_stream_key key;
    begin_gauged();
    frees = gated();
    key = key_of(frees.asks);
    frees_at(&frees, 0, 0x10000, 1024);
    atomic_store(frees.gates[0], 1);
    ck_assert_int_eq(cuStreamSynchronize(frees.stream), CUDA_SUCCESS);
    frees_at(&frees, 0, 0x10400, 512);
    gb_pending_reap(&pending);
    gb_pending_followable(&pending, &key, POOL(0), &found);
    ck_assert_uint_eq(found.bytes, 512);
}
END_TEST

/* Followed, and then not granted: a mark proves it all the same. */
START_TEST(test_followed_for_nothing)
{
    struct gb_followable found;
    struct gb_stream_key key;
    CUstream stream, other;

    begin();
    gb_pending_init(&pending, true, &ledger, settle_block, &pending);
    stream = standin_stream();
    other = standin_stream();
    standin_hold(stream);
    key = key_of(stream);
    gb_pending_note(&pending, &key, &(struct gb_pending_freed){.pool = POOL(0), .bytes = 100});
    ck_assert(follows(other, 0, 100));
    gb_pending_waitable(&pending, &found);
    ck_assert_uint_eq(found.bytes, 100);
    standin_release(stream);
    gb_pending_reap(&pending);
    gb_pending_waitable(&pending, &found);
    ck_assert_uint_eq(found.bytes, 0);
    gb_pending_clear(&pending);
}
END_TEST

/* Frees of gauged memory leave no bytes here, only a mark that tells the driver to let go. */
START_TEST(test_note)
{
    struct gb_stream_key key;
    CUstream stream;

    begin();
    stream = standin_stream();
    standin_hold(stream);
    key = key_of(stream);
    for (int i = 0; i < 100; i++)
        gb_pending_note(&pending, &key, &(struct gb_pending_freed){.loose = true});
    ck_assert_uint_eq(gb_pending_bytes(&pending), 0);
    ck_assert_uint_eq(standin_calls("cuEventRecord"), 1);
    standin_release(stream);
    gb_pending_reap(&pending);
    ck_assert_uint_eq(standin_calls("cuEventRecord"), 2);
    ck_assert_uint_eq(standin_calls("cuEventSynchronize"), 2);
    /* All proven: the next look costs no call. */
    standin_reset_counts();
    gb_pending_reap(&pending);
    ck_assert_uint_eq(standin_calls("cu*"), 0);
    gb_pending_clear(&pending);
}
END_TEST

/* The usual free and take-over leave the entry, and its lock, alone. */
START_TEST(test_slots)
{
    struct gb_pending_slot *slot;
    struct gb_stream_key key;
    CUstream stream;

    begin();
    stream = standin_stream();
    key = key_of(stream);
    standin_hold(stream);
    freed(stream, 100);
    slot = gb_pending_slot_of(&pending, gb_pending_note_of(&key));
    ck_assert_ptr_nonnull(slot);
    /* The first set a mark, the second finds it out. */
    ck_assert(!gb_pending_keep(slot, NULL, 0));
    freed(stream, 10);
    ck_assert(gb_pending_keep(slot, NULL, 0));
    ck_assert_uint_eq(gb_pending_kept(slot), 0);
    freed(stream, 7);
    ck_assert_uint_eq(gb_pending_kept(slot), 7);
    ck_assert_uint_eq(gb_pending_bytes(&pending), 117);
    ck_assert_uint_eq(gb_pending_on_stream(&pending, &key), 117);
    /* Those first, then what the entry has. */
    ck_assert_uint_eq(gb_pending_take_over(&pending, &key, NULL, 3), 3);
    ck_assert_uint_eq(gb_pending_kept(slot), 4);
    ck_assert_uint_eq(gb_pending_take_over(&pending, &key, NULL, 5), 5);
    ck_assert_uint_eq(gb_pending_kept(slot), 0);
    gb_ledger_reclaim(&ledger, 8);
    freed(stream, 20);
    gb_pending_reap(&pending);
    ck_assert_uint_eq(gb_pending_bytes(&pending), 129);
    /* The mark proves what was before it; the rest is behind a mark that the reap sets. */
    standin_release(stream);
    gb_pending_reap(&pending);
    assert_all_settled();
    ck_assert_uint_eq(standin_calls("cuEventRecord"), 2);
    /* With no mark out, a free sets one: also where the reap had nothing to mark. */
    standin_hold(stream);
    freed(stream, 1);
    freed(stream, 1);
    ck_assert_uint_eq(gb_pending_take_over(&pending, &key, NULL, 2), 2);
    gb_ledger_reclaim(&ledger, 2);
    ck_assert(gb_pending_keep(slot, NULL, 0));
    standin_release(stream);
    gb_pending_reap(&pending);
    ck_assert(!gb_pending_keep(slot, NULL, 0));
    ck_assert_uint_eq(standin_calls("cuEventRecord"), 3);
    standin_hold(stream);
    freed(stream, 1);
    ck_assert_uint_eq(standin_calls("cuEventRecord"), 4);
    freed(stream, 1);
    freed(stream, 1);
    ck_assert_uint_eq(gb_pending_kept(slot), 1);
    /* A stream that ends leaves nothing in its slot, and the slot to others. */
    gb_pending_stream_ends(&pending, &key);
    ck_assert_uint_eq(gb_pending_kept(slot), 0);
    ck_assert_uint_eq(atomic_load(&slot->stream), 0);
    ck_assert_uint_eq(gb_pending_bytes(&pending), 3);
    gb_pending_stream_stays(&pending, &key);
    standin_release(stream);
    gb_pending_reap(&pending);
    assert_all_settled();
    gb_pending_clear(&pending);
}
END_TEST

/* A slot with `bytes` in it, its mark out and its stream held up. */
static struct gb_pending_slot *slot_with(CUstream stream, uint64_t bytes)
{
    struct gb_stream_key key = key_of(stream);
    struct gb_pending_slot *slot;

    standin_hold(stream);
    freed(stream, 1);
    freed(stream, 1);
    freed(stream, bytes);
    slot = gb_pending_slot_of(&pending, gb_pending_note_of(&key));
    ck_assert_ptr_nonnull(slot);
    ck_assert_uint_eq(gb_pending_kept(slot), bytes);
    return slot;
}

/* The slot's own block serves one taker at a time and comes back by every way. */
START_TEST(test_slot_block)
{
    struct gb_block *own, *none, *made;
    struct gb_stream_key key, other;
    struct gb_pending_slot *slot;
    CUstream stream;

    begin();
    stream = standin_stream();
    key = key_of(stream);
    other = key_of(standin_stream());
    slot = slot_with(stream, 90);
    ck_assert(!gb_pending_unkeep_all(slot, 91, &own));
    ck_assert(gb_pending_unkeep_all(slot, 30, &own));
    ck_assert_ptr_eq(own, &slot->block);
    ck_assert(own->lent);
    own->charged = 30;
    ck_assert(gb_pending_unkeep_all(slot, 20, &none));
    ck_assert_ptr_null(none);
    ck_assert_uint_eq(gb_pending_kept(slot), 40);
    /* Another entry brings its bytes and not the block. */
    made = gb_block_new();
    ck_assert_ptr_nonnull(made);
    ck_assert(!made->lent);
    made->charged = 20;
    ck_assert(!gb_pending_keep_block(slot, made));
    gb_pending_add_freed(&pending, &key, made);
    ck_assert_uint_eq(gb_pending_kept(slot), 60);
    ck_assert(gb_pending_unkeep_all(slot, 5, &none));
    ck_assert_ptr_null(none);
    ck_assert(gb_pending_keep(slot, NULL, 5));
    /* Freed on its stream, the usual case. */
    gb_pending_add_freed(&pending, &key, own);
    ck_assert_uint_eq(gb_pending_kept(slot), 90);
    ck_assert(gb_pending_unkeep_all(slot, 30, &own));
    ck_assert_ptr_eq(own, &slot->block);
    /* On another one. */
    own->charged = 30;
    ck_assert(gb_pending_prepare(&pending, &other));
    gb_pending_add_freed(&pending, &other, own);
    ck_assert_uint_eq(gb_pending_kept(slot), 60);
    ck_assert(gb_pending_unkeep_all(slot, 30, &own));
    ck_assert_ptr_eq(own, &slot->block);
    own->charged = 30;
    /* Where the slot has no part in the free. */
    standin_release(stream);
    gb_pending_reap(&pending);
    gb_pending_reap(&pending);
    ck_assert(!gb_pending_keep(slot, NULL, 0));
    ck_assert_uint_eq(gb_pending_bytes(&pending), 0);
    standin_hold(stream);
    gb_pending_add_freed(&pending, &key, own);
    ck_assert_uint_eq(gb_pending_bytes(&pending), 30);
    ck_assert_uint_eq(gb_pending_kept(slot), 0);
    freed(stream, 7);
    freed(stream, 7);
    ck_assert(gb_pending_unkeep_all(slot, 7, &own));
    ck_assert_ptr_eq(own, &slot->block);
    gb_ledger_reclaim(&ledger, 7);
    /* It stays lent where the slot becomes another stream's, and comes back all the same. */
    gb_pending_context_ended(&pending, &api, context);
    assert_all_settled();
    ck_assert_ptr_eq(slot_with(stream, 9), slot);
    ck_assert(gb_pending_unkeep_all(slot, 2, &none));
    ck_assert_ptr_null(none);
    gb_block_free(own);
    ck_assert_uint_eq(gb_pending_kept(slot), 7);
    ck_assert(gb_pending_keep(slot, NULL, 0));
    ck_assert(gb_pending_unkeep_all(slot, 2, &own));
    ck_assert_ptr_eq(own, &slot->block);
    gb_block_free(NULL);
    gb_pending_clear(&pending);
}
END_TEST

struct block_race {
    struct gb_pending_slot *slot;
    _Atomic int holders;
    _Atomic int wrong, taken;
};

static void take_slot_block(void *arg, int thread)
{
    struct block_race *race = arg;

    for (int i = 0; i < 3000; i++) {
        struct gb_block *block;

        if (!gb_pending_unkeep_all(race->slot, 1, &block))
            continue;
        if (!block) {
            atomic_fetch_add(&race->wrong, !gb_pending_keep(race->slot, NULL, 1));
            continue;
        }
        atomic_fetch_add(&race->taken, 1);
        atomic_fetch_add(&race->wrong, atomic_fetch_add(&race->holders, 1) != 0);
        block->charged = 1;
        block->tag = (uint64_t)thread;
        sched_yield();
        atomic_fetch_add(&race->wrong, block->tag != (uint64_t)thread);
        atomic_fetch_sub(&race->holders, 1);
        if (i % 2) {
            atomic_fetch_add(&race->wrong, !gb_pending_keep_block(race->slot, block));
        } else {
            gb_block_free(block);
            atomic_fetch_add(&race->wrong, !gb_pending_keep(race->slot, NULL, 1));
        }
    }
}

/* Of several threads on one stream one has it. */
START_TEST(test_slot_block_in_threads)
{
    struct block_race race = {.wrong = 0};

    begin();
    race.slot = slot_with(standin_stream(), 4);
    unit_threads(4, take_slot_block, &race);
    ck_assert_int_eq(atomic_load(&race.wrong), 0);
    ck_assert_int_gt(atomic_load(&race.taken), 0);
    ck_assert_uint_eq(gb_pending_kept(race.slot), 4);
    gb_pending_clear(&pending);
}
END_TEST

/* Of more streams than there are slots, each has its own frees all the same. */
START_TEST(test_more_streams_than_slots)
{
    enum { STREAMS = 3 * GB_PENDING_SLOTS };
    static CUstream streams[STREAMS];
    unsigned without = 0;

    begin();
    for (int i = 0; i < STREAMS; i++) {
        streams[i] = standin_stream();
        standin_hold(streams[i]);
    }
    for (int round = 0; round < 3; round++)
        for (int i = 0; i < STREAMS; i++)
            freed(streams[i], (uint64_t)i + 1);
    for (int i = 0; i < STREAMS; i++) {
        struct gb_stream_key key = key_of(streams[i]);
        uint64_t bytes = 3 * ((uint64_t)i + 1);

        without += !gb_pending_slot_of(&pending, gb_pending_note_of(&key));
        ck_assert_uint_eq(gb_pending_on_stream(&pending, &key), bytes);
        if (i % 2) {
            ck_assert_uint_eq(gb_pending_take_over(&pending, &key, NULL, UINT64_MAX), bytes);
            gb_ledger_reclaim(&ledger, bytes);
        }
    }
    ck_assert_uint_ge(without, STREAMS - GB_PENDING_SLOTS);
    for (int i = 0; i < STREAMS; i++)
        standin_release(streams[i]);
    gb_pending_reap(&pending);
    assert_all_settled();
    gb_pending_clear(&pending);
}
END_TEST

/* A thread that comes late must not change a slot that is another stream's by now. */
START_TEST(test_slot_changes_hands)
{
    struct gb_pending_slot *slot;
    struct gb_stream_key key;
    CUstream stream;
    uint64_t word;

    begin();
    stream = standin_stream();
    key = key_of(stream);
    for (int i = 0; i < 3; i++)
        freed(stream, 5);
    slot = gb_pending_slot_of(&pending, gb_pending_note_of(&key));
    ck_assert_ptr_nonnull(slot);
    word = atomic_load(&slot->word);
    gb_pending_context_ended(&pending, &api, context);
    assert_all_settled();
    for (int i = 0; i < 3; i++)
        freed(stream, 5);
    ck_assert_ptr_eq(gb_pending_slot_of(&pending, gb_pending_note_of(&key)), slot);
    ck_assert(gb_pending_keep(slot, NULL, 0));
    ck_assert_uint_eq(gb_pending_kept(slot), 5);
    ck_assert_uint_ne(atomic_load(&slot->word), word);
    gb_pending_clear(&pending);
}
END_TEST

/* Many streams in turn: none makes another ask the driver. */
START_TEST(test_note_of_several_streams)
{
    struct gb_stream_key keys[4];

    begin();
    for (size_t i = 0; i < COUNT_OF(keys); i++) {
        CUstream stream = standin_stream();

        standin_hold(stream);
        keys[i] = key_of(stream);
        gb_pending_note(&pending, &keys[i], &(struct gb_pending_freed){.loose = true});
        gb_pending_note(&pending, &keys[i], &(struct gb_pending_freed){.loose = true});
    }
    standin_reset_counts();
    for (int i = 0; i < 100; i++)
        gb_pending_note(&pending, &keys[i % 4], &(struct gb_pending_freed){.loose = true});
    ck_assert_uint_eq(standin_calls("cu*"), 0);
    gb_pending_clear(&pending);
}
END_TEST

struct crowd {
    CUstream streams[3];
    _Atomic int left; /* threads that still free */
};

/* Frees, take-overs and reaps of a few streams from all sides. */
static void free_and_reap(void *arg, int index)
{
    struct crowd *crowd = arg;
    struct gb_stream_key key;

    cuCtxSetCurrent(context);
    if (index == 0) {
        while (atomic_load(&crowd->left) > 0)
            gb_pending_reap(&pending);
        return;
    }
    for (int i = 0; i < 1500; i++) {
        CUstream stream = crowd->streams[(index + i) % 3];

        if (i % 5 == 0)
            freed_block(stream, 16);
        else
            freed(stream, 8);
        if (i % 7 == 0) {
            key = key_of(stream);
            gb_ledger_reclaim(&ledger, gb_pending_take_over(&pending, &key, NULL, 24));
        }
        if (i % 11 == 0)
            gb_pending_reap(&pending);
    }
    atomic_fetch_sub(&crowd->left, 1);
}

START_TEST(test_threads)
{
    struct crowd crowd = {.left = 5};

    begin();
    for (size_t i = 0; i < COUNT_OF(crowd.streams); i++)
        crowd.streams[i] = standin_stream();
    unit_threads(6, free_and_reap, &crowd);
    gb_pending_reap(&pending);
    assert_all_settled();
    gb_pending_clear(&pending);
}
END_TEST

/* Each thread frees on its own default stream and ends; only its own marks could prove that. */
static void free_on_own_stream(void *arg, int index)
{
    struct crowd *crowd = arg;

    cuCtxSetCurrent(context);
    if (index == 0) {
        while (atomic_load(&crowd->left) > 0)
            gb_pending_reap(&pending);
        return;
    }
    for (int i = 0; i < 3; i++)
        freed(CU_STREAM_PER_THREAD, 8);
    atomic_fetch_sub(&crowd->left, 1);
}

START_TEST(test_per_thread_streams)
{
    begin();
    for (int round = 0; round < 300; round++) {
        struct crowd crowd = {.left = 4};

        unit_threads(5, free_on_own_stream, &crowd);
        gb_pending_reap(&pending);
        assert_all_settled();
    }
    gb_pending_clear(&pending);
}
END_TEST

/* Streams come and go while others reap. */
static void end_streams(void *arg, int index)
{
    struct crowd *crowd = arg;

    cuCtxSetCurrent(context);
    if (index == 0) {
        while (atomic_load(&crowd->left) > 0)
            gb_pending_reap(&pending);
        return;
    }
    for (int i = 0; i < 200; i++) {
        CUstream stream = NULL;
        struct gb_stream_key key;

        cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING);
        freed(stream, 8);
        key = key_of(stream);
        gb_pending_stream_ends(&pending, &key);
        if (i % 4 == 0) {
            gb_pending_stream_stays(&pending, &key);
            gb_pending_stream_ends(&pending, &key);
        }
        cuStreamDestroy_v2(stream);
    }
    atomic_fetch_sub(&crowd->left, 1);
}

START_TEST(test_streams_end_in_threads)
{
    struct crowd crowd = {.left = 4};

    begin();
    unit_threads(5, end_streams, &crowd);
    gb_pending_reap(&pending);
    assert_all_settled();
    ck_assert_ptr_null(pending.streams);
    ck_assert_ptr_null(pending.ended);
    gb_pending_clear(&pending);
}
END_TEST

START_TEST(test_clear_forgets_without_the_driver)
{
    struct gb_stream_key key;
    CUstream stream;

    begin();
    stream = standin_stream();
    standin_hold(stream);
    freed(stream, 100);
    freed_block(stream, 20);
    key = key_of(stream);
    gb_pending_stream_ends(&pending, &key);
    freed(NULL, 3);
    standin_reset_counts();
    gb_pending_clear(&pending);
    ck_assert_uint_eq(standin_calls("cu*"), 0);
    ck_assert_uint_eq(gb_pending_bytes(&pending), 0);
    ck_assert_int_eq(atomic_load(&pending.entries), 0);
    gb_pending_reap(&pending);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {test_key,
                                  test_a_later_thread_is_another,
                                  test_threads_that_have_ended,
                                  test_proven_when_the_stream_gets_there,
                                  test_one_mark_for_many,
                                  test_a_mark_proves_only_what_was_before,
                                  test_streams_are_apart,
                                  test_blocks,
                                  test_block_without_a_charge,
                                  test_block_without_a_charge_on_an_ended_stream,
                                  test_take_over,
                                  test_without_an_entry,
                                  test_prepare_without_memory,
                                  test_marks_fail,
                                  test_nothing_on_a_capturing_stream,
                                  test_beside_a_capture,
                                  test_stream_ends_while_held,
                                  test_stream_ends_idle,
                                  test_stream_ends_without_a_mark,
                                  test_stream_stays,
                                  test_context_ends,
                                  test_mark_of_another_context,
                                  test_unproven,
                                  test_marks_of_their_own,
                                  test_marks_are_few,
                                  test_a_further_mark_fails,
                                  test_unproven_behind_several_marks,
                                  test_marks_that_prove_nothing_more,
                                  test_take_over_of_a_pool,
                                  test_unproven_behind_a_mark_that_failed,
                                  test_followed_for_nothing,
                                  test_neighbours,
                                  test_neighbours_of_odd_sizes,
                                  test_rest_of_odd_size,
                                  test_taken_by_its_address,
                                  test_joined_gets_a_mark,
                                  test_neighbour_synchronised,
                                  test_note,
                                  test_slots,
                                  test_slot_block,
                                  test_slot_block_in_threads,
                                  test_more_streams_than_slots,
                                  test_slot_changes_hands,
                                  test_note_of_several_streams,
                                  test_threads,
                                  test_per_thread_streams,
                                  test_streams_end_in_threads,
                                  test_clear_forgets_without_the_driver};

    return unit_run("pending", tests, COUNT_OF(tests));
}
