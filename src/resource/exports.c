/*
 * exports.c: physical memory that has left this process, and may be in it again.
 */
#define _GNU_SOURCE
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

void gb_import_of_own(struct gb_memory *import, struct gb_memory *ours)
{
    import->of = ours;
    ours->imports++;
    atomic_fetch_add(&all->own_imports, 1);
    atomic_fetch_add(&all->imports_moved, 1);
}

void gb_import_of_own_ended(struct gb_memory *import)
{
    struct gb_memory *ours = import->of;

    import->of = NULL;
    ours->imports--;
    atomic_fetch_sub(&all->own_imports, 1);
    atomic_fetch_add(&all->imports_moved, 1);
    gb_memory_settle(ours);
}

uint64_t gb_handles_imports_moved(void)
{
    return atomic_load(&all->imports_moved);
}

uint64_t gb_handles_back(const struct gpubudget_accounting *ledger)
{
    uint64_t bytes = 0;

    if (atomic_load(&all->own_imports) == 0)
        return 0;
    gb_lock_take(&all->lock);
    /* From the youngest on: of several imports the oldest has the last word. */
    for (struct gb_memory *memory = all->all; memory; memory = memory->next) {
        if (memory->of)
            memory->of->is_back = !gb_memory_only_bound(memory);
        if (memory->gone && memory->imports > 0 && memory->is_back &&
            memory->ledger == ledger && !is_open(&memory->descriptor))
            bytes += memory->charged;
    }
    gb_lock_drop(&all->lock);
    return bytes;
}
