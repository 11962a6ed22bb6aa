/*
 * fork.h: what a forked child must forget, and what it must not inherit.
 */
#ifndef GB_INTERPOSE_FORK_H
#define GB_INTERPOSE_FORK_H

/*
 * Adds a function that runs in every forked child, in the order in which they were added. Call
 * it before gb_fork_register; at most 16.
 */
void gb_fork_on_child(void (*forget)(void));

/*
 * Between the two no child is forked by libc: what has just been opened would be the child's
 * too. Short, and with no driver call between.
 */
void gb_fork_keep_out(void);
void gb_fork_let_in(void);

/*
 * Registers with libc, once; later calls cost one load. Called where a program starts the
 * driver, not at load: a process without CUDA gets no fork handler.
 */
void gb_fork_register(void);

#endif
