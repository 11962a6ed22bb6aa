/*
 * order_forms.h: every form of a copy, a memset and a launch that takes a stream.
 */
#ifndef ORDER_FORMS_H
#define ORDER_FORMS_H

#include "driver/cuda_api.h"

#include <stdbool.h>

enum { ORDER_BYTES = 1 << 20, ORDER_PITCH = 512 };

/* What the forms need besides the block. */
struct order_around {
    CUcontext context;
    CUdeviceptr other; /* a block of the same size that nobody frees */
    void *host;        /* memory of the host of that size */
    CUarray array;
    CUfunction whole, mixed; /* one pointer; a number, a struct with a pointer, a pointer */
    CUkernel kernel;         /* as whole; NULL where there are no libraries */
};
extern struct order_around order_around;

struct order_form {
    const char *name;    /* as the driver exports it */
    const char *base;    /* for cuGetProcAddress; NULL: not to be had there */
    int version;         /* the same */
    cuuint64_t flags;    /* the same */
    void *linked;        /* as a program that is linked gets it */
    const char *variant; /* of several ways to use it; "" for the only one */
    bool launch;         /* of a kernel */
    /* Calls it; it touches the block in which the address lies, and no other that matters. */
    CUresult (*run)(void *function, CUdeviceptr in_block, CUstream stream);
};
extern const struct order_form order_forms[]; /* ends with a NULL name */

/* PTX with the two kernels. */
extern const char order_code[];

#endif
