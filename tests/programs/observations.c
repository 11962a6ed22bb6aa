/* Prints how the driver behaves, one "kind.NAME = VALUE" line per observation, in a fixed
 * order: on a real GPU the truth, on the stand-in what must be equal to it
 * (tests/standin/profiles/). Takes at most 6 GiB of device memory and a minute. With names of
 * parts as arguments it runs only those; with --list it names the parts. Calls that a driver
 * crashed or hung in are not asked again; where one was, a comment says so. */
#include "observations.h"

#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static const struct {
    const char *name;
    void (*run)(void);
} parts[] = {
    {"before_init", observe_before_init},
    {"no_context", observe_no_context},
    {"lookups", observe_lookups},
    {"contexts", observe_contexts},
    {"context_end", observe_context_end},
    {"primary_life", observe_primary_life},
    {"direct_sizes", observe_direct_sizes},
    {"direct_codes", observe_direct_codes},
    {"first_forms", observe_first_forms},
    {"managed", observe_managed},
    {"pool_growth", observe_pool_growth},
    {"pool_order", observe_pool_order},
    {"pool_pending", observe_pool_pending},
    {"pool_neighbours", observe_pool_neighbours},
    {"pool_tail", observe_pool_tail},
    {"pool_limits", observe_pool_limits},
    {"pool_end", observe_pool_end},
    {"pool_export", observe_pool_export},
    {"families", observe_families},
    {"pending_by_sync_free", observe_pending_by_sync_free},
    {"stream_end", observe_stream_end},
    {"capture_global", observe_capture_global},
    {"capture_other", observe_capture_other},
    {"graph_memory", observe_graph_memory},
    {"module", observe_module},
    {"handles", observe_handles},
    {"array_sizes", observe_array_sizes},
    {"mipmaps", observe_mipmaps},
    {"array_codes", observe_array_codes},
    {"array_end", observe_array_end},
    {"sparse", observe_sparse},
    {"sparse_bound", observe_sparse_bound},
    {"sparse_context", observe_sparse_context},
    {"deferred", observe_deferred},
    {"handle_places", observe_handle_places},
    {"handle_references", observe_handle_references},
    {"handle_share", observe_handle_share},
    {"multicast", observe_multicast},
    {"local", observe_local},
    {"local_graph", observe_local_graph},
    {"launch", observe_launch},
    {"stack", observe_stack},
    {"limits", observe_limits},
    {"calls_malloc", observe_calls_malloc},
    {"calls_printf", observe_calls_printf},
    {"calls_stack", observe_calls_stack},
    {"streams", observe_streams},
    {"green", observe_green},
    {"module_life", observe_module_life},
    {"library", observe_library},
    {"library_module", observe_library_module},
    {"graph_forms", observe_graph_forms},
    {"graph_child", observe_graph_child},
    {"graph_conditional", observe_graph_conditional},
    {"conditional_kernel", observe_conditional_kernel},
    {"conditional_child", observe_conditional_child},
    {"stream_context", observe_stream_context},
    {"stack_graph", observe_stack_graph},
    {"kernel_node", observe_kernel_node},
    {"graph_nodes", observe_graph_nodes},
    {"ended_handles", observe_ended_handles},
    {"times", observe_times},
};

static void line(const char *kind, const char *format, va_list args, const char *value)
{
    printf("%s.", kind);
    vprintf(format, args);
    printf(" = %s\n", value);
    fflush(stdout);
}

#define LINE(kind, ...)                                                                        \
    do {                                                                                       \
        char value_[32];                                                                       \
        va_list args_;                                                                         \
        snprintf(value_, sizeof(value_), __VA_ARGS__);                                         \
        va_start(args_, name);                                                                 \
        line(kind, name, args_, value_);                                                       \
        va_end(args_);                                                                         \
    } while (0)

void observe_code(int code, const char *name, ...)
{
    LINE("code", "%d", code);
}

void observe_size(uint64_t bytes, const char *name, ...)
{
    LINE("size", "%lld", (long long)bytes);
}

void observe_fact(long long value, const char *name, ...)
{
    LINE("fact", "%lld", value);
}

void observe_time(double ns, const char *name)
{
    printf("time.%s = %.0f ns\n", name, ns);
    fflush(stdout);
}

void *observe_symbol(const char *name)
{
    static void *driver;
    if (!driver)
        driver = dlopen("libcuda.so.1", RTLD_NOW);
    return driver ? dlsym(driver, name) : NULL;
}

CUresult observe_context_create(CUcontext *context, unsigned flags, CUdevice device)
{
    CUresult (*create)(CUcontext *, unsigned, CUdevice) =
        (CUresult(*)(CUcontext *, unsigned, CUdevice))observe_symbol("cuCtxCreate_v2");
    return create ? create(context, flags, device) : CUDA_ERROR_NOT_FOUND;
}

CUcontext observe_primary(void)
{
    CUcontext context = NULL;
    CUresult code = cuInit(0);
    if (!code)
        code = cuDevicePrimaryCtxRetain(&context, 0);
    if (!code)
        code = cuCtxSetCurrent(context);
    if (code) {
        observe_code(code, "begin");
        exit(1);
    }
    return context;
}

void observe_begin(void)
{
    observe_primary();
}

CUstream observe_stream(void)
{
    CUstream stream = NULL;
    CUresult code = cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING);
    if (code) {
        observe_code(code, "stream_create");
        exit(1);
    }
    return stream;
}

/* ---- NVML, which has no header here ---- */

struct process {
    unsigned pid;
    unsigned long long bytes;
    unsigned gpu_instance, compute_instance;
};

static int (*nvml_processes)(void *, unsigned *, struct process *);
static void *nvml_device;

static bool nvml_begin(void)
{
    static bool tried;
    void *library;
    int (*init)(void);
    int (*by_uuid)(const char *, void **);
    CUuuid uuid;
    char text[64];
    const unsigned char *u = (const unsigned char *)uuid.bytes;
    if (tried)
        return nvml_device != NULL;
    tried = true;
    library = dlopen("libnvidia-ml.so.1", RTLD_NOW);
    if (!library)
        return false;
    init = (int (*)(void))dlsym(library, "nvmlInit_v2");
    by_uuid = (int (*)(const char *, void **))dlsym(library, "nvmlDeviceGetHandleByUUID");
    nvml_processes = (int (*)(void *, unsigned *, struct process *))dlsym(
        library, "nvmlDeviceGetComputeRunningProcesses_v3");
    if (!init || !by_uuid || !nvml_processes || init() != 0 || cuDeviceGetUuid(&uuid, 0) != 0)
        return false;
    snprintf(text, sizeof(text),
             "GPU-%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x", u[0],
             u[1], u[2], u[3], u[4], u[5], u[6], u[7], u[8], u[9], u[10], u[11], u[12], u[13],
             u[14], u[15]);
    return by_uuid(text, &nvml_device) == 0;
}

bool observe_has_nvml(void)
{
    return nvml_begin();
}

uint64_t observe_process_bytes(void)
{
    static struct process found[512];
    unsigned count = 512;
    if (!nvml_begin() || nvml_processes(nvml_device, &count, found) != 0)
        return 0;
    for (unsigned i = 0; i < count; i++)
        if (found[i].pid == (unsigned)getpid())
            return found[i].bytes;
    /* In a namespace of process ids the ids may be foreign; a single entry is ours. */
    return count == 1 ? found[0].bytes : 0;
}

uint64_t observe_card_bytes(void)
{
    size_t left = 0, total = 0;
    cuMemGetInfo(&left, &total);
    return total - left;
}

/* ---- holding a stream ---- */

static _Atomic uint32_t *gate;
static CUdeviceptr gate_address;
static atomic_int armed, blocked;

static void *watch(void *unused)
{
    (void)unused;
    for (int ticks = 0;; ticks++) {
        usleep(20 * 1000);
        if (!armed)
            ticks = 0;
        else if (ticks >= 100) {
            blocked = 1;
            armed = 0;
            *gate = 1;
        }
    }
    return NULL;
}

CUresult observe_hold(CUstream stream)
{
    CUresult (*wait_value)(CUstream, CUdeviceptr, cuuint32_t, unsigned) = (CUresult(*)(
        CUstream, CUdeviceptr, cuuint32_t, unsigned))observe_symbol("cuStreamWaitValue32_v2");
    if (!wait_value)
        wait_value = (CUresult(*)(CUstream, CUdeviceptr, cuuint32_t, unsigned))observe_symbol(
            "cuStreamWaitValue32");
    if (!gate) {
        /* Of the primary context, whichever is current: what a context has goes with it, and a
         * part may end the one whose stream it holds. */
        pthread_t thread;
        void *memory = NULL;
        CUcontext context = NULL;
        CUresult code = cuDevicePrimaryCtxRetain(&context, 0);
        if (!code)
            code = cuCtxPushCurrent(context);
        if (code)
            return code;
        code =
            cuMemHostAlloc(&memory, 4096, CU_MEMHOSTALLOC_DEVICEMAP | CU_MEMHOSTALLOC_PORTABLE);
        if (!code)
            code = cuMemHostGetDevicePointer(&gate_address, memory, 0);
        cuCtxPopCurrent(&context);
        if (code)
            return code;
        gate = memory;
        pthread_create(&thread, NULL, watch, NULL);
        pthread_detach(thread);
    }
    *gate = 0;
    blocked = 0;
    armed = 1;
    return wait_value ? wait_value(stream, gate_address, 1, CU_STREAM_WAIT_VALUE_GEQ)
                      : CUDA_ERROR_NOT_FOUND;
}

void observe_let_go(void)
{
    armed = 0;
    if (gate)
        *gate = 1;
}

bool observe_was_blocked(void)
{
    return blocked;
}

uint64_t observe_reserved(CUmemoryPool pool)
{
    cuuint64_t value = 0;
    cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, &value);
    return value;
}

uint64_t observe_used(CUmemoryPool pool)
{
    cuuint64_t value = 0;
    cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &value);
    return value;
}

CUmemoryPool observe_pool(size_t max_size, uint64_t threshold)
{
    CUmemoryPool pool = NULL;
    CUmemPoolProps props;
    cuuint64_t value = threshold;
    memset(&props, 0, sizeof(props));
    props.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    props.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    props.maxSize = max_size;
    if (cuMemPoolCreate(&pool, &props) == CUDA_SUCCESS)
        cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &value);
    return pool;
}

/* ---- the parts ---- */

static void run_part(size_t i)
{
    int status = 0;
    pid_t child;
    fflush(stdout);
    child = fork();
    if (child == 0) {
        alarm(120);
        parts[i].run();
        fflush(stdout);
        _exit(0);
    }
    if (child < 0 || waitpid(child, &status, 0) != child)
        printf("fact.%s.ran = 0\n", parts[i].name);
    else if (WIFSIGNALED(status))
        printf("fact.%s.signal = %d\n", parts[i].name, WTERMSIG(status));
    else if (WEXITSTATUS(status))
        printf("fact.%s.status = %d\n", parts[i].name, WEXITSTATUS(status));
    fflush(stdout);
}

int main(int argc, char **argv)
{
    const size_t count = sizeof(parts) / sizeof(parts[0]);
    if (argc > 1 && strcmp(argv[1], "--list") == 0) {
        for (size_t i = 0; i < count; i++)
            puts(parts[i].name);
        return 0;
    }
    for (size_t i = 0; i < count; i++) {
        bool wanted = argc == 1;
        for (int a = 1; a < argc; a++)
            wanted = wanted || strcmp(argv[a], parts[i].name) == 0;
        if (wanted)
            run_part(i);
    }
    return 0;
}
