/* Controls of the stand-in driver, for tests. Every function is exported by the stand-in's
 * libcuda.so.1 and meant to be found with dlsym; a program that finds standin_live_bytes runs
 * on the stand-in. All are thread safe, work before cuInit, and none of them counts as a driver
 * call. Devices are the ordinals that the program sees. Sizes are bytes. */
#ifndef STANDIN_H
#define STANDIN_H

#include <stddef.h>
#include <stdint.h>

/* The version that the names of the driver `versioned` have, for dlvsym. */
#define STANDIN_SYMBOL_VERSION "STANDIN_1"

#ifdef __cplusplus
extern "C" {
#endif

/* The ledger. live: all physical memory that this process holds on the card (contexts, direct
 * blocks with their rounding, pools, handles, arrays, modules, local memory, streams, what
 * limits stand for, graph memory, managed memory). */
uint64_t standin_live_bytes(int device);
uint64_t standin_peak_bytes(int device); /* high-water mark of live, also inside calls */
uint64_t standin_context_bytes(int device);
uint64_t standin_direct_bytes(int device);  /* regions and big blocks of cuMemAlloc and pitch */
uint64_t standin_process_bytes(int device); /* what NVML attributes to this process */
uint64_t standin_handle_bytes(int device);  /* cuMemCreate, whoever holds it */
/* Of handle_bytes, what only descriptors, imports or arrays hold; in no process's figure. */
uint64_t standin_orphaned_bytes(int device);
uint64_t standin_array_bytes(int device);  /* arrays and mipmapped ones, as rounded */
uint64_t standin_module_bytes(int device); /* variables and code of modules and libraries */
uint64_t standin_local_bytes(int device);  /* local memory beyond what a context begins with */
uint64_t standin_limit_bytes(int device);  /* device heap and what its callers need */
uint64_t standin_stream_bytes(int device);
uint64_t standin_green_bytes(int device); /* green contexts; their primary context is apart */
uint64_t standin_graph_bytes(int device);
uint64_t standin_managed_bytes(int device); /* on the card; 0 until touched */
/* Blocks of pools that are gone where they were exported, and that pools here have imported; in
 * no process's figure. */
uint64_t standin_shared_bytes(int device);
uint64_t standin_pool_reserved(int device);    /* all device pools together */
uint64_t standin_pool_used(int device);        /* live blocks of these pools */
uint64_t standin_pending_bytes(int device);    /* freed by the program, free not yet reached */
uint64_t standin_real_live_blocks(int device); /* blocks of any kind not yet freed */
uint64_t standin_total_bytes(int device);
uint64_t standin_free_bytes(int device); /* what the card has left */
void standin_reset_peak(int device);     /* the mark falls to the present */

/* How much "other processes" hold; may be more than is free (then nothing is). */
void standin_set_other(int device, uint64_t bytes);

/* Faults. `name` is the exported name (cuMemAlloc_v2, cuMemAllocAsync_ptsz, ...) or ends in '*'
 * to stand for all that begin so. The nth call from now (1: the next one) fails with `code`
 * without doing anything; 0: every call. The failing call still counts. */
void standin_fail(const char *name, unsigned long nth, int code);
/* Every simulated call fails with `code` with probability 1/one_in (0: off), but for those
 * named in GPUSTANDIN_SURE ("cuInit,cuMemFree*"). The sequence follows from the seed. */
void standin_fail_random(unsigned long seed, unsigned long one_in);
void standin_fail_random_code(int code);           /* default 2, out of memory */
void standin_fail_random_names(const char *names); /* only these (NULL: all), comma-separated */
void standin_fail_clear(void);
void standin_delay(const char *name, unsigned long microseconds); /* before the call's work */

/* In the nth call from now (0: in every one) other processes take so many bytes of each card,
 * or give them back; ends with standin_fail_clear. */
void standin_neighbour(const char *name, unsigned long nth, long long bytes);

/* Calls of that exported name so far, failing ones included; "x*" sums. */
unsigned long standin_calls(const char *name);
void standin_reset_counts(void);

/* The arguments of the last call: each parameter widened to 8 bytes, then the structs that they
 * point to, byte for byte. Returns the number of bytes there are (0: never called) and copies
 * at most size of them. */
size_t standin_last_args(const char *name, void *buffer, size_t size);

/* Streams. A held stream takes work but runs none, until released; run lets n pieces of work
 * run. `stream` is a CUstream; 0, 1 and 2 mean those of the caller's current context. */
int standin_hold(void *stream);
int standin_release(void *stream);
int standin_run(void *stream, unsigned long n);
unsigned long standin_queued(void *stream); /* pieces of work waiting */

/* Fabric handles can be made; at first they cannot, as on a host with no service for them. */
void standin_set_fabric(int now);

/* The code of each function loaded from now on (0: it takes nothing). */
void standin_set_code_bytes(uint64_t bytes);

/* NVML lists the process, with a figure of 0, as it may after a checkpoint. */
void standin_set_nvml_zero(int now);

/* For the NVML of the same process. */
struct standin_view {
    unsigned size; /* of this struct, set by the caller */
    int cards;     /* physical cards, not only the visible ones */
    struct standin_view_card {
        uint64_t process_bytes; /* what NVML attributes to this process */
        uint64_t live_bytes;
        uint64_t other_bytes;
        int has_context;
        int instance; /* the MIG instance that all of this is of, from 1 on; 0: the card */
    } card[16];
};
int standin_nvml_view(struct standin_view *view); /* 0: filled */

#ifdef __cplusplus
}
#endif
#endif
