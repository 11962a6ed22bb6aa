/*
 * group.h: the objects that an object brought in with it.
 *
 * An object opened with RTLD_LOCAL sees, beyond the global scope, itself and its dependencies,
 * breadth first; a dependency of such an object sees the same list.
 */
#ifndef GB_INTERPOSE_GROUP_H
#define GB_INTERPOSE_GROUP_H

#include <stdbool.h>

struct link_map;

/*
 * The first definition of `name` in the group of `member`, which must stay loaded meanwhile
 * (the caller of dlsym does, and so do its dependencies); with `after`, only behind `member`
 * itself. Objects of the preload are passed over. NULL where there is none.
 */
void *gb_group_find(const struct link_map *member, bool after, const char *name,
                    const char *version);

#endif
