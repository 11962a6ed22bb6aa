/*
 * route_environ.c: what programs do to their environment and arguments.
 *
 * Saves environ, clears it, sets everything again from the saved array and writes over the
 * memory behind argv, as programs that change their title do.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    char **saved = environ;
    char **copy;
    size_t count = 0;

    (void)argc;
    while (saved[count] != NULL)
        count++;
    copy = calloc(count + 1, sizeof(*copy));
    if (copy == NULL)
        return 2;
    for (size_t i = 0; i < count; i++) {
        copy[i] = strdup(saved[i]);
        if (copy[i] == NULL)
            return 2;
    }
    clearenv();
    for (size_t i = 0; i < count; i++) {
        char *equals = strchr(copy[i], '=');

        if (equals == NULL)
            continue;
        *equals = '\0';
        if (setenv(copy[i], equals + 1, 1) != 0)
            return 1;
    }
    for (size_t i = 0; i < count; i++) {
        memset(saved[i], 'x', strlen(saved[i]));
        free(copy[i]);
    }
    free(copy);
    memset(argv[0], 'x', strlen(argv[0]));
    /* Look-ups still work, and settings are what they were at the start. */
    if (dlsym(RTLD_DEFAULT, "cuMemAlloc_v9") != NULL || dlerror() == NULL)
        return 1;
    printf("path %s\n", getenv("PATH") != NULL ? "there" : "gone");
    return 0;
}
