/*
 * nap.h: a short sleep in the middle of the program's call.
 */
#ifndef GB_RESOURCE_NAP_H
#define GB_RESOURCE_NAP_H

#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/*
 * By number: nanosleep is a cancellation point, and a thread that ended in it would leave its
 * reservation in flight, and the growth turn taken, for good.
 */
static inline void gb_nap(long nanoseconds)
{
    const struct timespec nap = {.tv_nsec = nanoseconds};

    syscall(SYS_nanosleep, &nap, NULL);
}

#endif
