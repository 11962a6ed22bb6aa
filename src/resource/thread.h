/*
 * thread.h: names a thread for good: pthread_self() is another thread's soon after it has
 * ended.
 */
#ifndef GB_RESOURCE_THREAD_H
#define GB_RESOURCE_THREAD_H

#include <stdint.h>

/* Never 0, never used twice in a process; the child of a fork keeps its thread's. */
uint64_t gb_thread_serial(void);

#endif
