/* The file of a job, its names and its directory: made, found, refused. */
#define _GNU_SOURCE
#include "job_unit.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>

/* ---- names ---- */

START_TEST(test_names)
{
    static const char longest[] =
        "0123456789012345678901234567890123456789012345678901234567890123";

    ck_assert(gb_job_name_is_good("a"));
    ck_assert(gb_job_name_is_good("A-b_c.9"));
    ck_assert(gb_job_name_is_good("..a"));
    ck_assert(gb_job_name_is_good(longest));
    ck_assert(!gb_job_name_is_good(""));
    ck_assert(!gb_job_name_is_good("."));
    ck_assert(!gb_job_name_is_good(".."));
    ck_assert(!gb_job_name_is_good("a/b"));
    ck_assert(!gb_job_name_is_good("a b"));
    ck_assert(!gb_job_name_is_good("\xc3\xa4"));
    ck_assert(!gb_job_name_is_good(
        "01234567890123456789012345678901234567890123456789012345678901234"));
}
END_TEST

START_TEST(test_names_of_schedulers)
{
    struct gb_job_name name;

    ck_assert(!gb_job_name_of_scheduler(&name));
    setenv("LSB_JOBID", "7", 1);
    setenv("LSB_JOBINDEX", "0", 1);
    ck_assert(gb_job_name_of_scheduler(&name));
    ck_assert_str_eq(name.text, "lsf-7");
    setenv("LSB_JOBINDEX", "12", 1);
    ck_assert(gb_job_name_of_scheduler(&name));
    ck_assert_str_eq(name.text, "lsf-7_12");
    setenv("PBS_JOBID", "123[4].head/x", 1);
    ck_assert(gb_job_name_of_scheduler(&name));
    ck_assert_str_eq(name.text, "pbs-123_4_.head_x");
    ck_assert(gb_job_name_is_good(name.text));
    setenv("SLURM_JOB_ID", "99", 1);
    ck_assert(gb_job_name_of_scheduler(&name));
    ck_assert_str_eq(name.text, "slurm-99");
    setenv("SLURM_JOB_ID", "", 1);
    ck_assert(gb_job_name_of_scheduler(&name));
    ck_assert_str_eq(name.text, "pbs-123_4_.head_x");
}
END_TEST

START_TEST(test_names_of_processes)
{
    struct gb_job_name one, other;
    char head[32];

    ck_assert(gb_job_name_of_process("run", getpid(), &one));
    ck_assert(gb_job_name_of_process("run", getpid(), &other));
    ck_assert_str_eq(one.text, other.text);
    ck_assert(gb_job_name_is_good(one.text));
    snprintf(head, sizeof(head), "run-%ld-", (long)getpid());
    ck_assert_int_eq(strncmp(one.text, head, strlen(head)), 0);
    ck_assert(!gb_job_name_of_process("run", 0, &other));
}
END_TEST

/* ---- the directory ---- */

static char path[PATH_MAX];

static const char *in_folder(const char *name)
{
    snprintf(path, sizeof(path), "%s/%s", job_folder, name);
    return path;
}

START_TEST(test_directory_is_made)
{
    struct gb_state_dir dir;
    struct stat is;

    umask(0777);
    ck_assert(gb_state_dir_find(in_folder("made"), &dir));
    ck_assert_int_eq(stat(path, &is), 0);
    ck_assert_uint_eq(is.st_mode & 07777, 0700);
    ck_assert(gb_state_dir_find(path, &dir));
    /* Only the last part of its name. */
    ck_assert(!gb_state_dir_find(in_folder("not/there"), &dir));
    ck_assert_str_eq(dir.refused, "does not exist and cannot be made");
}
END_TEST

static void expect_directory_refused(const char *wanted, const char *why)
{
    struct gb_state_dir dir;

    ck_assert(!gb_state_dir_find(wanted, &dir));
    ck_assert_str_eq(dir.refused, why);
}

START_TEST(test_directory_is_refused)
{
    char far_too_long[PATH_MAX + 8];
    int fd;

    expect_directory_refused("relative", "is no absolute path");
    expect_directory_refused("", "is no absolute path");
    memset(far_too_long, '/', sizeof(far_too_long) - 1);
    far_too_long[sizeof(far_too_long) - 1] = '\0';
    expect_directory_refused(far_too_long, "has too long a name");
    ck_assert_int_eq(mkdir(in_folder("open"), 0755), 0);
    ck_assert_int_eq(chmod(path, 0710), 0);
    expect_directory_refused(path, "is open to other users");
    ck_assert_int_eq(symlink(job_folder, in_folder("link")), 0);
    expect_directory_refused(path, "is a link, or no directory");
    fd = open(in_folder("file"), O_CREAT | O_RDWR, 0600);
    ck_assert_int_ge(fd, 0);
    close(fd);
    expect_directory_refused(path, "is a link, or no directory");
    expect_directory_refused("/proc/self", "is a link, or no directory");
    ck_assert_int_eq(mkdir(in_folder("others"), 0700), 0);
    if (geteuid() == 0 && chown(path, 1, 1) == 0)
        expect_directory_refused(path, "belongs to another user");
}
END_TEST

/* ---- the file ---- */

static void expect_file_refused(const char *why)
{
    struct gb_job_file file;

    ck_assert(!gb_job_file_open(&job_dir, &job_name, &file));
    ck_assert_str_eq(file.refused, why);
    ck_assert_ptr_null(file.shared);
}

static void write_file(size_t bytes, const void *begin, size_t length)
{
    int fd = open(in_folder("job.job"), O_CREAT | O_RDWR | O_TRUNC, 0600);

    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(ftruncate(fd, (off_t)bytes), 0);
    ck_assert_int_eq(pwrite(fd, begin, length, 0), (ssize_t)length);
    close(fd);
}

START_TEST(test_file_is_refused)
{
    static char garbage[4096];
    char second[PATH_MAX + 8];
    struct gb_job_head head;
    struct gb_job_file file;
    int fd;

    memset(garbage, 'x', sizeof(garbage));
    write_file(100, "short", 5);
    expect_file_refused("is no ledger of a job");
    write_file(sizeof(struct gb_job_shared), garbage, sizeof(garbage));
    expect_file_refused("is no ledger of a job");
    /* A good one, and then changed. */
    ck_assert_int_eq(unlink(path), 0);
    ck_assert(gb_job_file_open(&job_dir, &job_name, &file));
    memcpy(&head, &file.shared->head, sizeof(head));
    gb_job_file_close(&file);
    head.major++;
    write_file(sizeof(struct gb_job_shared), &head, sizeof(head));
    expect_file_refused("is the ledger of another version");
    head.major--;
    atomic_store(&head.used_slots, GB_JOB_SLOTS + 1);
    write_file(sizeof(struct gb_job_shared), &head, sizeof(head));
    expect_file_refused("is the ledger of another version");
    atomic_store(&head.used_slots, 0);
    write_file(sizeof(struct gb_job_shared) - 1, &head, sizeof(head));
    expect_file_refused("is no ledger of a job");
    write_file(sizeof(struct gb_job_shared), &head, sizeof(head));
    ck_assert(gb_job_file_open(&job_dir, &job_name, &file));
    gb_job_file_close(&file);
    snprintf(second, sizeof(second), "%s.second", path);
    ck_assert_int_eq(link(path, second), 0);
    expect_file_refused("has other names as well");
    ck_assert_int_eq(unlink(second), 0);
    ck_assert_int_eq(chmod(path, 0640), 0);
    expect_file_refused("is open to other users");
    ck_assert_int_eq(unlink(path), 0);
    ck_assert_int_eq(mkdir(path, 0700), 0);
    expect_file_refused("cannot be opened");
    ck_assert_int_eq(rmdir(path), 0);
    ck_assert_int_eq(symlink("second", path), 0);
    expect_file_refused("is a link");
    ck_assert_int_eq(unlink(path), 0);
    /* Half made, by a process that was killed. */
    fd = open(path, O_CREAT | O_RDWR, 0600);
    ck_assert_int_eq(ftruncate(fd, sizeof(struct gb_job_shared)), 0);
    close(fd);
    ck_assert(gb_job_file_open(&job_dir, &job_name, &file));
    gb_job_file_close(&file);
}
END_TEST

START_TEST(test_file_that_is_removed)
{
    struct gb_job *job = job_joined(100), *later;

    ck_assert(!gb_job_file_is_gone(&job->file));
    ck_assert_int_eq(unlink(job->file.path), 0);
    ck_assert(gb_job_file_is_gone(&job->file));
    ck_assert_int_eq(gb_job_file_again(&job->file), -1);
    later = job_joined(100);
    ck_assert(gb_job_file_is_gone(&job->file));
    ck_assert(!gb_job_file_is_gone(&later->file));
    ck_assert_int_eq(gb_job_file_device(&job->file, job_uuid, 100), -1);
    /* Two ledgers for one limit: the first gives out no more. */
    ck_assert(!job_take(job, 1, 0));
    ck_assert(gb_job_is_gone(job));
    ck_assert_uint_eq(gb_job_limit(job, 0), 0);
    ck_assert(job_take(later, 100, 0));
    job_left(job);
    job_left(later);
}
END_TEST

/* Of a later version of the same layout, which uses what is spare here. */
START_TEST(test_spare_is_used)
{
    struct gb_job *job = job_joined(1000), *other;
    struct gb_job_shared *shared = job->file.shared;

    memset(shared->head.spare, 0x5a, sizeof(shared->head.spare));
    memset(shared->device[0].spare, 0x5a, sizeof(shared->device[0].spare));
    for (int i = 0; i < 4; i++)
        memset(shared->slot[i].spare, 0x5a, sizeof(shared->slot[i].spare));
    other = job_joined(1000);
    ck_assert(job_take(job, 600, 0));
    ck_assert(job_take(other, 400, 0));
    ck_assert(!job_take(other, 1, 0));
    job_left(job);
    ck_assert(job_take(other, 600, 0));
    ck_assert_int_eq(other->file.shared->head.spare[0], 0x5a);
    ck_assert_int_eq(other->slot->spare[0], 0x5a);
    job_left(other);
}
END_TEST

START_TEST(test_devices)
{
    struct gb_job *one = job_joined(1000), *other = job_joined(GB_JOB_NO_LIMIT);
    unsigned char uuid[16] = {0};

    ck_assert_uint_eq(gb_job_limit(one, 0), 1000);
    /* Who joins may make it smaller. */
    ck_assert_int_eq(gb_job_file_device(&other->file, job_uuid, 800), 0);
    ck_assert_uint_eq(gb_job_limit(one, 0), 800);
    ck_assert_int_eq(gb_job_file_device(&other->file, job_uuid, 900), 0);
    ck_assert_uint_eq(gb_job_limit(one, 0), 800);
    ck_assert_uint_eq(one->file.shared->device[0].first_limit, 1000);
    for (int i = 1; i < GB_JOB_DEVICES; i++) {
        uuid[0] = (unsigned char)i;
        ck_assert_int_eq(gb_job_file_device(&one->file, uuid, GB_JOB_NO_LIMIT), i);
        ck_assert_int_eq(gb_job_file_device(&other->file, uuid, GB_JOB_NO_LIMIT), i);
    }
    uuid[1] = 1;
    ck_assert_int_eq(gb_job_file_device(&one->file, uuid, GB_JOB_NO_LIMIT), -1);
    job_left(one);
    job_left(other);
}
END_TEST

START_TEST(test_slots)
{
    struct gb_job *jobs[3];

    for (int i = 0; i < 3; i++) {
        jobs[i] = job_joined(1000);
        ck_assert_uint_eq(jobs[i]->place, (unsigned)i);
        ck_assert(job_take(jobs[i], 300, 0));
    }
    ck_assert_uint_eq(gb_job_used(jobs[0], 0), 900);
    ck_assert(!job_take(jobs[2], 101, 0));
    ck_assert(!job_take(jobs[2], UINT64_MAX, 0));
    ck_assert(job_take(jobs[2], 100, 0));
    ck_assert_uint_eq(gb_job_reap(jobs[0]), 0);
    /* Who leaves takes along what it had; its slot is the next one's. */
    job_left(jobs[1]);
    ck_assert_uint_eq(gb_job_used(jobs[0], 0), 700);
    jobs[1] = job_joined(1000);
    ck_assert_uint_eq(jobs[1]->place, 1);
    job_give(jobs[0], 300);
    ck_assert(job_take(jobs[1], 600, 0));
    for (int i = 0; i < 3; i++)
        job_left(jobs[i]);
}
END_TEST

static const char *const no_scheduler[] = {"SLURM_JOB_ID", "PBS_JOBID", "LSB_JOBID"};

int main(void)
{
    const TTest *const tests[] = {test_names,
                                  test_names_of_schedulers,
                                  test_names_of_processes,
                                  test_directory_is_made,
                                  test_directory_is_refused,
                                  test_file_is_refused,
                                  test_file_that_is_removed,
                                  test_spare_is_used,
                                  test_devices,
                                  test_slots};

    for (size_t i = 0; i < COUNT_OF(no_scheduler); i++)
        unsetenv(no_scheduler[i]);
    return unit_run_with("job", tests, COUNT_OF(tests), job_setup, job_teardown);
}
