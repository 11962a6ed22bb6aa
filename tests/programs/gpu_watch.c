/*
 * gpu_watch.c: what the driver's own tools show, seen from another process.
 *
 *   gpu_watch PCI-BUS-ID [PID]
 *
 * Prints "card BYTES" (all that is used on the card) and, for each process that NVML lists
 * there, "process PID BYTES". With PID only that one's line. NVML is opened by hand: its header
 * need not be there.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PROCESSES 256

struct memory {
    unsigned long long total, free, used;
};

/* nvmlProcessInfo_t of the _v3 call. */
struct process {
    unsigned int pid;
    unsigned long long bytes;
    unsigned int gpu_instance, compute_instance;
};

typedef int init_function(void);
typedef int handle_function(const char *bus, void **device);
typedef int memory_function(void *device, struct memory *memory);
typedef int processes_function(void *device, unsigned int *count, struct process *processes);

static void *find(void *library, const char *name)
{
    void *function = dlsym(library, name);
    if (function == NULL) {
        fprintf(stderr, "gpu_watch: %s\n", dlerror());
        exit(1);
    }
    return function;
}

static int complain(const char *what, int code)
{
    fprintf(stderr, "gpu_watch: %s: NVML error %d\n", what, code);
    return 1;
}

int main(int argc, char **argv)
{
    static struct process processes[PROCESSES];
    struct memory memory;
    void *device;
    unsigned int count = PROCESSES;
    int code;

    if (argc < 2 || argc > 3) {
        fprintf(stderr, "Usage: gpu_watch PCI-BUS-ID [PID]\n");
        return 2;
    }
    void *library = dlopen("libnvidia-ml.so.1", RTLD_NOW);
    if (library == NULL) {
        fprintf(stderr, "gpu_watch: %s\n", dlerror());
        return 1;
    }
    code = ((init_function *)find(library, "nvmlInit_v2"))();
    if (code != 0)
        return complain("nvmlInit", code);
    code = ((handle_function *)find(library, "nvmlDeviceGetHandleByPciBusId_v2"))(argv[1],
                                                                                  &device);
    if (code != 0)
        return complain(argv[1], code);
    code = ((memory_function *)find(library, "nvmlDeviceGetMemoryInfo"))(device, &memory);
    if (code != 0)
        return complain("nvmlDeviceGetMemoryInfo", code);
    printf("card %llu\n", memory.used);
    code = ((processes_function *)find(library, "nvmlDeviceGetComputeRunningProcesses_v3"))(
        device, &count, processes);
    if (code != 0)
        return complain("nvmlDeviceGetComputeRunningProcesses", code);
    for (unsigned int i = 0; i < count && i < PROCESSES; i++)
        if (argc < 3 || strtoul(argv[2], NULL, 10) == processes[i].pid)
            printf("process %u %llu\n", processes[i].pid, processes[i].bytes);
    return 0;
}
