/*
 * route_program.c: does what its arguments say, in order, and reports look-ups.
 *
 *     open=FILE        dlopen FILE with RTLD_LOCAL; the handle `late` of later reports
 *     global=FILE      the same with RTLD_GLOBAL
 *     report=WHO       look-ups of this program
 *     plugin=FILE      dlopen FILE with RTLD_LOCAL and call its route_plugin_report
 *     plugin-global=FILE  the same with RTLD_GLOBAL
 *     plugin-deep=FILE    the same with RTLD_DEEPBIND, which no preload can reach
 *     start            call cuInit of the last opened FILE, and its route_driver_report
 *     quiet            how often the driver has been called so far, and whether NVML is here
 *     preloaded        call route_preloaded_report, which a preloaded library defines
 *     wrapped          call functions that preloaded libraries wrap
 *
 * Built twice: route_program, which knows no driver, and route_linked, linked with -lcuda.
 */
#define _GNU_SOURCE
#include "route_report.h"

#include <stdlib.h>
#include <time.h>

static void *open_or_die(const char *file, int mode)
{
    void *handle = dlopen(file, mode);

    if (handle == NULL) {
        fprintf(stderr, "route_program: %s\n", dlerror());
        exit(1);
    }
    return handle;
}

typedef void report_fn(void *late);

static void call_report(void *handle, const char *name, void *late)
{
    report_fn *report = (report_fn *)dlsym(handle, name);

    if (report == NULL) {
        fprintf(stderr, "route_program: no %s\n", name);
        exit(1);
    }
    report(late);
}

static void call_wrapped(void)
{
    time_t zero = 0;
    struct tm out;

    printf("localtime_r %s\n", localtime_r(&zero, &out) == &out ? "right" : "wrong");
}

static void start_driver(void *driver)
{
    int (*init)(unsigned int) = (__typeof__(init))dlsym(driver, "cuInit");
    void (*report)(void) = (__typeof__(report))dlsym(driver, "route_driver_report");

    printf("cuInit %d\n", init == NULL ? -1 : init(0));
    if (report != NULL)
        report();
}

/* Nobody calls the driver before the program does, nor brings NVML. */
static void tell_quiet(void *driver)
{
    unsigned long (*calls)(const char *) = (__typeof__(calls))dlsym(driver, "standin_calls");

    printf("driver calls %lu, NVML %s\n", calls == NULL ? 0 : calls("cu*"),
           dlopen("libnvidia-ml.so.1", RTLD_LAZY | RTLD_NOLOAD) == NULL ? "absent" : "loaded");
}

/* The text behind "word=", or NULL. */
static const char *value_of(const char *argument, const char *word)
{
    const size_t length = strlen(word);

    return strncmp(argument, word, length) == 0 && argument[length] == '='
               ? argument + length + 1
               : NULL;
}

int main(int argc, char **argv)
{
    void *late = NULL;

    setvbuf(stdout, NULL, _IOFBF, 1 << 16);
    for (int i = 1; i < argc; i++) {
        const char *value;

        if ((value = value_of(argv[i], "open")) != NULL) {
            late = open_or_die(value, RTLD_LAZY | RTLD_LOCAL);
        } else if ((value = value_of(argv[i], "global")) != NULL) {
            late = open_or_die(value, RTLD_LAZY | RTLD_GLOBAL);
        } else if ((value = value_of(argv[i], "report")) != NULL) {
            route_report(value, late);
        } else if ((value = value_of(argv[i], "plugin")) != NULL) {
            call_report(open_or_die(value, RTLD_LAZY | RTLD_LOCAL), "route_plugin_report",
                        late);
        } else if ((value = value_of(argv[i], "plugin-global")) != NULL) {
            call_report(open_or_die(value, RTLD_LAZY | RTLD_GLOBAL), "route_plugin_report",
                        late);
        } else if ((value = value_of(argv[i], "plugin-deep")) != NULL) {
            call_report(open_or_die(value, RTLD_LAZY | RTLD_DEEPBIND), "route_plugin_report",
                        late);
        } else if (strcmp(argv[i], "start") == 0) {
            start_driver(late);
        } else if (strcmp(argv[i], "quiet") == 0) {
            tell_quiet(late);
        } else if (strcmp(argv[i], "preloaded") == 0) {
            call_report(RTLD_DEFAULT, "route_preloaded_report", late);
        } else if (strcmp(argv[i], "wrapped") == 0) {
            call_wrapped();
        } else {
            fprintf(stderr, "route_program: what is %s?\n", argv[i]);
            return 2;
        }
    }
    return 0;
}
