/*
 * budget.h: GlobalDeviceBudget, the decorator that admits, refuses and rolls back.
 */
#ifndef GPUBUDGET_BUDGET_H
#define GPUBUDGET_BUDGET_H

#include <gpubudget/resource.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

typedef struct gpubudget_budget gpubudget_budget_t;

/*
 * Wraps inner with a limit in bytes. inner may already have live blocks: they count from the
 * start. The budget does not own inner, which must outlive it. Any number of budgets may be
 * stacked; the outermost reaps and retries, the inner ones answer once. Writes *budget on
 * success; end it with gpubudget_resource_destroy(gpubudget_budget_resource(budget)). Fails
 * with GPUBUDGET_INVALID_ARGUMENT (a NULL) or GPUBUDGET_OUT_OF_HOST_MEMORY.
 *
 * The questions below may be asked from any thread at any time until then; they take no lock,
 * call no driver and cannot fail. budget must not be NULL.
 */
gpubudget_status_t gpubudget_budget_new(gpubudget_resource_t *inner, uint64_t limit,
                                        gpubudget_budget_t **budget);

/* The budget as a resource, for all operations of resource.h. The same object, never NULL. */
gpubudget_resource_t *gpubudget_budget_resource(gpubudget_budget_t *budget);

/* The limit in bytes, fixed at creation. */
uint64_t gpubudget_budget_limit(const gpubudget_budget_t *budget);

/* Bytes outstanding plus bytes of requests in flight. */
uint64_t gpubudget_budget_reserved_bytes(const gpubudget_budget_t *budget);

/* limit - reserved, not below 0. */
uint64_t gpubudget_budget_remaining(const gpubudget_budget_t *budget);

/*
 * Longest time in nanoseconds for which a request waits for requests in flight to settle, and
 * one that is not stream-ordered for pending frees that can make room for it, before it is
 * refused; default 200 ms. Set it before the budget is shared.
 */
void gpubudget_budget_set_wait(gpubudget_budget_t *budget, uint64_t nanoseconds);

/* Requests refused by this budget since its creation. */
uint64_t gpubudget_budget_refusals(const gpubudget_budget_t *budget);

/*
 * The most bytes by which memory that no call could refuse (code that the driver loads at a
 * first launch, page tables) has been seen above the limit; 0: never. While it is above,
 * nothing is granted.
 */
uint64_t gpubudget_budget_overshoot(const gpubudget_budget_t *budget);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
