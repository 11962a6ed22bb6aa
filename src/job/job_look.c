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

static void add_slots(const struct gb_job_shared *shared, int fd, int device,
                      struct gb_job_seen *seen)
{
    uint64_t used = atomic_load(&shared->head.used_slots);

    for (unsigned i = 0; i < used && i < GB_JOB_SLOTS; i++) {
        const struct gb_job_account *account = &shared->slot[i].accounts[device];
        uint64_t in_flight;

        if (!gb_job_file_is_held(fd, i))
            continue;
        in_flight = atomic_load(&account->in_flight);
        seen->processes++;
        seen->used = gb_add_saturated(
            seen->used, gb_add_saturated(in_flight, gb_ledger_difference(&account->held)));
    }
}

bool gb_job_look(const struct gb_state_dir *dir, const struct gb_job_name *name,
                 const unsigned char uuid[16], struct gb_job_seen *seen)
{
    struct gb_job_file file;
    int fd = gb_job_file_find(dir, name, &file), device;

    if (fd < 0)
        return false;
    device = place_of(file.shared, uuid);
    if (device >= 0) {
        *seen = (struct gb_job_seen){.limit = atomic_load(&file.shared->device[device].limit)};
        add_slots(file.shared, fd, device, seen);
    }
    gb_job_file_close(&file);
    close(fd);
    return device >= 0;
}
