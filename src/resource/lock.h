/*
 * lock.h: the mutex of the stack.
 *
 * Order, outermost first (never the other way round; nobody holds two locks of one rank):
 *   1 growth turn of a device   the only one that is held across an allocating driver call
 *   2 other                     across the question to NVML
 *   3 gauge of a pool, graphs   across an attribute read, never an allocation, wait or trim
 *   4 tables                    block shards, regions, pools, pending frees, contexts, handles,
 *                               executables, imports, estimates
 */
#ifndef GB_RESOURCE_LOCK_H
#define GB_RESOURCE_LOCK_H

#include <pthread.h>

struct gb_lock {
    pthread_mutex_t mutex;
};

#define GB_LOCK_INIT                                                                           \
    {                                                                                          \
        PTHREAD_MUTEX_INITIALIZER                                                              \
    }

/* Also used in the child of a fork, where the owner of a held lock does not exist. */
static inline void gb_lock_init(struct gb_lock *lock)
{
    pthread_mutex_init(&lock->mutex, NULL);
}

static inline void gb_lock_take(struct gb_lock *lock)
{
    pthread_mutex_lock(&lock->mutex);
}

static inline void gb_lock_drop(struct gb_lock *lock)
{
    pthread_mutex_unlock(&lock->mutex);
}

#endif
