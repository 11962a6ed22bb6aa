/*
 * status.h: the one set of outcomes of every gpubudget operation.
 */
#ifndef GPUBUDGET_STATUS_H
#define GPUBUDGET_STATUS_H

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

/*
 * Outcome of an operation. Everything but GPUBUDGET_OK leaves all outputs as they were.
 * A driver's own code (CUresult) travels beside GPUBUDGET_DRIVER in gpubudget_error_t.
 */
typedef enum gpubudget_status {
    GPUBUDGET_OK = 0,
    GPUBUDGET_OUT_OF_BUDGET = 1,      /* the budget has no room; nothing was taken */
    GPUBUDGET_DRIVER = 2,             /* the driver refused; gpubudget_error_t has its code */
    GPUBUDGET_STREAM_MISUSE = 3,      /* the resource cannot track this use of a stream */
    GPUBUDGET_USE_AFTER_FREE = 4,     /* (pointer, generation) names no live block */
    GPUBUDGET_INVALID_ARGUMENT = 5,   /* NULL where an object is needed, and the like */
    GPUBUDGET_OUT_OF_HOST_MEMORY = 6, /* no host memory for the bookkeeping */
    GPUBUDGET_NO_DRIVER = 7           /* no CUDA driver, or one that lacks what is needed */
} gpubudget_status_t;

/* A short fixed English text for a status, never NULL. */
const char *gpubudget_status_string(gpubudget_status_t status);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
