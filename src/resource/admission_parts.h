/*
 * admission_parts.h: what admission.c (one attempt: reserve, forward, judge) and growth.c (near
 * the limit) share.
 */
#ifndef GB_RESOURCE_ADMISSION_PARTS_H
#define GB_RESOURCE_ADMISSION_PARTS_H

#include "resource/admission.h"

/* Of the monotonic clock, in nanoseconds; deadlines are in it. */
uint64_t gb_admission_now(void);

/*
 * Up to where this request is let in. Streams, and what a library brings to a context, are the
 * driver's own growth, which programs do not expect to be refused: the reserve is for that.
 */
uint64_t gb_admission_let_in(const struct gpubudget_budget *budget,
                             const gpubudget_request_t *request);

/*
 * One attempt to reserve `bytes`; pressure counts at admission only. Writes what is left below
 * the limit beside it.
 */
bool gb_admission_reserve(struct gpubudget_budget *budget, uint64_t let_in, uint64_t bytes,
                          uint64_t pressure, uint64_t *left);

/* Frees that are done, and what ended processes of a job have left. */
void gb_admission_reap(struct gpubudget_budget *budget);

/*
 * Reserves as soon as requests in flight have settled, as long as they alone stand in the way.
 * Makes no driver call. In a budget that is shared: with the turn only.
 */
bool gb_admission_wait(struct gpubudget_budget *budget, const gpubudget_request_t *request,
                       uint64_t bytes, uint64_t deadline);

/* May it wait on the host? Not what a program gives to a stream, which may be held by the very
 * thread that gives it. */
bool gb_admission_may_wait(const gpubudget_request_t *request);

/*
 * For a request that takes at most so much: waits, bounded, until it is measured what there is,
 * where a disturbed measurement may have missed so much that it would not fit.
 */
void gb_admission_settle_doubt(struct gpubudget_budget *budget, uint64_t most);

/* How much has to be given back before `bytes` more fit; 0 when they do. */
uint64_t gb_admission_shortage(const struct gpubudget_budget *budget, uint64_t bytes);

/*
 * What has to fit beside all that is live for idle memory to make the difference. Not the
 * least: that counts on idle bytes of the request's own pool, which cannot also be given back.
 */
uint64_t gb_admission_whole(const gpubudget_request_t *request, uint64_t least);

/* OUT_OF_BUDGET, with the figures of now. */
gpubudget_status_t gb_admission_refuse(struct gpubudget_budget *budget,
                                       gpubudget_request_t *request, gpubudget_error_t *error);

/*
 * Passes the request on under a reservation of `reserved` bytes and settles it. When the grant
 * took more than that and does not fit, it is given back and the answer is OUT_OF_BUDGET. Where
 * the caller asks whether it was undone, the grant is judged in any case: what a pool has grown
 * by may have been posted by another thread that looked at the pool first.
 */
gpubudget_status_t gb_admission_forward(struct gpubudget_budget *budget,
                                        gpubudget_request_t *request, uint64_t reserved,
                                        bool *was_undone, gpubudget_block_t *block,
                                        gpubudget_error_t *error);

/*
 * A measured call that may take nothing: the driver decides, whatever the budget holds, and
 * what it takes is judged. So a full budget refuses no stream for which there is memory
 * already.
 */
gpubudget_status_t gb_admission_measure(struct gpubudget_budget *budget,
                                        gpubudget_request_t *request, uint64_t most,
                                        gpubudget_block_t *block, gpubudget_error_t *error);

/* Whose upper bound, the most, does not fit as things stand. */
gpubudget_status_t gb_admission_near(struct gpubudget_budget *budget,
                                     gpubudget_request_t *request, uint64_t most,
                                     gpubudget_block_t *block, gpubudget_error_t *error);

#endif
