/*
 * stat.h: what a file is.
 */
#ifndef GB_JOB_STAT_H
#define GB_JOB_STAT_H

#include <fcntl.h>
#include <stdbool.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/*
 * By number: the C library's own functions are names of version 2.33 where it is built with a
 * newer one, and older ones have no such names. On the processors we know the kernel's struct
 * is the C library's.
 */
static inline bool gb_stat(int fd, struct stat *is)
{
    return syscall(SYS_newfstatat, fd, "", is, AT_EMPTY_PATH) == 0;
}

/* Of a name, whose last part may be a link: that is looked at itself. */
static inline bool gb_stat_name(const char *path, struct stat *is)
{
    return syscall(SYS_newfstatat, AT_FDCWD, path, is, AT_SYMLINK_NOFOLLOW) == 0;
}

#endif
