/*
 * call.h: from a handler's request to the driver's answer, or the budget's.
 */
#ifndef GB_INTERPOSE_CALL_H
#define GB_INTERPOSE_CALL_H

#include "interpose/process.h"

/*
 * What a handler's acquire function fills: the driver's outputs in the handler's own storage,
 * so that the program's variables stay untouched when a grant is undone. answered: the driver
 * was called and its answer stands, so its outputs are the program's.
 */
struct gb_call {
    struct gb_driver *drv;
    struct gb_device *device;
    const char *name; /* the CUDA name for messages, without _v2 */
    bool answered;
};

/* Sends the request down the device's stack; answers what the program gets. */
CUresult gb_call_allocate(struct gb_call *call, gpubudget_request_t *request);

/* The driver is out of memory for a request that the budget had room for. */
void gb_call_card_full(const struct gb_call *call, const gpubudget_request_t *request);

/*
 * Frees a tracked block through its device's stack; sets release->taken. False: the pointer is
 * not tracked and the driver is to be asked directly.
 */
bool gb_call_free(CUdeviceptr pointer, gpubudget_release_t *release, CUresult *answer);

/* The same for one whose entry the caller has taken out of the table. */
CUresult gb_call_free_taken(struct gb_block *entry, gpubudget_release_t *release);

#endif
