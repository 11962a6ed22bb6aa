#include "config/settings.h"

#include "config/settings_parse.h"

#include <sched.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

#define ARENA_SIZE    16384
#define STRINGS       64
#define PATIENCE      1000000 /* yields before a waiter gives up */
#define OWNER_NOBODY  0
#define OWNER_NO_MORE (-1) /* the work is done */

extern char **environ;

/*
 * Both steps, capture and parse, are done once. Who does one holds its owner word with the
 * process id, so that the child of a fork in the middle of it sees that the owner is not here
 * and does it itself. Everything below is written by the owner only, then read-only.
 */
static _Atomic int capture_owner;
static _Atomic int parse_owner;

static char arena[ARENA_SIZE];
static const char *captured[STRINGS];
static size_t captured_count;
static bool captured_overflow;
static struct gb_settings settings_store;

enum claim { CLAIM_MINE, CLAIM_DONE, CLAIM_STUCK };

static enum claim claim(_Atomic int *owner)
{
    int self = (int)getpid();
    for (int i = 0; i < PATIENCE; i++) {
        int seen = atomic_load_explicit(owner, memory_order_acquire);
        if (seen == OWNER_NO_MORE)
            return CLAIM_DONE;
        if (seen != self && atomic_compare_exchange_strong(owner, &seen, self))
            return CLAIM_MINE;
        sched_yield();
    }
    return CLAIM_STUCK;
}

static void copy_strings(char **environment)
{
    const size_t prefix = sizeof(GB_SETTINGS_PREFIX) - 1;
    size_t used = 0;
    captured_count = 0;
    captured_overflow = false;
    for (; environment && *environment; environment++) {
        if (strncmp(*environment, GB_SETTINGS_PREFIX, prefix) != 0)
            continue;
        size_t size = strlen(*environment) + 1;
        if (size > sizeof(arena) - used || captured_count == STRINGS) {
            captured_overflow = true;
            continue; /* a smaller one, DISABLE say, may still fit */
        }
        memcpy(arena + used, *environment, size);
        captured[captured_count++] = arena + used;
        used += size;
    }
}

void gb_settings_capture(char **environment)
{
    if (claim(&capture_owner) != CLAIM_MINE)
        return;
    /* A set-user-id program must not be steered by its caller's environment. */
    if (!getauxval(AT_SECURE))
        copy_strings(environment);
    atomic_store_explicit(&capture_owner, OWNER_NO_MORE, memory_order_release);
}

const struct gb_settings *gb_settings(void)
{
    static const struct gb_settings stuck = {.verdict = GB_VERDICT_DENY,
                                             .message = "the settings could not be read",
                                             .log_level = GB_LOG_WARN};
    if (atomic_load_explicit(&parse_owner, memory_order_acquire) == OWNER_NO_MORE)
        return &settings_store;
    gb_settings_capture(environ);
    switch (claim(&parse_owner)) {
    case CLAIM_MINE:
        gb_settings_parse_captured(&settings_store, captured, captured_count,
                                   captured_overflow);
        atomic_store_explicit(&parse_owner, OWNER_NO_MORE, memory_order_release);
        return &settings_store;
    case CLAIM_DONE:
        return &settings_store;
    case CLAIM_STUCK:
        break;
    }
    return &stuck;
}
