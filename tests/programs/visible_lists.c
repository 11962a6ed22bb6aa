/*
 * visible_lists.c: what CUDA makes of CUDA_VISIBLE_DEVICES and CUDA_DEVICE_ORDER, on a machine
 * with one card that is not divided: the simulated one, or a real one. Each case is a line "ok"
 * or "not ok".
 */
#include "visible_cases.h"

#include <cuda.h>
#include <dlfcn.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

static CUresult (*init)(unsigned int flags);
static CUresult (*get_count)(int *count);
static CUresult (*get_uuid)(CUuuid *uuid, CUdevice device);

static void set(const char *name, const char *value)
{
    if (value)
        setenv(name, value, 1);
    else
        unsetenv(name);
}

/* In a process of its own: cuInit's answer, or 1000 and the count where that is not one. */
static int answer(const char *order, const char *list)
{
    pid_t child = fork();
    int pipe_status;

    if (child == 0) {
        int count = 0, code;

        set("CUDA_DEVICE_ORDER", order);
        set("CUDA_VISIBLE_DEVICES", list);
        code = (int)init(0);
        if (code == 0)
            code = (int)get_count(&count);
        _exit(code == 0 && count != 1 ? 250 : code);
    }
    if (child < 0 || waitpid(child, &pipe_status, 0) != child || !WIFEXITED(pipe_status))
        return -1;
    return WEXITSTATUS(pipe_status);
}

/* The card's UUID, by a child as well: this process must not begin CUDA. */
static int read_uuid(char text[64])
{
    unsigned char bytes[16];
    char *to = text;
    int ends[2];
    pid_t child;
    ssize_t size;

    if (pipe(ends) != 0)
        return 0;
    child = fork();
    if (child == 0) {
        CUuuid uuid;

        if (init(0) == 0 && get_uuid(&uuid, 0) == 0 &&
            write(ends[1], uuid.bytes, sizeof(uuid.bytes)) == sizeof(uuid.bytes))
            _exit(0);
        _exit(1);
    }
    close(ends[1]);
    size = read(ends[0], bytes, sizeof(bytes));
    close(ends[0]);
    if (child < 0 || waitpid(child, NULL, 0) != child || size != (ssize_t)sizeof(bytes))
        return 0;
    to += sprintf(to, "GPU-");
    for (int i = 0; i < 16; i++)
        to += sprintf(to, "%s%02x", i >= 4 && i <= 10 && i % 2 == 0 ? "-" : "", bytes[i]);
    return 1;
}

static void print_quoted(const char *text)
{
    putchar('"');
    for (; text && *text; text++)
        printf(*text == '\t' ? "\\t" : *text == '\n' ? "\\n" : "%c", *text);
    putchar('"');
}

static int check(const char *order, const char *list, int wanted)
{
    int code = answer(order, list);

    printf("%sok ", code == wanted ? "" : "not ");
    if (order)
        printf("CUDA_DEVICE_ORDER=%s ", order);
    if (list)
        print_quoted(list);
    else
        printf("not set");
    if (code != wanted)
        printf(code == 250 ? ": another number of devices" : ": answers %d, not %d", code,
               wanted);
    putchar('\n');
    return code == wanted;
}

int main(void)
{
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    static const struct {
        const char *order, *list;
        int code;
    } orders[] = {
        {"PCI_BUS_ID", NULL, SHOWN},    {"PCI_BUS_ID", "0", SHOWN},
        {"PCI_BUS_ID", "1", NO_DEVICE}, {"PCI_BUS_ID", "0,0", REFUSED},
        {"FASTEST_FIRST", "0", SHOWN},  {"FASTEST_FIRST", "1", NO_DEVICE},
        {"nonsense", NULL, REFUSED},    {"nonsense", "0", REFUSED},
        {"nonsense", "1", REFUSED},     {"", "0", REFUSED},
    };
    char uuid[64], text[256];
    int good = 1;

    setvbuf(stdout, NULL, _IOLBF, 0);
    if (library) {
        *(void **)&init = dlsym(library, "cuInit");
        *(void **)&get_count = dlsym(library, "cuDeviceGetCount");
        *(void **)&get_uuid = dlsym(library, "cuDeviceGetUuid");
    }
    unsetenv("CUDA_VISIBLE_DEVICES");
    unsetenv("CUDA_DEVICE_ORDER");
    if (!init || !get_count || !get_uuid || answer(NULL, NULL) != SHOWN || !read_uuid(uuid)) {
        printf("not ok everything: there is not just one card\n");
        return 1;
    }
    for (int i = 0; i < VISIBLE_CASES; i++)
        good &=
            check(NULL, visible_text(visible_cases[i].list, uuid, text), visible_cases[i].code);
    for (size_t i = 0; i < sizeof(orders) / sizeof(orders[0]); i++)
        good &= check(orders[i].order, orders[i].list, orders[i].code);
    return !good;
}
