/* The stand-in's own tests: a program of named cases, each in a process of its own. */
#ifndef CHECK_STANDIN_H
#define CHECK_STANDIN_H

#include <cuda.h>
#include <stdbool.h>
#include <stdint.h>

#include "standin.h"

#define MIB ((size_t)1 << 20)
#define GIB ((size_t)1 << 30)

/* Prints what was expected and ends the case. */
void check_fail(const char *file, int line, const char *text, long long have, long long want);
#define CHECK(condition)                                                                       \
    do {                                                                                       \
        if (!(condition))                                                                      \
            check_fail(__FILE__, __LINE__, #condition, 0, 1);                                  \
    } while (0)
#define EQUAL(have, want)                                                                      \
    do {                                                                                       \
        long long have_ = (long long)(have), want_ = (long long)(want);                        \
        if (have_ != want_)                                                                    \
            check_fail(__FILE__, __LINE__, #have " = " #want, have_, want_);                   \
    } while (0)
#define OK(call) EQUAL(call, CUDA_SUCCESS)

CUcontext check_begin(void);     /* cuInit, the primary context, current */
CUstream check_stream(void);     /* non-blocking */
extern const char *check_folder; /* tests/standin of the build tree */
extern const char *check_source; /* tests/standin of the source tree */

void check_names(void);
void check_copies(void);
void check_fork_before(void);
void check_fork_after(void);
void check_faults(void);
void check_arguments(void);
void check_hold(void);
void check_events(void);
void check_legacy(void);
void check_host_function(void);
void check_threads(void);
void check_waits(void);
void check_devices(void);
void check_order_fastest_first(void);
void check_order_fastest_visible(void);
void check_order_by_bus(void);
void check_full_card(void);
void check_pool_order(void);
void check_letting_go(void);
void check_packing(void);
void check_capture(void);
void check_graph(void);
void check_contexts(void);
void check_nvml(void);
void check_arrays(void);
void check_array_codes(void);
void check_mipmaps(void);
void check_sparse(void);
void check_sparse_mipmaps(void);
void check_handles(void);
void check_handle_share(void);
void check_handle_import(void);
void check_multicast(void);
void check_handle_random(void);
void check_local(void);
void check_launches(void);
void check_limits(void);
void check_stream_memory(void);
void check_green(void);
void check_module_loads(void);
void check_libraries(void);
void check_parameters(void);
void check_copies_in_order(void);
void check_graph_kernels(void);
void check_graph_nodes(void);
void check_graph_memory(void);
void check_code_random(void);
void check_random(void);
void check_race(void);

#endif
