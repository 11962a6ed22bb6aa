/*
 * symbol.h: the loader's own look-up, which each of the two libraries reaches in its way.
 */
#ifndef GB_DRIVER_SYMBOL_H
#define GB_DRIVER_SYMBOL_H

/*
 * As dlsym(handle, name), past every interposition: in the core library it is dlsym, in the
 * preload the real one behind its own. For libraries that are measured with, never for libcuda
 * in the core.
 */
void *gb_symbol(void *handle, const char *name);

#endif
