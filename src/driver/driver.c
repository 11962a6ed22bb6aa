/*
 * driver.c: the registry of libcuda copies.
 *
 * Lock-free, since it is reached from look-ups on any thread, also in the child of a fork that
 * came at a bad moment: a thread that meets a new copy fills a description of its own and
 * publishes it with one compare-and-swap; the loser of a race throws its own away.
 */
#define _GNU_SOURCE
#include "driver/driver.h"

#include "interpose/elf.h"
#include "interpose/real.h"
#include "report/log.h"

#include <dlfcn.h>
#include <link.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>

/* Filled from the front, never emptied: a copy's index is its place here. */
_Atomic(struct gb_driver *) gb_drivers[GB_DRIVER_MAX];

/* Does this object call itself libcuda (soname libcuda.so.1, or file name libcuda.so*)? */
static bool is_libcuda(const struct link_map *map)
{
    struct gb_elf elf;
    const char *file = strrchr(map->l_name, '/');

    file = file == NULL ? map->l_name : file + 1;
    if (strcmp(file, "libcuda.so") == 0 || strncmp(file, "libcuda.so.", 11) == 0)
        return true;
    return gb_elf_of_map(&elf, map) && elf.soname != NULL &&
           strcmp(elf.soname, "libcuda.so.1") == 0;
}

/* A symbol of the copy itself, not one of the objects it depends on. */
static void *own_symbol(void *arg, const char *name)
{
    const struct gb_driver *driver = arg;
    void *address = gb_symbol(driver->hold, name);

    return address != NULL && gb_object_of(address) == driver->map ? address : NULL;
}

static struct gb_driver *describe(const struct link_map *map)
{
    /* A page of its own and not malloc: look-ups come from anywhere, allocators included. */
    struct gb_driver *driver =
        mmap(NULL, sizeof(*driver), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (driver == MAP_FAILED)
        return NULL;
    driver->map = map;
    driver->hold = gb_object_hold(map);
    if (driver->hold == NULL) {
        munmap(driver, sizeof(*driver));
        return NULL;
    }
    for (int i = 0; i < GB_ENTRY_COUNT; i++)
        driver->real[i] = own_symbol(driver, gb_entry_name(i));
    driver->complete = gb_driver_api_fill(&driver->api, own_symbol, driver);
    return driver;
}

static void throw_away(struct gb_driver *driver)
{
    dlclose(driver->hold);
    munmap(driver, sizeof(*driver));
}

static struct gb_driver *find(const struct link_map *map)
{
    for (int i = 0; i < GB_DRIVER_MAX; i++) {
        struct gb_driver *driver = gb_driver_at(i);

        if (driver == NULL || driver->map == map)
            return driver;
    }
    return NULL;
}

static void say_refused(const struct link_map *map)
{
    static atomic_flag said = ATOMIC_FLAG_INIT;
    struct gb_log_line log;

    if (atomic_flag_test_and_set(&said))
        return;
    gb_log_begin(&log);
    gb_line_text(&log.line,
                 "cannot limit a further copy of libcuda, so it is not usable here: ");
    gb_line_text(&log.line, map->l_name);
    gb_log_write(GB_LOG_ERROR, &log);
}

static struct gb_driver *enter(const struct link_map *map)
{
    struct gb_driver *found = find(map);
    struct gb_driver *mine;

    if (found != NULL)
        return found;
    mine = describe(map);
    if (mine == NULL)
        return NULL;
    for (int i = 0; i < GB_DRIVER_MAX; i++) {
        struct gb_driver *there = NULL;

        mine->index = i;
        if (atomic_compare_exchange_strong(&gb_drivers[i], &there, mine))
            return mine;
        if (there->map == map) {
            throw_away(mine);
            return there;
        }
    }
    throw_away(mine);
    return NULL;
}

static struct gb_driver *enter_or_say(const struct link_map *map, bool *refused)
{
    struct gb_driver *driver = enter(map);

    if (driver == NULL) {
        say_refused(map);
        if (refused != NULL)
            *refused = true;
    }
    return driver;
}

struct gb_driver *gb_driver_of_address(const void *address, bool *refused)
{
    const struct link_map *map = gb_object_of(address);

    if (refused != NULL)
        *refused = false;
    if (map == NULL || !is_libcuda(map))
        return NULL;
    return enter_or_say(map, refused);
}

struct gb_driver *gb_driver_any(void)
{
    struct gb_driver *driver = gb_driver_at(0);
    struct link_map *map = NULL;
    void *handle;

    if (driver != NULL)
        return driver;
    handle = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
    if (handle == NULL)
        return NULL;
    if (dlinfo(handle, RTLD_DI_LINKMAP, &map) == 0 && map != NULL)
        driver = enter_or_say(map, NULL);
    dlclose(handle); /* a registered copy holds a reference of its own */
    return driver;
}
