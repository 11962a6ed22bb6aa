/*
 * accounting.h: the ledger of one device, the one place where bytes are counted.
 */
#ifndef GPUBUDGET_ACCOUNTING_H
#define GPUBUDGET_ACCOUNTING_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

/*
 * A ledger belongs to the terminal backend of a stack; every layer above answers with the
 * identical object. It holds two totals in bytes, both of which only grow: bytes acquired and
 * bytes proven reclaimed. Reading is safe from any thread at any time and takes no lock. The
 * object lives as long as its backend.
 */
typedef struct gpubudget_accounting gpubudget_accounting_t;

/* Bytes ever acquired. */
uint64_t gpubudget_accounting_acquired(const gpubudget_accounting_t *accounting);

/* Bytes whose return to the device has been proven. */
uint64_t gpubudget_accounting_reclaimed(const gpubudget_accounting_t *accounting);

/*
 * acquired - reclaimed. While other threads allocate and free, the answer may be higher than
 * the truth of any one moment, never lower.
 */
uint64_t gpubudget_accounting_outstanding(const gpubudget_accounting_t *accounting);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
