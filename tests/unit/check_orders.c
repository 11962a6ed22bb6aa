/*
 * All orders in which a few threads can come with their steps: allocate, use, free, reap, hold
 * a stream, destroy it. After every step the ledger and which stream waits are compared with a
 * model that knows nothing but what each operation is said to do. On the stand-in.
 *
 * One thread takes all the steps: every operation holds its own locks to the end, so what an
 * order is made of is the order of the calls. Threads that meet inside a call: check_uses.c,
 * check_pending.c and the programs of tests/preload/check-race.sh.
 */
#include "resource/backend.h"
#include "resource/budget.h"
#include "standin_unit.h"

#include <stdlib.h>

enum { STREAMS = 3, ITEMS = 16, BLOCKS = 2, ACTORS = 4, STEPS = 3 };

/* One block fills the budget, in whole steps of a pool. */
#define BYTES (64 * MIB)

/* Out at a time on one stream: it frees each block, and what follows or was undone comes
 * behind. */
enum { MARKS = BLOCKS + 2 };

/* ---- the model ---- */

/* The first `items` pieces of a stream's work. */
struct point {
    int stream, items;
};

/* A piece of work: what it waits for. */
struct item {
    bool gated;
    struct point waits[BLOCKS * STREAMS];
    int count;
};

static struct model_stream {
    struct item items[ITEMS];
    int count;
    bool open; /* its gate */
    bool gone;
} model[STREAMS];

static struct model_block {
    gpubudget_block_t block;
    bool live, freed, taken_over;
    int stream; /* that it was allocated on */
    struct point free;
    struct point written, read[STREAMS];
    bool is_read[STREAMS];
} blocks[BLOCKS];

static bool is_done(struct point point)
{
    const struct model_stream *stream = &model[point.stream];

    for (int i = 0; i < point.items; i++) {
        const struct item *item = &stream->items[i];

        if (item->gated && !stream->open)
            return false;
        for (int k = 0; k < item->count; k++)
            if (!is_done(item->waits[k]))
                return false;
    }
    return true;
}

static struct point here(int stream)
{
    return (struct point){stream, model[stream].count};
}

static struct item *add_item(int stream)
{
    struct item *item = &model[stream].items[model[stream].count++];

    ck_assert_int_le(model[stream].count, ITEMS);
    *item = (struct item){.count = 0};
    return item;
}

/* Work of another stream is waited for. */
static void add_wait(struct item *item, int stream, struct point point)
{
    if (point.stream != stream)
        item->waits[item->count++] = point;
}

/* Bytes that are in the ledger at least: live, and freed by a free that has not happened. */
static uint64_t least_bytes(void)
{
    uint64_t bytes = 0;

    for (int i = 0; i < BLOCKS; i++)
        if (blocks[i].live ||
            (blocks[i].freed && !blocks[i].taken_over && !is_done(blocks[i].free)))
            bytes += BYTES;
    return bytes;
}

/* And at most: with those that nobody has asked about. */
static uint64_t most_bytes(void)
{
    uint64_t bytes = 0;

    for (int i = 0; i < BLOCKS; i++)
        if (blocks[i].live || (blocks[i].freed && !blocks[i].taken_over))
            bytes += BYTES;
    return bytes;
}

/* ---- the real thing ---- */

static gpubudget_resource_t *driver, *resource;
static gpubudget_budget_t *budget;
static struct gb_backend *backend;
static CUstream streams[STREAMS];
static _Atomic uint32_t *gates[STREAMS];
static CUdeviceptr gate_addresses[STREAMS];
static bool footprint;

/* ---- steps ---- */

static void hold(int stream)
{
    add_item(stream)->gated = true;
    ck_assert_int_eq(cuStreamWaitValue32_v2(streams[stream], gate_addresses[stream], 1,
                                            CU_STREAM_WAIT_VALUE_EQ),
                     0);
}

static void let_go(int stream)
{
    model[stream].open = true;
    atomic_store(gates[stream], 1);
}

static void destroy(int stream)
{
    const struct gb_stream_key key = gb_stream_key(&api, streams[stream], false);

    /* As the preload does it around the program's call. */
    gb_pending_stream_ends(&backend->pending, &key);
    ck_assert_int_eq(cuStreamDestroy_v2(streams[stream]), 0);
    model[stream].gone = true;
}

static void allocate(int which, int stream)
{
    struct model_block *other = &blocks[1 - which], *own = &blocks[which];
    bool pending = other->freed && !other->taken_over && !is_done(other->free);
    gpubudget_status_t status;

    status = gpubudget_allocate(resource, BYTES, streams[stream], 0, &own->block, NULL);
    if (other->live) {
        ck_assert_int_eq(status, GPUBUDGET_OUT_OF_BUDGET);
        return;
    }
    ck_assert_int_eq(status, GPUBUDGET_OK);
    /* The one way to get what is pending on another stream. */
    if (pending)
        add_wait(add_item(stream), stream, other->free);
    other->taken_over = other->freed;
    *own = (struct model_block){.block = own->block, .live = true, .stream = stream};
    own->written = here(stream);
}

static void use(int which, int stream, gpubudget_access_t access)
{
    struct model_block *block = &blocks[which];
    gpubudget_status_t wanted = block->live ? GPUBUDGET_OK : GPUBUDGET_USE_AFTER_FREE;
    gpubudget_block_id_t id = block->block.id;
    struct item *item;

    if (model[stream].gone)
        return;
    ck_assert_int_eq(gpubudget_prepare_block_use(resource, id, streams[stream], access, NULL),
                     wanted);
    ck_assert_int_eq(gpubudget_finish_block_use(resource, id, streams[stream], access, NULL),
                     wanted);
    if (!block->live)
        return;
    item = add_item(stream);
    add_wait(item, stream, block->written);
    for (int i = 0; i < STREAMS && access == GPUBUDGET_ACCESS_WRITE; i++)
        if (block->is_read[i])
            add_wait(item, stream, block->read[i]);
    if (access == GPUBUDGET_ACCESS_WRITE) {
        memset(block->is_read, 0, sizeof(block->is_read));
        block->written = here(stream);
    } else {
        block->is_read[stream] = true;
        block->read[stream] = here(stream);
    }
}

static void give_back(int which)
{
    struct model_block *block = &blocks[which];
    gpubudget_status_t wanted = block->live ? GPUBUDGET_OK : GPUBUDGET_USE_AFTER_FREE;
    struct item *item;

    ck_assert_int_eq(gpubudget_deallocate(resource, &block->block, NULL, NULL), wanted);
    if (!block->live)
        return;
    item = add_item(block->stream);
    add_wait(item, block->stream, block->written);
    for (int i = 0; i < STREAMS; i++)
        if (block->is_read[i])
            add_wait(item, block->stream, block->read[i]);
    block->live = false;
    block->freed = true;
    block->free = here(block->stream);
}

static void reap(void)
{
    bool done = true;

    ck_assert_int_eq(gpubudget_reap_pending(resource, NULL), GPUBUDGET_OK);
    /* A mark may have been set behind work that came after the free. */
    for (int i = 0; i < STREAMS; i++)
        done &= is_done(here(i));
    if (done)
        ck_assert_uint_eq(gpubudget_bytes_outstanding(resource), least_bytes());
}

/* ---- what holds after every step ---- */

static void compare(void)
{
    uint64_t bytes = gpubudget_bytes_outstanding(resource);

    ck_assert_uint_eq(gpubudget_budget_reserved_bytes(budget), bytes);
    ck_assert_uint_le(bytes, BYTES);
    ck_assert_uint_ge(bytes, least_bytes());
    ck_assert_uint_le(bytes, most_bytes());
    ck_assert_uint_ge(bytes, standin_pool_used(0) + standin_pending_bytes(0));
    if (footprint)
        ck_assert_uint_eq(bytes, standin_pool_reserved(0));
    /* Nobody waits without need, and nobody goes on too early. */
    for (int i = 0; i < STREAMS; i++)
        if (!model[i].gone)
            ck_assert_int_eq(standin_queued(streams[i]) > 0, !is_done(here(i)));
}

/* ---- orders ---- */

typedef void (*step_fn)(void);

static void a_allocates(void)
{
    allocate(0, 0);
}
static void a_writes(void)
{
    use(0, 0, GPUBUDGET_ACCESS_WRITE);
}
static void a_frees(void)
{
    give_back(0);
}
static void b_holds(void)
{
    hold(1);
}
static void b_reads(void)
{
    use(0, 1, GPUBUDGET_ACCESS_READ);
}
static void b_writes(void)
{
    use(0, 1, GPUBUDGET_ACCESS_WRITE);
}
static void b_lets_go(void)
{
    let_go(1);
}
static void b_ends(void)
{
    destroy(1);
}
static void c_allocates(void)
{
    allocate(1, 2);
}
static void c_frees(void)
{
    give_back(1);
}
static void c_reads_the_other(void)
{
    use(0, 2, GPUBUDGET_ACCESS_READ);
}
static void d_holds(void)
{
    hold(0);
}
static void d_lets_go(void)
{
    let_go(0);
}
static void d_holds_c(void)
{
    hold(2);
}

typedef step_fn scripts_t[ACTORS][STEPS];

static void reset(void)
{
    memset(model, 0, sizeof(model));
    memset(blocks, 0, sizeof(blocks));
    /* Stale: there never was one. */
    for (int i = 0; i < BLOCKS; i++)
        blocks[i].block = (gpubudget_block_t){.id = {4096, 1}};
    for (int i = 0; i < STREAMS; i++)
        atomic_store(gates[i], 0);
}

static unsigned long open_events(void)
{
    return standin_calls("cuEventCreate") - standin_calls("cuEventDestroy_v2");
}

static unsigned long events_of_marks(void)
{
    const struct gb_pending_stream *stream;
    unsigned long events = 0;

    ck_assert_ptr_null(backend->pending.ended);
    for (stream = backend->pending.streams; stream; stream = stream->hh.next) {
        unsigned own = 0;

        ck_assert_uint_eq(stream->count, 0);
        for (const struct gb_pending_mark *mark = stream->spare; mark; mark = mark->next)
            own += mark->event != NULL;
        ck_assert_uint_le(own, MARKS);
        events += own;
    }
    return events;
}

static void finish_run(void)
{
    for (int i = 0; i < STREAMS; i++)
        let_go(i);
    compare();
    for (int i = 0; i < BLOCKS; i++)
        if (blocks[i].live)
            give_back(i);
    reap();
    ck_assert_uint_eq(gpubudget_bytes_outstanding(resource), 0);
    ck_assert_uint_eq(standin_pool_reserved(0), 0);
    /* No handle is left but the pooled ones, and those kept for the marks of each stream: no
     * more than it had blocks to free. */
    ck_assert_uint_eq(backend->events.used_count, 0);
    ck_assert_uint_eq(open_events(), backend->events.idle_count + events_of_marks());
    for (int i = 0; i < STREAMS; i++)
        if (model[i].gone)
            streams[i] = standin_stream();
}

static unsigned long random_state = 1;

static unsigned long random_below(unsigned long bound)
{
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return (random_state >> 33) % bound;
}

/* Runs one order: which actor comes next. */
static void run(scripts_t scripts, const int *order, int length)
{
    int at[ACTORS] = {0};

    reset();
    for (int i = 0; i < length; i++) {
        scripts[order[i]][at[order[i]]++]();
        compare();
    }
    finish_run();
}

/* All orders, or one of so many: which are left out is the same in every run. */
static void each_order(scripts_t scripts, int *left, int *order, int length, int at,
                       unsigned long one_in)
{
    if (at == length) {
        if (random_below(one_in) == 0)
            run(scripts, order, length);
        return;
    }
    for (int i = 0; i < ACTORS; i++) {
        if (left[i] == 0)
            continue;
        left[i]--;
        order[at] = i;
        each_order(scripts, left, order, length, at + 1, one_in);
        left[i]++;
    }
}

static void explore(scripts_t scripts, gpubudget_charge_t charge)
{
    const char *wanted = getenv("GB_TEST_LENGTH");
    unsigned long one_in = !wanted ? 16 : strcmp(wanted, "short") == 0 ? 200 : 1;
    int left[ACTORS] = {0}, order[ACTORS * STEPS], length = 0;

    standin_begin();
    footprint = charge == GPUBUDGET_CHARGE_FOOTPRINT;
    ck_assert_int_eq(gpubudget_driver_resource_new(0, charge, &driver), GPUBUDGET_OK);
    ck_assert_int_eq(gpubudget_budget_new(driver, BYTES, &budget), GPUBUDGET_OK);
    resource = gpubudget_budget_resource(budget);
    backend = (struct gb_backend *)driver;
    for (int i = 0; i < STREAMS; i++) {
        void *word = NULL;

        streams[i] = standin_stream();
        ck_assert_int_eq(cuMemHostAlloc(&word, 64, CU_MEMHOSTALLOC_DEVICEMAP), 0);
        ck_assert_int_eq(cuMemHostGetDevicePointer_v2(&gate_addresses[i], word, 0), 0);
        gates[i] = word;
    }
    for (int i = 0; i < ACTORS; i++)
        for (int k = 0; k < STEPS && scripts[i][k]; k++, length++)
            left[i]++;
    each_order(scripts, left, order, length, 0, one_in);
}

static void read_by_another_stream(gpubudget_charge_t charge)
{
    static scripts_t scripts = {{a_allocates, a_writes, a_frees},
                                {b_holds, b_reads, b_lets_go},
                                {c_allocates, c_frees, reap},
                                {d_holds, d_lets_go}};

    explore(scripts, charge);
}

static void written_by_a_stream_that_ends(gpubudget_charge_t charge)
{
    static scripts_t scripts = {{a_allocates, a_frees, reap},
                                {b_holds, b_writes, b_ends},
                                {c_allocates, c_frees, c_allocates},
                                {d_holds, d_lets_go}};

    explore(scripts, charge);
}

static void back_and_forth(gpubudget_charge_t charge)
{
    static scripts_t scripts = {{a_allocates, a_frees, a_allocates},
                                {c_allocates, c_frees, c_reads_the_other},
                                {d_holds, d_lets_go},
                                {d_holds_c, reap}};

    explore(scripts, charge);
}

START_TEST(test_read_by_another_stream_footprint)
{
    read_by_another_stream(GPUBUDGET_CHARGE_FOOTPRINT);
}
END_TEST

START_TEST(test_read_by_another_stream_requested)
{
    read_by_another_stream(GPUBUDGET_CHARGE_REQUESTED);
}
END_TEST

START_TEST(test_written_by_a_stream_that_ends_footprint)
{
    written_by_a_stream_that_ends(GPUBUDGET_CHARGE_FOOTPRINT);
}
END_TEST

START_TEST(test_written_by_a_stream_that_ends_requested)
{
    written_by_a_stream_that_ends(GPUBUDGET_CHARGE_REQUESTED);
}
END_TEST

START_TEST(test_back_and_forth_footprint)
{
    back_and_forth(GPUBUDGET_CHARGE_FOOTPRINT);
}
END_TEST

START_TEST(test_back_and_forth_requested)
{
    back_and_forth(GPUBUDGET_CHARGE_REQUESTED);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {test_read_by_another_stream_footprint,
                                  test_read_by_another_stream_requested,
                                  test_written_by_a_stream_that_ends_footprint,
                                  test_written_by_a_stream_that_ends_requested,
                                  test_back_and_forth_footprint,
                                  test_back_and_forth_requested};

    return unit_run("orders", tests, COUNT_OF(tests));
}
