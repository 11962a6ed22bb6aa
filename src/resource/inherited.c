/*
 * inherited.c: memory of others that is imported here, when its exporter has ended.
 */
#include "resource/inherited.h"

#include "resource/backend.h"

/* Takes up to so much off; answers how much. */
static uint64_t take(_Atomic uint64_t *from, uint64_t most)
{
    uint64_t there = atomic_load(from), taken;

    do
        taken = most < there ? most : there;
    while (!atomic_compare_exchange_weak(from, &there, there - taken));
    return taken;
}

uint64_t gb_inherited_found(struct gb_backend *backend, uint64_t least, bool has_level)
{
    struct gb_inherited *inherited = &backend->inherited;
    const struct gb_other *other = &backend->other;
    uint64_t level = atomic_load(&other->level), rise, lost, found = 0;
    unsigned source = atomic_load(&other->source);

    if (has_level && inherited->known && inherited->source == source &&
        atomic_load(&inherited->taking) == 0 && least > inherited->least) {
        rise = least - inherited->least;
        lost = inherited->level > level ? inherited->level - level : 0;
        if (rise > lost)
            found = take(&backend->imported_unseen, rise - lost);
    }
    atomic_fetch_add(&backend->imported, found);
    atomic_fetch_add(&inherited->bytes, found);
    inherited->known = has_level;
    inherited->least = least - found;
    inherited->level = level;
    inherited->source = source;
    return found;
}

void gb_inherited_import(struct gb_backend *backend, uint64_t bytes)
{
    atomic_fetch_add(&backend->imported_unseen, bytes);
}

void gb_inherited_import_ends(struct gb_backend *backend, uint64_t bytes)
{
    uint64_t back = take(&backend->inherited.bytes, bytes);

    atomic_fetch_sub(&backend->imported, back);
    take(&backend->imported_unseen, bytes - back);
}
