/*
 * job_budget.h: JobBudget, the budget that the processes of a job share on a device, as a
 * decorator of the stack: GlobalDeviceBudget's admission over the job's figures.
 */
#ifndef GB_JOB_JOB_BUDGET_H
#define GB_JOB_JOB_BUDGET_H

#include "job/job.h"

#include "resource/budget.h"

/*
 * Invariants: the ledger of the stack below counts in this process's slot, so that what is
 * granted stands there for all before it is in flight no more; all processes of the job admit
 * by job_reserve.c.
 */
struct gb_job_budget {
    struct gpubudget_budget budget;
    struct gb_job *job; /* NULL: not in a job */
    int device;         /* its place in the job */
};

/*
 * On `inner`, whose ledger is `ledger` and has nothing in it yet: from now on that counts in
 * the job. In the caller's storage.
 */
void gb_job_budget_init(struct gb_job_budget *budget, struct gb_job *job, int device,
                        gpubudget_resource_t *inner, struct gpubudget_accounting *ledger);

#endif
