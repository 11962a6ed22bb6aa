/*
 * core_calls.h: the functions of libgpubudget-core as a table, so that one program can use them
 * linked or, with CORE_BY_NAME, as the preload exports them.
 */
#ifndef CORE_CALLS_H
#define CORE_CALLS_H

#include <gpubudget/gpubudget.h>

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#define CORE_CALLS(X)                                                                          \
    X(version)                                                                                 \
    X(status_string)                                                                           \
    X(driver_resource_new)                                                                     \
    X(materialize)                                                                             \
    X(allocate)                                                                                \
    X(allocate_with_reservation_pressure)                                                      \
    X(deallocate)                                                                              \
    X(allocation_accounting)                                                                   \
    X(bytes_outstanding)                                                                       \
    X(device_ordinal)                                                                          \
    X(budget_snapshot)                                                                         \
    X(reap_pending)                                                                            \
    X(supports_block_use_tracking)                                                             \
    X(record_block_use)                                                                        \
    X(prepare_block_use)                                                                       \
    X(finish_block_use)                                                                        \
    X(resource_destroy)                                                                        \
    X(budget_new)                                                                              \
    X(budget_resource)                                                                         \
    X(budget_limit)                                                                            \
    X(budget_reserved_bytes)                                                                   \
    X(budget_remaining)                                                                        \
    X(budget_set_wait)                                                                         \
    X(budget_refusals)                                                                         \
    X(accounting_acquired)                                                                     \
    X(accounting_reclaimed)                                                                    \
    X(accounting_outstanding)

#define CORE_POINTER(name) __typeof__(gpubudget_##name) *name;
static struct {
    CORE_CALLS(CORE_POINTER)
} core;
#undef CORE_POINTER

#ifdef CORE_BY_NAME
#define CORE_FIND(name)                                                                        \
    address = dlsym(RTLD_DEFAULT, "gpubudget_" #name);                                         \
    memcpy(&core.name, &address, sizeof(address));                                             \
    if (!address) {                                                                            \
        printf("not ok find: no gpubudget_%s in this process\n", #name);                       \
        return 0;                                                                              \
    }
#else
#define CORE_FIND(name) core.name = gpubudget_##name;
#endif

/* 0: one of them is nowhere. */
static int core_find(void)
{
#ifdef CORE_BY_NAME
    void *address;
#endif

    CORE_CALLS(CORE_FIND)
    return 1;
}

#endif
