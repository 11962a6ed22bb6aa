/*
 * admission.h: who is let in by a GlobalDeviceBudget.
 */
#ifndef GB_RESOURCE_ADMISSION_H
#define GB_RESOURCE_ADMISSION_H

#include "resource/budget.h"

/*
 * Bytes reserved now. In flight is read before outstanding: a grant that settles in between is
 * then counted twice, never missed.
 */
uint64_t gb_budget_reserved(const struct gpubudget_budget *budget);

/* Has idle memory given back that stands in the way of `bytes`, or at least above the limit. */
void gb_budget_make_room(struct gpubudget_budget *budget, uint64_t bytes);

/* The budget's materialize: admits, refuses, waits, rolls back. */
gpubudget_status_t gb_budget_materialize(gpubudget_resource_t *self,
                                         gpubudget_request_t *request, gpubudget_block_t *block,
                                         gpubudget_error_t *error);

#endif
