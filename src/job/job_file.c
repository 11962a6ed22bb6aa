/*
 * job_file.c: the file of a job: made, found, judged.
 */
#define _GNU_SOURCE
#include "job/job_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>

#include "job/stat.h"
#include "report/line.h"
#include "resource/nap.h"

#define MAGIC UINT64_C(0x6762756467657431) /* "gbudget1" */
enum { MAJOR = 1 };

/* The bytes that are locked lie behind all that is in the file. */
#define LOCKS  (INT64_C(1) << 40)
#define HEADER (LOCKS - 1)

/* A process that makes the file takes microseconds; one that is stopped meanwhile must not stop
 * all others: about two seconds. */
enum { HEADER_TURNS = 2000, HEADER_NAP_NS = 1000000 };

enum { OPEN_TRIES = 8 };

_Static_assert(sizeof(struct gb_job_account) == 32, "the layout of version 1");
_Static_assert(sizeof(struct gb_job_slot) == 576, "the layout of version 1");
_Static_assert(sizeof(struct gb_job_shared) == 64 + 16 * 64 + 1024 * 576,
               "the layout of version 1");

static bool lock_byte(int fd, short type, off_t byte)
{
    struct flock lock = {.l_type = type, .l_whence = SEEK_SET, .l_start = byte, .l_len = 1};

    return fcntl(fd, F_OFD_SETLK, &lock) == 0;
}

bool gb_job_file_lock(int fd, unsigned slot)
{
    return lock_byte(fd, F_WRLCK, LOCKS + slot);
}

bool gb_job_file_unlock(int fd, unsigned slot)
{
    return lock_byte(fd, F_UNLCK, LOCKS + slot);
}

bool gb_job_file_lock_all(int fd)
{
    struct flock lock = {
        .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = LOCKS, .l_len = GB_JOB_SLOTS};

    return fcntl(fd, F_OFD_SETLK, &lock) == 0;
}

bool gb_job_file_is_held(int fd, unsigned slot)
{
    struct flock lock = {
        .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = LOCKS + slot, .l_len = 1};

    return fcntl(fd, F_OFD_GETLK, &lock) == 0 && lock.l_type != F_UNLCK;
}

bool gb_job_file_try_header(int fd)
{
    return lock_byte(fd, F_WRLCK, HEADER);
}

bool gb_job_file_lock_header(int fd)
{
    for (int turn = 0; !gb_job_file_try_header(fd); turn++) {
        if ((errno != EAGAIN && errno != EACCES && errno != EINTR) || turn == HEADER_TURNS)
            return false;
        gb_nap(HEADER_NAP_NS);
    }
    return true;
}

void gb_job_file_unlock_header(int fd)
{
    lock_byte(fd, F_UNLCK, HEADER);
}

/* With the header's lock held: an empty file becomes a ledger. The pages of the header have a
 * place before they are written; a full disk would be a SIGBUS. */
static const char *begin_ledger(int fd)
{
    struct gb_job_shared *made;

    if (ftruncate(fd, sizeof(*made)) != 0 ||
        posix_fallocate(fd, 0, offsetof(struct gb_job_shared, slot)) != 0)
        return "has no room on its disk";
    made = mmap(NULL, offsetof(struct gb_job_shared, slot), PROT_READ | PROT_WRITE, MAP_SHARED,
                fd, 0);
    if (made == MAP_FAILED)
        return "cannot be mapped";
    made->head.major = MAJOR;
    made->head.slots = GB_JOB_SLOTS;
    made->head.devices = GB_JOB_DEVICES;
    made->head.slot_bytes = sizeof(struct gb_job_slot);
    atomic_store(&made->head.magic, MAGIC);
    munmap(made, offsetof(struct gb_job_shared, slot));
    return NULL;
}

/* Maker and finder alike: with the lock, so that none sees another's half. Where a maker was
 * killed the file is begun once more. */
static const char *begin_or_find(int fd)
{
    const char *fault = NULL;
    uint64_t magic = 0;
    struct stat is;

    if (!gb_job_file_lock_header(fd))
        return "is being made, and that does not end";
    if (!gb_stat(fd, &is))
        fault = "cannot be looked at";
    else if (is.st_size == 0 ||
             (is.st_size == (off_t)sizeof(struct gb_job_shared) &&
              pread(fd, &magic, sizeof(magic), 0) == (ssize_t)sizeof(magic) && magic == 0))
        fault = begin_ledger(fd);
    gb_job_file_unlock_header(fd);
    return fault;
}

const char gb_job_file_absent[] = "is not there";
const char gb_job_file_unmade[] = "is not made yet";
const char gb_job_file_removed[] = "has been removed";

/* What another version, or something else, has left there is no ledger. */
static const char *judge(int fd)
{
    struct gb_job_head head;
    struct stat is;

    if (!gb_stat(fd, &is))
        return "cannot be looked at";
    if (is.st_size == 0)
        return gb_job_file_unmade;
    if (is.st_size != (off_t)sizeof(struct gb_job_shared) ||
        pread(fd, &head, sizeof(head), 0) != (ssize_t)sizeof(head) ||
        (atomic_load(&head.magic) != MAGIC && atomic_load(&head.magic) != 0))
        return "is no ledger of a job";
    if (atomic_load(&head.magic) == 0)
        return gb_job_file_unmade;
    if (head.major != MAJOR || head.slots != GB_JOB_SLOTS || head.devices != GB_JOB_DEVICES ||
        head.slot_bytes != sizeof(struct gb_job_slot) ||
        atomic_load(&head.used_slots) > GB_JOB_SLOTS)
        return "is the ledger of another version";
    return NULL;
}

static const char *map_shared(struct gb_job_file *file, int fd, int protection)
{
    const char *fault = judge(fd);
    struct stat is;

    if (!fault && !gb_stat(fd, &is))
        fault = "cannot be looked at";
    else if (!fault && is.st_nlink != 1)
        fault = is.st_nlink == 0 ? gb_job_file_removed : "has other names as well";
    if (fault)
        return fault;
    file->dev = is.st_dev;
    file->ino = is.st_ino;
    file->shared = mmap(NULL, sizeof(*file->shared), protection, MAP_SHARED, fd, 0);
    if (file->shared == MAP_FAILED) {
        file->shared = NULL;
        return "cannot be mapped";
    }
    return NULL;
}

static const char *open_shared(struct gb_job_file *file, int fd, uid_t owner)
{
    const char *fault = gb_state_fault(fd, S_IFREG, owner);

    if (!fault)
        fault = begin_or_find(fd);
    return fault ? fault : map_shared(file, fd, PROT_READ | PROT_WRITE);
}

/* Its path; false: see `refused`. */
static bool name_it(const struct gb_state_dir *dir, const struct gb_job_name *name,
                    struct gb_job_file *file)
{
    struct gb_line path;

    file->shared = NULL;
    file->refused = dir->refused;
    gb_line_begin(&path, file->path, sizeof(file->path));
    gb_line_text(&path, dir->path);
    gb_line_text(&path, "/");
    gb_line_text(&path, name->text);
    gb_line_text(&path, ".job");
    if (!file->refused && path.cut)
        file->refused = "has too long a name";
    return !file->refused;
}

/* What open has answered. */
static const char *why_not_opened(void)
{
    if (errno == ENOENT)
        return gb_job_file_absent;
    return errno == ELOOP ? "is a link" : "cannot be opened";
}

bool gb_job_file_open(const struct gb_state_dir *dir, const struct gb_job_name *name,
                      struct gb_job_file *file)
{
    if (!name_it(dir, name, file))
        return false;
    /* One in which nobody is yet may be cleaned up just then: the next one is new. */
    for (int tries = 0; tries < OPEN_TRIES; tries++) {
        int fd = open(file->path, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);

        if (fd < 0) {
            file->refused = why_not_opened();
            return false;
        }
        file->refused = open_shared(file, fd, dir->owner);
        close(fd);
        if (file->refused != gb_job_file_removed)
            break;
    }
    return !file->refused;
}

int gb_job_file_find(const struct gb_state_dir *dir, const struct gb_job_name *name, bool write,
                     struct gb_job_file *file)
{
    int fd;

    if (!name_it(dir, name, file))
        return -1;
    /* Not kept by a FIFO that somebody has put there. */
    fd = open(file->path, (write ? O_RDWR : O_RDONLY) | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0) {
        file->refused = why_not_opened();
        return -1;
    }
    file->refused = gb_state_fault(fd, S_IFREG, dir->owner);
    if (!file->refused)
        file->refused = map_shared(file, fd, write ? PROT_READ | PROT_WRITE : PROT_READ);
    if (!file->refused)
        return fd;
    close(fd);
    return -1;
}

void gb_job_file_close(struct gb_job_file *file)
{
    if (file->shared)
        munmap(file->shared, sizeof(*file->shared));
    file->shared = NULL;
}

int gb_job_file_again(const struct gb_job_file *file)
{
    int fd = open(file->path, O_RDWR | O_NOFOLLOW | O_CLOEXEC);
    struct stat is;

    if (fd < 0)
        return -1;
    if (gb_stat(fd, &is) && is.st_dev == file->dev && is.st_ino == file->ino)
        return fd;
    close(fd);
    return -1;
}

bool gb_job_file_is_gone(const struct gb_job_file *file)
{
    struct stat is;

    return !gb_stat_name(file->path, &is) || is.st_dev != file->dev || is.st_ino != file->ino;
}

/* With the header's lock held. */
static int find_device(struct gb_job_shared *shared, const unsigned char uuid[16],
                       uint64_t limit)
{
    for (int i = 0; i < GB_JOB_DEVICES; i++) {
        struct gb_job_device *device = &shared->device[i];

        if (atomic_load(&device->known) == 0) {
            memcpy(device->uuid, uuid, sizeof(device->uuid));
            atomic_store(&device->limit, limit);
            atomic_store(&device->first_limit, limit);
            atomic_store(&device->known, 1);
            return i;
        }
        if (memcmp(device->uuid, uuid, sizeof(device->uuid)) != 0)
            continue;
        /* Below what the job began with, else it asks for no less: that was changed since. */
        if (limit < atomic_load(&device->first_limit) && limit < atomic_load(&device->limit))
            atomic_store(&device->limit, limit);
        return i;
    }
    return -1;
}

int gb_job_file_device(struct gb_job_file *file, const unsigned char uuid[16], uint64_t limit)
{
    int fd = gb_job_file_again(file), place = -1;

    if (fd < 0)
        return -1;
    if (gb_job_file_lock_header(fd)) {
        place = find_device(file->shared, uuid, limit);
        gb_job_file_unlock_header(fd);
    }
    close(fd);
    return place;
}
