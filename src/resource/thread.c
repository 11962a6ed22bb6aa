/*
 * thread.c: serial numbers of threads. In a key of the threads library: a thread-local variable
 * would cost every thread of every process (tests/preload/check-symbols.sh).
 */
#include "resource/thread.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_key_t key;
static bool has_key;

static void make_key(void)
{
    has_key = pthread_key_create(&key, NULL) == 0;
}

uint64_t gb_thread_serial(void)
{
    static _Atomic uintptr_t last;
    uintptr_t serial;

    pthread_once(&once, make_key);
    serial = has_key ? (uintptr_t)pthread_getspecific(key) : 0;
    if (serial != 0)
        return serial;
    serial = atomic_fetch_add(&last, 1) + 1;
    if (has_key && pthread_setspecific(key, (void *)serial) == 0)
        return serial;
    /* The program has taken all keys, or all memory: the next best name. Serials are far lower.
     */
    return (uint64_t)pthread_self();
}
