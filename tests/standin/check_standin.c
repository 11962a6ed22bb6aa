#include "check_standin.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

const char *check_folder, *check_source;

static const struct {
    const char *name;
    void (*run)(void);
} cases[] = {
    {"names", check_names},
    {"copies", check_copies},
    {"fork_before", check_fork_before},
    {"fork_after", check_fork_after},
    {"faults", check_faults},
    {"arguments", check_arguments},
    {"hold", check_hold},
    {"events", check_events},
    {"legacy", check_legacy},
    {"host_function", check_host_function},
    {"threads", check_threads},
    {"waits", check_waits},
    {"devices", check_devices},
    {"order_fastest_first", check_order_fastest_first},
    {"order_fastest_visible", check_order_fastest_visible},
    {"order_by_bus", check_order_by_bus},
    {"full_card", check_full_card},
    {"pool_order", check_pool_order},
    {"letting_go", check_letting_go},
    {"packing", check_packing},
    {"capture", check_capture},
    {"graph", check_graph},
    {"contexts", check_contexts},
    {"nvml", check_nvml},
    {"arrays", check_arrays},
    {"array_codes", check_array_codes},
    {"mipmaps", check_mipmaps},
    {"sparse", check_sparse},
    {"sparse_mipmaps", check_sparse_mipmaps},
    {"handles", check_handles},
    {"handle_share", check_handle_share},
    {"handle_import", check_handle_import},
    {"multicast", check_multicast},
    {"handle_random", check_handle_random},
    {"local", check_local},
    {"launches", check_launches},
    {"limits", check_limits},
    {"stream_memory", check_stream_memory},
    {"green", check_green},
    {"module_loads", check_module_loads},
    {"libraries", check_libraries},
    {"parameters", check_parameters},
    {"copies_in_order", check_copies_in_order},
    {"graph_kernels", check_graph_kernels},
    {"graph_nodes", check_graph_nodes},
    {"graph_memory", check_graph_memory},
    {"code_random", check_code_random},
    {"random", check_random},
    {"race", check_race},
};

void check_fail(const char *file, int line, const char *text, long long have, long long want)
{
    fprintf(stderr, "%s:%d: %s: have %lld, want %lld\n", file, line, text, have, want);
    exit(1);
}

CUcontext check_begin(void)
{
    CUcontext context = NULL;
    OK(cuInit(0));
    OK(cuDevicePrimaryCtxRetain(&context, 0));
    OK(cuCtxSetCurrent(context));
    return context;
}

CUstream check_stream(void)
{
    CUstream stream = NULL;
    OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    return stream;
}

/* check_standin BUILD-FOLDER SOURCE-FOLDER [CASE...] */
int main(int argc, char **argv)
{
    int failed = 0;
    if (argc < 3)
        return 125;
    check_folder = argv[1];
    check_source = argv[2];
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        bool wanted = argc == 3;
        int status = 1;
        pid_t child;
        for (int a = 3; a < argc; a++)
            wanted = wanted || strcmp(argv[a], cases[i].name) == 0;
        if (!wanted)
            continue;
        fflush(stdout);
        child = fork();
        if (child == 0) {
            alarm(60);
            cases[i].run();
            exit(0);
        }
        waitpid(child, &status, 0);
        if (WIFEXITED(status) && WEXITSTATUS(status) == 0) {
            printf("ok standin_%s\n", cases[i].name);
        } else {
            printf("not ok standin_%s: %s %d\n", cases[i].name,
                   WIFSIGNALED(status) ? "signal" : "status",
                   WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
            failed = 1;
        }
    }
    return failed;
}
