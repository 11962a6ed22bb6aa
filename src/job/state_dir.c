/*
 * state_dir.c: finding, making and checking the directory.
 */
#define _GNU_SOURCE
#include "job/state_dir.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/vfs.h>

#include "job/stat.h"
#include "report/line.h"

/* File systems of other machines, and those of programs, which may be. */
static const uint32_t far_away[] = {
    0x00006969, /* NFS */
    0xff534d42, /* CIFS */
    0xfe534d42, /* SMB 2 */
    0x0000517b, /* SMB */
    0x0bd00bd0, /* Lustre */
    0x47504653, /* GPFS */
    0x65735546, /* FUSE */
    0x5346414f, /* AFS */
    0x00c36400, /* Ceph */
    0x19830326, /* BeeGFS */
    0x01021997, /* 9P */
    0x01161970, /* GFS 2 */
    0x7461636f, /* OCFS 2 */
    0xaad7aaea, /* PanFS */
    0x20030528, /* OrangeFS */
};

const char *gb_state_fault(int fd, mode_t type, uid_t owner)
{
    struct statfs system;
    struct stat is;

    if (!gb_stat(fd, &is) || fstatfs(fd, &system) != 0)
        return "cannot be looked at";
    if ((is.st_mode & S_IFMT) != type)
        return type == S_IFDIR ? "is no directory" : "is no ordinary file";
    if (is.st_uid != owner)
        return "belongs to another user";
    if ((is.st_mode & 077) != 0)
        return "is open to other users";
    for (size_t i = 0; i < sizeof(far_away) / sizeof(far_away[0]); i++)
        if ((uint32_t)system.f_type == far_away[i])
            return "is on a network file system";
    return NULL;
}

static bool is_directory(const char *path)
{
    struct stat is;

    return gb_stat_name(path, &is) && S_ISDIR(is.st_mode);
}

const char gb_state_dir_absent[] = "does not exist";

static const char *fault_of(const struct gb_state_dir *dir)
{
    int fd = open(dir->path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    const char *fault;

    if (fd < 0 && (errno == ELOOP || errno == ENOTDIR))
        return "is a link, or no directory";
    if (fd < 0)
        return errno == ENOENT ? gb_state_dir_absent : "cannot be opened";
    fault = gb_state_fault(fd, S_IFDIR, dir->owner);
    close(fd);
    return fault;
}

/* Whoever else makes it at the same moment has the same in mind. */
static void make(const char *path)
{
    int fd;

    if (mkdir(path, 0700) != 0)
        return;
    /* The program's umask may have taken more away than from others. */
    fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return;
    if (fchmod(fd, 0700) != 0)
        rmdir(path);
    close(fd);
}

/* Where the scheduler's prolog, as root, makes a directory for each job. */
#ifndef GB_STATE_ROOT
#define GB_STATE_ROOT "/run/gpubudget"
#endif

/*
 * The number of the scheduler's job selects among the directories that root has made for jobs;
 * it is this job's only if it is this user's. False: there is none.
 */
static bool prolog_path(struct gb_line *path)
{
    static const char *const variables[] = {"SLURM_JOB_ID", "PBS_JOBID", "LSB_JOBID"};
    char *text = path->text;
    size_t size = path->size;
    struct stat is;

    for (size_t i = 0; i < sizeof(variables) / sizeof(variables[0]); i++) {
        const char *id = getenv(variables[i]);

        if (!id || !*id || strchr(id, '/'))
            continue;
        gb_line_begin(path, text, size);
        gb_line_text(path, GB_STATE_ROOT "/");
        gb_line_text(path, id);
        gb_line_text(path, ".d");
        if (!path->cut && gb_stat_name(text, &is) && S_ISDIR(is.st_mode) &&
            is.st_uid == geteuid() && gb_stat_name(GB_STATE_ROOT, &is) && is.st_uid == 0)
            return true;
    }
    gb_line_begin(path, text, size);
    return false;
}

/* Of the job or the user, whatever the environment says else. */
static void usual_path(struct gb_line *path)
{
    char *text = path->text;
    size_t size = path->size;

    if (prolog_path(path))
        return;
    gb_line_text(path, "/run/user/");
    gb_line_number(path, geteuid());
    if (is_directory(text)) {
        gb_line_text(path, "/gpubudget");
        return;
    }
    gb_line_begin(path, text, size);
    gb_line_text(path, "/dev/shm/gpubudget-");
    gb_line_number(path, geteuid());
}

/* Writes the path, and whose it has to be. */
static void name_it(const char *wanted, struct gb_state_dir *dir)
{
    struct gb_line path;

    dir->refused = NULL;
    dir->owner = geteuid();
    dir->group = getegid();
    gb_line_begin(&path, dir->path, sizeof(dir->path));
    if (wanted)
        gb_line_text(&path, wanted);
    else
        usual_path(&path);
    if (path.cut)
        dir->refused = "has too long a name";
    else if (dir->path[0] != '/')
        dir->refused = "is no absolute path";
}

bool gb_state_dir_find(const char *wanted, struct gb_state_dir *dir)
{
    name_it(wanted, dir);
    if (!dir->refused && access(dir->path, F_OK) != 0)
        make(dir->path);
    if (!dir->refused)
        dir->refused = fault_of(dir);
    if (dir->refused == gb_state_dir_absent)
        dir->refused = "does not exist and cannot be made";
    return !dir->refused;
}

bool gb_state_dir_look(const char *wanted, struct gb_state_dir *dir)
{
    struct stat is;

    name_it(wanted, dir);
    if (dir->owner == 0 && gb_stat_name(dir->path, &is)) {
        dir->owner = is.st_uid;
        dir->group = is.st_gid;
    }
    if (!dir->refused)
        dir->refused = fault_of(dir);
    return !dir->refused;
}
