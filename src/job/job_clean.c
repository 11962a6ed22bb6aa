#include "job/job_clean.h"

#include <dirent.h>
#include <string.h>
#include <unistd.h>

static const char ending[] = ".job";

bool gb_job_clean_name(const char *file, struct gb_job_name *name)
{
    size_t length = strlen(file), tail = sizeof(ending) - 1;

    if (length <= tail || length - tail > GB_JOB_NAME_MOST ||
        strcmp(file + length - tail, ending) != 0)
        return false;
    memcpy(name->text, file, length - tail);
    name->text[length - tail] = '\0';
    return gb_job_name_is_good(name->text);
}

/* One whose maker was killed, or had no room on its disk, is made first. */
static int find(const struct gb_state_dir *dir, const struct gb_job_name *name,
                struct gb_job_file *file)
{
    int fd = gb_job_file_find(dir, name, true, file);

    if (fd >= 0 || file->refused != gb_job_file_unmade || !gb_job_file_open(dir, name, file))
        return fd;
    gb_job_file_close(file);
    return gb_job_file_find(dir, name, true, file);
}

bool gb_job_clean(const struct gb_state_dir *dir, const struct gb_job_name *name)
{
    struct gb_job_file file;
    int fd = find(dir, name, &file);
    bool removed = false;

    if (fd < 0)
        return false;
    /* Who has the header just now is about to join. With all slots' locks nobody lives in it,
     * and nobody begins to. */
    if (gb_job_file_try_header(fd)) {
        removed =
            gb_job_file_lock_all(fd) && !gb_job_file_is_gone(&file) && unlink(file.path) == 0;
        gb_job_file_unlock_header(fd);
    }
    gb_job_file_close(&file);
    close(fd);
    return removed;
}

/* The next one that nobody comes back to; false: there is none from here on. */
static bool next_of_one(DIR *files, struct gb_job_name *name)
{
    struct dirent *entry;

    while ((entry = readdir(files)))
        if ((strncmp(entry->d_name, "pid-", 4) == 0 ||
             strncmp(entry->d_name, "run-", 4) == 0) &&
            gb_job_clean_name(entry->d_name, name))
            return true;
    return false;
}

void gb_job_clean_some(const struct gb_state_dir *dir, unsigned most)
{
    DIR *files = opendir(dir->path);
    struct gb_job_name name;
    unsigned count = 0, skipped = 0;

    if (!files)
        return;
    while (next_of_one(files, &name))
        count++;
    rewinddir(files);
    /* From another one on each time: the first few may be of processes that live for long. */
    if (count > most)
        skipped = (unsigned)getpid() % (count - most + 1);
    for (unsigned i = 0; i < skipped + most && next_of_one(files, &name); i++)
        if (i >= skipped)
            gb_job_clean(dir, &name);
    closedir(files);
}
