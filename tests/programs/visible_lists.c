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

enum { OTHER_COUNT = 250, AT_ONCE = 8 };

struct question {
    const char *order, *list; /* NULL: not set */
    int wanted;
};

/* In a process of its own, which ends with cuInit's answer, or OTHER_COUNT. */
static pid_t ask(const struct question *question)
{
    pid_t child = fork();
    int count = 0, code;

    if (child != 0)
        return child;
    set("CUDA_DEVICE_ORDER", question->order);
    set("CUDA_VISIBLE_DEVICES", question->list);
    code = (int)init(0);
    if (code == 0)
        code = (int)get_count(&count);
    _exit(code == 0 && count != 1 ? OTHER_COUNT : code);
}

static int answer_of(pid_t child)
{
    int status;

    return child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status)
               ? WEXITSTATUS(status)
               : -1;
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

static int judge(const struct question *question, int code)
{
    printf("%sok ", code == question->wanted ? "" : "not ");
    if (question->order)
        printf("CUDA_DEVICE_ORDER=%s ", question->order);
    if (question->list)
        print_quoted(question->list);
    else
        printf("not set");
    if (code == OTHER_COUNT)
        printf(": another number of devices");
    else if (code != question->wanted)
        printf(": answers %d, not %d", code, question->wanted);
    putchar('\n');
    return code == question->wanted;
}

/* A real driver takes its time to start. */
static int ask_all(const struct question *questions, int count)
{
    int good = 1;

    for (int i = 0; i < count; i += AT_ONCE) {
        int end = i + AT_ONCE < count ? i + AT_ONCE : count;
        pid_t children[AT_ONCE];

        for (int k = i; k < end; k++)
            children[k - i] = ask(&questions[k]);
        for (int k = i; k < end; k++)
            good &= judge(&questions[k], answer_of(children[k - i]));
    }
    return good;
}

int main(void)
{
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    static const struct question orders[] = {
        {"PCI_BUS_ID", NULL, SHOWN},    {"PCI_BUS_ID", "0", SHOWN},
        {"PCI_BUS_ID", "1", NO_DEVICE}, {"PCI_BUS_ID", "0,0", REFUSED},
        {"FASTEST_FIRST", "0", SHOWN},  {"FASTEST_FIRST", "1", NO_DEVICE},
        {"nonsense", NULL, REFUSED},    {"nonsense", "0", REFUSED},
        {"nonsense", "1", REFUSED},     {"", "0", REFUSED},
    };
    static const struct question usual = {NULL, NULL, SHOWN};
    static struct question lists[VISIBLE_CASES];
    static char texts[VISIBLE_CASES][256];
    char uuid[64];
    int good;

    setvbuf(stdout, NULL, _IOLBF, 0);
    if (library) {
        *(void **)&init = dlsym(library, "cuInit");
        *(void **)&get_count = dlsym(library, "cuDeviceGetCount");
        *(void **)&get_uuid = dlsym(library, "cuDeviceGetUuid");
    }
    unsetenv("CUDA_VISIBLE_DEVICES");
    unsetenv("CUDA_DEVICE_ORDER");
    if (!init || !get_count || !get_uuid || answer_of(ask(&usual)) != SHOWN ||
        !read_uuid(uuid)) {
        printf("not ok everything: there is not just one card\n");
        return 1;
    }
    for (int i = 0; i < VISIBLE_CASES; i++)
        lists[i] = (struct question){NULL, visible_text(visible_cases[i].list, uuid, texts[i]),
                                     visible_cases[i].code};
    good = ask_all(lists, VISIBLE_CASES);
    good &= ask_all(orders, sizeof(orders) / sizeof(orders[0]));
    return !good;
}
