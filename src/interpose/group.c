/*
 * group.c: the objects that an object brought in with it.
 */
#define _GNU_SOURCE
#include "interpose/group.h"

#include "interpose/elf.h"
#include "interpose/real.h"

#include <dlfcn.h>
#include <link.h>
#include <string.h>

enum {
    MOST_OBJECTS = 128, /* of one group; a list cut short can only miss a definition */
    MOST_LEVELS = 8,    /* from a dependency up to the object that was opened */
    PATH_SIZE = 1024
};

struct group {
    const struct link_map *objects[MOST_OBJECTS];
    int count;
};

/* The loaded object that a DT_NEEDED name stands for; the dependent keeps it loaded. */
static const struct link_map *loaded_as(const char *name)
{
    struct link_map *map = NULL;
    void *handle = dlopen(name, RTLD_LAZY | RTLD_NOLOAD);

    if (handle == NULL)
        return NULL;
    if (dlinfo(handle, RTLD_DI_LINKMAP, &map) != 0)
        map = NULL;
    dlclose(handle);
    return map;
}

static void add(struct group *group, const struct link_map *map)
{
    if (map == NULL || group->count == MOST_OBJECTS)
        return;
    for (int i = 0; i < group->count; i++)
        if (group->objects[i] == map)
            return;
    group->objects[group->count++] = map;
}

/* root and what it needs, in the loader's order: breadth first. */
static void collect(struct group *group, const struct link_map *root)
{
    group->count = 0;
    add(group, root);
    for (int i = 0; i < group->count; i++) {
        struct gb_elf elf;
        const char *needed;
        size_t cursor = 0;

        if (!gb_elf_of_map(&elf, group->objects[i]))
            continue;
        while ((needed = gb_elf_next_needed(&elf, &cursor)) != NULL)
            add(group, loaded_as(needed));
    }
}

static void *find_in(const struct group *group, const struct link_map *member, bool after,
                     const char *name, const char *version)
{
    bool behind = !after;

    for (int i = 0; i < group->count; i++) {
        const struct link_map *map = group->objects[i];
        struct gb_elf elf;
        void *address;

        if (map == member && !behind) {
            behind = true;
            continue;
        }
        if (!behind || map == gb_object_own() || !gb_elf_of_map(&elf, map))
            continue;
        address = gb_elf_symbol(&elf, name, version);
        if (address != NULL)
            return address;
    }
    return NULL;
}

struct dependent {
    const char *soname; /* of the object that is needed */
    char path[PATH_SIZE];
};

static int is_dependent(struct dl_phdr_info *info, size_t size, void *arg)
{
    struct dependent *search = arg;
    struct gb_elf elf;
    const char *needed;
    size_t cursor = 0;
    size_t length = strlen(info->dlpi_name);

    (void)size;
    if (length == 0 || length >= PATH_SIZE || !gb_elf_of_phdr(&elf, info))
        return 0;
    while ((needed = gb_elf_next_needed(&elf, &cursor)) != NULL) {
        if (strcmp(needed, search->soname) == 0) {
            memcpy(search->path, info->dlpi_name, length + 1);
            return 1;
        }
    }
    return 0;
}

/* The first loaded object that needs `map`, held (*hold is to be closed), or NULL. */
static const struct link_map *first_dependent(const struct link_map *map, void **hold)
{
    const char *slash = strrchr(map->l_name, '/');
    struct dependent search = {.soname = slash == NULL ? map->l_name : slash + 1};
    struct link_map *found = NULL;
    struct gb_elf elf;

    if (gb_elf_of_map(&elf, map) && elf.soname != NULL)
        search.soname = elf.soname;
    if (search.soname[0] == '\0' || dl_iterate_phdr(is_dependent, &search) == 0)
        return NULL;
    *hold = dlopen(search.path, RTLD_LAZY | RTLD_NOLOAD);
    if (*hold == NULL || dlinfo(*hold, RTLD_DI_LINKMAP, &found) != 0)
        return NULL;
    return found;
}

void *gb_group_find(const struct link_map *member, bool after, const char *name,
                    const char *version)
{
    const struct link_map *root = member;
    void *holds[MOST_LEVELS] = {NULL};
    void *address = NULL;

    for (int level = 0; level < MOST_LEVELS && root != NULL; level++) {
        struct group group;

        collect(&group, root);
        address = find_in(&group, member, after, name, version);
        if (address != NULL)
            break;
        root = first_dependent(root, &holds[level]);
    }
    for (int level = 0; level < MOST_LEVELS; level++)
        if (holds[level] != NULL)
            dlclose(holds[level]);
    return address;
}
