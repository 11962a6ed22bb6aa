/* Shared by the parts of the observations program. A part runs in a process of its own, so that
 * one that ends badly does not hide the others. */
#ifndef OBSERVATIONS_H
#define OBSERVATIONS_H

/* cuCtxDetach is asked, too. */
#define CUDA_ENABLE_DEPRECATED
#include <cuda.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define KIB ((size_t)1024)
#define MIB (KIB * 1024)
#define GIB (MIB * 1024)

/* One line each, "code.NAME = N" and so on; NAME may be a format. */
void observe_code(int code, const char *name, ...) __attribute__((format(printf, 2, 3)));
void observe_size(uint64_t bytes, const char *name, ...) __attribute__((format(printf, 2, 3)));
/* A yes, a count or another value that must be equal on every card. */
void observe_fact(long long value, const char *name, ...) __attribute__((format(printf, 2, 3)));
void observe_time(double ns, const char *name);

/* A context for this process, current; the part ends where there is none. */
void observe_begin(void);
CUcontext observe_primary(void);
CUstream observe_stream(void); /* a new one, non-blocking */
CUresult observe_context_create(CUcontext *context, unsigned flags, CUdevice device);
void *observe_symbol(const char *name);

/* What NVML attributes to this process on device 0, and what the card has lost in all. */
uint64_t observe_process_bytes(void);
uint64_t observe_card_bytes(void);
bool observe_has_nvml(void);

/* Holds a stream behind a value in host memory. A watchdog lets it go after two seconds, so
 * that a call which waits for the stream shows as blocked instead of hanging. */
CUresult observe_hold(CUstream stream);
void observe_let_go(void);
bool observe_was_blocked(void); /* since the last hold the watchdog had to act */

uint64_t observe_reserved(CUmemoryPool pool);
uint64_t observe_used(CUmemoryPool pool);
CUmemoryPool observe_pool(size_t max_size, uint64_t threshold);

void observe_before_init(void);
void observe_no_context(void);
void observe_lookups(void);
void observe_contexts(void);
void observe_context_end(void);
void observe_ended_handles(void);
void observe_primary_life(void);
void observe_direct_sizes(void);
void observe_direct_codes(void);
void observe_first_forms(void);
void observe_managed(void);
void observe_pool_growth(void);
void observe_pool_order(void);
void observe_pool_pending(void);
void observe_pool_neighbours(void);
void observe_pool_tail(void);
void observe_pool_limits(void);
void observe_pool_end(void);
void observe_pool_export(void);
void observe_families(void);
void observe_pending_by_sync_free(void);
void observe_stream_end(void);
void observe_capture_global(void);
void observe_capture_other(void);
void observe_graph_memory(void);
void observe_module(void);
void observe_handles(void);
void observe_array_sizes(void);
void observe_mipmaps(void);
void observe_array_codes(void);
void observe_array_end(void);
void observe_sparse(void);
void observe_sparse_bound(void);
void observe_sparse_context(void);
void observe_deferred(void);
void observe_handle_places(void);
void observe_handle_references(void);
void observe_handle_share(void);
void observe_multicast(void);
void observe_local(void);
void observe_local_graph(void);
void observe_launch(void);
void observe_stack(void);
void observe_calls_malloc(void);
void observe_calls_printf(void);
void observe_calls_stack(void);
void observe_limits(void);
void observe_streams(void);
void observe_green(void);
void observe_module_life(void);
void observe_library(void);
void observe_library_module(void);
void observe_graph_forms(void);
void observe_graph_child(void);
void observe_graph_conditional(void);
void observe_conditional_kernel(void);
void observe_conditional_child(void);
void observe_stream_context(void);
void observe_stack_graph(void);
void observe_kernel_node(void);
void observe_graph_nodes(void);
void observe_times(void);

#endif
