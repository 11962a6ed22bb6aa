/*
 * core_runtime.c: a runtime that keeps its own budget with libgpubudget-core. It runs on the
 * stand-in and on a real GPU, by itself and under the preload.
 *
 * core_runtime footprint|requested [preloaded]
 * With `preloaded` the process has a budget of its own, smaller than what this program would
 * give itself, and what the core takes has to appear there once.
 */
#define _GNU_SOURCE
#include "core_calls.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#define MIB   ((size_t)1 << 20)
#define LIMIT (256 * MIB)

static gpubudget_charge_t charge;
static CUcontext context;
static CUstream stream;
static int failures;

/* One line per case; the first thing that was wrong is said. */
static const char *wrong;

#define EXPECT(condition)                                                                      \
    do {                                                                                       \
        if (!(condition) && !wrong)                                                            \
            wrong = #condition;                                                                \
    } while (0)

static void report(const char *name)
{
    if (wrong)
        printf("not ok %s: not so: %s\n", name, wrong);
    else
        printf("ok %s\n", name);
    failures += wrong != NULL;
    wrong = NULL;
    fflush(stdout);
}

static gpubudget_status_t take(gpubudget_resource_t *resource, gpubudget_kind_t kind,
                               size_t bytes, gpubudget_block_t *block, gpubudget_error_t *error)
{
    gpubudget_request_t request = {.bytes = bytes, .kind = kind, .stream = stream};

    return core.materialize(resource, &request, block, error);
}

static uint64_t outstanding(const gpubudget_resource_t *resource)
{
    return core.accounting_outstanding(core.allocation_accounting(resource));
}

/* Frees that are done count as free from now on. */
static void settle(gpubudget_resource_t *resource)
{
    cuStreamSynchronize(stream);
    core.reap_pending(resource, NULL);
}

/* Fill, be refused, free one, take it again, free all. */
static void fill_and_free(gpubudget_resource_t *top, gpubudget_budget_t *budget,
                          gpubudget_kind_t kind)
{
    enum { BITES = 8 };
    const size_t bite = LIMIT / BITES;
    gpubudget_block_t blocks[BITES], extra, before;
    gpubudget_error_t error;
    uint64_t refusals = core.budget_refusals(budget);

    memset(&extra, 0x5a, sizeof(extra));
    before = extra;
    for (int i = 0; i < BITES; i++)
        EXPECT(take(top, kind, bite, &blocks[i], NULL) == GPUBUDGET_OK);
    EXPECT(core.budget_remaining(budget) == 0);
    EXPECT(take(top, kind, bite, &extra, &error) == GPUBUDGET_OUT_OF_BUDGET);
    EXPECT(memcmp(&extra, &before, sizeof(extra)) == 0);
    EXPECT(error.requested == bite && error.limit == LIMIT);
    EXPECT(error.current == LIMIT && error.remaining == 0);
    EXPECT(core.budget_refusals(budget) == refusals + 1);
    EXPECT(core.deallocate(top, &blocks[3], NULL, NULL) == GPUBUDGET_OK);
    EXPECT(take(top, kind, bite, &blocks[3], NULL) == GPUBUDGET_OK);
    for (int i = 0; i < BITES; i++)
        EXPECT(core.deallocate(top, &blocks[i], NULL, NULL) == GPUBUDGET_OK);
    settle(top);
    EXPECT(outstanding(top) == 0);
}

static void free_twice(gpubudget_resource_t *top, gpubudget_kind_t kind)
{
    gpubudget_block_t first, second;
    gpubudget_error_t error;
    uint64_t reclaimed, before = outstanding(top);

    EXPECT(take(top, kind, 4 * MIB, &first, NULL) == GPUBUDGET_OK);
    EXPECT(core.deallocate(top, &first, NULL, NULL) == GPUBUDGET_OK);
    settle(top);
    reclaimed = core.accounting_reclaimed(core.allocation_accounting(top));
    EXPECT(core.deallocate(top, &first, NULL, &error) == GPUBUDGET_USE_AFTER_FREE);
    EXPECT(error.status == GPUBUDGET_USE_AFTER_FREE);
    EXPECT(core.accounting_reclaimed(core.allocation_accounting(top)) == reclaimed);
    /* The address comes again, as another block: the old name does not end it. */
    EXPECT(take(top, kind, 4 * MIB, &second, NULL) == GPUBUDGET_OK);
    EXPECT(second.id.generation > first.id.generation);
    EXPECT(core.deallocate(top, &first, NULL, NULL) == GPUBUDGET_USE_AFTER_FREE);
    EXPECT(outstanding(top) > before);
    EXPECT(core.deallocate(top, &second, NULL, NULL) == GPUBUDGET_OK);
    settle(top);
    EXPECT(outstanding(top) == before);
}

static void pressure(gpubudget_resource_t *top, gpubudget_budget_t *budget)
{
    gpubudget_block_t block;
    gpubudget_snapshot_t snapshot;

    EXPECT(core.allocate_with_reservation_pressure(top, 64 * MIB, LIMIT, stream, 1, &block,
                                                   NULL) == GPUBUDGET_OUT_OF_BUDGET);
    EXPECT(core.allocate_with_reservation_pressure(top, 64 * MIB, LIMIT - 64 * MIB, stream, 1,
                                                   &block, NULL) == GPUBUDGET_OK);
    EXPECT(core.budget_snapshot(top, &snapshot));
    EXPECT(snapshot.limit == LIMIT && snapshot.reserved == 64 * MIB);
    EXPECT(core.budget_reserved_bytes(budget) == core.bytes_outstanding(top));
    EXPECT(block.tag == 1 && block.device == core.device_ordinal(top));
    EXPECT(core.supports_block_use_tracking(top));
    EXPECT(core.prepare_block_use(top, block.id, NULL, GPUBUDGET_ACCESS_READ, NULL) ==
           GPUBUDGET_OK);
    EXPECT(core.record_block_use(top, &block, NULL, NULL) == GPUBUDGET_OK);
    EXPECT(core.deallocate(top, &block, NULL, NULL) == GPUBUDGET_OK);
    settle(top);
}

struct worker {
    gpubudget_resource_t *top;
    int wrong;
};

static void *work(void *arg)
{
    struct worker *worker = arg;

    cuCtxSetCurrent(context);
    for (int i = 0; i < 500; i++) {
        gpubudget_request_t request = {.bytes = 1 * MIB,
                                       .kind = i % 2 ? GPUBUDGET_KIND_DIRECT
                                                     : GPUBUDGET_KIND_STREAM_ORDERED,
                                       .stream = stream};
        gpubudget_block_t block;

        if (core.materialize(worker->top, &request, &block, NULL) != GPUBUDGET_OK ||
            core.deallocate(worker->top, &block, NULL, NULL) != GPUBUDGET_OK ||
            core.deallocate(worker->top, &block, NULL, NULL) != GPUBUDGET_USE_AFTER_FREE)
            worker->wrong++;
    }
    return NULL;
}

static void two_threads(gpubudget_resource_t *top)
{
    struct worker workers[2] = {{.top = top}, {.top = top}};
    uint64_t before = outstanding(top);
    pthread_t ids[2];

    for (int i = 0; i < 2; i++)
        EXPECT(pthread_create(&ids[i], NULL, work, &workers[i]) == 0);
    for (int i = 0; i < 2; i++)
        pthread_join(ids[i], NULL);
    EXPECT(workers[0].wrong == 0 && workers[1].wrong == 0);
    settle(top);
    EXPECT(outstanding(top) == before);
}

/* What the process's own budget says is used; the same question is the card's without one. */
static uint64_t used(void)
{
    size_t free = 0, total = 0;

    EXPECT(cuMemGetInfo(&free, &total) == CUDA_SUCCESS);
    return total - free;
}

/* Under the preload: what the core takes is charged to the process, once. */
static void charged_once(gpubudget_resource_t *resource)
{
    static const gpubudget_kind_t kinds[] = {
        GPUBUDGET_KIND_DIRECT, GPUBUDGET_KIND_STREAM_ORDERED, GPUBUDGET_KIND_MANAGED};
    uint64_t before = used();

    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        gpubudget_block_t block, small;

        EXPECT(take(resource, kinds[i], 20 * MIB, &block, NULL) == GPUBUDGET_OK);
        EXPECT(outstanding(resource) >= 20 * MIB);
        EXPECT(used() - before == outstanding(resource));
        EXPECT(take(resource, kinds[i], 1000, &small, NULL) == GPUBUDGET_OK);
        EXPECT(used() - before == outstanding(resource));
        EXPECT(core.deallocate(resource, &block, NULL, NULL) == GPUBUDGET_OK);
        EXPECT(core.deallocate(resource, &small, NULL, NULL) == GPUBUDGET_OK);
        settle(resource);
        EXPECT(used() - before == outstanding(resource));
    }
}

/* The process's budget refuses as the driver does: out of memory. */
static void process_refuses(gpubudget_resource_t *top, gpubudget_kind_t kind)
{
    enum { MOST = 64 };
    gpubudget_block_t blocks[MOST];
    gpubudget_status_t status = GPUBUDGET_OK;
    gpubudget_error_t error = {.status = GPUBUDGET_OK};
    int count = 0;

    while (count < MOST && status == GPUBUDGET_OK) {
        status = take(top, kind, 64 * MIB, &blocks[count], &error);
        count += status == GPUBUDGET_OK;
    }
    EXPECT(status == GPUBUDGET_DRIVER);
    EXPECT(error.driver_code == CUDA_ERROR_OUT_OF_MEMORY);
    EXPECT(count > 0);
    while (count > 0)
        EXPECT(core.deallocate(top, &blocks[--count], NULL, NULL) == GPUBUDGET_OK);
    settle(top);
    EXPECT(take(top, kind, 64 * MIB, &blocks[0], NULL) == GPUBUDGET_OK);
    EXPECT(core.deallocate(top, &blocks[0], NULL, NULL) == GPUBUDGET_OK);
    settle(top);
}

int main(int argc, char **argv)
{
    bool preloaded = argc > 2 && strcmp(argv[2], "preloaded") == 0;
    gpubudget_resource_t *resource, *top;
    gpubudget_budget_t *budget;
    CUdevice device;

    if (!core_find())
        return 1;
    charge = argc > 1 && strcmp(argv[1], "requested") == 0 ? GPUBUDGET_CHARGE_REQUESTED
                                                           : GPUBUDGET_CHARGE_FOOTPRINT;
    if (cuInit(0) != CUDA_SUCCESS || cuDeviceGet(&device, 0) != CUDA_SUCCESS ||
        cuDevicePrimaryCtxRetain(&context, device) != CUDA_SUCCESS ||
        cuCtxSetCurrent(context) != CUDA_SUCCESS ||
        cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING) != CUDA_SUCCESS ||
        core.driver_resource_new(0, charge, &resource) != GPUBUDGET_OK ||
        core.budget_new(resource, preloaded ? UINT64_MAX : LIMIT, &budget) != GPUBUDGET_OK) {
        puts("not ok start: no device, or no budget on it");
        return 1;
    }
    top = core.budget_resource(budget);
    EXPECT(core.version()[0] != '\0');
    EXPECT(strcmp(core.status_string(GPUBUDGET_OK), "") != 0);
    EXPECT(core.budget_limit(budget) == (preloaded ? UINT64_MAX : LIMIT));
    EXPECT(core.allocation_accounting(top) == core.allocation_accounting(resource));
    report("start");
    if (preloaded) {
        charged_once(resource);
        report("charged-once");
        process_refuses(top, GPUBUDGET_KIND_DIRECT);
        report("process-refuses-direct");
        process_refuses(top, GPUBUDGET_KIND_STREAM_ORDERED);
        report("process-refuses-ordered");
    } else {
        fill_and_free(top, budget, GPUBUDGET_KIND_DIRECT);
        report("fill-direct");
        fill_and_free(top, budget, GPUBUDGET_KIND_STREAM_ORDERED);
        report("fill-ordered");
        pressure(top, budget);
        report("pressure");
    }
    free_twice(top, GPUBUDGET_KIND_DIRECT);
    report("free-twice-direct");
    free_twice(top, GPUBUDGET_KIND_STREAM_ORDERED);
    report("free-twice-ordered");
    two_threads(top);
    report("two-threads");
    core.resource_destroy(top);
    core.resource_destroy(resource);
    return failures > 0;
}
