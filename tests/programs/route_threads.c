/*
 * route_threads.c: many threads look names up at once; every answer must be the same, every
 * time, and a missing name must be NULL with something in that thread's dlerror.
 *
 *     route_threads THREADS ROUNDS [FILE]
 *
 * With FILE (a libcuda), some rounds also open it, look into it and close it again; it stays
 * loaded throughout, so its addresses stay. The first look-ups of all threads start together,
 * so the registering of a new copy races too.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

static pthread_barrier_t start;
static long rounds;
static const char *file;
static void *expected_open, *expected_init;
static int failures; /* atomic */

static void fail(const char *what)
{
    if (__atomic_add_fetch(&failures, 1, __ATOMIC_RELAXED) <= 5)
        printf("%s\n", what);
}

static void look_into_file(void)
{
    void *handle = dlopen(file, RTLD_LAZY | RTLD_LOCAL);
    void *init;
    void *first = NULL;

    if (handle == NULL) {
        fail("cannot open the file");
        return;
    }
    init = dlsym(handle, "cuInit");
    if (init == NULL)
        fail("no cuInit in the file");
    else if (!__atomic_compare_exchange_n(&expected_init, &first, init, 0, __ATOMIC_SEQ_CST,
                                          __ATOMIC_SEQ_CST) &&
             first != init)
        fail("cuInit changed");
    if (dlsym(handle, "cuMemAlloc_v9") != NULL || dlerror() == NULL)
        fail("cuMemAlloc_v9 was found, or nothing said that it is not there");
    dlclose(handle);
}

static void *hammer(void *unused)
{
    pthread_barrier_wait(&start);
    for (long i = 0; i < rounds; i++) {
        if (dlsym(RTLD_NEXT, "open") != expected_open)
            fail("RTLD_NEXT open changed");
        if (dlsym(RTLD_NEXT, "no_such_name") != NULL || dlerror() == NULL)
            fail("no_such_name was found, or nothing said that it is not there");
        if (i % 16 == 0 && dlsym(RTLD_NEXT, "cuMemAlloc_v9") != NULL)
            fail("cuMemAlloc_v9 was found");
        if (file != NULL && i % 8 == 0)
            look_into_file();
    }
    return unused;
}

int main(int argc, char **argv)
{
    pthread_t *threads;
    long count;

    if (argc < 3)
        return 2;
    count = strtol(argv[1], NULL, 10);
    rounds = strtol(argv[2], NULL, 10);
    file = argc > 3 ? argv[3] : NULL;
    expected_open = dlsym(RTLD_NEXT, "open");
    if (file != NULL && dlopen(file, RTLD_LAZY | RTLD_LOCAL) == NULL) {
        fprintf(stderr, "route_threads: %s\n", dlerror());
        return 1;
    }
    threads = calloc((size_t)count, sizeof(*threads));
    if (threads == NULL)
        return 2;
    pthread_barrier_init(&start, NULL, (unsigned int)count);
    for (long i = 0; i < count; i++)
        if (pthread_create(&threads[i], NULL, hammer, NULL) != 0)
            return 2;
    for (long i = 0; i < count; i++)
        pthread_join(threads[i], NULL);
    free(threads);
    printf("%s\n", failures == 0 ? "same" : "not the same");
    return failures != 0;
}
