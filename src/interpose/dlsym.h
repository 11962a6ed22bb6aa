/*
 * dlsym.h: where our exported dlsym and dlvsym decide what to do.
 *
 * The exports themselves are a few instructions of assembly (dlsym_x86_64.S, dlsym_aarch64.S):
 * they keep the arguments, ask here, and either return an answer or jump to the real function
 * as if we had never been there. glibc reads the return address of dlsym for RTLD_NEXT and for
 * the caller's own scope, so an ordinary call would change the answer of every such look-up.
 */
#ifndef GB_INTERPOSE_DLSYM_H
#define GB_INTERPOSE_DLSYM_H

/* Returned in two registers: jump there with the caller's arguments, or NULL: give answer. */
struct gb_route {
    void *jump;
    void *answer;
};

struct gb_route gb_dlsym_route(void *handle, const char *name, const void *caller);
struct gb_route gb_dlvsym_route(void *handle, const char *name, const char *version,
                                const void *caller);

/* The exports, as addresses to hand out. Never call them from here. */
extern const char gb_dlsym_export[] __attribute__((visibility("hidden")));
extern const char gb_dlvsym_export[] __attribute__((visibility("hidden")));

#endif
