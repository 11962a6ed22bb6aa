#include "report/log.h"

#include "config/settings.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define PREFIX     "gpubudget: "
#define PATH_SIZE  1024
#define WRITE_MOST 16 /* attempts for one line: a slow terminal must not hold the program */
#define WAIT_MOST  1  /* seconds for a pipe that is full or a terminal that is stopped */

/* gb_log_setup; written once before any thread logs. */
static bool given;
static enum gb_log_level given_level;
static const char *given_file = "";

static _Atomic bool complained; /* about a file that cannot be opened or written */
static _Atomic bool stuck;      /* the last line waited in vain: the next does not wait */

static enum gb_log_level log_level(void)
{
    return given ? given_level : gb_settings()->log_level;
}

static const char *log_file(void)
{
    return given ? given_file : gb_settings()->log_file;
}

void gb_log_setup(enum gb_log_level level, const char *file)
{
    given_level = level;
    given_file = file;
    given = true;
}

bool gb_log_on(enum gb_log_level level)
{
    return level != GB_LOG_QUIET && level <= log_level();
}

/*
 * May be written to without waiting: our program must not stand still because nobody reads its
 * stderr. A pipe that says so takes a whole line. False with EAGAIN after the wait.
 */
static bool is_ready(int file)
{
    struct pollfd one = {.fd = file, .events = POLLOUT};
    struct timespec most = {.tv_sec = atomic_load(&stuck) ? 0 : WAIT_MOST};
    long count = syscall(SYS_ppoll, &one, 1UL, &most, NULL, (size_t)(_NSIG / 8));

    if (count == 0) {
        atomic_store(&stuck, true);
        errno = EAGAIN;
        return false;
    }
    /* Where it cannot be asked (an error, a signal) the write itself tells. */
    if (count > 0)
        atomic_store(&stuck, false);
    return true;
}

/*
 * System calls are made by number: no cancellation point in the middle of the program's call,
 * and no second interposer on open or write sees our lines.
 */
static bool write_all(int file, const char *text, size_t length)
{
    for (int i = 0; i < WRITE_MOST && length > 0; i++) {
        if (!is_ready(file))
            return false;
        long written = syscall(SYS_write, file, text, length);
        if (written < 0 && errno != EINTR)
            return false;
        if (written > 0) {
            text += written;
            length -= (size_t)written;
        }
    }
    return length == 0;
}

/*
 * A reader that has gone must not end the program by a signal that only our line has caused.
 * Answers 0, or why the line is not all written.
 */
static int write_guarded(int file, const char *text, size_t length)
{
    sigset_t guard, before, pending;
    sigemptyset(&guard);
    sigaddset(&guard, SIGPIPE);
    sigaddset(&guard, SIGXFSZ);
    sigemptyset(&pending);
    sigpending(&pending);
    bool blocked = sigprocmask(SIG_BLOCK, &guard, &before) == 0; /* this thread's, in glibc */
    errno = EIO;
    int code = write_all(file, text, length) ? 0 : errno;
    if (blocked && (code == EPIPE || code == EFBIG)) {
        sigset_t raised;
        struct timespec none = {0, 0};
        int signal = code == EPIPE ? SIGPIPE : SIGXFSZ;
        sigemptyset(&raised);
        sigaddset(&raised, signal);
        if (!sigismember(&pending, signal))
            syscall(SYS_rt_sigtimedwait, &raised, NULL, &none, (size_t)(_NSIG / 8));
    }
    if (blocked)
        sigprocmask(SIG_SETMASK, &before, NULL);
    return code;
}

/* The file's name with %p, %h and %% replaced. false where it does not fit. */
static bool expand(const char *file, char *path, size_t size)
{
    struct gb_line line;
    char host[65] = "";
    gb_line_begin(&line, path, size);
    for (; *file; file++) {
        if (*file != '%' || file[1] == '\0') {
            char character[2] = {*file, '\0'};
            gb_line_text(&line, character);
            continue;
        }
        file++;
        if (*file == 'p')
            gb_line_number(&line, (uint64_t)getpid());
        else if (*file == 'h' && gethostname(host, sizeof(host) - 1) == 0)
            gb_line_text(&line, host);
        else if (*file == '%')
            gb_line_text(&line, "%");
    }
    return !line.cut;
}

/*
 * Opened for each line: a handle kept open would one day be the program's own file, in programs
 * that close everything and open anew. O_NONBLOCK: a FIFO without a reader must not hold us.
 */
static int open_file(const char *file)
{
    char path[PATH_SIZE];
    if (!expand(file, path, sizeof(path))) {
        errno = ENAMETOOLONG;
        return -1;
    }
    return (int)syscall(SYS_openat, AT_FDCWD, path,
                        O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOCTTY | O_NONBLOCK,
                        0600);
}

/* In strerror's words, which itself may allocate and take locks; NULL for a rare one. */
static const char *words_of(int code)
{
    switch (code) {
    case EACCES:
        return "Permission denied";
    case EAGAIN:
        return "Resource temporarily unavailable";
    case EDQUOT:
        return "Disk quota exceeded";
    case EFBIG:
        return "File too large";
    case EIO:
        return "Input/output error";
    case EISDIR:
        return "Is a directory";
    case ELOOP:
        return "Too many levels of symbolic links";
    case EMFILE:
        return "Too many open files";
    case ENAMETOOLONG:
        return "File name too long";
    case ENOENT:
        return "No such file or directory";
    case ENOSPC:
        return "No space left on device";
    case ENOTDIR:
        return "Not a directory";
    case ENXIO:
        return "No such device or address";
    case EPERM:
        return "Operation not permitted";
    case EPIPE:
        return "Broken pipe";
    case EROFS:
        return "Read-only file system";
    default:
        return NULL;
    }
}

static void complain(const char *what, const char *file, int code)
{
    struct gb_log_line log;
    if (atomic_exchange(&complained, true))
        return;
    gb_log_begin(&log);
    gb_line_text(&log.line, what);
    gb_line_text(&log.line, " the log file \"");
    gb_line_quote(&log.line, file, 256);
    gb_line_text(&log.line, "\": ");
    if (words_of(code)) {
        gb_line_text(&log.line, words_of(code));
    } else {
        gb_line_text(&log.line, "error ");
        gb_line_signed(&log.line, code);
    }
    gb_line_text(&log.line, "; writing to stderr\n");
    write_guarded(STDERR_FILENO, log.buffer, log.line.length);
}

void gb_log_begin(struct gb_log_line *log)
{
    /* One character is kept back for the newline. */
    gb_line_begin(&log->line, log->buffer, sizeof(log->buffer) - 1);
    gb_line_text(&log->line, PREFIX);
}

void gb_log_write(enum gb_log_level level, struct gb_log_line *log)
{
    if (!gb_log_on(level))
        return;
    int saved = errno;
    size_t length = log->line.length;
    if (log->line.cut && length >= 3)
        memcpy(log->buffer + length - 3, "...", 3);
    log->buffer[length++] = '\n';

    const char *file = log_file();
    int handle = STDERR_FILENO;
    if (file[0]) {
        handle = open_file(file);
        if (handle < 0) {
            complain("cannot open", file, errno);
            handle = STDERR_FILENO;
        }
    }
    int code = write_guarded(handle, log->buffer, length);
    if (handle != STDERR_FILENO) {
        syscall(SYS_close, handle);
        if (code != 0) {
            complain("cannot write", file, code);
            write_guarded(STDERR_FILENO, log->buffer, length);
        }
    }
    errno = saved;
}

void gb_log_text(enum gb_log_level level, const char *text)
{
    struct gb_log_line log;
    if (!gb_log_on(level))
        return;
    gb_log_begin(&log);
    gb_line_text(&log.line, text);
    gb_log_write(level, &log);
}
