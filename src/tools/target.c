#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "tools/target.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#define SCRIPT_DEPTH 4 /* the kernel's own bound on interpreters of interpreters */
#define FIRST_LINE   256

/* Is `path` something that execve would start? errno as execve would set it. */
static bool executable(const char *path)
{
    struct stat status;
    if (stat(path, &status) != 0)
        return false;
    if (!S_ISREG(status.st_mode)) {
        errno = EACCES;
        return false;
    }
    return faccessat(AT_FDCWD, path, X_OK, AT_EACCESS) == 0;
}

/* Fills path, or returns false with errno: EACCES where something was there. */
static bool search(const char *command, char *path, size_t size)
{
    if (strchr(command, '/')) {
        snprintf(path, size, "%s", command);
        return executable(path);
    }
    const char *folders = getenv("PATH");
    if (!folders)
        folders = "/bin:/usr/bin";
    int code = ENOENT;
    for (const char *folder = folders; *command;) {
        size_t length = strcspn(folder, ":");
        int printed = snprintf(path, size, "%.*s%s%s", (int)length, folder,
                               length > 0 ? "/" : "", command);
        if (printed > 0 && (size_t)printed < size && executable(path))
            return true;
        if (errno == EACCES)
            code = EACCES;
        if (folder[length] == '\0')
            break;
        folder += length + 1;
    }
    snprintf(path, size, "%s", command);
    errno = code;
    return false;
}

/* Programs for which the kernel asks ld.so for secure execution, which drops LD_PRELOAD. */
static bool privileged(const char *path, char *why, size_t why_size)
{
    struct stat status;
    const char *what = NULL;
    if (stat(path, &status) == 0 && status.st_mode & S_ISUID)
        what = "is set-user-id";
    else if (stat(path, &status) == 0 && status.st_mode & S_ISGID && status.st_mode & S_IXGRP)
        what = "is set-group-id";
    else if (getxattr(path, "security.capability", NULL, 0) > 0)
        what = "has file capabilities";
    if (what)
        snprintf(why, why_size,
                 "%s %s: such a program drops LD_PRELOAD, so no limit reaches it", path, what);
    return what != NULL;
}

/* The interpreter of "#!/path argument", /bin/sh for a text without one, as execvp does. */
static bool script_interpreter(const char *path, char *interpreter, size_t size)
{
    char line[FIRST_LINE] = "";
    int handle = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (handle < 0)
        return false;
    ssize_t length = read(handle, line, sizeof(line) - 1);
    close(handle);
    if (length < 2 || memcmp(line, "#!", 2) != 0) {
        snprintf(interpreter, size, "/bin/sh");
        return true;
    }
    line[strcspn(line, "\n")] = '\0';
    const char *start = line + 2 + strspn(line + 2, " \t");
    snprintf(interpreter, size, "%.*s", (int)strcspn(start, " \t"), start);
    return interpreter[0] != '\0';
}

static enum gb_target_verdict judge_native(const char *path, const struct gb_elf_file *elf,
                                           char *why, size_t why_size)
{
    if (elf->interpreter[0] == '\0') {
        snprintf(why, why_size, "%s is statically linked: no limit reaches it", path);
        return GB_TARGET_DOUBTFUL;
    }
    if (strstr(elf->interpreter, "/ld-musl")) {
        snprintf(why, why_size, "%s uses musl: a library made for glibc does not reach it",
                 path);
        return GB_TARGET_DOUBTFUL;
    }
    return GB_TARGET_GOOD;
}

static enum gb_target_verdict judge(const char *path, struct gb_elf_file *elf, int depth,
                                    char *why, size_t why_size)
{
    char interpreter[PATH_MAX];
    gb_elf_file_read(path, elf);
    switch (elf->kind) {
    case GB_ELF_UNREADABLE:
        snprintf(why, why_size, "cannot read %s to see whether the limit reaches it: %s", path,
                 strerror(errno));
        return privileged(path, why, why_size) ? GB_TARGET_HOPELESS : GB_TARGET_DOUBTFUL;
    case GB_ELF_FOREIGN:
        snprintf(why, why_size,
                 "%s is for another kind of machine (ELF class or architecture) than the "
                 "library: no limit reaches it",
                 path);
        return GB_TARGET_HOPELESS;
    case GB_ELF_NATIVE:
        if (privileged(path, why, why_size))
            return GB_TARGET_HOPELESS;
        return judge_native(path, elf, why, why_size);
    case GB_ELF_BROKEN:
        snprintf(why, why_size, "%s is a damaged program", path);
        return GB_TARGET_DOUBTFUL;
    case GB_ELF_NOT:
        break;
    }
    /* The kernel ignores set-user-id on a script; only its interpreter counts. */
    if (depth == SCRIPT_DEPTH || !script_interpreter(path, interpreter, sizeof(interpreter)))
        return GB_TARGET_GOOD; /* execvp will say what is wrong with it */
    return judge(interpreter, elf, depth + 1, why, why_size);
}

enum gb_target_verdict gb_target_check(const char *command, struct gb_target *target, char *why,
                                       size_t why_size)
{
    memset(target, 0, sizeof(*target));
    why[0] = '\0';
    if (!search(command, target->path, sizeof(target->path))) {
        int code = errno;
        snprintf(why, why_size, "cannot run \"%s\": %s", command, strerror(code));
        return code == ENOENT ? GB_TARGET_NOT_FOUND : GB_TARGET_NOT_EXECUTABLE;
    }
    return judge(target->path, &target->elf, 0, why, why_size);
}
