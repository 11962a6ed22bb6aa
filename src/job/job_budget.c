/*
 * job_budget.c: the figures of a job for admission.c.
 */
#include "job/job_budget.h"

static struct gb_job_budget *of(void *arg)
{
    return arg;
}

static uint64_t limit(void *arg)
{
    return gb_job_limit(of(arg)->job, of(arg)->device);
}

static uint64_t held(void *arg)
{
    return gb_job_held(of(arg)->job, of(arg)->device);
}

static uint64_t in_flight(void *arg)
{
    return gb_job_in_flight(of(arg)->job, of(arg)->device);
}

static uint64_t used(void *arg)
{
    return gb_job_used(of(arg)->job, of(arg)->device);
}

static bool claim(void *arg, uint64_t bytes, uint64_t pressure, uint64_t *left)
{
    return gb_job_claim(of(arg)->job, of(arg)->device, bytes, pressure, left);
}

static void settle(void *arg, uint64_t bytes)
{
    gb_job_settle(of(arg)->job, of(arg)->device, bytes);
}

static bool insist(void *arg, uint64_t bytes, uint64_t pressure, uint64_t deadline,
                   uint64_t *left)
{
    return gb_job_insist(of(arg)->job, of(arg)->device, bytes, pressure, deadline, left);
}

static bool turn_take(void *arg, uint64_t deadline)
{
    return gb_job_turn_take(of(arg)->job, of(arg)->device, deadline);
}

static void turn_drop(void *arg)
{
    gb_job_turn_drop(of(arg)->job, of(arg)->device);
}

static void reap(void *arg)
{
    gb_job_reap(of(arg)->job);
}

static const struct gb_budget_scope scope = {.limit = limit,
                                             .held = held,
                                             .in_flight = in_flight,
                                             .used = used,
                                             .claim = claim,
                                             .settle = settle,
                                             .insist = insist,
                                             .turn_take = turn_take,
                                             .turn_drop = turn_drop,
                                             .reap = reap};

void gb_job_budget_init(struct gb_job_budget *budget, struct gb_job *job, int device,
                        gpubudget_resource_t *inner, struct gpubudget_accounting *ledger)
{
    budget->job = job;
    budget->device = device;
    gb_ledger_share(ledger, &gb_job_account(job, device)->held);
    gb_budget_init_shared(&budget->budget, inner, &scope, budget);
}
