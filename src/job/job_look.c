#define _GNU_SOURCE
#include "job/job_look.h"

#include <string.h>
#include <unistd.h>

#include "resource/resource.h"

static int place_of(const struct gb_job_shared *shared, const unsigned char uuid[16])
{
    for (int i = 0; i < GB_JOB_DEVICES && atomic_load(&shared->device[i].known) != 0; i++)
        if (memcmp(shared->device[i].uuid, uuid, sizeof(shared->device[i].uuid)) == 0)
            return i;
    return -1;
}

bool gb_job_look_slot(const struct gb_job_shared *shared, int fd, unsigned slot, int device,
                      uint64_t *used)
{
    const struct gb_job_account *account = &shared->slot[slot].accounts[device];
    uint64_t in_flight;

    if (slot >= GB_JOB_SLOTS || slot >= atomic_load(&shared->head.used_slots) ||
        !gb_job_file_is_held(fd, slot))
        return false;
    in_flight = atomic_load(&account->in_flight);
    *used = gb_add_saturated(in_flight, gb_ledger_difference(&account->held));
    return true;
}

void gb_job_look_device(const struct gb_job_shared *shared, int fd, int device,
                        struct gb_job_seen *seen)
{
    uint64_t slots = atomic_load(&shared->head.used_slots);

    *seen = (struct gb_job_seen){.limit = atomic_load(&shared->device[device].limit)};
    for (unsigned i = 0; i < slots && i < GB_JOB_SLOTS; i++) {
        uint64_t used;

        if (!gb_job_look_slot(shared, fd, i, device, &used))
            continue;
        seen->processes++;
        seen->used = gb_add_saturated(seen->used, used);
    }
}

bool gb_job_look(const struct gb_state_dir *dir, const struct gb_job_name *name,
                 const unsigned char uuid[16], struct gb_job_seen *seen)
{
    struct gb_job_file file;
    int fd = gb_job_file_find(dir, name, false, &file), device;

    if (fd < 0)
        return false;
    device = place_of(file.shared, uuid);
    if (device >= 0)
        gb_job_look_device(file.shared, fd, device, seen);
    gb_job_file_close(&file);
    close(fd);
    return device >= 0;
}
