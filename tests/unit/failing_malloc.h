/*
 * failing_malloc.h: host memory that runs out when a test says so. For tests that are linked
 * with --wrap=malloc and --wrap=calloc; included once.
 */
#ifndef FAILING_MALLOC_H
#define FAILING_MALLOC_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
/* Not hidden: the linker takes the references of the stand-in for references to these. */
__attribute__((visibility("default"))) void *__wrap_malloc(size_t size);
__attribute__((visibility("default"))) void *__wrap_calloc(size_t count, size_t size);

/* How many more allocations succeed; negative: all of them. */
static _Atomic long malloc_left = -1;
/* How many were refused since malloc_fail_after. */
static _Atomic long malloc_refused;

static inline void malloc_fail_after(long allowed)
{
    atomic_store(&malloc_refused, 0);
    atomic_store(&malloc_left, allowed);
}

/* All is well again; answers how many allocations were refused. */
static inline long malloc_recover(void)
{
    atomic_store(&malloc_left, -1);
    return atomic_load(&malloc_refused);
}

static bool malloc_refuses(void)
{
    long left = atomic_load(&malloc_left);

    while (left > 0)
        if (atomic_compare_exchange_weak(&malloc_left, &left, left - 1))
            return false;
    if (left < 0)
        return false;
    atomic_fetch_add(&malloc_refused, 1);
    return true;
}

void *__wrap_malloc(size_t size)
{
    return malloc_refuses() ? NULL : __real_malloc(size);
}

void *__wrap_calloc(size_t count, size_t size)
{
    return malloc_refuses() ? NULL : __real_calloc(count, size);
}

#endif
