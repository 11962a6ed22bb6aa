/*
 * fork.c: the one place that registers a fork handler.
 *
 * CUDA does not survive a fork, so a child's budget begins empty. A fork waits for nothing but
 * gb_fork_keep_out: no other lock of ours is taken for it, and a child never waits for a thread
 * that it lost.
 */
#include "interpose/fork.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#include "resource/lock.h"

enum { MOST = 16 };

static _Atomic(void (*)(void)) forgetters[MOST];
static atomic_bool registered;
static struct gb_lock out = GB_LOCK_INIT;

void gb_fork_on_child(void (*forget)(void))
{
    for (int i = 0; i < MOST; i++) {
        void (*there)(void) = atomic_load(&forgetters[i]);

        /* Of two threads that come at once with the same one, the second finds it. */
        if (!there && atomic_compare_exchange_strong(&forgetters[i], &there, forget))
            return;
        if (there == forget)
            return;
    }
}

void gb_fork_keep_out(void)
{
    gb_lock_take(&out);
}

void gb_fork_let_in(void)
{
    gb_lock_drop(&out);
}

static void in_child(void)
{
    gb_lock_init(&out);
    for (int i = 0; i < MOST; i++) {
        void (*forget)(void) = atomic_load(&forgetters[i]);

        if (forget != NULL)
            forget();
    }
}

void gb_fork_register(void)
{
    if (atomic_load_explicit(&registered, memory_order_relaxed) ||
        atomic_exchange(&registered, true))
        return;
    pthread_atfork(gb_fork_keep_out, gb_fork_let_in, in_child);
}
