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

bool gb_job_clean(const struct gb_state_dir *dir, const struct gb_job_name *name)
{
    struct gb_job_file file;
    int fd = gb_job_file_find(dir, name, true, &file);
    bool removed = false;

    if (fd < 0)
        return false;
    /* With all slots' locks nobody lives in it, and nobody begins to. */
    if (gb_job_file_lock_header(fd)) {
        removed =
            gb_job_file_lock_all(fd) && !gb_job_file_is_gone(&file) && unlink(file.path) == 0;
        gb_job_file_unlock_header(fd);
    }
    gb_job_file_close(&file);
    close(fd);
    return removed;
}

static bool is_of_one(const char *name)
{
    return strncmp(name, "pid-", 4) == 0 || strncmp(name, "run-", 4) == 0;
}

void gb_job_clean_some(const struct gb_state_dir *dir, unsigned most)
{
    DIR *files = opendir(dir->path);
    struct dirent *entry;
    struct gb_job_name name;

    while (files && most > 0 && (entry = readdir(files))) {
        if (!is_of_one(entry->d_name) || !gb_job_clean_name(entry->d_name, &name))
            continue;
        gb_job_clean(dir, &name);
        most--;
    }
    if (files)
        closedir(files);
}
