/*
 * fork.h: what a forked child must forget.
 */
#ifndef GB_INTERPOSE_FORK_H
#define GB_INTERPOSE_FORK_H

/*
 * Adds a function that runs in every forked child, in the order in which they were added. Call
 * it before gb_fork_register; at most 16.
 */
void gb_fork_on_child(void (*forget)(void));

/*
 * Registers with libc, once; later calls cost one load. Called where a program starts the
 * driver, not at load: a process without CUDA gets no fork handler.
 */
void gb_fork_register(void);

#endif
