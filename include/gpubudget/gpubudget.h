/*
 * gpubudget.h: everything of libgpubudget-core.
 */
#ifndef GPUBUDGET_GPUBUDGET_H
#define GPUBUDGET_GPUBUDGET_H

#include <gpubudget/accounting.h>
#include <gpubudget/budget.h>
#include <gpubudget/driver_resource.h>
#include <gpubudget/resource.h>
#include <gpubudget/status.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

/* The version of the library in use, for instance "0.1.0". Never NULL. */
const char *gpubudget_version(void);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
