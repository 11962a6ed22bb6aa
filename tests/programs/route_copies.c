/*
 * route_copies.c: several copies of libcuda in one process.
 *
 *     route_copies FILE...
 *
 * Each file is another copy. A function of a copy must call that copy and no other, also after
 * the program has closed it and opened it again; the same name of two copies has two addresses.
 * One line per copy: `own`, `foreign` or `NULL`.
 */
#define _GNU_SOURCE
#include "driver/cuda_api.h"

#include <dlfcn.h>
#include <stdio.h>

enum { MOST = 8 };

typedef CUresult init_fn(unsigned int flags);
typedef unsigned long calls_fn(const char *name);

struct copy {
    const char *file;
    void *handle;
    init_fn *init;
    calls_fn *calls;
};

static int open_copy(struct copy *copy)
{
    copy->handle = dlopen(copy->file, RTLD_LAZY | RTLD_LOCAL);
    if (copy->handle == NULL) {
        printf("%s\n", dlerror());
        return 0;
    }
    copy->init = (init_fn *)dlsym(copy->handle, "cuInit");
    copy->calls = (calls_fn *)dlsym(copy->handle, "standin_calls");
    return 1;
}

static const char *check(struct copy *copies, int count, int which)
{
    unsigned long before[MOST];

    if (copies[which].init == NULL)
        return dlsym(copies[which].handle, "cuMemAlloc_v2") == NULL && dlerror() != NULL
                   ? "NULL"
                   : "NULL for one name only, or without a word";
    for (int i = 0; i < count; i++)
        before[i] = copies[i].calls("cuInit");
    copies[which].init(0);
    for (int i = 0; i < count; i++)
        if (copies[i].calls("cuInit") - before[i] != (i == which))
            return "foreign";
    for (int i = 0; i < which; i++)
        if (copies[i].init == copies[which].init)
            return "the same address as another";
    return "own";
}

int main(int argc, char **argv)
{
    struct copy copies[MOST];
    const int count = argc - 1;

    if (count > MOST)
        return 2;
    for (int i = 0; i < count; i++) {
        copies[i].file = argv[i + 1];
        if (!open_copy(&copies[i]))
            return 1;
    }
    for (int i = 0; i < count; i++)
        printf("copy %d %s\n", i, check(copies, count, i));

    /* Closed and opened again; in between the pointers that the program kept must do no harm.
     */
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < count; i++)
            dlclose(copies[i].handle);
        for (int i = 0; i < count; i++)
            if (!open_copy(&copies[i]))
                return 1;
    }
    for (int i = 0; i < count; i++)
        printf("again %d %s\n", i, check(copies, count, i));
    return 0;
}
