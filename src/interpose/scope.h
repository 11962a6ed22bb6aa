/*
 * scope.h: what RTLD_NEXT and RTLD_DEFAULT would find from a given caller if we exported
 * nothing.
 *
 * glibc answers both from the caller's place in the link map, which it knows by the return
 * address of dlsym. For names that we export ourselves its answer would often be our own twin,
 * even where the driver is not loaded at all, so these are answered here.
 */
#ifndef GB_INTERPOSE_SCOPE_H
#define GB_INTERPOSE_SCOPE_H

/*
 * The address of the real definition (of the driver's or of another interposer's), or NULL.
 * version may be NULL. `caller` is the program's return address. After NULL, dlerror tells of
 * it; after an address, dlerror has nothing to tell.
 */
void *gb_scope_default(const char *name, const char *version, const void *caller);
void *gb_scope_next(const char *name, const char *version, const void *caller);

/*
 * An explicit handle that answered our own twin: one of the main program's kind, or our own.
 * What it would have answered without the twin. The same promises as above.
 */
void *gb_scope_handle(void *handle, const char *name, const char *version);

#endif
