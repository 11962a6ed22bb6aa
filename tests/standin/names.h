/* The look-up table of the stand-in's exports (generated) and the weak bodies of those that
 * nothing in the stand-in simulates: they answer CUDA_ERROR_NOT_SUPPORTED. cuda.h is not
 * included here, so that one spelling of a prototype does for all. */
#ifndef STANDIN_NAMES_H
#define STANDIN_NAMES_H

enum sim_name_flags {
    SIM_FLAGS_ANY,
    SIM_FLAGS_DEFAULT, /* no flag, or the legacy-stream flag */
    SIM_FLAGS_THREAD,  /* the per-thread-default-stream flag */
    SIM_FLAGS_NONE     /* exported, never handed out */
};

struct sim_name {
    const char *base;
    int since;
    enum sim_name_flags flags;
    void *address;
};

extern const struct sim_name sim_names[];
extern const unsigned sim_name_count;

/* Counts the call and gives the code; defined in state.c. */
int sim_unsimulated(const char *name);

#define SIM_WEAK(name)                                                                         \
    int name(void) __attribute__((weak, visibility("default")));                               \
    int name(void)                                                                             \
    {                                                                                          \
        return sim_unsimulated(#name);                                                         \
    }

#endif
