/*
 * exports.c: physical memory that has left this process, and may be in it again.
 */
#define _GNU_SOURCE
#include "resource/backend.h"
#include "resource/handles_parts.h"

#include <errno.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

static struct gb_handles *const all = &gb_handles;

/* By the bare call: the C library's function is not in the old ones that this runs with. */
static struct gb_descriptor describe(int number)
{
    struct gb_descriptor descriptor = {.number = number};
    struct stat status;
    int error = errno;

    if (number >= 0 && syscall(SYS_fstat, number, &status) == 0) {
        descriptor.known = true;
        descriptor.device = status.st_dev;
        descriptor.inode = status.st_ino;
    }
    errno = error;
    return descriptor;
}

static bool is_open(const struct gb_descriptor *descriptor)
{
    struct gb_descriptor now = describe(descriptor->number);

    return descriptor->known && now.known && now.device == descriptor->device &&
           now.inode == descriptor->inode;
}

/* A new file of this number: an older one has been closed, though the two may look alike. */
static void forget(int number)
{
    struct gb_memory *memory = all->all;

    while (memory && !(memory->descriptor.known && memory->descriptor.number == number))
        memory = memory->next;
    if (!memory)
        return;
    memory->descriptor.known = false;
    gb_memory_settle(memory);
}

void gb_memory_exported(struct gb_memory *memory, int number)
{
    struct gb_descriptor descriptor = describe(number);

    gb_lock_take(&all->lock);
    memory->exported = true;
    if (descriptor.known) {
        forget(number);
        memory->descriptor = descriptor;
    }
    gb_lock_drop(&all->lock);
}

struct gb_memory *gb_handle_exported_to(int number)
{
    struct gb_memory *found;

    if (!gb_handles_any())
        return NULL;
    gb_lock_take(&all->lock);
    found = all->all;
    while (found && (!found->descriptor.known || found->descriptor.number != number ||
                     !is_open(&found->descriptor)))
        found = found->next;
    /* What was exported may have been an import. */
    if (found && found->imported)
        found = found->of;
    if (found && found->ledger)
        found->holds++;
    else
        found = NULL;
    gb_lock_drop(&all->lock);
    return found;
}

/*
 * What the card's tools may show for this process at a moment that no call tells. Of others: an
 * import, once its exporter has ended. Of ours: what nothing but imports has hold of here, once
 * the last descriptor is closed, wherever a copy of it is; of several imports the oldest has
 * the last word. Not what only arrays have hold of, which is shown for nobody.
 */
static uint64_t heritable_now(const struct gb_memory *memory)
{
    const struct gb_memory *oldest = memory->youngest;

    if (memory->imported)
        return gb_memory_is_used(memory) && !gb_memory_only_bound(memory)
                   ? memory->imported_bytes
                   : 0;
    while (oldest && oldest->older)
        oldest = oldest->older;
    return memory->is_away && oldest && !gb_memory_only_bound(oldest) ? memory->charged : 0;
}

void gb_memory_note_heritable(struct gb_memory *memory)
{
    uint64_t bytes;

    if (memory->of)
        memory = memory->of;
    bytes = heritable_now(memory);
    if (!memory->importer || bytes == memory->heritable)
        return;
    if (memory->heritable > 0)
        gb_inherited_import_ends(memory->importer, memory->heritable);
    if (bytes > 0)
        gb_inherited_import(memory->importer, bytes);
    /* Modulo 2^64: it is charged, too. */
    if (!memory->imported)
        atomic_fetch_add(&memory->importer->inherited.ours, bytes - memory->heritable);
    memory->heritable = bytes;
}

void gb_import_of_own(struct gb_memory *import, struct gb_memory *ours)
{
    import->of = ours;
    import->older = ours->youngest;
    ours->youngest = import;
    atomic_fetch_add(&all->imports_moved, 1);
    gb_memory_note_heritable(ours);
}

void gb_import_of_own_ended(struct gb_memory *import)
{
    struct gb_memory *ours = import->of, **link = &ours->youngest;

    while (*link != import)
        link = &(*link)->older;
    *link = import->older;
    import->of = NULL;
    atomic_fetch_add(&all->imports_moved, 1);
    gb_memory_note_heritable(ours);
    gb_memory_settle(ours);
}

uint64_t gb_handles_imports_moved(void)
{
    return atomic_load(&all->imports_moved);
}
