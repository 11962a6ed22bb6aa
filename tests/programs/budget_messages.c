/*
 * budget_messages.c: does what the library has a line for, many times.
 *
 *     budget_messages refused COUNT   2 GiB that do not fit beside 2.5
 *     budget_messages managed COUNT   the same of managed memory
 *     budget_messages full COUNT      2 GiB of a card that is nearly full
 *     budget_messages pool COUNT      more than a pool's own maximum
 *     budget_messages ended COUNT     calls that fail by themselves: no line
 *     budget_messages threads COUNT   refusals of sixteen threads at once
 *
 * Prints how often the driver's code for out of memory came.
 */
#define _GNU_SOURCE
#include "budget_program.h"

enum { THREADS = 16 };

static CUcontext context;
static unsigned long count, refused;

static void note(CUresult code)
{
    if (code == CUDA_ERROR_OUT_OF_MEMORY)
        __atomic_fetch_add(&refused, 1, __ATOMIC_SEQ_CST);
}

static void *refuse_on(void *arg)
{
    CUdeviceptr pointer;

    (void)arg;
    MUST(cuCtxSetCurrent(context));
    for (unsigned long i = 0; i < count; i++)
        note(cuMemAlloc_v2(&pointer, 2 * GIB));
    return NULL;
}

static void refuse(bool managed)
{
    CUdeviceptr pointer;

    MUST(cuMemAlloc_v2(&pointer, 2 * GIB + 512 * MIB));
    for (unsigned long i = 0; i < count; i++)
        note(managed ? cuMemAllocManaged(&pointer, 2 * GIB, CU_MEM_ATTACH_GLOBAL)
                     : cuMemAlloc_v2(&pointer, 2 * GIB));
}

static void fill_card(void)
{
    CUdeviceptr pointer;

    for (unsigned long i = 0; i < count; i++)
        note(cuMemAlloc_v2(&pointer, 2 * GIB));
}

static void fill_pool(void)
{
    CUmemPoolProps properties;
    CUmemoryPool pool;
    CUdeviceptr pointer;

    memset(&properties, 0, sizeof(properties));
    properties.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    properties.maxSize = 64 * MIB;
    MUST(cuMemPoolCreate(&pool, &properties));
    for (unsigned long i = 0; i < count; i++)
        note(cuMemAllocFromPoolAsync(&pointer, 128 * MIB, pool, NULL));
}

static void fail(void)
{
    CUdeviceptr pointer;
    CUcontext ended;

    MUST(cuCtxCreate_v2(&ended, 0, 0));
    MUST(cuCtxDestroy_v2(ended));
    for (unsigned long i = 0; i < count; i++) {
        note(cuMemFree_v2(12345));
        note(cuMemFreeAsync(12345, NULL));
        note(cuMemAlloc_v2(&pointer, 0));
        note(cuCtxDestroy_v2(ended));
    }
}

static void race(void)
{
    pthread_t threads[THREADS];
    CUdeviceptr pointer;

    MUST(cuMemAlloc_v2(&pointer, 2 * GIB + 512 * MIB));
    for (int i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, refuse_on, NULL);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";

    count = argc > 2 ? strtoul(argv[2], NULL, 10) : 0;
    context = start_device(0);
    if (strcmp(what, "refused") == 0)
        refuse(false);
    else if (strcmp(what, "managed") == 0)
        refuse(true);
    else if (strcmp(what, "full") == 0)
        fill_card();
    else if (strcmp(what, "pool") == 0)
        fill_pool();
    else if (strcmp(what, "ended") == 0)
        fail();
    else if (strcmp(what, "threads") == 0)
        race();
    else
        return 2;
    printf("refused %lu\n", refused);
    return 0;
}
