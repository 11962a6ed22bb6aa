/*
 * resource.h: the device memory resource interface, its request and its block.
 *
 * A resource is a stack of objects that serve one device: decorators (a budget) on top of a
 * terminal backend (the driver). The same request travels the whole stack, top to bottom, once.
 */
#ifndef GPUBUDGET_RESOURCE_H
#define GPUBUDGET_RESOURCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cuda.h>

#include <gpubudget/accounting.h>
#include <gpubudget/status.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

/* What a request takes; it decides how the bytes are charged. */
typedef enum gpubudget_kind {
    GPUBUDGET_KIND_DIRECT = 0,         /* cuMemAlloc */
    GPUBUDGET_KIND_PITCH = 1,          /* cuMemAllocPitch: pitch x height */
    GPUBUDGET_KIND_MANAGED = 2,        /* cuMemAllocManaged */
    GPUBUDGET_KIND_STREAM_ORDERED = 3, /* cuMemAllocAsync, cuMemAllocFromPoolAsync */
    GPUBUDGET_KIND_CONTEXT = 4,        /* a context: measured, not asked for in bytes */
    GPUBUDGET_KIND_HANDLE = 5,         /* cuMemCreate: the block's pointer is the handle */
    GPUBUDGET_KIND_MEASURED = 6,       /* a module, a stream, ...: as a context */
    GPUBUDGET_KIND_GRAPH = 7,          /* the allocation nodes of an executable graph */
    GPUBUDGET_KIND_ARRAY = 8           /* by the bytes asked for; the pointer is the handle */
} gpubudget_kind_t;

/* How the work of a stream touches a block. */
typedef enum gpubudget_access {
    GPUBUDGET_ACCESS_READ = 0,
    GPUBUDGET_ACCESS_WRITE = 1,
    GPUBUDGET_ACCESS_READ_WRITE = 2
} gpubudget_access_t;

typedef enum gpubudget_block_state {
    GPUBUDGET_BLOCK_LIVE = 0,
    GPUBUDGET_BLOCK_RETIRED = 1,     /* freed in stream order; the free is not proven yet */
    GPUBUDGET_BLOCK_QUARANTINED = 2, /* kept back because a free failed half way */
    GPUBUDGET_BLOCK_FREED = 3
} gpubudget_block_state_t;

/* Names one block for ever: a later block at the same address has another generation. */
typedef struct gpubudget_block_id {
    CUdeviceptr pointer;
    uint64_t generation;
} gpubudget_block_id_t;

/*
 * A block as the caller holds it: a value, owned by the caller, no hidden storage. bytes is
 * what this block itself is charged with; memory charged through a pool's gauge is not in it.
 */
typedef struct gpubudget_block {
    gpubudget_block_id_t id;
    uint64_t bytes;     /* charged, in bytes */
    uint64_t requested; /* asked for, in bytes */
    int device;         /* CUDA device ordinal */
    CUstream stream;    /* the allocation stream; NULL is the legacy default stream */
    uint64_t tag;       /* the caller's own mark, carried unchanged */
    gpubudget_kind_t kind;
    gpubudget_block_state_t state;
} gpubudget_block_t;

/* Details of a failure, written only when an operation fails and the caller gave a place. */
typedef struct gpubudget_error {
    gpubudget_status_t status;
    CUresult driver_code; /* with GPUBUDGET_DRIVER, else CUDA_SUCCESS */
    uint64_t requested;   /* with GPUBUDGET_OUT_OF_BUDGET, all in bytes: */
    uint64_t current;     /*   reserved at the decision */
    uint64_t remaining;   /*   limit - current, not below 0 */
    uint64_t limit;
} gpubudget_error_t;

/*
 * How to take the memory: the driver call with the caller's own arguments. On success it writes
 * the pointer and the size in bytes that the driver gave (pitch x height for pitched memory;
 * for all others the size asked for). On failure it writes neither. Called at most once per
 * request, with no lock held by the stack but a device's growth turn.
 */
typedef CUresult (*gpubudget_acquire_fn)(void *arg, CUdeviceptr *pointer, size_t *bytes);

/* Gives back what acquire took, when the grant has to be undone. */
typedef CUresult (*gpubudget_undo_fn)(void *arg, CUdeviceptr pointer);

/* How to free: the driver call with the caller's own arguments. */
typedef CUresult (*gpubudget_release_fn)(void *arg, CUdeviceptr pointer);

/*
 * A request. Zero-initialise, then set what is wanted. The fields under "of the stack" belong
 * to the resources; set them to zero and do not read them.
 */
typedef struct gpubudget_request {
    size_t bytes;
    uint64_t most_bytes; /* what the driver may make of it (pitch x height); 0: no more */
    CUstream stream;
    uint64_t tag;
    gpubudget_kind_t kind;
    uint64_t reservation_pressure; /* bytes promised by the runtime, not yet materialised */
    CUmemoryPool pool;             /* stream-ordered only; NULL: the device's current pool */
    CUcontext context;             /* the context the memory will belong to, NULL: unknown */
    gpubudget_acquire_fn acquire;  /* NULL: the backend's own driver call for this kind */
    gpubudget_undo_fn undo;
    void *arg; /* for acquire and undo */

    /* of the stack */
    unsigned depth;       /* decorators above; the outermost one reaps and retries */
    uint64_t charged;     /* set by the backend: what this request added to the ledger */
    CUresult driver_code; /* set by the backend: the driver's answer */
    const void *driver;   /* the driver's functions, NULL: the backend's own */
    uint64_t in_flight;   /* set by budgets: bytes that are reserved for this request */
    uint64_t slack;  /* set by budgets: bytes that may be charged above the truth until later */
    uint64_t credit; /* bytes that a grant may post beyond its bound, for later ones; budgets
                        lower it to what they have reserved */
    bool stream_is_thread; /* NULL stands for the per-thread default stream */
    bool over_limit;       /* granted although it does not fit: the budget only reports */
    bool doubtful;   /* set by the backend: others disturbed the measurement of what it took */
    bool guessed;    /* set by the backend: what is charged may not be what this request took */
    bool near_limit; /* set by budgets: more than half of what one lets in is in use */
    uint64_t left; /* set by budgets: bytes that the tightest one lets in beside this request */
    const void *refused_by; /* set by the budget that refuses */
    bool alone; /* set by budgets: it may be undone, so no other is to grow its pool */
    bool grew;  /* set by the backend: its pool has grown, and for it alone */
} gpubudget_request_t;

/* How a block is given back; NULL where the backend's own call is wanted. */
typedef struct gpubudget_release {
    gpubudget_release_fn release;
    void *arg;
    CUstream stream;       /* with ordered */
    bool ordered;          /* the call frees in stream order, on stream */
    bool stream_is_thread; /* NULL stands for the per-thread default stream */

    void *taken; /* of the stack: the block's entry, where it is out of the table already */
    bool apart;  /* of the stack: a grant is undone that lies in new memory, which is nobody's:
                    it  need not wait for its stream */
} gpubudget_release_t;

/* A budget's answer about itself. */
typedef struct gpubudget_snapshot {
    uint64_t limit;    /* bytes */
    uint64_t reserved; /* bytes outstanding + in flight */
} gpubudget_snapshot_t;

typedef struct gpubudget_resource gpubudget_resource_t;

/*
 * The operations of a resource. NULL entries mean the interface's default, which the functions
 * below apply. Threads: every operation may be called from any thread at any time, save
 * destroy.
 */
typedef struct gpubudget_resource_ops {
    size_t size; /* of this struct, so that it can grow */

    /* required */
    gpubudget_status_t (*materialize)(gpubudget_resource_t *self, gpubudget_request_t *request,
                                      gpubudget_block_t *block, gpubudget_error_t *error);
    gpubudget_status_t (*deallocate)(gpubudget_resource_t *self, const gpubudget_block_t *block,
                                     const gpubudget_release_t *release,
                                     gpubudget_error_t *error);
    const gpubudget_accounting_t *(*allocation_accounting)(const gpubudget_resource_t *self);
    uint64_t (*bytes_outstanding)(const gpubudget_resource_t *self);
    int (*device_ordinal)(const gpubudget_resource_t *self);
    void (*destroy)(gpubudget_resource_t *self);

    /*
     * Bytes that granting the request may add to the ledger: at most, or (least) at least, as
     * far as is known without an allocation. Default: request->bytes for both. With least the
     * resource may ask the driver for attributes; without it, it must not.
     */
    uint64_t (*charge_bound)(gpubudget_resource_t *self, const gpubudget_request_t *request,
                             bool least);
    /*
     * Gives back memory that nobody uses, such as a pool's idle bytes, when that can make at
     * least `bytes` of room. Default: nothing. True when something was given back.
     */
    bool (*make_room)(gpubudget_resource_t *self, uint64_t bytes);
    /*
     * For a stream-ordered request that lacks `bytes` of room for what it would take anew:
     * where its pool can serve it from memory that other streams have freed, makes the
     * request's stream wait for so many of those frees, and no other work. The host does not
     * wait. With 0 nothing is done but to say whether that is to be tried. grew: the driver has
     * been asked, and took new memory, which was undone. Default: nothing. False: it does not
     * help.
     */
    bool (*follow_frees)(gpubudget_resource_t *self, const gpubudget_request_t *request,
                         uint64_t bytes, bool grew);
    /* Bytes that would come back if the host waited for the frees that are pending, at most.
     * Default: none. */
    uint64_t (*bytes_pending)(gpubudget_resource_t *self);

    bool (*budget_snapshot)(const gpubudget_resource_t *self, gpubudget_snapshot_t *snapshot);
    gpubudget_status_t (*reap_pending)(gpubudget_resource_t *self, gpubudget_error_t *error);

    bool (*supports_block_use_tracking)(const gpubudget_resource_t *self);
    gpubudget_status_t (*record_block_use)(gpubudget_resource_t *self,
                                           const gpubudget_block_t *block, CUstream stream,
                                           gpubudget_error_t *error);
    gpubudget_status_t (*prepare_block_use)(gpubudget_resource_t *self, gpubudget_block_id_t id,
                                            CUstream stream, gpubudget_access_t access,
                                            gpubudget_error_t *error);
    gpubudget_status_t (*finish_block_use)(gpubudget_resource_t *self, gpubudget_block_id_t id,
                                           CUstream stream, gpubudget_access_t access,
                                           gpubudget_error_t *error);
} gpubudget_resource_ops_t;

/* Implementations put this first in their own struct. */
struct gpubudget_resource {
    const gpubudget_resource_ops_t *ops;
};

/*
 * The one way to allocate. On success writes *block, which the caller gives back once with
 * gpubudget_deallocate. Fails with GPUBUDGET_OUT_OF_BUDGET, GPUBUDGET_DRIVER,
 * GPUBUDGET_OUT_OF_HOST_MEMORY or GPUBUDGET_INVALID_ARGUMENT; then nothing was taken. Stream
 * order: memory of kind STREAM_ORDERED may be used on request->stream at once, elsewhere after
 * that stream has reached this point; all other kinds at once everywhere.
 */
gpubudget_status_t gpubudget_materialize(gpubudget_resource_t *resource,
                                         gpubudget_request_t *request, gpubudget_block_t *block,
                                         gpubudget_error_t *error);

/*
 * Stream-ordered memory of `bytes` on stream, from the device's current pool. The same as
 * materialize with no reservation pressure.
 */
gpubudget_status_t gpubudget_allocate(gpubudget_resource_t *resource, size_t bytes,
                                      CUstream stream, uint64_t tag, gpubudget_block_t *block,
                                      gpubudget_error_t *error);

/*
 * As gpubudget_allocate, while the runtime has promised `pressure` more bytes that are not
 * materialised: they count at admission and in no tally.
 */
gpubudget_status_t gpubudget_allocate_with_reservation_pressure(gpubudget_resource_t *resource,
                                                                size_t bytes, uint64_t pressure,
                                                                CUstream stream, uint64_t tag,
                                                                gpubudget_block_t *block,
                                                                gpubudget_error_t *error);

/*
 * Consumes the block. release may be NULL: stream-ordered blocks are then freed on their
 * allocation stream, all others at once. A (pointer, generation) that names no live block is
 * GPUBUDGET_USE_AFTER_FREE and changes nothing; when the driver refuses (GPUBUDGET_DRIVER) the
 * block is live as before; GPUBUDGET_INVALID_ARGUMENT for a NULL, or for a context without a
 * release function. Bytes return to the ledger when the free is proven. Stream order: a free
 * on a stream comes behind the work that is already there, and only that work.
 */
gpubudget_status_t gpubudget_deallocate(gpubudget_resource_t *resource,
                                        const gpubudget_block_t *block,
                                        const gpubudget_release_t *release,
                                        gpubudget_error_t *error);

/*
 * The next four questions call no driver and cannot fail; resource must not be NULL.
 *
 * The terminal backend's ledger, the identical object at every layer.
 */
const gpubudget_accounting_t *
gpubudget_allocation_accounting(const gpubudget_resource_t *resource);

/*
 * In bytes: live ones plus retired ones that are not proven free. Under a budget and far from
 * its limit, stream-ordered memory in footprint mode may count with its upper bound until the
 * next reap_pending: above the truth, never below it.
 */
uint64_t gpubudget_bytes_outstanding(const gpubudget_resource_t *resource);

/* The one device this resource serves. */
int gpubudget_device_ordinal(const gpubudget_resource_t *resource);

/* True and *snapshot written when some layer is a budget: the outermost one answers. */
bool gpubudget_budget_snapshot(const gpubudget_resource_t *resource,
                               gpubudget_snapshot_t *snapshot);

/*
 * Settles what has completed; waits for nothing. Fails with GPUBUDGET_DRIVER or
 * GPUBUDGET_INVALID_ARGUMENT (NULL); never loses bytes on a failure and can be called again.
 */
gpubudget_status_t gpubudget_reap_pending(gpubudget_resource_t *resource,
                                          gpubudget_error_t *error);

/* Does anything in the stack track uses of blocks by streams? No driver call, no failure. */
bool gpubudget_supports_block_use_tracking(const gpubudget_resource_t *resource);

/*
 * Uses of a block by the work of streams: prepare before the work is given to the stream,
 * finish after it; record is finish with READ. The host waits in none of them.
 *
 * prepare: READ makes the stream wait for the block's last write, WRITE and READ_WRITE also for
 * every read since. What the same stream has done is not waited for. finish: a READ stands
 * beside the others; WRITE and READ_WRITE take the place of the last write and of all reads,
 * which prepare has waited for. The allocation of stream-ordered memory is its first write.
 * gpubudget_deallocate makes the stream of the free wait for all that was finished; a free of
 * stream-ordered memory that is not itself in stream order waits for it on the host.
 *
 * The stream is told apart as the driver does: the per-thread default stream of each thread,
 * the legacy one of each context, created ones by their handle. Uses by a stream that captures
 * are not tracked: GPUBUDGET_STREAM_MISUSE, as from a resource that tracks none. A (pointer,
 * generation) that names no live block is GPUBUDGET_USE_AFTER_FREE. Others: GPUBUDGET_DRIVER,
 * GPUBUDGET_OUT_OF_HOST_MEMORY, GPUBUDGET_INVALID_ARGUMENT (an access that is none of the
 * three, a NULL). After a failure the block is as before, and the call can be made again.
 */
gpubudget_status_t gpubudget_record_block_use(gpubudget_resource_t *resource,
                                              const gpubudget_block_t *block, CUstream stream,
                                              gpubudget_error_t *error);
gpubudget_status_t gpubudget_prepare_block_use(gpubudget_resource_t *resource,
                                               gpubudget_block_id_t id, CUstream stream,
                                               gpubudget_access_t access,
                                               gpubudget_error_t *error);
gpubudget_status_t gpubudget_finish_block_use(gpubudget_resource_t *resource,
                                              gpubudget_block_id_t id, CUstream stream,
                                              gpubudget_access_t access,
                                              gpubudget_error_t *error);

/*
 * Ends one layer. Decorators do not own what they wrap: destroy from the top down. No other
 * thread may be in the resource; live blocks stay the driver's and are forgotten.
 */
void gpubudget_resource_destroy(gpubudget_resource_t *resource);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
