/*
 * route_interposer.c: another library that stands between a program and the driver.
 *
 * It defines some of the driver's names and goes on by RTLD_NEXT, as tracers do. Built twice,
 * with two names, so that two can stand in a row.
 */
#define _GNU_SOURCE
#include "driver/cuda_api.h"
#include "route_report.h"

#ifndef INTERPOSER
#error "define INTERPOSER as one letter"
#endif
#define PASTE2(a, b) a##b
#define PASTE(a, b)  PASTE2(a, b)

static int alloc_calls, init_calls;

/* Looked up by this library's constructor, which may run before the preload's own. */
static void *early_open, *early_free, *early_next;

__attribute__((constructor)) static void look_early(void)
{
    early_open = dlsym(RTLD_NEXT, "open");
    early_free = dlsym(RTLD_DEFAULT, "cuMemFree_v2");
    early_next = dlsym(RTLD_NEXT, "cuMemAlloc_v2");
}

/* How often each function was called here. */
ROUTE_EXPORT int PASTE(route_interposer_allocs_, INTERPOSER)(void)
{
    return alloc_calls;
}

ROUTE_EXPORT int PASTE(route_interposer_inits_, INTERPOSER)(void)
{
    return init_calls;
}

ROUTE_EXPORT CUresult cuInit(unsigned int flags)
{
    CUresult (*next)(unsigned int) = (CUresult(*)(unsigned int))dlsym(RTLD_NEXT, "cuInit");

    init_calls++;
    return next == NULL ? CUDA_ERROR_SHARED_OBJECT_SYMBOL_NOT_FOUND : next(flags);
}

ROUTE_EXPORT CUresult cuMemAlloc_v2(CUdeviceptr *pointer, size_t bytes)
{
    CUresult (*next)(CUdeviceptr *, size_t) =
        (CUresult(*)(CUdeviceptr *, size_t))dlsym(RTLD_NEXT, "cuMemAlloc_v2");

    alloc_calls++;
    return next == NULL ? CUDA_ERROR_SHARED_OBJECT_SYMBOL_NOT_FOUND : next(pointer, bytes);
}

ROUTE_EXPORT void PASTE(route_interposer_report_, INTERPOSER)(void *late)
{
    route_line("early", "next", "open", early_open);
    route_line("early", "default", "cuMemFree_v2", early_free);
    route_line("early", "next", "cuMemAlloc_v2", early_next);
    route_report("interposer", late);
}

ROUTE_EXPORT void route_preloaded_report(void *late)
{
    PASTE(route_interposer_report_, INTERPOSER)(late);
}

/* The same library opened as a plug-in. */
ROUTE_EXPORT void route_plugin_report(void *late)
{
    PASTE(route_interposer_report_, INTERPOSER)(late);
}
