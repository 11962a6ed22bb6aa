#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "tools/library.h"

#include "tools/elf_file.h"
#include "tools/preload_list.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define FILE_NAME    "libgpubudget.so"
#define PROBE_FAILED 1

#ifndef GB_PKGLIBDIR
#error "GB_PKGLIBDIR: the folder where the library is installed"
#endif

/* The launcher's own folder, and of an uninstalled tree the one that holds .libs. */
static bool own_folder(char *folder, size_t size)
{
    ssize_t length = readlink("/proc/self/exe", folder, size - 1);
    if (length <= 0)
        return false;
    folder[length] = '\0';
    char *slash = strrchr(folder, '/');
    if (!slash)
        return false;
    *slash = '\0';
    size_t left = strlen(folder);
    if (left >= 6 && strcmp(folder + left - 6, "/.libs") == 0)
        folder[left - 6] = '\0';
    return true;
}

static bool choose(char *path, size_t size, char *why, size_t why_size)
{
    char folder[PATH_MAX];
    const char *given = getenv("GPUBUDGET_LIB");
    if (given) {
        char *whole = realpath(given, NULL);
        if (!whole) {
            snprintf(why, why_size, "cannot use GPUBUDGET_LIB=%s: %s", given, strerror(errno));
            return false;
        }
        snprintf(path, size, "%s", whole);
        free(whole);
        return true;
    }
    if (own_folder(folder, sizeof(folder))) {
        int length = snprintf(path, size, "%s/.libs/" FILE_NAME, folder);
        if (length > 0 && (size_t)length < size && access(path, F_OK) == 0)
            return true;
    }
    snprintf(path, size, "%s/" FILE_NAME, GB_PKGLIBDIR);
    if (access(path, F_OK) == 0)
        return true;
    snprintf(why, why_size, "cannot find %s: %s; GPUBUDGET_LIB can name another place", path,
             strerror(errno));
    return false;
}

static bool check_file(const char *path, char *why, size_t why_size)
{
    struct gb_elf_file file;
    const char *fault = NULL;
    /* ld.so takes blanks and colons for separators, and expands $. */
    if (strpbrk(path, " \t\n:$")) {
        snprintf(
            why, why_size,
            "cannot preload %s: LD_PRELOAD cannot hold a path with a blank, \":\" or \"$\"; "
            "install it elsewhere",
            path);
        return false;
    }
    gb_elf_file_read(path, &file);
    switch (file.kind) {
    case GB_ELF_UNREADABLE:
        fault = strerror(errno);
        break;
    case GB_ELF_NOT:
        fault = "it is no shared library";
        break;
    case GB_ELF_BROKEN:
        fault = "the file is damaged or cut short";
        break;
    case GB_ELF_FOREIGN:
        fault = "it is for another kind of machine (ELF class or architecture)";
        break;
    case GB_ELF_NATIVE:
        fault = file.shared ? NULL : "it is no shared library";
        break;
    }
    if (fault)
        snprintf(why, why_size, "cannot preload %s: %s", path, fault);
    return fault == NULL;
}

/* ld.so only warns about what it cannot preload, and the program then runs without a limit. */
static bool try_loading(struct gb_library *library, char *why, size_t why_size)
{
    void *handle = dlopen(library->path, RTLD_NOW | RTLD_LOCAL);
    if (!handle) {
        snprintf(why, why_size, "cannot preload %s", dlerror());
        return false;
    }
    const char *(*version)(void) = (const char *(*)(void))dlsym(handle, "gpubudget_version");
    if (!version) {
        snprintf(why, why_size, "cannot use %s: it is not libgpubudget", library->path);
        return false;
    }
    snprintf(library->version, sizeof(library->version), "%s", version());
    return true;
}

bool gb_library_find(struct gb_library *library, char *why, size_t why_size)
{
    return choose(library->path, sizeof(library->path), why, why_size) &&
           check_file(library->path, why, why_size) && try_loading(library, why, why_size);
}

bool gb_library_probe(const char *path, const char *preload, char *why, size_t why_size)
{
    struct gb_elf_file self;
    int status = -1;
    /* This launcher's own sanitizer runtime, in a build that has one. */
    gb_elf_file_read("/proc/self/exe", &self);
    char *list = gb_preload_list(path, &self, preload);
    pid_t child = list ? fork() : -1;
    if (child == 0) {
        if (setenv("LD_PRELOAD", list, 1) == 0)
            execl("/proc/self/exe", "gpubudget-run", GB_LIBRARY_PROBE_OPTION, path,
                  (char *)NULL);
        _exit(PROBE_FAILED);
    }
    free(list);
    while (child > 0 && waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
    if (child > 0 && status == 0)
        return true;
    snprintf(why, why_size, "%s was preloaded into a trial process, but is not in force there",
             path);
    return false;
}

int gb_library_answer_probe(const char *path)
{
    Dl_info info;
    void *version = dlsym(RTLD_DEFAULT, "gpubudget_version");
    if (!version || !dladdr(version, &info) || !info.dli_fname)
        return PROBE_FAILED;
    char *loaded = realpath(info.dli_fname, NULL);
    char *wanted = realpath(path, NULL);
    bool same = loaded && wanted && strcmp(loaded, wanted) == 0;
    free(loaded);
    free(wanted);
    return same ? EXIT_SUCCESS : PROBE_FAILED;
}
